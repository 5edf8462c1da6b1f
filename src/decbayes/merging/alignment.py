"""Which slot each component of each posterior goes into, and what follows from it."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import check_kind
from decbayes.display import Displayed
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.merging.base.components import LEAST_EVIDENCE, Components
from decbayes.merging.base.coupled import constant, coupled_problem, fitting
from decbayes.merging.base.division import Division
from decbayes.merging.base.problem import Optimality, Problem
from decbayes.merging.base.products import (
    AssignedSums,
    Assignment,
    assigned_product,
    check_assignments,
    distinct,
    filled_by,
)
from decbayes.merging.grouping.inherited_ids import inherited
from decbayes.merging.reading.confidence import Confidence, Reliability, checked_overlaps
from decbayes.merging.reading.heterogeneity import Heterogeneity, heterogeneity, of_coefficients
from decbayes.merging.reading.influence import Influence, influence
from decbayes.merging.reading.lineage import Lineage, follow, with_new_ids
from decbayes.merging.reading.margins import component_losses, component_margins, upper_bound
from decbayes.merging.reading.shared import Shared, shared_components
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet, Permutation, is_permutation

Assignments = tuple[Mapping[CoupledSet, Assignment], ...]


# Observations per parameter that a site should have in a component: with fewer, its own fit is not where the fit of all
# data would have been.
LEAST_PER_PARAMETER = 5.0
# Sites of which it is worth the time to find out, unasked, whether unlike things were merged.
MOST_LOOKED_AT = 100


@dataclass(frozen=True)
class Alignment(Displayed):
    """Which slot each component of each posterior goes into, and J of the merge.

    `assignments[i][coupled][k]` is the slot of component k of posterior i. Several components may share a slot; where
    none do, `permutations` says the same the other way round. The slots are labelled as in the posterior with the most
    evidence. `objective` is J as the solver raised it. `optimality` says what is proven: nothing ("none"), no exchange
    of two components of one posterior raises J ("swap"), no relabelling of one posterior does ("site"), no relabelling
    of all does ("global"). `divisions` says how counts of impure components are shared out among slots. `lineage` says
    what became of the components of the merge that this one follows. `ids` are those that slots inherit.
    """

    assignments: Assignments
    objective: tuple[float, ...]
    posteriors: Sequence[Posterior] = field(repr=False)
    order: tuple[int, ...] = field(repr=False)
    structure: Structure = field(repr=False)
    optimality: Optimality = "none"
    divisions: Mapping[CoupledSet, Division] = field(default_factory=dict, repr=False)
    lineage: Lineage | None = field(default=None, repr=False)
    ids: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_assignments(self.assignments, len(self.posteriors), self.structure)
        if not is_permutation(self.order, len(self.posteriors)):
            raise StructureMismatch(f"order must name each of the {len(self.posteriors)} posteriors once.")
        object.__setattr__(self, "divisions", MappingProxyType(dict(self.divisions)))

    def __str__(self) -> str:
        """What was merged into what, and what deserves a look, where that is soon found out."""
        sizes = ", ".join(str(self.structure.components(coupled)) for coupled in self.structure.symmetry)
        reached = f", J = {self.objective[-1]:,.1f}" if self.objective else ""
        told = self.remarks() if len(self.posteriors) <= MOST_LOOKED_AT else ()
        return "\n".join([f"{len(self.posteriors)} posteriors in {sizes or 'no'} slots{reached}", *told])

    def with_objective(self, objective: tuple[float, ...]) -> "Alignment":
        """The same alignment, not checked again."""
        same = copy(self)
        object.__setattr__(same, "objective", objective)
        return same

    @property
    def permutations(self) -> tuple[Mapping[CoupledSet, Permutation], ...]:
        """Which component of each posterior fills each slot, −1 for none; refused where some share a slot."""
        return tuple(
            {coupled: filled_by(slots, self.structure.components(coupled)) for coupled, slots in assignment.items()}
            for assignment in self.assignments
        )

    @property
    def one_to_one(self) -> bool:
        """Whether no two components of one posterior share a slot."""
        return not self.divisions and all(distinct(slots) for each in self.assignments for slots in each.values())

    def merged(self) -> Posterior:
        """λ0 + Σ_i (what posterior i has put into each slot)."""
        if self.lineage is not None:
            return self.lineage.posterior
        merged = assigned_product(self.posteriors, self.assignments, self.order, self.structure, self.divisions)
        return replace(merged, ids=with_new_ids(merged, self.ids)) if self.ids else merged

    def named(self, ids: Sequence[Sequence[str]]) -> "Alignment":
        """The same alignment with the ids that slots inherit from the sites' components."""
        (coupled,) = self.structure.symmetry
        slots = [own[coupled] for own in self.assignments]
        names = inherited(ids, slots, np.concatenate(self.evidence(coupled)), self.structure.components(coupled))
        return replace(self, ids=names)

    def since(self, previous: Posterior) -> "Alignment":
        """The same alignment after an earlier merge, whose components keep their ids and, where possible, slots."""
        lineage = follow(previous, replace(self, lineage=None).merged())
        (coupled,) = self.structure.symmetry
        assignments = tuple({coupled: lineage.slots[own[coupled]]} for own in self.assignments)
        divisions = {each: division.renamed(lineage.slots) for each, division in self.divisions.items()}
        return replace(self, assignments=assignments, divisions=divisions, lineage=lineage)

    def relabelled(self) -> tuple[Posterior, ...]:
        """Each posterior with its components in the common slots: their product is the merge."""
        return tuple(self.in_slots(site) for site in range(len(self.posteriors)))

    def in_slots(self, site: int) -> Posterior:
        """One posterior with its components in the common slots."""
        sums = AssignedSums(self.structure)
        sums.add(self.posteriors[site], self.assignments[site], site, self.divisions)
        return Posterior(self.structure, sums.contributions())

    def without(self, site: int) -> Posterior:
        """What all other posteriors say, in the common slots: the merge without one site's contribution."""
        merged, own = replace(self, lineage=None).merged(), self.in_slots(site)
        return Posterior(
            self.structure,
            {name: part - own.contribution[name] for name, part in merged.contribution.items()},
        )

    def margins(self) -> tuple[Mapping[CoupledSet, Array], ...]:
        """For each posterior and component: what the objective loses when it must go into another slot.

        All other posteriors keep their places. Zero says that the next best slot is as good; infinity, that there is no
        other. The objective is J where each site fills each slot once, else what the slots know (see `Grouping`), and
        empty slots do not count. Where a site has more than six states of sequences, only exchanges of two are tried:
        its margins may be too large. A margin is no probability: how sure a match is also depends on how far the sites'
        posteriors can be believed. See `confidence` for a probability.
        """
        margins: tuple[dict[CoupledSet, Array], ...] = tuple({} for _ in self.posteriors)
        for coupled in self.structure.symmetry:
            slots = [assignment[coupled] for assignment in self.assignments]
            problem = self._problem(coupled)
            for own, values in zip(margins, component_margins(problem, slots), strict=True):
                own[coupled] = values
        return margins

    def losses(self) -> tuple[Mapping[CoupledSet, Array], ...]:
        """For each posterior and component: the nats of information that are lost because it shares its slot.

        Noise makes some of it; what belongs elsewhere, or nowhere, loses far more.
        """
        losses: tuple[dict[CoupledSet, Array], ...] = tuple({} for _ in self.posteriors)
        for coupled in self.structure.symmetry:
            slots = [assignment[coupled] for assignment in self.assignments]
            for own, values in zip(losses, component_losses(self._problem(coupled), slots), strict=True):
                own[coupled] = values
        return losses

    def confidence(self, reliability: Reliability, overlaps: Sequence[Any] | None = None) -> Confidence:
        """For each posterior and component: the probability that it belongs to its slot.

            found.confidence(db.checking.reliability(found))

        `reliability` says what margins and evidence are worth in this setting: `db.checking.reliability` learns it from
        simulations. `overlaps` has for each posterior what its site reports (`decbayes.checking.overlap`), or None.
        """
        check_kind(Reliability, reliability=reliability)
        found: tuple[dict[CoupledSet, Array], ...] = tuple({} for _ in self.posteriors)
        margins, losses = self.margins(), self.losses()
        for coupled in self.structure.symmetry:
            evidence, alone = self.evidence(coupled), self.alone(coupled)
            shares = checked_overlaps(overlaps, [len(own) for own in evidence])
            for site, own in enumerate(found):
                sure = reliability.probabilities(
                    margins[site][coupled], evidence[site], losses[site][coupled], shares[site]
                )
                own[coupled] = np.where(alone[site] | (evidence[site] < LEAST_EVIDENCE), np.nan, sure)
        return Confidence(found, reliability, overlaps is not None)

    def filled(self, coupled: CoupledSet) -> NDArray[np.bool_]:
        """(sites, slots): whether what the posterior has put there is more than the prior."""
        filled = np.zeros((len(self.posteriors), self.structure.components(coupled)), dtype=np.bool_)
        for site, (posterior, assignment) in enumerate(zip(self.posteriors, self.assignments, strict=True)):
            filled[site, assignment[coupled][~posterior.untouched(coupled)]] = True
        return filled

    def fillings(self, coupled: CoupledSet) -> list[list[tuple[int, ...]]]:
        """Sites × slots: the components that have put something there, by the labels they have at their site."""
        slots = range(self.structure.components(coupled))
        pairs = [*zip(self.seen(coupled), self.assignments, strict=True)]
        return [[tuple(np.flatnonzero(seen & (own[coupled] == s)).tolist()) for s in slots] for seen, own in pairs]

    def seen(self, coupled: CoupledSet) -> tuple[NDArray[np.bool_], ...]:
        """For each posterior, which components have seen data: they stand for half an observation or more.

        The others are padding, or what a fit did not need; it does not matter where they go.
        """
        return tuple(own >= LEAST_EVIDENCE for own in self.evidence(coupled))

    def evidence(self, coupled: CoupledSet) -> tuple[Array, ...]:
        """For each posterior, how many observations (or words) each component stands for."""
        problem = self._problem(coupled)
        return tuple(Components.of(problem.factors, [contents]).evidence for contents in problem.contents)

    def alone(self, coupled: CoupledSet) -> tuple[NDArray[np.bool_], ...]:
        """For each posterior, which components are in slots where no other posterior has put anything."""
        held = self.support(coupled)
        others = held.sum(axis=0) - held
        return tuple(others[site, own[coupled]] < LEAST_EVIDENCE for site, own in enumerate(self.assignments))

    def support(self, coupled: CoupledSet) -> Array:
        """Sites × slots: how many observations (or words) each posterior has put into each slot."""
        pairs, count = zip(self.assignments, self.evidence(coupled), strict=True), self.structure.components(coupled)
        return np.array([np.bincount(own[coupled], weights, minlength=count) for own, weights in pairs])

    def shared(self) -> Mapping[CoupledSet, Shared]:
        """Who has what: for each slot the sites that support it, with how much, and how far their versions differ."""
        return {coupled: shared_components(self, coupled) for coupled in self.structure.symmetry}

    def remarks(self) -> tuple[str, ...]:
        """Slots that hold unlike things, or are nearly the same, each with the remedy."""
        return tuple(remark for shared in self.shared().values() for remark in shared.remarks())

    def heterogeneity(self, calibrated: Posterior | None = None) -> Mapping[CoupledSet, Heterogeneity]:
        """Whether the sites' versions of each slot differ by more than chance, and by how much; also of coefficients.

        Those have no labels, and their key is a set of their own. `calibrated` is the merge with calibrated intervals:
        where components overlap, mean field's are too narrow, and like sites seem to differ.
        """
        merged = self.merged()
        if calibrated is not None and replace(calibrated, calibration=None) != merged:
            raise StructureMismatch("This is not the merge of these posteriors; calibrate what `merged()` gives.")
        spread = calibrated or merged
        found = {coupled: heterogeneity(self, coupled, spread) for coupled in self.structure.symmetry}
        named = {name for coupled in self.structure.symmetry for name in coupled.factors}
        others = {name: of_coefficients(self, name) for name in self.structure.families if name not in named}
        return found | {CoupledSet((name,)): each for name, each in others.items() if each is not None}

    def evidence_per_parameter(self, coupled: CoupledSet) -> Array:
        """Observations per parameter, of each site's components that have seen data."""
        problem = self._problem(coupled)
        components = Components.of(problem.factors, [*problem.contents])
        seen = components.evidence >= LEAST_EVIDENCE
        return np.asarray(components.evidence[seen] / np.maximum(components.told()[seen], 1.0))

    def thin(self, coupled: CoupledSet) -> float | None:
        """Observations per parameter in the median, where these are too few for sites to find what all data would show.

        None where they are enough, or there is one site. Intervals of such a merge are too narrow, and lie in the wrong
        place, unless its posteriors were refined together.
        """
        evidence = self.evidence_per_parameter(coupled)
        median = float(np.median(evidence)) if len(evidence) and len(self.posteriors) > 1 else np.inf
        return median if median < LEAST_PER_PARAMETER else None

    def influence(self) -> Influence:
        """Who has how much to do with the merge, and how far each disagrees with all others, slot by slot."""
        return influence(self)

    def bound(self) -> float:
        """A number that J cannot exceed whatever the permutations, so that no one-to-one alignment beats it.

            J ≤ Σ_i max_P Σ_k A(λ0_k + N c_iP(k)) / N

        It holds because A is convex, and is reached when all posteriors say the same. It is infinite where a posterior
        is so much less certain than the prior that N of its kind could not be merged.
        """
        sets = [upper_bound(self._problem(coupled, padded=True)) for coupled in self.structure.symmetry]
        return sum(sets) + constant(self.posteriors, self.order, self.structure)

    def _problem(self, coupled: CoupledSet, *, padded: bool = False) -> Problem:
        held = fitting(self.posteriors, self.structure) if padded else self.posteriors
        return coupled_problem(held, coupled, self.structure)
