"""Standard deviations of every family."""

import numpy as np
import pytest
from draws import ALL, natural

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
