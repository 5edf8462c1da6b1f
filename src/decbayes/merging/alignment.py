"""The slot of each component of each posterior. Functions of an alignment are in `reading`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Literal

from decbayes.base.arguments import check_kind
from decbayes.base.display import Displayed, advice_on
from decbayes.errors import StructureMismatch
from decbayes.merging.base.coupled import coupled_problem, in_memory
from decbayes.merging.base.division import Division
from decbayes.merging.base.equal_noise import at_equal_noise
from decbayes.merging.base.lineage import Lineage, follow, with_new_ids
from decbayes.merging.base.problem import Decided, Optimality, Problem
from decbayes.merging.base.products import (
    AssignedSums,
    Assignment,
    SiteSlots,
    assigned_product,
    check_assignments,
    distinct,
    filled_by,
)
from decbayes.merging.base.subjects import Subjects
from decbayes.merging.grouping.shared import Shared, shared_components
from decbayes.merging.remarking import are_budgets, remarks_on, warnings_of_topics, weight_factors
from decbayes.posterior import EXACT, Posterior
from decbayes.remarks import Later, Remark, lines, ordered, site_names, sites_first, warnings_in, with_measured_distance
from decbayes.structure import CoupledSet, Permutation, Structure, is_permutation

Assignments = tuple[SiteSlots, ...]
Counted = Literal["all", "some", "in part"]

# With more sites than this, remarks are computed only on request, because they take time.
MOST_LOOKED_AT = 100
NOT_LOOKED_AT = Remark(
    "not checked",
    f"With more than {MOST_LOOKED_AT} sites, or files that are read one by one, a merge is not checked.",
    "`db.merging.remarks(alignment)` checks it.",
    severity="note",
)


@dataclass(frozen=True, eq=False)
class Alignment(Displayed):
    """The slot of each component of each posterior: `align` makes one, and `merged()` is the merge.

    `assignments[i][coupled][k]` is the slot of component k of posterior i. Several components may share a slot; if none
    do, `permutations` is the inverse. Slots are numbered as in the posterior with the most evidence. Functions of an
    alignment, such as `margins`, `confidence` and `influence`, are in `db.merging`.

    Attributes:
        assignments: the slot of each component, by posterior and coupled set.
        objective: the values of J during the search.
        posteriors: the aligned posteriors, in the caller's order.
        order: the order in which contributions are summed, which depends only on their contents.
        structure: the structure of the merge.
        optimality: what is proven. "none": nothing; "swap": no exchange of two components of one posterior raises J;
            "site": no relabelling of one posterior does; "global": no relabelling of all does.
        divisions: how the counts of mixed components are divided among slots.
        lineage: what became of the components of the earlier merge that this one follows.
        ids: the ids that slots inherit from the sites' components.
        reason: why there are this many slots, in a sentence; empty if the number was given.
        decided: what decided their number: "given" by the caller, the "largest" site, "auto", how well sites predict
            each other ("predictions"), or "rounds" for posteriors refined in common slots.
        sent: the posteriors as they were sent, if `posteriors` are first broadcasts of a regression, moved to their
            common centre; else empty.
        compared: the posteriors as they were aligned, if a robust merge counts less of their frequencies; else empty.
        rounds: the number of rounds that the posteriors took together; 0 if none, or unknown.
        counted: what a robust merge counts: "all" sites, only "some" of them, or some only "in part".

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> fits = [model.fit(n + np.array([[-9.0], [-8.0], [8.0], [9.0]]), rng=rng).posterior for n in range(2)]
    >>> alignment = db.align(fits)
    >>> alignment.one_to_one
    True
    >>> alignment.merged() == db.merge(fits)
    True
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
    reason: str = field(default="", repr=False)
    decided: Decided = field(default="given", repr=False)
    sent: Sequence[Posterior] = field(default=(), repr=False)
    compared: Sequence[Posterior] = field(default=(), repr=False)
    rounds: int = field(default=0, repr=False)
    counted: Counted = field(default="all", repr=False)

    def __post_init__(self) -> None:
        check_assignments(self.assignments, len(self.posteriors), self.structure)
        if not is_permutation(self.order, len(self.posteriors)):
            raise StructureMismatch(f"order must name each of the {len(self.posteriors)} posteriors once.")
        object.__setattr__(self, "divisions", MappingProxyType(dict(self.divisions)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only mappings cannot be pickled.
        values = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return type(self), tuple({**values, "divisions": dict(self.divisions)}.values())

    def __str__(self) -> str:
        """The size of the alignment, J, why there are this many slots, and remarks that are quick to compute."""
        counts = [self.structure.components(coupled) for coupled in self.structure.symmetry]
        slots = f"{', '.join(map(str, counts)) or 'no'} {'slot' if counts == [1] else 'slots'}"
        objective = f", J = {self.objective[-1]:,.1f}" if self.objective else ""
        size = f"{len(self.posteriors)} posteriors in {slots}{objective}"
        why = [self.reason] if self.reason else []
        return "\n".join([size, *why, *lines(quick_remarks(self), rest="see `db.merging.remarks`")])

    @property
    def permutations(self) -> tuple[Mapping[CoupledSet, Permutation], ...]:
        """The component of each posterior in each slot, −1 for none; an error if several share a slot."""
        return tuple(
            {coupled: filled_by(slots, self.structure.components(coupled)) for coupled, slots in assignment.items()}
            for assignment in self.assignments
        )

    @property
    def one_to_one(self) -> bool:
        """Whether no two components of one posterior share a slot."""
        return not self.divisions and all(
            distinct(slots) for assignment in self.assignments for slots in assignment.values()
        )

    def merged(self) -> Posterior:
        """λ0 + Σ_i (contribution of posterior i in its slots)."""
        return self._merged

    @cached_property
    def _merged(self) -> Posterior:
        if self.lineage is not None:
            return self.lineage.posterior
        merged = assigned_product(self.posteriors, self.assignments, self.order, self.structure, self.divisions)
        return replace(merged, ids=with_new_ids(merged, self.ids)) if self.ids else merged

    def since(self, previous: Posterior) -> "Alignment":
        """The same alignment after an earlier merge, whose components keep their ids and, if possible, slots."""
        lineage = follow(previous, replace(self, lineage=None).merged())
        (coupled,) = self.structure.symmetry
        assignments = tuple({coupled: lineage.slots[slots]} for slots in self.slots(coupled))
        divisions = {coupled: division.renamed(lineage.slots) for coupled, division in self.divisions.items()}
        return replace(self, assignments=assignments, divisions=divisions, lineage=lineage)

    def relabelled(self) -> tuple[Posterior, ...]:
        """Each posterior with its components in the common slots; their product is the merge."""
        return tuple(self.in_slots(site) for site in range(len(self.posteriors)))

    def in_slots(self, site: int) -> Posterior:
        """One posterior with its components in the common slots; remarks that may name components are left out."""
        sums = AssignedSums(self.structure)
        sums.add(self.posteriors[site], self.assignments[site], site, self.divisions)
        if self.structure.symmetry:
            return Posterior(self.structure, sums.contributions())
        remarks, halves = self.posteriors[site].remarks, self.posteriors[site].halves
        return Posterior(self.structure, sums.contributions(), remarks=remarks, halves=halves)

    def without(self, site: int) -> Posterior:
        """The merge of all other posteriors in the same slots."""
        merged, left_out = replace(self, lineage=None).merged(), self.in_slots(site)
        return Posterior(
            self.structure, {name: part - left_out.contribution[name] for name, part in merged.contribution.items()}
        )

    def at_site(self, site: int) -> Posterior:
        """The merge with the weights of one site only, to predict at that site if shares of components differ.

        >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=400.0)
        >>> shards = [np.repeat([[-10.0], [10.0]], sizes, axis=0) for sizes in ([30, 10], [10, 30])]
        >>> alignment = db.align([model.fit(shard, rng=0).posterior for shard in shards])
        >>> np.sort(alignment.merged().mean("weights")).round(2), np.sort(alignment.at_site(0).mean("weights")).round(2)
        (array([0.5, 0.5]), array([0.26, 0.74]))
        """
        weights = [name for coupled in self.structure.symmetry for name in weight_factors(self.structure, coupled)]
        if not weights:
            raise StructureMismatch("This model has no weights of components that one site could keep.")
        merged, own = self.merged(), self.in_slots(site).contribution
        return replace(merged, contribution={**merged.contribution, **{name: own[name] for name in weights}})

    def at_equal_noise(self) -> "Alignment":
        """The same alignment, of linear regressions with noise of one size at all sites, to compare coefficients."""
        posteriors = at_equal_noise(self.posteriors)
        return self if posteriors is self.posteriors else replace(self, posteriors=posteriors)

    def shared(self) -> Mapping[CoupledSet, Shared]:
        """The sites that support each slot, with how much evidence, and how far their versions differ."""
        return self._shared

    @cached_property
    def _shared(self) -> Mapping[CoupledSet, Shared]:
        return {
            coupled: shared_components(self.problem(coupled), self.slots(coupled))
            for coupled in self.structure.symmetry
        }

    @property
    def refined(self) -> bool:
        """Whether the posteriors depend on each other: those of a round, unless contributions are exact."""
        return self.decided == "rounds" and self.posteriors[0].uncertainty != EXACT

    @property
    def moved(self) -> bool:
        """Whether the posteriors are first broadcasts of a regression, moved to their common centre."""
        return bool(self.sent)

    def slots(self, coupled: CoupledSet) -> list[Assignment]:
        """Per posterior: the slot of each component of one coupled set."""
        return [assignment[coupled] for assignment in self.assignments]

    def problem(self, coupled: CoupledSet) -> Problem:
        """The solver's problem for one coupled set, with the sites' labels."""
        return coupled_problem(self.compared or self.posteriors, coupled, self.structure)


def remarks(alignment: Alignment, names: Sequence[str] | None = None) -> tuple[Remark, ...]:
    """What to know about a merge before relying on it, most important first: what it means, and what to do.

    Args:
        names: the names of the sites. Default: "site 0" and so on.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=400.0)
    >>> rng = np.random.default_rng(0)
    >>> sites = [model.fit(centres + rng.normal(size=(40, 2, 1)).reshape(-1, 1), rng=rng).posterior
    ...          for centres in np.tile([[-20.0], [20.0]], (4, 40, 1))]
    >>> db.merging.remarks(db.align(sites))
    ()
    >>> print(*db.merging.remarks(db.align(sites, components=1)))
    Slot 0 holds components that differ: with more than 1 slot the merge would probably predict better. ...
    """
    check_kind(Alignment, alignment=alignment)
    named = names_of_sites(alignment, names)
    usual = remarks_on(alignment.posteriors, alignment.structure, alignment.shared(), named, alignment.decided)
    return sites_first(with_measured_distance([*usual, *advice_on(alignment, named)]))


def names_of_sites(alignment: Alignment, names: Sequence[str] | None) -> tuple[str, ...]:
    named = tuple(names) if names is not None else site_names(len(alignment.posteriors))
    if len(named) != len(alignment.posteriors):
        raise ValueError(f"names must list one for each of the {len(alignment.posteriors)} posteriors.")
    return named


def quick_remarks(alignment: Alignment, names: Sequence[str] | None = None) -> tuple[Remark, ...]:
    """The remarks if they are quick to compute; else one that says so, and those that only this kind of model has."""
    if is_quick(alignment):
        return remarks(alignment, names)
    of_model = advice_on(alignment, names_of_sites(alignment, names)) if in_memory(alignment.posteriors) else ()
    return ordered([NOT_LOOKED_AT, *of_model])


def is_quick(alignment: Alignment) -> bool:
    return in_memory(alignment.posteriors) and len(alignment.posteriors) <= MOST_LOOKED_AT


def remarks_in_time(
    alignment: Alignment, names: Sequence[str] | None = None
) -> tuple[Sequence[Remark], tuple[Remark, ...]]:
    """The remarks, and their warnings; for topics only the warnings are computed before somebody reads the rest."""
    if not are_budgets(alignment.structure):
        quick = quick_remarks(alignment, names)
        return quick, warnings_in(quick)
    later = Later(partial(quick_remarks, alignment, names))
    if not is_quick(alignment):
        return later, ()
    (coupled,) = alignment.structure.symmetry
    count = alignment.structure.components(coupled)
    subjects = Subjects(alignment.posteriors, alignment.slots(coupled), count, coupled)
    return later, warnings_of_topics(subjects, names, alignment.decided)
