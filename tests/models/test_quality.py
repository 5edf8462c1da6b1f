"""Quality of topics: coherence as gensim has it, counts that add up, and what topics alone say."""

import json
from dataclasses import replace
from functools import reduce
from operator import add

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
    assert np.isnan(nothing.coherence()).all(), "topics whose words do not occur"


def test_few_documents_are_not_told(topics, counts):
    found = db.texts.Quality(topics, top=4).co_occurrence([counts])
    hidden = found.without_few(10)
    assert ((hidden.together == 0) | (hidden.together >= 10)).all()
    kept = hidden.together > 0
    np.testing.assert_array_equal(hidden.together[kept], found.together[kept])
    for written in (found, hidden, found + hidden):
        again = CoOccurrence.of_plain(json.loads(json.dumps(written.plain())))
        np.testing.assert_array_equal(again.together, written.together)
        np.testing.assert_array_equal(again.hidden, written.hidden)
        assert (again.words, again.documents) == (found.words, written.documents)


def few_words_together(rng, sites, size, least):
    """Counts of five words of a topic, which half of the documents are about: exact, and with small ones hidden."""
    exact, shown = [], []
    for _ in range(sites):
        about = rng.random((size, 1)) < 0.5
        words = np.where(about, rng.random((size, 5)) < [0.5, 0.4, 0.3, 0.2, 0.1], rng.random((size, 5)) < 0.05)
        exact.append(CoOccurrence((tuple("abcde"),), size, (words.T.astype(int) @ words.astype(int))[None]))
        shown.append(exact[-1].without_few(least))
    return reduce(add, exact), reduce(add, shown)


def test_hidden_counts_never_turn_a_coherent_topic_into_an_incoherent_one(rng):
    """Its coherence is between the bounds, and close to the value if that is known: it never is at tiny sites."""
    errors = []
    for sites, size in ((5, 12), (3, 40), (4, 100), (5, 300), (2, 2000)):
        for _ in range(10):
            exact, shown = few_words_together(rng, sites, size, 5)
            (truth,), (value,), ((low,), (high,)) = exact.coherence(), shown.coherence(), shown.bounds()
            assert low - 1e-9 <= truth <= high + 1e-9
            errors.append(value - truth)
            assert size > 12 or np.isnan(value)
            assert size < 300 or not np.isnan(value)
    assert np.nanmax(np.abs(errors)) < 0.15


def test_bounds_are_those_of_all_that_hidden_counts_may_be():
    """Every count that may stand behind zeros, one after another."""
    exact = CoOccurrence((("a", "b"),), 20, np.array([[[9, 3], [3, 8]]]))
    shown = exact.without_few(5)
    possible = [
        replace(exact, together=np.array([[[9, pair], [pair, 8]]])).coherence()[0]
        for pair in range(shown.hidden.max() + 1)
    ]
    np.testing.assert_allclose(np.concatenate(shown.bounds()), [min(possible), max(possible)], atol=1e-9)
    assert len(possible) == 5


def test_topics_that_no_document_is_about_do_not_count_in_the_mean():
    shares = np.zeros((3, 12))
    shares[0, :2], shares[1, 2:4], shares[2, 4:6] = 0.5, 0.5, 0.5
    documents = np.zeros((8, 12), dtype=int)
    documents[:4, :2] = 1
    documents[4:, 2] = 1  # a single word is no pair
    counted = db.texts.Quality(posterior_of(shares), top=2).co_occurrence([csr_array(documents)])
    assert counted.said(np.arange(3)) == (
        "coherence (NPMI) 1.000 on 8 documents; without 2 of 3 topics, whose words do not occur"
    )
    assert counted.coherence_texts() == ["1.000", "not known", "not known"]
    hidden = counted.without_few(5)
    assert hidden.said(np.arange(3)) == (
        "coherence (NPMI) not known on 8 documents; sites hide counts of 3 of 3 pairs of words; "
        "too many for 3 of 3 topics: count fewer words (--top)"
    )


def test_zeros_in_older_files_hide_what_their_smallest_count_allows():
    plain = {"format": "decbayes co-occurrence 1", "documents": 90, "words": [["a", "b"]], "counts": [[9, 0, 7]]}
    for smallest, most in ((7, 4), (3, 2), (1, 0)):
        read = CoOccurrence.of_plain({**plain, "counts": [[9, 0, smallest]]})
        assert read.hidden.tolist() == [[[0, most], [most, 0]]]


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
        {"hidden": [[1, 2]]},
        {"hidden": [[0, -1, 0]]},
        {"hidden": [[0, 11, 0]]},
        {"hidden": [[0, 0.5, 0]]},
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
        db.texts.Quality(db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure))


def test_words_are_ranked_alike_wherever_they_are_listed(tmp_path):
    """By log p(w | k) − 0.2 log p(w), written out here word by word."""
    shares = np.full((3, 12), 0.01)
    shares[:, 0] = 0.3  # all topics use it most
    shares[0, 1:3] = [0.29, 0.2]
    shares[1, 3:6] = [0.2, 0.2, 0.1]
    shares[2, 6:8] = [0.1, 0.3]
    posterior = posterior_of(shares / shares.sum(axis=1, keepdims=True), evidence=1e7)
    mean, top = posterior.mean("topics"), 4
    common = mean.mean(axis=0)  # topics of equal evidence
    labels = posterior.structure.labels["topics"]
    expected = []
    for row in mean:
        scores = {labels[w]: np.log(row[w]) - 0.2 * np.log(common[w]) for w in range(len(row))}
        expected.append(tuple(sorted(scores, key=lambda word: (-scores[word], labels.index(word)))[:top]))
    assert expected[0][0] == "b", "frequent here, and hardly elsewhere"
    model = db.model_for(posterior.structure)
    assert [row["words"] for row in model.describe(posterior, top=top)] == expected
    assert db.texts.Quality(posterior, top).words == tuple(expected)
    parts = db.views.view_of(posterior.structure).parts(posterior, top=top)
    assert [tuple(word for word, _ in part.words) for part in parts] == expected
    rows = [row["entry"] for row in posterior.summary(top=top)]
    assert rows == [word for words in expected for word in words]
    drawn = db.plot.topics(posterior, top=top)
    assert [tuple(label.get_text() for label in axes.get_yticklabels()) for axes in drawn.axes] == expected


def test_a_single_topic_lists_its_words_by_probability():
    """p(w) is then p(w | k): the order cannot depend on the weight."""
    shares = np.random.default_rng(0).dirichlet(np.ones(12))[None]
    posterior = posterior_of(shares, evidence=1e6)
    words = db.texts.Quality(posterior, top=12).columns[0]
    assert words.tolist() == np.argsort(-posterior.mean("topics")[0], kind="stable").tolist()


def test_names_are_what_people_say_or_the_most_telling_words(tmp_path):
    shares = np.full((2, 12), 1e-9)
    shares[0, :3], shares[1, 3:6] = [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]
    posterior = posterior_of([*shares, np.zeros(12)], evidence=1e6)
    assert db.texts.Quality(posterior).names == ("a, b, c", "d, e, f", "")
    named = replace(posterior, names=("", "Fish", ""))
    assert db.texts.Quality(named).names == ("a, b, c", "Fish", "")
    assert named == posterior, "a name is no part of what is known"
    db.save(named, tmp_path / "named.posterior")
    assert db.load(tmp_path / "named.posterior").names == ("", "Fish", "")
    later = replace(posterior, contribution={"topics": posterior.contribution["topics"][[1, 0, 2]]})
    assert db.merging.follow(named, later).posterior.names == ("", "Fish", "")
    with pytest.raises(db.errors.InvalidPosterior, match="names: one for each component"):
        replace(posterior, names=("one",))
    for unfit in ("x" * 65, "two\nlines"):
        with pytest.raises(db.errors.InvalidPosterior, match="names of components are single lines of at most 64"):
            replace(named, names=(unfit, "", ""))
