"""Linear regressions as if the noise were equally large at all sites, so that only their coefficients are compared.

Another noise variance contradicts no coefficient, and where tails are heavy, variances differ by chance. So each site's
rows are divided by the deviation of its own noise, in units of the median site's. With RSS the sum of squares of the
residuals at a site, ν their degrees of freedom, and v the median of RSS / ν over sites, its variance is

    (RSS + k v) / (ν + k),    but at least v / m² and at most m² v

because few rows hardly know their noise, and noise that is far larger is rather another unit.
"""

from collections.abc import Sequence

import numpy as np

from decbayes.families import Array, dense
from decbayes.posterior import Posterior

# Rows that the median variance counts for (k), and how many times the median deviation the noise may have (m).
ROWS, MOST = 20.0, 4.0


def at_equal_noise(posteriors: Sequence[Posterior]) -> Sequence[Posterior]:
    """The posteriors with noise of the same size, if they are linear regressions; else as they are."""
    structure = posteriors[0].structure
    for name, family in structure.families.items() if not structure.symmetry else ():
        if (residuals_of := getattr(family, "residuals", None)) is not None:
            residuals = [residuals_of(dense(one.contribution[name]), one.natural[name]) for one in posteriors]
            degrees, squares = (np.array(part) for part in zip(*residuals, strict=True))
            pairs = zip(posteriors, relative(degrees, squares), strict=True)
            posteriors = [divided(posterior, name, times) for posterior, times in pairs]
    return posteriors


def relative(degrees: Array, squares: Array) -> Array:
    """(sites, K): the variances of noise in units of the median site's."""
    known = (degrees > 1.0) & (squares > 0.0)
    own = np.divide(squares, degrees, out=np.full(degrees.shape, np.nan), where=known)
    middle = np.nanmedian(own, axis=0) if known.any() else 1.0
    shrunk = np.divide(squares / middle + ROWS, degrees + ROWS, out=np.ones(degrees.shape), where=known)
    return np.clip(shrunk, MOST**-2, MOST**2)


def divided(posterior: Posterior, name: str, times: Array) -> Posterior:
    """With rows that are divided by the root of `times`; there are as many of them as before."""
    rows = dense(posterior.contribution[name])
    scaled = np.concatenate([rows[:, :1], rows[:, 1:] / times[:, None]], axis=1)
    return posterior.lessened({**posterior.contribution, name: scaled})
