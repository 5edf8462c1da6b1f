"""Estimates of each term of a regression, with intervals, in the columns' own units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from decbayes.base.arguments import check_level
from decbayes.families import Array, Gamma, dense
from decbayes.models.core.points import check_structure
from decbayes.models.regressions.formulas.design import comparable
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.regressions.varying.site_effects import Groups, Level, SiteEffects
from decbayes.models.regressions.varying.variation import Grouping, deviation_between
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression


@dataclass(frozen=True, eq=False)
class Estimates:
    """A regression's posterior, read term by term; `Regression` documents each method."""

    model: "Regression"
    posterior: Posterior
    level: float

    def __post_init__(self) -> None:
        check_level(self.level)
        check_structure(self.posterior, self.model.structure, "posterior")

    @property
    def _natural(self) -> Array:
        return self.posterior.natural[FACTOR]

    def coefficients(self) -> list[dict[str, Any]]:
        return self.changed(*self.model.table.own_units(*self.model.target_units))

    def changed(self, change: Array, offset: Array | float = 0.0) -> list[dict[str, Any]]:
        """These linear functions of the coefficients, one per row of `change` and label."""
        wider = self.widening() * self._stretch()
        mean, deviation, low, high = self.model.outcome.interval(self._natural, self.level, change, wider)
        parts = {"mean": mean + offset, "deviation": deviation, "low": low + offset, "high": high + offset}
        return term_rows(self.model.table.design.labels, parts)

    def ratios(self) -> list[dict[str, Any]]:
        rows = self.coefficients() if self.model.outcome.ratio else []
        units = map(comparable, np.abs(self.model.coefficient_units))
        rated = [as_ratio(row, per) for row, per in zip(rows, units, strict=False)]
        levels = self.model.table.design.levels
        return [row for place, row in enumerate(rated) if not (levels[place] or place in self.model.baseline_places)]

    def _stretch(self) -> Array:
        """How many times wider calibrated intervals are; 1 without a calibration."""
        stretches = self.model.outcome.family.stretches(self._natural, self.posterior.stretch(FACTOR))
        return np.asarray(next(iter(stretches.values()))[0])

    def widening(self) -> Array:
        """How many times wider intervals are because of variation between sites."""
        _, covariance = self.model.outcome.moments(self._natural)
        parts = {grouping.factor: dense(self.posterior.contribution[grouping.factor]) for grouping in self._groupings}
        return self.model.variation.widening(self.posterior.natural, parts, covariance)

    @property
    def _groupings(self) -> tuple[Grouping, ...]:
        return self.model.variation.groupings

    def between(self) -> list[dict[str, Any]]:
        return [row for grouping in self._groupings for row in self._deviations(grouping)]

    def _deviations(self, grouping: Grouping) -> list[dict[str, Any]]:
        shape, rate = grouping.marginal(self.posterior.natural)
        unit = self._units(grouping) * self.model.outcome.noise(self._natural) ** 0.5
        marginal = Gamma().natural(shape=shape[None], rate=rate[None])
        low, high = (unit / np.sqrt(Gamma().quantile(marginal, 0.5 - side * self.level)[0]) for side in (-0.5, 0.5))
        mean, deviation = (unit * part for part in deviation_between(shape, rate))
        if self.posterior.calibration is not None:
            stretch = self.posterior.stretch(grouping.factor)[0]
            relative = 0.5 * (np.diag(stretch) if grouping.correlated else stretch) / np.sqrt(shape)
            reach, mean = np.exp(float(ndtri(0.5 + 0.5 * self.level)) * relative), unit * np.sqrt(rate / shape)
            low, high, deviation = mean / reach, mean * reach, mean * relative
            if (ends := self._quantiles(grouping)) is not None:
                low, mean, high, deviation = (unit * part[: len(unit)] for part in ends)
        parts = {"mean": mean, "deviation": deviation, "low": low, "high": high}
        group = {"group": self.model.group_name(grouping)}
        return [{**row, **group} for row in term_rows(self._labels(grouping), parts)]

    def _quantiles(self, grouping: Grouping) -> tuple[Array, Array, Array, Array] | None:
        """Ends of the interval, the median, and half the central 68 %, if known: of each deviation, then of each
        correlation.
        """
        calibration = self.posterior.calibration
        if calibration is None or grouping.factor not in calibration.quantiles:
            return None
        shares = 0.5 - 0.5 * self.level, 0.5, 0.5 + 0.5 * self.level, float(ndtr(-1.0)), float(ndtr(1.0))
        low, middle, high, below, above = (calibration.quantile(grouping.factor, share) for share in shares)
        return low, middle, high, 0.5 * (above - below)

    def correlations(self) -> list[dict[str, Any]]:
        sides, rows = (0.5 - 0.5 * self.level, 0.5 + 0.5 * self.level), []
        for grouping in self._groupings:
            labels, group = self._labels(grouping), self.model.group_name(grouping)
            known, first = self._quantiles(grouping), len(grouping.places)
            for pair, (one, other, drawn) in enumerate(grouping.correlations(self.posterior.natural)):
                low, high = np.quantile(drawn, sides)
                mean, deviation = drawn.mean(), drawn.std()
                if known is not None and len(known[0]) > first:
                    low, mean, high, deviation = (part[first + pair] for part in known)
                ends = {"mean": mean, "deviation": deviation, "low": low, "high": high}
                plain = {name: float(value) for name, value in ends.items()}
                rows.append({"term": f"{labels[one]} and {labels[other]}", **plain, "group": group})
        return rows

    def effects(self, effects: SiteEffects, groups: Groups, names: Mapping[str, str]) -> list[dict[str, Any]]:
        mean, covariance = self.model.outcome.moments(self._natural)
        outer, inner = effects.outer, effects.inner
        sites = [names[str(number)] for number in groups.sites]
        rows = self._group_rows(self._groupings[0], outer, mean, covariance, [{"site": site} for site in sites])
        if inner is None:
            return rows
        means, covariances = (part[groups.parents] for part in outer.coefficients(mean, covariance))
        pairs = zip(groups.parents, groups.numbers, strict=True)
        named = [{"site": sites[parent], "group": names[str(number)]} for parent, number in pairs]
        inner_rows = self._group_rows(self._groupings[1], inner, means, covariances, named)
        return [{"site": row["site"], "group": "", **row} for row in rows] + inner_rows

    def _group_rows(
        self, grouping: Grouping, level: Level, mean: Array, covariance: Array, names: Sequence[Mapping[str, str]]
    ) -> list[dict[str, Any]]:
        """The deviation of each group, given the moments of the coefficients around it."""
        unit, noise = self._units(grouping), self.model.outcome.noise(self._natural)
        sloped = np.diagonal(level.slope @ covariance @ np.swapaxes(level.slope, -1, -2), axis1=-2, axis2=-1)
        deviation = unit * np.sqrt(noise * (sloped + np.diagonal(level.spread, axis1=-2, axis2=-1)))
        middle = unit * (level.centre - (level.slope @ mean[..., None])[..., 0])
        reach = self.model.outcome.reach(self._natural, self.level) * deviation
        parts = {"mean": middle, "deviation": deviation, "low": middle - reach, "high": middle + reach}
        return [
            {**name, **row}
            for place, name in enumerate(names)
            for row in term_rows(self._labels(grouping), {part: values[place] for part, values in parts.items()})
        ]

    def _labels(self, grouping: Grouping) -> Sequence[str]:
        return self.posterior.structure.labels[grouping.factor]

    def _units(self, grouping: Grouping) -> Array:
        return self.model.coefficient_units[grouping.places]


def term_rows(labels: Sequence[str], parts: Mapping[str, Array]) -> list[dict[str, Any]]:
    return [
        {"term": label, **{name: float(values[place]) for name, values in parts.items()}}
        for place, label in enumerate(labels)
    ]


def as_ratio(row: Mapping[str, Any], per: float) -> dict[str, Any]:
    """A coefficient and its interval as ratios; bounded, so that files can hold them."""
    parts = {"ratio": "mean", "low": "low", "high": "high"}
    ends = {name: float(np.exp(np.clip(per * row[end], -700, 700))) for name, end in parts.items()}
    return {"term": row["term"], **ends, "per": per}


def ratio_text(row: Mapping[str, Any]) -> str:
    """A ratio and its interval, with as many digits as the interval allows; three for small ones."""
    width = row["high"] - row["low"]
    digits = f".{min(max(1 - floor(log10(width)), 2), 6)}f" if row["low"] >= 0.1 and 0.0 < width < 10.0 else ".3g"
    text = "{ratio:{digits}} ({low:{digits}} to {high:{digits}})".format(digits=digits, **row)
    return text if row["per"] == 1.0 else f"{text} per {row['per']:g}"
