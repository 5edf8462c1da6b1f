"""Simulated data: for tests, for calibration, and to see what a prior means."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.base.arguments import Seed, check_whole, generator
from decbayes.models.core.model import Model
from decbayes.models.core.points import check_structure
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class Simulated:
    """Simulated data, the parameters behind them, and each observation's hidden variables, such as its component."""

    data: Any
    parameters: Mapping[str, Any]
    hidden: Any


def simulate(model: Model, size: int, *, rng: Seed, posterior: Posterior | None = None, **options: Any) -> Simulated:
    """Draw observations from a model, with parameters drawn from its prior or from a posterior.

    `options` are specific to the model, such as the `length` of documents and of sequences.

    Args:
        posterior: where to draw parameters from; default: the prior.
        options: further arguments of the model's `draw`, such as the `length` of documents.

    >>> model = db.GaussianMixture(2, 3, variance=0.1)
    >>> drawn = db.simulate(model, 50, rng=0)
    >>> drawn.data.shape, drawn.parameters["components"].shape, drawn.hidden.shape
    ((50, 3), (2, 3), (50,))
    """
    check_whole(0, size=size)
    model = model if posterior is None else model.for_posterior(posterior)
    source = posterior or Posterior.of_prior(model.structure)
    check_structure(source, model.structure, "posterior")
    random = generator(rng)
    parameters = drawn_parameters(source, random)
    data, hidden = model.draw(parameters, size, random, **options)
    return Simulated(data, parameters, hidden)


def drawn_parameters(source: Posterior, rng: np.random.Generator) -> dict[str, Any]:
    """Draw all parameters once."""
    families = source.structure.families
    return {name: families[name].one_of(values, 0) for name, values in source.sample(1, rng).items()}
