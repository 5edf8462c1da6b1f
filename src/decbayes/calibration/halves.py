"""How far random halves of a site's own rows are apart, by which sites are compared where the model does not hold."""

from dataclasses import replace
from typing import Any

import numpy as np

from decbayes.base.arguments import check_kind
from decbayes.errors import DecbayesError
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.regressions.messages.doubts import OTHER_NOISE
from decbayes.models.regressions.regression import Regression
from decbayes.posterior import EXACT, Posterior
from decbayes.remarks import too_narrow

# The fewest persons in a half of a site's rows.
FEWEST = 10


def with_halves(model: Model, posterior: Posterior, data: Any, *, persons: Any = None) -> Posterior:
    """The posterior of these data, which also says how far random halves of them are apart.

    `heterogeneity` then knows how far apart random parts of the sites' data are, even if the model does not hold: tails
    are heavy, columns correlated, or the noise depends on a column. Values and digests stay as they are. Unchanged if
    there are too few rows, or if sites of this model are not compared. A linear regression also gets a remark if an
    error is clearly larger than the model says.

    Args:
        posterior: what it has learned from the data, alone.
        persons: a name or number per observation, if persons may have several observations.

    >>> rng = np.random.default_rng(0)
    >>> rows = {"x": rng.normal(size=100), "y": rng.normal(size=100)}
    >>> model = db.LinearRegression("y", columns={"x": "real", "y": "real"})
    >>> posterior = model.fit(rows).posterior
    >>> stated = db.checking.with_halves(model, posterior, rows)
    >>> stated == posterior, len(stated.halves)
    (True, 4)
    """
    check_kind(Posterior, posterior=posterior)
    people = Persons.of(persons).checked(model.count(data))
    if people.total(model.count(data)) < 2 * FEWEST:
        return posterior
    try:
        if isinstance(model, Regression):
            return of_rows(model, posterior, data, people)
        from decbayes.calibration.refitted_halves import halves_of_fits  # regressions need not load it

        return replace(posterior, halves=halves_of_fits(model.for_posterior(posterior), posterior, data, people))
    except (DecbayesError, np.linalg.LinAlgError, ArithmeticError):
        return posterior


def of_rows(model: Regression, posterior: Posterior, data: Any, persons: Persons) -> Posterior:
    """Those of coefficients, from the scores of all rows, with a remark if intervals are too narrow."""
    if model.varying or model.weights or model.hides_outcome(data):
        return posterior
    values, larger = model.robust_errors(posterior).halves(data, persons)
    # The noise of other outcomes follows from their mean.
    narrow = (OTHER_NOISE,) if larger and posterior.uncertainty == EXACT and not too_narrow([posterior]) else ()
    return replace(posterior, halves=values, remarks=(*posterior.remarks, *narrow))
