"""Eight sites with handwritten digits: the data of each, and the score of a posterior."""

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from decbayes.families import Array
from decbayes.merging import align, product
from decbayes.models.likelihoods.likelihood import squared_distances
from decbayes.models.mixtures.gaussian_mixture import GaussianMixture
from decbayes.posterior import Posterior

SITES = tuple(f"site-{number}" for number in range(1, 9))
IMAGES_A_SITE = 100
# Pixels are 0 to 16; ten clusters of images have a common, known variance.
SETTINGS = {"components": 10, "dimension": 64, "variance": 10.0, "prior_mean": 5.0, "prior_variance": 30.0}


@dataclass(frozen=True)
class Digits:
    """scikit-learn's bundled digits: a hundred images per site, all others held out."""

    shards: dict[str, Array]
    held_out: Array
    labels: Array
    model: GaussianMixture

    @classmethod
    def load(cls, seed: int) -> "Digits":
        from sklearn.datasets import load_digits

        bundle = load_digits()
        order = np.random.default_rng(seed).permutation(len(bundle.data))
        images, count = bundle.data[order], len(SITES) * IMAGES_A_SITE
        shards = dict(zip(SITES, np.array_split(images[:count], len(SITES)), strict=True))
        settings: dict[str, Any] = SETTINGS
        return cls(shards, images[count:], bundle.target[order], GaussianMixture(**settings))

    @cached_property
    def batch(self) -> Posterior:
        """The posterior of all images in one place, which no site could compute."""
        everything = np.concatenate(list(self.shards.values()))
        return self.model.fit(everything, rng=np.random.default_rng(0)).posterior

    @cached_property
    def batch_score(self) -> float:
        return self.score(self.batch)

    def score(self, posterior: Posterior) -> float:
        """The mean log density of held-out images."""
        return float(self.model.log_predictive(posterior, self.held_out).mean())

    def clusters(self, posterior: Posterior) -> Array:
        """The mean images, each in the column of the batch cluster that it resembles."""
        means, wanted = np.asarray(posterior.mean("components")), self._in_order
        _, columns = linear_sum_assignment(squared_distances(wanted, means))
        return np.asarray(means[columns])

    @cached_property
    def _in_order(self) -> Array:
        """The batch clusters, ordered by the digit that most of their images show."""
        responsibilities = self.model.assign(self.batch, self.held_out)
        shown = np.eye(10)[self.labels[-len(self.held_out) :]]
        return np.asarray(self.batch.mean("components"))[np.argsort(np.argmax(responsibilities.T @ shown, axis=1))]


@dataclass(frozen=True)
class Point:
    """One agent's score at one time."""

    seconds: float
    site: str
    score: float


@dataclass(frozen=True)
class Happening:
    """An event; one with a `mark` is shown in the picture."""

    seconds: float
    text: str
    mark: str = ""


@dataclass
class Story:
    """What has happened so far: scores over time, events, and the first posterior of each site."""

    digits: Digits
    started: float = field(default_factory=time.monotonic)
    points: list[Point] = field(default_factory=list)
    events: list[Happening] = field(default_factory=list)
    alone: dict[str, Posterior] = field(default_factory=dict)
    agreed: Posterior | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def add_event(self, text: str, *, mark: str = "") -> None:
        self.events.append(Happening(self.seconds, text, mark))

    def add_score(self, site: str, posterior: Posterior) -> float:
        score = self.digits.score(posterior)
        self.points.append(Point(self.seconds, site, score))
        return score

    def results(self) -> dict[str, Posterior]:
        """The posteriors to compare: merges of what the sites exchanged, and the batch posterior."""
        first = [self.alone[site] for site in sorted(self.alone)]
        refined = {} if self.agreed is None else {"AMPS, refined": self.agreed}
        return {
            "best site alone": max(first, key=self.digits.score),
            "naive merge": product(first),
            "AMPS": align(first, components="largest").merged(),
            **refined,
            "all data in one place": self.digits.batch,
        }
