"""One signature for all predictions: whole observations, or a part of each given the rest."""

import numpy as np
import pytest
from scipy import integrate
from scipy.sparse import csr_array
from scipy.special import logsumexp

import decbayes as db

MIXTURES = [
    db.GaussianMixture(2, 2, variance=0.5),
    db.GaussianMixture(2, 2, covariance="spherical"),
    db.GaussianMixture(2, 2, covariance="diagonal"),
    db.GaussianMixture(2, 2, covariance="full"),
]


@pytest.mark.parametrize("model", MIXTURES, ids=lambda model: str(model.covariance))
def test_a_held_value_is_predicted_as_the_whole_density_says(model, rng):
    """p(y | x) = p(x, y) / ∫ p(x, y) dy, by quadrature."""
    points = rng.normal(size=(40, 2)) @ [[1.0, 0.8], [0.0, 0.6]] + rng.choice([-2.0, 2.0], size=(40, 1))
    posterior = model.fit(points, rng=rng).posterior
    x, y = 1.3, -0.4
    conditional = model.log_predictive(posterior, [[x, np.nan]], [[np.nan, y]])[0]
    joint = np.exp(model.log_predictive(posterior, [[x, y]])[0])
    grid = np.linspace(-60, 60, 24_001)
    whole = np.exp(model.log_predictive(posterior, np.column_stack([np.full(len(grid), x), grid])))
    marginal = integrate.trapezoid(whole, grid)
    assert conditional == pytest.approx(np.log(joint / marginal), abs=1e-4)
    assert model.score(posterior, [[x, np.nan]], [[np.nan, y]]) == pytest.approx(conditional)


def test_the_mean_predicts_each_dimension_by_itself(rng):
    model = db.models.GaussianMean(dimension=2)
    posterior = model.fit(rng.normal(size=(5, 2)), rng=rng).posterior
    whole = model.log_predictive(posterior, [[0.3, -1.0]])
    parts = [
        model.log_predictive(posterior, [[np.nan, -1.0]], [[0.3, np.nan]]),
        model.log_predictive(posterior, [[0.3, np.nan]], [[np.nan, -1.0]]),
    ]
    np.testing.assert_allclose(np.sum(parts, axis=0), whole)
    np.testing.assert_array_equal(model.assign(posterior, [[0.0, 0.0]]), [[1.0]])


def test_a_density_of_whole_feature_vectors_integrates_to_one(rng):
    model = db.LatentFeatures(2, 1, variance=0.3)
    posterior = model.fit(rng.normal(size=(20, 1)), rng=rng).posterior
    mass, _ = integrate.quad(lambda y: np.exp(model.log_predictive(posterior, [[y]])[0]), -20, 20, points=[-2, 0, 2])
    assert mass == pytest.approx(1.0, abs=1e-6)


def test_what_is_said_of_a_whole_document_is_a_lower_bound_and_not_far_below(rng):
    """log ∫ p(document | θ, β) p(θ) q(β), by simple Monte Carlo."""
    model = db.LatentDirichletAllocation(3, tuple("abcdef"), document_prior=0.5)
    posterior = db.Posterior(model.structure, {"topics": rng.gamma(2.0, 3.0, size=(3, 6))})
    document = np.array([[2, 0, 1, 0, 0, 1]])
    topics = posterior.sample(20_000, rng)["topics"]
    shares = rng.dirichlet(np.full(3, 0.5), size=len(topics))
    logs = np.log(np.einsum("nk,nkw->nw", shares, topics)) @ document[0]
    exact = logsumexp(logs) - np.log(len(logs))
    bound = model.log_predictive(posterior, csr_array(document))[0]
    assert exact - 2.0 < bound < exact + 0.02


def test_scores_count_words_values_or_observations(rng):
    topics = db.LatentDirichletAllocation(2, tuple("abc"))
    counts = csr_array([[1, 2, 0], [0, 0, 3]])
    np.testing.assert_array_equal(topics.units(counts), [3, 3])
    np.testing.assert_array_equal(topics.units(counts, csr_array([[0, 1, 0], [0, 0, 0]])), [1, 0])
    np.testing.assert_array_equal(topics.units(csr_array([[0, 0, 0], [2, 0, 1], [0, 0, 0], [0, 5, 0]])), [0, 3, 0, 5])
    np.testing.assert_array_equal(topics.units(csr_array((0, 3), dtype=np.int64)), [])
    mixture = MIXTURES[0]
    np.testing.assert_array_equal(mixture.units(np.zeros((2, 2))), [1, 1])
    np.testing.assert_array_equal(mixture.units(np.zeros((2, 2)), np.array([[1.0, np.nan], [np.nan, np.nan]])), [1, 0])
