"""The result of a regression in a sentence: how much its outcome differs with each term."""

from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from decbayes.columns import OTHER, YesNo
from decbayes.models.regressions.formulas.formula import unbracketed
from decbayes.views.participants import About
from decbayes.views.values import Estimate, Interval, count_of, first_few, interval_text, joined_words
from decbayes.views.view import LEVEL

MOST_EFFECTS = 3
# Units that have a plural; symbols such as kg have none.
SINGULAR = {f"{word}s": word for word in ("year", "month", "week", "day", "hour", "minute", "second", "point")}


class Effects:
    """The effects of one regression: ratios if the model has them, otherwise differences of the mean."""

    def __init__(self, model: Any, estimates: Sequence[Estimate], about: About) -> None:
        self._model, self._estimates, self._about = model, estimates, about
        self._columns = model.columns
        self._levels = model.outcome.compared[1:]

    def text(self) -> str:
        """The clearest effects, or a sentence that none is clear."""
        stated = [estimate for estimate in self._estimates if not self._is_pool(estimate)] or self._estimates
        clear = sorted((estimate for estimate in stated if is_clear(estimate)), key=lambda one: -strength(one))
        if not clear:
            first = max(stated, key=strength)
            return (
                f"No effect on the {self._model.subject} is clear: all {LEVEL:.0%} intervals contain the value of no "
                f"effect. The strongest: {self._size(first)} {self._when(first)}."
            )
        shown = sorted(clear[:MOST_EFFECTS], key=lambda estimate: clear.index(self._first_like(estimate, clear)))
        sentence = "; ".join(
            self._subject_text(subject, [*estimate]) for subject, estimate in groupby(shown, self._subject)
        )
        rest = [self._name(estimate) for estimate in clear[MOST_EFFECTS:]]
        unclear = [self._name(estimate) for estimate in stated if not is_clear(estimate)]
        verb = "is" if len(rest) == 1 else "are"
        further = f" {count_of(len(rest), 'further effect')} {verb} clear: {first_few(rest)}."
        none = f" No effect is clear for {first_few(unclear)}." if unclear else ""
        return f"{sentence[0].upper()}{sentence[1:]} ({LEVEL:.0%} intervals).{further if rest else ''}{none}"

    def _is_pool(self, estimate: Estimate) -> bool:
        """Whether the effect is of rare categories together, which differ from site to site."""
        parts = unbracketed(self._split(estimate)[1], ":")
        return any(part == f"{name}={OTHER}" for part in parts for name in self._columns)

    def _first_like(self, estimate: Estimate, clear: Sequence[Estimate]) -> Estimate:
        return next(other for other in clear if self._subject(other) == self._subject(estimate))

    def _subject_text(self, subject: str, estimates: Sequence[Estimate]) -> str:
        verb = "are" if subject.startswith("odds") else "is"
        return f"the {subject} {verb} {joined_words([f'{self._size(one)} {self._when(one)}' for one in estimates])}"

    def _split(self, estimate: Estimate) -> tuple[str, str]:
        """The outcome's level that the effect is about, if there are several, and the term."""
        name = estimate.name.removesuffix(f", per {estimate.per:g}")
        level, _, term = name.rpartition(": ")
        return (level, term) if level in self._levels else ("", name)

    def _subject(self, estimate: Estimate) -> str:
        level, _ = self._split(estimate)
        model = self._model
        return str(model.outcome.against(model.target, level) if level else model.subject)

    def _size(self, estimate: Estimate) -> str:
        """How much higher or lower, with an interval."""
        if estimate.null == 1.0:
            return interval_text(estimate, "times as high")
        sign, direction = (1.0, "higher") if estimate.mean > 0 else (-1.0, "lower")
        low, high = sorted((sign * estimate.low, sign * estimate.high))
        change = Interval(sign * estimate.mean, low, high)
        return interval_text(change, f"{self._about.units.get(self._model.target, '')} {direction}".strip())

    def _when(self, estimate: Estimate) -> str:
        """The change that the effect belongs to, and its conditions."""
        _, name = self._split(estimate)
        return " ".join(filter(None, (self._change(estimate, name), self._where(name))))

    def _where(self, name: str) -> str:
        """If the term is also part of a product: the reference values of the product's other factors."""
        products = [
            parts for term in self._terms if len(parts := unbracketed(term, ":")) > 1 and self._among(name, parts)
        ]
        others = dict.fromkeys(self._column_of(part) for parts in products for part in parts)
        others.pop(self._column_of(name), None)
        return f"where {joined_words([self._reference(other) for other in others])}" if others else ""

    def _among(self, name: str, parts: Sequence[str]) -> bool:
        """Whether a term is a factor of a product; a yes/no column may be one as a whole: "x" next to "x=yes:z"."""
        return name in parts or (isinstance(self._columns.get(name), YesNo) and name in map(self._column_of, parts))

    def _column_of(self, part: str) -> str:
        return part if part in self._columns else part.partition("=")[0]

    def _reference(self, name: str) -> str:
        """The value at which a factor of a product adds nothing to the effect of the other."""
        column = self._columns.get(name)
        if isinstance(column, YesNo):
            return f"{name} is not {column.yes}"
        return f"{name} is {next(iter(self._references(name)), '0')}"

    def _references(self, name: str) -> list[str]:
        """The levels of a column without a coefficient."""
        entries = getattr(self._columns.get(name), "entries", ())
        return [level for level in entries if level and f"{name}={level}" not in self._terms]

    def _change(self, estimate: Estimate, name: str) -> str:
        """Per unit of a column, such as "with each year of age"; or one level compared with another."""
        column = self._columns.get(name)
        if column is not None and not column.flag:
            unit = self._about.units.get(name, "")
            singular = SINGULAR.get(unit, unit) or "unit"
            return f"with each {singular if estimate.per == 1.0 else f'{estimate.per:g} {unit}'.strip()} of {name}"
        if isinstance(column, YesNo):
            return f"with {name} = {column.yes}"
        column_name, _, level = name.partition("=")
        others = self._references(column_name)
        if level and len(others) == 1 and len(unbracketed(name, ":")) == 1:
            return f"with {column_name} = {level} {'as' if estimate.null == 1.0 else 'than'} with {others[0]}"
        return f"with each unit of {'the product ' if len(unbracketed(name, ':')) > 1 else ''}{name}"

    @cached_property
    def _terms(self) -> Collection[str]:
        return dict.fromkeys(self._split(estimate)[1] for estimate in self._estimates)

    def _name(self, estimate: Estimate) -> str:
        level, name = self._split(estimate)
        conditions = ", ".join(filter(None, (level, self._where(name))))
        return f"{name} ({conditions})" if conditions else name


def is_clear(estimate: Estimate) -> bool:
    return not estimate.low <= (estimate.null or 0.0) <= estimate.high


def strength(estimate: Estimate) -> float:
    """The distance from no effect in interval widths, on the scale on which the interval is symmetric."""
    null = estimate.null or 0.0
    if null == 1.0 and estimate.low > 0.0:
        return float(abs(np.log(estimate.mean)) / max(np.log(estimate.high / estimate.low), 1e-12))
    return abs(estimate.mean - null) / max(estimate.high - estimate.low, 1e-12)
