"""Components as plain values that a browser can draw: words, images, ellipses, profiles, or a table.

Nothing here is about single observations: these are parameters of a posterior.
"""

from collections.abc import Collection, Mapping
from math import isqrt
from typing import Any

import numpy as np

from decbayes.families import Array
from decbayes.models.core.model import Model, Row
from decbayes.models.tables.profiles import profile_rows
from decbayes.models.tables.tabular import Tabular
from decbayes.plot._images import contrast
from decbayes.plot._mixture import component_shapes
from decbayes.posterior import Posterior

Drawing = dict[str, Any]

MOST_WORDS, MOST_NUMBERS, MOST_COLUMNS, MOST_ENTRIES = 10, 24, 16, 8
# So many numbers without names are taken for an image, if they make a square; of a mixture only from the second on.
SMALLEST_IMAGE, SMALLEST_MEAN = 16, 64
MOST_PIXELS = 64 * 64


def drawings(model: Model, posterior: Posterior, filled: Collection[int] = ()) -> list[Drawing]:
    """One drawing per component. Each says what `kind` it is of. Scales are those of `filled` components, if given."""
    if model.view == "words":
        return word_drawings(model, posterior)
    if isinstance(model, Tabular):
        return profile_drawings(model, posterior, filled)
    rows = model.describe(posterior)
    if all("mean" in row for row in rows) and model.view in ("points", "images"):
        return mean_drawings(model, posterior, np.array([np.ravel(row["mean"]) for row in rows]))
    return [{"kind": "table", "entries": entries(row)} for row in rows]


def word_drawings(model: Model, posterior: Posterior) -> list[Drawing]:
    """The most probable words of each topic, with their probabilities."""
    vocabulary: tuple[str, ...] = getattr(model, "vocabulary", ())
    drawn = []
    for probabilities in np.asarray(posterior.mean("topics")):
        order = largest(probabilities, MOST_WORDS)
        words = [[vocabulary[word], rounded(probabilities[word])] for word in order]
        drawn.append({"kind": "words", "words": words})
    return drawn


def largest(values: Array, count: int) -> list[int]:
    """Where the largest values are, largest first; sorting whole vocabularies would take longer than all else."""
    places = np.argpartition(-values, min(count, len(values)) - 1)[:count]
    return [int(place) for place in places[np.lexsort((places, -values[places]))]]


def mean_drawings(model: Model, posterior: Posterior, means: Array) -> list[Drawing]:
    """Means as images where they are images, else as points with their spread."""
    shape = image_shape(model, means.shape[1])
    if shape is not None:
        return [image_drawing(mean, shape, signed=bool((means < 0).any())) for mean in means]
    names = posterior.structure.labels.get("components") or [f"x{axis}" for axis in range(means.shape[1])]
    if model.view == "images":
        return [{"kind": "numbers", "names": [*names], "mean": listed(mean)} for mean in means]
    _, covariances = component_shapes(posterior)
    shown = slice(0, min(2, means.shape[1]))
    return [
        {
            "kind": "point",
            "names": [*names][:MOST_NUMBERS],
            "mean": listed(mean[:MOST_NUMBERS]),
            "covariance": [listed(line) for line in covariance[shown, shown]],
        }
        for mean, covariance in zip(means, covariances, strict=True)
    ]


def image_shape(model: Model, numbers: int) -> tuple[int, int] | None:
    """The square that the numbers fill, if they are likely to be pixels: many, and without names."""
    side, least = isqrt(numbers), SMALLEST_IMAGE if model.view == "images" else SMALLEST_MEAN
    named = bool(getattr(model, "columns", ()))
    return (side, side) if side * side == numbers and least <= numbers <= MOST_PIXELS and not named else None


def image_drawing(mean: Array, shape: tuple[int, int], *, signed: bool) -> Drawing:
    """An image of 256 greys with its own contrast: 0 is zero, or the lowest where there are negative numbers."""
    low, high = contrast(mean, signed=signed)
    greys = np.clip((mean - low) / (high - low), 0.0, 1.0) * 255
    return {"kind": "image", "shape": [*shape], "pixels": greys.round().astype(int).tolist()}


def profile_drawings(model: Tabular, posterior: Posterior, filled: Collection[int]) -> list[Drawing]:
    """Each class's mean in each column with an interval, or the shares of the categories."""
    rows = profile_rows(model.columns, model.emissions, posterior, 0.9)
    names = [*model.columns][:MOST_COLUMNS]
    told = [row for row in rows if not filled or row["component"] in filled]
    ranges = {name: column_range([row for row in told if row["column"] == name]) for name in names}
    by_component: dict[int, dict[str, list[Row]]] = {}
    for row in rows:
        by_component.setdefault(row["component"], {}).setdefault(row["column"], []).append(row)
    return [
        {"kind": "profile", "columns": [column(name, own[name], ranges[name]) for name in names]}
        for _, own in sorted(by_component.items())
    ]


def column(name: str, rows: list[Row], limits: tuple[float, float]) -> Drawing:
    """One column of one class: an interval on a scale that all classes share, or shares of categories."""
    if len(rows) > 1:
        ordered = sorted(rows, key=lambda row: -row["mean"])[:MOST_ENTRIES]
        return {"name": name, "shares": [[str(row["category"]), rounded(row["mean"])] for row in ordered]}
    (row,) = rows
    return {
        "name": name,
        "limits": listed(limits),
        **{key: rounded(row[key]) for key in ("mean", "low", "high")},
    }


def column_range(rows: list[Row]) -> tuple[float, float]:
    low, high = min(row["low"] for row in rows), max(row["high"] for row in rows)
    return (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)


def entries(row: Row) -> list[list[str]]:
    """A row of plain values as pairs of texts."""
    return [[str(name), text(value)] for name, value in row.items() if name != "component"][:MOST_NUMBERS]


def text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {text(number)}" for name, number in [*value.items()][:MOST_ENTRIES])
    if isinstance(value, np.ndarray | tuple | list):
        shown = [text(each) for each in np.ravel(np.asarray(value, dtype=object))[: MOST_ENTRIES + 1]]
        return ", ".join(shown[:MOST_ENTRIES]) + (", …" if len(shown) > MOST_ENTRIES else "")
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def listed(values: Any) -> list[float]:
    return [rounded(value) for value in np.ravel(values)]


def rounded(value: Any) -> float:
    """Four digits are as many as a picture shows, and JSON knows no infinity."""
    number = float(value)
    return float(f"{number:.4g}") if np.isfinite(number) else 0.0
