"""Observations in R^D: checked on the way in."""

from typing import Any

import numpy as np

from decbayes.errors import InvalidData, StructureMismatch
from decbayes.families import Array
from decbayes.posterior import Posterior
from decbayes.structure import Structure


def as_points(data: Any, dimension: int, *, unseen: bool = False) -> Array:
    """Observations as a finite (N, D) matrix; a vector is N observations of one dimension.

    With `unseen` a component may be NaN: nobody saw it.
    """
    try:
        points = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidData(f"Observations must be numbers: {error}") from None
    if points.ndim == 1 and (dimension == 1 or not points.size):
        points = points.reshape(-1, dimension)
    if points.ndim != 2 or points.shape[1] != dimension:
        raise InvalidData(f"Observations have shape {points.shape}; the model expects (observations, {dimension}).")
    wrong = np.flatnonzero((np.isinf(points) if unseen else ~np.isfinite(points)).any(axis=1))
    if len(wrong):
        raise InvalidData(
            f"{len(wrong)} of {len(points)} observations hold NaN or infinite values, first number {wrong[0]}. "
            "Leave them out or fill them in."
        )
    return points


def check_structure(posterior: Posterior | None, structure: Structure, role: str) -> None:
    """Refuse a prior, a start or a posterior that belongs to another model."""
    if posterior is not None and posterior.structure != structure:
        raise StructureMismatch(f"The {role} belongs to {posterior.structure}, the model has {structure}.")


def check_positive(**settings: Any) -> None:
    """Refuse variances, strengths and concentrations that are not positive numbers; None is a setting left out."""
    for name, value in settings.items():
        if value is not None and not (np.isfinite(value).all() and (np.asarray(value) > 0).all()):
            raise ValueError(f"{name} must be positive, not {value}.")
