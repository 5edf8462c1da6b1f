"""Forgetting: how much of the earlier evidence still holds for new data, component by component.

The prior of new data is λ0 + ρ c, where c is the contribution of all earlier data and ρ, between 0 and 1, is given or
learned. The contribution c′ of the new data determines how probable each ρ is,

    log p(c′ | ρ) = A(λ0 + ρ c + c′) − A(λ0 + ρ c) + constant,

the evidence of the new data given that prior. The prior of ρ is a truncated exponential distribution, p(ρ) ∝ exp(KEEP
ρ). We use its posterior mean: near 1 for a component whose new data agree with the earlier ones, near 0 for one that
has changed.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from scipy.special import softmax

from decbayes.base.arguments import check_kind, is_number
from decbayes.errors import StructureMismatch
from decbayes.families import Array, Family, dense
from decbayes.merging.base.lineage import follow, ids_of
from decbayes.merging.base.products import weighted
from decbayes.posterior import Posterior

Forgetting = float | Literal["learn"] | None
"""The share to forget from one epoch to the next, or "learn"; None to forget nothing."""

# The grid of ρ, denser near 0 and 1.
GRID = np.sin(0.5 * np.pi * np.linspace(0.0, 1.0, 41)) ** 2

# Prior log-odds in nats for keeping everything rather than nothing.
KEEP = 5.0

Kept = Mapping[str, Array]
"""ρ of each row of each factor."""


def forget(posterior: Posterior, forgetting: Forgetting, *, new: Posterior | None = None) -> Posterior:
    """The posterior after forgetting part of its evidence, as the prior of new data in a changing world.

    Args:
        posterior: the posterior of the earlier data.
        forgetting: the share to forget, from 0 to below 1; "learn" finds it for each component.
        new: for "learn", the posterior of the new data, in the same slots (fitted with `start=posterior`, for example).

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> known = model.fit(np.full((10, 1), 3.0)).posterior
    >>> left = db.streams.forget(known, 0.5)
    >>> left == model.fit(np.full((5, 1), 3.0)).posterior
    True
    """
    check_kind(Posterior, posterior=posterior)
    if checked_forgetting(forgetting) != "learn":
        return weighted(posterior, all_kept(posterior, 1.0 - float(forgetting or 0.0)))
    check_kind(Posterior, new=new)
    assert new is not None
    if new.structure.description() != posterior.structure.description():
        raise StructureMismatch(
            f"The new data belong to {new.structure}, the earlier posterior to {posterior.structure}."
        )
    return weighted(posterior, learned_shares(posterior, new))


def checked_forgetting(forgetting: Any) -> Forgetting:
    if forgetting is None or (isinstance(forgetting, str) and forgetting == "learn"):
        return "learn" if forgetting else None
    if not is_number(forgetting) or not 0.0 <= forgetting < 1.0:
        raise ValueError(f"forgetting must be a share from 0 to below 1, or 'learn'; not {forgetting!r}.")
    return float(forgetting)


def all_kept(posterior: Posterior, share: float) -> Kept:
    """The same share for every row."""
    return {name: np.full(prior.shape[0], share) for name, prior in posterior.structure.prior.items()}


def learned_shares(earlier: Posterior, added: Posterior) -> Kept:
    """E[ρ] of each row, given the new data's contribution in the same slots; all weights share one value."""
    return {
        name: kept_shares(family, earlier.structure.prior[name], earlier.contribution[name], added.contribution[name])
        for name, family in earlier.structure.families.items()
    }


def kept_shares(family: Family, prior: Array, earlier: Any, added: Any) -> Array:
    """(K,): E[ρ] of each row. A row without new data is kept."""
    before, new = dense(earlier), dense(added)
    log_evidence = np.array(
        [terms(family, prior + share * before + new) - terms(family, prior + share * before) for share in GRID]
    )
    weights = softmax(log_evidence + KEEP * GRID[:, None], axis=0) * spacing()[:, None]
    mean = (GRID @ weights) / weights.sum(axis=0)
    unseen = np.broadcast_to(~new.any(axis=1) if not family.over_components else ~new.any(), mean.shape)
    return np.broadcast_to(np.where(unseen, 1.0, mean), len(before)).copy()


def terms(family: Family, natural: Array) -> Array:
    """A(λ) of each row, or of all rows together if they are one distribution."""
    if family.over_components:
        return np.array([family.log_partition(natural)])
    return family.row_terms(natural)


def spacing() -> Array:
    """The part of [0, 1] that each grid value represents."""
    edges = np.concatenate([[0.0], 0.5 * (GRID[1:] + GRID[:-1]), [1.0]])
    return np.diff(edges)


def followed(previous: Posterior, posterior: Posterior) -> Posterior:
    """The posterior with the ids of an earlier one; a component that has changed completely gets a new id."""
    if len(posterior.structure.symmetry) != 1 or not posterior.structure.resizable:
        return posterior
    if not any(ids_of(previous)):
        return Posterior(posterior.structure, dict(posterior.contribution), ids_of(posterior))
    return follow(previous, posterior).posterior
