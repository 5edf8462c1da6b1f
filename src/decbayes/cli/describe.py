"""Posteriors in words: captions for components, and a table for each kind of model."""

from collections.abc import Callable
from math import isqrt

import numpy as np
from rich.table import Table

from decbayes.cli.terminal import plain
from decbayes.errors import StructureMismatch
from decbayes.families import Array, MeanAndPrecision
from decbayes.models.features import LatentFeatures
from decbayes.models.lda import LatentDirichletAllocation
from decbayes.models.mixture import GaussianMixture
from decbayes.models.registry import model_for
from decbayes.plot.images import as_images
from decbayes.posterior import Posterior

Shape = tuple[int, int]
SHADES = " ░▒▓█"
MOST_NUMBERS = 8
SMALLEST_IMAGE, WIDEST_IMAGE = 16, 64


def captions(posterior: Posterior, factor: str) -> list[str]:
    """A few words on each component: its top words, or its mean."""
    labels = posterior.structure.labels.get(factor, ())
    expected = posterior.mean(factor)
    values = expected.mean if isinstance(expected, MeanAndPrecision) else np.asarray(expected)
    rows = values.reshape(len(values), -1)
    if posterior.structure.families[factor].name == "Dirichlet":
        return [", ".join(top_words(row, labels, 3)) for row in rows]
    return [number_text(row) for row in rows]


def top_words(shares: Array, labels: tuple[str, ...], top: int) -> list[str]:
    order = np.argsort(-shares, kind="stable")[:top]
    return [plain(labels[column]) if labels else str(column) for column in order]


def number_text(values: Array) -> str:
    text = ", ".join(f"{value:.4g}" for value in values[:MOST_NUMBERS])
    return f"{text}, …" if len(values) > MOST_NUMBERS else text


def describe(posterior: Posterior, *, top: int, shape: Shape | None) -> Table:
    """The table that suits the posterior's model, or one that suits them all; points are images of that shape."""
    try:
        model = model_for(posterior.structure)
    except StructureMismatch:
        return any_table(posterior, top, shape)
    return TABLES.get(type(model), any_table)(posterior, top, shape)


def topic_table(posterior: Posterior, top: int, shape: Shape | None) -> Table:
    table = Table("topic", "words", "most probable words", box=None)
    added = np.asarray(posterior.contribution["topics"].sum(axis=1)).ravel()
    labels = posterior.structure.labels["topics"]
    for topic, shares in enumerate(posterior.mean("topics")):
        table.add_row(str(topic), f"{added[topic]:,.0f}", ", ".join(top_words(shares, labels, top)))
    return table


def mixture_table(posterior: Posterior, top: int, shape: Shape | None) -> Table:
    expected = posterior.mean("components")
    known = not isinstance(expected, MeanAndPrecision)
    means = expected if known else expected.mean
    names = ", ".join(map(plain, posterior.structure.labels.get("components", ())))
    table = Table("component", "weight", f"mean ({names})" if names else "mean", "standard deviation", box=None)
    for component, weight in enumerate(posterior.mean("weights")):
        spread = [posterior.structure.model["variance"] ** 0.5] if known else spreads(expected.precision[component])
        mean = image_or_numbers(means[component], shape)
        table.add_row(str(component), f"{weight:.3f}", mean, number_text(np.atleast_1d(spread)))
    return table


def spreads(precision: Array) -> Array:
    """Standard deviations of the data around a mean, from a precision matrix or from precisions."""
    if np.ndim(precision) == 2:
        return np.sqrt(np.diag(np.linalg.inv(precision)))
    return np.asarray(1.0 / np.sqrt(precision))


def feature_table(posterior: Posterior, top: int, shape: Shape | None) -> Table:
    table = Table("feature", "how often", "mean", box=None)
    for feature, (share, mean) in enumerate(zip(posterior.mean("inclusion"), posterior.mean("features"), strict=True)):
        table.add_row(str(feature), f"{share:.3f}", image_or_numbers(mean, shape or visible_square(len(mean))))
    return table


def square(numbers: int) -> Shape | None:
    """The shape of a square image of so many pixels, if there is one."""
    side = isqrt(numbers)
    return (side, side) if side * side == numbers else None


def visible_square(numbers: int) -> Shape | None:
    """Nobody said that the numbers are an image: a few are better read as numbers."""
    return square(numbers) if numbers >= SMALLEST_IMAGE else None


def image_or_numbers(values: Array, shape: Shape | None) -> str:
    """An image in shades, two characters a pixel; the numbers where there is no shape, or no room."""
    if shape is None or shape[1] > WIDEST_IMAGE:
        return number_text(values)
    (picture,) = as_images(values[None], shape)
    low, high = picture.min(), picture.max()
    levels = ((picture - low) / (high - low or 1.0) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(2 * SHADES[level] for level in row) for row in levels)


def any_table(posterior: Posterior, top: int, shape: Shape | None) -> Table:
    table = Table("factor", "component", "quantity", "entry", "mean", "deviation", box=None)
    for row in posterior.summary(top=top):
        numbers = (f"{row[name]:.4g}" for name in ("mean", "deviation"))
        table.add_row(plain(row["factor"]), str(row["component"]), row["quantity"], plain(row["entry"]), *numbers)
    return table


TABLES: dict[type, Callable[[Posterior, int, Shape | None], Table]] = {
    LatentDirichletAllocation: topic_table,
    GaussianMixture: mixture_table,
    LatentFeatures: feature_table,
}
