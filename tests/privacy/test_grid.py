"""Numbers on a grid add up exactly, and noise on it has the distribution that it is said to have."""

import numpy as np
import pytest
from scipy.stats import chi2

from decbayes.errors import InvalidData
from decbayes.privacy import Grid, discrete_gaussian, exact_sum
from decbayes.privacy.grid import happens_exp, one_laplace


def test_a_grid_and_back_is_exact_for_powers_of_two(rng):
    grid, numbers = Grid(2.0**-20), rng.normal(size=100) * 1000
    steps = grid.quantize(numbers)
    assert steps.dtype == np.int64
    assert (np.abs(grid.values(steps) - numbers) <= 2.0**-21).all()
    assert (grid.quantize(grid.values(steps)) == steps).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**34])
def test_numbers_that_could_not_be_added_exactly_are_refused(bad):
    with pytest.raises(InvalidData, match="not finite, or beyond"):
        Grid(2.0**-20).quantize([0.0, bad])


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_number_is_the_last_one_before_gaps(sign):
    """Below 2⁵³ every integer is a floating-point number; 2⁵³ + 1 is none."""
    assert Grid(1.0).quantize([sign * (2.0**53 - 1)]).tolist() == [sign * (2**53 - 1)]
    with pytest.raises(InvalidData):
        Grid(1.0).quantize([sign * 2.0**53])
    assert exact_sum([[sign * (2**53 - 2)], [sign]]).tolist() == [sign * (2**53 - 1)]
    for reaching in ([[sign * 2**52], [sign * 2**52]], [[sign * 2**53]], [[sign * 2**52], [-sign * 2**52]]):
        with pytest.raises(InvalidData, match="2\\^53"):
            exact_sum(reaching)
    with pytest.raises(InvalidData, match="2\\^53"):
        exact_sum([[-(2**63)]])


def test_sums_are_exact():
    assert exact_sum([[2**52 - 1, -3], [2**52 - 1, 5]]).tolist() == [2**53 - 2, 2]
    assert exact_sum(np.zeros((3, 0), dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("step", [0.0, -1.0, np.inf, np.nan])
def test_a_step_is_a_positive_number(step):
    with pytest.raises(ValueError, match="step must be a positive number"):
        Grid(step)
    assert Grid(5e-324).values([2]).tolist() == [1e-323]


def test_numbers_are_rounded_to_the_nearest_step():
    assert Grid(0.5).quantize([0.24, 0.26, -0.26, 0.76, -7.4]).tolist() == [0, 1, -1, 2, -15]


@pytest.mark.parametrize("variance", [1, 9, 20])
def test_noise_is_a_discrete_gaussian(variance):
    """Goodness of fit against the sum over all integers: Pearson's statistic stays below its 1e-9 quantile."""
    drawn, reach = discrete_gaussian(variance, 3000), int(3 * variance**0.5)
    integers = np.arange(-40 * variance, 40 * variance + 1)
    weights = np.exp(-(integers**2) / (2.0 * variance))
    weights /= weights.sum()
    inside = np.abs(integers) <= reach
    expected = 3000 * np.append(weights[inside], weights[~inside].sum())
    seen = np.array([(drawn == integer).sum() for integer in integers[inside]] + [(np.abs(drawn) > reach).sum()])
    statistic = ((seen - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(1 - 1e-9, len(expected) - 1)


def test_large_noise_has_its_variance():
    """A standard deviation of 2²² steps, as releases have it: the variance of 2,000 draws is within five errors."""
    drawn = discrete_gaussian(2**44, 2000) / 2.0**22
    assert abs(drawn.var() - 1.0) < 5 * (2 / 2000) ** 0.5
    assert abs(drawn.mean()) < 5 / 2000**0.5


def test_the_parts_of_a_draw_have_their_probabilities():
    for numerator, denominator in ((0, 1), (1, 2), (1, 1), (5, 2)):
        probability = np.exp(-numerator / denominator)
        mean = np.mean([happens_exp(numerator, denominator) for _ in range(4000)])
        assert abs(mean - probability) <= 6 * (probability * (1 - probability) / 4000) ** 0.5
    for scale in (1, 2, 5):
        drawn = np.array([one_laplace(scale) for _ in range(4000)])
        for size in range(2 * scale + 2):  # P(x) = tanh(1 / 2s) exp(−|x| / s)
            for value in {size, -size}:
                chance = np.tanh(0.5 / scale) * np.exp(-size / scale)
                assert abs(np.mean(drawn == value) - chance) < 6 * (chance / 4000) ** 0.5


@pytest.mark.parametrize("bad", [0, -1, 0.5, True])
def test_variances_are_positive_integers(bad):
    with pytest.raises(ValueError, match="integer of at least 1"):
        discrete_gaussian(bad, 1)
