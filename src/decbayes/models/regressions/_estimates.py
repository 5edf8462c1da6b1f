"""What a posterior says of each term of a regression, with intervals, in the columns' own units."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from decbayes.arguments import check_level
from decbayes.families import Array, Gamma, dense
from decbayes.models.core.points import check_structure
from decbayes.models.regressions._site_effects import BETWEEN, SiteEffects, deviation_between
from decbayes.models.regressions.formulas.design import comparable
from decbayes.models.regressions.outcome import FACTOR
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression


@dataclass(frozen=True, eq=False)
class Estimates:
    """A regression's posterior, read term by term; `Regression` says what each reading means."""

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
        unit, offset = self.model.units_and_offset()
        mean, deviation, low, high = self.model.outcome.interval(self._natural, self.level)
        wider = unit * self.widening() * self._stretch()
        ends = {
            "low": mean * unit + offset + wider * (low - mean),
            "high": mean * unit + offset + wider * (high - mean),
        }
        parts = {"mean": mean * unit + offset, "deviation": deviation * wider} | ends
        return term_rows(self.model.table.design.labels, parts)

    def ratios(self) -> list[dict[str, Any]]:
        rows = self.coefficients() if self.model.outcome.ratio else []
        units = map(comparable, np.abs(self.model.units_and_offset()[0]))
        rated = [as_ratio(row, per) for row, per in zip(rows, units, strict=False)]
        levels = self.model.table.design.levels
        return [row for place, row in enumerate(rated) if not (levels[place] or place in self.model.baseline_places)]

    def _stretch(self) -> Array:
        """How many times wider calibrated intervals are; 1 without a calibration."""
        stretches = self.model.outcome.family.stretches(self._natural, self.posterior.stretch(FACTOR))
        return np.asarray(next(iter(stretches.values()))[0])

    def widening(self) -> Array:
        """How many times wider intervals are because of what varies from site to site."""
        _, covariance = self.model.outcome.moments(self._natural)
        sites = dense(self.posterior.contribution[BETWEEN]) if self.model.varying else np.empty((1, 0))
        return self.model.variation.widening(self.posterior.natural, sites, covariance)

    def between(self) -> list[dict[str, Any]]:
        if not self.model.varying:
            return []
        natural = self.posterior.natural[BETWEEN]
        unit = self._varying_units() * self.model.outcome.noise(self._natural) ** 0.5
        low, high = (unit / np.sqrt(Gamma().quantile(natural, 0.5 - side * self.level)[0]) for side in (-0.5, 0.5))
        mean, deviation = (unit * part for part in deviation_between(*Gamma().columns(natural[0])))
        if self.posterior.calibration is not None:
            precision = self.posterior.mean(BETWEEN)[0]
            relative = 0.5 * self.posterior.deviation(BETWEEN)[0] / precision
            reach, mean = np.exp(float(ndtri(0.5 + 0.5 * self.level)) * relative), unit / np.sqrt(precision)
            low, high, deviation = mean / reach, mean * reach, mean * relative
        parts = {"mean": mean, "deviation": deviation, "low": low, "high": high}
        return term_rows(self.posterior.structure.labels[BETWEEN], parts)

    def effects(self, effects: SiteEffects, numbers: Array, names: Mapping[str, str]) -> list[dict[str, Any]]:
        mean, covariance = self.model.outcome.moments(self._natural)
        unit, noise = self._varying_units(), self.model.outcome.noise(self._natural)
        sloped = np.einsum("gvd,de,gve->gv", effects.slope, covariance, effects.slope)
        deviation = unit * np.sqrt(noise * (sloped + np.diagonal(effects.spread, axis1=-2, axis2=-1)))
        middle = unit * (effects.centre - effects.slope @ mean)
        reach = self.model.outcome.reach(self._natural, self.level) * deviation
        parts = {"mean": middle, "deviation": deviation, "low": middle - reach, "high": middle + reach}
        labels = self.posterior.structure.labels[BETWEEN]
        return [
            {"site": names[number], **row}
            for site, number in enumerate(map(str, numbers))
            for row in term_rows(labels, {name: part[site] for name, part in parts.items()})
        ]

    def _varying_units(self) -> Array:
        return self.model.units_and_offset()[0][self.model.table.places]


def term_rows(labels: Sequence[str], parts: Mapping[str, Array]) -> list[dict[str, Any]]:
    """One row per term."""
    return [
        {"term": label, **{name: float(values[place]) for name, values in parts.items()}}
        for place, label in enumerate(labels)
    ]


def as_ratio(row: Mapping[str, Any], per: float) -> dict[str, Any]:
    """A coefficient and the ends of its interval as ratios; never so large that a file could not hold them."""
    parts = {"ratio": "mean", "low": "low", "high": "high"}
    ends = {name: float(np.exp(np.clip(per * row[end], -700, 700))) for name, end in parts.items()}
    return {"term": row["term"], **ends, "per": per}


def ratio_text(row: Mapping[str, Any]) -> str:
    text = "{ratio:.3g} ({low:.3g} to {high:.3g})".format(**row)
    return text if row["per"] == 1.0 else f"{text} per {row['per']:g}"
