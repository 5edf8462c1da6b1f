"""Pictures of posteriors and alignments. Every function draws on the axes it is given, or on a new figure's."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, cos, pi, sin, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from decbayes.arguments import check_kind, check_whole
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.extras import require
from decbayes.families import Array
from decbayes.merging import Alignment
from decbayes.models.points import as_numbers, as_points
from decbayes.posterior import Posterior

Axes = Any  # matplotlib has no types to name

LEAST_MARGIN = 0.1  # nats: below, a match is as good as a coin toss, and all such cells look alike


def alignment(found: Alignment, *, names: Sequence[str] | None = None, axes: Axes = None) -> Axes:
    """Agents × slots: which component of each agent went where, coloured by the margin.

    The margin is what J loses when that match is forbidden, in nats: dark cells were matched by a hair. Coupled sets
    stand side by side.
    """
    check_kind(Alignment, found=found)
    sets = found.posteriors[0].structure.symmetry
    if not sets:
        raise StructureMismatch("This structure has no coupled sets, so nothing was aligned.")
    margins = found.margins()
    labels = np.hstack([[permutation[coupled] for permutation in found.permutations] for coupled in sets])
    sureness = np.hstack([[margin[coupled] for margin in margins] for coupled in sets])
    axes = axes if axes is not None else new_axes(1.5 + 0.4 * labels.shape[1], 1.2 + 0.35 * len(labels))
    image = axes.imshow(finite(sureness), norm=margin_scale(sureness), cmap="viridis", aspect="auto")
    for agent, slot in np.ndindex(labels.shape):
        ink = "black" if image.norm(finite(sureness)[agent, slot]) > 0.6 else "white"
        axes.text(slot, agent, str(labels[agent, slot]), ha="center", va="center", color=ink, fontsize=8)
    axes.set(xlabel="slot", ylabel="agent", yticks=range(len(labels)))
    axes.set_yticklabels(names if names is not None else range(len(labels)))
    axes.figure.colorbar(image, ax=axes, label="margin (nats)")
    return axes


def topics(posterior: Posterior, *, top: int = 8, across: int = 5, factor: str = "topics") -> Any:
    """The most probable words of every topic, as one figure of small bar charts."""
    check_kind(Posterior, posterior=posterior)
    check_whole(1, top=top)
    probability = posterior.mean(factor)
    words = np.array(posterior.structure.labels.get(factor, tuple(map(str, range(probability.shape[1])))))
    figure, panels = grid(len(probability), across, width=2.2, height=0.4 + 0.18 * top)
    for topic, (axes, shares) in enumerate(zip(panels, probability, strict=True)):
        best = np.argsort(-shares, kind="stable")[:top][::-1]
        axes.barh(range(len(best)), shares[best], color=f"C{topic % 10}")
        axes.set(title=f"topic {topic}", yticks=range(len(best)), xticks=[])
        axes.set_yticklabels(words[best], fontsize=7)
    return figure


def features(posterior: Posterior, shape: tuple[int, int], *, across: int = 5, factor: str = "features") -> Any:
    """Every feature as a grey image of that height and width."""
    check_kind(Posterior, posterior=posterior)
    means = posterior.mean(factor)
    if means.shape[1] != shape[0] * shape[1]:
        raise InvalidData(f"Features have {means.shape[1]} numbers, an image of {shape[0]} × {shape[1]} has others.")
    figure, panels = grid(len(means), across, width=1.4, height=1.6)
    for feature, (axes, mean) in enumerate(zip(panels, means, strict=True)):
        axes.imshow(mean.reshape(shape), cmap="gray")
        axes.set(title=str(feature), xticks=[], yticks=[])
    return figure


def mixture(
    posterior: Posterior, data: ArrayLike | None = None, *, dimensions: tuple[int, int] = (0, 1), axes: Axes = None
) -> Axes:
    """Each component's mean and two standard deviations; the data behind, if given.

    A mixture in one dimension is drawn as its predictive density.
    """
    from decbayes.models.mixture import GaussianMixture
    from decbayes.models.registry import model_for

    check_kind(Posterior, posterior=posterior)
    model = model_for(posterior.structure)
    if not isinstance(model, GaussianMixture):
        raise StructureMismatch(f"This is a posterior of {type(model).__name__}, not of a mixture.")
    axes = axes if axes is not None else new_axes(5.0, 4.0)
    means, covariances = component_shapes(posterior)
    points = None if data is None else as_points(data, means.shape[1])
    if means.shape[1] == 1:
        return density(model, posterior, means[:, 0], np.sqrt(covariances[:, 0, 0]), points, axes)
    pair = list(dimensions)
    if len(pair) != 2 or not set(pair) <= set(range(means.shape[1])):
        raise ValueError(f"dimensions are two of the {means.shape[1]} there are, counted from 0; not {dimensions}.")
    if points is not None:
        axes.scatter(*points[:, pair].T, s=6, color="0.7", linewidths=0)
    for number, (weight, mean, covariance) in enumerate(
        zip(posterior.mean("weights"), means, covariances, strict=True)
    ):
        outline = ellipse(mean[pair], covariance[np.ix_(pair, pair)])
        axes.plot(*outline.T, color=f"C{number % 10}", linewidth=0.5 + 4 * weight)
        axes.annotate(str(number), mean[pair], ha="center", va="center")
    names = posterior.structure.labels.get("components", tuple(f"x{axis}" for axis in range(means.shape[1])))
    axes.set(xlabel=names[pair[0]], ylabel=names[pair[1]])
    return axes


def simplex(
    shares: ArrayLike, *, colours: Any = None, labels: Sequence[str] = ("1", "2", "3"), axes: Axes = None
) -> Axes:
    """Probability vectors of three entries as points of a triangle, such as samples of a mixture's weights."""
    points = as_numbers(shares)
    if points.ndim != 2 or points.shape[1] != 3:
        raise InvalidData(f"A triangle shows rows of three probabilities; the shape is {points.shape}.")
    axes = axes if axes is not None else new_axes(4.0, 3.6)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, sqrt(0.75)]])
    axes.plot(*corners[[0, 1, 2, 0]].T, color="0.5", linewidth=1)
    axes.scatter(*(points @ corners).T, c=colours, s=4, linewidths=0)
    for label, corner in zip(labels, corners, strict=True):
        axes.annotate(label, corner + 0.05 * (corner - corners.mean(axis=0)), ha="center", va="center")
    axes.set_aspect("equal")
    axes.axis("off")
    return axes


def network(links: Iterable[tuple[str, str]], *, values: Mapping[str, float] | None = None, axes: Axes = None) -> Axes:
    """Agents on a circle and who speaks with whom; `values` (scores, say) colours them, also those without links."""
    pairs = list(links)
    agents = sorted({agent for pair in pairs for agent in pair} | set(values or ()))
    place = {agent: circle(index, len(agents)) for index, agent in enumerate(agents)}
    axes = axes if axes is not None else new_axes(4.0, 4.0)
    for pair in pairs:
        axes.plot(*np.array([place[agent] for agent in pair]).T, color="0.7", linewidth=1, zorder=1)
    centres = np.array([place[agent] for agent in agents]).reshape(-1, 2)
    colours = [values.get(agent, np.nan) for agent in agents] if values else None
    dots = axes.scatter(*centres.T, c=colours, s=120, zorder=2, plotnonfinite=True)
    for agent in agents:
        axes.annotate(agent, 1.15 * np.array(place[agent]), ha="center", va="center", fontsize=8)
    if values:
        axes.figure.colorbar(dots, ax=axes)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))  # labels outside the limits would not be drawn
    axes.set_aspect("equal")
    axes.axis("off")
    return axes


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


def density(model: Any, posterior: Posterior, means: Array, spreads: Array, points: Array | None, axes: Axes) -> Axes:
    line = np.linspace((means - 4 * spreads).min(), (means + 4 * spreads).max(), 400)
    if points is not None:
        axes.hist(points[:, 0], bins="auto", density=True, color="0.85")
    axes.plot(line, np.exp(model.log_predictive(posterior, line)), color="C0")
    axes.set(xlabel=posterior.structure.labels.get("components", ("x",))[0], ylabel="density")
    return axes


def ellipse(mean: Array, covariance: Array) -> Array:
    """Points two standard deviations from the mean."""
    angles = np.linspace(0.0, 2 * pi, 100)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    return np.asarray(mean + 2.0 * circle @ np.linalg.cholesky(covariance).T)


def circle(index: int, size: int) -> tuple[float, float]:
    angle = pi / 2 - 2 * pi * index / max(size, 1)
    return cos(angle), sin(angle)


def new_axes(width: float, height: float) -> Axes:
    """A figure that belongs to nobody else: pyplot's global state is left alone."""
    figures = require("matplotlib.figure", extra="plot", task="Pictures")
    return figures.Figure(figsize=(width, height), layout="constrained").add_subplot()


def grid(panels: int, across: int, *, width: float, height: float) -> tuple[Any, list[Axes]]:
    """A figure with so many panels in rows."""
    figures = require("matplotlib.figure", extra="plot", task="Pictures")
    check_whole(1, across=across)
    columns = min(across, panels)
    rows = ceil(panels / columns)
    figure = figures.Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, [figure.add_subplot(rows, columns, number + 1) for number in range(panels)]


def finite(margins: Array) -> Array:
    """Margins that a logarithmic scale can show; a component without a rival has an infinite one."""
    largest = margins[np.isfinite(margins)].max(initial=1.0)
    return np.clip(margins, LEAST_MARGIN, max(largest, 2 * LEAST_MARGIN))


def margin_scale(margins: Array) -> Any:
    colours = require("matplotlib.colors", extra="plot", task="Pictures")
    return colours.LogNorm(LEAST_MARGIN, finite(margins).max())
