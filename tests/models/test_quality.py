"""Quality of topics: coherence as gensim has it, counts that add up, and what topics alone say."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

import decbayes as db
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.models.topics.quality import CoOccurrence

WORDS = tuple("abcdefghijkl")


def posterior_of(shares, evidence=100.0):
    model = db.LatentDirichletAllocation(len(shares), WORDS, topic_prior=0.01)
    return db.Posterior(model.structure, {"topics": evidence * np.asarray(shares)})


@pytest.fixture
def topics(rng):
    return posterior_of(rng.dirichlet(np.full(12, 0.4), size=4))


@pytest.fixture
def counts(rng):
    return csr_array(rng.poisson(0.4, size=(60, 12)))


@pytest.mark.filterwarnings("ignore")
def test_coherence_is_gensims(topics, counts):
    models = pytest.importorskip("gensim.models", reason="needs the gensim extra")
    from gensim.corpora import Dictionary

    texts = [[WORDS[w] for w in np.repeat(np.arange(12), row)] for row in counts.toarray()]
    quality = db.texts.Quality(topics, top=5)
    listed = [list(words) for words in quality.words]
    # Windows larger than any document are documents.
    peer = models.CoherenceModel(
        topics=listed,
        texts=texts,
        dictionary=Dictionary([list(WORDS)]),
        coherence="c_npmi",
        window_size=1000,
        topn=5,
        processes=1,
    )
    expected = peer.get_coherence_per_topic()
    # gensim does not see documents without words; neither do these counts.
    kept = counts[np.flatnonzero(counts.sum(axis=1))]
    np.testing.assert_allclose(quality.co_occurrence([kept]).coherence(), expected, atol=1e-9)


def test_counts_are_of_documents_with_both_words(topics, counts):
    found = db.texts.Quality(topics, top=4).co_occurrence([counts])
    present = counts.toarray() > 0
    for topic, words in enumerate(found.words):
        for i, first in enumerate(words):
            for j, second in enumerate(words):
                both = present[:, WORDS.index(first)] & present[:, WORDS.index(second)]
                assert found.together[topic, i, j] == both.sum()


def test_counts_of_sites_add_up(topics, counts):
    quality = db.texts.Quality(topics, top=4)
    sites = [quality.co_occurrence([part]) for part in (counts[:10], counts[10:35], counts[35:])]
    together = quality.co_occurrence([counts[:30], counts[30:]])
    total = sites[0] + sites[1] + sites[2]
    np.testing.assert_array_equal(total.together, together.together)
    assert total.documents == 60
    np.testing.assert_array_equal(total.coherence(), quality.co_occurrence([vstack([counts])]).coherence())
    with pytest.raises(StructureMismatch, match="different words"):
        _ = sites[0] + db.texts.Quality(topics, top=3).co_occurrence([counts])


def test_words_always_never_and_independently_together():
    shares = np.zeros((3, 12))
    shares[0, :2], shares[1, 2:4], shares[2, 4:6] = 0.5, 0.5, 0.5
    documents = np.zeros((8, 12), dtype=int)
    documents[:4, :2] = 1  # always together
    documents[:4, 2], documents[4:, 3] = 1, 1  # never
    documents[::2, 4], documents[:4, 5] = 1, 1  # half and half
    values = db.texts.Quality(posterior_of(shares), top=2).co_occurrence([csr_array(documents)]).coherence()
    np.testing.assert_allclose(values, [1.0, -1.0, 0.0], atol=0.06)
    nothing = db.texts.Quality(posterior_of(shares), top=2).co_occurrence([csr_array(np.zeros((5, 12), dtype=int))])
    np.testing.assert_array_equal(nothing.coherence(), 0.0)


def test_few_documents_are_not_told(topics, counts):
    found = db.texts.Quality(topics, top=4).co_occurrence([counts])
    hidden = found.without_few(10)
    assert ((hidden.together == 0) | (hidden.together >= 10)).all()
    kept = hidden.together > 0
    np.testing.assert_array_equal(hidden.together[kept], found.together[kept])
    again = CoOccurrence.of_plain(json.loads(json.dumps(found.plain())))
    np.testing.assert_array_equal(again.together, found.together)
    assert (again.words, again.documents) == (found.words, 60)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"},
        {"documents": 3},
        {"documents": "many"},
        {"counts": [[1.5] * 3]},
        {"counts": [[5, 9, 5]]},
        {"counts": [[5, -1, 5]]},
        {"counts": [[1, 2]]},
        {"words": []},
        {"words": [["a", "b"], ["c"]]},
    ],
)
def test_counts_that_make_no_sense_are_refused(change):
    plain = {"format": "decbayes co-occurrence 1", "documents": 10, "words": [["a", "b"]], "counts": [[5, 2, 5]]}
    CoOccurrence.of_plain(plain)
    with pytest.raises(InvalidData):
        CoOccurrence.of_plain({**plain, **change})


def test_what_topics_alone_say():
    shares = np.full((4, 12), 1e-9)
    shares[0, :3] = [0.5, 0.3, 0.2]
    shares[1, :3] = [0.45, 0.35, 0.2]
    shares[2, [0, 5, 6]] = [0.5, 0.3, 0.2]
    posterior = posterior_of([*shares[:3], np.zeros(12)], evidence=1e6)
    quality = db.texts.Quality(posterior, top=3)
    assert quality.used.tolist() == [0, 1, 2]
    assert quality.diversity == pytest.approx(5 / 9)
    assert quality.duplicates == ((0, 1),)
    assert quality.affinity[0, 2] == pytest.approx(0.5, abs=1e-3)
    assert quality.telling[2][:2] == ("f", "g"), "the word that all topics have tells nothing"
    assert quality.words[2][0] == "a"
    with pytest.raises(InvalidData, match="Only topics have words"):
        db.texts.Quality(db.Posterior.of_prior(db.GaussianMean(dimension=1).structure))
