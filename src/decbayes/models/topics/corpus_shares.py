"""The share of each topic in a corpus, with intervals that account for the dependence of words within a document."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from decbayes.base.arguments import check_level
from decbayes.families import Array
from decbayes.models.topics.lda import LatentDirichletAllocation
from decbayes.posterior import Interval, Posterior


@dataclass(frozen=True, eq=False)
class TopicShares:
    """Sums over a site's documents d with n_d words, n_dk of them of topic k: three numbers per topic, and two more.

    They add up across sites. The topics of words within a document are dependent, so the unit is the document:

        s_k = Σ_d n_dk / Σ_d n_d,    Var[s_k] = Σ_d (n_dk − s_k n_d)² / (Σ_d n_d)²
    """

    words: Array
    squares: Array
    products: Array
    total: float
    total_squares: float

    @classmethod
    def of(cls, model: LatentDirichletAllocation, data: Any, posterior: Posterior) -> "TopicShares":
        """The sums of one site's documents."""
        lengths = model.units(data)
        words = lengths[:, None] * model.assign(posterior, data)
        squares, products = np.sum(words**2, axis=0), np.sum(words * lengths[:, None], axis=0)
        return cls(words.sum(axis=0), squares, products, float(lengths.sum()), float(np.sum(lengths**2)))

    def __add__(self, other: "TopicShares") -> "TopicShares":
        return TopicShares(
            self.words + other.words,
            self.squares + other.squares,
            self.products + other.products,
            self.total + other.total,
            self.total_squares + other.total_squares,
        )

    @property
    def mean(self) -> Array:
        return self.words / self.total

    @property
    def deviation(self) -> Array:
        share = self.mean
        apart = self.squares - 2.0 * share * self.products + share**2 * self.total_squares
        return np.sqrt(np.maximum(apart, 0.0)) / self.total

    def interval(self, level: float = 0.9) -> Interval:
        """Bounds that contain each topic's share with this probability."""
        check_level(level)
        reach = ndtri(0.5 + 0.5 * level) * self.deviation
        return Interval(np.maximum(self.mean - reach, 0.0), np.minimum(self.mean + reach, 1.0))


def topic_shares(model: LatentDirichletAllocation, shards: Iterable[Any], merged: Posterior) -> TopicShares:
    """The shares of the topics in the documents of all sites together."""
    first, *rest = [TopicShares.of(model, shard, merged) for shard in shards]
    for other in rest:
        first = first + other
    return first
