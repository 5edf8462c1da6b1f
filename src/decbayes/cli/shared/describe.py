"""Posteriors in words: captions and tables of components."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.table import Table

from decbayes.cli.shared.terminal import plain, plural
from decbayes.families import Array
from decbayes.posterior import Posterior
from decbayes.views import view_of
from decbayes.views.text_summary import by_filled_slot, filled_slots
from decbayes.views.values import Row, Shape, four_digits, value_text
from decbayes.views.view import INTERVAL, as_images

SHADES = " ░▒▓█"
MOST_NUMBERS = 8
WIDEST_IMAGE = 64
CAPTION_WORDS = 3


def captions(posterior: Posterior) -> list[str]:
    """A few words for each component: its top words, or its mean."""
    view = view_of(posterior.structure)
    return [plain(text) for text in view.captions(posterior, top=CAPTION_WORDS, write=four_digits, most=MOST_NUMBERS)]


def components_table(posterior: Posterior, *, top: int, shape: Shape | None = None) -> Table:
    """Each component in plain values; means are drawn as images of that shape, or of the view's default."""
    view = view_of(posterior.structure)
    rows, shape = [*by_filled_slot(posterior, view.rows(posterior, top=top)).values()], shape or view.shape(posterior)
    if view.by_column:
        return by_column(rows)
    rows = [with_interval(row) for row in rows]
    names = ", ".join(map(plain, posterior.structure.labels.get("components", ())))
    return rows_table(rows, shape, {"mean": f"mean ({names})"} if names else {})


def empty_slots(posterior: Posterior) -> str:
    """How many empty slots tables leave out; an empty text if none."""
    structure = posterior.structure
    empty = sum(structure.components(coupled) - len(filled_slots(posterior, coupled)) for coupled in structure.symmetry)
    return plural(empty, "empty slot") if empty else ""


def rows_table(
    rows: Sequence[Row], shape: Shape | None = None, titles: Mapping[str, str] = MappingProxyType({}), title: str = ""
) -> Table:
    table = Table(*(titles.get(name, name) for name in rows[0]), box=None, title=plain(title) or None)
    for row in rows:
        table.add_row(*(cell(value, shape if name == "mean" else None) for name, value in row.items()))
    return table


def print_modelled(posterior: Posterior, write: Callable[[str], Any]) -> None:
    """Print what is modelled, if the model's name does not tell."""
    if modelled := view_of(posterior.structure).modelled:
        write(plain(f"models the {modelled}"))


def with_interval(row: Row) -> Row:
    """Replace the two ends of an interval by one entry, named after its probability."""
    if not {"low", "high"} <= row.keys():
        return row
    return {key: value for key, value in row.items() if key not in ("low", "high")} | {
        INTERVAL: f"{four_digits(row['low'])} to {four_digits(row['high'])}"
    }


def by_column(rows: list[Row]) -> Table:
    """One line per column of the data and one column per component, because tables are often wider than a terminal."""
    first, *titles = rows[0]
    table = Table(first, *(cell(row[first], None) for row in rows), box=None)
    for title in titles:
        table.add_row(plain(title), *("\n".join(cell_lines(row[title])) for row in rows))
    return table


def cell_lines(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{plain(name)} {number:.0%}" for name, number in value.items()]
    return [plain(text) for text in value] if isinstance(value, tuple) else [cell(value, None)]


def cell(value: Any, shape: Shape | None) -> str:
    if isinstance(value, np.ndarray) and shape is not None and shape[1] <= WIDEST_IMAGE:
        return image(value, shape)
    if isinstance(value, int):
        return f"{value:,}"
    return plain(value_text(value, four_digits, MOST_NUMBERS))


def image(values: Array, shape: Shape) -> str:
    """An image in shades, two characters per pixel."""
    (picture,) = as_images(np.ravel(values)[None], shape)
    low, high = picture.min(), picture.max()
    levels = ((picture - low) / (high - low or 1.0) * (len(SHADES) - 1)).round().astype(int)
    return "\n".join("".join(2 * SHADES[level] for level in row) for row in levels)
