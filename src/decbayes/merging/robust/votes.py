"""By how many nats components disagree, how much of that is chance, and what each of them counts for.

    D(c, r) = F(c) + F(r) − F(c + r),   F(c) = sup_θ ⟨c, T(θ)⟩

is what the data of c and r lose if one parameter must do for both. If they are of one thing, chance makes ½χ²_p of it,
p the number of parameters. A Bayes factor would add Occam's bonus for fewer parameters, which lets several deviations
pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from decbayes.families import Array
from decbayes.families.family import IMPOSSIBLE
from decbayes.families.matrices import Indices
from decbayes.families.rows import Rows
from decbayes.merging.base.components import observed
from decbayes.merging.base.problem import Factor
from decbayes.merging.base.products import weighted_rows
from decbayes.merging.robust._likeness import LITTLE, Coefficients, Likeness, chance, tolerated
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet

# A site knows a component that holds so much of its evidence, or this part of what its components have on average.
KNOWN, AVERAGE = 0.05, 0.25
# Times what a site votes with at which it is judged, at most: the others then decide how far both may differ.
ENOUGH = 30.0
# The step of a numerical derivative.
STEP = 1e-3
# Columns of counts that are compared one by one; all others, which are rarer, are one.
COLUMNS = 400
# A factor that claims so many times the observations that its component has is believed: it then has them.
CLAIMED = 2.0
# The prior's weight beside that of an observation, at most.
LIGHT = 0.05
# The precision of what rows do not say, in units of what they say best.
NOTHING = 1e-9

Sums = tuple[Sequence[Array], Array]
"""Rows of each factor, and their evidence."""


@dataclass(frozen=True)
class Group:
    """The components of all sites in one group of factors as one list, each at the evidence with which it votes.

    A site votes with less than it claims if that is far more than others have. It is judged by what it claims. Where
    there is no choice of slots, it votes with all that it claims, since no vote is more than one.
    """

    names: tuple[str, ...]
    coupled: CoupledSet | None
    factors: tuple[Factor, ...] = field(repr=False)
    order: tuple[Indices, ...]
    """For each site, its components in an order that does not depend on labels; the list is in it."""
    scale: Array
    """For each site, by how much its evidence is scaled down in the merge, unless others agree with it."""
    rows: tuple[Array, ...]
    evidence: Array
    base: tuple[Array, ...]
    counted: bool
    """Whether rows are counts of words or the like."""
    modesty: Array
    """For each component and coefficient, by how much what it says of it would be scaled down."""
    amounts: Array
    """For each site, by how much all its evidence would be."""

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
        amounts = capped(np.add.reduceat(evidence, np.cumsum([0, *sizes[:-1]])), cap)
        modesty = np.repeat(amounts, sizes)[:, None]
        if coupled is None and len(judged) == 1:
            modesty = modest(factors[judged[0]], contents[judged[0]], cap, modesty)
        scale = np.minimum(amounts, modesty.reshape(len(sites), -1).min(axis=1)) if coupled is None else amounts
        scales = np.repeat(scale if coupled is not None else np.ones(len(scale)), sizes)
        counted = all(factors[name].family.countable for name in judged)
        if counted:
            counts = [vstack([csr_array(own.contribution[name])[labels] for own, labels in sites]) for name in judged]
            rows = [frequent(csr_array(weighted_rows(csr_array(part), scales))) for part in counts]
        else:
            rows = [scales[:, None] * np.concatenate([own.written_out() for own in contents[name]]) for name in judged]
        compared = tuple(factors[name] for name in judged)
        base = tuple(brought_along(factor, float((scales * evidence).sum())) for factor in compared)
        voted = scales * evidence
        return cls(names, coupled, compared, tuple(order), scale, tuple(rows), voted, base, counted, modesty, amounts)

    @property
    def sites(self) -> int:
        return len(self.order)

    @cached_property
    def site(self) -> Indices:
        return np.repeat(np.arange(self.sites), [len(labels) for labels in self.order])

    @cached_property
    def row(self) -> Indices:
        """The row that each component is in at its own site: its slot, where there is no choice of slots."""
        return np.concatenate(self.order)

    @cached_property
    def parameters(self) -> Array:
        """How many parameters each component's own data can tell apart."""
        if self.counted:
            freedom = np.sum([np.minimum(rows, 1.0).sum(axis=1) - 1.0 for rows in self.rows], axis=0)
        else:
            pairs = zip(self.factors, self.rows, strict=True)
            freedom = np.sum([factor.family.freedom(rows) for factor, rows in pairs], axis=0)
        return np.asarray(np.maximum(freedom, 1.0))

    @cached_property
    def votes(self) -> Array:
        """1 for a component that its site knows well, less for one that hardly has evidence."""
        site_evidence = np.bincount(self.site, self.evidence, self.sites)
        count = np.bincount(self.site, minlength=self.sites)
        enough = np.maximum(site_evidence * np.minimum(KNOWN, AVERAGE / count), LITTLE)
        return np.asarray(np.minimum(self.evidence / enough[self.site], 1.0))

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        return np.asarray(self.votes > 0.5)

    @property
    def voting(self) -> Array:
        """For each site, the part of its evidence with which it votes."""
        return self.scale if self.coupled is not None else np.ones(self.sites)

    @cached_property
    def claim(self) -> Array:
        """How much more than it votes with each component claims; more than enough is as good as all."""
        return np.minimum(1.0 / self.voting, ENOUGH)[self.site]

    @cached_property
    def claims(self) -> Sums:
        """The components at the evidence that their sites claim."""
        if (self.claim == 1.0).all():
            return self.rows, self.evidence
        return [self.claim[:, None] * rows for rows in self.rows], self.claim * self.evidence

    @cached_property
    def heard(self) -> Array:
        """The evidence by which sites may differ as usual. Without a choice of slots it is capped, or the more a site
        claims, the further off it may be."""
        return self.claims[1] if self.coupled is not None else self.amounts[self.site] * self.evidence

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
        """Those of each component, where there is one vector of several and no choice of slots."""
        return self.coefficients_of(self.claims[0])

    def coefficients_of(self, rows: Sequence[Array]) -> Coefficients | None:
        return coefficients(self.factors[0], rows[0]) if self.coupled is None and len(rows) == 1 else None

    def losses(self, mine: Sums, others: Sums) -> Array:
        """D of each row and another; none where the other says nothing, infinite where a row alone is improper."""
        vectors = self.coefficients_of(mine[0]), self.coefficients_of(others[0])
        return self.lost(mine, self.peak(*mine), vectors[0], others, self.peak(*others), vectors[1])

    def claims_lose(self, others: Sums) -> Array:
        """D of what each component claims and of another one."""
        theirs = self.coefficients_of(others[0])
        return self.lost(self.claims, self.alone, self.coefficients, others, self.peak(*others), theirs)

    def moved(self, mine: Sums, others: Sums) -> Array:
        """Nats that the others lose if each row is joined with them: ½ δ² if they move by δ of their deviations.

            F(r) − ⟨r, T(θ)⟩ at the peak θ of c + r, where ⟨c, T(θ)⟩ = d/ds F(s c + r) at s = 1

        Rows may have several amounts, one after the other in the first dimension; the others have one.
        """
        times = np.array([1.0 - STEP, 1.0, 1.0 + STEP])[:, None, None]
        evidence = times * mine[1] + others[1]
        pairs = zip(mine[0], others[0], strict=True)
        together = [(times[..., None] * rows + more).reshape(-1, rows.shape[-1]) for rows, more in pairs]
        less, once, more = self.peak(together, evidence.ravel()).reshape(evidence.shape)
        return np.asarray(self.peak(*others) - once + (more - less) / (2.0 * STEP))

    def lost(
        self,
        mine: Sums,
        alone: Array,
        own: Coefficients | None,
        others: Sums,
        rest: Array,
        theirs: Coefficients | None,
    ) -> Array:
        """D, from the peaks and the coefficients of both."""
        (rows, evidence), (more, further) = mine, others
        together = self.peak([a + b for a, b in zip(rows, more, strict=True)], evidence + further)
        lost = np.maximum(alone + rest - together, 0.0)
        if own is not None and theirs is not None:
            lost = np.maximum(lost, one_by_one(own, theirs, self.factors[0].family.freedom(rows[0])))
        lost = np.where(further > LITTLE, lost, 0.0)
        return np.where(alone < -0.5 * IMPOSSIBLE * np.maximum(evidence, LITTLE), np.inf, lost)

    def tolerance(self, shared: Array, chosen: Indices | slice = slice(None)) -> Array:
        """Nats that components may lose beside others with which they have so much evidence in common."""
        return tolerated(self.parameters[chosen], shared, self.likeness.usual)

    def sums(self, labels: Indices, weights: Array, slots: int) -> Sums:
        """What slots hold of the components, weighted."""
        totals = [np.zeros((slots, rows.shape[1])) for rows in self.rows]
        for total, rows in zip(totals, self.rows, strict=True):
            np.add.at(total, labels, weights[:, None] * rows)
        return totals, np.bincount(labels, weights * self.evidence, slots).astype(np.float64)

    @cached_property
    def likeness(self) -> Likeness:
        return Likeness.among(self)

    def repeated(self, times: int) -> "Group":
        """The same components several times, as those of further sites."""
        rows = tuple(np.tile(part, (times, 1)) for part in self.rows)
        evidence, scale = np.tile(self.evidence, times), np.tile(self.scale, times)
        group = replace(self, order=self.order * times, scale=scale, rows=rows, evidence=evidence)
        # What is known of them is not found again.
        known = {
            name: np.tile(getattr(self, name), times) for name in ("parameters", "votes", "alone", "claim", "heard")
        }
        group.__dict__.update(known, likeness=self.likeness)
        if self.coefficients is not None:
            group.__dict__["coefficients"] = tuple(np.tile(part, (times, 1)) for part in self.coefficients)
        return group


def one_by_one(first: Coefficients, second: Coefficients, free: Array) -> Array:
    """What the coefficient that differs most would lose if all did: a fault is often in one column of many.

    In units in which it is tolerated as often as the loss of all coefficients together.
    """
    (mean, variance), (other, further) = first, second
    largest = (0.5 * (mean - other) ** 2 / (variance + further)).max(axis=1)
    return np.asarray(largest * chance(free) / (chance(1.0) + np.log(free)))


def coefficients(factor: Factor, rows: Array) -> Coefficients | None:
    """The means and variances of a vector of several parameters that rows are about; None where they are not."""
    expansion = factor.family.quadratic(rows, factor.prior.mean(axis=0) + rows)
    if expansion is None or expansion[0].shape[1] < 2:
        return None
    shift, precision = expansion
    sizes, directions = np.linalg.eigh(precision)
    sizes = np.maximum(sizes, NOTHING * sizes.max(axis=1, initial=1.0, keepdims=True))
    along = np.einsum("kij,ki->kj", directions, shift) / sizes
    return np.einsum("kij,kj->ki", directions, along), np.einsum("kij,kj->ki", directions**2, 1.0 / sizes)


def brought_along(factor: Factor, evidence: float) -> Array:
    """What each observation brings of the prior, so that there is a maximum: little of a prior that weighs much."""
    prior, family = factor.prior.mean(axis=0, keepdims=True), factor.family
    whole = prior - family.apex(prior.shape[1])
    weight = max(float(family.observations(prior, family.rows(whole))[0]), LITTLE)
    return np.asarray(min(len(factor.prior) / max(evidence, 1.0), LIGHT / weight) * whole[0])


def claimed(evidence: Array, claims: Array) -> Array:
    """The evidence, or what a factor claims in units of the usual claim, if that is far more."""
    both = (evidence > LITTLE) & (claims > 0.0)
    if not both.any():
        return evidence
    counts = claims / np.median(claims[both] / evidence[both])
    return np.where(counts > CLAIMED * evidence, counts, evidence)


def modest(factor: Factor, contents: Sequence[Rows], cap: float, otherwise: Array) -> Array:
    """Components × coefficients: by how much the precision of each would be scaled down, as evidence is.

    In other units it may be ten thousand times as much. Without coefficients, something `otherwise`.
    """
    rows = [part.written_out() for part in contents]
    expansion = factor.family.quadratic(np.concatenate(rows), np.concatenate([factor.prior + part for part in rows]))
    if expansion is None:
        return otherwise
    precision = np.einsum("kjj->kj", expansion[1]).reshape(len(rows), -1)
    by_site = np.array([capped(of_sites, cap) for of_sites in precision.T]).T
    return np.asarray(by_site.reshape(len(expansion[1]), -1))


def capped(evidence: Array, cap: float) -> Array:
    """By how much each site's evidence is scaled down, so that it is at most `cap` times the median site's."""
    most = cap * np.median(evidence[evidence > 0.0]) if (evidence > 0.0).any() else 0.0
    return np.asarray(np.divide(most, evidence, out=np.ones(len(evidence)), where=evidence > most))


def frequent(counts: csr_array) -> Array:
    """The most frequent columns, and all others as one; what is below zero is nothing."""
    counts = counts.maximum(0.0)
    if counts.shape[1] <= COLUMNS:
        return np.asarray(counts.toarray())
    order = np.argsort(-counts.sum(axis=0), kind="stable")
    rest = counts[:, order[COLUMNS:]].sum(axis=1)
    return np.column_stack([counts[:, order[:COLUMNS]].toarray(), rest])


def xlogx(values: Array) -> Array:
    return np.asarray(values * np.log(np.maximum(values, 1e-300)))
