"""What the slots of one factor hold in total, kept up to date as sites are placed, and what a site would add.

Contributions are summed apart from the prior: taking a site out again then leaves exactly zero where nobody else has
contributed, not the rounding error of its own large counts on top of a tiny prior.
"""

from typing import TYPE_CHECKING, Protocol

import numpy as np

from decbayes.families.matrices import Array, Indices
from decbayes.families.rows import Rows

if TYPE_CHECKING:
    from decbayes.families.family import Family


class Totals(Protocol):
    """λ0 + Σ_i P_i c_i of one factor; a component below zero stands for a site that is not placed."""

    def clear(self, slots: Indices) -> None:
        """Empty the slots, to be summed anew: `add` everybody, then `update`."""

    def add(self, rows: Rows, slots: Indices, components: Indices) -> None:
        """Add a site's components to cleared slots."""

    def update(self, slots: Indices) -> None:
        """Bring everything that depends on the sums up to date."""

    def move(self, rows: Rows, slots: Indices, before: Indices, after: Indices) -> None:
        """Replace the components that a site has in these slots."""

    def gains(self, rows: Rows, slots: Indices, held: Indices) -> Array:
        """What each slot gains from each component of a site that holds `held` there now; NaN where undefined."""

    def objective(self) -> float:
        """A(λ), −∞ outside the domain."""


class PlainTotals:
    """Totals of any family, by its own `gain`."""

    def __init__(self, family: "Family", prior: Array) -> None:
        self.family, self.prior, self.added = family, prior, np.zeros(prior.shape)

    def clear(self, slots: Indices) -> None:
        self.added[slots] = 0.0

    def add(self, rows: Rows, slots: Indices, components: Indices) -> None:
        rows.add_to(self.added, slots, components)

    def update(self, slots: Indices) -> None:
        pass

    def move(self, rows: Rows, slots: Indices, before: Indices, after: Indices) -> None:
        rows.add_to(self.added, slots, before, -1.0)
        rows.add_to(self.added, slots, after)

    def gains(self, rows: Rows, slots: Indices, held: Indices) -> Array:
        rest, places = self.added[slots], np.arange(len(slots))
        rows.add_to(rest, places, held, -1.0)
        return self.family.gain(self.prior[slots] + rest, rows.written_out())

    def objective(self) -> float:
        natural = self.prior + self.added
        return self.family.log_partition(natural) if self.family.contains(natural) else -np.inf
