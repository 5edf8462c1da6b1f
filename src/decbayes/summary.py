"""A posterior in numbers: one plain row for each parameter."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from decbayes.families import Array, Family

Row = dict[str, Any]


def factor_rows(factor: str, family: Family, natural: Array, labels: Sequence[str], *, top: int) -> Iterator[Row]:
    """Mean and deviation of each entry of each component; of long rows only the largest `top` entries."""
    deviations = family.quantities(family.deviation(natural))
    for quantity, mean in family.quantities(family.expected(natural)).items():
        deviation = deviations[quantity]
        for component in range(len(mean)):
            for entry in entries(mean[component], top):
                yield {
                    "factor": factor,
                    "component": component,
                    "quantity": quantity,
                    "entry": entry_name(entry, labels),
                    "mean": float(mean[component][entry]),
                    "deviation": float(deviation[component][entry]),
                }


def entries(values: Any, top: int) -> list[tuple[int, ...]]:
    """All entries of a component, or those with the largest values where there are many more than `top`."""
    shape = np.shape(values)
    if len(shape) != 1 or shape[0] <= top:
        return list(np.ndindex(shape))
    return [(int(index),) for index in np.argsort(-values, kind="stable")[:top]]


def entry_name(entry: tuple[int, ...], labels: Sequence[str]) -> str:
    return ", ".join(labels[index] if index < len(labels) else str(index) for index in entry)
