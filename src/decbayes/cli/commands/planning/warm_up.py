"""`decbayes warm-up`: compile all kernels now instead of at first use."""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np

import decbayes as db
from decbayes.cli.shared.terminal import messages
from decbayes.columns import Categorical, Gaussian
from decbayes.models.core.model import Model

SITES = 3


def warm_up() -> None:
    """Fit and merge small data of each kind; the compiled kernels are cached for all processes of this user."""
    started = perf_counter()
    for model, size in models():
        messages().print(f"compiling the kernels of {type(model).__name__} …")
        use(model, size)
    messages().print(f"Done after {perf_counter() - started:.0f} s. First fits and merges load the compiled kernels.")


def models() -> Iterator[tuple[Model, int]]:
    """One model for each set of kernels, and enough observations to use all of them."""
    short = db.Ascent(passes=3, restarts=0, warm_up=1)
    words = tuple(f"word {number}" for number in range(30))
    yield db.GaussianMixture(3, 2, covariance="diagonal", ascent=short), 60
    yield db.LatentDirichletAllocation(3, words, ascent=short), 30
    yield db.LatentDirichletAllocation(3, words, "learn", ascent=short), 30
    yield db.LatentFeatures(2, 3, variance=0.1, ascent=short), 30
    columns = {"level": Gaussian(0.0, 1.0), "kind": Categorical(3)}
    yield db.HiddenMarkov(states=2, columns=columns, ascent=short), 3


def use(model: Model, size: int) -> None:
    """Fit, merge in both ways, and predict, as users do."""
    rng = np.random.default_rng(0)
    shards: list[Any] = [db.simulate(model, size, rng=rng).data for _ in range(SITES)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    for solver in (None, db.solvers.Matching(restarts=0)):
        merged = db.align(posteriors, solver=solver).merged()
    model.assign(merged, shards[0])
    model.score(merged, shards[0])
    model.transform(merged).of(shards[0])
