"""Pieces that mix several classes: their counts are divided among the slots, so that slots become purer.

A small site cannot tell all classes apart, and about four in ten rows of its pieces are of other classes than the most
common one. Whole pieces would blur every slot. So a piece p is read as topics read a document, as a mixture of classes:

    n_p ~ Σ_k w_pk θ_k,   w_p ~ Dirichlet(SPARSE, …, SPARSE)

Variational Bayes finds w and θ, starting from the slots of whole pieces. The rows of a piece are together because they
are alike, so pieces differ more than their classes do. Without what is ADDED, slots would drift apart until they fit
that, too. The variational bound also says how many slots are worth having: whole pieces blur that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from decbayes.families import Array, Family
from decbayes.families.matrices import Indices
from decbayes.merging.base.components import Components
from decbayes.merging.base.division import Division
from decbayes.merging.base.problem import Problem, Slots
from decbayes.merging.grouping.joins import grown_labels
from decbayes.merging.grouping.number import SWEEPS, sampling_noise, searchable
from decbayes.merging.grouping.search import SlotSearch
from decbayes.structure import identity

# Prior of the shares of a piece, for all slots together: few classes share it.
SPARSE = 1.0
# Each slot has, in addition to its own counts, this share of those of an average slot.
ADDED = 0.08
# Initial share of a piece in its slot; the rest is spread evenly.
KEPT = 0.7
PASSES = 100
# A further slot must raise the bound by more than this multiple of the noise of one piece: pieces differ more than
# their classes do, and a slot too many gains about half as much by that.
WORTH = 1.1
# Slots to try in addition to the first estimate. Fewer are not tried: too few cost much more than too many.
ABOVE = 3


def divided_pieces(components: Components, labels: Slots, slots: int) -> Division | None:
    """Shares and profiles after the last pass; None unless all columns are yes/no or categorical, and pieces count."""
    pieces = Pieces.of(components)
    if pieces is None:
        return None
    shares, profiles, _ = pieces.climbed(np.concatenate(labels), slots)
    ends = np.cumsum([len(site_labels) for site_labels in labels])[:-1]
    return Division(tuple(np.split(shares, ends)), np.ascontiguousarray(profiles.T), identity(slots))


def worthwhile_slots(problem: Problem, first: int) -> int:
    """A first estimate, raised to the number of slots into which pieces are best divided, if they can be."""
    components = searchable(Components.in_problem(problem))
    pieces, price = Pieces.of(components), WORTH * sampling_noise(components)
    if pieces is None:
        return first

    def height(slots: int) -> float:
        base = components.bases(slots)
        search = SlotSearch(components, grown_labels(components, base, slots), base, slots)
        search.moves(SWEEPS)
        return pieces.climbed(search.labels, slots)[-1] - price * slots

    return max(range(first, min(first + ABOVE, len(components)) + 1), key=height, default=first)


@dataclass(frozen=True)
class Pieces:
    """Counts of pieces, (pieces, columns), with the families, the columns and the prior of their factors."""

    counts: Array
    families: tuple[Family, ...]
    ends: Indices
    prior: Array

    @classmethod
    def of(cls, components: Components) -> "Pieces | None":
        """None unless all columns are yes/no or categorical, and no piece subtracts evidence."""
        families = tuple(factor.family for factor in components.factors)
        counts = np.hstack([rows.written_out() for rows in components.rows])
        if not all(family.categorical for family in families) or counts.min() < 0.0:
            return None
        priors = [factor.prior[:1] for factor in components.factors]
        return cls(counts, families, np.cumsum([prior.shape[1] for prior in priors])[:-1], np.hstack(priors))

    def climbed(self, labels: Indices, slots: int) -> tuple[Array, Array, float]:
        """Shares, (pieces, slots), profiles, (slots, columns), and the bound, starting from slots of whole pieces."""
        sparse, added = SPARSE / slots, self.prior + ADDED / slots * self.counts.sum(axis=0)
        whole = np.eye(slots)[labels]
        given = self.counts.sum(axis=1, keepdims=True) * (KEPT * whole + (1.0 - KEPT) / slots)
        received = whole.T @ self.counts
        for number in range(PASSES + 1):
            alpha = sparse + given
            log_shares = digamma(alpha) - digamma(alpha.sum(axis=1, keepdims=True))
            log_profiles = self._expected(added + received)
            shares, profiles = np.exp(log_shares), np.exp(log_profiles)
            mixed = shares @ profiles
            if number == PASSES:
                break
            ratio = self.counts / mixed
            given, received = shares * (ratio @ profiles.T), profiles * (shares.T @ ratio)
        # log p(n) ≥ Σ n log Σ_k e^(E log w_k + E log θ_k) − KL(q(w) ‖ p(w)) − KL(q(θ) ‖ p(θ))
        bound = (self.counts * np.log(mixed)).sum() - (given * log_shares).sum() - (received * log_profiles).sum()
        bound += (gammaln(alpha) - gammaln(sparse)).sum() - (gammaln(alpha.sum(axis=1)) - gammaln(SPARSE)).sum()
        bound += (self._terms(added + received) - self._terms(added)).sum()
        return shares / shares.sum(axis=1, keepdims=True), profiles, float(bound)

    def _expected(self, natural: Array) -> Array:
        return np.hstack([family.expected_statistics(part) for family, part in self._parts(natural)])

    def _terms(self, natural: Array) -> Array:
        return np.asarray(sum(family.row_terms(part) for family, part in self._parts(natural)))

    def _parts(self, natural: Array) -> Iterator[tuple[Family, Array]]:
        return zip(self.families, np.split(natural, self.ends, axis=1), strict=True)
