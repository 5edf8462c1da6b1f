"""Terms and constants that matter little in most fits, and are right all the same."""

import tracemalloc
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import digamma

import decbayes as db
from decbayes.families import Beta, IsotropicGaussian
from decbayes.models.features import _feature_prediction as feature_prediction
from decbayes.models.likelihoods.likelihood import squared_distances

TOPICS, WORDS = 4, 30


@pytest.fixture
def topics():
    vocabulary = tuple(f"word{word}" for word in range(WORDS))
    return db.LatentDirichletAllocation(TOPICS, vocabulary, document_prior=0.37, topic_prior=0.05)


def corpus(rng, documents=60):
    shares = rng.dirichlet(np.full(TOPICS, 0.3), size=documents)
    return csr_array(rng.poisson(40 * shares @ rng.dirichlet(np.full(WORDS, 0.2), size=TOPICS)))


def test_features_that_are_not_summed_over_bring_the_variance_of_their_own_doubt(rng, monkeypatch):
    """Mean and variance of Σ_k z_k μ_k + noise over all choices of z, by the law of total variance."""
    monkeypatch.setattr(feature_prediction, "SUMMED", 0)
    means, variances, chance = rng.normal(size=(3, 2)), rng.uniform(0.1, 0.3, 3), np.array([0.2, 0.5, 0.9])
    believed = feature_prediction.FeaturePosterior(means, variances, np.ones(3), np.ones(3), noise=0.05)
    _, mean, variance = feature_prediction.weighted_choices(believed, chance, np.full(2, np.nan))
    first, second = np.zeros(2), np.zeros(2)
    for choice in product((0, 1), repeat=3):
        z = np.array(choice)
        weight = np.prod(np.where(z, chance, 1 - chance))
        first += weight * (z @ means)
        second += weight * (0.05 + z @ variances + (z @ means) ** 2)
    np.testing.assert_allclose(mean[0], first)
    np.testing.assert_allclose(variance[0], second - first**2)


def test_the_least_certain_features_are_summed_over(rng, monkeypatch):
    """Of three features the second is undecided: the two choices differ by its mean and its variance."""
    monkeypatch.setattr(feature_prediction, "SUMMED", 1)
    means = rng.normal(size=(3, 2))
    believed = feature_prediction.FeaturePosterior(means, np.array([0.1, 0.2, 0.3]), np.ones(3), np.ones(3), noise=0.05)
    chance = np.array([0.99, 0.5, 0.02])
    _, mean, variance = feature_prediction.weighted_choices(believed, chance, np.full(2, np.nan))
    np.testing.assert_allclose(mean[1] - mean[0], means[1])
    np.testing.assert_allclose(variance[1] - variance[0], 0.2)


def test_ten_features_are_summed_over_exactly(rng):
    """Every one of them is undecided: what is left to the mean field would show."""
    model = db.LatentFeatures(features=10, dimension=2, variance=0.5)
    means = rng.normal(size=(10, 2))
    natural = {
        "features": IsotropicGaussian().natural(mean=means, variance=0.1),
        "inclusion": Beta().natural(alpha=np.full(10, 4.0), beta=np.full(10, 5.0)),
    }
    posterior = db.Posterior.from_natural(model.structure, natural)
    density = 0.0
    for choice in product((0, 1), repeat=10):
        z = np.array(choice)
        spread = 0.5 + 0.1 * z.sum()
        normal = np.exp(-0.5 * np.sum((z @ means) ** 2) / spread) / (2 * np.pi * spread)
        density += np.prod(np.where(z, 4 / 9, 5 / 9)) * normal
    assert model.log_predictive(posterior, [[0.0, 0.0]])[0] == pytest.approx(np.log(density))


@pytest.mark.parametrize("dimension", [2, 300])
def test_squared_distances_are_those_of_the_definition(dimension, rng):
    points, centres = rng.normal(size=(5, dimension)), rng.normal(size=(3, dimension))
    expected = [[sum((x - c) ** 2) for c in centres] for x in points]
    np.testing.assert_allclose(squared_distances(points, centres), expected, rtol=1e-9)


def test_squared_distances_of_near_points_far_from_zero_keep_their_digits():
    points = 1e8 + np.array([[0.0, 0.0], [0.5, 0.25]])
    np.testing.assert_array_equal(squared_distances(points, points[:1])[:, 0], [0.0, 0.3125])


def test_squared_distances_are_never_below_zero(rng):
    """In many dimensions they are differences of large numbers: those of points from themselves are rounding."""
    points = 1e6 * rng.normal(size=(40, 300))
    assert squared_distances(points, points).min() >= 0.0


def test_a_start_is_nine_parts_corpus_and_one_part_document(topics, rng):
    """Where no pass is made the fit is its own start."""
    counts = corpus(rng)
    begun = replace(topics, ascent=db.Ascent(passes=0)).fit(counts, rng=rng).posterior.contribution["topics"].toarray()
    tokens = counts.sum()
    np.testing.assert_allclose(begun.sum(axis=1), tokens / TOPICS, rtol=1e-6)
    own = begun - 0.9 * counts.sum(axis=0) / TOPICS
    assert own.min() > -1e-5
    np.testing.assert_allclose(own.sum(axis=1), 0.1 * tokens / TOPICS, rtol=1e-6)
    for row in own > 1e-5:
        assert any((row <= (document > 0)).all() for document in counts.toarray())


def test_what_a_posterior_leaves_out_is_less_than_a_millionth_of_a_word(topics, rng):
    counts = corpus(rng)
    for passes in (4, 200):
        added = replace(topics, ascent=db.Ascent(passes=passes)).fit(counts, rng=rng).posterior.contribution["topics"]
        np.testing.assert_allclose(added.sum(axis=0), counts.sum(axis=0), atol=1e-5)
        assert added.data.min() > 1e-7
        if passes == 4:
            assert ((added.data > 1e-5) & (added.data < 1e-2)).any(), "there are small counts to be left out by mistake"
    assert added.nnz < TOPICS * WORDS


def test_shares_of_topics_are_a_fixed_point_of_the_document_updates(topics, rng):
    """Written from the model's definition, every φ stored, until nothing changes."""
    posterior, documents = topics.fit(corpus(rng), rng=rng).posterior, corpus(rng, 6).toarray()
    alpha = posterior.parameters("topics")["alpha"]
    expected = digamma(alpha) - digamma(alpha.sum(axis=1, keepdims=True))
    shares = []
    for counts in documents:
        gamma = np.ones(TOPICS)
        for _ in range(2000):
            phi = np.exp(digamma(gamma)[:, None] + expected)
            gamma = 0.37 + (counts * phi / phi.sum(axis=0)).sum(axis=1)
        shares.append(gamma / gamma.sum())
    np.testing.assert_allclose(topics.assign(posterior, csr_array(documents)), shares, atol=2e-3)


def test_centres_are_spread_out_and_never_chosen_twice(rng):
    """Two far clusters and two centres: one in each, but for one chance in thousands."""
    from decbayes.models.likelihoods.likelihood import spread_out_centres

    points = np.concatenate([rng.normal(0.0, 0.01, size=(50, 1)), rng.normal(100.0, 0.01, size=(50, 1))])
    for _ in range(20):
        assert (spread_out_centres(points, 2, rng) > 50.0).sum() == 1
    assert len(spread_out_centres(np.repeat([[1.0], [2.0]], 5, axis=0), 4, rng)) == 2


@pytest.mark.parametrize("shape", [{"variance": 0.01}, {"covariance": "diagonal"}])
def test_starts_are_of_all_kinds_with_few_points_and_a_tree_with_very_few(shape, rng):
    """Except if the variance is known: the bound is then a good judge."""
    begun = {}
    for count in (8, 9, 30):
        points = rng.normal(size=count)
        for restarts in (0, 3):
            model = db.GaussianMixture(3, 1, **shape, ascent=db.Ascent(restarts=restarts))
            on_top = model.from_assignments(points[:6], np.arange(6) // 2)
            begun[count, restarts] = [*kinds_begun(model, points), "on top", *kinds_begun(model, points, prior=on_top)]
    centres, both = ["k-means++"] * 4, ["k-means++", "random"] * 2
    few = ["tree"] if "covariance" in shape else ["tree", *both[:3]]
    assert begun == {
        (8, 0): ["tree", "on top", *both[:1]],
        (8, 3): [*few, "on top", *both],
        (9, 0): ["tree", "on top", *both[:1]],
        (9, 3): ["tree", *both[:3], "on top", *both],
        (30, 0): ["k-means++", "on top", "k-means++"],
        (30, 3): [*centres, "on top", *centres],
    }


def kinds_begun(model, data, place=3, **options):
    """The kinds of starts of a fit, in order."""
    begun, original = [], type(model)._begin
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model), "_begin", lambda *args: begun.append(args[place]) or original(*args))
        model.fit(data, rng=1, **options)
    return begun


def test_a_tree_of_all_points_is_grown_once_and_one_of_a_sample_each_time(rng):
    model = db.GaussianMixture(3, 1, variance=1.0, start_from="tree", ascent=db.Ascent(passes=1, restarts=2))
    assert kinds_begun(model, rng.normal(size=200)) == ["tree"]
    assert kinds_begun(model, rng.normal(size=201)) == ["tree"] * 3


@pytest.mark.parametrize(
    ("steps", "states", "expected"),
    [
        (5, 2, ["tree"]),
        (6, 2, ["tree", "k-means++", "random"]),
        (200, 25, ["tree", "k-means++", "random"]),
        (201, 25, ["k-means++", "random", "k-means++"]),
        (20, 2, ["k-means++"] * 3),
    ],
)
def test_states_start_from_trees_of_few_steps(steps, states, expected, rng):
    model = db.HiddenMarkov(states, columns={"x": "real"}, ascent=db.Ascent(passes=1, restarts=2))
    sequences = [rng.normal(size=(steps, 1))]
    assert kinds_begun(model, sequences, place=4) == expected
    if steps == 5:
        before = model.fit(sequences, rng=1).posterior
        assert kinds_begun(model, sequences, place=4, prior=before) == ["k-means++", "random", "k-means++"]


@pytest.mark.parametrize("seed", [2, 3, 5])
def test_sites_of_five_rows_keep_apart_what_a_merge_tells_apart(seed):
    """The bound would join some rows of different classes, which cost such merges 0.2 to 1.4 nats."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet([0.5] * 4, (5, 16)).cumsum(axis=2)

    def rows(count):
        return (rng.random((count, 16, 1)) > chances[rng.integers(5, size=count)]).sum(axis=2).clip(0, 3)

    shards, held_out = [rows(5) for _ in range(8)], rows(1000)
    model = db.CategoricalMixture(5, 16, categories=4)
    merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards], components=5)
    whole = model.fit(np.concatenate(shards), rng=rng).posterior
    assert model.score(merged, held_out) > model.score(whole, held_out) - 0.1


def test_a_tree_of_correlated_columns_needs_memory_for_its_rows_only(rng):
    """What each of 3,321 features adds is a matrix of 170 MB."""
    tracemalloc.start()
    db.GaussianMixture(3, 80, ascent=db.Ascent(passes=0)).fit(rng.normal(size=(6, 80)), rng=0)
    assert tracemalloc.get_traced_memory()[1] < 5e7
    tracemalloc.stop()


def test_a_tree_of_some_rows_starts_large_tables_with_many_classes_better_than_centres(rng):
    chances = rng.dirichlet([0.5] * 4, (10, 30)).cumsum(axis=2)
    rows = (rng.random((50, 30, 1)) > chances[np.arange(50) % 10]).sum(axis=2).clip(0, 3)
    bounds = {
        kind: db.CategoricalMixture(10, 30, categories=4, start_from=kind).fit(rows, rng=1).bound[-1]
        for kind in ("tree", "k-means++", "random")
    }
    assert bounds["tree"] > max(bounds["k-means++"], bounds["random"]) + 5.0


def test_a_start_from_centres_finds_what_random_responsibilities_miss(rng):
    points = np.repeat(np.arange(8.0) * 20, 8)[:, None] + rng.normal(size=(64, 1))
    fits = {
        kind: db.GaussianMixture(8, 1, variance=1.0, prior_variance=4000.0, start_from=kind)
        .fit(points, rng=1)
        .bound[-1]
        for kind in ("random", None)
    }
    assert fits[None] > fits["random"] + 10


def test_a_climb_ends_where_a_pass_gains_less_than_the_tolerance_per_observation():
    from decbayes.models.core.ascent import Ascent, climb

    bounds = iter([-100.0, -60.0, -50.0, -49.7, -49.69, 0.0])
    reached = climb(0, lambda state: (state + 1, next(bounds)), Ascent(tolerance=0.1), 5, lambda number, bound: None)
    assert reached.bound == (-100.0, -60.0, -50.0, -49.7)
    assert reached.converged
    bounds = iter([-5.0, -5.0, -5.0, -5.0])
    late = climb(0, lambda state: (state + 1, next(bounds)), Ascent(warm_up=2), 1, lambda number, bound: None)
    assert len(late.bound) == 4


def test_an_uncertain_feature_is_assigned_by_its_expected_log_likelihood():
    """E[log N(y; μ, σ²)] − log N(y; 0, σ²) of the values that are seen, plus the log-odds of the prior."""
    mean, variance, noise = np.array([1.0, -0.5, 2.0]), 0.3, 0.6
    observed = np.array([0.8, np.nan, 0.1])
    alpha, beta = np.array([2.0]), np.array([3.0])
    believed = feature_prediction.FeaturePosterior(mean[None], np.array([variance]), alpha, beta, noise)
    seen = ~np.isnan(observed)
    expected = (observed[seen] - mean[seen]) ** 2 + variance
    odds = np.log(2 / 3) - 0.5 * np.sum(expected - observed[seen] ** 2) / noise
    assert feature_prediction.assignments_given(believed, observed[None])[0, 0] == pytest.approx(
        1 / (1 + np.exp(-odds))
    )


def test_a_fit_of_no_passes_is_where_it_was_told_to_start(topics, rng):
    counts = corpus(rng)
    still = db.Ascent(passes=0)
    prior = topics.fit(counts, rng=rng).posterior
    start = topics.fit(counts, rng=rng, prior=prior).posterior
    begun = replace(topics, ascent=still).fit(counts, rng=rng, prior=prior, start=start).posterior
    np.testing.assert_allclose(begun.natural["topics"], start.natural["topics"], atol=1e-5)
    mixture, points = db.GaussianMixture(2, dimension=1, variance=1.0), rng.normal(size=40)
    start = mixture.fit(points, rng=rng).posterior
    begun = replace(mixture, ascent=still).fit(points, rng=rng, start=start).posterior
    np.testing.assert_allclose(begun.natural["components"], start.natural["components"])


@pytest.mark.parametrize("covariance", ["spherical", "diagonal", "full"])
def test_a_model_that_comes_back_weighs_its_prior_scale_as_before(covariance):
    model = db.GaussianMixture(2, 3, covariance=covariance, prior_degrees=7.3, prior_scale=0.4)
    back = db.model_for(model.structure)
    assert (back.prior_degrees, back.prior_scale) == (pytest.approx(7.3), pytest.approx(0.4))
