"""Scores of topics that are comparable between vocabularies."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

from decbayes.families import Array


class WordScorer:
    """Log-likelihood per word of texts, including words that a model does not know: a scorer for searches.

    The `score` of topics is per known word, and is best if hardly any word is known. Here a word outside the
    vocabulary has its frequency in `texts`, and known words share the rest of the probability,

        p(w) = (1 − u) p(w | topics) if w is known,  f(w) otherwise,      u = Σ f(w) over all unknown words

    so that all vocabularies are scored on the same words. `texts` are those of the search, or similar ones.
    `vectorizer` splits texts into words, as that of the pipeline; all words of `texts` count, whatever its limits.

    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> texts = ["apple pear plum apple", "hammer saw drill saw"] * 20
    >>> topics = [db.sklearn.LatentDirichletAllocation(2, random_state=0) for _ in range(2)]
    >>> few = make_pipeline(CountVectorizer(max_features=1), topics[0]).fit(texts)
    >>> many = make_pipeline(CountVectorizer(), topics[1]).fit(texts)
    >>> scorer = db.sklearn.WordScorer(texts)
    >>> few.score(texts) > many.score(texts), scorer(few, texts) < scorer(many, texts)
    (True, True)
    """

    def __init__(self, texts: Iterable[str], vectorizer: CountVectorizer | None = None) -> None:
        settings: dict[str, Any] = {} if vectorizer is None else vectorizer.get_params()
        unlimited = {"min_df": 1, "max_df": 1.0, "max_features": None, "vocabulary": None, "dtype": np.int64}
        self._words = CountVectorizer(**(settings | unlimited))
        counts = csr_array(self._words.fit_transform(list(texts)))
        times = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel()
        self._frequency: Array = times / times.sum()

    def __call__(self, pipeline: Any, texts: Any, y: Any = None) -> float:
        """The score of a fitted pipeline (a vectorizer, then topics) on texts; words outside the first texts are left
        out.
        """
        texts = list(texts)
        pipeline_counts = csr_array(pipeline[:-1].transform(texts))
        known = np.array([self._words.vocabulary_.get(word, -1) for word in pipeline[:-1].get_feature_names_out()])
        counts = csr_array(self._words.transform(texts))
        times = np.asarray(counts.sum(axis=0), dtype=np.float64).ravel()
        pipeline_times = np.asarray(pipeline_counts.sum(axis=0), dtype=np.float64).ravel()
        if (known < 0).any() or not np.array_equal(times[known], pipeline_times):
            raise ValueError(
                "The pipeline splits texts into other words than the scorer. Give the scorer the pipeline's "
                "vectorizer, and texts that contain all its words."
            )
        unknown = np.ones(len(times), dtype=np.bool_)
        unknown[known] = False
        rest = self._frequency[unknown]
        by_frequency = float(times[unknown] @ np.log(np.where(rest > 0, rest, 1.0)))
        topic_score = pipeline[-1].score(pipeline_counts) + np.log1p(-min(rest.sum(), 1.0 - 1e-12))
        by_topics = pipeline_times.sum() * topic_score
        return float((by_topics + by_frequency) / times.sum())
