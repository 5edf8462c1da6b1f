"""The default number of slots: that of the largest site, and more while more slots help.

Slots are divided while the other sites then predict each site's data better,

    L = Σ_i [A(λ) − A(λ − c_i)],    c_i the contribution of site i in its slots,

or while some slot holds components that differ by more than noise and L hardly falls, as happens where sites have
slightly different versions of a component. This does not estimate the true number (see `number.py`) but one that
predicts well; `benchmarks/default_slots.py` measures it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from decbayes.families.matrices import Array, Indices
from decbayes.families.rows import Rows
from decbayes.merging.base.components import LEAST_EVIDENCE, Components, sites_of
from decbayes.merging.base.problem import Factor, Problem
from decbayes.merging.grouping.joins import grown_labels
from decbayes.merging.grouping.number import SWEEPS, sampling_noise
from decbayes.merging.grouping.search import SlotSearch
from decbayes.merging.grouping.shared import halved, unlike_above

# A slot with different components is divided unless L falls, per component, by more than this multiple of the
# difference that sampling causes between two versions of one component.
TOLERATED = 1.5
# Data spread farther than their given variance if a slot rests on less evidence than LONE, or if the sites' versions of
# slots differ by more than DISPERSED times what sampling explains.
LONE, DISPERSED = 1.5, 2.0


@dataclass(frozen=True)
class DefaultNumber:
    """A number of slots, the reasons to exceed the largest site's number, and where the search stopped.

    `tried` slots did not improve the prediction of each site's data by the others; 0 if no further number was tried.
    `spare` says why one further slot stays empty; "" if none does.
    """

    slots: int
    largest: int
    unlike: bool = False
    predicted: bool = False
    tried: int = 0
    spare: str = ""

    def __str__(self) -> str:
        reasons = []
        if self.unlike:
            reasons.append("in fewer slots, components that differ by more than chance would share one")
        if self.predicted:
            reasons.append(f"the sites predict each other's data better than with {self.largest}")
        if reasons:
            spare = f"; one stays empty, for data that fit none: {self.spare}" if self.spare else ""
            return f"{', and '.join(reasons)}; the largest site has {counted(self.largest)}{spare}"
        tried = f"; with {self.tried}, the sites would predict each other's data no better" if self.tried else ""
        return f"as many as the largest site has components{tried}"


def counted(components: int) -> str:
    return f"{components} component{'' if components == 1 else 's'}"


def default_number(problem: Problem) -> DefaultNumber:
    """Divide slots, starting with the largest site's number of components, while that helps."""
    largest = max(contents[0].count for contents in problem.contents)
    components = Components.in_problem(problem)
    filled = np.flatnonzero(components.evidence >= LEAST_EVIDENCE)
    if len(filled) <= largest:
        return DefaultNumber(largest, largest)
    components, others = components.taken(filled), OtherSites.of(problem, filled)
    limit = unlike_above(problem, components.evidence)
    start = grown_labels(components, components.bases(largest), largest)
    search, unlike = searched(components, start, largest), False
    first = score = others.score(search)
    tolerated, tried = TOLERATED * sampling_noise(components) * len(components), 0
    for wider, clearly in divisions(search, limit):
        after = others.score(wider)
        if after <= score - (tolerated if clearly else 0.0):
            tried = wider.count
            break
        search, score, unlike = wider, after, unlike or clearly
    spare = others.scattered(search) if search.count > largest else ""
    return DefaultNumber(search.count, largest, unlike, predicted=score > first, tried=tried, spare=spare)


def alike_in(problem: Problem, slots: int) -> bool:
    """Whether, with this many slots, no slot holds components that differ by more than noise."""
    components = Components.in_problem(problem)
    labels = grown_labels(components, components.bases(slots), slots)
    gains, by_noise, _ = halved(searched(components, labels, slots))
    return not bool((gains / by_noise > unlike_above(problem, components.evidence)).any())


def divisions(search: SlotSearch, limit: float) -> Iterator[tuple[SlotSearch, bool]]:
    """Searches with more and more slots, and whether the divided slots held components that clearly differ.

    All slots with clear differences are divided at once; without any, the one whose best split gains most.
    """
    while search.count < len(search.components):
        gains, by_noise, halves = halved(search)
        ratios = gains / by_noise
        unlike = np.flatnonzero(ratios > limit)
        chosen = unlike if len(unlike) else np.array([ratios.argmax()])
        new = np.full(search.count, -1)
        new[chosen] = search.count + np.arange(len(chosen))
        labels = np.where((halves == 1) & (new[search.labels] >= 0), new[search.labels], search.labels)
        search = searched(search.components, labels, search.count + len(chosen))
        yield search, len(unlike) > 0


def searched(components: Components, labels: Indices, count: int) -> SlotSearch:
    """Single moves from these labels."""
    search = SlotSearch(components, labels, components.bases(count), count)
    search.moves(SWEEPS)
    return search


@dataclass(frozen=True)
class OtherSites:
    """Rows of all factors, weights included, and the site of each component."""

    factors: tuple[Factor, ...]
    rows: tuple[Rows, ...]
    sites: Indices

    @classmethod
    def of(cls, problem: Problem, chosen: Indices) -> "OtherSites":
        rows = [first.followed_by(others).taken(chosen) for first, *others in zip(*problem.contents, strict=True)]
        return cls(problem.factors, tuple(rows), sites_of(problem)[chosen])

    def score(self, search: SlotSearch) -> float:
        """Σ_i [A(λ) − A(λ − c_i)]: the log-probability of each site's contribution, given those of all others."""
        count, total = search.count, 0.0
        sites, slots, version = self.versions(search)
        for factor, rows in zip(self.factors, self.rows, strict=True):
            versions = rows.joined(version, len(slots)).written_out()
            merged = factor.prior[:1] + rows.joined(search.labels, count).written_out()
            terms = factor.family.defined_terms(merged)[slots] - factor.family.defined_terms(merged[slots] - versions)
            # Without a site that subtracts evidence, the rest may be outside the domain: skip such terms.
            total += float(np.nansum(terms))
            if factor.family.over_components:
                total += shared_terms(factor, merged, versions, sites, slots)
        return total

    def versions(self, search: SlotSearch) -> tuple[Indices, Indices, Indices]:
        """The site and slot of each version (a site's sum in a slot), and the version of each component."""
        pairs, version = np.unique(self.sites * search.count + search.labels, return_inverse=True)
        return *np.divmod(pairs, search.count), version

    def scattered(self, search: SlotSearch) -> str:
        """Why data with a given variance seem to spread farther than that; "" if they do not.

        Fits then scatter components. An empty slot predicts like the prior, and takes points far from all others.
        """
        fixed = [pair for pair in zip(self.factors, self.rows, strict=True) if pair[0].family.fixed_spread]
        if not fixed:
            return ""
        _, slots, version = self.versions(search)
        members = np.bincount(slots, minlength=search.count)
        evidence = np.bincount(search.labels, search.components.evidence, minlength=search.count)
        if (members == 1).sum() > 0.5 * (members > 0).sum():
            return "most slots rest on a single site"
        if evidence[members == 1].min(initial=np.inf) < LONE:
            return "a slot rests on a single observation"
        for factor, rows in fixed:
            mean, variance = factor.family.columns(rows.joined(version, len(slots)).written_out())
            if dispersion(mean, variance, slots) > DISPERSED:
                return "sites differ in others by more than the given variance explains"
        return ""


def dispersion(mean: Array, variance: Array, slots: Indices) -> float:
    """How far means lie from their slots' centres, relative to sampling; about 1 if only sampling matters.

    Σ |m_i − m|² / v_i per degree of freedom,    m = Σ (m_i / v_i) / Σ (1 / v_i) in each slot
    """
    precision, slot = np.divide(1.0, variance)[:, None], np.unique(slots, return_inverse=True)[1]
    sums, total = np.zeros((2, slot.max() + 1, mean.shape[1]))
    np.add.at(sums, slot, precision * mean)
    np.add.at(total, slot, precision)
    freedom = (len(mean) - len(sums)) * mean.shape[1]
    return float((precision * (mean - (sums / total)[slot]) ** 2).sum() / max(freedom, 1))


def shared_terms(factor: Factor, merged: Array, versions: Array, sites: Indices, slots: Indices) -> float:
    """The part of the score that belongs to no slot: the weights' normalisation."""
    whole, total = factor.family.shared_term(merged), 0.0
    for site in np.unique(sites):
        of_site, rest = sites == site, merged.copy()
        rest[slots[of_site]] -= versions[of_site]
        total += whole - factor.family.shared_term(rest)
    return total
