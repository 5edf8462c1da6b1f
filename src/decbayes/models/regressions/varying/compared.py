"""Messages of sites as they are compared: in terms that vary, sites may differ by as much as most of them do.

A message has integrated out the site's deviation u with the deviation between sites that this site expects. All sites
together show how large deviations are. If u has a further variance T, a message (s, P) about β becomes

    s − P_V A⁻¹ s_V,   P − P_V A⁻¹ P_V',   A = P_VV + T⁻¹,

in units of the noise if there is noise; as T grows, each site gets coefficients of its own for what varies, as for the
categories that count as "other", which are not the same ones everywhere.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, dense
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.regressions.varying.site_effects import Level
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

# Sites may differ by this many times the largest distance from their median, once fewer than a third are set aside.
TIMES = 2.0
# The variance between sites of what is not the same at all of them: categories that count as "other".
ANY = 1e12
# The smallest such distance, relative to the agreed units.
LEAST = 1e-6


def as_compared(model: "Regression", posteriors: Sequence[Posterior]) -> list[Posterior]:
    places = np.union1d(model.table.places, model.table.places_of_other)
    if not len(places) or len(posteriors) < 2:
        return [*posteriors]
    own = np.array([model.outcome.moments(posterior.natural[FACTOR])[0][places] for posterior in posteriors])
    distances = np.sort(np.abs(own - np.median(own, axis=0)), axis=0)
    further = (TIMES * np.maximum(distances[-1 - (len(own) - 1) // 3], LEAST)) ** 2
    further[np.isin(places, model.table.places_of_other)] = ANY
    return [
        posterior.lessened(
            {
                **posterior.contribution,
                FACTOR: widened(
                    dense(posterior.contribution[FACTOR]),
                    places,
                    further / model.outcome.noise(posterior.natural[FACTOR]),
                    len(model.table.design.labels),
                ),
            }
        )
        for posterior in posteriors
    ]


def widened(contribution: Array, places: NDArray[np.intp], further: Array, side: int) -> Array:
    """A contribution whose last columns are s and −½P, after two for the noise if there are more."""
    noise, shift, square = np.split(contribution[0], [-side - side * side, -side * side])
    level = Level(shift[None], -2.0 * square.reshape(1, side, side), places, np.diag(1.0 / further))
    (shift,), (precision,) = level.reduced
    if len(noise):
        known = float(np.trace(level.spread[0] @ level.precision[0][np.ix_(places, places)]))
        noise = noise + np.array([-0.5 * known, level.square])
    return np.concatenate([noise, shift, -0.5 * precision.ravel()])[None]
