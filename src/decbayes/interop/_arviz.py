"""Samples of any posterior as an ArviZ DataTree."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr

from decbayes.base.arguments import Seed, check_kind
from decbayes.base.extras import require
from decbayes.families import Array
from decbayes.interop.draws import variable_name
from decbayes.posterior import Posterior

# Quantiles for stretching the draws of a calibrated posterior; also in the tails, so that shares stay shares.
GRID = ndtr(np.linspace(-5.0, 5.0, 61))


def to_arviz(posterior: Posterior, *, draws: int = 1000, rng: Seed) -> Any:
    """Independent draws of every factor, as one chain of a DataTree's `posterior` group.

    `draws` is their number, and `rng` a generator or a seed.

    Components are the first dimension of each variable; columns carry their labels, such as words. A factor with a mean
    and a precision becomes two variables, `components_mean` and `components_precision`. The group's attribute
    `uncertainty` tells where the spread of draws comes from: those of a calibrated posterior are stretched, entry by
    entry, to its intervals. Shares then add up to one only on average.

    >>> import arviz_base
    >>> posterior = db.models.GaussianMean(variance=1.0, dimension=2).fit(np.ones((50, 2))).posterior
    >>> tree = db.interop.to_arviz(posterior, draws=100, rng=0)
    >>> dict(tree["posterior"].sizes)
    {'chain': 1, 'draw': 100, 'mean_component': 1, 'mean_column_0': 2}
    """
    check_kind(Posterior, posterior=posterior)
    arviz = require("arviz_base", extra="interop", task="A DataTree")
    variables, dims, coords = {}, {}, {}
    drawn = posterior.sample(draws, rng)
    for factor, name, values in variables_of(
        posterior, drawn if posterior.calibration is None else stretched(posterior, drawn)
    ):
        variables[name] = values[None]
        dims[name] = [f"{factor}_component", *(f"{factor}_column_{axis}" for axis in range(values.ndim - 2))]
        coords[dims[name][0]] = np.arange(values.shape[1])
        for dim, size in zip(dims[name][1:], values.shape[2:], strict=True):
            coords[dim] = column_names(posterior, factor, size)
    attributes = {"posterior": {"uncertainty": posterior.uncertainty}}
    return arviz.from_dict({"posterior": variables}, dims=dims, coords=coords, attrs=attributes)


def variables_of(posterior: Posterior, samples: Mapping[str, Any]) -> Iterator[tuple[str, str, Array]]:
    """Each quantity of each factor, with the name of the factor and its own."""
    for factor, family in posterior.structure.families.items():
        for quantity, values in family.quantities(samples[factor]).items():
            yield factor, variable_name(factor, quantity), values


def column_names(posterior: Posterior, factor: str, size: int) -> Any:
    labels = posterior.structure.labels.get(factor, ())
    return np.array(labels) if len(labels) == size else np.arange(size)


def stretched(posterior: Posterior, samples: Mapping[str, Any]) -> dict[str, Any]:
    """Draws of the families, stretched to those of the calibrated marginals."""
    assert posterior.calibration is not None
    stretched_draws = {}
    for factor, family in posterior.structure.families.items():
        natural = posterior.natural[factor]
        stretch = posterior.calibration.stretch(factor, family, natural)
        before, after = (
            [family.quantities(family.quantile(natural, p, times)) for p in GRID] for times in (1.0, stretch)
        )
        stretched_draws[factor] = family.of_quantities(
            {
                name: map_quantiles(
                    values, *(np.array([quantities[name] for quantities in series]) for series in (before, after))
                )
                for name, values in family.quantities(samples[factor]).items()
            }
        )
    return stretched_draws


def map_quantiles(draws: Array, before: Array, after: Array) -> Array:
    """Map each entry of the draws, (S, …), from old quantiles, (G, …), to new ones, linearly within and beyond."""
    flat, old, new = (part.reshape(len(part), -1).T for part in (draws, before, after))
    moved = [
        np.interp(values, source, target)
        # Beyond the outer quantiles a draw keeps its distance from them, in stretched units.
        + np.minimum(values - source[0], 0.0) * slope(source, target)
        + np.maximum(values - source[-1], 0.0) * slope(source, target)
        for values, source, target in zip(flat, old, new, strict=True)
    ]
    return np.array(moved).T.reshape(draws.shape)


def slope(source: Array, target: Array) -> float:
    width = float(source[-1] - source[0])
    return float(target[-1] - target[0]) / width if width > 0.0 else 1.0
