"""Rubin's rules: one result from the analyses of several imputed tables."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from decbayes.base.arguments import check_level, real_array
from decbayes.errors import InvalidData
from decbayes.families import Array


@dataclass(frozen=True, eq=False)
class Pooled:
    """Estimates over imputed tables, with standard errors that account for missing values.

    Attributes:
        estimate: the mean over tables.
        error: its standard error, √(W + (1 + 1/m) B): the mean variance within tables, and that between them.
        degrees: degrees of freedom of Student's t.
        missing: the share of the information that is missing.
    """

    estimate: Array
    error: Array
    degrees: Array
    missing: Array

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Both ends of an interval by Student's t."""
        check_level(level)
        reach = stdtrit(self.degrees, 0.5 + 0.5 * level) * self.error
        return self.estimate - reach, self.estimate + reach


def pool(estimates: Any, variances: Any, *, degrees: float = np.inf) -> Pooled:
    """Combine the estimates from m imputed tables, one table per row (Rubin, 1987; degrees: Barnard and Rubin, 1999).

    Args:
        estimates: (m, …) estimates, such as coefficients.
        variances: (m, …) their squared standard errors.
        degrees: the degrees of freedom of an analysis without missing values: rows of all sites minus coefficients.
            Infinite for large data.

    >>> pooled = db.checking.pool([1.0, 1.2, 0.8], [0.04, 0.05, 0.03], degrees=50)
    >>> [round(float(part), 3) for part in (pooled.estimate, pooled.error, pooled.degrees)]
    [1.0, 0.306, 4.722]
    """
    by_table, within = (np.asarray(real_array(part), dtype=np.float64) for part in (estimates, variances))
    if by_table.shape != within.shape or by_table.ndim < 1 or len(by_table) < 2:
        raise InvalidData(
            f"Pooling needs estimates and variances of the same shape, from two tables or more; these have the shapes "
            f"{by_table.shape} and {within.shape}."
        )
    if not (np.isfinite(by_table).all() and np.isfinite(within).all() and (within > 0).all() and degrees > 0):
        raise InvalidData("Estimates must be finite, and variances and degrees of freedom positive.")
    count, inside = len(by_table), within.mean(axis=0)
    between = (1.0 + 1.0 / count) * by_table.var(axis=0, ddof=1)
    total = inside + between
    share = between / total
    rough = (count - 1) / np.maximum(share, 1e-12) ** 2
    observed = (degrees + 1) / (degrees + 3) * degrees * (1.0 - share) if np.isfinite(degrees) else np.inf
    freedom = 1.0 / (1.0 / rough + 1.0 / observed)
    missing = (between / inside + 2.0 / (freedom + 3.0)) / (between / inside + 1.0)
    return Pooled(by_table.mean(axis=0), np.sqrt(total), freedom, missing)
