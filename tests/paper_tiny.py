"""Every experiment at a size that takes a second, and tables that someone else could have measured."""

import numpy as np
from scipy.sparse import csr_array

from paper.datasets import Corpus
from paper.features_faces import FeaturesFaces
from paper.features_synthetic import FeaturesSynthetic
from paper.gaussian import Gaussian
from paper.lda import Lda
from paper.mixture_agents import MixtureAgents
from paper.mixture_amps import MixtureAmps
from paper.mixture_naive import MixtureNaive
from paper.mixture_restarts import MixtureRestarts
from paper.mixture_symmetrized import MixtureSymmetrized
from paper.mixture_true import MixtureTrue
from paper.sda import Sda
from paper.table import Row, Table


def corpus(documents=160, words=40, topics=4):
    """Documents of one or two topics, each topic with words of its own; groups are the first topics."""
    rng = np.random.default_rng(5)
    frequencies = np.full((topics, words), 0.1)
    for topic in range(topics):
        frequencies[topic, topic * words // topics : (topic + 1) * words // topics] = 5.0
    frequencies /= frequencies.sum(axis=1, keepdims=True)
    groups = rng.integers(topics, size=documents)
    counts = np.array([rng.multinomial(30, 0.8 * frequencies[g] + 0.2 * frequencies[(g + 1) % topics]) for g in groups])
    vocabulary = tuple(f"word{number}" for number in range(words))
    return Corpus(csr_array(counts), vocabulary, groups, tuple("abcd"[:topics]))


def images(count=40, side=6):
    rng = np.random.default_rng(7)
    features = rng.uniform(size=(3, side * side))
    return (rng.uniform(size=(count, 3)) < 0.5) @ features + rng.normal(scale=0.05, size=(count, side * side))


def experiments():
    return [
        Gaussian(trials=2),
        MixtureTrue(trials=1, draws=60),
        MixtureNaive(trials=1, draws=30),
        MixtureRestarts(trials=1, draws=30, restarts=2),
        MixtureSymmetrized(trials=1, draws=30, restarts=2),
        MixtureAgents(trials=1, draws=30),
        MixtureAmps(trials=1, draws=30),
        Lda(trials=1, agents=(2, 3), topics=4, held_out=20, corpus=corpus()),
        Lda(trials=1, agents=(2,), split="by-group", topics=4, held_out=20, corpus=corpus()),
        Sda(trials=1, shapes=((1, 2), (2, 1), (2, 2)), topics=4, held_out=20, corpus=corpus()),
        FeaturesSynthetic(trials=1, learners=2, observations=60, held_out=10),
        FeaturesFaces(trials=1, learners=2, features=3, held_out=5, images=images()),
    ]


def row(method, measure, value, *, setting="", member=0, trial=0, seconds=1.0):
    return Row("task", 0, trial, setting, method, member, measure, value, seconds, "versions")


def table(*rows):
    return Table(tuple(rows))
