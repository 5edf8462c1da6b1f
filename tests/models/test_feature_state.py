"""The bound of latent features against sampling, and that nothing lowers it."""

import numpy as np
import pytest
from feature_data import feature_error, synthetic
from scipy import stats

from decbayes.models.features._starts import climbed, component_start, moves, repaired, reseeded, tails
from decbayes.models.features._state import FeatureData, Span, State, improved, state_given, state_of

FEATURES, DIMENSION, VARIANCE = 3, 4, 0.3


def problem(seed, *, observations=40):
    """Observations with a prior that differs between features, as a cavity does."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(FEATURES, DIMENSION))
    data = (rng.random((observations, FEATURES)) < 0.5) @ truth + rng.normal(
        0, VARIANCE**0.5, (observations, DIMENSION)
    )
    prior_mean, precision = rng.normal(size=(FEATURES, DIMENSION)), rng.uniform(0.5, 2.0, FEATURES)
    alpha, beta = rng.uniform(0.5, 3.0, (2, FEATURES))
    return FeatureData(data, DIMENSION, VARIANCE, prior_mean * precision[:, None], precision, alpha, beta)


def random_state(known, seed):
    return state_of(known, np.random.default_rng(seed).random((FEATURES, len(known.data))))


def sampled_bound(state, size):
    """E_q[log p(y, z, μ, π) − log q(z, μ, π)] and its standard error, by sampling."""
    known, rng = state.problem, np.random.default_rng(0)
    scale = np.sqrt(state.variances)[:, None]
    mean, prior_scale = known.shift / known.precision[:, None], 1 / np.sqrt(known.precision)[:, None]
    values = []
    for _ in range(size):
        z = rng.random(state.assignments.shape) < state.assignments
        mu = rng.normal(state.means, scale)
        pi = rng.beta(state.alpha, state.beta)
        value = stats.norm.logpdf(known.data, z.T @ mu, known.variance**0.5).sum()
        value += stats.bernoulli.logpmf(z, pi[:, None]).sum() - stats.bernoulli.logpmf(z, state.assignments).sum()
        value += stats.norm.logpdf(mu, mean, prior_scale).sum() - stats.norm.logpdf(mu, state.means, scale).sum()
        value += (
            stats.beta.logpdf(pi, known.alpha, known.beta).sum() - stats.beta.logpdf(pi, state.alpha, state.beta).sum()
        )
        values.append(value)
    return np.mean(values), np.std(values) / np.sqrt(size)


def test_the_bound_is_what_sampling_says():
    state = improved(random_state(problem(0, observations=6), 1))
    expected, error = sampled_bound(state, 2000)
    assert state.bound == pytest.approx(expected, abs=5 * error)


@pytest.mark.parametrize("seed", range(8))
def test_coordinate_ascent_never_lowers_the_bound(seed):
    state = random_state(problem(seed), seed)
    for _ in range(30):
        following = improved(state)
        assert following.bound >= state.bound - 1e-9 * abs(state.bound)
        state = following


@pytest.mark.parametrize("seed", range(4))
def test_moves_never_lower_the_bound(seed):
    state = climbed(random_state(problem(seed), seed), 1e-3)
    rng = np.random.default_rng(seed)
    for _ in range(3):
        following = repaired(state, rng, 1e-3)
        assert following.bound >= state.bound - 1e-9 * abs(state.bound)
        state = following


def test_features_and_inclusion_are_optimal_given_the_assignments():
    """Any small change of q(μ) or q(π) lowers the bound."""
    state = random_state(problem(3), 3)
    for name in ("means", "variances", "alpha", "beta"):
        for sign in (-1, 1):
            nudge = 1 + sign * 1e-3
            changed = {**vars(state), name: getattr(state, name) * nudge}
            fields = {key: changed[key] for key in State.__dataclass_fields__}
            assert State(**fields).bound < state.bound


def poor_optimum(data, assignments, rewrite):
    """Where coordinate ascent ends when it starts from rewritten true assignments."""
    features, dimension = assignments.shape[1], data.shape[1]
    unit = np.ones(features)
    known = FeatureData(data, dimension, 0.04, np.zeros((features, dimension)), unit, unit, unit)
    return climbed(state_of(known, rewrite(assignments.T.copy())), 0.01)


def union(z):
    z[0] = np.maximum(z[0], z[1])
    return z


def dead(z):
    z[0] = 0.0
    return z


def complement(z):
    z[0] = 1 - z[0]
    return z


@pytest.mark.parametrize("rewrite", [union, dead, complement])
def test_moves_repair_a_spoilt_feature(rewrite):
    data, truth, assignments = synthetic(1, observations=300)
    state = poor_optimum(data, assignments, rewrite)
    rng = np.random.default_rng(0)
    for _ in range(3):
        state = repaired(state, rng, 0.01)
    assert feature_error(state.means, truth) < 0.5


def test_a_dead_feature_is_reseeded_from_what_it_should_explain():
    data, truth, assignments = synthetic(1, observations=300)
    unit = np.ones(5)
    known = FeatureData(data, 10, 0.04, np.zeros((5, 10)), unit, unit, unit)
    state = State(known, dead(assignments.T.copy()), truth, np.full(5, 1e-4), unit, unit)
    reseeds = [reseeded(0, np.random.default_rng(seed), state)[0] for seed in range(10)]
    # Where the seed happens to lack the feature, the residual is noise.
    assert np.median([np.mean(reseed == assignments[:, 0]) for reseed in reseeds]) > 0.95


def test_one_pass_exchanges_features_that_stand_in_for_each_other():
    """Feature 0 where feature 1 belongs: giving up one or taking the other alone would lower the bound."""
    features = np.array([[1.0, 1.0, 0.0], [1.0, 0.9, 0.3]])
    unit = np.ones(2)
    known = FeatureData(features[[0] * 20 + [1] * 21], 3, 0.01, np.zeros((2, 3)), unit, unit, unit)
    right = np.repeat(np.eye(2), [20, 21], axis=1)
    wrong = right.copy()
    wrong[:, 20] = [1.0, 0.0]
    state = improved(State(known, wrong, features, np.full(2, 1e-4), unit, unit))
    np.testing.assert_allclose(state.assignments, right, atol=0.01)


def test_swapping_is_a_move_only_where_the_prior_tells_features_apart():
    rng = np.random.default_rng(0)
    informed = problem(0)
    alike = FeatureData(informed.data, DIMENSION, VARIANCE, np.zeros((3, 4)), np.ones(3), np.ones(3), np.ones(3))
    assert len(list(moves(informed, rng))) == len(list(moves(alike, rng))) + 3


def test_swaps_bring_features_to_where_the_prior_has_them():
    data, truth, assignments = synthetic(1, observations=300)
    precision = np.full(5, 10.0)
    known = FeatureData(data, 10, 0.04, truth * precision[:, None], precision, np.ones(5), np.ones(5))
    state = climbed(state_of(known, assignments.T[[1, 2, 0, 4, 3]]), 0.01)
    rng = np.random.default_rng(0)
    for _ in range(3):
        state = repaired(state, rng, 0.01)
    np.testing.assert_allclose(state.means, truth, atol=0.2)


def test_component_starts_are_close_to_the_truth():
    data, truth, _ = synthetic(4)
    start = component_start(data, 5, tails, np.random.default_rng(0))
    unit = np.ones(5)
    known = FeatureData(data, 10, 0.04, np.zeros((5, 10)), unit, unit, unit)
    assert feature_error(state_of(known, start).means, truth) < 1.0


def test_a_span_holds_its_vectors_and_their_bound():
    rng = np.random.default_rng(0)
    data, _, _ = synthetic(0, observations=20, dimension=50)
    mean = rng.normal(size=(5, 50))
    span = Span.of(data, mean)
    assert span.basis.shape == (25, 50)
    np.testing.assert_allclose(span.outside(span.inside(data)), data, atol=1e-12)
    unit, start = np.ones(5), rng.random((5, 20))
    full = improved(state_of(FeatureData(data, 50, 0.04, mean, unit, unit, unit), start))
    small = improved(state_of(FeatureData(span.inside(data), 50, 0.04, span.inside(mean), unit, unit, unit), start))
    assert small.bound == pytest.approx(full.bound, rel=1e-10)
    np.testing.assert_allclose(span.outside(small.means), full.means, atol=1e-8)


def test_a_belief_in_the_true_features_gives_the_true_assignments():
    data, truth, assignments = synthetic(5, observations=200)
    unit = np.ones(5)
    known = FeatureData(data, 10, 0.04, np.zeros((5, 10)), unit, unit, unit)
    state = state_given(known, truth, np.full(5, 1e-4), unit, unit)
    assert np.mean(np.abs(state.assignments - assignments.T) > 0.5) < 0.02
