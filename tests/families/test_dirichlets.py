"""Several Dirichlets in one row are the Dirichlets side by side, and say in their name where each begins."""

import numpy as np
import pytest

from decbayes.families import Dirichlet, Dirichlets
from decbayes.families.registry import registered

SIZES = (2, 3, 3, 1, 4)


def parts(matrix):
    return np.split(matrix, np.cumsum(SIZES)[:-1], axis=-1)


@pytest.fixture
def alpha(rng):
    return rng.gamma(1.0, 2.0, size=(3, sum(SIZES))) + 0.01


def test_each_group_is_a_dirichlet(alpha, rng):
    together, one = Dirichlets(SIZES), Dirichlet()
    natural = together.natural(alpha=alpha)
    for law in ("row_terms", "expected_statistics", "expected", "deviation"):
        each = [getattr(one, law)(part) for part in parts(natural)]
        expected = np.sum(each, axis=0) if law == "row_terms" else np.hstack(each)
        np.testing.assert_allclose(getattr(together, law)(natural), expected, rtol=1e-12)
    own = rng.gamma(0.3, 4.0, size=natural.shape)
    gains = [one.gain(rest, part) for rest, part in zip(parts(natural), parts(own), strict=True)]
    np.testing.assert_allclose(together.gain(natural, own), np.sum(gains, axis=0), rtol=1e-10, atol=1e-10)


def test_shares_of_a_draw_add_up_in_each_group(alpha, rng):
    draws = Dirichlets(SIZES).sample(Dirichlets(SIZES).natural(alpha=1e-3 * alpha), 50, rng)
    assert np.isfinite(draws).all()
    for part in parts(draws):
        np.testing.assert_allclose(part.sum(axis=-1), 1.0)


def test_a_name_is_enough_to_have_the_family_back():
    family = Dirichlets(SIZES)
    assert family.name == "Dirichlets(2,3*2,1,4)"
    assert registered(family.name) == family
    assert registered("Dirichlets(5*200)") == Dirichlets((5,) * 200)


@pytest.mark.parametrize(
    "name",
    [
        "Dirichlets",
        "Dirichlets()",
        "Dirichlets(2,2)",
        "Dirichlets(2",
        "Dirichlets(0)",
        "Dirichlets(-2,3)",
        "Dirichlets(²,3)",
        "Dirichlets(2*9999999999)",
        "Dirichlet(2)",
        "Nothing(2)",
    ],
)
def test_other_names_are_refused(name):
    with pytest.raises(ValueError):
        registered(name)
