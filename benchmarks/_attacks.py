"""Sites some of which are faulty: what they have seen, what the faulty ones make of it, and how far a merge is off.

Each kind of data has `draw` for what a site has seen and what is what in it, `spoilt` for what a faulty site pretends
to have seen, `distances` of components in posterior deviations, and `scored` for a held-out score.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

import decbayes as db
from decbayes.posterior import Posterior

NUMBER = 5
MANY = 50.0  # of a Dirichlet distribution: sites that have everything alike
HAVE = 3  # of five components, sites that differ
FAR = 15.0  # where colluding sites put a cluster
WORDS, LENGTH = 200, 60
ITEMS = 30


def shares_of(rng: np.random.Generator, unlike: bool) -> np.ndarray:
    shares = rng.dirichlet(np.full(NUMBER, MANY))
    if unlike:
        shares = shares * np.isin(np.arange(NUMBER), rng.choice(NUMBER, HAVE, replace=False))
    return shares / shares.sum()


class Clusters:
    """A Gaussian mixture of five clusters; a shard is points and their labels."""

    attacks = ("units10", "units100", "random", "inflated", "copies", "displaced", "colluding")
    observations, held_out = 150, 2000

    def __init__(self, rng: np.random.Generator) -> None:
        self.model = self.sized(NUMBER)
        self.places = self._apart(rng)
        self.angle = rng.uniform(0, 2 * np.pi)

    def sized(self, components: int) -> Any:
        return db.GaussianMixture(components, 2, variance=1.0, prior_variance=100.0, ascent=db.Ascent(restarts=4))

    def _apart(self, rng: np.random.Generator) -> np.ndarray:
        """Places that are at least six deviations apart."""
        while True:
            places = rng.uniform(-12, 12, size=(NUMBER, 2))
            apart = np.linalg.norm(places[:, None] - places, axis=2) + 100 * np.eye(NUMBER)
            if apart.min() > 6:
                return places

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.choice(NUMBER, size=count, p=shares_of(rng, unlike))
        return self.places[labels] + rng.normal(size=(count, 2)), labels

    def spoilt(self, attack: str, shard: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        points, labels = shard[0].copy(), shard[1]
        most = labels == np.bincount(labels).argmax()
        if attack.startswith("units"):
            return points * float(attack.removeprefix("units"))
        if attack == "random":
            return rng.uniform(-12, 12, size=(NUMBER, 2))[labels] + rng.normal(size=points.shape)
        if attack == "colluding":
            points[most] = FAR + rng.normal(size=(most.sum(), 2))
            return points
        angle = rng.uniform(0, 2 * np.pi)
        points[most] += 4 * np.array([np.cos(angle), np.sin(angle)])
        return points

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        """Of each mean of the reference from each merged one, in the reference's deviations."""
        right, spread = reference.mean("components"), reference.deviation("components")
        found = merged.mean("components")
        return np.linalg.norm((right[:, None] - found) / spread[:, None], axis=2)

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        return float(self.sized(size).score(posterior, held_out))


class Diagonal(Clusters):
    """The same with unknown variances."""

    def sized(self, components: int) -> Any:
        return db.GaussianMixture(components, 2, covariance="diagonal", ascent=db.Ascent(restarts=4))


class Topics:
    """Five topics of 200 words; a shard is counts of words in documents of 60 words, and each document's topics."""

    attacks = ("random", "inflated", "copies", "displaced", "colluding")
    observations, held_out = 40, 300

    def __init__(self, rng: np.random.Generator) -> None:
        self.model = self.sized(NUMBER)
        self.topics = rng.dirichlet(np.full(WORDS, 0.05), size=NUMBER)
        self.lie = rng.dirichlet(np.full(WORDS, 0.05))

    def sized(self, components: int) -> Any:
        return db.LatentDirichletAllocation(components, tuple(f"w{word}" for word in range(WORDS)), topic_prior=0.05)

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
        mixes = rng.dirichlet(0.5 * shares_of(rng, unlike) + 1e-3, size=count)
        return self._counts(mixes, self.topics, rng), mixes

    def _counts(self, mixes: np.ndarray, topics: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.array([rng.multinomial(LENGTH, mix @ topics / (mix @ topics).sum()) for mix in mixes])

    def spoilt(self, attack: str, shard: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        mixes, topics = shard[1], self.topics.copy()
        most = int(mixes.sum(axis=0).argmax())
        if attack == "random":
            topics = rng.dirichlet(np.full(WORDS, 0.05), size=NUMBER)
        elif attack == "colluding":
            topics[most] = self.lie
        else:
            # Half of the topic's probability goes to other words.
            topics[most] = 0.5 * topics[most] + 0.5 * rng.permutation(topics[most])
        return self._counts(mixes, topics, rng)

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        """The root mean square over words with a probability above 0.005."""
        right, spread, found = reference.mean("topics"), reference.deviation("topics"), merged.mean("topics")
        away = ((right[:, None] - found) / spread[:, None]) ** 2
        frequent = (right > 0.005)[:, None]
        return np.sqrt((away * frequent).sum(axis=2) / frequent.sum(axis=2))

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        observed, held = db.checking.hold_out(csr_array(held_out), share=0.3, rng=np.random.default_rng(7))
        return float(self.sized(size).score(posterior, observed, held))


class Classes:
    """Latent classes of thirty yes-or-no columns; a shard is answers and their classes."""

    attacks = ("random", "inflated", "copies", "displaced", "colluding")
    observations, held_out = 150, 2000

    def __init__(self, rng: np.random.Generator) -> None:
        self.model = self.sized(NUMBER)
        self.chances = rng.beta(0.7, 0.7, size=(NUMBER, ITEMS))
        self.lie = rng.beta(0.7, 0.7, size=ITEMS)

    def sized(self, components: int) -> Any:
        return db.BernoulliMixture(components, ITEMS, ascent=db.Ascent(restarts=4))

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.choice(NUMBER, size=count, p=shares_of(rng, unlike))
        return (rng.random((count, ITEMS)) < self.chances[labels]).astype(float), labels

    def spoilt(self, attack: str, shard: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        labels, chances = shard[1], self.chances.copy()
        most = int(np.bincount(labels).argmax())
        if attack == "random":
            chances = rng.beta(0.7, 0.7, size=chances.shape)
        elif attack == "colluding":
            chances[most] = self.lie
        else:
            # A third of the columns are coded the other way round.
            turned = rng.choice(ITEMS, ITEMS // 3, replace=False)
            chances[most, turned] = 1.0 - chances[most, turned]
        return (rng.random(shard[0].shape) < chances[labels]).astype(float)

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        """The root mean square over columns."""
        right, spread, found = (
            reference.mean("components"),
            reference.deviation("components"),
            merged.mean("components"),
        )
        return np.sqrt((((right[:, None] - found) / spread[:, None]) ** 2).mean(axis=2))

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        return float(self.sized(size).score(posterior, held_out))


class Regression:
    """Linear regression on four columns; a shard is rows, and their columns, which spread more or less where unlike."""

    attacks = ("units10", "units100", "random", "inflated", "copies", "displaced", "colluding")
    observations, held_out = 150, 2000

    def __init__(self, rng: np.random.Generator) -> None:
        self.slopes, self.lie = rng.choice([-1.0, 1.0], size=(2, 4)) * rng.uniform(0.5, 1.5, size=(2, 4))
        frame = self._frame(rng.normal(size=(50, 4)), self.slopes, rng)
        self.model = db.LinearRegression.from_frame(frame, "y ~ a + b + c + d")

    def _frame(self, columns: np.ndarray, slopes: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        outcomes = columns @ slopes + rng.normal(size=len(columns))
        return {"y": outcomes, **dict(zip("abcd", columns.T, strict=True))}

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[Any, np.ndarray]:
        columns = rng.normal(size=(count, 4)) * (np.exp(rng.normal(0.0, 0.5, size=4)) if unlike else 1.0)
        return self.model.points(self._frame(columns, self.slopes, rng)), columns

    def spoilt(self, attack: str, shard: tuple[Any, np.ndarray], rng: np.random.Generator) -> Any:
        columns = shard[1]
        slopes = {"random": rng.normal(size=4), "colluding": self.lie}.get(attack, self.slopes).copy()
        slopes[0] += 0.5 * (attack in ("displaced", "inflated"))
        frame = self._frame(columns, slopes, rng)
        if attack.startswith("units"):
            frame["a"] = frame["a"] * float(attack.removeprefix("units"))
        return self.model.points(frame)

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        """Of the worst coefficient."""
        right, spread = reference.mean("coefficients"), reference.deviation("coefficients")
        return np.abs((merged.mean("coefficients") - right) / spread).max(axis=1, keepdims=True)

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        return float(self.model.score(posterior, held_out))


KINDS = {"known": Clusters, "diagonal": Diagonal, "classes": Classes, "topics": Topics, "regression": Regression}


def attacked(
    data: Any, attack: str, shards: list[Any], posteriors: list[Posterior], faulty: int, rng: np.random.Generator
) -> list[Posterior]:
    """The posteriors with those of the first sites as the attack has them."""
    held = list(posteriors)
    for site in range(faulty):
        if attack == "copies" and site:
            # Of a lie, hidden by another amount of evidence.
            held[site] = scaled(held[0], 1.0 + 0.01 * site)
        else:
            how = "colluding" if attack == "copies" else attack
            lie = data.model.fit(data.spoilt(how, shards[site], rng), rng=rng).posterior
            held[site] = scaled(lie, 5.0 if attack == "inflated" else 1.0)
    return held


def deviation(data: Any, merged: Posterior, honest: Posterior) -> float:
    """How far the worst component of the merge of honest sites is from the nearest one of this merge."""
    return float(data.distances(honest, merged).min(axis=1).max())


def scaled(posterior: Posterior, factor: float) -> Posterior:
    return Posterior(posterior.structure, {name: factor * part for name, part in posterior.contribution.items()})
