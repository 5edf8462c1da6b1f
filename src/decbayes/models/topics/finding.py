"""Topics found by words, by another topic, or by an example document."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.models.core.model import Row
from decbayes.models.core.registry import model_for
from decbayes.models.topics.quality import FACTOR, Quality
from decbayes.posterior import Posterior

MOST = 5


def find(
    posterior: Posterior,
    words: Sequence[str] = (),
    *,
    like: int | None = None,
    document: str | None = None,
    most: int = MOST,
) -> list[Row]:
    """Find topics by words, by similarity to another topic, or by an example document; the best first.

    Args:
        posterior: of topics.
        words: `score` is the share of all their occurrences that belongs to the topic, on average over the words.
        like: the number of a topic; `score` is Σ_w √(p_w q_w), 1 for the same topic.
        document: a text; `score` is the share of it that the topic accounts for.
        most: how many topics to return.

    >>> vocabulary = ["ball", "goal", "team", "vote", "party", "law"]
    >>> counts = np.array([[5, 4, 3, 0, 0, 0], [0, 0, 0, 4, 5, 3]] * 5)
    >>> posterior = db.LatentDirichletAllocation(2, vocabulary).fit(counts, rng=0).posterior
    >>> best, _ = db.texts.find(posterior, ["vote", "law"])
    >>> best["name"], best["score"] > 0.95
    ('party, vote, law', True)
    """
    asked = [bool(words), like is not None, document is not None]
    if sum(asked) != 1:
        raise InvalidData("Give words, a topic to compare with, or a document: exactly one of the three.")
    quality = Quality(posterior)
    if words:
        scores = by_words(quality, words)
    elif like is not None:
        if not 0 <= like < len(quality.shares):
            raise InvalidData(f"There is no topic {like}; they are numbered from 0 to {len(quality.shares) - 1}.")
        scores = np.where(np.arange(len(quality.shares)) == like, -1.0, quality.affinity[like])
    else:
        scores = by_document(posterior, str(document))
    order = [
        int(topic) for topic in np.argsort(-scores, kind="stable") if scores[topic] >= 0.0 and topic in quality.used
    ]
    return [
        {"topic": topic, "name": quality.names[topic], "score": float(scores[topic]), "words": quality.words[topic]}
        for topic in order[:most]
    ]


def by_words(quality: Quality, words: Sequence[str]) -> Array:
    """Mean over the words of p(k | w)."""
    places = {word: place for place, word in enumerate(quality.posterior.structure.labels[FACTOR])}
    known = [places[word] for word in words if word in places]
    if not known:
        none = "None of these words is" if len(words) > 1 else "This word is not"
        raise InvalidData(f"{none} in the vocabulary. `decbayes show --top 50` lists the first words of each topic.")
    joint = quality.shares[:, known] * quality.learned[:, None]
    return np.asarray((joint / np.maximum(joint.sum(axis=0), 1e-300)).mean(axis=1))


def by_document(posterior: Posterior, text: str) -> Array:
    """The document's shares of topics."""
    model: Any = model_for(posterior.structure)
    counts = model.counted([text])
    if not counts.sum():
        raise InvalidData("The document has no word of the vocabulary.")
    return np.asarray(model.assign(posterior, counts)[0])
