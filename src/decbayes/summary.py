"""A posterior in numbers: one plain row for each parameter."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from decbayes.families import Array

Row = dict[str, Any]


def value_rows(
    values: Mapping[str, Mapping[str, Array]], labels: Sequence[str], *, top: int
) -> Iterator[tuple[int, str, str, Row]]:
    """Each entry of each component, its quantity's name, its own, and its values: a mean, and whatever comes with it.

    Of long rows only the entries with the largest `top` means.
    """
    for quantity, mean in values["mean"].items():
        for component in range(len(mean)):
            for entry in entries(mean[component], top):
                numbers = {name: float(of[quantity][component][entry]) for name, of in values.items()}
                yield component, quantity, entry_name(entry, labels), numbers


def entries(values: Any, top: int) -> list[tuple[int, ...]]:
    """All entries of a component, or those with the largest values where there are many more than `top`."""
    shape = np.shape(values)
    if len(shape) != 1 or shape[0] <= top:
        return list(np.ndindex(shape))
    return [(int(index),) for index in np.argsort(-values, kind="stable")[:top]]


def entry_name(entry: tuple[int, ...], labels: Sequence[str]) -> str:
    return ", ".join(labels[index] if index < len(labels) else str(index) for index in entry)
