"""Sums of contributions in common slots; the naive merge; and which posteriors make a sum improper."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from decbayes.errors import OutOfDomain, StructureMismatch
from decbayes.families import Array, Contribution
from decbayes.families.matrices import Indices
from decbayes.merging.base.canonical import canonical_components, canonical_order
from decbayes.merging.base.coupled import as_sequence
from decbayes.merging.base.division import Division
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Permutation, Structure, identity

Assignment = Indices
"""The slot of each component."""

SiteSlots = Mapping[CoupledSet, Assignment]
"""The slots of one posterior's components, by coupled set."""


class AssignedSums:
    """Σ_i c_i of every factor in slots, in dense matrices: the union of many sparse ones is dense anyway."""

    def __init__(self, structure: Structure, known: Mapping[CoupledSet, Division] | None = None) -> None:
        """The totals in `known` divisions are used as they are."""
        self.structure = structure
        self._totals = {name: np.zeros(prior.shape) for name, prior in structure.prior.items()}
        self._received: dict[str, tuple[Division, Array]] = {}
        for coupled, division in (known or {}).items():
            names = [name for name in coupled.factors if not structure.families[name].follows]
            self._received |= {name: (division, division.received) for name in names if division.received is not None}
        self._known = frozenset(self._received)

    def add(
        self,
        posterior: Posterior,
        assignment: SiteSlots,
        site: int = 0,
        divisions: Mapping[CoupledSet, Division] | None = None,
    ) -> None:
        """Add a posterior's components to their slots. A factor in no coupled set is added without relabelling."""
        placed: set[str] = set()
        divided = divisions or {}
        for coupled, slots in assignment.items():
            # If components share a slot, the order of addition must not depend on the site's labels.
            alone = coupled not in divided and distinct(slots)
            left = [name for name in coupled.factors if name not in self._known]
            order = identity(len(slots)) if alone or not left else canonical_components(posterior, coupled)
            placed.update(coupled.factors)
            for name, division in self._divisions(coupled, divided.get(coupled)).items():
                if name in left:
                    self._add(posterior, name, np.asarray(slots), order, site, division)
        for name, total in self._totals.items():
            if name not in placed:
                rows = self.structure.families[name].rows(posterior.contribution[name])
                rows.add_to(total, identity(len(total)), identity(len(total)))

    def contributions(self) -> dict[str, Contribution]:
        for name, (division, received) in self._received.items():
            self._totals[name][division.names] = division.steadied(received).T
        sparse = self.structure.sparse
        return {name: csr_array(total) if name in sparse else total for name, total in self._totals.items()}

    def _divisions(self, coupled: CoupledSet, division: Division | None) -> dict[str, Division | None]:
        """The division of each factor of a set, with the profiles of its own columns."""
        if division is None:
            return dict.fromkeys(coupled.factors)
        divisions, first = dict[str, Division | None](), 0
        for name in coupled.factors:
            width = 0 if self._by_shares(name) else self.structure.prior[name].shape[1]
            divisions[name] = replace(division, profiles=division.profiles[first : first + width])
            first += width
        return divisions

    def _by_shares(self, name: str) -> bool:
        """Whether a factor is divided by shares alone."""
        family = self.structure.families[name]
        return family.follows or family.over_components

    def _add(
        self, posterior: Posterior, name: str, slots: Assignment, order: Indices, site: int, division: Division | None
    ) -> None:
        total: Array = self._totals[name]
        family, contribution = self.structure.families[name], posterior.contribution[name]
        if division is None:
            family.added(total, contribution, slots, order)
        elif self._by_shares(name):
            division.add_whole(total, site, family.rows(contribution), order)
        else:
            _, received = self._received.setdefault(name, (division, np.zeros(division.profiles.shape)))
            division.add_to(received, site, family.rows(contribution), order)


def filled_by(slots: Assignment, count: int) -> Permutation:
    if not distinct(slots):
        raise StructureMismatch("Several components of one posterior share a slot; see `assignments`.")
    filled = np.full(count, -1, dtype=np.intp)
    filled[slots] = np.arange(len(slots))
    return filled


def distinct(slots: Assignment) -> bool:
    return len(np.unique(slots)) == len(slots)


def check_assignments(assignments: Sequence[SiteSlots], sites: int, structure: Structure) -> None:
    """Refuse assignments unless there is one per posterior and all slots exist."""
    if len(assignments) != sites:
        raise StructureMismatch(f"There are {sites} posteriors and {len(assignments)} assignments.")
    counts = {coupled: structure.components(coupled) for coupled in structure.symmetry}
    for site, assignment in enumerate(assignments):
        if not isinstance(assignment, Mapping):
            raise StructureMismatch(f"Assignment {site} must map each coupled set to slots.")
    for coupled, count in counts.items():
        site_slots = [assignment.get(coupled, ()) for assignment in assignments]
        if name_slots(site_slots, count):
            continue
        site = next(site for site, slots in enumerate(site_slots) if not name_slots([slots], count))
        raise StructureMismatch(
            f"Assignment {site} has {assignments[site].get(coupled)!r} for {coupled}: it names a slot for each "
            f"component, as integers from 0 to {count - 1}."
        )


def name_slots(site_slots: Sequence[object], count: int) -> bool:
    """Whether all are non-empty arrays of integers below the count."""
    arrays = [np.asarray(slots) for slots in site_slots]
    whole = all(slots.ndim == 1 and slots.size and slots.dtype.kind in "ui" for slots in arrays)
    if not whole or any(isinstance(slots, np.ma.MaskedArray) for slots in site_slots):
        return False
    together = np.concatenate([np.zeros(0, dtype=np.intp), *arrays])
    return bool((together >= 0).all() and (together < count).all())


def product(posteriors: Iterable[Posterior]) -> Posterior:
    """Combine posteriors by Bayes' rule, counting the shared prior once.

        λ = λ0 + Σ_i (λ_i − λ0)

    Components are added as labelled; see `merge` to align them first.

    >>> model = db.models.GaussianMean(variance=1.0)
    >>> first, second = (model.fit(np.array([[x]])).posterior for x in (1.0, 3.0))
    >>> db.merging.product([first, second]) == model.fit(np.array([[1.0], [3.0]])).posterior
    True
    """
    given = as_sequence(posteriors)
    order, _ = canonical_order(given, strictly=True)
    return assigned_product(given, [{}] * len(given), order, given[0].structure)


def weighted(posterior: Posterior, weights: Mapping[str, Array]) -> Posterior:
    """λ0 + w c: the posterior with each row of each factor weighted."""
    parts = {name: weighted_rows(part, weights[name]) for name, part in posterior.contribution.items()}
    return Posterior(posterior.structure, parts, posterior.ids)


def scaled(posterior: Posterior, scale: float) -> Posterior:
    """λ0 + s c: the posterior with all evidence scaled."""
    if scale == 1.0:
        return posterior
    rows = {name: part.shape[0] for name, part in posterior.contribution.items()}
    return weighted(posterior, {name: np.full(count, scale) for name, count in rows.items()})


def weighted_rows(part: Contribution, weights: Array) -> Contribution:
    if isinstance(part, np.ndarray):
        return np.asarray(weights[:, None] * part)
    entries = part.data * np.repeat(weights, np.diff(part.indptr))
    weighted_part: Contribution = csr_array((entries, part.indices, part.indptr), shape=part.shape)
    return weighted_part


def assigned_product(
    posteriors: Sequence[Posterior],
    assignments: Sequence[SiteSlots],
    order: Sequence[int],
    structure: Structure,
    divisions: Mapping[CoupledSet, Division] | None = None,
) -> Posterior:
    """λ0 + Σ_i (λ_i − λ0 in its slots), summed in the given order, so that the result always has the same bits."""
    if len(posteriors) == 1 and not assignments[0]:
        return posteriors[0]
    sums = AssignedSums(structure, divisions)
    for site in order:
        sums.add(posteriors[site], assignments[site], site, divisions)
    totals = sums.contributions()
    check_domain(posteriors, assignments, totals, structure)
    return Posterior(structure, totals)


def check_domain(
    posteriors: Sequence[Posterior],
    assignments: Sequence[SiteSlots],
    totals: Mapping[str, Contribution],
    structure: Structure,
) -> None:
    """Refuse a merge outside a family's domain, naming the factor, the component and the responsible posteriors."""
    for name, family in structure.families.items():
        outside = np.flatnonzero(~family.contains_sum(structure.prior[name], family.rows(totals[name])))
        if len(outside):
            sites = blame(posteriors, assignments, structure, name, int(outside[0]))
            raise OutOfDomain(
                f"The merge leaves the domain of {family.name} in '{name}', component {outside[0]}: posterior "
                f"{', '.join(map(str, sites))} is less certain there than the prior, so the sum is not a proper "
                "distribution. Leave it out, or fit it again with the shared prior."
            )


def blame(
    posteriors: Sequence[Posterior], assignments: Sequence[SiteSlots], structure: Structure, name: str, slot: int
) -> list[int]:
    """The posteriors whose contribution to a slot would leave the domain if all sites had the same.

    Domains are convex and the total is the average of λ0 + N c_i, so there is always at least one.
    """
    rows = np.array([row_in(*pair, structure, name, slot) for pair in zip(posteriors, assignments, strict=True)])
    extreme = structure.prior[name][slot] + len(rows) * rows
    return [int(site) for site in np.flatnonzero(~structure.families[name].contains_rows(extreme))]


def row_in(posterior: Posterior, assignment: SiteSlots, structure: Structure, name: str, slot: int) -> Array:
    sums = AssignedSums(structure)
    sums.add(posterior, assignment)
    row = structure.families[name].rows(sums.contributions()[name]).taken(np.array([slot]))
    return np.asarray(row.written_out()[0])
