"""Laws that every exponential family obeys."""

from itertools import permutations

import numpy as np
import pytest
from draws import ALL, ONE_SIDED, contribution, natural, over_seeds
from hypothesis import strategies as st
from scipy.sparse import csr_array

from decbayes.families import FAMILIES, Dirichlet, Dirichlets

sizes = st.integers(1, 4)


@pytest.mark.parametrize("name", ALL)
@over_seeds(rows=sizes, dimension=st.integers(1, 3))
def test_mean_is_the_gradient_of_the_log_partition(name, seed, rows, dimension):
    family = FAMILIES[name]
    point = natural(name, np.random.default_rng(seed), rows, dimension)
    numeric = np.empty_like(point)
    for place in np.ndindex(*point.shape):
        room = distance_to_boundary(family, point, place)
        coarse, fine = (slope(family.log_partition, point, place, step * room) for step in (1e-3, 5e-4))
        # Extrapolating from two steps leaves an error of the fourth order.
        numeric[place] = (4 * fine - coarse) / 3
    np.testing.assert_allclose(family.expected_statistics(point), numeric, rtol=2e-6, atol=2e-6)


def slope(function, point, place, size):
    up, down = point.copy(), point.copy()
    up[place] += size
    down[place] -= size
    return (function(up) - function(down)) / (2 * size)


def distance_to_boundary(family, point, place):
    """How far one coordinate may move either way and stay inside the domain, roughly."""
    for size in (1.0, 0.3, 0.1, 0.03, 0.01, 0.003):
        up, down = point.copy(), point.copy()
        up[place] += size
        down[place] -= size
        if family.contains(up) and family.contains(down):
            return size
    return 0.001


@pytest.mark.parametrize("name", ALL)
@over_seeds(rows=sizes, dimension=sizes)
def test_usual_and_natural_parameters_are_inverse(name, seed, rows, dimension):
    family = FAMILIES[name]
    point = natural(name, np.random.default_rng(seed), rows, dimension)
    usual = family.parameters(point)
    assert tuple(usual) == family.parameter_names
    np.testing.assert_allclose(family.natural(**usual), point, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
@over_seeds(rows=sizes, dimension=sizes)
def test_examples_are_in_the_domain_and_of_the_dimension_asked_for(name, seed, rows, dimension):
    family = FAMILIES[name]
    point = family.example(rows, dimension, np.random.default_rng(seed))
    assert len(point) == rows
    assert family.contains(point)
    # One whose columns are grouped has as many as the groups have.
    assert family.dimension(point.shape[1]) in (1, dimension) or family == Dirichlets()
    assert np.isfinite(family.row_terms(point)).all()


@pytest.mark.parametrize(
    ("name", "widths"),
    [
        ("Dirichlet", (1, 2, 3)),
        ("Categorical", (1, 2, 3)),
        ("Weights", (1,)),
        ("Bernoulli", (1,)),
        ("Beta", (2, 4, 6)),
        ("Gamma", (2, 4, 6)),
        ("DiagonalGaussian", (2, 4, 6)),
        ("IsotropicGaussian", (2, 3, 4)),
        ("IsotropicNormalGamma", (4, 5, 6)),
        ("NormalGamma", (4, 8, 12)),
        ("FullGaussian", (2, 6, 12)),
        ("NormalWishart", (4, 8, 14)),
        ("GaussianGamma", (4, 8, 14)),
    ],
)
def test_widths_of_one_two_and_three_dimensions(name, widths):
    """Counted by hand from the columns that each family documents; all other widths are refused."""
    family = FAMILIES[name]
    for width in range(widths[-1] + 1):
        if width in widths:
            assert family.dimension(width) == widths.index(width) + 1
        else:
            with pytest.raises(ValueError, match="column"):
                family.dimension(width)


@pytest.mark.parametrize("name", ALL)
@over_seeds(rows=sizes, dimension=sizes)
def test_evidence_adds_up_within_the_domain(name, seed, rows, dimension):
    family, generator = FAMILIES[name], np.random.default_rng(seed)
    total = natural(name, generator, rows, dimension)
    for scale in (1e-6, 1.0, 1e6):
        evidence = scale * contribution(name, generator, rows, dimension)
        total = total + evidence
        assert family.contains(total)
        assert family.contains(family.apex(total.shape[1]) + evidence)


@pytest.mark.parametrize("name", ALL)
def test_values_are_put_together_from_their_quantities(name, rng):
    family = FAMILIES[name]
    point = natural(name, rng)
    draws = family.sample(point, 3, rng)
    parts = family.quantities(draws)
    assert tuple(parts) in {("value",), ("mean", "precision")}
    assert parts.keys() == family.quantities(family.expected(point)).keys()
    again = family.of_quantities(parts)
    np.testing.assert_array_equal(family.statistics(again), family.statistics(draws))


@pytest.mark.parametrize("name", ALL)
def test_samples_have_the_mean_statistics(name, rng):
    family = FAMILIES[name]
    point = natural(name, rng)
    draws = family.statistics(family.sample(point, 40_000, rng))
    error = draws.std(axis=0) / np.sqrt(len(draws))
    # Five standard errors: about one false alarm in a million entries.
    assert (np.abs(draws.mean(axis=0) - family.expected_statistics(point)) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("name", ALL)
def test_expected_value_is_the_mean_of_samples(name, rng):
    family = FAMILIES[name]
    point = natural(name, rng)
    draws = family.quantities(family.sample(point, 40_000, rng))
    for quantity, mean in family.quantities(family.expected(point)).items():
        values = draws[quantity]
        error = values.std(axis=0) / np.sqrt(len(values))
        assert (np.abs(values.mean(axis=0) - mean) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("name", ALL)
def test_entropy_and_divergence_are_means_of_log_densities(name, rng):
    family = FAMILIES[name]
    point, other = natural(name, rng), natural(name, rng)
    draws = family.sample(point, 40_000, rng)
    log_q, log_p = family.log_density(point, draws), family.log_density(other, draws)
    assert abs(-log_q.mean() - family.entropy(point)) < 5 * log_q.std() / 200 + 1e-9
    assert abs((log_q - log_p).mean() - family.kl(point, other)) < 5 * (log_q - log_p).std() / 200 + 1e-9


@pytest.mark.parametrize("name", ALL)
@over_seeds(rows=st.integers(2, 4))
def test_divergence_is_zero_only_from_itself(name, seed, rows):
    family, generator = FAMILIES[name], np.random.default_rng(seed)
    point, other = natural(name, generator, rows), natural(name, generator, rows)
    assert abs(family.kl(point, point)) < 1e-9
    assert family.kl(point, other) > 0


@pytest.mark.parametrize("name", ALL)
@over_seeds(rows=sizes, dimension=sizes)
def test_gain_ranks_permutations_as_the_log_partition_does(name, seed, rows, dimension):
    family, generator = FAMILIES[name], np.random.default_rng(seed)
    rest, own = natural(name, generator, rows, dimension), contribution(name, generator, rows, dimension)
    gain = family.gain(rest, own)
    assert np.isfinite(gain).all(), "evidence never leaves the domain"
    slack = [
        gain[range(rows), order].sum() - family.log_partition(rest + own[list(order)])
        for order in permutations(range(rows))
    ]
    np.testing.assert_allclose(slack, slack[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_gain_in_blocks_equals_gain_at_once(name, rng, monkeypatch):
    family = FAMILIES[name]
    rest, own = natural(name, rng, 5), natural(name, rng, 5) * 0.0
    whole = family.gain(rest, own)
    monkeypatch.setattr("decbayes.families.family.BLOCK", 1)
    np.testing.assert_allclose(family.gain(rest, own), whole, atol=1e-12)


@pytest.mark.parametrize("name", ALL)
@over_seeds(first=st.floats(0, 1))
def test_domain_and_log_partition_are_convex(name, seed, first):
    family, generator = FAMILIES[name], np.random.default_rng(seed)
    point, other = natural(name, generator), natural(name, generator)
    between = first * point + (1 - first) * other
    assert family.contains(between)
    upper = first * family.log_partition(point) + (1 - first) * family.log_partition(other)
    assert family.log_partition(between) <= upper + 1e-9 * (1 + abs(upper))


@pytest.mark.parametrize("name", ALL)
def test_not_a_number_is_outside_the_domain(name, rng):
    family = FAMILIES[name]
    for value in (np.nan, np.inf, -np.inf):
        point = natural(name, rng)
        point[0, 0] = value
        assert not family.contains(point)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("Dirichlet", 0, -1.0),
        ("Dirichlets", 4, -1.0),
        ("Weights", 0, -1.0),
        ("Beta", 1, -1.5),
        ("Beta", 3, -1.5),
        ("IsotropicGaussian", -1, 0.1),
        ("DiagonalGaussian", -1, 0.0),
        ("FullGaussian", -1, 1.0),
        ("Gamma", -1, 0.5),
        ("NormalGamma", -1, 0.0),
        ("NormalGamma", 4, 100.0),
        ("IsotropicNormalGamma", -1, 0.1),
        ("IsotropicNormalGamma", 0, -1.5),
        ("IsotropicNormalGamma", 1, 0.5),
        ("GaussianGamma", -1, 1.0),
        ("GaussianGamma", 1, 0.5),
        ("GaussianGamma", 0, -1.5),
        ("NormalWishart", -1, 0.1),
        ("NormalWishart", 0, -1.5),
    ],
)
def test_rows_outside_the_domain_are_found(name, column, value, rng):
    point = natural(name, rng)
    point[1, column] = value
    assert FAMILIES[name].contains_rows(point).tolist() == [True, False, True]


@pytest.mark.parametrize("name", ONE_SIDED)
@over_seeds(rows=sizes, dimension=sizes)
def test_divergences_are_from_the_prior(name, seed, rows, dimension):
    family, generator = FAMILIES[name], np.random.default_rng(seed)
    prior, added = natural(name, generator, rows, dimension), contribution(name, generator, rows, dimension)
    order = generator.permutation(rows)
    expected = family.kl(prior + added[order], prior)
    # The terms that cancel are as large as A; a divergence near zero has only their last digits.
    slack = 1e-12 * (1 + np.abs(family.row_terms(prior + added)).sum())
    assert family.divergence(prior, family.rows(added, order)) == pytest.approx(expected, rel=1e-9, abs=slack)


def test_sparse_dirichlet_divergence_and_gain_equal_the_dense_ones(rng):
    family = Dirichlet()
    prior = family.natural(alpha=np.full((4, 30), 0.01))
    own = csr_array(np.where(rng.random((4, 30)) < 0.2, rng.gamma(1.0, 5.0, size=(4, 30)), 0.0))
    for same in (prior, np.broadcast_to(prior[:1], prior.shape), np.broadcast_to(prior[:1, :1], prior.shape)):
        expected = family.kl(prior + own.toarray(), prior)
        assert family.divergence(same, family.rows(own)) == pytest.approx(expected, rel=1e-10)
    rest = prior + rng.gamma(0.5, 3.0, size=prior.shape)
    one_by_one = [[family.row_terms(rest[[k]] + own[[j]].toarray())[0] for j in range(4)] for k in range(4)]
    expected = np.array(one_by_one) - family.row_terms(rest)[:, None]
    np.testing.assert_allclose(family.gain(rest, own), expected, rtol=1e-10)


def test_gain_outside_the_domain_is_not_a_number():
    rest = Dirichlet().natural(alpha=np.full((2, 3), 0.5))
    own = np.array([[-0.6, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert np.isnan(Dirichlet().gain(rest, own)).tolist() == [[True, False], [True, False]]
    isotropic = FAMILIES["IsotropicGaussian"]
    loose = isotropic.natural(mean=np.zeros((2, 1)), variance=1.0)
    widened = np.array([[0.0, 0.6], [0.0, -0.1]])
    assert np.isnan(isotropic.gain(loose, widened)).tolist() == [[True, False], [True, False]]


def test_tiny_dirichlet_parameters_can_be_sampled(rng):
    draws = Dirichlet().sample(Dirichlet().natural(alpha=np.full((2, 50), 1e-4)), 100, rng)
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.sum(axis=-1), 1.0)


@pytest.mark.parametrize("name", ALL)
@over_seeds(rows=sizes, dimension=st.integers(1, 3))
def test_covariance_is_the_gradient_of_the_mean(name, seed, rows, dimension):
    family = FAMILIES[name]
    point = natural(name, np.random.default_rng(seed), rows, dimension)
    columns = []
    for place in np.ndindex(*point.shape):
        room = distance_to_boundary(family, point, place)
        coarse, fine = (slope(family.expected_statistics, point, place, step * room) for step in (1e-3, 5e-4))
        columns.append(((4 * fine - coarse) / 3).ravel())
    covariance = family.covariance(point)
    np.testing.assert_allclose(covariance, np.array(columns).T, rtol=2e-5, atol=2e-5 * np.abs(covariance).max())
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_the_divergence_of_many_sites_is_that_of_each(name, rng):
    family, prior = FAMILIES[name], natural(name, rng, 3, 2)
    sites = [contribution(name, rng, 3, 2) for _ in range(5)]
    orders = [rng.permutation(3) for _ in sites]
    each = []
    for own, order in zip(sites, orders, strict=True):
        rows = family.rows(own, order)
        each.append(family.divergence(prior, rows) if family.contains_sum(prior, rows).all() else 0.0)
    np.testing.assert_allclose(family.divergences(prior, sites, orders), each, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "vanishing"),
    [
        ("Dirichlet", ["alpha"]),
        ("Beta", ["alpha", "beta"]),
        ("Gamma", ["shape", "rate"]),
        ("NormalGamma", ["strength", "shape", "rate"]),
        ("IsotropicNormalGamma", ["strength", "shape", "rate"]),
        ("GaussianGamma", ["shape", "rate"]),
    ],
)
def test_at_the_apex_no_evidence_is_left(name, vanishing, rng):
    """What counts observations goes to zero with the evidence, and in proportion to it."""
    family = FAMILIES[name]
    point = natural(name, rng)
    apex = family.apex(point.shape[1])
    whole, little = (family.parameters(apex + share * (point - apex)) for share in (1.0, 1e-6))
    for parameter in vanishing:
        np.testing.assert_allclose(little[parameter], 1e-6 * np.asarray(whole[parameter]), rtol=1e-6)
