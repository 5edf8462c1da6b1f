"""Rows of a list of columns that are no columns: sums over a site's rows, which settle what sites must agree on.

A site adds such a row to its list, `agree` joins those of all sites, and a model reads its settings from the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import is_number
from decbayes.columns.cells import Array, Raw, rounded
from decbayes.columns.column import Column
from decbayes.errors import InvalidData, InvalidStructure

# Number of intervals between cuts, and the fewest events of each site in each.
INTERVALS, LEAST = 6, 5
MOST_SITES, MOST_STEPS = 10_000, 10_000

Step = tuple[float, int]


class Sums(Column):
    """Sums over rows of one or more sites, a list of numbers each. No model has such a column."""

    factor: ClassVar[Any] = None
    parts: tuple[Any, ...]

    def details(self) -> list[Any]:
        return [list(part) for part in self.parts]

    @classmethod
    def agreed(cls, columns: Sequence[Any]) -> Self:
        return cls(*sorted(part for column in columns for part in column.parts))

    @classmethod
    def found_in(cls, values: Raw) -> Column:
        raise InvalidData(f"No column holds {cls.kind}: `decbayes columns --formula` lists them.")

    def coded(self, values: Raw) -> Array:
        raise InvalidData(f"No column holds {self.kind}.")

    def made_up(self, size: int, rng: np.random.Generator) -> Array:
        raise InvalidData(f"No column holds {self.kind}.")


@dataclass(frozen=True)
class Events(Sums):
    """Each site's number of events by some times, and its time at risk: the basis of cuts and a rate.

    A part is (time at risk, end, (time, events until then), …). Times have two digits, whatever the data, and at least
    five persons have an event between two of them, so that no event can be singled out. At least five persons without
    an event are observed until the end, after which there are no cuts.

    >>> events = Events((300.0, 30.0, (10.0, 6), (20.0, 12), (30.0, 18)), (200.0, 30.0, (12.0, 5), (28.0, 10)))
    >>> events.cuts, events.rate
    ((14.0,), 0.056)
    """

    parts: tuple[tuple[Any, ...], ...]
    kind: ClassVar[str] = "events"

    def __init__(self, *parts: Any) -> None:
        if not 0 < len(parts) <= MOST_SITES:
            raise InvalidStructure("Counts of events are lists of a time at risk, an end and steps, one list per site.")
        object.__setattr__(self, "parts", tuple(map(checked_steps, parts)))

    @classmethod
    def of(cls, times: Array, events: Array, persons: NDArray[Any], at_risk: float, *, least: int = LEAST) -> "Events":
        """The counts of one site; steps in which fewer than `least` persons have an event join the next."""
        seen, happened = np.array([coarser(time) for time in times]), events == 1.0

        def enough(rows: NDArray[np.bool_]) -> bool:
            return len(np.unique(persons[rows])) >= least

        steps: list[Step] = []
        before = 0.0
        for time in np.unique(seen[happened]):
            if enough(happened & (seen > before) & (seen <= time)):
                steps.append((float(time), int((happened & (seen <= time)).sum())))
                before = float(time)
        ends = [float(time) for time in np.unique(seen) if enough(~happened & (seen >= time))]
        return cls((rounded(at_risk), max(ends, default=before or 1.0), *steps))

    @property
    def total(self) -> int:
        return sum(int(steps[-1][1]) for _, _, *steps in self.parts if steps)

    @property
    def rate(self) -> float:
        """Events per unit of time, over all sites."""
        return float(f"{self.total / fsum(part[0] for part in self.parts):.2g}")

    @property
    def cuts(self) -> tuple[float, ...]:
        """Times with about the same number of events between them, and enough events of each site that has any.

        Counts are interpolated between a site's steps and added over sites. Then cuts are removed, at the smallest
        interval first, until each site has a whole step between any two. If none is left, others may be possible.
        """
        sites = [np.array([(0.0, 0.0), *steps]) for _, _, *steps in self.parts if steps]
        if not sites:
            return ()
        knots = np.unique(np.concatenate([site[:, 0] for site in sites]))
        summed = np.sum([np.interp(knots, *site.T) for site in sites], axis=0)
        wanted = summed[-1] * np.arange(1, INTERVALS) / INTERVALS
        quantiles = {float(f"{time:.2g}") for time in np.interp(wanted, summed, knots)} - {0.0}
        end = min(part[1] for part in self.parts)
        cuts = sorted(time for time in quantiles if time < end)
        while cuts and not (full := whole_steps(cuts, sites)).all():
            events = np.diff(np.interp([0.0, *cuts, knots[-1]], knots, summed))
            small = min(np.flatnonzero(~full), key=lambda place: (events[place], place))
            left = small == len(cuts) or (small > 0 and events[small - 1] <= events[small + 1])
            cuts.pop(int(small) - int(left))
        possible = [time for time in earliest(sites) if time < end and not cuts]
        nearest = {min(possible, key=lambda time: abs(time - quantile)) for quantile in quantiles if possible}
        return tuple(cuts or sorted(nearest))

    def text(self) -> str:
        cuts = ", ".join(f"{cut:g}" for cut in self.cuts) or "none (constant hazard, since a site has few events)"
        return f"at least {self.total:,} events; cuts {cuts}; rate {self.rate:g}"


@dataclass(frozen=True)
class Dispersion(Sums):
    """How much more than Poisson counts a site's counts vary, Σ [(y − μ)² n / (n − d) − μ], and Σ μ².

    >>> Dispersion((10.0, 30.0), (5.0, 15.0)).dispersion
    3.0
    """

    parts: tuple[tuple[float, float], ...]
    kind: ClassVar[str] = "dispersion"

    def __init__(self, *parts: Any) -> None:
        if not 0 < len(parts) <= MOST_SITES or not all(map(is_pair, parts)):
            raise InvalidStructure("Sums for a dispersion are two numbers per site, the second above 0.")
        object.__setattr__(self, "parts", tuple((float(extra), float(squares)) for extra, squares in parts))

    @classmethod
    def of(cls, extra: float, squares: float) -> "Dispersion":
        """The sums of one site, rounded as far as possible."""
        return cls((rounded(extra), rounded(squares)))

    @property
    def dispersion(self) -> float:
        """φ, with which the variance is mean + mean² / φ; infinite if counts vary no more than Poisson counts."""
        extra, squares = (fsum(numbers) for numbers in zip(*self.parts, strict=True))
        return rounded(squares / extra) if extra > 0 else float("inf")

    def text(self) -> str:
        return f"dispersion {self.dispersion:g}"


def columns_among(rows: dict[str, Column]) -> dict[str, Column]:
    return {name: row for name, row in rows.items() if not isinstance(row, Sums)}


def coarser(time: float) -> float:
    """Round up to two digits: a grid that is the same at all sites, whatever they measure."""
    unit = 10.0 ** (np.floor(np.log10(time)) - 1.0)
    return float(f"{np.ceil(time / unit - 1e-9) * unit:.2g}")


def whole_steps(cuts: Sequence[float], sites: Sequence[Array]) -> NDArray[np.bool_]:
    """Whether each interval between cuts has a whole step of every site."""
    ends = [0.0, *cuts, np.inf]
    inside = [[((site[:-1, 0] >= low) & (site[1:, 0] <= high)).any() for low, high in pairwise(ends)] for site in sites]
    return np.asarray(np.all(inside, axis=0))


def earliest(sites: Sequence[Array]) -> list[float]:
    """The most cuts with a whole step of every site between any two, each as early as possible."""
    ends: list[float] = []
    while not ends or np.isfinite(ends[-1]):
        low = ends[-1] if ends else 0.0
        ends.append(max(float(np.min(site[1:, 0][site[:-1, 0] >= low], initial=np.inf)) for site in sites))
    return ends[:-2]  # the last interval has no end


def checked_steps(part: Any) -> tuple[Any, ...]:
    """A site's time at risk and steps, checked to rise."""
    try:
        at_risk, end, *pairs = part
        steps = [*map(tuple, pairs)]
        rises = len(steps) <= MOST_STEPS and all(rising(steps)) and proper(at_risk) and proper(end)
    except (TypeError, ValueError):
        rises = False
    if not rises:
        raise InvalidStructure("Counts of events are a time at risk, an end, then times and counts that rise.")
    return float(at_risk), float(end), *((float(time), int(count)) for time, count in steps)


def rising(steps: Sequence[tuple[Any, ...]]) -> Iterator[bool]:
    before: tuple[Any, ...] = (0.0, 0)
    for time, count in steps:
        yield proper(time) and proper(count) and time > before[0] and count > before[1] and count == int(count)
        before = time, count


def proper(number: Any) -> bool:
    return is_number(number) and bool(np.isfinite(number)) and number > 0


def is_pair(part: Any) -> bool:
    return isinstance(part, Sequence) and len(part) == 2 and proper(part[1]) and proper(abs(part[0]) + 1.0)
