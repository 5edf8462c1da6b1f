"""Columns that a site of a regression seems to have in another unit, from the messages of all sites.

A message has Σ w x xᵀ: the centre and the scale of each column in the site's rows, by their weights. It also has the
site's slope, which is smaller where numbers are larger.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from decbayes.columns.comparing import BEYOND, FURTHER, USUAL, among
from decbayes.families import dense
from decbayes.models.regressions.messages.one_broadcast import Quadratic
from decbayes.models.regressions.messages.redrawn import moments_of
from decbayes.models.regressions.outcome import Generalized
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

# The fewest sites to compare. Numbers in another unit are often these times as large: pounds, inches, powers of ten,
# months, mmHg for kPa, mg/dl for mmol/l of glucose, cholesterol and creatinine; degrees Fahrenheit are also shifted.
FEWEST_COMPARED = 3
LARGER = (2.2046, 2.54, 7.5, 10.0, 12.0, 18.0, 38.7, 88.4, 100.0, 1000.0)
UNITS = (*((times, 0.0) for k in LARGER for times in (k, 1.0 / k)), (1.8, 32.0), (1.0 / 1.8, -32.0 / 1.8))
# In that unit a centre is within NEAR scales of those of others, and within this share of them; its scale is at most
# WIDER: children are lighter than adults, but differ more for their weight. Columns whose scale exceeds this share of
# their centre are too SKEWED. Any other factor must exceed ANOTHER_UNIT, and the centre be OUTSIDE by this many scales;
# around zero, where centres have no factor, that of the scales must exceed it.
NEAR, CLOSE, WIDER, SKEWED, ANOTHER_UNIT, OUTSIDE = 0.5, 0.2, 1.5, 0.5, 8.0, 20.0
# Nats from which on a slope clearly is that of other sites; the variance of slopes, in agreed units, of sites that know
# nothing about them: a larger one would lose digits of the others.
CLEAR, WIDE = 2.0, 1e6


def other_units(model: "Regression", posteriors: Sequence[Posterior]) -> list[tuple[int, str, float]]:
    """The sites, the columns that they seem to have in another unit, and how many times as large the values are."""
    sites = [columns_behind(model, posterior) for posterior in posteriors]
    named = []
    for column in dict.fromkeys(name for columns in sites for name in columns):
        known = {site: columns[column] for site, columns in enumerate(sites) if column in columns}
        for site, values in known.items() if len(known) >= FEWEST_COMPARED else ():
            times = values.times_as_large([other for number, other in known.items() if number != site])
            named += [(site, column, times)] if times else []
    return named


def columns_behind(model: "Regression", posterior: Posterior) -> "dict[str, Values]":
    """The values of each numeric column in the rows behind a message."""
    family, levels = posterior.structure.families[FACTOR], sorted(model.baseline_places)
    contribution = dense(posterior.contribution[FACTOR])
    quadratic = family.quadratic(contribution, posterior.natural[FACTOR])
    if quadratic is None or not levels:
        return {}
    shift, precision = (part[0] for part in quadratic)
    if isinstance(model.outcome, Generalized):
        # Without the directions that `quadratic` drops, rows far from the agreed centre would seem to be all alike.
        shift, precision = Quadratic.of(contribution)
    centres, spread = moments_of(precision, levels)
    covariance = np.linalg.inv(precision + np.eye(len(shift)) / WIDE)
    parts = centres, np.sqrt(np.maximum(np.diag(spread), 0.0)), covariance @ shift, np.diag(covariance)
    found = {}
    for label, centre, scale, slope, variance in zip(model.table.design.labels, *parts, strict=True):
        column = model.columns.get(label)
        if column is not None and not column.flag and np.isfinite(centre) and variance > 0.0:
            zero, unit = column.zero_and_unit
            found[label] = Values(zero + unit * centre, unit * scale, slope, variance)
    return found


class Values(NamedTuple):
    """The values of a column at a site, and the mean and variance of its slope by the site's rows alone."""

    centre: float
    scale: float
    slope: float
    variance: float

    def times_as_large(self, others: "Sequence[Values]") -> float:
        """How many times as large they are, if they seem to be in another unit than those of other sites; else 0.

        In the other unit, the centre must be near those of the others; in theirs, far from them. The scale must not be
        larger, but may be smaller: far from the agreed centre, weights of rows depend on an uncertain slope.
        """
        centre, (middle, usual, spread) = self.centre, among([(other.centre, other.scale) for other in others])
        away = abs(centre - middle)
        if abs(middle) <= NEAR * usual:
            times = self.scale / usual if self.scale > ANOTHER_UNIT * usual > 0.0 else 0.0
        elif centre / middle > ANOTHER_UNIT and away > OUTSIDE * usual:
            times = centre / middle
        else:
            fits = [
                times if shift else centre / middle
                for times, shift in (UNITS if usual < SKEWED * abs(middle) else ())
                if abs(centre - shift - times * middle) < times * min(NEAR * usual, CLOSE * abs(middle))
                and away > max((BEYOND if shift else FURTHER * min(times, 1.0)) * usual, USUAL * spread)
                and self.scale < WIDER * times * usual
            ]
            times = fits[0] if fits else 0.0
        return 0.0 if times and self._has_slope_of(others, times) else times

    def _has_slope_of(self, others: "Sequence[Values]", times: float) -> bool:
        """Whether the slope is clearly that of others, and not what it would be in that other unit."""
        weights = [1.0 / other.variance for other in others]
        common = float(np.average([other.slope for other in others], weights=weights))
        same, scaled = ((self.slope - slope) ** 2 / self.variance for slope in (common, common / times))
        return bool(scaled - same > 2.0 * CLEAR)
