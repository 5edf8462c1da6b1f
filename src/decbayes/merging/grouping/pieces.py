"""Pieces that mix several classes: their counts are divided among the slots, so that slots become purer.

A small site cannot tell all classes apart, and about four in ten rows of its pieces are of other classes than the most
common one. Whole pieces would blur every slot. So a piece p is read as topics read a document, as a mixture of classes:

    n_p ~ Σ_k w_pk θ_k,   w_p ~ Dirichlet(SPARSE, …, SPARSE)

Variational Bayes finds w and θ, starting from the slots of whole pieces. The rows of a piece are together because they
are alike, so pieces differ more than their classes do. Without what is ADDED, slots would drift apart until they fit
that, too.
"""

import numpy as np
from scipy.special import digamma, softmax

from decbayes.families import Array
from decbayes.merging.base.components import Components
from decbayes.merging.base.division import Division
from decbayes.merging.base.problem import Slots
from decbayes.structure import identity

# Prior of the shares of a piece: below one, as few classes share it.
SPARSE = 0.1
# Each slot has, in addition to its own counts, this share of those of an average slot.
ADDED = 0.08
# Initial share of a piece in its slot; the rest is spread evenly.
KEPT = 0.7
PASSES = 100


def divided_pieces(components: Components, labels: Slots, slots: int) -> Division | None:
    """Shares and profiles after the last pass; None unless all columns are yes/no or categorical, and pieces count."""
    counts = np.hstack([rows.written_out() for rows in components.rows])
    families = [factor.family for factor in components.factors]
    if not all(family.categorical for family in families) or counts.min() < 0.0:
        return None
    widths = [factor.prior.shape[1] for factor in components.factors]
    prior = np.hstack([factor.prior[:1] for factor in components.factors])
    added = prior + ADDED / slots * counts.sum(axis=0)

    def profiles_of(received: Array) -> Array:
        """exp E[log θ], (slots, columns)."""
        parts = zip(families, np.split(added + received, np.cumsum(widths)[:-1], axis=1), strict=True)
        return np.exp(np.hstack([family.expected_statistics(part) for family, part in parts]))

    whole = np.eye(slots)[np.concatenate(labels)]
    given = counts.sum(axis=1, keepdims=True) * (KEPT * whole + (1.0 - KEPT) / slots)
    shares, profiles = shares_of(given), profiles_of(whole.T @ counts)
    for _ in range(PASSES):
        ratio = counts / (shares @ profiles)
        shares, profiles = shares_of(shares * (ratio @ profiles.T)), profiles_of(profiles * (shares.T @ ratio))
    ends = np.cumsum([len(site_labels) for site_labels in labels])[:-1]
    return Division(tuple(np.split(shares, ends)), np.ascontiguousarray(profiles.T), identity(slots))


def shares_of(given: Array) -> Array:
    """exp E[log w], (pieces, slots), normalised, from the counts that each piece gives to each slot."""
    return np.asarray(softmax(digamma(SPARSE + given), axis=1))
