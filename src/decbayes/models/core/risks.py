"""What the accuracy of predictions is computed from."""

from typing import NamedTuple

from decbayes.families import Array


class Risks(NamedTuple):
    """Of each observation: its risk, when it happened and whether (outcomes that are larger happen earlier), since when
    it was at risk; what was observed, and what was expected.
    """

    risk: Array
    time: Array
    event: Array
    entry: Array
    observed: Array
    expected: Array
