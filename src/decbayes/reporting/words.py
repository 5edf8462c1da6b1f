"""Numbers and components in a few words, as the report and notebooks print them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from decbayes.models.model import Model
from decbayes.posterior import Posterior

CAPTION_WORDS = 4
MOST_NUMBERS = 4


def captions(posterior: Posterior, model: Model | None) -> list[str]:
    """A few words on each component: its top words, what sets it apart, or its mean."""
    if model is None:
        return []
    rows = model.describe(posterior, top=CAPTION_WORDS)
    title = model.caption or list(rows[0])[-1]
    return [value_text(row[title]) for row in rows]


def value_text(value: Any) -> str:
    """One value of a description."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {number:.3g}" for name, number in value.items())
    if isinstance(value, np.ndarray):
        return numbers_text(np.ravel(value))
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "(empty)"
    return number(value) if isinstance(value, float) else str(value)


def numbers_text(values: Sequence[float] | Any) -> str:
    text = ", ".join(number(float(value)) for value in values[:MOST_NUMBERS])
    return f"{text}, …" if len(values) > MOST_NUMBERS else text


def number(value: float) -> str:
    """A number to be read: few digits, thousands apart, a true minus."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "no limit"
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def counted(count: float, thing: str) -> str:
    """'1 site', '8 sites'."""
    return f"{number(round(count))} {thing if round(count) == 1 else f'{thing}s'}"


def listed(items: Sequence[Any], most: int = 8) -> str:
    """A few of them by name, and how many more there are."""
    shown = ", ".join(map(str, items[:most]))
    return f"{shown} and {len(items) - most:,} more" if len(items) > most else shown
