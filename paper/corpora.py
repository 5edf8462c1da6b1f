"""What the LDA experiments share: the corpus cut into training and test documents, the model, and its starts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from decbayes.models.core.evaluation import hold_out
from decbayes.models.topics.lda import LatentDirichletAllocation
from decbayes.posterior import Posterior
from paper.datasets import Corpus, newsgroups

Split = Literal["random", "by-group"]
Documents = NDArray[np.int64]

SCORE = "log-likelihood per held-out word"

# So many documents a topic make a start that gets stuck: sums of many documents are all alike.
WEAK = 50


@dataclass(frozen=True)
class Bench:
    """Training documents, and test documents of which a tenth of the words is to be predicted from the rest.

    The test documents depend on the seed alone, so that the spread over trials is the algorithms' own.
    """

    model: LatentDirichletAllocation
    counts: csr_array
    groups: NDArray[np.int64]
    observed: csr_array
    held: csr_array

    def score(self, posterior: Posterior) -> float:
        model = replace(self.model, topics=len(posterior.structure.prior["topics"]))
        return model.score(posterior, self.observed, self.held)

    def shards(self, agents: int, split: Split, rng: np.random.Generator) -> list[csr_array]:
        parts = split_by_group(self.groups, agents, rng) if split == "by-group" else split_at_random(self, agents, rng)
        return [self.counts[part] for part in parts]


def bench(corpus: Corpus | None, folder: Path | None, *, topics: int, held_out: int, seed: int) -> Bench:
    """20 Newsgroups, or another corpus, with the paper's priors: α = 0.1 a document's topics, 10 / W a topic's words.

    The paper does not state the document prior; 0.1 is small enough for a post to have a few topics.
    """
    chosen = corpus or newsgroups(folder)
    rng = np.random.default_rng([seed, 2014])
    order = rng.permutation(chosen.counts.shape[0])
    observed, held = hold_out(chosen.counts[order[:held_out]], share=0.1, rng=rng)
    training = np.sort(order[held_out:])
    words = len(chosen.vocabulary)
    model = LatentDirichletAllocation(
        topics=topics, vocabulary=chosen.vocabulary, document_prior=0.1, topic_prior=10 / words
    )
    return Bench(model, chosen.counts[training], chosen.groups[training], observed, held)


def split_at_random(workbench: Bench, agents: int, rng: np.random.Generator) -> list[Documents]:
    return np.array_split(rng.permutation(workbench.counts.shape[0]), agents)


def split_by_group(groups: NDArray[np.int64], agents: int, rng: np.random.Generator) -> list[Documents]:
    """Each agent gets whole groups, or, when there are more agents than groups, a part of one."""
    kinds = rng.permutation(np.unique(groups))
    holders: list[list[Documents]] = [[] for _ in range(agents)]
    for number, kind in enumerate(kinds):
        sharing = range(number % agents, agents, len(kinds)) if agents > len(kinds) else [number % agents]
        documents = rng.permutation(np.flatnonzero(groups == kind))
        for agent, part in zip(sharing, np.array_split(documents, len(sharing)), strict=True):
            holders[agent].append(part)
    return [np.concatenate(parts) for parts in holders]


def weak_start(model: LatentDirichletAllocation, counts: csr_array, rng: np.random.Generator) -> Posterior:
    """Every topic the sum of 50 randomly selected documents: one reading of the paper's "smoothed statistics"."""
    documents = counts.shape[0]
    chosen = rng.integers(documents, size=(int(model.topics), min(WEAK, documents)))
    rows = [csr_array(counts[part].sum(axis=0).reshape(1, -1)) for part in chosen]
    return Posterior(model.structure, {"topics": vertical(rows)})


def vertical(rows: Sequence[csr_array]) -> csr_array:
    from scipy.sparse import vstack

    return csr_array(vstack(rows), dtype=np.float64)


def refining(model: LatentDirichletAllocation) -> LatentDirichletAllocation:
    """Three passes per round: the next round goes on from there, with the others' news."""
    return replace(model, ascent=replace(model.ascent, passes=3))
