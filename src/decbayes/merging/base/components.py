"""The components of all sites as one list, for merges that may put any component into any slot."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from decbayes.families import Array, Family
from decbayes.families.matrices import Indices
from decbayes.families.rows import Rows
from decbayes.merging.base.problem import Factor, Problem
from decbayes.posterior import Posterior
from decbayes.structure import Structure

# A component with fewer observations counts as empty.
LEAST_EVIDENCE = 0.5


@dataclass(frozen=True)
class Components:
    """Rows of all components in the factors that distinguish them, and the number of observations of each.

    A factor over the components themselves (their weights) gives the amount of evidence, but has no influence on the
    slots.
    """

    factors: tuple[Factor, ...]
    rows: tuple[Rows, ...]
    evidence: Array

    @classmethod
    def of(cls, factors: Sequence[Factor], contents: Sequence[tuple[Rows, ...]]) -> "Components":
        """The components of some sites, one after another."""
        pairs = list(zip(factors, zip(*contents, strict=True), strict=True))
        distinguishing = [pair for pair in pairs if not pair[0].family.over_components] or pairs
        rows = tuple(first.followed_by(others) for _, (first, *others) in distinguishing)
        return cls(tuple(factor for factor, _ in distinguishing), rows, observed(pairs))

    @classmethod
    def in_problem(cls, problem: Problem) -> "Components":
        return cls.of(problem.factors, problem.contents)

    def __len__(self) -> int:
        return len(self.evidence)

    def bases(self, slots: int) -> list[Array]:
        """The share of the prior per observation, for this many slots."""
        return bases(self.factors, float(self.evidence.sum()), slots)

    def effective_freedom(self) -> Array:
        """The number of parameters that each component's data determine."""
        pairs = zip(self.factors, self.rows, strict=True)
        return np.asarray(np.sum([factor.family.effective_freedom(rows) for factor, rows in pairs], axis=0))

    @cached_property
    def order(self) -> Indices:
        """Most evidence first: large components are placed before small ones."""
        return np.argsort(-self.evidence, kind="stable").astype(np.intp)

    def taken(self, chosen: Indices) -> "Components":
        return Components(self.factors, tuple(rows.taken(chosen) for rows in self.rows), self.evidence[chosen])

    def followed_by(self, others: Sequence["Components"]) -> "Components":
        pairs = zip(self.rows, *(other.rows for other in others), strict=True)
        evidence = np.concatenate([self.evidence, *(other.evidence for other in others)])
        return Components(self.factors, tuple(first.followed_by(more) for first, *more in pairs), evidence)

    def shortened(self, entries: int) -> "Components":
        """A cheap approximation: sparse rows with their largest entries only."""
        return Components(self.factors, tuple(rows.shortened(entries) for rows in self.rows), self.evidence)

    def joined(self, labels: Indices, count: int) -> "Components":
        evidence = np.bincount(labels, self.evidence, minlength=count).astype(np.float64)
        return Components(self.factors, tuple(rows.joined(labels, count) for rows in self.rows), evidence)


def observed(pairs: Sequence[tuple[Factor, Sequence[Rows]]]) -> Array:
    """The number of observations of each component: from weights or counts, else from the factor with the most
    evidence.

    The steps of a state are the first steps of sequences and the moves into it. A factor without counts measures
    evidence in units of its prior or its noise.
    """
    weights = [pair for pair in pairs if pair[0].family.over_components and not pair[0].family.follows]
    counts = weights or [pair for pair in pairs if pair[0].family.inclusive] or [*pairs]
    # Site by site: transitions have as many columns as their site has components.
    evidence = [
        np.concatenate([factor.family.observations(factor.prior[:1], rows) for rows in sites])
        for factor, sites in counts
    ]
    amounts = np.sum(evidence, axis=0) if weights else max(evidence, key=lambda counts: float(counts.sum()))
    return np.asarray(np.maximum(amounts, 0.0))


def prior_components(factors: Sequence[Factor]) -> Components:
    """The prior of each slot as a component, for example the result of an earlier epoch."""
    apexes = [factor.family.apex(factor.prior.shape[1]) for factor in factors]
    contents = [f.family.rows(np.array(f.prior - apex)) for f, apex in zip(factors, apexes, strict=True)]
    return Components.of(factors, [tuple(contents)])


def earlier_components(problem: Problem, slots: int | None = None) -> Components | None:
    """The components of the earlier merge, one per slot; the largest ones if there are more.

    They anchor the slots so that the meaning of a slot does not drift from merge to merge; they are not added.
    """
    if problem.since is None:
        return None
    earlier, count = Components.of(problem.factors, [problem.since]), slots or problem.components
    most = earlier.order[:count]
    return earlier.taken(most).joined(np.arange(len(most)), count)


def sites_of(problem: Problem) -> Indices:
    return np.repeat(np.arange(problem.sites), [contents[0].count for contents in problem.contents])


def bases(factors: Sequence[Factor], observations: float, slots: int) -> list[Array]:
    """The share of the prior per observation: all of it at the mean evidence of a slot."""
    share = slots / max(observations, 1.0)
    return [share * (factor.prior[0] - factor.family.apex(factor.prior.shape[1])) for factor in factors]


def chunks(problem: Problem, sites: int) -> Iterator[tuple[slice, Components]]:
    """The components of a block of sites at a time, and their positions in the list of all."""
    first = 0
    for begin in range(0, problem.sites, sites):
        part = Components.of(problem.factors, [*problem.contents[begin : begin + sites]])
        yield slice(first, first + len(part)), part
        first += len(part)


def evidence_by_site(problem: Problem) -> tuple[Array, ...]:
    """Per site: the number of observations of each component."""
    return tuple(Components.of(problem.factors, [contents]).evidence for contents in problem.contents)


def groups_of(structure: Structure) -> tuple[tuple[str, ...], ...]:
    """The factors whose rows go together: those of each coupled set, and each of the others alone."""
    coupled = tuple(tuple(coupled_set.factors) for coupled_set in structure.symmetry)
    placed = {name for names in coupled for name in names}
    return *coupled, *((name,) for name in structure.families if name not in placed)


def group_evidence(posterior: Posterior, names: Sequence[str]) -> Array:
    """The number of observations of a posterior in each row of a group of factors."""
    families, prior = posterior.structure.families, posterior.structure.prior
    return observed([(Factor(families[n], prior[n]), [families[n].rows(posterior.contribution[n])]) for n in names])


def log_bayes_factors(family: Family, prior: Array, contribution: Array, rest: Array) -> Array:
    """A(λ0 + c + r) − A(λ0 + c) − A(λ0 + r) + A(λ0) of each row: c is a site's contribution, r that of all others."""
    together, apart = family.defined_terms(prior + contribution + rest), family.defined_terms(prior + contribution)
    # Without a site that has subtracted evidence the rest may be outside the domain: then the factor counts as 0.
    factor = together - apart - family.defined_terms(prior + rest) + family.row_terms(prior)
    return np.asarray(np.nan_to_num(factor, nan=0.0))
