"""A merge on which a minority of faulty sites has little influence, whatever they send.

Three bounds, in this order. Copies of one posterior count once. No site counts for more than `cap` times the middle
one. In each slot a site that disagrees with everybody else by d nats counts for min(1, patience / d); for counts of
words the evidence-weighted geometric median of the sites' versions takes the place of their mean.

The price is small where all are honest. It cannot help where faulty sites are many, agree among themselves, or move a
little only. Nobody is dropped: each site's weight in each slot is told.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array, diags_array

from decbayes.families import Array, Contribution, dense
from decbayes.merging.canonical import canonical_order
from decbayes.merging.influence import group_evidence, groups_of, log_bayes_factors
from decbayes.merging.sources import as_sequence
from decbayes.merging.sums import Assignment
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet

if TYPE_CHECKING:
    from decbayes.merging.problem import OnMatch, Solver

# Passes of Weiszfeld's iteration towards a geometric median; what is nearer than this to it counts as being there.
PASSES, NEAR = 30, 1e-6
# Posteriors that differ by less, relative to their size, are copies of one another.
SAME = 1e-9


@dataclass(frozen=True)
class Robust:
    """How much one site may move a merge.

    `cap`: the most evidence of a site, in units of the middle site's. `patience`: the nats by which a site may disagree
    with the others before it counts for less. `rounds`: how often components are aligned anew with those weights.
    """

    cap: float = 1.5
    patience: float = 3.0
    rounds: int = 4

    def __post_init__(self) -> None:
        if not (self.cap >= 1.0 and self.patience > 0.0 and self.rounds >= 1):
            raise ValueError("A robust merge needs a cap of at least 1, patience above 0, and a round at least.")


def as_robust(robust: Robust | bool) -> Robust:
    """The rule itself, or the usual one for True."""
    return robust if isinstance(robust, Robust) else Robust()


@dataclass(frozen=True)
class RobustMerge:
    """The merged posterior, and (sites, slots) for how much of each site's evidence counts there."""

    posterior: Posterior
    weights: Array


def robust_merge(
    posteriors: Iterable[Posterior],
    robust: Robust | None = None,
    *,
    solver: "Solver | None" = None,
    progress: "OnMatch | None" = None,
) -> RobustMerge:
    """Merge with bounded influence of every site; the weights say how much of each site was used, slot by slot."""
    from decbayes.merging.solving import align

    rule, given = robust or Robust(), as_sequence(posteriors)
    # In canonical order, so that the result is a function of the set.
    order, _ = canonical_order(given, strictly=True)
    held = [given[site] for site in order]
    scales = first_of_copies(held) * capped(np.array([evidence_of(posterior) for posterior in held]), rule.cap)
    scaled = [scaled_by(posterior, scale) for posterior, scale in zip(held, scales, strict=True)]
    bent, slots = scaled, Slots.of(held[0].structure)
    for _ in range(rule.rounds):
        alignment = align(bent, solver=solver, progress=progress)
        placed = replace(alignment, posteriors=scaled).relabelled()
        weights = slots.weights(placed, rule)
        bent = [
            slots.reweighted(posterior, assignment, weight)
            for posterior, assignment, weight in zip(scaled, alignment.assignments, weights, strict=True)
        ]
    merged = Posterior(alignment.structure, slots.weighted_sums(placed, weights))
    return RobustMerge(merged, (scales[:, None] * weights)[np.argsort(order)])


@dataclass(frozen=True)
class Slots:
    """The slots of all groups of factors, one after another, and where each group's begin."""

    structure: Structure
    groups: tuple[tuple[str, ...], ...]
    begins: tuple[int, ...]

    @classmethod
    def of(cls, structure: Structure) -> "Slots":
        groups = groups_of(structure)
        sizes = [len(structure.prior[names[0]]) for names in groups]
        return cls(structure, groups, tuple(np.cumsum([0, *sizes]).tolist()))

    def weights(self, placed: Sequence[Posterior], rule: Robust) -> Array:
        """(sites, slots): how much of each site's version of each slot counts."""
        return np.concatenate([self._weights(placed, names, rule) for names in self.groups], axis=1)

    def reweighted(
        self, posterior: Posterior, assignment: Mapping[CoupledSet, Assignment], weights: Array
    ) -> Posterior:
        """A site's posterior with each component weighted as the slot is that it went into."""
        parts = dict(posterior.contribution)
        for coupled in self.structure.symmetry:
            begin = self.begins[self.groups.index(tuple(coupled.factors))]
            own = weights[begin + np.asarray(assignment[coupled])]
            parts |= {name: by_rows(parts[name], own) for name in coupled.factors}
        return Posterior(posterior.structure, parts)

    def weighted_sums(self, placed: Sequence[Posterior], weights: Array) -> dict[str, Contribution]:
        """Σ_i w_ik c_ik of every factor."""
        sums: dict[str, Contribution] = {}
        for begin, names in zip(self.begins, self.groups, strict=False):
            for name in names:
                rows = [dense(posterior.contribution[name]) for posterior in placed]
                own = weights[:, begin : begin + len(rows[0])]
                total = sum((w[:, None] * row for w, row in zip(own, rows, strict=True)), np.zeros_like(rows[0]))
                sums[name] = csr_array(total) if name in self.structure.sparse else total
        return sums

    def _weights(self, placed: Sequence[Posterior], names: Sequence[str], rule: Robust) -> Array:
        told = [name for name in names if not self.structure.families[name].over_components] or [*names]
        if all(self.structure.families[name].countable for name in told):
            return median_weights([dense(posterior.contribution[told[0]]) for posterior in placed])
        weights = np.ones((len(placed), len(self.structure.prior[told[0]])))
        for _ in range(rule.rounds):
            sums = self._sums(placed, told, weights)
            disagreement = np.array(
                [self._disagreement(own, w, sums, told) for own, w in zip(placed, weights, strict=True)]
            )
            weights = np.minimum(1.0, rule.patience / np.maximum(disagreement, rule.patience))
        return weights

    def _sums(self, placed: Sequence[Posterior], names: Sequence[str], weights: Array) -> dict[str, Array]:
        parts = {name: np.array([dense(posterior.contribution[name]) for posterior in placed]) for name in names}
        return {name: np.einsum("sk,skd->kd", weights, stacked) for name, stacked in parts.items()}

    def _disagreement(self, own: Posterior, weight: Array, sums: Mapping[str, Array], names: Sequence[str]) -> Array:
        """By how many nats a site's whole version of each slot disagrees with everybody else's weighted ones."""
        factors = []
        for name in names:
            mine = dense(own.contribution[name])
            factors.append(log_bayes_factors(self.structure, name, mine, sums[name] - weight[:, None] * mine))
        return np.asarray(-np.sum(factors, axis=0))


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


def scaled_by(posterior: Posterior, scale: float) -> Posterior:
    if scale == 1.0:
        return posterior
    parts = {name: by_rows(part, np.full(part.shape[0], scale)) for name, part in posterior.contribution.items()}
    return replace(posterior, contribution=parts)


def by_rows(part: Contribution, weights: Array) -> Contribution:
    """A contribution with each row weighted."""
    return weights[:, None] * part if isinstance(part, np.ndarray) else csr_array(diags_array(weights) @ part)


def median_weights(rows: Sequence[Array]) -> Array:
    """What each site counts for in each slot, so that the sum is the geometric median of c / e times all evidence.

    Weiszfeld's iteration, in each slot on its own; e is a row's sum.
    """
    stacked = np.array(rows)
    evidence = stacked.sum(axis=2)
    versions = np.divide(stacked, evidence[:, :, None], out=np.zeros_like(stacked), where=evidence[:, :, None] > 0)
    weights = evidence.copy()
    for _ in range(PASSES):
        middle = np.einsum("sk,skd->kd", weights, versions) / np.maximum(weights.sum(axis=0), NEAR)[:, None]
        distance = np.linalg.norm(versions - middle, axis=2)
        weights = evidence / np.maximum(distance, NEAR)
    share = weights / np.maximum(weights.sum(axis=0), NEAR)
    counted = evidence.sum(axis=0) * share
    return np.asarray(np.divide(counted, evidence, out=np.zeros_like(evidence), where=evidence > 0))
