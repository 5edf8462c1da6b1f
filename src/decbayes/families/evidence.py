"""How much many sites' contributions have taught, of all of them at once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

from decbayes.families.matrices import Array, Contribution, Indices, dense

if TYPE_CHECKING:
    from decbayes.families.family import Family


Orders = Sequence[Indices] | None
"""Of each site the order of its components; None where it is that of the contributions."""


def stacked(contributions: Sequence[Contribution], orders: Orders) -> Array:
    """(sites, K, d)."""
    together = np.array([dense(each) for each in contributions])
    return together if orders is None else np.take_along_axis(together, np.array(orders)[:, :, None], axis=1)


def row_informations(family: "Family", prior: Array, contributions: Array) -> Array:
    """KL(q_λ ‖ q_λ0) = Σ_k A_k(λ0) − A_k(λ) − ⟨λ0_k − λ_k, ∇A_k(λ)⟩, where no row has a part in another's term."""
    natural = prior + contributions
    inside = family.contains_rows(by_row(natural)).reshape(natural.shape[:2]).all(axis=1)
    there = natural[inside]
    after = family.row_terms(by_row(there)).reshape(there.shape[:2])
    slope = family.mean(by_row(there)).reshape(there.shape)
    told = np.zeros(len(natural))
    told[inside] = (family.row_terms(prior) - after - ((prior - there) * slope).sum(axis=2)).sum(axis=1)
    return told


def singly(family: "Family", prior: Array, contributions: Sequence[Contribution], orders: Orders) -> Array:
    """The same, one site after another."""
    pairs = zip(contributions, [None] * len(contributions) if orders is None else orders, strict=True)
    sites = [family.rows(each, order) for each, order in pairs]
    inside = [bool(family.contains_sum(prior, rows).all()) for rows in sites]
    defined = zip(sites, inside, strict=True)
    return np.array([family.information(prior, rows) if there else 0.0 for rows, there in defined])


def weight_informations(prior: Array, contributions: Array) -> Array:
    """The same of one Dirichlet over all rows, whose columns are α − 1."""
    before = prior[:, 0] + 1.0
    alpha = before + contributions[:, :, 0]
    inside = (alpha > 0.0).all(axis=1)
    there = alpha[inside]
    sums = there.sum(axis=1)
    heights = gammaln(before).sum() - gammaln(before.sum()) - gammaln(there).sum(axis=1) + gammaln(sums)
    told = np.zeros(len(alpha))
    told[inside] = heights - ((before - there) * (digamma(there) - digamma(sums)[:, None])).sum(axis=1)
    return told


def by_row(natural: Array) -> Array:
    return natural.reshape(-1, natural.shape[-1])
