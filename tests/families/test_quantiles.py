"""Quantiles of every family's marginals: against samples, against SciPy, and stretched to another deviation."""

import numpy as np
import pytest
from draws import ALL, natural
from scipy import integrate, stats

from decbayes.families import FAMILIES, quantiles

DISCRETE = {"Bernoulli", "Categorical"}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("probability", [0.05, 0.5, 0.95])
def test_so_much_of_the_samples_lies_below_a_quantile(name, probability, rng):
    family = FAMILIES[name]
    parameters = natural(name, rng, 2, 2)
    drawn = family.quantities(family.sample(parameters, 40_000, rng))
    for quantity, bound in family.quantities(family.quantile(parameters, probability)).items():
        assert bound.shape == drawn[quantity].shape[1:]
        if name in DISCRETE:
            assert set(np.unique(bound)) <= {0.0, 1.0}
            continue
        # 40,000 draws: a share is good to 0.0025; five of these, and rounding of sampled quantiles.
        np.testing.assert_allclose((drawn[quantity] < bound).mean(axis=0), probability, atol=0.015)


@pytest.mark.parametrize("name", ALL)
def test_who_asks_for_no_stretch_gets_the_marginal_itself(name, rng):
    family, point = FAMILIES[name], natural(name, rng, 2, 2)
    plain, once = (family.quantities(family.quantile(point, 0.2, *stretch)) for stretch in ((), (1.0,)))
    for quantity, values in plain.items():
        np.testing.assert_array_equal(values, once[quantity])


@pytest.mark.parametrize("name", [name for name in ALL if name not in DISCRETE | {"InverseGamma"}])
def test_a_stretched_marginal_has_its_mean_and_the_deviation_asked_for(name, rng):
    """Both taken from the quantile function itself, by an integral over probabilities."""
    family, times = FAMILIES[name], 1.3
    parameters = natural(name, rng, 2, 2)
    # Midpoints leave out what lies beyond the last of them: tails of a Student t with few degrees of freedom.
    grid = (np.arange(100) + 0.5) / 100
    values = [family.quantities(family.quantile(parameters, p, times)) for p in grid]
    plain = [family.quantities(family.quantile(parameters, p)) for p in grid]
    for quantity, mean in family.quantities(family.expected(parameters)).items():
        drawn, narrow = (np.array([each[quantity] for each in series]) for series in (values, plain))
        np.testing.assert_allclose(drawn.std(axis=0) / narrow.std(axis=0), times, rtol=0.02)
        np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.02 * narrow.std(axis=0).max())


def test_intervals_stay_in_the_domain_however_far_they_are_stretched(rng):
    for name, top in (("Weights", 1.0), ("Dirichlet", 1.0), ("Beta", 1.0), ("Gamma", np.inf)):
        family, parameters = FAMILIES[name], natural(name, rng, 3, 2)
        bounds = [family.quantile(parameters, p, 9.0) for p in (0.05, 0.95)]
        assert (bounds[0] >= 0.0).all()
        assert (bounds[1] <= top).all()


def test_marginals_agree_with_scipy(rng):
    parameters = natural("NormalWishart", rng, 2, 3)
    family, probability = FAMILIES["NormalWishart"], 0.9
    usual, found = family.parameters(parameters), family.quantile(parameters, probability)
    for k in range(2):
        freedom = usual["degrees"][k] - 3 + 1
        scale = np.sqrt(np.diag(usual["inverse_scale"][k]) / (usual["strength"][k] * freedom))
        np.testing.assert_allclose(found.mean[k], stats.t(freedom, usual["mean"][k], scale).ppf(probability))
        diagonal = np.diag(np.linalg.inv(usual["inverse_scale"][k]))
        theirs = diagonal * stats.chi2(usual["degrees"][k]).ppf(probability)
        np.testing.assert_allclose(np.diag(found.precision[k]), theirs, rtol=1e-6)
    alpha = natural("Dirichlet", rng, 2, 3) + 1.0
    theirs = stats.beta(alpha, alpha.sum(axis=1, keepdims=True) - alpha).ppf(probability)
    np.testing.assert_allclose(FAMILIES["Dirichlet"].quantile(alpha - 1.0, probability), theirs)
    assert FAMILIES["Dirichlet"].quantile(np.array([[2.0]]), probability) == 1.0


@pytest.mark.parametrize("probability", [0.05, 0.3, 0.5, 0.7, 0.95])
def test_a_coin_and_the_faces_of_a_die_have_the_quantiles_of_scipy(probability):
    shares = np.array([0.1, 0.4, 0.6, 0.9])
    ours = FAMILIES["Bernoulli"].quantile(FAMILIES["Bernoulli"].natural(probability=shares), probability)
    np.testing.assert_array_equal(ours, stats.bernoulli(shares).ppf(probability))
    die = np.array([[0.2, 0.8], [0.55, 0.45]])
    ours = FAMILIES["Categorical"].quantile(FAMILIES["Categorical"].natural(probability=die), probability)
    np.testing.assert_array_equal(ours, stats.bernoulli(die).ppf(probability))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("probability", [0.01, 0.5, 0.99])
def test_entries_of_a_wishart_matrix_have_quantiles_in_their_own_units(scale, probability):
    """Σ x_i x_j of uncorrelated pairs is symmetric about zero; of x with itself it is a multiple of a χ²."""
    freedom, none = np.array([3.0, 8.0]), np.zeros(2)
    both = [quantiles.product(freedom, none, np.full(2, scale), p) for p in (probability, 1.0 - probability)]
    np.testing.assert_allclose(both[0], -both[1], atol=3e-3 * scale)  # 48 nodes for an integral
    alone = quantiles.product(freedom, np.full(2, scale), np.full(2, scale), probability)
    np.testing.assert_allclose(alone, scale * stats.chi2(freedom).ppf(probability), rtol=1e-6)


def test_uncorrelated_products_have_the_quantiles_of_a_product_of_normals():
    """With one degree of freedom Σ x y is x y itself, whose distribution function is an integral that SciPy takes."""
    found = quantiles.product(np.array([1.0]), np.zeros(1), np.ones(1), 0.9)[0]
    below, _ = integrate.quad(lambda x: 2 * stats.norm.pdf(x) * stats.norm.cdf(found / x), 0.0, np.inf)
    assert below == pytest.approx(0.9, abs=2e-3)  # 48 nodes, and a density without bound at zero
