"""What the alignment benchmarks align: posteriors fitted to 20 Newsgroups, and synthetic ones of any size."""

from pathlib import Path

import numpy as np
from _data import data_file
from scipy.sparse import csr_array

import decbayes as db

TOPICS, DOCUMENT_PRIOR = 20, 0.1


def news():
    """(counts, vocabulary, labels, held-out documents) of 20 Newsgroups."""
    with np.load(data_file("20news", "20news_bow.npz"), allow_pickle=False) as file:
        parts = (file["data"].astype(np.int32), file["indices"], file["indptr"])
        counts = csr_array(parts, shape=file["shape"])
        return counts, tuple(map(str, file["vocab"])), file["label"], file["heldout"]


def news_model():
    _, vocabulary, _, _ = news()
    ascent = db.Ascent(passes=25, tolerance=1e-3, warm_up=10)
    prior = 10 / len(vocabulary)
    return db.LatentDirichletAllocation(
        TOPICS, vocabulary, document_prior=DOCUMENT_PRIOR, topic_prior=prior, ascent=ascent
    )


def news_posteriors(agents, split="random", cache=None):
    """One posterior an agent, fitted to its share of the training documents; kept in `cache` if given.

    `split` is "random", or "group": documents sorted by newsgroup, so that agents see different topics.
    """
    model, (counts, _, labels, held_out) = news_model(), news()
    rows = np.random.default_rng(agents).permutation(np.flatnonzero(~held_out))
    if split == "group":
        rows = rows[np.argsort(labels[rows], kind="stable")]
    return [
        cached(
            cache and Path(cache) / f"{split}-{agents}" / f"{agent:05d}.posterior",
            lambda agent=agent, shard=shard: (
                model.fit(counts[shard], rng=np.random.default_rng([agents, agent])).posterior
            ),
        )
        for agent, shard in enumerate(np.array_split(rows, agents))
    ]


def cached(path, compute):
    if path and path.exists():
        return db.load(path)
    posterior = compute()
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        db.save(posterior, path)
    return posterior


def synthetic_topics(agents, *, topics=20, words=10_000, tokens=2_000, seed=0):
    """Sparse topic posteriors: each agent has counts of `tokens` words from shared topics, in an order of its own.

    With 2,000 tokens about 1 % of the entries is not zero, as with a thousand agents on 20 Newsgroups.
    """
    rng = np.random.default_rng(seed)
    structure = topic_structure(topics, words)
    popularity = rng.dirichlet(1.0 / np.arange(1, words + 1) ** 0.9 * 100)
    truth = rng.dirichlet(0.02 * words * popularity + 1e-6, size=topics)
    return [topic_posterior(structure, truth, tokens, rng) for _ in range(agents)]


def topic_structure(topics, words):
    family = db.families.Dirichlet()
    return db.extending.Structure(
        {"topics": family},
        {"topics": family.natural(alpha=np.full((topics, words), 10 / words))},
        (db.extending.CoupledSet(("topics",)),),
        sparse=frozenset({"topics"}),
    )


def topic_posterior(structure, truth, tokens, rng):
    topics, words = truth.shape
    sizes = rng.multinomial(tokens, rng.dirichlet(np.full(topics, 0.5)))
    order = rng.permutation(topics)
    rows = [rng.choice(words, size=sizes[topic], p=truth[topic]) for topic in order]
    indices = np.concatenate(rows)
    row_numbers = np.repeat(np.arange(topics), sizes[order])
    counts = csr_array((np.ones(len(indices)), (row_numbers, indices)), shape=truth.shape)
    return db.Posterior(structure, {"topics": counts})


def synthetic_mixtures(agents, *, components, dimension=10, seed=0):
    """Posteriors of mixtures as in section 3.1: noisy means and weights, in an order of each agent's own."""
    rng = np.random.default_rng(seed)
    model = db.GaussianMixture(components=components, dimension=dimension, variance=0.1, prior_variance=10.0)
    centres = rng.normal(0.0, 3.0, size=(components, dimension))
    return [mixture_posterior(model.structure, centres, rng) for _ in range(agents)]


def mixture_posterior(structure, centres, rng):
    counts = rng.poisson(10.0, size=len(centres))
    points = counts[:, None] * centres + np.sqrt(0.1 * counts)[:, None] * rng.normal(size=centres.shape)
    order = rng.permutation(len(centres))
    statistics = np.column_stack([points / 0.1, -0.5 * counts / 0.1])[order]
    return db.Posterior(structure, {"components": statistics, "weights": counts[order, None].astype(float)})


def synthetic_features(agents, *, components, dimension=36, seed=0):
    """Posteriors of latent features as in section 3.3: noisy features and inclusion counts, in any order."""
    rng = np.random.default_rng(seed)
    model = db.LatentFeatures(components, dimension=dimension, variance=0.5)
    features = rng.normal(0.0, 1.0, size=(components, dimension))
    return [feature_posterior(model.structure, features, rng) for _ in range(agents)]


def feature_posterior(structure, features, rng):
    used = rng.binomial(50, 0.3, size=len(features)).astype(float)
    values = features + rng.normal(0.0, 0.5, size=features.shape)
    order = rng.permutation(len(features))
    statistics = np.column_stack([used[:, None] * values / 0.5, -0.5 * used / 0.5])[order]
    inclusion = np.column_stack([used, 50 - used])[order]
    return db.Posterior(structure, {"features": statistics, "inclusion": inclusion})
