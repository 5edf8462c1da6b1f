"""Sums of relabelled posteriors, taken one at a time so that no two need be in memory."""

from collections.abc import Mapping

import numpy as np
from scipy.sparse import csr_array

from decbayes.families import Contribution
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import Permutation, identity

Relabelling = Mapping[str, Permutation]
"""The permutation of each relabelled factor."""


class RelabelledSums:
    """Σ_i P_i (λ_i − λ0) of every factor, through dense matrices: the union of many sparse ones is dense anyway."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._totals = {name: np.zeros(prior.shape) for name, prior in structure.prior.items()}

    def add(self, posterior: Posterior, relabelling: Relabelling) -> None:
        for name, total in self._totals.items():
            slots = identity(len(total))
            rows = self.structure.families[name].rows(posterior.contribution[name])
            rows.add_to(total, slots, np.asarray(relabelling.get(name, slots)))

    def contributions(self) -> dict[str, Contribution]:
        sparse = self.structure.sparse
        return {name: csr_array(total) if name in sparse else total for name, total in self._totals.items()}
