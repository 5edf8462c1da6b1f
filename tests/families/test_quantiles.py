"""Quantiles of every family's marginals: against samples, against SciPy, and stretched to another deviation."""

import numpy as np
import pytest
from draws import ALL, natural
from scipy import stats

from decbayes.families import FAMILIES

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


@pytest.mark.parametrize("name", [name for name in ALL if name not in DISCRETE | {"InverseGamma"}])
def test_a_stretched_marginal_has_its_mean_and_the_deviation_asked_for(name, rng):
    """Both taken from the quantile function itself, by an integral over probabilities."""
    family, times = FAMILIES[name], 1.3
    parameters = natural(name, rng, 2, 2)
    # Midpoints leave out what lies beyond the last of them: tails of a Student t with few degrees of freedom.
    grid = (np.arange(400) + 0.5) / 400
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
