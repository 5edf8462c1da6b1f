"""Parts of the terms of a formula: columns, functions of columns, polynomials, splines.

A factor turns rows into numbers only by what sites have agreed on, never by their data: its zero and unit, knots and
levels are functions of the agreed columns.
"""

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import factorial
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from decbayes.columns import Column
from decbayes.errors import InvalidStructure
from decbayes.families import Array
from decbayes.models.regressions.formulas.expressions import Expression, Named, check_number, expression_of

CALL = re.compile(r"\s*([A-Za-z]\w*)\s*\((.*)\)\s*", re.DOTALL)
# Default ends of splines, in agreed units from the agreed centre.
REACH = 2.5
# Number of values at which to search for the largest absolute value of a function.
TRIED = 1001


class Factor(ABC):
    """A part of a term. `text` names it in labels; `names` are the columns that it needs."""

    text: str
    names: tuple[str, ...]
    categorical: ClassVar[bool] = False
    """Whether it has levels, so that its full coding adds up to one."""
    flag: bool = False
    """Whether its numbers are 0 or 1."""
    reference: int = 0
    """The reference level of a factor with levels."""

    @abstractmethod
    def numbers(self, values: Named, *, whole: bool) -> Array:
        """(N, labels); `whole`: all levels instead of contrasts, and uncentred numbers."""

    def sums(self, *, whole: bool, own: bool) -> list[dict[str, float]]:
        """Each of the numbers as a sum of contrasts, by their labels, and of a constant, with the label "".

        A number is a multiple of the factor in its `own` unit, minus its centre unless `whole`.
        """
        contrasts = [{label: 1.0} for label in self.labels(whole=False)]
        if not (whole and self.categorical):
            return contrasts
        rest = {"": 1.0} | {label: -1.0 for contrast in contrasts for label in contrast}
        return [*contrasts[: self.reference], rest, *contrasts[self.reference :]]

    @abstractmethod
    def labels(self, *, whole: bool) -> list[str]: ...

    @property
    def unit(self) -> float:
        """One unit of the numbers, in units of the column."""
        return 1.0

    @abstractmethod
    def largest(self, value: float) -> float:
        """The largest absolute value, if all values of columns are within ±`value`; infinite if unbounded."""


@dataclass(frozen=True)
class Plain(Factor):
    """A column as it is."""

    text: str
    column: Column

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.text,)

    @property
    def categorical(self) -> bool:  # type: ignore[override]
        return self.column.flag

    @property
    def flag(self) -> bool:  # type: ignore[override]
        return self.column.flag

    def numbers(self, values: Named, *, whole: bool) -> Array:
        numbers = self.column.contrasts(values[self.text])
        if whole and self.flag:
            return np.column_stack([1.0 - numbers.sum(axis=1), numbers])
        zero, unit = self.column.zero_and_unit
        return numbers + zero / unit if whole else numbers

    def sums(self, *, whole: bool, own: bool) -> list[dict[str, float]]:
        if self.flag:
            return super().sums(whole=whole, own=own)
        return measured(self.text, *self.column.zero_and_unit, whole=whole, own=own)

    def labels(self, *, whole: bool) -> list[str]:
        if not (whole and self.flag):
            return self.column.contrast_labels(self.text)
        levels = ("no", "yes") if self.column.entries == ("",) else self.column.entries
        return [f"{self.text}={level}" for level in levels]

    @property
    def unit(self) -> float:
        return self.column.zero_and_unit[1]

    def largest(self, value: float) -> float:
        zero, unit = self.column.zero_and_unit
        return 1.0 if self.flag else max(self.column.largest_contrast(value), (value + abs(zero)) / unit)


@dataclass(frozen=True)
class Levels(Factor):
    """C(column, ref="b"): a categorical column with another reference than its first level."""

    text: str
    name: str
    column: Column
    reference: int
    categorical: ClassVar[bool] = True
    flag: ClassVar[bool] = True  # type: ignore[misc]

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.name,)

    def _kept(self, whole: bool) -> list[int]:
        return [level for level in range(len(self.column.entries)) if whole or level != self.reference]

    def numbers(self, values: Named, *, whole: bool) -> Array:
        return np.asarray(values[self.name][:, None] == np.array(self._kept(whole)), dtype=np.float64)

    def labels(self, *, whole: bool) -> list[str]:
        return [f"{self.name}={self.column.entries[level]}" for level in self._kept(whole)]

    def largest(self, value: float) -> float:
        return 1.0


@dataclass(frozen=True)
class Computed(Factor):
    """A function of columns, such as log(x) or I(x**2), in units that follow from the agreed ones."""

    text: str
    expression: Expression
    columns: Mapping[str, Column]

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.expression.names

    @cached_property
    def zero_and_unit(self) -> tuple[float, float]:
        """The function at the agreed centres, and its change within one agreed unit of a column."""
        agreed = {name: self.columns[name].zero_and_unit for name in self.names}
        at = {name: zero for name, (zero, _) in agreed.items()}
        with np.errstate(all="ignore"):
            zero = float(self.expression(at))
            moved = [
                float(self.expression(at | {name: centre + side * unit}))
                for name, (centre, unit) in agreed.items()
                for side in (-1.0, 1.0)
            ]
        changes = [abs(value - zero) for value in moved if np.isfinite(value) and np.isfinite(zero)]
        return (zero if np.isfinite(zero) else 0.0), max([change for change in changes if change > 0], default=1.0)

    @property
    def unit(self) -> float:
        return self.zero_and_unit[1]

    def numbers(self, values: Named, *, whole: bool) -> Array:
        zero, unit = self.zero_and_unit
        return ((self.expression.checked(values) - (0.0 if whole else zero)) / unit)[:, None]

    def sums(self, *, whole: bool, own: bool) -> list[dict[str, float]]:
        return measured(self.text, *self.zero_and_unit, whole=whole, own=own)

    def labels(self, *, whole: bool) -> list[str]:
        return [self.text]

    def largest(self, value: float) -> float:
        (low, high), (zero, unit) = self.expression.range(value), self.zero_and_unit
        return max(abs(low), abs(high), abs(low - zero), abs(high - zero)) / unit


@dataclass(frozen=True)
class Basis(Factor):
    """Several functions of one column: poly, bs or ns, of z = (x − centre) / scale, as agreed."""

    text: str
    name: str
    column: Column
    functions: Callable[[Array], Array]

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.name,)

    def numbers(self, values: Named, *, whole: bool) -> Array:
        zero, unit = self.column.zero_and_unit
        return self.functions((values[self.name] - zero) / unit)

    def labels(self, *, whole: bool) -> list[str]:
        kind = self.text.partition("(")[0]
        return [f"{kind}({self.name})[{place + 1}]" for place in range(self.functions(np.zeros(1)).shape[1])]

    def largest(self, value: float) -> float:
        """The functions oscillate only within a few agreed units, and are monotone beyond."""
        zero, unit = self.column.zero_and_unit
        values = np.append(np.linspace(-value, value, TRIED), zero + unit * np.linspace(-5.0, 5.0, TRIED))
        return float(np.abs(self.numbers({self.name: values.clip(-value, value)}, whole=False)).max(initial=1.0))


def measured(text: str, zero: float, unit: float, *, whole: bool, own: bool) -> list[dict[str, float]]:
    """The sum that stands for (x − zero) / unit, or for x / unit if `whole`; or for x in its `own` unit."""
    return [{text: 1.0}] if own else [{text: 1.0 / unit, "": 0.0 if whole else -zero / unit}]


def factor_of(text: str, columns: Mapping[str, Column]) -> Factor:
    """The factor that a text names: a column, or a call."""
    if text in columns:
        return Plain(text, columns[text])
    call = CALL.fullmatch(text)
    if call is None:
        raise InvalidStructure(
            f"There is no column '{text}'. Terms are names of columns, functions such as log(x), or several joined by "
            "':'."
        )
    name = call.group(1)
    if name in BASES:
        return basis_of(name, text, columns)
    if name == "C":
        return levels_of(text, columns)
    expression = expression_of(text, columns)
    return Computed(expression.text, expression, columns)


def arguments(text: str, names: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    """The column of a call, and its further arguments, which are plain numbers or strings."""
    quoted = re.search(r"`([^`]+)`", text)
    plain = text.replace(quoted.group(), "column_", 1) if quoted else text
    try:
        call = ast.parse(plain.strip(), mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.args[0], ast.Name)
        given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        given |= dict(zip(names, map(ast.literal_eval, call.args[1:]), strict=False))
    except (SyntaxError, ValueError, AssertionError, IndexError):
        given = {"": None}
    if set(given) - set(names):
        raise InvalidStructure(f"'{text}' is not of the form {text.partition('(')[0]}(column, {', '.join(names)}=…).")
    return (quoted.group(1) if quoted else call.args[0].id), {str(name): value for name, value in given.items()}  # type: ignore[attr-defined]


def levels_of(text: str, columns: Mapping[str, Column]) -> Factor:
    name, given = arguments(text, ("ref",))
    if name not in columns or len(columns[name].entries) < 2:
        raise InvalidStructure(f"'{text}' needs a categorical column; make it one with its kind.")
    levels, reference = columns[name].entries, str(given.get("ref", columns[name].entries[0]))
    if reference not in levels:
        raise InvalidStructure(f"'{text}': '{name}' has no such reference level.")
    return Levels(f"C({quoted(name)}, ref={reference!r})", name, columns[name], levels.index(reference))


def quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def polynomials(degree: int) -> Callable[[Array], Array]:
    """Hermite polynomials: uncorrelated if z is standard normal."""
    scale = np.sqrt([factorial(power) for power in range(1, degree + 1)])

    def functions(z: Array) -> Array:
        return np.asarray(np.polynomial.hermite_e.hermevander(z, degree)[:, 1:] / scale)

    return functions


def b_splines(knots: Array, low: float, high: float, degree: int) -> Callable[[Array], Array]:
    """All but the first B-spline; they continue as polynomials beyond the ends."""
    padded = np.concatenate([[low] * (degree + 1), knots, [high] * (degree + 1)])

    def functions(z: Array) -> Array:
        from scipy.interpolate import BSpline  # a fit without splines does not need it

        spline = BSpline(padded, np.eye(len(padded) - degree - 1), degree, extrapolate=True)
        return np.asarray(spline(z)[:, 1:])

    return functions


def natural_splines(knots: Array, low: float, high: float, degree: int) -> Callable[[Array], Array]:
    """Cubic between knots, linear beyond the ends: the truncated powers whose second derivative vanishes there."""
    all_knots = np.concatenate([[low], knots, [high]])

    def truncated_power(z: Array, knot: float) -> Array:
        return np.asarray((np.maximum(z - knot, 0.0) ** 3 - np.maximum(z - high, 0.0) ** 3) / (high - knot))

    def functions(z: Array) -> Array:
        last = truncated_power(z, all_knots[-2])
        powers = [(truncated_power(z, knot) - last) / (high - low) for knot in all_knots[:-2]]
        return np.column_stack([z, *powers])

    return functions


BASES: dict[str, Callable[..., Callable[[Array], Array]]] = {
    "bs": b_splines,
    "ns": natural_splines,
    "poly": polynomials,
}


def basis_of(kind: str, text: str, columns: Mapping[str, Column]) -> Factor:
    """A polynomial or spline of a column. Defaults follow from the agreed centre and scale."""
    names = ("degree",) if kind == "poly" else ("df", "knots", "bounds", *(("degree",) if kind == "bs" else ()))
    name, given = arguments(text, names)
    check_number(name, text, columns)
    degree, column = given.get("degree", 2 if kind == "poly" else 3), columns[name]
    if not isinstance(degree, int) or not 1 <= degree <= 9:
        raise InvalidStructure(f"'{text}': the degree must be an integer from 1 to 9.")
    if kind == "poly":
        return Basis(f"poly({quoted(name)}, {degree})", name, column, polynomials(degree))
    zero, unit = column.zero_and_unit
    knots, bounds = spline_ends(kind, text, given, degree, zero, unit)
    tail = "" if kind == "ns" else f", degree={degree}"
    shown = f"{kind}({quoted(name)}, knots={numbers_text(knots)}, bounds={numbers_text(bounds)}{tail})"
    low, high = ((bound - zero) / unit for bound in bounds)
    return Basis(shown, name, column, BASES[kind]((np.array(knots) - zero) / unit, low, high, degree))


def spline_ends(
    kind: str, text: str, given: dict[str, Any], degree: int, zero: float, unit: float
) -> tuple[list[float], list[float]]:
    """Inner knots and the two ends, in the column's own unit."""
    fewest = degree if kind == "bs" else 1
    try:
        size = int(given.get("df", fewest + 1))
        stated = [float(knot) for knot in np.atleast_1d(given["knots"])] if "knots" in given else None
        low, high = (float(end) for end in given.get("bounds", (zero - REACH * unit, zero + REACH * unit)))
    except (TypeError, ValueError):
        raise InvalidStructure(f"'{text}': df must be an integer; knots and bounds must be numbers.") from None
    if not fewest <= size <= 50:
        raise InvalidStructure(f"'{text}': df must be an integer from {fewest} to 50.")
    usual = zero + unit * ndtri(np.arange(1, size - fewest + 1) / (size - fewest + 1))
    knots = stated if stated is not None else [float(f"{knot:.4g}") for knot in usual]
    low, high = (end if "bounds" in given else float(f"{end:.4g}") for end in (low, high))
    if not (np.diff([low, *knots, high]) > 0).all():
        raise InvalidStructure(f"'{text}': knots must increase and lie between the bounds {low:g} and {high:g}.")
    return knots, [low, high]


def numbers_text(numbers: list[float]) -> str:
    return f"({', '.join(f'{number!r}' for number in numbers)}{',' if len(numbers) == 1 else ''})"
