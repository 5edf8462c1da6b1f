"""How many nats components disagree by, and how many votes each has.

    D(c, r) = F(c) + F(r) − F(c + r),   F(c) = sup_θ ⟨c, T(θ)⟩

is the log-likelihood that the data behind c and r lose by sharing one parameter. If they do share it, D is ½χ²_p by
chance, where p is the number of parameters. A Bayes factor would add Occam's bonus for fewer parameters, which lets
differences of several deviations pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from decbayes.families import Array
from decbayes.families.family import IMPOSSIBLE, Family
from decbayes.families.matrices import Indices
from decbayes.families.rows import Rows
from decbayes.merging.base.components import observed
from decbayes.merging.base.problem import Factor
from decbayes.merging.base.products import weighted_rows
from decbayes.merging.robust._likeness import LITTLE, Coefficients, Likeness, Side, chance, tolerated
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet

# A site knows a component that has this share of its evidence, or this fraction of its average component's evidence.
KNOWN, AVERAGE = 0.05, 0.25
# A site is judged at no more than this multiple of the evidence it votes with; beyond it the others' evidence decides.
ENOUGH = 30.0
# Step of the numerical derivative.
STEP = 1e-3
# The most frequent columns of counts are compared one by one; all rarer ones are pooled.
COLUMNS = 400
# If a factor claims this many times its component's observations, the claim replaces them.
CLAIMED = 2.0
# Largest weight of the prior relative to one observation.
LIGHT = 0.05
# Precision of directions without information, relative to the best known one.
UNINFORMATIVE = 1e-9

Sums = tuple[Sequence[Array], Array]
"""Rows of each factor, and the evidence of each row."""


@dataclass(frozen=True)
class Group:
    """The components of all sites in one group of factors as one list, each at the evidence it votes with.

    A site with far more evidence than others votes with less than it claims, but is judged by what it claims. Where
    slots are fixed it votes with everything it claims, since it has only one vote per slot.
    """

    names: tuple[str, ...]
    coupled: CoupledSet | None
    factors: tuple[Factor, ...] = field(repr=False)
    order: tuple[Indices, ...]
    """Each site's components in an order that does not depend on labels; the list follows it."""
    scale: Array
    """Per site: the factor by which its evidence is scaled down in the merge, unless others agree with it."""
    rows: tuple[Array, ...]
    evidence: Array
    base: tuple[Array, ...]
    counted: bool
    """Whether rows are counts, for example of words."""
    coefficient_scale: Array
    """Components × coefficients: the factor by which information about each coefficient would be scaled down."""
    site_scale: Array
    """Per site: the factor by which all its evidence would be scaled down."""
    typical_scale: Array
    """Per site: the factor by which its typical coefficient's precision would be scaled down."""

    @classmethod
    def of(
        cls,
        posteriors: Sequence[Posterior],
        names: tuple[str, ...],
        coupled: CoupledSet | None,
        order: Sequence[Indices],
        cap: float,
    ) -> "Group":
        structure, sites = posteriors[0].structure, [*zip(posteriors, order, strict=True)]
        factors = {name: Factor(structure.families[name], structure.prior[name]) for name in names}
        contents = {
            name: [factor.family.rows(posterior.contribution[name], labels) for posterior, labels in sites]
            for name, factor in factors.items()
        }
        judged = [name for name in names if not factors[name].family.over_components] or [*names]
        known = [name for name in names if not factors[name].family.follows] or [*names]
        evidence = observed([(factors[name], contents[name]) for name in known])
        for name in judged:
            evidence = claimed(evidence, observed([(factors[name], contents[name])]))
        sizes = [len(labels) for labels in order]
        scale = site_scale = typical = capped(np.add.reduceat(evidence, np.cumsum([0, *sizes[:-1]])), cap)
        by_coefficient = np.repeat(site_scale, sizes)[:, None]
        single = coupled is None and len(judged) == 1
        precision = precisions(factors[judged[0]], contents[judged[0]]) if single else None
        if precision is not None:
            by_coefficient = np.array([capped(of_sites, cap) for of_sites in precision.T]).T
            typical = capped(typical_ratios(precision), cap)
            scale = np.minimum(site_scale, by_coefficient.reshape(len(sites), -1).min(axis=1))
            by_coefficient = by_coefficient.reshape(sum(sizes), -1)
        voting = np.repeat(scale if coupled is not None else np.ones(len(scale)), sizes)
        counted = all(factors[name].family.countable for name in judged)
        if counted:
            counts = [vstack([csr_array(site.contribution[name])[labels] for site, labels in sites]) for name in judged]
            rows = [frequent(csr_array(weighted_rows(csr_array(part), voting))) for part in counts]
        else:
            rows = [voting[:, None] * np.concatenate([c.written_out() for c in contents[name]]) for name in judged]
        return cls(
            names=names,
            coupled=coupled,
            factors=tuple(factors[name] for name in judged),
            order=tuple(order),
            scale=scale,
            rows=tuple(rows),
            evidence=voting * evidence,
            base=tuple(prior_per_observation(factors[name], float((voting * evidence).sum())) for name in judged),
            counted=counted,
            coefficient_scale=by_coefficient,
            site_scale=site_scale,
            typical_scale=typical,
        )

    @property
    def sites(self) -> int:
        return len(self.order)

    @cached_property
    def site(self) -> Indices:
        return np.repeat(np.arange(self.sites), [len(labels) for labels in self.order])

    @cached_property
    def row(self) -> Indices:
        """Each component's row at its site, which is its slot where slots are fixed."""
        return np.concatenate(self.order)

    @cached_property
    def parameters(self) -> Array:
        """The number of parameters that each component's data can distinguish."""
        if self.counted:
            freedom = np.sum([np.minimum(rows, 1.0).sum(axis=1) - 1.0 for rows in self.rows], axis=0)
        else:
            pairs = zip(self.factors, self.rows, strict=True)
            freedom = np.sum([self._freedom(factor.family, rows) for factor, rows in pairs], axis=0)
        return np.asarray(np.maximum(freedom, 1.0))

    def _freedom(self, family: Family, rows: Array) -> Array:
        """Of parameters such as coefficients, a site may know a few directions only."""
        return family.freedom(rows) if self.coupled else family.effective_freedom(family.rows(rows))

    @cached_property
    def votes(self) -> Array:
        """1 for a component that its site knows well, less for one with hardly any evidence."""
        site_evidence = np.bincount(self.site, self.evidence, self.sites)
        count = np.bincount(self.site)
        enough = np.maximum(site_evidence * np.minimum(KNOWN, AVERAGE / count), LITTLE)
        return np.asarray(np.minimum(self.evidence / enough[self.site], 1.0))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        return np.asarray(self.votes > 0.5)

    @property
    def voting(self) -> Array:
        """Per site: the share of its evidence that it votes with."""
        return self.scale if self.coupled is not None else np.ones(self.sites)

    @cached_property
    def claim(self) -> Array:
        """Claimed evidence of each component relative to what it votes with, at most ENOUGH."""
        return np.minimum(1.0 / self.voting, ENOUGH)[self.site]

    @cached_property
    def claims(self) -> Sums:
        """The components at the evidence their sites claim."""
        if (self.claim == 1.0).all():
            return self.rows, self.evidence
        return [self.claim[:, None] * rows for rows in self.rows], self.claim * self.evidence

    @cached_property
    def tolerance_evidence(self) -> Array:
        """The evidence over which usual differences accumulate. Where slots are fixed it is capped: otherwise a site
        that claims more could be further off."""
        return self.claims[1] if self.coupled is not None else self.site_scale[self.site] * self.evidence

    @cached_property
    def alone(self) -> Array:
        """F of the claims."""
        return self.peak(*self.claims)

    def peak(self, rows: Sequence[Array], evidence: Array) -> Array:
        """F of each row."""
        if self.counted:
            return np.asarray(np.sum([xlogx(part).sum(axis=-1) - xlogx(part.sum(axis=-1)) for part in rows], axis=0))
        parts = zip(self.factors, rows, self.base, strict=True)
        return np.asarray(np.sum([factor.family.peak(part, evidence, base) for factor, part, base in parts], axis=0))

    @cached_property
    def coefficients(self) -> Coefficients | None:
        """Coefficients of each component; None unless slots are fixed and there is one vector of several."""
        return self.coefficients_of(self.claims[0])

    def coefficients_of(self, rows: Sequence[Array]) -> Coefficients | None:
        return coefficients(self.factors[0], rows[0]) if self.coupled is None and len(rows) == 1 else None

    def losses(self, mine: Sums, others: Sums) -> Array:
        """D between rows and others: zero where others have no evidence, infinite where a row alone is improper."""
        return self.lost(self.side(mine), self.side(others))

    def claim_losses(self, others: Sums) -> Array:
        """D between each component as claimed and the others."""
        return self.lost(self.claim_side, self.side(others))

    @property
    def claim_side(self) -> Side:
        return Side(*self.claims, self.alone, self.coefficients)

    def side(self, sums: Sums) -> Side:
        return Side(*sums, self.peak(*sums), self.coefficients_of(sums[0]))

    def moved(self, mine: Sums, others: Sums) -> Array:
        """Nats that others lose when a row joins them: ½ δ² if they move by δ of their deviations.

            F(r) − ⟨r, T(θ)⟩ at the peak θ of c + r, where ⟨c, T(θ)⟩ = d/ds F(s c + r) at s = 1

        Rows may come at several amounts along their first dimension; others have one.
        """
        times = np.array([1.0 - STEP, 1.0, 1.0 + STEP])[:, None, None]
        evidence = times * mine[1] + others[1]
        pairs = zip(mine[0], others[0], strict=True)
        together = [(times[..., None] * rows + more).reshape(-1, rows.shape[-1]) for rows, more in pairs]
        less, once, more = self.peak(together, evidence.ravel()).reshape(evidence.shape)
        return np.asarray(self.peak(*others) - once + (more - less) / (2.0 * STEP))

    def lost(self, mine: Side, others: Side, joint: Array | None = None) -> Array:
        """D of both sides, given F of their sum if it is known."""
        if joint is None:
            rows = [one + other for one, other in zip(mine.rows, others.rows, strict=True)]
            joint = self.peak(rows, mine.evidence + others.evidence)
        lost = np.maximum(mine.peak + others.peak - joint, 0.0)
        if mine.coefficients is not None and others.coefficients is not None:
            free = self.factors[0].family.freedom(mine.rows[0])
            lost = np.maximum(lost, one_by_one(mine.coefficients, others.coefficients, free))
        lost = np.where(others.evidence > LITTLE, lost, 0.0)
        return np.where(mine.peak < -0.5 * IMPOSSIBLE * np.maximum(mine.evidence, LITTLE), np.inf, lost)

    def tolerance(self, shared: Array, chosen: Indices | slice = slice(None)) -> Array:
        """Nats that components may lose next to others, given the evidence they share."""
        return tolerated(self.parameters[chosen], shared, self.likeness.usual)

    def sums(self, labels: Indices, weights: Array, slots: int) -> Sums:
        totals = [np.zeros((slots, rows.shape[1])) for rows in self.rows]
        for total, rows in zip(totals, self.rows, strict=True):
            np.add.at(total, labels, weights[:, None] * rows)
        return totals, np.bincount(labels, weights * self.evidence, slots).astype(np.float64)

    @cached_property
    def likeness(self) -> Likeness:
        return Likeness.among(self)

    @property
    def wholes(self) -> "Group":
        """The data of each site as one component, however its fit has divided them."""
        rows, evidence = self.sums(self.site, np.ones(len(self.site)), self.sites)
        return replace(self, order=(np.zeros(1, dtype=np.intp),) * self.sites, rows=tuple(rows), evidence=evidence)

    @property
    def alike(self) -> NDArray[np.bool_]:
        """Sites whose data as a whole differ from those of most others by no more than chance explains.

        If their components differ, their fits have divided the same data in other ways, which depend on starts and on
        numbers of components. Sums of data with a given variance do not hold their spread, so they cannot tell.
        """
        if any(factor.family.fixed_spread for factor in self.factors):
            return np.zeros(self.sites, dtype=np.bool_)
        wholes = self.wholes
        others = np.arange(self.sites)[:, None] != wholes.likeness.candidates
        within = others & (wholes.likeness.lost <= chance(wholes.parameters)[:, None])
        return np.asarray(2 * within.sum(axis=1) > others.sum(axis=1))

    def repeated(self, times: int) -> "Group":
        """The same components several times, as if from further sites."""
        rows = tuple(np.tile(part, (times, 1)) for part in self.rows)
        evidence, scale = np.tile(self.evidence, times), np.tile(self.scale, times)
        group = replace(self, order=self.order * times, scale=scale, rows=rows, evidence=evidence)
        # Tile cached values instead of computing them again.
        cached = ("parameters", "votes", "alone", "claim", "tolerance_evidence")
        group.__dict__.update({name: np.tile(getattr(self, name), times) for name in cached}, likeness=self.likeness)
        if self.coefficients is not None:
            group.__dict__["coefficients"] = tuple(np.tile(part, (times, 1)) for part in self.coefficients)
        return group


def one_by_one(first: Coefficients, second: Coefficients, free: Array) -> Array:
    """D if all coefficients differed as much as the one that differs most: faults are often in a single column.

    It is scaled so that chance exceeds the tolerance as often as with the loss of all coefficients together.
    """
    (mean, variance), (other, further) = first, second
    largest = (0.5 * (mean - other) ** 2 / (variance + further)).max(axis=1)
    return np.asarray(largest * chance(free) / (chance(1.0) + np.log(free)))


def coefficients(factor: Factor, rows: Array) -> Coefficients | None:
    """Means and variances of the parameter vector that rows describe; None without a vector of several."""
    expansion = factor.family.quadratic(rows, factor.prior.mean(axis=0) + rows)
    if expansion is None or expansion[0].shape[1] < 2:
        return None
    sizes, directions, along = in_directions(*expansion)
    return np.einsum("kij,kj->ki", directions, along), np.einsum("kij,kj->ki", directions**2, 1.0 / sizes)


def gaussians(factor: Factor, rows: Array) -> tuple[Array, Array]:
    """Means and covariances of the parameter vector that rows describe."""
    expansion = factor.family.quadratic(rows, factor.prior.mean(axis=0) + rows)
    assert expansion is not None, "slots hold vectors"
    sizes, directions, along = in_directions(*expansion)
    return np.einsum("kij,kj->ki", directions, along), np.einsum("kin,kn,kjn->kij", directions, 1.0 / sizes, directions)


def in_directions(shift: Array, precision: Array) -> tuple[Array, Array, Array]:
    """Precisions along each row's principal directions, these directions, and the mean along them."""
    sizes, directions = np.linalg.eigh(precision)
    sizes = np.maximum(sizes, UNINFORMATIVE * sizes.max(axis=1, initial=1.0, keepdims=True))
    return sizes, directions, np.einsum("kij,ki->kj", directions, shift) / sizes


def prior_per_observation(factor: Factor, evidence: float) -> Array:
    """The share of the prior added per observation so that F has a maximum; small if the prior weighs much."""
    prior, family = factor.prior.mean(axis=0, keepdims=True), factor.family
    whole = prior - family.apex(prior.shape[1])
    weight = max(float(family.observations(prior, family.rows(whole))[0]), LITTLE)
    return np.asarray(min(len(factor.prior) / max(evidence, 1.0), LIGHT / weight) * whole[0])


def claimed(evidence: Array, claims: Array) -> Array:
    """The evidence, or what a factor claims relative to the usual claim, if that is far more."""
    both = (evidence > LITTLE) & (claims > 0.0)
    if not both.any():
        return evidence
    counts = claims / np.median(claims[both] / evidence[both])
    return np.where(counts > CLAIMED * evidence, counts, evidence)


def precisions(factor: Factor, contents: Sequence[Rows]) -> Array | None:
    """Sites × coefficients of all rows: the precision of each coefficient; None without vectors.

    Wrong units can make one ten thousand times larger.
    """
    rows = [part.written_out() for part in contents]
    expansion = factor.family.quadratic(np.concatenate(rows), np.concatenate([factor.prior + part for part in rows]))
    return None if expansion is None else np.einsum("kjj->kj", expansion[1]).reshape(len(rows), -1)


def typical_ratios(precision: Array) -> Array:
    """Per site: the geometric mean of its precisions relative to the median site's, over coefficients it knows."""
    known = precision > 0.0
    medians = np.array([np.median(column[column > 0.0]) if (column > 0.0).any() else 1.0 for column in precision.T])
    logs = np.log(np.where(known, precision / medians, 1.0)).sum(axis=1)
    return np.where(known.any(axis=1), np.exp(logs / np.maximum(known.sum(axis=1), 1)), 0.0)


def capped(evidence: Array, cap: float) -> Array:
    """Factors that scale each site's evidence down to at most `cap` times the median site's."""
    most = cap * np.median(evidence[evidence > 0.0]) if (evidence > 0.0).any() else 0.0
    return np.asarray(np.divide(most, evidence, out=np.ones(len(evidence)), where=evidence > most))


def frequent(counts: csr_array) -> Array:
    """The most frequent columns, and all others pooled into one; negative counts become zero."""
    counts = counts.maximum(0.0)
    if counts.shape[1] <= COLUMNS:
        return np.asarray(counts.toarray())
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    rest = counts[:, order[COLUMNS:]].sum(axis=1)
    return np.column_stack([counts[:, order[:COLUMNS]].toarray(), rest])


def xlogx(values: Array) -> Array:
    return np.asarray(values * np.log(np.maximum(values, 1e-300)))
