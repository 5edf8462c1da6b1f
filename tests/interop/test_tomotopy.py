"""tomotopy's counts as posteriors, and back."""

import numpy as np
import pytest
from corpus import TOPICS, VOCABULARY, counts, texts
from on_use import OnUse

import decbayes as db
from decbayes.errors import NotConvertible
from decbayes.interop import from_tomotopy, to_tomotopy

tomotopy = OnUse("tomotopy")


def trained(matrix, *, seed=1, optim_interval=0, **settings):
    model = tomotopy.LDAModel(k=TOPICS, alpha=0.25, eta=0.0625, seed=seed, **settings)
    model.optim_interval = optim_interval
    for document in texts(matrix):
        model.add_doc(document)
    model.train(100, workers=1)
    return model


def test_the_contribution_is_the_count_of_every_word_in_every_topic(rng):
    data = counts(rng)
    model = trained(data)
    posterior = from_tomotopy(model, vocabulary=VOCABULARY)
    contribution = posterior.contribution["topics"].toarray()
    np.testing.assert_array_equal(contribution.sum(axis=0), data.toarray().sum(axis=0))
    np.testing.assert_array_equal(contribution.sum(axis=1), model.get_count_by_topics())
    own = from_tomotopy(model).mean("topics")
    theirs = [model.get_topic_word_dist(topic) for topic in range(TOPICS)]
    np.testing.assert_allclose(own, theirs, rtol=1e-5)  # tomotopy computes in float32


def test_sites_merge_with_each_other_and_with_native_posteriors(rng):
    model = db.LatentDirichletAllocation(TOPICS, VOCABULARY, document_prior=0.25, topic_prior=0.0625)
    sites = [from_tomotopy(trained(counts(rng), seed=seed), vocabulary=VOCABULARY) for seed in (1, 2)]
    merged = db.merge([*sites, model.fit(counts(rng), rng=rng).posterior])
    shares = merged.mean("topics").reshape(TOPICS, TOPICS, -1).sum(axis=2)
    assert sorted(shares.argmax(axis=1)) == list(range(TOPICS))


def test_tuned_document_priors_count_as_learned_and_weighted_words_are_refused(rng):
    tuned = trained(counts(rng), optim_interval=10)
    posterior = from_tomotopy(tuned)
    learned = db.model_for(posterior.structure).document_prior_of(posterior)
    np.testing.assert_allclose(learned, tuned.alpha, rtol=0.05)  # the prior weighs as much as one of 120 documents
    assert from_tomotopy(tuned, document_prior=0.1).structure.model["document_prior"] == 0.1
    with pytest.raises(NotConvertible, match=r"TermWeight\.ONE"):
        from_tomotopy(trained(counts(rng), tw=tomotopy.TermWeight.IDF))


def test_untrained_and_other_models_are_refused():
    with pytest.raises(NotConvertible, match="no words yet"):
        from_tomotopy(tomotopy.LDAModel(k=TOPICS))
    with pytest.raises(NotConvertible, match="HDPModel, not a tomotopy LDAModel"):
        from_tomotopy(tomotopy.HDPModel())


def test_merged_topics_come_out_with_their_counts_and_work_there(rng, tmp_path):
    merged = db.merge([from_tomotopy(trained(counts(rng), seed=seed), vocabulary=VOCABULARY) for seed in (1, 2)])
    to_tomotopy(merged).save(str(tmp_path / "merged.bin"))
    back = tomotopy.PLDAModel.load(str(tmp_path / "merged.bin"))
    assert back.k == TOPICS
    raw = np.array([back.get_topic_word_dist(topic, normalize=False) for topic in range(back.k)])
    columns = [VOCABULARY.index(word) for word in back.used_vocabs]
    held = merged.contribution["topics"].toarray()[:, columns]
    np.testing.assert_allclose(raw - 0.0625, np.rint(held), atol=1e-3)
    words = [word for word, _ in back.get_topic_words(1, top_n=3)] * 10
    shares, _ = back.infer(back.make_doc(words))
    model = db.model_for(merged.structure)
    expected = model.assign(merged, model.counted([" ".join(words)]))[0]
    assert np.argmax(shares) == np.argmax(expected)
    np.testing.assert_allclose(shares, expected, atol=0.1)
    with pytest.raises(NotConvertible, match="no word counts"):
        to_tomotopy(db.Posterior.of_prior(merged.structure))
