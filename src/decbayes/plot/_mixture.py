"""Mixtures: ellipses in two dimensions, densities in one."""

from collections.abc import Sequence
from math import pi
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from decbayes.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.models.core.points import as_points
from decbayes.plot.style import BLUE, GREY, INK, PALE, colour, new_axes, styled
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TAIL = 1e-3  # of the highest density: what is lower is not drawn
# How many standard deviations around the means are drawn: the first that will do. A component that has seen little is
# wider than its own standard deviation says, and may have a heavy tail, which is cut off in the end.
REACHES = (4, 8, 16, 32)


@styled()
def mixture(
    posterior: Posterior,
    data: ArrayLike | None = None,
    *,
    dimensions: tuple[int, int] = (0, 1),
    axes: "Axes | None" = None,
) -> "Axes":
    """Each component's mean and two standard deviations, lines as thick as it is frequent; the data behind, if given.

    A mixture in one dimension is drawn as its predictive density.
    """
    from decbayes.models.core.registry import model_for
    from decbayes.models.mixtures.gaussian import GaussianMixture

    check_kind(Posterior, posterior=posterior)
    model = model_for(posterior.structure)
    if not isinstance(model, GaussianMixture):
        raise StructureMismatch(f"This is a posterior of {type(model).__name__}, not of a mixture.")
    axes = axes if axes is not None else new_axes(3.4, 2.6)
    means, covariances = component_shapes(posterior)
    points = None if data is None else as_points(data, means.shape[1])
    if means.shape[1] == 1:
        draw_density(axes, model, posterior, means[:, 0], np.sqrt(covariances[:, 0, 0]), points)
    else:
        pair = two_of(dimensions, means.shape[1])
        within = None if points is None else points[:, pair]
        draw_ellipses(axes, posterior.mean("weights"), means[:, pair], covariances[:, pair][:, :, pair], within)
    names = posterior.structure.labels.get("components", tuple(f"x{axis}" for axis in range(means.shape[1])))
    shown = (names[0], "density") if means.shape[1] == 1 else tuple(names[axis] for axis in dimensions)
    axes.set(xlabel=shown[0], ylabel=shown[1])
    return axes


def two_of(dimensions: Sequence[int], available: int) -> list[int]:
    """Two different dimensions that there are."""
    if len(dimensions) != 2 or len(set(dimensions) & set(range(available))) != 2:
        raise ValueError(f"dimensions are two of the {available} there are, counted from 0; not {dimensions}.")
    return list(dimensions)


def component_shapes(posterior: Posterior) -> tuple[Array, Array]:
    """Means and covariance matrices of a mixture's components, at the expected parameters."""
    expected = posterior.mean("components")
    known = posterior.structure.model.get("variance")
    mean = expected if known is not None else expected.mean
    identity = np.eye(mean.shape[1])
    if known is not None:
        return mean, np.broadcast_to(known * identity, (len(mean), *identity.shape))
    precision = expected.precision
    if precision.ndim == 3:
        return mean, np.linalg.inv(precision)
    return mean, (1.0 / precision.reshape(len(mean), -1))[:, :, None] * identity


def draw_ellipses(axes: "Axes", weights: Array, means: Array, covariances: Array, points: Array | None) -> None:
    if points is not None:
        axes.scatter(points[:, 0], points[:, 1], s=5, color=GREY, alpha=0.5, linewidths=0)
    for number, (weight, mean, covariance) in enumerate(zip(weights, means, covariances, strict=True)):
        axes.plot(*ellipse(mean, covariance).T, color=colour(number), linewidth=0.5 + 3 * weight)
        axes.annotate(str(number), mean, ha="center", va="center", color=INK, weight="bold")


def ellipse(mean: Array, covariance: Array) -> Array:
    """Points two standard deviations from the mean."""
    angles = np.linspace(0.0, 2 * pi, 100)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    return np.asarray(mean + 2.0 * circle @ np.linalg.cholesky(covariance).T)


def draw_density(
    axes: "Axes", model: Any, posterior: Posterior, means: Array, spreads: Array, points: Array | None
) -> None:
    if points is not None:
        axes.hist(points[:, 0], bins="auto", density=True, color=PALE)
    for reach in REACHES:
        line = np.linspace((means - reach * spreads).min(), (means + reach * spreads).max(), 600)
        density = np.exp(model.log_predictive(posterior, line))
        if max(density[0], density[-1]) < TAIL * density.max():
            break
    axes.plot(line, density, color=BLUE)
