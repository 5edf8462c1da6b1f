"""Samples of any posterior as an ArviZ DataTree."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from decbayes.arguments import check_kind
from decbayes.extras import require
from decbayes.families import Array
from decbayes.posterior import Posterior


def to_arviz(posterior: Posterior, *, draws: int = 1000, rng: np.random.Generator) -> Any:
    """Independent draws of every factor, as one chain of a DataTree's `posterior` group.

    Components are the first dimension of each variable; columns that have labels (words, say) carry them. A factor with
    a mean and a precision becomes two variables, `components_mean` and `components_precision`. The group's attribute
    `uncertainty` says where the draws' spread comes from.
    """
    check_kind(Posterior, posterior=posterior)
    arviz = require("arviz_base", extra="interop", task="A DataTree")
    variables, dims, coords = {}, {}, {}
    for factor, name, values in variables_of(posterior, posterior.sample(draws, rng)):
        variables[name] = values[None]
        dims[name] = [f"{factor}_component", *(f"{factor}_column_{axis}" for axis in range(values.ndim - 2))]
        coords[dims[name][0]] = np.arange(values.shape[1])
        for dim, size in zip(dims[name][1:], values.shape[2:], strict=True):
            coords[dim] = column_names(posterior, factor, size)
    told = {"posterior": {"uncertainty": posterior.uncertainty}}
    return arviz.from_dict({"posterior": variables}, dims=dims, coords=coords, attrs=told)


def variables_of(posterior: Posterior, samples: Mapping[str, Any]) -> Iterator[tuple[str, str, Array]]:
    """Each factor's quantities, with the name of the factor and their own."""
    for factor, family in posterior.structure.families.items():
        for quantity, values in family.quantities(samples[factor]).items():
            yield factor, factor if quantity == "value" else f"{factor}_{quantity}", values


def column_names(posterior: Posterior, factor: str, size: int) -> Any:
    labels = posterior.structure.labels.get(factor, ())
    return np.array(labels) if len(labels) == size else np.arange(size)
