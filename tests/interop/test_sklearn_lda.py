"""scikit-learn's topic models: exact round trips, and posteriors that merge with native ones."""

import numpy as np
import pytest
from corpus import TOPICS, VOCABULARY, counts
from on_use import OnUse

import decbayes as db
from decbayes.errors import NotConvertible, StructureMismatch
from decbayes.interop import from_sklearn, merge_sklearn, to_sklearn

pandas = pytest.importorskip("pandas", reason="needs the interop extra")
decomposition = OnUse("sklearn.decomposition")


def estimator(**settings):
    shared = {"doc_topic_prior": 0.2, "topic_word_prior": 0.05, "max_iter": 10, "random_state": 0}
    return decomposition.LatentDirichletAllocation(TOPICS, **(shared | settings))


@pytest.mark.parametrize("method", ["batch", "online"])
def test_topics_and_priors_survive_the_round_trip(method, rng):
    data, test = counts(rng), counts(rng, 20)
    fitted = estimator(learning_method=method).fit(data)
    back = to_sklearn(from_sklearn(fitted, vocabulary=VOCABULARY))
    for name in ("components_", "doc_topic_prior_", "topic_word_prior_", "n_features_in_"):
        np.testing.assert_allclose(getattr(back, name), getattr(fitted, name), rtol=1e-10, err_msg=name)
    np.testing.assert_allclose(back.transform(test), fitted.transform(test), rtol=1e-10)
    assert back.score(test) == pytest.approx(fitted.score(test), rel=1e-10)
    assert back.perplexity(test) == pytest.approx(fitted.perplexity(test), rel=1e-10)


def test_without_the_private_digamma_of_scikit_learn_the_exact_one_is_used(monkeypatch, rng):
    fitted, test = estimator().fit(counts(rng)), counts(rng, 20)
    monkeypatch.delattr("sklearn.decomposition._lda._dirichlet_expectation_2d")
    exported = to_sklearn(from_sklearn(fitted))
    monkeypatch.undo()
    np.testing.assert_allclose(exported.exp_dirichlet_component_, fitted.exp_dirichlet_component_, rtol=1e-8)
    np.testing.assert_allclose(exported.transform(test), fitted.transform(test), rtol=1e-6)


def test_an_imported_posterior_merges_with_native_ones(rng):
    model = db.LatentDirichletAllocation(TOPICS, VOCABULARY, document_prior=0.2, topic_prior=0.05)
    native = model.fit(counts(rng), rng=rng).posterior
    imported = from_sklearn(estimator().fit(counts(rng)), vocabulary=VOCABULARY)
    merged = db.merge([native, imported])
    observed, held = db.checking.hold_out(counts(rng, 100), rng=rng)
    alone = [model.score(posterior, observed, held) for posterior in (native, imported)]
    assert model.score(merged, observed, held) > max(alone) - 0.005
    assert merged.contribution["topics"].sum() == pytest.approx(2 * 120 * 40, rel=1e-6)


def test_the_exported_estimator_transforms_documents_as_the_model_does(rng):
    model = db.LatentDirichletAllocation(TOPICS, VOCABULARY, document_prior=0.2, topic_prior=0.05)
    posterior, test = model.fit(counts(rng), rng=rng).posterior, counts(rng, 20)
    exported = to_sklearn(posterior).set_params(mean_change_tol=1e-6, max_doc_update_iter=1000)
    # Both stop their inner loops at a tolerance: theirs 1e-6, ours 1e-4 words a topic, of documents with 40 words.
    np.testing.assert_allclose(exported.transform(test), model.assign(posterior, test), atol=1e-3)


def test_merged_estimators_find_the_topics_that_one_on_all_documents_finds(rng):
    parts = [counts(rng) for _ in range(4)]
    merged = merge_sklearn([estimator(random_state=seed).fit(part) for seed, part in enumerate(parts)])
    shares = merged.components_ / merged.components_.sum(axis=1, keepdims=True)
    blocks = shares.reshape(TOPICS, TOPICS, -1).sum(axis=2)
    assert sorted(blocks.argmax(axis=1)) == list(range(TOPICS))
    assert blocks.max(axis=1).min() > 0.97


def test_more_components_than_the_estimators_have_come_out_fitted(rng):
    data = counts(rng)
    wide = merge_sklearn([estimator(random_state=seed).fit(data[seed::2]) for seed in range(2)], components=TOPICS + 2)
    assert wide.components_.shape == (TOPICS + 2, data.shape[1])
    assert wide.components_.sum() == pytest.approx(data.sum() + 0.05 * wide.components_.size)
    np.testing.assert_allclose(wide.transform(data).sum(axis=1), 1.0)


def test_estimators_with_different_numbers_of_components_merge_into_more(rng):
    """What was merged into more topics merges with a site that comes later and has fewer."""
    data = counts(rng)
    narrow, wide = (estimator().set_params(n_components=count).fit(data) for count in (TOPICS, TOPICS + 2))
    merged = merge_sklearn([wide, narrow], components=TOPICS + 2)
    assert merged.components_.sum() == pytest.approx(2 * data.sum() + 0.05 * merged.components_.size)
    np.testing.assert_array_equal(merge_sklearn([narrow, wide]).components_, merged.components_)
    assert merge_sklearn([wide, narrow], components=2).components_.shape == (2, data.shape[1])
    other = estimator(doc_topic_prior=0.3).fit(data)
    with pytest.raises(StructureMismatch, match="doc_topic_prior_ of estimator 1"):
        merge_sklearn([wide, other], components=TOPICS + 2)


def test_feature_names_are_the_vocabulary_and_words_without_names_are_numbered(rng):
    data = counts(rng)
    frame = pandas.DataFrame(data.toarray(), columns=list(VOCABULARY))
    named = estimator(max_iter=2).fit(frame)
    assert from_sklearn(named).structure.labels["topics"] == VOCABULARY
    assert from_sklearn(estimator(max_iter=2).fit(data)).structure.labels["topics"][:2] == ("0", "1")
    other = estimator(max_iter=2).fit(frame[:60])
    assert merge_sklearn([named, other]).transform(frame).shape == (120, TOPICS)
    with pytest.raises(StructureMismatch, match="count twice"):
        merge_sklearn([named, named])
    grown = merge_sklearn([named, estimator(max_iter=2).fit(frame.rename(columns={"word00": "other"}))])
    assert {*grown.feature_names_in_} == {*VOCABULARY, "other"}, "a site may have further words"
    moved = estimator(max_iter=2).fit(frame[frame.columns[::-1]])
    assert merge_sklearn([moved, named]).transform(frame).shape == (120, TOPICS)


def test_other_priors_and_vocabularies_are_refused(rng):
    data = counts(rng)
    first = estimator(max_iter=2).fit(data)
    with pytest.raises(StructureMismatch, match="topic_word_prior_ of estimator 1"):
        merge_sklearn([first, estimator(max_iter=2, topic_word_prior=0.1).fit(data)])
    unstated = [estimator(max_iter=2, doc_topic_prior=None), estimator(max_iter=2, doc_topic_prior=0.5)]
    with pytest.raises(StructureMismatch, match=r"1 / n_components by default.* the same doc_topic_prior=…"):
        merge_sklearn([each.fit(data) for each in unstated], components=5)
    with pytest.raises(NotConvertible, match=r"30 words, the vocabulary 29.*own_words="):
        from_sklearn(first, vocabulary=VOCABULARY[1:])
    matrix = np.linspace(0.1, 1.0, TOPICS * len(VOCABULARY)).reshape(TOPICS, -1)
    uneven = db.LatentDirichletAllocation(TOPICS, VOCABULARY, topic_prior=matrix)
    with pytest.raises(NotConvertible, match="topic_word_prior is one number"):
        to_sklearn(db.Posterior.of_prior(uneven.structure))


def test_priors_that_nobody_gave_are_those_of_the_merged_number_of_topics(rng):
    data = counts(rng)
    open_priors = {"doc_topic_prior": None, "topic_word_prior": None}
    fitted = [estimator(max_iter=3, **open_priors).set_params(n_components=topics).fit(data) for topics in (3, 4)]
    merged = merge_sklearn(fitted, components=5)
    assert merged.doc_topic_prior_ == merged.topic_word_prior_ == 1 / 5
    total = sum((each.components_ - 1 / each.n_components).sum() for each in fitted)
    assert (merged.components_ - 1 / 5).sum() == pytest.approx(total)
    own = from_sklearn(fitted[0], document_prior=0.3, topic_prior=0.2)
    assert own.structure == db.LatentDirichletAllocation(3, tuple(map(str, range(30))), 0.3, 0.2).structure
    np.testing.assert_allclose(own.contribution["topics"].toarray(), fitted[0].components_ - 1 / 3)


def test_a_learned_document_prior_is_refused(rng):
    learning = db.LatentDirichletAllocation(TOPICS, VOCABULARY, "learn")
    with pytest.raises(NotConvertible, match="doc_topic_prior is one number"):
        to_sklearn(learning.fit(counts(rng), rng=rng).posterior)


def test_sites_that_count_different_words_merge_on_a_shared_vocabulary(rng):
    """Each site leaves out words and keeps the rest in an order of its own; every count must find its word."""
    posteriors, totals = [], np.zeros(len(VOCABULARY))
    for seed in range(3):
        columns = rng.permutation(len(VOCABULARY))[seed:]
        data = counts(rng).toarray()[:, columns]
        fitted = estimator(random_state=seed).fit(data)
        own = {VOCABULARY[column]: place for place, column in sorted(enumerate(columns), key=lambda pair: pair[1])}
        posteriors.append(from_sklearn(fitted, own_words=own, vocabulary=VOCABULARY))
        totals[columns] += data.sum(axis=0)
    merged = db.merge(posteriors)
    np.testing.assert_allclose(merged.contribution["topics"].sum(axis=0), totals, rtol=1e-8, atol=1e-8)
    shares = merged.mean("topics").reshape(TOPICS, TOPICS, -1).sum(axis=2)
    assert sorted(shares.argmax(axis=1)) == list(range(TOPICS))


def test_a_vectorizer_names_the_columns_that_it_fills(rng):
    """`vocabulary_` is a mapping whose own order is that of first sight, not that of the columns."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer()
    fitted = estimator(max_iter=2).fit(vectorizer.fit_transform(["zebra yak yak", "apple zebra zebra zebra"]))
    expected = tuple(vectorizer.get_feature_names_out())
    assert tuple(vectorizer.vocabulary_) != expected
    assert from_sklearn(fitted, vocabulary=vectorizer.vocabulary_).structure.labels["topics"] == expected
    assert db.LatentDirichletAllocation(2, vectorizer.vocabulary_).vocabulary == expected


def test_what_is_no_topic_model_is_called_by_its_name():
    with pytest.raises(NotConvertible, match="str has no posterior"):
        from_sklearn("model.pkl")
    with pytest.raises(NotConvertible, match="not fitted yet"):
        from_sklearn(estimator())


@pytest.mark.parametrize("prior", [0.1, 1 / 3, 0.05, 1 / 7])
def test_what_was_merged_merges_with_a_site_that_comes_later(prior, rng):
    """Its prior went through α − 1 and back, and the last digit of that must not tell it from the others'."""
    fitted = [estimator(topic_word_prior=prior, max_iter=3).fit(counts(rng, 40)) for _ in range(3)]
    later = merge_sklearn([merge_sklearn(fitted[:2]), fitted[2]])
    total = sum(one.components_.sum() for one in fitted) - 2 * prior * fitted[0].components_.size
    assert later.components_.sum() == pytest.approx(total, rel=1e-10)
    if prior in (0.1, 0.05):
        assert later.topic_word_prior == prior
