"""Sites of which some are faulty: what they have seen, what the faulty ones make of it, and how far a merge is off.

Each kind of data has `draw` for what a site has seen and what is what in it, `spoilt` for what a faulty site pretends
to have seen, `deviation` of a merge from one posterior of all honest data, and `scored` for its held-out score.
"""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

import decbayes as db
from decbayes.posterior import Posterior

FEW, MANY = 0.3, 50.0  # of a Dirichlet distribution: sites that have mostly one or two things, or all alike


class Clusters:
    """A Gaussian mixture of five clusters; a shard is points and their labels."""

    number, observations = 5, 150
    model = db.GaussianMixture(5, 2, variance=1.0, prior_variance=100.0, ascent=db.Ascent(restarts=4))

    def __init__(self, rng: np.random.Generator) -> None:
        self.places = self._apart(rng)

    def _apart(self, rng: np.random.Generator) -> np.ndarray:
        """Places that are at least six deviations apart."""
        while True:
            places = rng.uniform(-12, 12, size=(self.number, 2))
            apart = np.linalg.norm(places[:, None] - places, axis=2) + 100 * np.eye(self.number)
            if apart.min() > 6:
                return places

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
        shares = rng.dirichlet(np.full(self.number, FEW if unlike else MANY))
        labels = rng.choice(self.number, size=count, p=shares)
        return self.places[labels] + rng.normal(size=(count, 2)), labels

    def pooled(self, shards: list[Any]) -> np.ndarray:
        return np.concatenate([points for points, _ in shards])

    def spoilt(self, attack: str, shard: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        points, labels = shard[0].copy(), shard[1]
        most = labels == np.bincount(labels).argmax()
        if attack == "random":
            elsewhere = rng.uniform(-12, 12, size=(self.number, 2))
            return elsewhere[labels] + rng.normal(size=points.shape)
        if attack == "colluding":
            points[most] = np.array([15.0, 15.0]) + rng.normal(size=(most.sum(), 2))
            return points
        angle = rng.uniform(0, 2 * np.pi)
        points[most] += 4 * np.array([np.cos(angle), np.sin(angle)])
        return points

    def deviation(self, merged: Posterior, batch: Posterior) -> float:
        """The farthest that a mean of the batch posterior is from the nearest merged one, in its own deviations."""
        natural, reference = merged.natural["components"], batch.natural["components"]
        means, right = (-0.5 * each[:, :2] / each[:, 2:] for each in (natural, reference))
        nearest = np.linalg.norm(right[:, None] - means, axis=2).min(axis=1)
        return float((nearest * np.sqrt(-2 * reference[:, 2])).max())

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        return float(self.model.score(posterior, held_out))


class Topics:
    """Five topics of 200 words; a shard is counts of words in documents of 60 words, and each document's main topic."""

    number, observations, words, length = 5, 40, 200, 60
    model = db.LatentDirichletAllocation(5, tuple(f"w{word}" for word in range(200)), topic_prior=0.05)

    def __init__(self, rng: np.random.Generator) -> None:
        self.topics = rng.dirichlet(np.full(self.words, 0.05), size=self.number)
        self.lie = rng.dirichlet(np.full(self.words, 0.05))

    def draw(self, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
        shares = rng.dirichlet(np.full(self.number, FEW if unlike else MANY))
        mixes = rng.dirichlet(0.5 * shares + 1e-3, size=count)
        return self._counts(mixes, self.topics, rng), mixes

    def _counts(self, mixes: np.ndarray, topics: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.array([rng.multinomial(self.length, mix @ topics / (mix @ topics).sum()) for mix in mixes])

    def pooled(self, shards: list[Any]) -> np.ndarray:
        return np.concatenate([counts for counts, _ in shards])

    def spoilt(self, attack: str, shard: tuple[np.ndarray, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        mixes, topics = shard[1], self.topics.copy()
        most = int(mixes.sum(axis=0).argmax())
        if attack == "random":
            topics = rng.dirichlet(np.full(self.words, 0.05), size=self.number)
        elif attack == "colluding":
            topics[most] = self.lie
        else:
            # Half of the topic's probability goes to other words.
            topics[most] = 0.5 * topics[most] + 0.5 * rng.permutation(topics[most])
        return self._counts(mixes, topics, rng)

    def deviation(self, merged: Posterior, batch: Posterior) -> float:
        """How far the worst topic is from the nearest merged one, in deviations of the batch posterior.

        The root mean square over words with a probability above 0.005.
        """
        alpha = batch.parameters("topics")["alpha"]
        total = alpha.sum(axis=1, keepdims=True)
        right, found = alpha / total, merged.mean("topics")
        spread = np.sqrt(right * (1 - right) / (total + 1))
        away = ((right[:, None] - found) / spread[:, None]) ** 2
        frequent = (right > 0.005)[:, None]
        return float(np.sqrt((away * frequent).sum(axis=2) / frequent.sum(axis=2)).min(axis=1).max())

    def scored(self, posterior: Posterior, held_out: np.ndarray) -> float:
        observed, held = db.checking.hold_out(csr_array(held_out), share=0.3, rng=np.random.default_rng(7))
        return float(self.model.score(posterior, observed, held))


KINDS = {"mixture": Clusters, "topics": Topics}


def attacked(
    data: Any, attack: str, shards: list[Any], posteriors: list[Posterior], faulty: int, rng: np.random.Generator
) -> list[Posterior]:
    """The posteriors with those of the first sites as the attack has them."""
    held = list(posteriors)
    for site in range(faulty):
        if attack == "copies":
            held[site] = posteriors[-1]
        else:
            lie = data.model.fit(data.spoilt(attack, shards[site], rng), rng=rng).posterior
            held[site] = scaled(lie, 1e6 if attack == "inflated" else 1.0)
    return held


def scaled(posterior: Posterior, factor: float) -> Posterior:
    return Posterior(posterior.structure, {name: factor * part for name, part in posterior.contribution.items()})
