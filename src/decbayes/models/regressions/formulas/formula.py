"""Formulas as in R: the target and terms of a regression, its offset, and what varies between sites.

target ~ term + term,   "a:b" the product, "a * b" = "a + b + a:b", "a / b" = "a + a:b", "(a + b)^2", "." all others,
"- term" leaves a term out, "- 1" or "+ 0" the intercept, "offset(log(t))" adds log(t) with coefficient 1,
"(1 + a | clinic)" lets the intercept and the slope of a vary between clinics, correlated; "||" without correlation;
"(1 | clinic/ward)", or "(1 | clinic) + (1 | clinic:ward)", lets them also vary between wards inside clinics
"""

import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

from decbayes.base.arguments import columns_listed
from decbayes.errors import InvalidStructure

INTERCEPT = "intercept"
HERE = "site"
"""The name in a formula for the place that holds the rows, if they have no column of that name."""

Term = tuple[str, ...]
"""The factors of a product, in order; the intercept has none."""

CALL = re.compile(r"[A-Za-z]\w*\s*(?=\()")
SYMBOL = re.compile(r"\*\*|[-+*/:^()|.]|\d+(?![\w.])")
OFFSET = "offset"


class Formula(NamedTuple):
    """A target, its terms, whether there is an intercept; the offset; which terms vary, by the column that names sites
    and, inside these, by the column `within`; and whether these correlate.
    """

    target: str
    terms: tuple[str, ...]
    intercept: bool
    offset: str = ""
    varying: tuple[str, ...] = ()
    by: str = ""
    varying_within: tuple[str, ...] = ()
    within: str = ""
    correlated: bool = False


class Bar(NamedTuple):
    """The parts around "|" in a formula: terms that vary, the groups they vary between, and whether they correlate.

    Two names are groups and groups inside them: both vary if the names are joined by "/", else only the inner ones.
    """

    terms: tuple[str, ...]
    names: tuple[str, ...]
    both: bool
    correlated: bool


def parsed(formula: str, columns: Iterable[str], *, further: str = "") -> Formula:
    """Parse a formula over these columns and `further`, which "." leaves out.

    Products follow the terms that they are made of, as in R.
    """
    target, sign, right = (part.strip() for part in formula.partition("~"))
    target = target.strip("`")
    if not sign or not target or not right or "~" in right:
        raise InvalidStructure(
            "A formula is of the form 'target ~ term + term', with '(1 + term | site)' if terms vary between sites; "
            f"not {formula.strip()!r}."
        )
    reader = Reader(right, [*columns, *([further] if further else [])], {target, further})
    terms = reader.everything()
    ordered = sorted((term for term in terms if term), key=len)
    return Formula(target, tuple(map(":".join, ordered)), () in terms, reader.offset, *variation_of(reader.bars))


def variation_of(bars: Sequence[Bar]) -> tuple[tuple[str, ...], str, tuple[str, ...], str, bool]:
    """What varies between sites, the column that names them, what varies inside sites, by which, and if together."""
    if not bars:
        return (), "", (), "", False
    bars = joined_bars(bars)
    several = {bar.correlated for bar in bars if len(bar.terms) > 1}
    if len(several) > 1:
        raise InvalidStructure("Use '|' or '||' for all groupings: deviations correlate in all of them, or in none.")
    correlated = next(iter(several or {bar.correlated for bar in bars}))
    if len(bars) == 1 and (len(bars[0].names) == 1 or bars[0].both):
        (bar,) = bars
        inside = (bar.terms, bar.names[1]) if bar.both else ((), "")
        return bar.terms, column_of(bar.names[0]), *inside, correlated
    by_depth = sorted(bars, key=lambda bar: len(bar.names))
    outer, inner = by_depth[0], by_depth[-1]
    parent = inner.names[0]
    if len(bars) != 2 or inner.both or len(inner.names) == 1 or outer.names != (parent,) or inner.names[1] == parent:
        raise InvalidStructure(
            "Groupings that cross each other are not fitted. Groups inside sites: '(1 | clinic/ward)' or '(1 + age | "
            f"clinic) + (1 | clinic:ward)', with '{HERE}' for clinic if all rows are of one. Levels that sites share, "
            "such as diagnoses, are terms: 'diagnosis + (1 | clinic)'."
        )
    return outer.terms, column_of(parent), inner.terms, inner.names[1], correlated


def joined_bars(bars: Sequence[Bar]) -> list[Bar]:
    """Join terms that vary separately between the same groups: '(1 | clinic) + (0 + age | clinic)' is '||'."""
    joined: list[Bar] = []
    for bar in bars:
        for place, other in enumerate(joined):
            alone = len(bar.terms) == 1 and (len(other.terms) == 1 or not other.correlated)
            if alone and bar[1:3] == other[1:3] and bar.terms[0] not in other.terms:
                joined[place] = other._replace(terms=other.terms + bar.terms, correlated=False)
                break
        else:
            joined.append(bar)
    return joined


def column_of(name: str) -> str:
    """The column that names sites; none if it is the place that holds the rows."""
    return "" if name == HERE else name


def unbracketed(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that are not within brackets, quotes or backticks."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if letter in "'\"`" and quote in ("", letter):
            quote = "" if quote else letter
        depth += 0 if quote else (letter == "(") - (letter == ")")
        if letter == separator and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


class Reader:
    """Reads the right side of a formula from left to right; each method returns the terms it has read."""

    def __init__(self, text: str, columns: Sequence[str], apart: set[str]) -> None:
        self.text, self.columns, self.apart = text, columns, apart
        self.bars: list[Bar] = []
        self.offset = ""
        self.tokens = list(self._split())
        self.place = 0

    def _split(self) -> Iterable[str]:
        """Names of columns, calls with all that is in their brackets, and symbols."""
        names = "|".join(re.escape(name) for name in sorted({*self.columns, HERE}, key=len, reverse=True) if name)
        known = re.compile(rf"(?:{names})(?!\w)(?!\s*\()")
        place = 0
        while place < len(self.text):
            rest = self.text[place:]
            if rest[0].isspace():
                place += 1
                continue
            if rest[0] == "`" and "`" in rest[1:]:
                end = rest.index("`", 1) + 1
                yield self._column(rest[1 : end - 1])
            elif match := known.match(rest):
                end = match.end()
                yield match.group()
            elif CALL.match(rest):
                end = self._closing(rest)
                yield rest[:end]
            elif match := SYMBOL.match(rest):
                end = match.end()
                yield match.group()
            else:
                word = re.match(r"[\w.]+", rest)
                raise self._unknown(word.group() if word else rest[0])
            place += end

    def _closing(self, rest: str) -> int:
        """Where the brackets of a call end."""
        depth = 0
        for place, letter in enumerate(rest):
            depth += (letter == "(") - (letter == ")")
            if letter == ")" and depth == 0:
                return place + 1
        raise InvalidStructure(f"A bracket is not closed in '{self.text}'.")

    def _column(self, name: str) -> str:
        if name not in self.columns:
            raise self._unknown(name)
        return name

    def _unknown(self, name: str) -> InvalidStructure:
        return InvalidStructure(
            f"'{name}' in the formula is neither a column nor an operation. The columns are "
            f"{columns_listed(tuple(self.columns))}; put names with spaces into backticks."
        )

    def everything(self) -> list[Term]:
        terms = self.sum()
        if self.place < len(self.tokens):
            raise InvalidStructure(f"'{self._next()}' makes no sense where it is in '{self.text}'.")
        names = {(name,) for bar in self.bars for name in bar.names}
        return [term for term in terms if term not in names] if "." in self.tokens else terms

    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _take(self, *tokens: str) -> str:
        """The next token if it is one of these."""
        token = self._next()
        if token and token in tokens and token not in self.columns:
            self.place += 1
            return token
        return ""

    def sum(self) -> list[Term]:
        terms: list[Term] = [()]
        sign = self._take("+", "-") or "+"
        while sign:
            part: list[Term] = [()]
            if self._take("0"):  # "+ 0" is "- 1"
                sign = "-" if sign == "+" else "+"
            else:
                part = self.crossing()
            terms = joined(terms, part) if sign == "+" else [term for term in terms if not among(term, part)]
            sign = self._take("+", "-")
        return terms

    def crossing(self) -> list[Term]:
        terms = self.interaction()
        while sign := self._take("*", "/"):
            other = self.interaction()
            within = terms if sign == "*" else [tuple(dict.fromkeys(name for term in terms for name in term))]
            terms = joined(terms, *([other] if sign == "*" else []), products(within, other))
        return terms

    def interaction(self) -> list[Term]:
        terms = self.power()
        while self._take(":"):
            terms = products(terms, self.power())
        return terms

    def power(self) -> list[Term]:
        terms = self.atom()
        if self._take("^", "**"):
            times = self._next()
            if not times.isdigit() or not 1 <= int(times) <= 9:
                raise InvalidStructure(
                    "A power in a formula must be an integer from 1 to 9; write I(x**2) for a square."
                )
            self.place += 1
            first = terms
            for _ in range(int(times) - 1):
                terms = joined(terms, products(terms, first))
        return terms

    def atom(self) -> list[Term]:
        token = self._next()
        self.place += 1
        if token in self.columns:
            return [(token,)]
        if token == "(":
            return self._bracket()
        if token == "1":
            return [()]
        if token == ".":
            return [(name,) for name in self.columns if name not in self.apart]
        if CALL.match(token):
            return self._call(token)
        if token == HERE:
            raise self._unknown(token)
        raise InvalidStructure(f"Something is missing in '{self.text}' before '{token}'." if token else self._ends())

    def _ends(self) -> str:
        return f"The formula '{self.text}' ends where a term should follow."

    def _bracket(self) -> list[Term]:
        inside = self.sum_within()
        if self._take("|"):
            self._group(inside)
            inside = []
        if not self._take(")"):
            raise InvalidStructure(f"A bracket is not closed in '{self.text}'.")
        return inside

    def sum_within(self) -> list[Term]:
        """Within brackets there is an intercept only if '1' says so, or before '|'."""
        start = self.place
        terms = self.sum()
        stated = "1" in self.tokens[start : self.place] or self._next() == "|"
        return terms if stated else [term for term in terms if term]

    def _group(self, terms: list[Term]) -> None:
        correlated = not self._take("|")
        names = [self._group_name()]
        if joint := self._take("/", ":"):
            names.append(self._group_name())
        varying = tuple(":".join(term) or INTERCEPT for term in terms)
        self.bars.append(Bar(varying, tuple(names), joint == "/", correlated))

    def _group_name(self) -> str:
        name = self._next()
        self.place += 1
        if name not in (*self.columns, HERE):
            raise InvalidStructure(f"'| {name})' needs the name of a column, or '{HERE}' if all rows are of one site.")
        return name if name in self.columns else HERE

    def _call(self, token: str) -> list[Term]:
        name, _, inside = token.partition("(")
        if name.strip() != OFFSET:
            return [(token,)]
        inside = inside[:-1].strip()
        self.offset = f"{self.offset} + {inside}" if self.offset else inside
        return []


def joined(*parts: Sequence[Term]) -> list[Term]:
    """All terms, each once, whatever the order of its factors."""
    kept = {frozenset(term): term for part in reversed(parts) for term in reversed(part)}
    return [kept[key] for key in dict.fromkeys(frozenset(term) for part in parts for term in part)]


def among(term: Term, terms: Sequence[Term]) -> bool:
    return frozenset(term) in map(frozenset, terms)


def products(left: Sequence[Term], right: Sequence[Term]) -> list[Term]:
    return joined([tuple(dict.fromkeys((*one, *other))) for one, other in product(left, right)])


def formula_of(model: Any) -> str:
    """A regression's formula, as `from_frame` takes it."""
    terms = ([] if model.intercept else ["0"]) + list(model.terms)
    offset = [f"{OFFSET}({model.offset})"] if getattr(model, "offset", "") else []
    return f"{model.target} ~ {' + '.join([*(terms or ['1']), *offset, *bars_of(model)])}"


def bars_of(model: Any) -> list[str]:
    """What varies in a regression, as a formula has it."""
    outer, inner = (tuple(getattr(model, name, ())) for name in ("varying", "varying_within"))
    if not outer:
        return []
    sign, site = ("|" if model.correlated or max(len(outer), len(inner)) < 2 else "||"), model.by or HERE
    if outer == inner:
        return [f"({varying_text(outer)} {sign} {site}/{model.within})"]
    inside = [f"({varying_text(inner)} {sign} {site}:{model.within})"] if inner else []
    return [f"({varying_text(outer)} {sign} {site})", *inside]


def varying_text(terms: Sequence[str]) -> str:
    shown = ["1" if name == INTERCEPT else name for name in terms]
    return " + ".join(shown if "1" in shown else ["0", *shown])
