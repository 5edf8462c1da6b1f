"""The compiled special functions agree with SciPy over every magnitude the models meet."""

import numba
import numpy as np
import pytest
import scipy.special

from decbayes.kernels import special
from decbayes.kernels.compiled import FASTMATH

POSITIVE = np.concatenate(
    [
        np.geomspace(1e-6, 1e8, 20_001),
        *(zero + np.linspace(-0.01, 0.01, 401) for zero in (1.0, 1.4616321449683622, 2.0)),
        special.SHIFT + np.array([-1e-9, 0.0, 1e-9]),
    ]
)


def over(function, x):
    """Call a scalar kernel the way other kernels do: in a loop that LLVM may vectorise."""

    @numba.njit(fastmath=FASTMATH, error_model="numpy")
    def loop(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    out = np.empty_like(x)
    loop(x, out)
    return out


@pytest.mark.parametrize(
    ("ours", "scipys"),
    [(special.log, np.log), (special.lgamma, scipy.special.gammaln), (special.digamma, scipy.special.digamma)],
)
def test_agrees_with_scipy_to_1e_13(ours, scipys):
    # The absolute tolerance speaks only at the zeros, where a relative one asks for more digits than the argument has.
    np.testing.assert_allclose(over(ours, POSITIVE), scipys(POSITIVE), rtol=1e-13, atol=1e-13)


def test_exp_agrees_with_numpy_until_it_underflows():
    x = np.linspace(-708.0, 709.0, 20_001)
    np.testing.assert_allclose(over(special.exp, x), np.exp(x), rtol=1e-14)
    assert over(special.exp, np.array([-708.1, -1e6, -1e300])).max() == 0.0


def test_exp_digamma_is_exp_of_digamma():
    x = POSITIVE[POSITIVE > 2e-3]
    exponent = scipy.special.digamma(x)
    # An error of one unit in ψ's last place grows by |ψ| in its exponential.
    np.testing.assert_allclose(over(special.exp_digamma, x) / np.exp(exponent), 1.0, rtol=1e-12)


def test_exp_digamma_vanishes_where_its_logarithm_is_out_of_range():
    assert over(special.exp_digamma, np.array([1e-6, 1e-4, 1e-3])).max() == 0.0
