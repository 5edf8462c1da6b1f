"""Tails of importance ratios: their shape, and averages that a few large ratios do not decide (Pareto smoothing)."""

from math import sqrt

import numpy as np

from decbayes.families import Array

# Averages of ratios with a larger shape are not reliable.
FAIR = 0.7
# The fewest draws to estimate a shape from.
LEAST_DRAWS = 100
# A shape is shrunk towards a half as if by this many additional draws in the tail.
PRIOR_DRAWS = 10
# Ratios of an exact posterior are equal up to this.
ROUNDING = 1e-6
EXACT = -np.inf, np.nan


def pareto_shape(log_ratios: Array) -> float:
    """The shape of the ratios' tail: the largest 3√S of them, relative to the next smaller one."""
    largest = np.max(log_ratios)
    if not np.isfinite(largest):
        return np.inf
    rising = np.sort(log_ratios - largest)
    size = tail_size(len(rising))
    beyond = np.exp(rising[-size:]) - np.exp(rising[-size - 1])
    return tail_of(beyond)[0] if rising[0] < -ROUNDING else -np.inf


def left_out(log_likelihoods: Array) -> tuple[float, float]:
    """log p(x | all other data) of an observation, given its log-likelihood under draws of the posterior; and a shape.

        p(x_n | x_−n) = Σ_s r_s p(x_n | θ_s) / Σ_s r_s,   r_s = 1 / p(x_n | θ_s)

    The largest ratios are replaced by quantiles of the Pareto distribution that fits them (Vehtari and others, 2024).
    Above a shape of 0.7 the result is not reliable.
    """
    if not np.isfinite(log_likelihoods).all():
        return float(log_likelihoods.min()), np.inf
    ratios = log_likelihoods.min() - log_likelihoods
    size = tail_size(len(ratios))
    order = np.argpartition(ratios, -size - 1)
    tail, cutoff = order[-size:], np.exp(ratios[order[-size - 1]])
    tail = tail[np.argsort(ratios[tail])]
    shape, scale = tail_of(np.exp(ratios[tail]) - cutoff) if ratios.min() < -ROUNDING else EXACT
    if np.isfinite(shape):
        chances = (np.arange(size) + 0.5) / size
        beyond = scale * (-np.log1p(-chances) if abs(shape) < 1e-12 else np.expm1(-shape * np.log1p(-chances)) / shape)
        ratios[tail] = np.minimum(np.log(cutoff + beyond), 0.0)
    # r p of a draw outside the tail is the smallest p, so logarithms are taken relative to that.
    together, least = ratios + log_likelihoods, log_likelihoods.min()
    return float(least + np.log(np.exp(together - least).sum() / np.exp(ratios).sum())), shape


def tail_size(draws: int) -> int:
    return int(min(draws / 5, 3 * sqrt(draws)))


def tail_of(beyond: Array) -> tuple[float, float]:
    """Shape and scale of a generalized Pareto distribution, from a sorted sample (Zhang and Stephens, 2009).

    b = −k/σ has a posterior over a grid of quantiles of its prior; given b, the maximum likelihood estimate of k is a
    mean.
    """
    size, grid = len(beyond), 30 + int(sqrt(len(beyond)))
    quarter = beyond[int(size / 4 + 0.5) - 1]
    if not quarter > np.finfo(np.float64).tiny:
        # A few draws carry all the weight.
        return np.inf, 0.0
    b = (1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3.0 * quarter) + 1.0 / beyond[-1]
    shapes = np.log1p(-b[:, None] * beyond).mean(axis=1)
    height = size * (np.log(-b / shapes) - shapes - 1.0)
    weights = np.exp(height - height.max())
    middle = b @ weights / weights.sum()
    shape = np.log1p(-middle * beyond).mean()
    return float((size * shape + PRIOR_DRAWS * 0.5) / (size + PRIOR_DRAWS)), float(-shape / middle)
