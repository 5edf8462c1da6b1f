"""Topics of 20 Newsgroups at sites some of which have mixed up their vocabulary, for the benchmark of robust merges."""

from dataclasses import replace
from typing import Any

import numpy as np
from _workloads import news, news_model
from scipy.sparse import csr_array

import decbayes as db
from decbayes.posterior import Posterior

SITES = 10
UNEQUAL, POSTS, SHORT = (3000, 1500, 800, 400, 200, 100), 300, 12


class News:
    """20 topics of 20 Newsgroups."""

    attacks = ("random",)

    def __init__(self) -> None:
        counts, self.vocabulary, self.labels, held_out = news()
        self.counts, self.model = counts.astype(float), news_model()
        self.training = np.random.default_rng(0).permutation(np.flatnonzero(~held_out))
        some = self.counts[np.flatnonzero(held_out)[:POSTS]]
        self.observed, self.held = db.checking.hold_out(some, share=0.1, rng=np.random.default_rng(7))

    def shards(self, unlike: bool, short: bool, rng: np.random.Generator) -> list[Any]:
        if short:
            parts = [self.counts[part] for part in np.split(self.training[: SITES * 600], SITES)]
            return [shortened(part, rng) for part in parts]
        if not unlike:
            return [self.counts[part] for part in np.split(self.training, np.cumsum(UNEQUAL))[: len(UNEQUAL)]]
        having = [np.isin(self.labels[self.training], rng.choice(20, 8, replace=False)) for _ in range(SITES)]
        return [self.counts[self.training[own][:600]] for own in having]

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        right, spread, found = reference.mean("topics"), reference.deviation("topics"), merged.mean("topics")
        away = np.empty((len(right), len(found)))
        for topic, often in enumerate(right > 0.005):
            away[topic] = np.sqrt((((right[topic] - found) / spread[topic])[:, often] ** 2).mean(axis=1))
        return away

    def scored(self, posterior: Posterior, _: Any) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        return float(replace(self.model, topics=size).score(posterior, self.observed, self.held))


def shortened(counts: Any, rng: np.random.Generator) -> Any:
    """Twelve words of each post, or all where there are fewer."""
    rows = counts.toarray().astype(int)
    return csr_array(
        np.array([rng.multivariate_hypergeometric(row, min(SHORT, row.sum()), method="count") for row in rows])
    ).astype(float)
