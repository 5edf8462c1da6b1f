"""The shape of importance ratios: that of ArviZ, and large where mean field is known to be too narrow."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import bernoulli, genpareto, norm

import decbayes as db
from decbayes.calibration.checks import Diagnosis, contribution_terms
from decbayes.calibration.tails import pareto_shape
from decbayes.errors import NotCalibrated


# arviz_stats 0.8.0: array_stats.psislw(-ratios)[1]
@pytest.mark.parametrize(
    ("seed", "scale", "shape"),
    [(0, 0.3, 0.4020918521044957), (1, 1.0, 1.0636055719520738), (2, 2.0, 1.5967285649672693)],
)
def test_the_shape_is_that_of_arviz(seed, scale, shape):
    ratios = scale * np.random.default_rng(seed).standard_t(5, size=1000)
    assert pareto_shape(ratios) == pytest.approx(shape, rel=1e-12)
    assert pareto_shape(ratios + 1e4) == pytest.approx(shape, rel=1e-6), "a constant says nothing"


@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.7, 1.2])
def test_the_shape_of_a_pareto_distribution_is_found(shape):
    ratios = np.log(genpareto.rvs(shape, size=20_000, random_state=1))
    # 424 in the tail: a standard error of (1 + k) / 20, and a prior at a half worth ten of them.
    assert pareto_shape(ratios) == pytest.approx(shape, abs=0.2)


@pytest.mark.parametrize("tail", [-800.0, -745.0, -np.inf])
def test_where_a_few_draws_have_all_of_the_weight_the_shape_is_infinite(tail):
    """It once was NaN, for which no warning was given."""
    ratios = np.r_[0.0, -1.0, tail * np.arange(1, 999)]
    assert pareto_shape(ratios) == np.inf
    assert pareto_shape(np.full(1000, -np.inf)) == np.inf, "no draw can have produced the data"
    assert "misses part" in str(Diagnosis(np.inf, 1000))


def test_an_approximation_whose_ratios_hardly_differ_is_close_whatever_their_tail(rng):
    """A logistic regression of a thousand rows is normal to a few per cent, and k is about 0.9."""
    predictor = rng.normal(size=1000)
    table = np.column_stack([predictor, rng.random(1000) < 1 / (1 + np.exp(-0.5 * predictor))])
    model = db.LogisticRegression("y", columns={"x": "real", "y": "yes/no"})
    found = db.checking.diagnose(model, [table], model.fit(table).posterior)
    assert found.shape > 0.5
    assert found.counting > 0.99
    assert found.close
    assert "of the draws count" in str(found)
    assert not Diagnosis(0.8, 1000, 0.94).close
    assert "misses part" in str(Diagnosis(0.8, 1000, 0.94))


def total(blocks):
    """Σ log p(x | θ) over all observations, for each draw."""
    return np.concatenate([*blocks], axis=1).sum(axis=1)


def two_clusters(place, rng, count=300):
    model = db.GaussianMixture(2, dimension=1, variance=0.25, prior_variance=4.0)
    points = rng.normal(np.array([-place, place])[rng.integers(2, size=(count, 1))], 0.5)
    return model, points, model.fit(points, rng=rng).posterior


def test_ratios_are_those_of_the_densities(rng):
    """log p(x, θ) − log q(θ) of a mixture by SciPy's densities, up to one constant."""
    model, points, posterior = two_clusters(0.8, rng, 40)
    values = posterior.sample(20, rng)
    means, weights = values["components"][..., 0], values["weights"]
    joint = logsumexp(norm.logpdf(points, means[:, None, :], 0.5) + np.log(weights)[:, None, :], axis=2).sum(axis=1)
    for name, family in posterior.structure.families.items():
        prior, natural = posterior.structure.prior[name], posterior.natural[name]
        for sign, each in ((1.0, prior), (-1.0, natural)):
            joint += sign * np.sum(np.atleast_2d(family.log_density(each, values[name]).T).T, axis=-1)
    ratios = total(model.log_likelihoods(values, points)) - contribution_terms(posterior, values)
    np.testing.assert_allclose(ratios - ratios[0], joint - joint[0], atol=1e-8)


def test_the_likelihood_of_a_regression_is_that_of_its_outcomes(rng):
    columns = {"a": db.columns.Gaussian(0, 1), "y": "yes/no"}
    model = db.LogisticRegression("y", columns=columns, prior_variance=1.0)
    data = db.simulate(model, 50, rng=rng).data
    posterior = model.fit(data, rng=rng).posterior
    values = posterior.sample(5, rng)
    design, targets = model.table.parts(data)
    lines = np.einsum("sd,nd->sn", values["coefficients"][:, 0], design)
    expected = bernoulli.logpmf(targets, 1 / (1 + np.exp(-lines))).sum(axis=1)
    # A sum of eight error functions stands for the logarithm.
    np.testing.assert_allclose(total(model.log_likelihoods(values, data)), expected, atol=0.05)
    assert db.checking.diagnose(model, [data], posterior).shape < 0.9


def test_the_shape_grows_as_clusters_overlap_and_adds_up_over_sites(rng):
    apart, overlapping = two_clusters(1.5, rng), two_clusters(0.5, rng)
    near = db.checking.diagnose(apart[0], [apart[1]], apart[2])
    far = db.checking.diagnose(overlapping[0], [overlapping[1]], overlapping[2])
    assert near.shape < 0.3 < 0.45 < far.shape
    assert near.close
    assert "is close" in str(near)
    shards = np.array_split(overlapping[1], 3)
    assert db.checking.diagnose(overlapping[0], shards, overlapping[2]).shape == pytest.approx(far.shape, rel=1e-6)


def test_an_exact_posterior_is_said_to_be(rng):
    model = db.GaussianMixture(1, dimension=1, variance=1.0)
    points = rng.normal(size=(30, 1))
    assert "exact" in str(db.checking.diagnose(model, [points], model.fit(points, rng=rng).posterior))


def test_models_that_cannot_say_refuse_in_one_line(rng):
    model = db.LatentFeatures(2, 3)
    with pytest.raises(NotCalibrated, match="does not say how probable data are"):
        db.checking.diagnose(model, [np.zeros((4, 3))], db.Posterior.of_prior(model.structure))


def test_the_data_of_some_sites_judge_no_merge(rng):
    model = db.GaussianMixture(1, 1, variance=1.0)
    shards = [rng.normal(size=(20, 1)), rng.normal(size=(25, 1))]
    merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards])
    assert db.checking.diagnose(model, iter(shards), merged).close
    with pytest.raises(NotCalibrated, match=r"holds 45 observations, these parts 20 \(shard 0 20\)"):
        db.checking.diagnose(model, shards[:1], merged)
