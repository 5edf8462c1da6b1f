"""Refinement of topics and of latent features ends where batch inference would stay."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, vstack

import decbayes as db
from decbayes.families import dense
from decbayes.models.topics._fitting import extrapolated, sharpened
from decbayes.updates import Update
from decbayes.updates.joining import learned
from decbayes.updates.rounds import Round, Sent

WORDS, TOPICS = 30, 3


@pytest.fixture
def documents(rng):
    """Six shards of forty short documents, each mostly about one of three topics."""
    topics = rng.dirichlet(np.full(WORDS, 0.1), size=TOPICS)
    shares = rng.dirichlet(np.full(TOPICS, 0.2), size=240)
    return [csr_array(rng.poisson(25 * shares[part] @ topics)) for part in np.split(np.arange(240), 6)]


@pytest.fixture
def lda():
    vocabulary = [f"word{number}" for number in range(WORDS)]
    ascent = db.Ascent(passes=400, tolerance=1e-10, warm_up=10)
    return db.LatentDirichletAllocation(
        topics=TOPICS, vocabulary=vocabulary, document_steps=100, document_tolerance=1e-8, ascent=ascent
    )


def test_wide_fits_are_refined_in_as_many_slots_as_the_model_has(documents, lda, rng):
    """The first merge is that of `merge`, nothing is counted twice, and a round is what files and agents make of it."""
    lda = replace(lda, document_steps=10, document_tolerance=1e-3)  # what files hold no word of
    wide = [lda.sized(2 * TOPICS).fit(shard, rng=rng).posterior for shard in documents]
    refined = db.refine(lda, documents, wide, rounds=1, rng=rng, schedule="parallel")
    before, after = refined.rounds
    narrow = db.merge(wide, components=TOPICS)
    order = [int(np.abs(before.mean("topics") - row).sum(axis=1).argmin()) for row in narrow.mean("topics")]
    np.testing.assert_allclose(before.natural["topics"][order], narrow.natural["topics"], rtol=1e-9)
    words = sum(float(shard.sum()) for shard in documents)
    assert after.contribution["topics"].sum() == pytest.approx(words, rel=1e-4)
    narrower = db.refine(lda.sized(2 * TOPICS), documents, wide, rounds=0, rng=rng).merged
    assert len(narrower.natural["topics"]) == 2 * TOPICS, "not wider than the model: nothing is put together"
    sent = {str(site): Sent(posterior) for site, posterior in enumerate(wide)}
    by_files = Round.of(sent, TOPICS).refined(documents[0], rng=rng, ascent=lda.ascent).posterior
    np.testing.assert_allclose(
        by_files.contribution["topics"].toarray(), refined.posteriors[0].contribution["topics"].toarray(), atol=1e-6
    )


@pytest.mark.parametrize("schedule", ["sequential", "parallel", "asynchronous"])
def test_topics_converge_to_a_fixed_point_of_batch_inference(schedule, documents, lda, rng):
    posteriors = [lda.fit(shard, rng=rng).posterior for shard in documents]
    refined = db.refine(lda, documents, posteriors, rounds=25, rng=rng, schedule=schedule)
    tokens = sum(shard.sum() for shard in documents)
    for posterior in refined.rounds:
        assert posterior.contribution["topics"].sum() == pytest.approx(tokens, rel=1e-4)
    everything = vstack(documents, format="csr")
    batch = lda.fit(everything, rng=rng, start=refined.merged)
    difference = batch.posterior.mean("topics") - refined.merged.mean("topics")
    assert np.abs(difference).max() < 2e-3
    assert batch.bound[-1] - batch.bound[0] < 1e-4 * tokens


def test_features_converge_to_a_fixed_point_of_batch_inference(rng):
    features = rng.integers(2, size=(3, 8)).astype(float)
    points = (rng.random((240, 3)) < [0.3, 0.5, 0.7]) @ features + rng.normal(0, 0.2, size=(240, 8))
    shards = np.split(points, 4)
    model = db.LatentFeatures(features=3, dimension=8, variance=0.04)
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    model = replace(model, ascent=replace(model.ascent, tolerance=1e-9, passes=500))
    refined = db.refine(model, shards, posteriors, rounds=8, rng=rng)
    counts = [posterior.contribution["inclusion"].sum() for posterior in refined.rounds]
    np.testing.assert_allclose(counts, 3 * 240, rtol=1e-9)
    batch = model.fit(points, rng=rng, start=refined.merged).posterior
    np.testing.assert_allclose(batch.mean("features"), refined.merged.mean("features"), atol=1e-4)


def test_restarts_leave_a_local_optimum_in_which_all_sites_are(rng):
    """Every site begins with two clusters in one component, and one cluster in two."""
    model = db.GaussianMixture(4, 2, variance=0.3, prior_variance=40.0, ascent=db.Ascent(passes=50, restarts=3))
    centres = np.array([[-6.0, -6.0], [-6.0, 6.0], [6.0, -6.0], [6.0, 6.0]])
    labels = [rng.integers(4, size=80) for _ in range(3)]
    sites = [centres[own] + 0.5 * rng.normal(size=(80, 2)) for own in labels]
    wrong = [np.where(own == 0, rng.integers(2, size=80), np.where(own == 3, 2, own + 1)) for own in labels]
    bad = [model.from_assignments(points, own) for points, own in zip(sites, wrong, strict=True)]
    stuck = db.refine(model, sites, bad, rounds=5, rng=rng, solver=db.solvers.Matching())
    freed = db.refine(model, sites, bad, rounds=5, restarts=2, rng=rng, solver=db.solvers.Matching())
    everything = np.concatenate(sites)
    assert model.score(freed.merged, everything) > model.score(stuck.merged, everything) + 0.5
    assert len(freed.rounds) == len(stuck.rounds) == 6
    assert len(freed.shifts) == 5
    open_ended = db.refine(model, sites, bad, most=4, tolerance=0.0, restarts=1, rng=rng)
    assert len(open_ended.shifts) == 3
    assert open_ended.converged


def test_the_first_round_goes_half_as_far_again_as_the_refit_and_counts_every_word_as_often(documents, lda, rng):
    fits = [lda.fit(shard, rng=rng).posterior for shard in documents[:2]]
    own = db.align(fits).relabelled()
    merged = db.merging.product(own)
    published = Update(lda, first=True).relearn(documents[0], own[0], merged, rng=rng)
    _, cavity = lda.first_refit(documents[0], own[1], merged)
    refit = merged
    for _ in range(4):  # each fit begins with fresh documents
        once = replace(lda, ascent=db.Ascent(passes=1))
        refit = once.fit(documents[0], prior=cavity, start=refit, rng=rng).posterior
    before, after, sent = (
        dense(posterior.contribution["topics"]) - dense(less.contribution["topics"])
        for posterior, less in (
            (own[0], db.Posterior.of_prior(lda.structure)),
            (refit, cavity),
            (published, db.Posterior.of_prior(lda.structure)),
        )
    )
    further = np.maximum(1.5 * after - 0.5 * before, 0.0)
    np.testing.assert_allclose(sent, further * (after.sum(axis=0) / np.maximum(further.sum(axis=0), 1e-300)), atol=1e-4)
    np.testing.assert_allclose(sent.sum(axis=0), documents[0].sum(axis=0), atol=1e-4)
    assert np.abs(sent - after).max() > 0.01, "it did go further"
    plain = Update(lda).relearn(documents[0], own[0], merged, rng=rng).contribution["topics"]
    refit = lda.fit(documents[0], prior=own[1], start=merged, rng=rng).posterior
    after = dense(refit.contribution["topics"]) - dense(own[1].contribution["topics"])
    np.testing.assert_allclose(dense(plain), after, atol=1e-9)
    refined = db.refine(lda, documents[:2], fits, rounds=2, rng=0, schedule="parallel")
    once = Update(lda, first=True).relearn_all(documents[:2], own, merged, rng=rng)
    twice = Update(lda).relearn_all(documents[:2], once, db.merging.product(once), rng=rng)
    assert refined.merged == db.merging.product(twice), "the second round is plain"


@pytest.mark.parametrize(
    ("documents", "elsewhere", "kept"),
    [(10, 10, 100), (10, 500, 5 * 100 * 2), (1000, 500, 5 * 1000 / 2)],
    ids=["all of few", "a hundred documents per topic", "half the own documents"],
)
def test_in_the_first_round_others_count_as_half_the_own_documents_or_as_a_hundred_per_topic(
    documents, elsewhere, kept
):
    """Two topics; own documents have 5 words each, those elsewhere 10."""
    model = db.LatentDirichletAllocation(2, ["ball", "goal", "vote", "law"])
    own = csr_array(np.tile([[3, 2, 0, 0], [0, 0, 4, 1]], (documents // 2, 1)))
    others = model.fit(np.tile([[5, 5, 0, 0], [0, 0, 5, 5]], (elsewhere // 2, 1)), rng=0).posterior
    _, trusted = model.first_refit(own, others, others)
    assert trusted.contribution["topics"].sum() == pytest.approx(kept, rel=1e-6)
    whole, part = (dense(posterior.contribution["topics"]).sum(axis=0) for posterior in (others, trusted))
    np.testing.assert_allclose(part, whole * kept / whole.sum(), rtol=1e-6)


@pytest.mark.parametrize(("needed", "power"), [(0.6, 0.2), (3.0, 0.5), (7.0, 1.0), (9.0, 1.0)])
def test_frequent_words_of_others_settle_the_further_the_fewer_documents_a_site_has(needed, power):
    """Two topics: the first word is frequent and three times as probable in the second; the last one is rare."""
    merged = np.array([[100.0, 900.0, 0.0, 1.0], [300.0, 0.0, 699.0, 2.0]])
    others = np.array([[90.0, 800.0, 0.0, -1e-20], [210.0, 0.0, 0.0, 2.0]])
    found = sharpened(csr_array(others), csr_array(merged), needed).toarray()
    smoothed = merged + 10.0 * merged.sum() / 8
    expected = np.zeros((2, 4))
    for word in range(4):
        pulls = [max(others[k, word], 0.0) * (smoothed[k, word] / smoothed[k].sum()) ** power for k in range(2)]
        expected[:, word] = np.array(pulls) * max(others[:, word].sum(), 0.0) / max(sum(pulls), 1e-300)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-18)
    assert found[1, 0] > 210.0


def test_in_short_texts_the_first_round_climbs_further_than_a_plain_one(rng):
    """Eight topics in texts of six words at five sites; the bound of all texts."""
    topics, words = 8, 120
    truth = rng.dirichlet(np.full(words, 0.05), size=topics)
    shares = rng.dirichlet(np.full(topics, 0.1), size=5000)
    shards = [csr_array(rng.poisson(6 * part @ truth)) for part in np.split(shares, 5)]
    ascent = db.Ascent(passes=25, tolerance=1e-3, warm_up=10)
    model = db.LatentDirichletAllocation(topics, [f"word{number}" for number in range(words)], ascent=ascent)
    own = db.align([model.fit(shard, rng=rng).posterior for shard in shards]).relabelled()
    merged = db.merging.product(own)

    def height(update):
        after = db.merging.product(update.relearn_all(shards, own, merged, rng=rng))
        return model.log_predictive(after, vstack(shards, format="csr")).sum() - learned(after)

    words_in_all = sum(shard.sum() for shard in shards)
    assert height(Update(model, first=True)) > height(Update(model)) + 0.002 * words_in_all


def test_words_that_are_new_or_hidden_take_the_plain_step():
    """Of what counted more or less before, nobody knows where it comes from."""
    before = np.array([[2.0, 0.0, 1.0, 5.0], [2.0, 0.0, 3.0, 5.0]])
    after = np.array([[3.0, 1.0, 0.0, 1.0], [1.0, 3.0, 4.0, 2.0]])
    expected = [[3.5, 1.0, 0.0, 1.0], [0.5, 3.0, 4.0, 2.0]]
    np.testing.assert_allclose(extrapolated(csr_array(before), csr_array(after)).toarray(), expected)
    np.testing.assert_array_equal(extrapolated(csr_array(after), csr_array(after)).toarray(), after)
