"""log, exp, lgamma and digamma that LLVM can vectorise inside a loop.

Calls into libm stay scalar (the usual builds of numba have no vector maths library), so these are branch-free
arithmetic. Each is a scalar function for positive arguments (`exp` for any), to be called inside other kernels; the
relative error is below 1e-14, absolute where the function crosses zero. Zero and negative arguments are not checked.

Below them: the divergence of one Dirichlet from another, and of sparse Dirichlet rows from their prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from decbayes.kernels.compiled import compiled_reordered, expanded, inlined

Floats = np.ndarray[Any, np.dtype[np.float64]]

SHIFT = 8.0  # smaller arguments are moved up by this; from there, six terms of Stirling's series are exact to 1e-15
LOG_2_HIGH = 0.6931471803691238  # the leading bits of log 2, so that its product with an exponent is exact
LOG_2_LOW = 1.9082149292705877e-10
HALF_LOG_2_PI = 0.9189385332046727
ROUNDER = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to an integer, found in the low bits of the sum
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
MANTISSA = 0x000FFFFFFFFFFFFF


@intrinsic  # type: ignore[untyped-decorator]
def _bits(typing_context: Any, value: Any) -> Any:
    """The 64 bits of a double, as an integer."""
    return types.int64(types.float64), lambda context, builder, signature, args: builder.bitcast(
        args[0], context.get_value_type(types.int64)
    )


@intrinsic  # type: ignore[untyped-decorator]
def _double(typing_context: Any, value: Any) -> Any:
    """The double with these 64 bits."""
    return types.float64(types.int64), lambda context, builder, signature, args: builder.bitcast(
        args[0], context.get_value_type(types.float64)
    )


@inlined
def log(x: float) -> float:
    """Natural logarithm: x = 2^e m with m in [√½, √2), log m = 2 artanh((m − 1) / (m + 1)) by its series."""
    bits = _bits(x)
    exponent_bits = (bits - SQRT_HALF_BITS) & ~MANTISSA
    m: float = _double(bits - exponent_bits)
    # Integer-to-double conversion does not vectorise everywhere; this does: the exponent as a double's low bits.
    e: float = _double(_bits(ROUNDER) + (exponent_bits >> 52)) - ROUNDER
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    tail = 1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19)))
    tail = z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * (1 / 11 + z * tail)))))
    return e * LOG_2_HIGH + (2.0 * s + (2.0 * s * tail + e * LOG_2_LOW))


@inlined
def exp(x: float) -> float:
    """Exponential: x = n log 2 + r with |r| ≤ ½ log 2. Zero below −708; larger arguments are clipped to 709."""
    clipped = min(max(x, -708.0), 709.0)
    rounded = clipped * 1.4426950408889634 + ROUNDER
    n = rounded - ROUNDER
    r = (clipped - n * LOG_2_HIGH) - n * LOG_2_LOW
    tail = 1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (1 / 479001600))))
    tail = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * tail)))
    value = 1.0 + (r + r * r * (1 / 2 + r * (1 / 6 + r * tail)))
    scale: float = _double((_bits(rounded) + 1023) << 52)
    return value * scale if x >= -708.0 else 0.0


@inlined
def lgamma(x: float) -> float:
    """log Γ(x) by Stirling's series at x or, for x < 8, at x + 8 minus log(x (x + 1) … (x + 7))."""
    low = min(x, SHIFT)  # keeps the product finite for large x, where it is unused
    product = low * (low + 1.0) * (low + 2.0) * (low + 3.0) * (low + 4.0) * (low + 5.0) * (low + 6.0) * (low + 7.0)
    shifted = x < SHIFT
    y = x + SHIFT if shifted else x
    inverse = 1.0 / y
    z = inverse * inverse
    series = 1 / 1260 + z * (-1 / 1680 + z * (1 / 1188 + z * (-691 / 360360 + z * (1 / 156))))
    series = inverse * (1 / 12 + z * (-1 / 360 + z * series))
    stirling = (y - 0.5) * log(y) - y + HALF_LOG_2_PI + series
    return stirling - (log(product) if shifted else 0.0)


@inlined
def _digamma_parts(x: float) -> tuple[float, float]:
    """(y, c) with ψ(x) = log y − c, where y is x or x + 8."""
    low = min(x, SHIFT)
    product, derivative = low, 1.0
    for i in range(1, 8):  # derivative / product = Σ 1 / (x + i), with one division
        derivative = derivative * (low + i) + product
        product = product * (low + i)
    shifted = x < SHIFT
    y = x + SHIFT if shifted else x
    inverse = 1.0 / y
    z = inverse * inverse
    series = 1 / 252 + z * (-1 / 240 + z * (1 / 132 + z * (-691 / 32760 + z * (1 / 12))))
    series = 0.5 * inverse + z * (1 / 12 + z * (-1 / 120 + z * series))
    return y, series + (derivative / product if shifted else 0.0)


@inlined
def digamma(x: float) -> float:
    """ψ(x), the derivative of log Γ."""
    y, correction = _digamma_parts(x)
    return log(y) - correction


@inlined
def exp_digamma(x: float) -> float:
    """exp ψ(x) without a logarithm: the core of every Dirichlet expectation."""
    y, correction = _digamma_parts(x)
    return y * exp(-correction)


@expanded
def bound_term(before: float, after: float, step: float) -> float:
    """One parameter's part of −KL(after ‖ before), step = after − before; a row's sum has the opposite sign."""
    return -step * digamma(after) + lgamma(after) - lgamma(before)


@compiled_reordered
def dirichlet_information(
    prior: Floats, starts: Any, stops: Any, indices: Any, data: Floats, row_sums: Floats, prior_sums: Floats
) -> float:
    """KL(α ‖ α0) of all rows, from the entries that differ: all others cancel except for the row sums."""
    total = 0.0
    for row in range(len(starts)):
        for entry in range(starts[row], stops[row]):
            before = prior[row, indices[entry]] + 1.0
            total -= bound_term(before, before + data[entry], data[entry])
        total += bound_term(prior_sums[row], prior_sums[row] + row_sums[row], row_sums[row])
    return total
