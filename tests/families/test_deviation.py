"""Standard deviations of every family."""

import numpy as np
import pytest
from draws import ALL, natural
from scipy import stats

from decbayes.families import FAMILIES


@pytest.mark.parametrize("name", ALL)
def test_deviations_are_those_of_samples(name, rng):
    family = FAMILIES[name]
    parameters = natural(name, rng, 2, 2)
    drawn = family.quantities(family.sample(parameters, 100_000, rng))
    for quantity, deviation in family.quantities(family.deviation(parameters)).items():
        samples = drawn[quantity]
        known = np.isfinite(deviation)
        # Heavy tails (a Student-t with few degrees of freedom) make the deviation of samples itself uncertain.
        np.testing.assert_allclose(samples.std(axis=0)[known], deviation[known], rtol=0.1)


@pytest.mark.parametrize("name", ["NormalGamma", "IsotropicNormalGamma"])
def test_the_mean_has_the_deviation_of_a_student_t_and_none_with_two_degrees_of_freedom_or_fewer(name):
    family, shape, rate, strength = FAMILIES[name], np.array([0.8, 1.0, 1.2, 4.0]), 2.0, 3.0
    alone = shape[:, None] if name == "NormalGamma" else shape
    found = family.deviation(family.natural(mean=np.zeros((4, 1)), strength=strength, shape=alone, rate=rate)).mean
    theirs = stats.t(2 * shape, scale=np.sqrt(rate / (strength * shape))).std()
    np.testing.assert_allclose(found[:, 0], theirs)
    assert np.isinf(found[:2]).all()
