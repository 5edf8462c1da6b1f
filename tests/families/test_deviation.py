"""Standard deviations of every family."""

import numpy as np
import pytest
from draws import ALL, natural

from decbayes.families import FAMILIES, MeanAndPrecision


@pytest.mark.parametrize("name", ALL)
def test_deviations_are_those_of_samples(name, rng):
    family = FAMILIES[name]
    parameters = natural(name, rng, 2, 2)
    drawn, stated = family.sample(parameters, 100_000, rng), family.deviation(parameters)
    pairs = zip(drawn, stated, strict=True) if isinstance(stated, MeanAndPrecision) else [(drawn, stated)]
    for samples, deviation in pairs:
        known = np.isfinite(deviation)
        # Heavy tails (a Student-t with few degrees of freedom) make the deviation of samples itself uncertain.
        np.testing.assert_allclose(samples.std(axis=0)[known], deviation[known], rtol=0.1)
