"""gensim's topic models: exact round trips, and merges across different dictionaries."""

import numpy as np
import pytest
from corpus import TOPICS, VOCABULARY, counts, texts
from on_use import OnUse

import decbayes as db
from decbayes.errors import NotConvertible
from decbayes.interop import from_gensim, to_gensim

gensim = OnUse("gensim")


def fitted(matrix, **settings):
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    shared = {"num_topics": TOPICS, "passes": 2, "random_state": 1, "alpha": "symmetric", "eta": 0.05}
    words = dict(enumerate(VOCABULARY))
    return LdaModel(Sparse2Corpus(matrix, documents_columns=False), id2word=words, **(shared | settings))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_statistics_and_priors_survive_the_round_trip(dtype, rng):
    model = fitted(counts(rng), dtype=dtype)
    posterior = from_gensim(model)
    back = to_gensim(posterior)
    np.testing.assert_array_equal(back.state.sstats, model.state.sstats)
    np.testing.assert_allclose(back.alpha, model.alpha, rtol=1e-10)
    np.testing.assert_allclose(back.eta, model.eta, rtol=1e-10)
    np.testing.assert_allclose(back.get_topics(), model.get_topics(), rtol=1e-5 if dtype == np.float32 else 1e-10)
    assert from_gensim(back) == posterior


def test_the_exported_model_works_in_gensim(rng):
    model = to_gensim(from_gensim(fitted(counts(rng))))
    _, words = model.show_topics(num_topics=1, num_words=3, formatted=False)[0]
    assert {word for word, _ in words} <= set(VOCABULARY)
    shares = model.get_document_topics([(0, 5), (1, 5)], minimum_probability=0.0)
    assert sum(share for _, share in shares) == pytest.approx(1.0, abs=1e-5)
    assert model.id2word.doc2bow([VOCABULARY[3], "unheard", VOCABULARY[3]]) == [(3, 2)]


def test_sites_with_their_own_dictionaries_merge_on_a_shared_vocabulary(rng):
    from gensim.corpora import Dictionary
    from gensim.models import LdaModel

    posteriors = []
    for seed in range(3):
        documents = texts(counts(rng))[seed:]
        own = Dictionary(documents)
        model = LdaModel(
            [own.doc2bow(document) for document in documents],
            TOPICS,
            id2word=own,
            passes=5,
            eta=0.05,
            random_state=seed,
            dtype=np.float64,
        )
        posteriors.append(from_gensim(model, vocabulary=VOCABULARY))
    shares = db.merge(posteriors).mean("topics").reshape(TOPICS, TOPICS, -1).sum(axis=2)
    assert sorted(shares.argmax(axis=1)) == list(range(TOPICS))
    assert shares.max(axis=1).min() > 0.9


def test_a_dictionary_is_a_vocabulary(rng):
    from gensim.corpora import Dictionary

    shared = Dictionary([VOCABULARY[::-1]])
    expected = tuple(shared[column] for column in range(len(shared)))
    assert from_gensim(fitted(counts(rng)), vocabulary=shared).structure.labels["topics"] == expected
    with pytest.raises(NotConvertible, match="Dictionary, not a gensim LdaModel"):
        from_gensim(shared)


def test_an_imported_posterior_has_the_structure_of_the_native_model(rng):
    model = fitted(counts(rng), alpha=[0.2] * TOPICS, dtype=np.float64)
    native = db.LatentDirichletAllocation(TOPICS, VOCABULARY, document_prior=0.2, topic_prior=0.05)
    assert from_gensim(model).structure == native.structure


@pytest.mark.parametrize("alpha", ["asymmetric", "auto"])
def test_different_document_priors_count_as_learned(alpha, rng):
    model = fitted(counts(rng, 400), alpha=alpha)
    posterior = from_gensim(model)
    learning = db.LatentDirichletAllocation(TOPICS, VOCABULARY, "learn", float(model.eta[0]))
    assert posterior.structure == learning.structure
    # The prior weighs as much as one of 400 documents.
    np.testing.assert_allclose(to_gensim(posterior).alpha, model.alpha, rtol=0.02)
    merged = db.merge([posterior, learning.fit(counts(rng), rng=rng).posterior])
    assert to_gensim(merged).alpha.shape == (TOPICS,)
    assert from_gensim(model, document_prior=0.3).structure.model["document_prior"] == 0.3


def test_a_prior_of_words_that_each_model_has_learned_gives_way_to_a_common_one(rng):
    models = [fitted(counts(rng), eta="auto") for _ in range(2)]
    with pytest.raises(db.errors.DecbayesError, match="priors of 'topics' differ"):
        db.merge([from_gensim(model) for model in models])
    brought = [from_gensim(model, topic_prior=0.05, vocabulary=VOCABULARY[::-1]) for model in models]
    total = sum(model.state.sstats.sum() for model in models)
    assert db.merge(brought).contribution["topics"].sum() == pytest.approx(total, rel=1e-6)


def test_a_vocabulary_without_some_words_is_refused(rng):
    with pytest.raises(NotConvertible, match="1 words of the model are not in the vocabulary: word00"):
        from_gensim(fitted(counts(rng)), vocabulary=VOCABULARY[1:])
    uneven = fitted(counts(rng), eta=np.linspace(0.1, 0.2, len(VOCABULARY)), dtype=np.float64)
    assert to_gensim(from_gensim(uneven)).eta == pytest.approx(uneven.eta)
    with pytest.raises(NotConvertible, match="eta differs between words"):
        from_gensim(uneven, vocabulary=[*VOCABULARY, "another"])
    reversed_words = from_gensim(uneven, vocabulary=VOCABULARY[::-1])
    expected = from_gensim(uneven).natural["topics"][:, ::-1]
    np.testing.assert_array_equal(reversed_words.natural["topics"], expected)


def test_models_with_priors_and_numbers_of_topics_of_their_own_merge(rng):
    """What gensim users have: alpha and eta learned by each model, and each with another number of topics."""
    models = [
        fitted(counts(rng), alpha="auto", eta="auto", num_topics=topics, random_state=topics)
        for topics in (TOPICS, TOPICS + 2)
    ]
    posteriors = db.texts.with_priors([from_gensim(model) for model in models], topic_prior="learn")
    merged = db.merge(posteriors)
    own = db.model_for(merged.structure)
    assert own.topics == TOPICS + 2
    assert own.learns
    words = sum(float(model.state.sstats.sum()) for model in models)
    assert merged.contribution["topics"].sum() == pytest.approx(words, rel=1e-6)
    assert own.document_prior_of(merged).sum() == pytest.approx(
        np.mean([model.alpha.sum() for model in models]), rel=0.5
    )
    np.testing.assert_allclose(to_gensim(merged).alpha, own.document_prior_of(merged), rtol=1e-6)
