"""How far fits of random halves of a site's rows are from that of all rows, and would be if that one were true."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decbayes.calibration.differences import check_comparable, small_enough
from decbayes.calibration.halves import FEWEST
from decbayes.calibration.worlds import (
    RESTARTS,
    Setting,
    drawn_data,
    in_common_terms,
    number_and_length,
    sharpened,
)
from decbayes.families.matrices import Indices
from decbayes.merging import align, reading
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.core.simulation import drawn_parameters
from decbayes.posterior import Posterior
from decbayes.remarks import too_narrow
from decbayes.structure import CoupledSet

# Of more rows (or steps), so many are compared, and twice the fewest persons at least.
MOST_ROWS = 500


def halves_of_fits(model: Model, posterior: Posterior, data: Any, persons: Persons) -> tuple[float, ...]:
    """2D per parameter of the rows, and of rows drawn from the posterior, which the model describes.

    Two halves would end in the same place more rarely than two sites, and a bootstrap would take rows twice. Of many
    rows a random sample is fitted.
    """
    check_comparable(posterior.structure)
    if too_narrow([posterior]):
        return ()
    fast = replace(model, ascent=replace(model.ascent, restarts=min(model.ascent.restarts, RESTARTS)))
    rng = np.random.default_rng(int(posterior.digest[:16], 16))
    rows = Halved(fast, data, persons.rows(model.count(data)))
    share = max(MOST_ROWS / model.units(data).sum(), 2.0 * FEWEST / len(rows.persons))
    if share < 1.0:
        rows = rows.some(share, rng)
        posterior = rows.fit(rng)
    drawn = rows_from(fast, posterior, sum(map(len, rows.persons)), rng)
    values = [rows.apart(posterior, rng), drawn.apart(drawn.fit(rng), rng)]
    return tuple(values) if np.isfinite(values).all() else ()


@dataclass(frozen=True)
class Halved:
    """The rows of a site, by person."""

    model: Model
    data: Any
    persons: Sequence[Indices]

    def some(self, share: float, rng: np.random.Generator) -> "Halved":
        """Those of a random share of the persons."""
        chosen = rng.permutation(len(self.persons))[: round(share * len(self.persons))]
        return replace(self, persons=[self.persons[person] for person in chosen])

    def fit(self, rng: np.random.Generator) -> Posterior:
        return self.model.fit(self.model.taken(self.data, np.concatenate(self.persons)), rng=rng).posterior

    def apart(self, posterior: Posterior, rng: np.random.Generator) -> float:
        """The mean over halves of how far their fits are from that of all rows, per parameter."""
        spreads = [self.spread(posterior, rng)]
        while len(spreads) < reading.number_of_halves(float(spreads[0].freedom.sum())):
            spreads.append(self.spread(posterior, rng))
        values = [float(one.statistic.sum() / one.freedom.sum()) for one in spreads if one.freedom.sum() > 0.0]
        return float(np.mean(reading.capped(np.array(values)))) if values else np.nan

    def spread(self, posterior: Posterior, rng: np.random.Generator) -> reading.Spread:
        """How far the fit of a random half is from this one."""
        coupled, slots = component_set(posterior)
        alignment = align([posterior, self.some(0.5, rng).fit(rng)], components=slots)
        redivided = in_common_terms(small_enough(alignment, None)).redivided
        return reading.spread_of_components(redivided or alignment, coupled)


def rows_from(model: Model, posterior: Posterior, size: int, rng: np.random.Generator) -> Halved:
    """So many rows, or sequences as long as the site's are on average, from its fit."""
    setting = Setting(align([posterior], components=component_set(posterior)[1]))
    _, options = number_and_length(setting, 0)
    data = drawn_data(model, drawn_parameters(sharpened(posterior), rng), size, rng, options, posterior)
    return Halved(model, data, [np.array([row]) for row in range(model.count(data))])


def component_set(posterior: Posterior) -> tuple[CoupledSet, int]:
    """Its only coupled set, and the number of components."""
    (coupled,) = posterior.structure.symmetry
    return coupled, posterior.structure.components(coupled)
