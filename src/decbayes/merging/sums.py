"""Sums of contributions in common slots, taken one site at a time so that no two need be in memory."""

from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array

from decbayes.families import Array, Contribution
from decbayes.families.matrices import Indices
from decbayes.merging.canonical import canonical_components
from decbayes.merging.division import Division
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet, identity

Assignment = Indices
"""The slot of each component."""


class AssignedSums:
    """Σ_i c_i of every factor in slots, through dense matrices: the union of many sparse ones is dense anyway."""

    def __init__(self, structure: Structure, known: Mapping[CoupledSet, Division] | None = None) -> None:
        """Divisions that are `known` say what slots receive of all sites together: that is not added up again."""
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
        assignment: Mapping[CoupledSet, Assignment],
        site: int = 0,
        divisions: Mapping[CoupledSet, Division] | None = None,
    ) -> None:
        """Add a posterior's components to their slots. A factor in no coupled set is added as it is."""
        placed: set[str] = set()
        divided = divisions or {}
        for coupled, slots in assignment.items():
            # Where components share a slot, the order in which they are added must not depend on anybody's labels.
            alone = coupled not in divided and len(np.unique(slots)) == len(slots)
            left = [name for name in coupled.factors if name not in self._known]
            order = identity(len(slots)) if alone or not left else canonical_components(posterior, coupled)
            placed.update(coupled.factors)
            for name in left:
                self._add(posterior, name, np.asarray(slots), order, site, divided.get(coupled))
        for name, total in self._totals.items():
            if name not in placed:
                rows = self.structure.families[name].rows(posterior.contribution[name])
                rows.add_to(total, identity(len(total)), identity(len(total)))

    def contributions(self) -> dict[str, Contribution]:
        for name, (division, received) in self._received.items():
            self._totals[name][division.names] = division.settled(received).T
        sparse = self.structure.sparse
        return {name: csr_array(total) if name in sparse else total for name, total in self._totals.items()}

    def _add(
        self, posterior: Posterior, name: str, slots: Assignment, order: Indices, site: int, division: Division | None
    ) -> None:
        total: Array = self._totals[name]
        family, contribution = self.structure.families[name], posterior.contribution[name]
        if division is None:
            family.added(total, contribution, slots, order)
        elif family.follows:
            division.add_whole(total, site, family.rows(contribution), order)
        else:
            _, received = self._received.setdefault(name, (division, np.zeros(division.profiles.shape)))
            division.add_to(received, site, family.rows(contribution), order)
