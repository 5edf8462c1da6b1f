"""What each part of the latent feature search gains: flips, starts, restarts and moves.

    python benchmarks/features_moves.py [--quick] [--seeds N]

Three sets: the paper's (five binary features in ten dimensions, 1,000 observations, identifiable truth), a fifth of it
(what one of five agents has), and an overcomplete one (eight Gaussian features in six dimensions, 500 observations).
Columns: median 2-norm error of the features after matching; share of seeds below 1.0; median shortfall of the bound
against the ascent that starts at the true assignments; seconds a fit. The last line is a JSON object.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.optimize import linear_sum_assignment

from decbayes.models.features import _starts as feature_moves
from decbayes.models.features._starts import climbed, moves, random_start, repaired, starts
from decbayes.models.features._state import FeatureData, State, state_of, sweep

VARIANCE = 0.04
SETS = {"paper": (1000, 5, 10, "binary"), "agent": (200, 5, 10, "binary"), "overcomplete": (500, 8, 6, "normal")}
Search = Callable[[FeatureData, np.random.Generator], State]


def draw(seed: int, observations: int, features: int, dimension: int, kind: str) -> tuple[FeatureData, Any, Any]:
    """A problem, its true features and its true assignments."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((features, dimension))
    while np.linalg.matrix_rank(truth) < min(features, dimension):
        truth[:] = rng.integers(0, 2, truth.shape) if kind == "binary" else rng.normal(size=truth.shape)
    assignments = (rng.random((observations, features)) < rng.uniform(0.1, 0.9, features)).astype(float)
    data = assignments @ truth + rng.normal(0, VARIANCE**0.5, (observations, dimension))
    unit = np.ones(features)
    return FeatureData(data, dimension, VARIANCE, np.zeros_like(truth), unit, unit, unit), truth, assignments.T


def feature_error(found: Any, truth: Any) -> float:
    distance = ((found[:, None] - truth[None]) ** 2).sum(axis=-1)
    return float(np.sqrt(distance[linear_sum_assignment(distance)].sum()))


def threshold(problem: FeatureData) -> float:
    """The library's own: 1e-5 nats an observation."""
    return 1e-5 * len(problem.data)


def swept(state: State, temperature: float) -> State:
    """A pass of plain coordinate ascent, at a temperature."""
    alone, overlap = state.pairwise
    assignments = state.assignments.copy()
    for _ in range(2):
        sweep(alone / temperature, overlap / temperature, assignments)
    return state_of(state.problem, assignments)


def plain(problem: FeatureData, rng: np.random.Generator, *, temperatures: Any = ()) -> State:
    """Coordinate ascent from a random start, annealed if temperatures are given."""
    state = state_of(problem, random_start(problem.data, len(problem.alpha), rng))
    for temperature in temperatures:
        state = swept(state, temperature)
    while True:
        following = swept(state, 1.0)
        if following.bound <= state.bound + threshold(problem):
            return following
        state = following


def flipped(problem: FeatureData, rng: np.random.Generator) -> State:
    """Coordinate ascent with pair flips from a random start."""
    start = random_start(problem.data, len(problem.alpha), rng)
    return climbed(state_of(problem, start), threshold(problem))


def components(problem: FeatureData, rng: np.random.Generator) -> State:
    """The best of three starts from independent components and a random one."""
    begin = islice(starts(problem.data, len(problem.alpha), rng), 4)
    return best(climbed(state_of(problem, start), threshold(problem)) for start in begin)


def best(states: Iterable[State]) -> State:
    return max(states, key=lambda state: state.bound)


def restarted(search: Search, count: int, problem: FeatureData, rng: np.random.Generator) -> State:
    return best(search(problem, rng) for _ in range(count))


def moved(search: Search, without: tuple[str, ...], problem: FeatureData, rng: np.random.Generator) -> State:
    """A search, then moves until none raises the bound; `without` names moves left out."""

    def some_moves(*arguments: Any) -> Any:
        return (move for move in moves(*arguments) if getattr(move, "func", move).__name__ not in without)

    state = search(problem, rng)
    with patch.object(feature_moves, "moves", some_moves):
        while True:
            following = repaired(state, rng, threshold(problem))
            if following.bound <= state.bound + threshold(problem):
                return following
            state = following


SEARCHES: dict[str, Search] = {
    "plain": plain,
    "plain, 10 starts": partial(restarted, plain, 10),
    "annealed": partial(plain, temperatures=np.geomspace(100, 1, 50)),
    "annealed, 10 starts": partial(restarted, partial(plain, temperatures=np.geomspace(100, 1, 50)), 10),
    "pair flips": flipped,
    "pair flips, 10 starts": partial(restarted, flipped, 10),
    "pair flips, moves": partial(moved, flipped, ()),
    "  without recombination": partial(moved, flipped, ("recombined",)),
    "  without reseeding": partial(moved, flipped, ("reseeded",)),
    "  without reassignment": partial(moved, flipped, ("reassigned",)),
    "components, pair flips": components,
    "components, flips, moves (the library)": partial(moved, components, ()),
}


def measure(search: Search, cases: list[Any]) -> dict[str, float]:
    rows = []
    for seed, (problem, truth, assignments) in enumerate(cases):
        goal = climbed(state_of(problem, assignments), threshold(problem)).bound
        begin = perf_counter()
        state = search(problem, np.random.default_rng(seed))
        rows.append((feature_error(state.means, truth), goal - state.bound, perf_counter() - begin))
    error, shortfall, seconds = np.array(rows).T
    return {
        "error": float(np.median(error)),
        "found": float(np.mean(error < 1.0)),
        "shortfall": float(np.median(shortfall)),
        "mean_shortfall": float(np.mean(shortfall)),
        "seconds": float(np.mean(seconds)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three seeds instead of twenty; under a minute")
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    seeds = 3 if arguments.quick else arguments.seeds
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name, shape in SETS.items():
        cases = [draw(seed, *shape) for seed in range(seeds)]
        print(
            f"\n{name}: {shape[0]} observations, {shape[1]} {shape[3]} features in {shape[2]} dimensions, {seeds} seeds"
        )
        print(f"{'':40}{'error':>8}{'< 1.0':>8}{'short of truth':>16}{'mean':>10}{'seconds':>9}")
        results[name] = {}
        for label, search in SEARCHES.items():
            row = results[name][label.strip()] = measure(search, cases)
            numbers = f"{row['error']:8.2f}{row['found']:8.0%}{row['shortfall']:16.1f}{row['mean_shortfall']:10.1f}"
            print(f"{label:40}{numbers}{row['seconds']:9.2f}", flush=True)
    print(json.dumps({"seeds": seeds, "results": results}))


if __name__ == "__main__":
    main()
