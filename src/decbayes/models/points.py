"""Observations in R^D: checked on the way in."""

from typing import Any

import numpy as np

from decbayes.arguments import check_kind, real_array
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.families import Array
from decbayes.posterior import Posterior
from decbayes.structure import Structure

# Squares of larger numbers, over small variances, overflow.
LARGEST = 1e100

# Nats that rounding may change a log density by before it is nonsense.
MOST_ROUNDING = 1e-2


def as_points(data: Any, dimension: int, *, unseen: bool = False) -> Array:
    """Observations as a finite (N, D) matrix; a vector is N observations of one dimension.

    With `unseen` a component may be NaN: nobody saw it.
    """
    points = as_numbers(data)
    if points.ndim == 1 and (dimension == 1 or not points.size):
        points = points.reshape(-1, dimension)
    if points.ndim != 2 or points.shape[1] != dimension:
        raise InvalidData(f"Observations have shape {points.shape}; the model expects (observations, {dimension}).")
    usable = (np.abs(points) < LARGEST) | (unseen & np.isnan(points))
    wrong = np.flatnonzero(~usable.all(axis=1))
    if len(wrong):
        raise InvalidData(
            f"{len(wrong)} of {len(points)} observations hold NaN or infinite values ({LARGEST:g} counts as infinite), "
            f"first number {wrong[0]}. Leave them out or fill them in."
        )
    return points


def as_numbers(data: Any) -> Array:
    """Real numbers, laid out row by row: other layouts would be added up in another order, to other last bits."""
    try:
        return np.asarray(real_array(data), dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidData(f"Observations must be numbers: {error}.") from None


def check_rounding(largest: float) -> None:
    """Refuse data whose log densities are small differences of terms this large."""
    if not largest * np.finfo(np.float64).eps <= MOST_ROUNDING:
        raise InvalidData(
            "The variance of the observations is lost in rounding: they lie too far from zero. "
            "Subtract one agreed offset from every site's data, and divide by one agreed scale."
        )


def check_held(observed: Array, held: Array) -> None:
    """Refuse parts of observations that do not fit each other; NaN marks what is not in a part."""
    if observed.shape != held.shape:
        raise InvalidData(f"Observed values have shape {observed.shape}, held-out values {held.shape}.")
    if (np.isfinite(observed) & np.isfinite(held)).any():
        raise InvalidData("Some values are both observed and held out; the prediction would know the answer.")
    if not np.isfinite(held).any():
        raise InvalidData("No value is held out, so there is nothing to predict.")


def check_fit(structure: Structure, rng: Any, prior: Posterior | None, start: Posterior | None) -> None:
    """Refuse what is no generator, and a prior or a start that belong to another model."""
    check_kind(np.random.Generator, rng=rng)
    for role, posterior in (("prior", prior), ("start", start)):
        if posterior is not None:
            check_structure(posterior, structure, role)


def check_structure(posterior: Posterior, structure: Structure, role: str) -> None:
    """Refuse a prior, a start or a posterior that belongs to another model."""
    check_kind(Posterior, **{role: posterior})
    if posterior.structure != structure:
        raise StructureMismatch(f"The {role} belongs to {posterior.structure}, the model has {structure}.")
