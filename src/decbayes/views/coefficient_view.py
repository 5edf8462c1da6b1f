"""Regressions as coefficients, and whether sites agree on them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import nan
from shlex import quote
from typing import Any, ClassVar

import numpy as np

from decbayes.base.display import digits
from decbayes.columns import OTHER
from decbayes.families import dense
from decbayes.merging import Alignment
from decbayes.merging.reading import NOTABLE, Heterogeneity
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.regressions.varying.variation import BETWEEN, WITHIN
from decbayes.posterior import EXACT, Posterior
from decbayes.remarks import NAMED_FIRST, NOT_COMPARED, ONE_BROADCAST, UNITS, Remark, incomparable, listed, site_names
from decbayes.structure import CoupledSet
from decbayes.views.values import Curve, Difference, Estimate, Row, value_text
from decbayes.views.view import LEVEL, TOP, View

# How the method of a calibration begins that holds although rows depend on each other or vary more than the model says.
ROBUST = "robust errors"
# Points of a curve.
TIMES = 61
# The fewest sites for advising that coefficients vary, and for a meaningful deviation between sites.
FEWEST_TO_VARY, FEWEST_FOR_DEVIATIONS = 4, 5
# After one round, intervals of what varies are still too narrow; after two or three they hardly change.
ROUNDS_TO_VARY = "take two or three rounds (refine)"
# The expected error of a merge, in deviations, from which on to warn: a 90 % interval that is half a deviation off
# still holds the truth in 86 %. The error is probably below this multiple of what is expected, or below this number
# (benchmarks/regression.py and statements.py compare forecasts with errors).
ROUGH, TIMES_EXPECTED, AT_LEAST = 0.5, 2.0, 0.25


class CoefficientView(View):
    name: ClassVar[str] = "coefficients"

    def estimates(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Coefficients. Zero means no effect, except for levels of the outcome: intercept, intervals, thresholds."""
        rows = zip(self.model.coefficients(posterior, level=level), self.model.table.design.levels, strict=True)
        per = {row["term"]: row["per"] for row in self.model.ratios(posterior, level=level)}
        return [
            Estimate(*bounds(row), null=None if level_only else 0.0, per=per.get(row["term"], 1.0))
            for row, level_only in rows
        ]

    @property
    def ratio(self) -> str:
        return str(self.model.outcome.ratio)

    def ratios(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Ratios; their standard deviations are by the delta method."""
        rows = self.model.ratios(posterior, level=level)
        scale = {row["term"]: row["deviation"] for row in self.model.coefficients(posterior, level=level)}
        names = [row["term"] if row["per"] == 1.0 else f"{row['term']}, per {row['per']:g}" for row in rows]
        deviations = [row["ratio"] * row["per"] * scale[row["term"]] for row in rows]
        ends = [(row["ratio"], row["low"], row["high"]) for row in rows]
        return [
            Estimate(*bounds, name, deviation, null=1.0, per=row["per"])
            for bounds, name, deviation, row in zip(ends, names, deviations, rows, strict=True)
        ]

    def parameters(self, posterior: Posterior, *, top: int = TOP, level: float = LEVEL) -> list[Row]:
        """Coefficients and ratios in the units of the columns; each row also has what is modelled."""
        ratios = {row["term"]: row for row in self.model.ratios(posterior, level=level)}
        ratio_names = (
            {"ratio": "ratio", "low": "ratio_lower", "high": "ratio_upper", "per": "ratio_per"} if self.ratio else {}
        )
        rows = [(FACTOR, "value", row) for row in self.model.coefficients(posterior, level=level)]
        varying = {"value": self.model.between, "correlation": self.model.correlations}
        spreads = [(quantity, row) for quantity, read in varying.items() for row in read(posterior, level=level)]
        rows += [(BETWEEN, *row) for row in spreads if row[1]["group"] != self.model.within]
        rows += [(WITHIN, *row) for row in spreads if row[1]["group"] == self.model.within]
        return [
            {
                "factor": factor, "component": 0, "quantity": quantity, "entry": row["term"], "modelled": self.modelled,
                **dict(zip(("mean", "lower", "upper", "entry", "deviation"), bounds(row), strict=True)),
                **{name: ratios.get(row["term"], {}).get(part, nan) for part, name in ratio_names.items()},
                "uncertainty": posterior.uncertainty,
            }
            for factor, quantity, row in rows
        ]  # fmt: skip

    def between(self, posterior: Posterior, *, level: float = LEVEL) -> Sequence[Estimate]:
        """Standard deviations between sites or what a column names, and between groups inside; then correlations."""
        named = {name: f"between groups of {name}" for name in (self.model.by, self.model.within) if name}
        group_names = {"site": "between sites"} | named
        rows = [(row, "") for row in self.model.between(posterior, level=level)]
        rows += [(row, "correlation of ") for row in self.model.correlations(posterior, level=level)]
        terms = [{**row, "term": f"{about}{row['term']}, {group_names[row['group']]}"} for row, about in rows]
        return [Estimate(*bounds(row)) for row in terms]

    def differences(self, alignment: Alignment) -> Sequence[Difference]:
        compared = len(alignment.posteriors) > 1 and not incomparable(alignment.posteriors)
        return self._differences(heterogeneity_of(alignment)) if compared else ()

    @property
    def may_differ(self) -> Collection[str]:
        return {self.model.table.design.labels[place] for place in self.model.table.places}

    def decisive(self, alignment: Alignment) -> int | None:
        known = len(alignment.posteriors) > 1 and not (self.may_differ or incomparable(alignment.posteriors))
        return heterogeneity_of(alignment).site if known else None

    def other_units(self, alignment: Alignment) -> Sequence[tuple[int, str, float]]:
        named: Sequence[tuple[int, str, float]] = self.model.other_units(alignment.sent or alignment.posteriors)
        return named

    def uncertainty(self, posterior: Posterior, sites: Sequence[Posterior] = ()) -> str:
        return posterior.uncertainty if has_robust_errors(posterior) else super().uncertainty(posterior, sites)

    def undecided(self, alignment: Alignment) -> str:
        if why := incomparable(alignment.posteriors):
            return f"{why}, which makes sites seem to differ."
        return heterogeneity_of(alignment).reason if len(alignment.posteriors) > 1 else ""

    def advice(self, alignment: Alignment, names: Sequence[str] = ()) -> Iterator[Remark]:
        """Columns that may be in another unit; how far one broadcast may be from one fit of all rows; coefficients that
        differ by more than chance, and how to let them; categories that one site alone shows.
        """
        sites = names or site_names(len(alignment.posteriors))
        units = self.other_units(alignment)
        for site, column, times in units:
            yield Remark(
                UNITS,
                f"{sites[site]} seems to have {column} in another unit (values about {digits(times, 2)} times as "
                "large).",
                "Compare the numbers. Convert them, or leave this file out: one such site decides the merged value.",
                sites=(site,),
            )
        yield from super().advice(alignment, names)
        yield from self._one_broadcast(alignment)
        yield from self._few_to_vary(alignment)
        yield from self._of_one_site(alignment)
        differences = self.differences(alignment)
        notable = [term for term in differences if term.notable and term.name not in self.may_differ]
        notable.sort(key=lambda term: -term.times)
        if not notable:
            yield from self._not_compared(alignment)
            return
        only = "" if units or (one := self.decisive(alignment)) is None else sites[one]
        texts = ", ".join(f"{difference.name} ({difference.times:.1f} × chance)" for difference in notable)
        yield Remark(
            "sites differ",
            f"Sites differ by more than chance in {texts}{f', but not without {only}' if only else ''}: intervals that "
            "assume equal coefficients are too narrow.",
            "Compare the units first." if units else self._remedy({term.name for term in notable}, only, len(sites)),
            f"p {heterogeneity_of(alignment).p_text(0)} {heterogeneity_of(alignment).provided()}.",
        )

    def _remedy(self, differing: set[str], only: str, sites: int) -> str:
        """What to do about coefficients that differ; `only` is the only site without which they would not."""
        if only:
            return f"{NAMED_FIRST} {only}."
        terms = [term for term in self._terms() if self._differs(term, differing)]
        if not self.model.may_vary or {*terms} <= {*self.model.varying}:
            return "Take a round (refine)."
        if sites < FEWEST_TO_VARY:
            return "Report the sites one by one: they are too few to show how far sites differ."
        return f"Let them differ: fit with --varying {quote(','.join(terms))} at each site, then {ROUNDS_TO_VARY}."

    def _not_compared(self, alignment: Alignment) -> Iterator[Remark]:
        """Why nothing is said about differences between sites, unless terms may differ or a remark says so already."""
        if self.model.varying or incomparable(alignment.posteriors) or not (why := self.undecided(alignment)):
            return
        later = not (alignment.refined or self.model.weights or alignment.posteriors[0].uncertainty == EXACT)
        yield Remark(
            NOT_COMPARED,
            f"Not tested: whether sites differ by more than chance. {why[0].upper()}{why[1:]}",
            "After a round (refine) it is tested." if later else "",
            severity="note",
        )

    def _few_to_vary(self, alignment: Alignment) -> Iterator[Remark]:
        """Warn if the deviation between sites is mostly the prior's, with few sites; or far off, with few rounds."""
        if not self.model.varying or len(alignment.posteriors) < 2:
            return
        (grouping,) = (candidate for candidate in self.model.variation.groupings if candidate.factor == BETWEEN)
        sites = round(float(np.max(grouping.groups(dense(alignment.merged().contribution[BETWEEN])))))
        reasons, advice = [], []
        if sites < FEWEST_FOR_DEVIATIONS:
            reasons.append(f"{sites} sites")
            advice.append("Do not report it as a finding: the prior decides much of it.")
        if alignment.decided != "rounds":
            reasons.append("a single broadcast")
            advice.append(f"{ROUNDS_TO_VARY.capitalize()}.")
        elif alignment.rounds == 1:
            reasons.append("a single round")
            advice.append("Take another round (refine).")
        if reasons:
            rests_on = " and ".join(reasons)
            yield Remark(
                "few to vary",
                f"The deviation between sites rests on {rests_on}: it, and intervals of what varies, may be far off.",
                " ".join(advice),
            )

    def _of_one_site(self, alignment: Alignment) -> Iterator[Remark]:
        """Categories that one site alone shows, where others may count them as "other". Files show that anyway."""
        terms = {term.name: np.isnan(term.times) for term in self.differences(alignment)}
        levels = [
            f"{name}={level}"
            for name, column in self.model.columns.items() if OTHER in column.entries
            for level in column.entries if level != OTHER and terms.get(f"{name}={level}", False)
        ]  # fmt: skip
        if levels and not all(terms.values()):
            yield Remark(
                "rare categories",
                f"No more than one site shows {listed(levels)}; others lack it, or count it as '{OTHER}' to hide rare "
                "categories.",
                "If it matters, join the rare categories with another one beforehand, at all sites.",
                severity="note",
            )

    def _one_broadcast(self, alignment: Alignment) -> Iterator[Remark]:
        """The expected distance of a merge of first broadcasts from one fit of the same rows, if it can be predicted.

        After a robust merge, a round would count the sites again that are left out: it is not advised.
        """
        forecasts = alignment.sent and alignment.counted != "in part"
        distances = self.model.forecast(alignment.sent) if forecasts else None
        if distances is None:
            return
        some = alignment.counted == "some"
        largest, term = float(distances.max()), self.model.table.design.labels[int(distances.argmax())]
        rough = largest > ROUGH
        advice = "Take one round first: decbayes refine." if rough else "One round would bring it closer."
        within = max(TIMES_EXPECTED * largest, AT_LEAST)
        rows = "the rows that count" if some else "all rows"
        where = f"{digits(within, 2)} posterior standard deviations of one fit of {rows} (furthest: {term})"
        yield Remark(
            ONE_BROADCAST,
            f"After one broadcast, coefficients are probably within {where}.",
            "" if some else advice,
            severity="warning" if rough else "note",
        )

    def _differences(self, heterogeneity: Heterogeneity) -> list[Difference]:
        (times,), (between,) = (
            next(iter(part[FACTOR].values())) for part in (heterogeneity.times, heterogeneity.between)
        )
        rows = zip(self.model.table.design.labels, times, between * self.model.coefficient_units, strict=True)
        return [
            # Beside terms that vary, others may seem to: only those that differ by themselves are named.
            Difference(name, float(t), float(b), place in heterogeneity.terms and bool(t > NOTABLE))
            for place, (name, t, b) in enumerate(rows)
        ]

    def _terms(self) -> list[str]:
        return [*(["intercept"] if self.model.intercept else []), *self.model.terms]

    def _differs(self, term: str, notable: set[str]) -> bool:
        """Whether a term has one of these coefficients, or already varies."""
        design = self.model.table.design
        return term in self.model.varying or bool({design.labels[place] for place in design.places([term])} & notable)


class SurvivalView(CoefficientView):
    name: ClassVar[str] = "survival"

    def tables(self, posterior: Posterior) -> Mapping[str, Sequence[Row]]:
        return {f"baseline: events per unit of {self.model.time}, {self._typical()}": self.model.baseline(posterior)}

    def curves(
        self, posterior: Posterior, data: Any = None, *, times: Sequence[float] | None = None, level: float = LEVEL
    ) -> Sequence[Curve]:
        """The probability of no event yet; without `data`, at the agreed centres and first categories."""
        points = self.model.table.typical()[None, :] if data is None else data
        at_times = np.linspace(0.0, self.model.horizon, TIMES) if times is None else np.asarray(times, dtype=np.float64)
        survival = self.model.survival(posterior, points, times=at_times, level=level)
        names = [self._typical()] if data is None else [f"row {row + 1}" for row in range(len(survival["mean"]))]
        return [
            Curve(name, at_times, *(survival[part][row] for part in ("mean", "low", "high")))
            for row, name in enumerate(names)
        ]

    def _typical(self) -> str:
        """The agreed centres and first categories in words."""
        columns, typical = self.model.columns, self.model.table.typical()
        values = {
            name: column.decoded(np.array([typical[place]]))[0]
            for place, (name, column) in enumerate(columns.items())
            if name in self.model.table.predictors
        }
        texts = [f"{name} {value_text(value)}" for name, value in values.items()]
        return f"at {', '.join(texts)}" if texts else "overall"


def has_robust_errors(posterior: Posterior) -> bool:
    return posterior.calibration is not None and posterior.calibration.method.startswith(ROBUST)


def bounds(row: dict[str, Any]) -> tuple[float, float, float, str, float]:
    return row["mean"], row["low"], row["high"], row["term"], row["deviation"]


def heterogeneity_of(alignment: Alignment) -> Heterogeneity:
    from decbayes.calibration import heterogeneity  # simulates sites, which loads all models

    return heterogeneity(alignment)[CoupledSet((FACTOR,))]


class LineView(View):
    """Groups with one regression each."""

    name: ClassVar[str] = "lines"

    @property
    def noun(self) -> str:
        return "group"

    def entry(self, label: str) -> tuple[str, str]:
        """A level is the target if all terms are 0; any other coefficient is the change per unit of a term."""
        labels, target = self.model.table.design.labels, self.model.target
        is_level = bool(self.model.table.design.levels[labels.index(label)])
        return f"{target} where all terms are 0" if is_level else f"change of {target} per unit of {label}", ""

    def parameters(self, posterior: Posterior, *, top: int = TOP, level: float = LEVEL) -> list[Row]:
        """Coefficients as in the model's `lines`, and precisions of the noise, in the units of the data."""
        lines = {(row["component"], row["term"]): row for row in self.model.lines(posterior, level=level)}
        ends = {"mean": "mean", "lower": "low", "upper": "high", "deviation": "deviation"}
        rows = super().parameters(posterior, top=top, level=level)
        line_rows = [lines.get((row["component"], row["entry"])) if row["factor"] == FACTOR else None for row in rows]
        return [
            row if line is None else {**row, **{name: line[part] for name, part in ends.items()}}
            for row, line in zip(rows, line_rows, strict=True)
        ]

    def in_units(self, row: Row) -> Row:
        """The precision of noise, for scaled targets; or the difference of a coefficient."""
        likelihood, table = self.model.likelihood, self.model.table
        if row["quantity"] == "precision":
            unit = likelihood.scale**-2.0
        elif row["factor"] == FACTOR and row["entry"] in table.design.labels:
            unit = likelihood.scale / float(table.design.units[table.design.labels.index(row["entry"])])
        else:
            return row
        return {**row, **{name: unit * row[name] for name in ("mean", "lower", "upper", "deviation") if name in row}}
