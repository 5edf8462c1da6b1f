"""The columns of a table as the numbers that a regression multiplies with its coefficients, as a formula says."""

import re
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from decbayes.columns.frames import Columns
from decbayes.errors import InvalidStructure
from decbayes.families import Array

INTERCEPT = "intercept"


@dataclass(frozen=True)
class Design:
    """Terms of a regression: a column, or several joined by ":" whose product counts.

    Real columns are in agreed units, (x − centre) / scale, and counts in theirs. A categorical column has one number
    per category but its first, with which all others are compared; yes is 1 and no is 0.
    """

    columns: Columns
    terms: tuple[str, ...]
    intercept: bool

    @property
    def labels(self) -> tuple[str, ...]:
        """What each coefficient belongs to, such as "age", "sex=m" or "age:sex=m"."""
        names = [label for term in self.terms for label in term_labels(self.columns, term)]
        return (INTERCEPT, *names) if self.intercept else tuple(names)

    @property
    def units(self) -> Array:
        """How much of its columns, in their own units, one unit of each coefficient's number is."""
        units = [unit for term in self.terms for unit in term_units(self.columns, term)]
        return np.array([1.0, *units] if self.intercept else units)

    def places(self, names: Iterable[str]) -> list[int]:
        """Where the coefficients of these terms are, or of the intercept."""
        sizes = [1] * self.intercept + [len(term_labels(self.columns, term)) for term in self.terms]
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
        """Which of the numbers are 0 or 1: the intercept, categories, yes and no, and products of these."""
        by_term = [all(self.columns[name].flag for name in names) for names in self._named]
        return np.array([True, *by_term] if self.intercept else by_term, dtype=np.bool_)

    def ones(self, contribution: Array) -> Array:
        """Σ w over the rows in which a number is 1, for each that is 0 or 1.

        The last columns of a regression's contribution are −½ Xᵀ diag(w) X, row by row.
        """
        flags = self.flags
        weights = -2.0 * contribution[0, -(flags.size**2) :].reshape(flags.size, flags.size).diagonal()
        return np.asarray(weights[flags])

    def largest(self, value: float) -> Array:
        """How large each of the numbers can be, if no value of a column is beyond ±`value`."""
        sizes = [
            float(np.prod([self.columns[name].largest_contrast(value) for name in names])) for names in self._named
        ]
        return np.array([1.0, *sizes] if self.intercept else sizes)

    @property
    def _named(self) -> list[list[str]]:
        """The columns behind each label but the intercept's."""
        return [names_of(self.columns, term) for term in self.terms for _ in term_labels(self.columns, term)]

    def matrix(self, points: Array) -> Array:
        """(N, D): a row of numbers per observation; `points` are coded as `columns` says, in that order."""
        places = {name: place for place, name in enumerate(self.columns)}
        parts = [
            reduce(products, [self.columns[name].contrasts(points[:, places[name]]) for name in names])
            for names in (names_of(self.columns, term) for term in self.terms)
        ]
        first = [np.ones((len(points), 1))] if self.intercept else []
        return np.column_stack([*first, *parts])


def products(left: Array, right: Array) -> Array:
    """All products of a number of the left and one of the right."""
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), left.shape[1] * right.shape[1])


def term_labels(columns: Columns, term: str) -> list[str]:
    parts = [columns[name].contrast_labels(name) for name in names_of(columns, term)]
    return reduce(lambda left, right: [f"{a}:{b}" for a in left for b in right], parts)


def term_units(columns: Columns, term: str) -> list[float]:
    """One per label; categories and yes or no have no unit."""
    unit = float(np.prod([columns[name].zero_and_unit[1] for name in names_of(columns, term)]))
    return [unit] * len(term_labels(columns, term))


def names_of(columns: Container[str], term: str) -> list[str]:
    """The columns of a term; a column may have ":" in its own name."""
    names = [term] if term in columns else [name.strip() for name in term.split(":")]
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise InvalidStructure(
            f"The term '{term}' needs a column '{unknown[0]}', which there is not. Terms are names of columns, or "
            "several joined by ':'. Compute any other term as a column first."
        )
    return names


HERE = "site"
"""What a formula calls the place where the rows are, if they have no column of that name."""

GROUPED = re.compile(r"\(([^()|]*)\|([^()|]*)\)")
WITHOUT = ("-1", "- 1", "0")


class Formula(NamedTuple):
    """A target, its terms, whether there is an intercept; which terms vary, by the sites that a column names."""

    target: str
    terms: tuple[str, ...]
    intercept: bool
    varying: tuple[str, ...] = ()
    by: str = ""


def parsed(formula: str, columns: Iterable[str]) -> Formula:
    """What a formula says of these columns.

    "a * b" is "a + b + a:b", "." all other columns, and "- 1" or "+ 0" leave the intercept out. "(1 + a | clinic)" lets
    the intercept and the slope of a differ from clinic to clinic, a column; of "site", from place to place.
    """
    target, sign, right = (part.strip() for part in formula.partition("~"))
    known = list(columns)
    others = [name for name in known if name != target]
    grouped = GROUPED.findall(right)
    right = GROUPED.sub("", right)
    if not sign or not target or not (right.strip() or grouped) or "|" in right or len(grouped) > 1:
        raise InvalidStructure(
            f"A formula is of the form 'target ~ term + term', with at most one '(1 + term | site)'; not {formula!r}."
        )
    varying, by = grouping(grouped[0][0], grouped[0][1], known) if grouped else ((), "")
    pieces = pieces_of(right)
    terms = [term for piece in pieces for term in expanded(piece, [name for name in others if name != by])]
    return Formula(target, tuple(dict.fromkeys(terms)), not set(WITHOUT) & set(pieces), varying, by)


def pieces_of(text: str) -> list[str]:
    return [piece.strip() for piece in text.replace("-", "+ -").split("+")]


def grouping(inside: str, name: str, columns: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Which terms vary, the intercept unless it is left out, and the column by which they do."""
    by = name.strip()
    if by not in columns and by != HERE:
        raise InvalidStructure(f"'| {by})': there is no column '{by}'. Write '| {HERE})' if all rows are of one site.")
    pieces = pieces_of(inside)
    named = [term for piece in pieces for term in expanded(piece, columns)]
    first = [] if set(WITHOUT) & set(pieces) else [INTERCEPT]
    return tuple(dict.fromkeys([*first, *named])), by if by in columns else ""


def expanded(piece: str, others: Sequence[str]) -> list[str]:
    if piece in ("", "1", *WITHOUT):
        return []
    if piece == ".":
        return list(others)
    if piece.startswith("-"):
        raise InvalidStructure(f"'{piece}': only the intercept can be left out of a formula, with '- 1'.")
    if "*" in piece:
        first, _, second = (part.strip() for part in piece.partition("*"))
        return [first, second, f"{first}:{second}"]
    return [":".join(part.strip() for part in piece.split(":"))] if piece not in others else [piece]


def needed(columns: Iterable[str], target: str, terms: Sequence[str]) -> list[str]:
    """The target and the columns of the terms, in the order of the columns."""
    known = list(columns)
    names = {target, *(name for term in terms for name in names_of(known, term))}
    return [name for name in known if name in names]
