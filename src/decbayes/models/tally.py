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
    """How many units of data a contribution holds: observations, or words of documents.

    `totals` must each be the number of all units; `parts` are counts, and none is negative; `differences` are between
    two factors that tell the same number, by what tells it, and vanish. `slack` is what honest fits leave out.
    """

    totals: ArrayLike
    parts: Array
    differences: Mapping[str, Array] = field(default_factory=dict)
    slack: float = 0.0

    def contradiction(self, units: float) -> str | None:
        """How the contribution contradicts itself, or the units that it is said to hold; None if it does not."""
        room = ABSOLUTE + RELATIVE * abs(units)
        off = largest(np.asarray(self.totals) - units)
        if not abs(off) <= room + self.slack:
            return f"its numbers hold {units + off:,.6g}, not the {units:,.6g} that it states"
        if not self.parts.min(initial=0.0) >= -room:
            return f"a part of it holds {self.parts.min():,.6g}"
        for name, difference in self.differences.items():
            if not abs(largest(difference)) <= room:
                return f"'{name}' holds {largest(difference):+,.6g} in a component, beside what the others hold there"
        return None


def largest(values: Array) -> float:
    """The value with the largest absolute value."""
    return float(max(values.max(initial=0.0), values.min(initial=0.0), key=abs))
