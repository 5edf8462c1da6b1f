"""What to fit, as a formula says it: "visits ~ age + sex + (1 + age | site)"."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from decbayes.errors import InvalidStructure
from decbayes.models.design import INTERCEPT, names_of

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
