"""A merge on which a minority of faulty sites has little influence, whatever they send.

Four bounds, in this order. Copies of one posterior count once. No site counts for more than `cap` times the middle one.
A component that disagrees with the others of its slot by d nats counts for min(1, patience / d); for counts of words
the patience grows with how much components disagree usually. And a component that few sites know takes no slot away
from those that more sites know (`settling.py`).

The price is small where all are honest. It cannot help against what more sites claim than deny, or against moving a
little only. Nobody is dropped: each site's weight in each slot is told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from decbayes.families import Array
from decbayes.merging.aligning import aligned
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.components import group_evidence, groups_of
from decbayes.merging.base.coupled import as_sequence
from decbayes.merging.base.problem import OnMatch, Solver
from decbayes.merging.base.products import scaled
from decbayes.merging.robust._slots import Settling
from decbayes.merging.robust.weights import Robust
from decbayes.posterior import Posterior

# Posteriors that differ by less, relative to their size, are copies of one another.
SAME = 1e-9


def as_robust(robust: Robust | bool) -> Robust:
    """The rule itself, or the usual one for True."""
    return robust if isinstance(robust, Robust) else Robust()


@dataclass(frozen=True)
class RobustMerge:
    """A robust merge.

    Attributes:
        posterior: the merged posterior.
        weights: sites × slots, how much of each site's evidence counts there, from 0 to 1.

    >>> model = db.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in (0.0, 0.1, -0.1, 0.05, 6.0)]
    >>> db.merging.robust_merge(sites).weights.shape
    (5, 1)
    """

    posterior: Posterior
    weights: Array


def robust_merge(
    posteriors: Iterable[Posterior],
    robust: Robust | None = None,
    *,
    solver: Solver | str | None = None,
    progress: OnMatch | None = None,
) -> RobustMerge:
    """Merge with bounded influence of every site, and see how much of each site was used, slot by slot.

    Args:
        posteriors: one per site, of one structure, numbers of components included.
        robust: how much one site may move the merge. Default: `Robust()`.
        solver: how to align, an object of `db.solvers` or its name.
        progress: called without arguments whenever one more site was matched.

    >>> model = db.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> sites = [model.fit(np.full((20, 1), mean)).posterior for mean in (0.0, 0.1, -0.1, 0.05, 6.0)]
    >>> merged = db.merging.robust_merge(sites)
    >>> merged.weights[:, 0].round(1)
    array([1., 1., 1., 1., 0.])
    >>> abs(merged.posterior.mean("mean").item()) < 0.1 < db.merge(sites).mean("mean").item()
    True
    """
    rule, given = robust or Robust(), as_sequence(posteriors)
    # In canonical order, so that the result is a function of the set.
    order, _ = canonical_order(given, strictly=True)
    ordered = [given[site] for site in order]
    scales = first_of_copies(ordered) * capped(np.array([evidence_of(posterior) for posterior in ordered]), rule.cap)
    bounded = [scaled(posterior, scale) for posterior, scale in zip(ordered, scales, strict=True)]
    reached = Settling(bounded, rule, lambda bent: aligned(bent, solver=solver, progress=progress)[0]).best()
    return RobustMerge(reached.merged(), (scales[:, None] * reached.by_slot())[np.argsort(order)])


def evidence_of(posterior: Posterior) -> float:
    """How many observations a posterior stands for, all groups of factors together."""
    return float(sum(group_evidence(posterior, names).sum() for names in groups_of(posterior.structure)))


def capped(evidence: Array, cap: float) -> Array:
    """By how much each site's evidence is scaled down, so that it is at most `cap` times the middle site's."""
    most = cap * np.median(evidence[evidence > 0]) if (evidence > 0).any() else 0.0
    return np.minimum(1.0, np.divide(most, evidence, out=np.ones(len(evidence)), where=evidence > most))


def first_of_copies(posteriors: Sequence[Posterior]) -> Array:
    """1 for every posterior, 0 for those that are copies of an earlier one, whatever their labels."""
    profiles = [profile(posterior) for posterior in posteriors]
    first = np.ones(len(profiles))
    for later in range(1, len(profiles)):
        size = SAME * np.linalg.norm(profiles[later])
        copies = (np.linalg.norm(profiles[later] - before) <= size for before in profiles[:later])
        first[later] = 0.0 if size > 0 and any(copies) else 1.0
    return first


def profile(posterior: Posterior) -> Array:
    """A posterior without its labels: the sums of each factor's columns."""
    return np.concatenate([np.ravel(part.sum(axis=0)) for _, part in sorted(posterior.contribution.items())])
