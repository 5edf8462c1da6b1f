"""Numbers and values as people read them."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

MOST_NUMBERS = 4


def number(value: float) -> str:
    """A number for people: few digits, thousands separated, a true minus."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "no limit"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def four_digits(value: float) -> str:
    return f"{value:.4g}"


def counted(count: float, thing: str) -> str:
    """'1 site', '8 sites'."""
    return f"{number(round(count))} {thing if round(count) == 1 else f'{thing}s'}"


def listed(items: Sequence[Any], most: int = 8) -> str:
    """The first few items, and how many more there are."""
    shown = ", ".join(map(str, items[:most]))
    return f"{shown} and {len(items) - most:,} more" if len(items) > most else shown


def value_text(value: Any, write: Callable[[float], str] = number, most: int = MOST_NUMBERS) -> str:
    """One value of a description; the first few numbers of long vectors."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {write(share)}" for name, share in islice(value.items(), 2 * most))
    if isinstance(value, np.ndarray):
        numbers = np.ravel(value)
        return ", ".join(write(float(each)) for each in numbers[:most]) + (", …" if len(numbers) > most else "")
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "(empty)"
    return write(value) if isinstance(value, float) else str(value)
