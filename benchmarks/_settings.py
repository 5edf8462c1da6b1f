"""Random settings that nobody has tuned on: a model, the data of several sites, and held-out data of each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import decbayes as db
from decbayes.posterior import Posterior

KINDS = ("mixture", "classes", "topics", "states")
HELD_OUT = 1200  # rows of all sites together
SEEN = {"all": 1.0, "most": 0.75, "half": 0.5}
WORDS, LENGTH = 120, 40
Draw = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Setting:
    """What a seed has drawn. `sized` makes the model for a number of components, `score` is per observation."""

    kind: str
    name: str
    true: int
    fitted: int
    seen: tuple[tuple[int, ...], ...]
    shards: tuple[Any, ...]
    held_out: tuple[Any, ...]
    sized: Callable[[int], Any]

    def model(self) -> Any:
        return self.sized(self.fitted)

    def joined(self, parts: tuple[Any, ...]) -> Any:
        return [sequence for part in parts for sequence in part] if self.kind == "states" else np.concatenate(parts)

    def scores(self, posterior: Posterior) -> np.ndarray:
        """Per site, the held-out score per observation (word, step)."""
        size = posterior.structure.components(posterior.structure.symmetry[0])
        model = self.sized(size)
        return np.array([scored(self.kind, model, posterior, part) for part in self.held_out])


def scored(kind: str, model: Any, posterior: Posterior, data: Any) -> float:
    if kind == "topics":
        observed, held = db.checking.hold_out(csr_array(data), share=0.3, rng=np.random.default_rng(7))
        return float(model.score(posterior, observed, held))
    return float(model.score(posterior, data))


def settings(first: int, count: int, kinds: tuple[str, ...] = KINDS) -> Iterator[tuple[int, Setting]]:
    """One setting for each seed, the kinds in turn."""
    for seed in range(first, first + count):
        yield seed, drawn(kinds[seed % len(kinds)], np.random.default_rng([1851, seed]))


def drawn(kind: str, rng: np.random.Generator) -> Setting:
    true, sites = int(rng.integers(2, 8)), int(rng.choice([2, 4, 8, 12]))
    rows, share = int(rng.choice([8, 15, 30, 60, 150])), str(rng.choice([*SEEN]))
    weights = rng.dirichlet(np.full(true, float(rng.choice([2.0, 50.0]))))
    width = max(1, int(np.ceil(SEEN[share] * true)))
    seen = tuple(tuple(sorted(rng.permutation(true)[:width].tolist())) for _ in range(sites))
    fitted = int(rng.choice([width, true, true + 2]))
    draw, sized, name = WORLDS[kind](rng, true)

    def labels(components: tuple[int, ...], size: int) -> np.ndarray:
        chosen = weights[list(components)]
        return rng.choice(components, size=size, p=chosen / chosen.sum())

    shards = tuple(draw(labels(components, rows)) for components in seen)
    held_out = tuple(draw(labels(components, max(HELD_OUT // sites, 50))) for components in seen)
    text = f"{name}, {true} true, {fitted} fitted, {sites} sites of {rows}, see {share}"
    return Setting(kind, text, true, fitted, seen, shards, held_out, sized)


def mixture(rng: np.random.Generator, true: int) -> tuple[Draw, Callable[[int], Any], str]:
    """Gaussian clusters, some of them unlike the model: heavy tails or correlated dimensions."""
    variance, dimension = str(rng.choice(["known", "diagonal", "full"])), int(rng.choice([1, 2, 4]))
    apart, shape = float(rng.choice([2.0, 3.0, 4.0, 6.0])), str(rng.choice(["normal", "normal", "heavy", "stretched"]))
    reach = apart * true ** (1 / dimension)
    places = np.array([rng.uniform(-reach, reach, size=dimension) for _ in range(true)])
    stretch = np.array([np.eye(dimension) + (shape == "stretched") * rng.normal(size=(dimension,) * 2) for _ in places])

    def draw(labels: np.ndarray) -> np.ndarray:
        noise = rng.normal(size=(len(labels), dimension))
        if shape == "heavy":
            noise = rng.standard_t(3, size=noise.shape) / np.sqrt(3.0)
        return places[labels] + np.einsum("nij,nj->ni", stretch[labels], noise)

    def sized(components: int) -> Any:
        if variance == "known":
            return db.GaussianMixture(components, dimension, variance=1.0, prior_variance=reach**2)
        return db.GaussianMixture(components, dimension, covariance=variance)

    return draw, sized, f"{variance} {shape} {dimension}d, {apart:g} apart"


def classes(rng: np.random.Generator, true: int) -> tuple[Draw, Callable[[int], Any], str]:
    columns = int(rng.choice([6, 15, 40]))
    chances = np.clip(rng.beta(0.6, 0.6, size=(true, columns)), 0.03, 0.97)

    def draw(labels: np.ndarray) -> np.ndarray:
        return (rng.random((len(labels), columns)) < chances[labels]).astype(float)

    return draw, lambda components: db.BernoulliMixture(components, columns), f"{columns} columns"


def topics(rng: np.random.Generator, true: int) -> tuple[Draw, Callable[[int], Any], str]:
    words = rng.dirichlet(np.full(WORDS, float(rng.choice([0.05, 0.2]))), size=true)
    vocabulary = tuple(f"w{word}" for word in range(WORDS))

    def draw(labels: np.ndarray) -> np.ndarray:
        """Each document is mostly about one topic."""
        mixes = 0.8 * np.eye(true)[labels] + 0.2 * words.shape[0] ** -1.0
        return np.array([rng.multinomial(LENGTH, mix @ words) for mix in mixes])

    return draw, lambda components: db.LatentDirichletAllocation(components, vocabulary), "topics"


def states(rng: np.random.Generator, true: int) -> tuple[Draw, Callable[[int], Any], str]:
    """Sequences of ten steps; a label is the state of the first, and three steps of four stay in their state."""
    apart = float(rng.choice([2.0, 4.0]))
    places = apart * rng.permutation(true)

    def draw(labels: np.ndarray) -> list[np.ndarray]:
        starts = labels[: max(len(labels) // 10, 2)]
        moves = np.where(rng.random((len(starts), 10)) < 0.75, 0, rng.integers(0, 10, size=(len(starts), 10)))
        among = np.unique(labels)
        return [
            places[np.array([start, *among[np.cumsum(row[1:]) % len(among)]])][:, None] + rng.normal(size=(10, 1))
            for start, row in zip(starts, moves, strict=True)
        ]

    columns = {"level": db.columns.Gaussian(0.5 * apart * (true - 1), 0.5 * apart * true)}
    return draw, lambda components: db.HiddenMarkov(states=components, columns=columns), f"states {apart:g} apart"


WORLDS = {"mixture": mixture, "classes": classes, "topics": topics, "states": states}
