"""What a contribution's own numbers say about the data behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from decbayes.families import Array

# A contribution is a difference of sums that may be as large as everybody's evidence: so much is lost to rounding.
ABSOLUTE, RELATIVE = 0.01, 1e-6


@dataclass(frozen=True)
class Tally:
    """How many units of data a contribution holds: observations, words of documents, or steps of sequences.

    `totals` must each be the number of all units, and `observed` that of all observations, where these are not the
    units. `parts` are counts, and none is negative: one per component where there is something `within` them, (K, n)
    by what tells it, which may be missing in part and is never more. `differences` are between two factors that tell
    the same number, and vanish. `slack` is what honest fits leave out, and `loose` how much an observation may add
    beyond the units of a component. Without `parts` all is within all units.
    """

    totals: ArrayLike
    parts: Array
    differences: Mapping[str, Array] = field(default_factory=dict)
    slack: float = 0.0
    within: Mapping[str, Array] = field(default_factory=dict)
    observed: ArrayLike = ()
    loose: float = 0.0

    def contradiction(self, units: float, observations: float | None = None) -> str | None:
        """How the contribution contradicts itself, or the units that it is said to hold; None if it does not.

        Observations are the units unless told otherwise.
        """
        room = ABSOLUTE + RELATIVE * abs(units)
        off = largest(np.asarray(self.totals) - units)
        if not abs(off) <= room + self.slack:
            return f"its numbers hold {units + off:,.6g}, not the {units:,.6g} that it states"
        count = units if observations is None else observations
        off = largest(np.asarray(self.observed) - count)
        if not abs(off) <= room:
            return f"its numbers are of {count + off:,.6g} observations, not the {count:,.6g} that it states"
        if not self.parts.min(initial=0.0) >= -room:
            return f"a part of it holds {self.parts.min():,.6g}"
        for name, difference in self.differences.items():
            if not abs(largest(difference)) <= room:
                return f"'{name}' holds {largest(difference):+,.6g} in a component, beside what the others hold there"
        return self._beyond(self.each(units) + self.loose * count, room)

    def each(self, units: float) -> Array:
        """(K, 1): how many units each component holds; all of them where the numbers do not tell."""
        return self.parts.reshape(-1, 1) if self.parts.size else np.full((1, 1), float(units))

    def _beyond(self, most: Array, room: float) -> str | None:
        for name, held in self.within.items():
            if not (held - most).max(initial=0.0) <= room:
                return f"'{name}' holds {(held - most).max():,.6g} more in a component than the component has"
            if not held.min(initial=0.0) >= -room:
                return f"'{name}' holds {held.min():,.6g} in a component"
        return None


def largest(values: Array) -> float:
    """The value with the largest absolute value; NaN if there is one."""
    return float(max(values.max(initial=0.0), values.min(initial=0.0), key=abs))
