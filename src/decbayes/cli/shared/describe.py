"""Posteriors in words: captions for components, and a table of them."""

from collections.abc import Mapping
from math import isqrt
from typing import Any

import numpy as np
from rich.table import Table

from decbayes.cli.shared.terminal import plain
from decbayes.errors import StructureMismatch
from decbayes.families import Array
from decbayes.models.core.model import Model, Row
from decbayes.models.core.registry import model_for
from decbayes.plot._images import as_images
from decbayes.posterior import Posterior

Shape = tuple[int, int]
SHADES = " ░▒▓█"
MOST_NUMBERS = 8
SMALLEST_IMAGE, WIDEST_IMAGE = 16, 64
CAPTION_WORDS = 3


def captions(posterior: Posterior) -> list[str]:
    """A few words on each component: its top words, or its mean."""
    rows, caption = described(posterior, CAPTION_WORDS)
    return [cell(row[caption], None) for row in rows]


def table_of(posterior: Posterior, *, top: int, shape: Shape | None) -> Table:
    """What the posterior's model says of each component; vectors are images of that shape, if one is given."""
    rows, _ = described(posterior, top)
    model = known_model(posterior)
    if model is not None and model.view in ("classes", "states"):
        return by_column(rows)
    names = ", ".join(map(plain, posterior.structure.labels.get("components", ())))
    titles = {"mean": f"mean ({names})"} if names else {}
    table = Table(*(titles.get(title, title) for title in rows[0]), box=None)
    for row in rows:
        table.add_row(*(cell(value, shape if title == "mean" else None) for title, value in row.items()))
    return table


def by_column(rows: list[Row]) -> Table:
    """One line per column of the data, one column per component: tables are often wider than a terminal."""
    first, *titles = rows[0]
    table = Table(first, *(cell(row[first], None) for row in rows), box=None)
    for title in titles:
        table.add_row(plain(title), *("\n".join(cell_lines(row[title])) for row in rows))
    return table


def cell_lines(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{plain(name)} {number:.0%}" for name, number in value.items()]
    return [plain(text) for text in value] if isinstance(value, tuple) else [cell(value, None)]


def described(posterior: Posterior, top: int) -> tuple[list[Row], str]:
    """Rows of plain values, one per component, and which column tells components apart best."""
    model = known_model(posterior)
    if model is None:
        return [*posterior.summary(top=top)], "mean"
    rows = model.describe(posterior, top=top)
    return rows, model.caption or list(rows[0])[-1]


def known_model(posterior: Posterior) -> Model | None:
    try:
        return model_for(posterior.structure)
    except StructureMismatch:
        return None


def cell(value: Any, shape: Shape | None) -> str:
    """One value of a table."""
    if isinstance(value, tuple):
        return ", ".join(map(plain, value)) or "(empty)"
    if isinstance(value, Mapping):
        return ", ".join(f"{plain(name)} {number:.3g}" for name, number in value.items())
    if isinstance(value, np.ndarray):
        return image_or_numbers(value, shape)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else plain(str(value))


def number_text(values: Array) -> str:
    text = ", ".join(f"{value:.4g}" for value in values[:MOST_NUMBERS])
    return f"{text}, …" if len(values) > MOST_NUMBERS else text


def square(numbers: int) -> Shape | None:
    """The shape of a square image of so many pixels, if there is one."""
    side = isqrt(numbers)
    return (side, side) if side * side == numbers else None


def image_or_numbers(values: Array, shape: Shape | None) -> str:
    """An image in shades, two characters per pixel; the numbers where there is no shape, or no room."""
    numbers = np.ravel(values)
    if shape is None or shape[1] > WIDEST_IMAGE:
        return number_text(numbers)
    (picture,) = as_images(numbers[None], shape)
    low, high = picture.min(), picture.max()
    levels = ((picture - low) / (high - low or 1.0) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(2 * SHADES[level] for level in row) for row in levels)
