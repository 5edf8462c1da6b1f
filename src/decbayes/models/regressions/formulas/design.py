"""The columns of a table as the numbers that a regression multiplies by its coefficients, coded as in R."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.columns import Column
from decbayes.errors import InvalidStructure
from decbayes.families import Array
from decbayes.models.regressions.formulas.formula import INTERCEPT, unbracketed
from decbayes.models.regressions.formulas.term_factors import CALL, Factor, factor_of

Span = tuple[frozenset[str], frozenset[str]]
"""A space of functions: numeric factors, and factors with levels whose contrasts are multiplied by them."""

# Ratios are for one unit if values of a column typically differ by between this little and this much.
NEAR_ONE = 0.3, 300.0


class Piece(NamedTuple):
    """A product of factors, and which of them are `whole`: with all levels, or not centred."""

    factors: tuple[Factor, ...]
    whole: tuple[bool, ...]


@dataclass(frozen=True)
class Design:
    """Terms of a regression: columns, functions of columns, or products of several, joined by ":".

    Real columns are in agreed units, (x − centre) / scale, and counts in theirs. A column with levels has one number
    per level but the first, the reference; yes is 1 and no is 0. If earlier terms do not contain that comparison it has
    a number for each level, and numbers are not centred if that would change what the terms can express: `y ~ x - 1`
    goes through the origin.
    """

    columns: Mapping[str, Column]
    terms: tuple[str, ...]
    intercept: bool

    @cached_property
    def factors(self) -> tuple[tuple[Factor, ...], ...]:
        """The factors of each term."""
        return tuple(
            tuple(factor_of(text, self.columns) for text in parts_of(self.columns, term)) for term in self.terms
        )

    @property
    def canonical(self) -> tuple[str, ...]:
        """The terms with all defaults that their columns decide written out."""
        return tuple(":".join(factor.text for factor in factors) for factors in self.factors)

    @cached_property
    def pieces(self) -> tuple[tuple[Piece, ...], ...]:
        """How each term is coded: products that together express what no earlier term does."""
        spans: set[Span] = {(frozenset(), frozenset())} if self.intercept else set()
        coded: dict[int, list[dict[str, bool]]] = {}
        for place in sorted(range(len(self.terms)), key=lambda place: len(self.factors[place])):
            numeric, levels = numeric_and_levels(self.factors[place])
            wanted = [span for span in subspaces(numeric, levels) if span not in spans]
            spans.update(wanted)
            coded[place] = merged_contrasts([group for _, group in wanted])
        return tuple(
            tuple(self._piece(factors, levels, spans) for levels in coded[place])
            for place, factors in enumerate(self.factors)
        )

    def _piece(self, factors: tuple[Factor, ...], levels: dict[str, bool], spans: set[Span]) -> Piece:
        kept = tuple(factor for factor in factors if not factor.categorical or factor.text in levels)
        centred = centred_among(kept, spans)
        return Piece(kept, tuple(levels.get(factor.text, factor.text not in centred) for factor in kept))

    @property
    def _all(self) -> list[Piece]:
        return [piece for pieces in self.pieces for piece in pieces]

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of each coefficient, such as "age", "sex=m" or "age:sex=m"."""
        names = [label for piece in self._all for label in piece_labels(piece)]
        return (INTERCEPT, *names) if self.intercept else tuple(names)

    def _each(self, values: Iterable[tuple[Piece, float]]) -> Array:
        """Repeat the value of each piece for its labels; 1 for the intercept."""
        spread = [value for piece, value in values for _ in piece_labels(piece)]
        return np.array([1.0, *spread] if self.intercept else spread)

    @property
    def units(self) -> Array:
        """The unit of each coefficient's number, in units of its columns."""
        return self._each((piece, float(np.prod([factor.unit for factor in piece.factors]))) for piece in self._all)

    @cached_property
    def own_units(self) -> tuple[Array, Array]:
        """(D, D), and (D,): converts coefficients to those of uncentred columns in their own units, as in R; and the
        latter coefficients that add 1 to every row, 0 if none do.

        Both are coefficients of one function: a sum of products of contrasts and of numbers in their own units.
        """
        agreed, own = ([*self._sums(own=own)] for own in (False, True))
        terms = [*dict.fromkeys(term for number in [{frozenset[str](): 1.0}, *own, *agreed] for term in number)]
        before, after = (
            np.array([[number.get(term, 0.0) for number in part] for term in terms]) for part in (agreed, own)
        )
        constant = np.eye(len(terms), 1)
        solved = np.linalg.lstsq(after, np.column_stack([before, constant]), rcond=None)[0]
        level = solved[:, -1] * np.allclose(after @ solved[:, -1:], constant)
        return solved[:, :-1], level

    def _sums(self, *, own: bool) -> Iterator[dict[frozenset[str], float]]:
        """The number of each coefficient as a sum of products; or in its columns' own units."""
        if self.intercept:
            yield {frozenset(): 1.0}
        for factors, whole in self._all:
            sums = [factor.sums(whole=every, own=own) for factor, every in zip(factors, whole, strict=True)]
            yield from (product_of_sums(numbers) for numbers in product(*sums))

    def places(self, names: Iterable[str]) -> list[int]:
        """The positions of the coefficients of these terms, or of the intercept."""
        sizes = [1] * self.intercept + [sum(len(piece_labels(piece)) for piece in pieces) for pieces in self.pieces]
        ends = np.cumsum(sizes)
        first = [INTERCEPT] if self.intercept else []
        known = {
            name: range(end - size, end) for name, size, end in zip([*first, *self.terms], sizes, ends, strict=True)
        }
        unknown = [name for name in names if name not in known]
        if unknown:
            raise InvalidStructure(
                f"'{unknown[0]}' cannot vary from site to site: it is no term of the regression ({', '.join(known)})."
            )
        return [place for name in names for place in known[name]]

    @property
    def flags(self) -> NDArray[np.bool_]:
        """Which numbers are 0 or 1: the intercept, categories, yes and no, and products of these."""
        return self._each((piece, all(factor.flag for factor in piece.factors)) for piece in self._all).astype(np.bool_)

    @property
    def levels(self) -> NDArray[np.bool_]:
        """Which coefficients are levels of the outcome, not effects: the intercept, and full sets of categories."""
        pieces = [(piece, all(f.categorical and w for f, w in zip(*piece, strict=True))) for piece in self._all]
        return self._each(pieces).astype(np.bool_)

    def ones(self, contribution: Array) -> Array:
        """Σ w over the rows in which a number is 1, for each number that is 0 or 1.

        The last columns of a regression's contribution are −½ Xᵀ diag(w) X, row by row.
        """
        flags = self.flags
        weights = -2.0 * contribution[0, -(flags.size**2) :].reshape(flags.size, flags.size).diagonal()
        return np.asarray(weights[flags])

    def largest(self, value: float) -> Array:
        """The largest absolute value of each number, if all values of columns are within ±`value`."""
        return self._each(
            (piece, float(np.prod([factor.largest(value) for factor in piece.factors]))) for piece in self._all
        )

    def matrix(self, points: Array) -> Array:
        """(N, D): the design matrix; `points` are coded as `columns` says, in that order."""
        values = {name: points[:, place] for place, name in enumerate(self.columns)}
        first = [np.ones((len(points), 1))] if self.intercept else []
        return np.column_stack([*first, *(piece_numbers(piece, values) for piece in self._all)])


class PerLevel(Design):
    """The same terms with separate coefficients for each level of the last column but its first, the reference."""

    @cached_property
    def _others(self) -> tuple[str, ...]:
        return tuple(self.columns[[*self.columns][-1]].entries[1:])

    @property
    def labels(self) -> tuple[str, ...]:
        """Such as "bus: age"."""
        return tuple(f"{level}: {label}" for level in self._others for label in super(PerLevel, self).labels)

    def _each(self, values: Iterable[tuple[Piece, float]]) -> Array:
        return np.tile(super()._each(values), len(self._others))

    @cached_property
    def own_units(self) -> tuple[Array, Array]:
        change, level = super().own_units
        return np.asarray(np.kron(np.eye(len(self._others)), change)), np.tile(level, len(self._others))

    def places(self, names: Iterable[str]) -> list[int]:
        within, side = super().places(names), len(self.labels) // len(self._others)
        return [side * level + place for level in range(len(self._others)) for place in within]

    def matrix(self, points: Array) -> Array:
        numbers = super().matrix(points)
        at_level = points[:, -1:] == np.arange(1, len(self._others) + 1)
        return products(at_level.astype(np.float64), numbers)


def product_of_sums(sums: Iterable[Mapping[str, float]]) -> dict[frozenset[str], float]:
    """Expand a product of sums into a sum of products, by the labels of their factors."""
    terms: dict[frozenset[str], float] = {frozenset(): 1.0}
    for summands in sums:
        terms = {
            (known | {label}) if label else known: factor * share
            for known, factor in terms.items()
            for label, share in summands.items()
        }
    return terms


def comparable(unit: float) -> float:
    """The difference in a column that a ratio is about: 1, or a power of ten near its typical differences."""
    usual = 1.0 / unit
    return 1.0 if NEAR_ONE[0] <= usual <= NEAR_ONE[1] else float(10.0 ** np.floor(np.log10(usual)))


def piece_numbers(piece: Piece, values: Mapping[str, Array]) -> Array:
    parts = [factor.numbers(values, whole=whole) for factor, whole in zip(*piece, strict=True)]
    return reduce(products, parts)


def piece_labels(piece: Piece) -> list[str]:
    parts = [factor.labels(whole=whole) for factor, whole in zip(*piece, strict=True)]
    return reduce(lambda left, right: [f"{a}:{b}" for a in left for b in right], parts)


def products(left: Array, right: Array) -> Array:
    """All products of a number on the left and one on the right."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), left.shape[1] * right.shape[1])


def numeric_and_levels(factors: Iterable[Factor]) -> Span:
    """The texts of numeric factors, and of those with levels."""
    kinds = {factor.text: factor.categorical for factor in factors}
    numeric = frozenset(text for text, categorical in kinds.items() if not categorical)
    return numeric, frozenset(kinds) - numeric


def subspaces(numeric: frozenset[str], levels: frozenset[str]) -> list[Span]:
    """The spaces that all levels of some factors span, as contrasts: of every subset, smaller ones first."""
    ordered = sorted(levels)
    return [(numeric, frozenset(chosen)) for size in range(len(ordered) + 1) for chosen in combinations(ordered, size)]


def merged_contrasts(groups: Sequence[frozenset[str]]) -> list[dict[str, bool]]:
    """Merge products of contrasts where possible: the contrasts of a factor and their reference are all of its levels.
    Each product says of its factors whether all levels are used.
    """
    coded = [dict.fromkeys(group, False) for group in groups]
    pair = joinable(coded)
    while pair is not None:
        smaller, larger, factor = pair
        coded[larger] = coded[larger] | {factor: True}
        del coded[smaller]
        pair = joinable(coded)
    return coded


def joinable(coded: Sequence[dict[str, bool]]) -> tuple[int, int, str] | None:
    for smaller, few in enumerate(coded):
        for larger, many in enumerate(coded):
            extra = set(many) - set(few)
            same = all(many.get(factor) == whole for factor, whole in few.items())
            if len(extra) == 1 and len(many) == len(few) + 1 and same and not many[next(iter(extra))]:
                return smaller, larger, extra.pop()
    return None


def centred_among(factors: Sequence[Factor], spans: set[Span]) -> set[str]:
    """Which numbers of a product can be centred, because the regression contains all terms that this adds."""
    numeric, levels = numeric_and_levels(factors)
    centred: set[str] = set()
    for text in (factor.text for factor in factors if factor.text in numeric):
        trial = sorted(centred | {text})
        dropped = [set(chosen) for size in range(1, len(trial) + 1) for chosen in combinations(trial, size)]
        if all(span in spans for fewer in dropped for span in subspaces(numeric - fewer, levels)):
            centred.add(text)
    return centred


def parts_of(columns: Container[str], term: str) -> list[str]:
    """The factors of a term; a column may have ":" in its name."""
    return [term] if term in columns else unbracketed(term, ":")


def mentioned(columns: Iterable[str], text: str) -> list[str]:
    """The columns that a term or an expression needs."""
    known = list(columns)
    if text in known:
        return [text]
    return [name for part in unbracketed(text, ":") for name in mentioned_in(known, part, text)]


def mentioned_in(known: Sequence[str], part: str, term: str) -> list[str]:
    if part in known:
        return [part]
    if not CALL.fullmatch(part):
        raise InvalidStructure(
            f"The term '{term}' needs a column '{part}', which does not exist. Terms are names of columns, functions "
            "such as log(x), or several joined by ':'. Compute any other term as a column first."
        )
    name_pattern = re.compile(
        "|".join(rf"`{re.escape(name)}`|(?<![\w.`]){re.escape(name)}(?![\w.`(])" for name in known)
    )
    inside = [match.strip("`") for match in name_pattern.findall(part[part.index("(") :])] if known else []
    return list(dict.fromkeys(inside))


def needed(columns: Iterable[str], *texts: str, further: str = "") -> list[str]:
    """The columns that terms or expressions need, in the order of the columns; `further` may occur as well."""
    known = list(columns)
    names = {name for text in texts if text for name in mentioned([*known, *([further] if further else [])], text)}
    return [name for name in known if name in names]
