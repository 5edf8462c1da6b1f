"""Posteriors from draws and moments: the closest member of each family, what is lost, and labels that switch."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import dirichlet

import decbayes as db
from decbayes.errors import NotConvertible
from decbayes.families import FAMILIES, Dirichlet, Gamma, Weights
from decbayes.interop import (
    from_arviz,
    from_draws,
    from_moments,
    from_topic_counts,
    to_arviz,
    to_ctfidf,
)
from decbayes.interop.draws import project

MIXTURE = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
BUILT_IN = sorted(set(FAMILIES) - {"InverseGamma"})


@pytest.mark.parametrize("name", BUILT_IN)
def test_expected_statistics_determine_the_member_of_a_family(name, rng):
    family = FAMILIES[name]
    dimension = 1 if name in ("Weights", "Shares", "Transitions") else 2
    for _ in range(3):
        natural, start = family.example(3, dimension, rng), family.example(3, dimension, rng)
        if natural.shape != start.shape:
            continue
        found = project(family, family.expected_statistics(natural), start, "it")
        again, meant = family.expected_statistics(found), family.expected_statistics(natural)
        np.testing.assert_allclose(again, meant, rtol=1e-5, atol=1e-7)
        assert family.kl(natural, found) == pytest.approx(0.0, abs=1e-8)


def test_a_dirichlet_of_draws_is_the_likeliest(rng):
    """SciPy maximises the likelihood of the draws; that of the projection is as high."""
    draws = rng.dirichlet([0.5, 2.0, 7.0], size=400)
    structure = db.extending.Structure(
        {"shares": Dirichlet()}, {"shares": Dirichlet().natural(alpha=[[1.0, 1.0, 1.0]])}
    )
    alpha = from_draws(structure, {"shares": draws}).posterior.parameters("shares")["alpha"][0]

    def loss(logs):
        return -dirichlet(np.exp(logs)).logpdf(draws.T).sum()

    best = np.exp(minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9}).x)
    np.testing.assert_allclose(alpha, best, rtol=1e-4)


def test_a_sampler_of_a_posterior_gives_it_back(rng):
    posterior = MIXTURE.fit(np.r_[rng.normal(-4, 1, 60), rng.normal(4, 1, 30)][:, None], rng=rng).posterior
    found = from_draws(MIXTURE.structure, posterior.sample(4000, rng))
    np.testing.assert_allclose(found.posterior.mean("components"), posterior.mean("components"), atol=0.02)
    np.testing.assert_allclose(found.posterior.mean("weights"), posterior.mean("weights"), atol=0.01)
    for ratios in found.spread.values():
        np.testing.assert_allclose(ratios, 1.0, atol=0.06)
    assert found.dependence == pytest.approx(0.0, abs=0.01)
    assert "times as wide" in str(found)


def test_correlations_are_stated_as_lost(rng):
    """Two rows with the correlation r: independence costs −½ log(1 − r²) nats."""
    r = 0.8
    draws = rng.multivariate_normal([0.0, 0.0], [[1.0, r], [r, 1.0]], size=20000)[:, :, None]
    family = FAMILIES["DiagonalGaussian"]
    prior = family.natural(mean=np.zeros((2, 1)), variance=np.full((2, 1), 100.0))
    structure = db.extending.Structure({"x": family}, {"x": prior})
    found = from_draws(structure, {"x": draws})
    assert found.dependence == pytest.approx(-0.5 * np.log(1 - r**2), abs=0.02)
    full = FAMILIES["FullGaussian"]
    whole = db.extending.Structure(
        {"x": full}, {"x": full.natural(mean=np.zeros((1, 2)), covariance=[100 * np.eye(2)])}
    )
    together = from_draws(whole, {"x": draws[:, :, 0]})
    assert together.dependence == pytest.approx(0.0, abs=1e-9)
    covariance = together.posterior.parameters("x")["covariance"][0]
    np.testing.assert_allclose(covariance, np.cov(draws[:, :, 0].T, bias=True), rtol=1e-5)


def test_heavy_tails_are_stated(rng):
    draws = np.exp(1.5 * rng.standard_normal((5000, 1, 1)))
    structure = db.extending.Structure({"rate": Gamma()}, {"rate": Gamma().natural(shape=[[1.0]], rate=[[1.0]])})
    found = from_draws(structure, {"rate": draws})
    assert found.spread["rate"][0] > 1.5


def switching(rng, size=600):
    """Draws of two clear components whose labels switch halfway."""
    means = np.array([-4.0, 4.0]) + 0.2 * rng.standard_normal((size, 2))
    weights = rng.dirichlet([30.0, 60.0], size=size)
    means[size // 2 :], weights[size // 2 :] = means[size // 2 :, ::-1], weights[size // 2 :, ::-1]
    return {"components": means[:, :, None], "weights": weights}


def test_switched_labels_are_refused_or_undone(rng):
    draws = switching(rng)
    with pytest.raises(NotConvertible, match=r"50% of the draws .* align=True"):
        from_draws(MIXTURE.structure, draws)
    found = from_draws(MIXTURE.structure, draws, align=True).posterior
    assert sorted(found.mean("components")[:, 0].round(1)) == [-4.0, 4.0]
    heavy = int(np.argmax(found.mean("weights")))
    assert found.mean("components")[heavy, 0] == pytest.approx(4.0, abs=0.05)
    assert found.mean("weights")[heavy] == pytest.approx(2 / 3, abs=0.02)


def test_relabelled_draws_are_as_wide_and_as_dependent_as_draws_that_never_switched(rng):
    switched = switching(rng)
    order = np.where(np.arange(600)[:, None] < 300, [0, 1], [1, 0])
    steady = {name: draws[np.arange(600)[:, None], order] for name, draws in switched.items()}
    one, other = (from_draws(MIXTURE.structure, switched, align=True), from_draws(MIXTURE.structure, steady))
    for name in ("components", "weights"):
        np.testing.assert_allclose(np.sort(one.spread[name]), np.sort(other.spread[name]))
        np.testing.assert_allclose(one.spread[name], 1.0, atol=0.1)
    assert one.dependence == pytest.approx(other.dependence)


def test_labels_are_undone_by_what_is_most_probable_given_all_draws(rng):
    """Components that differ in one of twelve dimensions: a single draw to compare with would mislead."""
    size, model = 2000, db.GaussianMixture(2, 12, variance=1.0, prior_variance=100.0)
    means = np.zeros((size, 2, 12))
    means[:, :, 0] = [-2.0, 2.0]
    means += 0.5 * rng.standard_normal(means.shape)
    weights = rng.dirichlet([500.0, 500.0], size=size)
    switched = rng.random(size) < 0.5
    means[switched] = means[switched, ::-1]
    found = from_draws(model.structure, {"components": means, "weights": weights}, align=True)
    np.testing.assert_allclose(np.sort(found.posterior.mean("components")[:, 0]), [-2.0, 2.0], atol=0.05)
    assert found.posterior.parameters("components")["variance"] == pytest.approx([0.25, 0.25], rel=0.05)


def test_arviz_comes_back_in(rng):
    pytest.importorskip("arviz_base")
    model = db.GaussianMixture(2, 2, covariance="full")
    posterior = model.fit(np.r_[rng.normal(-4, 1, (60, 2)), rng.normal(4, 1, (60, 2))], rng=rng).posterior
    tree = to_arviz(posterior, draws=3000, rng=rng)
    back = from_arviz(model.structure, tree).posterior
    np.testing.assert_allclose(back.mean("components"), posterior.mean("components"), atol=0.02)
    precisions = (each.mean("components", "precision") for each in (back, posterior))
    np.testing.assert_allclose(*precisions, rtol=0.05)
    with pytest.raises(NotConvertible, match="no variable mu; names="):
        from_arviz(model.structure, tree, names={"components_mean": "mu"})


def test_names_of_the_sampler_and_single_rows(rng):
    structure = db.models.GaussianMean(variance=1.0, dimension=3).structure
    draws = rng.normal(2.0, 0.1, size=(500, 3))
    found = from_draws(structure, {"mu": draws}, names={"mean": "mu"}).posterior
    np.testing.assert_allclose(found.mean("mean")[0], draws.mean(axis=0), atol=1e-6)


def test_moments_are_those_of_the_posterior(rng):
    model = db.LogisticRegression("y", columns={"a": "real", "b": "real", "y": "yes/no"})
    mean, covariance = np.array([0.1, -1.0, 2.0]), np.diag([1.0, 2.0, 3.0]) + 0.5
    posterior = from_moments(model.structure, {"coefficients": (mean, covariance)})
    found = posterior.parameters("coefficients")
    np.testing.assert_allclose(found["mean"][0], mean)
    np.testing.assert_allclose(found["covariance"][0], covariance)
    rates = db.extending.Structure({"rate": Gamma()}, {"rate": Gamma().natural(shape=[[1.0, 1.0]], rate=[[1.0, 1.0]])})
    of_rates = from_moments(rates, {"rate": ([[2.0, 3.0]], [[0.5, 0.25]])})
    np.testing.assert_allclose(of_rates.mean("rate"), [[2.0, 3.0]])
    np.testing.assert_allclose(of_rates.deviation("rate") ** 2, [[0.5, 0.25]])


def test_a_beta_distribution_has_its_moments():
    beta = FAMILIES["Beta"]
    structure = db.extending.Structure({"share": beta}, {"share": beta.natural(alpha=[[1.0]], beta=[[1.0]])})
    posterior = from_moments(structure, {"share": ([[0.3]], [[0.01]])})
    assert np.ravel(posterior.mean("share")) == pytest.approx([0.3])
    assert np.ravel(posterior.deviation("share")) == pytest.approx([0.1])


def test_sites_with_different_samplers_merge_to_the_posterior_of_all(rng):
    """Conjugate, so that draws of each site's posterior, projected and added, are the posterior of all data."""
    model = db.models.GaussianMean(variance=1.0, dimension=1)
    shards = [rng.normal(1.0, 1.0, size=(40, 1)) for _ in range(3)]
    own = [model.fit(shard, rng=rng).posterior.sample(20000, rng) for shard in shards]
    merged = db.merge([from_draws(model.structure, draws).posterior for draws in own])
    whole = model.fit(np.concatenate(shards), rng=rng).posterior
    np.testing.assert_allclose(merged.mean("mean"), whole.mean("mean"), atol=0.01)


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        ({}, "no draws of 'components'"),
        ({"components": np.zeros((5, 3, 1)), "weights": np.full((5, 2), 0.5)}, "expected"),
        ({"components": np.zeros((1, 2, 1)), "weights": np.full((1, 2), 0.5)}, "fewer than two draws"),
        ({"components": np.full((5, 2, 1), np.nan), "weights": np.full((5, 2), 0.5)}, "NaN"),
        ({"components": np.zeros((5, 2, 1)), "weights": np.full((5, 2), 0.5)}, "too few draws are different"),
    ],
)
def test_other_draws_are_refused(draws, words):
    with pytest.raises(NotConvertible, match=words):
        from_draws(MIXTURE.structure, draws)


def test_other_moments_are_refused():
    with pytest.raises(NotConvertible, match="same factors"):
        from_moments(MIXTURE.structure, {"components": (0.0, 1.0)})
    weights = db.extending.Structure({"weights": Weights()}, {"weights": Weights().natural(alpha=[1.0, 1.0])})
    with pytest.raises(NotConvertible, match="use from_draws"):
        from_moments(weights, {"weights": ([0.5, 0.5], [0.1, 0.1])})


LINE = db.LogisticRegression("y", columns={"a": "real", "y": "yes/no"}).structure
RATE = db.extending.Structure({"coefficients": Gamma()}, {"coefficients": Gamma().natural(shape=[[1.0]], rate=[[1.0]])})


@pytest.mark.parametrize(
    ("structure", "mean", "variance"),
    [
        (LINE, [0.0, 0.0], np.ones((2, 2))),
        (LINE, [0.0, 0.0], -np.eye(2)),
        (RATE, [[2.0]], [[0.0]]),
        (RATE, [[-2.0]], [[1.0]]),
    ],
)
def test_moments_that_no_member_has_are_refused(structure, mean, variance):
    with pytest.raises(NotConvertible, match="a variance must be positive, a covariance matrix positive definite"):
        from_moments(structure, {"coefficients": (mean, variance)})


def test_topics_of_clusters_come_in_as_counts_and_go_out_as_weights(rng):
    """c-TF-IDF as BERTopic's ClassTfidfTransformer has it: tf normalised by topic, idf = log(1 + A / f)."""
    counts = rng.poisson(3.0, size=(4, 10))
    counts[:, 0] = 0
    posterior = from_topic_counts(counts, vocabulary=tuple("abcdefghij"))
    np.testing.assert_array_equal(posterior.contribution["topics"].toarray(), counts)
    expected = np.zeros(counts.shape)
    for k, w in np.argwhere(counts):
        expected[k, w] = counts[k, w] / counts[k].sum() * np.log(1 + counts.sum() / 4 / counts[:, w].sum())
    np.testing.assert_allclose(to_ctfidf(posterior), expected)
    merged = db.merge([posterior, from_topic_counts(counts[::-1], vocabulary=tuple("abcdefghij"))])
    np.testing.assert_allclose(np.sort(to_ctfidf(merged), axis=0), np.sort(expected, axis=0))
