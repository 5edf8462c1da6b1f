"""Mean field of binary assignments, against enumeration."""

from itertools import combinations, product

import numpy as np
import pytest

from decbayes.models.features._state import flip_pairs, infer, row_bounds, sweep

FEATURES, OBSERVATIONS = 4, 30


def pairwise_model(rng, *, shared):
    """Log-odds and overlaps of the size that low noise gives."""
    overlap = rng.normal(scale=8.0, size=(FEATURES, FEATURES, 1 if shared else OBSERVATIONS))
    overlap = overlap + overlap.transpose(1, 0, 2)
    overlap[range(FEATURES), range(FEATURES)] = 0.0
    return rng.normal(scale=8.0, size=(FEATURES, OBSERVATIONS)), overlap


def score(alone, overlap, choice, row):
    """log p(z) up to a constant, written out term by term."""
    table = overlap[:, :, row % overlap.shape[2]]
    pairs = sum(choice[i] * choice[j] * table[i, j] for i, j in combinations(range(FEATURES), 2))
    return float(np.dot(alone[:, row], choice)) - pairs


@pytest.mark.parametrize("shared", [True, False])
def test_row_bound_is_the_expected_score_plus_the_entropy(shared):
    rng = np.random.default_rng(0)
    alone, overlap = pairwise_model(rng, shared=shared)
    z = rng.random((FEATURES, OBSERVATIONS))
    for row in range(3):
        chances = [
            (np.prod(np.where(choice, z[:, row], 1 - z[:, row])), np.array(choice))
            for choice in product((0, 1), repeat=FEATURES)
        ]
        expected = sum(chance * (score(alone, overlap, choice, row) - np.log(chance)) for chance, choice in chances)
        assert row_bounds(alone, overlap, z)[row] == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("shared", [True, False])
def test_sweeping_never_lowers_a_row_and_ends_at_a_fixed_point(shared):
    rng = np.random.default_rng(1)
    alone, overlap = pairwise_model(rng, shared=shared)
    z = rng.random((FEATURES, OBSERVATIONS))
    before = row_bounds(alone, overlap, z)
    for _ in range(200):
        sweep(alone, overlap, z)
        after = row_bounds(alone, overlap, z)
        assert (after >= before - 1e-9).all()
        before = after
    settled = z.copy()
    sweep(alone, overlap, settled)
    np.testing.assert_allclose(settled, z, atol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_flipping_takes_the_best_pair_of_each_row(shared):
    rng = np.random.default_rng(2)
    alone, overlap = pairwise_model(rng, shared=shared)
    z = rng.random((FEATURES, OBSERVATIONS))
    candidates = [row_bounds(alone, overlap, z)]
    for pair in combinations(range(FEATURES), 2):
        other = z.copy()
        other[list(pair)] = 1 - other[list(pair)]
        candidates.append(row_bounds(alone, overlap, other))
    flip_pairs(alone, overlap, z)
    np.testing.assert_allclose(row_bounds(alone, overlap, z), np.max(candidates, axis=0))


@pytest.mark.parametrize("step", [sweep, flip_pairs])
def test_observations_do_not_depend_on_each_other(step):
    """Some tiles, the last of them short, and one observation at a time."""
    rng = np.random.default_rng(3)
    for shared in (True, False):
        model = pairwise_model(rng, shared=shared)
        alone, overlap = (np.tile(part, 10) if part.shape[-1] > 1 else part for part in model)
        whole = rng.random(alone.shape)
        single = whole.copy()
        step(alone, overlap, whole)
        for n in range(whole.shape[1]):
            own = single[:, n : n + 1].copy()
            step(alone[:, n : n + 1].copy(), overlap[:, :, n : n + 1].copy() if not shared else overlap, own)
            single[:, n : n + 1] = own
        np.testing.assert_allclose(single, whole, rtol=1e-14)


@pytest.mark.parametrize("shared", [True, False])
def test_inference_finds_the_best_assignment_of_nearly_every_row(shared):
    rng = np.random.default_rng(4)
    alone, overlap = pairwise_model(rng, shared=shared)
    bounds = row_bounds(alone, overlap, infer(alone, overlap))
    choices = [np.array(choice) for choice in product((0, 1), repeat=FEATURES)]
    best = [max(score(alone, overlap, choice, row) for choice in choices) for row in range(OBSERVATIONS)]
    # The bound of a mean field is at least the score of the assignment at its centre.
    assert np.mean(bounds > np.array(best) - 1e-6) >= 0.95


def test_one_feature_alone_follows_its_own_log_odds():
    alone = np.array([[-2.0, 0.0, 3.0]])
    np.testing.assert_allclose(infer(alone, np.zeros((1, 1, 1))), 1 / (1 + np.exp(-alone)))
