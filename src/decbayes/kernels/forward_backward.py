"""Passes along hidden Markov chains: forward and backward, and the most likely path."""

from typing import Any

import numpy as np

from decbayes.kernels.compiled import compiled
from decbayes.kernels.special import exp, log

Array = np.ndarray[Any, np.dtype[np.float64]]
Places = np.ndarray[Any, np.dtype[np.int64]]


@compiled
def smooth(scores: Array, ends: Places, start: Array, moves: Array, moved: Array, firsts: Array) -> float:
    """Replace log weights of states, (steps, K), by the probabilities of the states given their whole sequence.

    Sequences lie one after another and end before `ends`. `start` and `moves` are weights that need not sum to one.
    Expected moves are added to `moved`, first states to `firsts`; returns the log weight of all paths together.
    """
    steps, states = scores.shape
    weights, total = emission_weights(scores)
    ahead, scale = np.empty((steps, states)), np.empty(steps)
    first = 0
    for end in ends:
        total += forward(weights, first, end, start, moves, ahead, scale)
        backward(weights, first, end, moves, ahead, scale, scores, moved)
        for k in range(states):
            firsts[k] += scores[first, k]
        first = end
    return total


@compiled
def filtered(scores: Array, ends: Places, start: Array, moves: Array, lengths: Array) -> None:
    """Replace log weights by the probabilities of the states given all steps so far; `lengths` receives each sequence's
    log weight of all paths.
    """
    steps, states = scores.shape
    ahead, scale = np.empty((steps, states)), np.empty(steps)
    first = 0
    for sequence in range(len(ends)):
        end = ends[sequence]
        weights, total = emission_weights(scores[first:end])
        part, sizes = ahead[first:end], scale[first:end]
        lengths[sequence] = total + forward(weights, 0, end - first, start, moves, part, sizes)
        for n in range(first, end):
            for k in range(states):
                scores[n, k] = ahead[n, k]
        first = end


@compiled
def emission_weights(scores: Array) -> tuple[Array, float]:
    """exp(scores) with each row divided by its maximum, and the sum of the logarithms of these maxima."""
    steps, states = scores.shape
    weights, total = np.empty((steps, states)), 0.0
    for n in range(steps):
        highest = scores[n, 0]
        for k in range(1, states):
            highest = max(highest, scores[n, k])
        total += highest
        for k in range(states):
            weights[n, k] = exp(scores[n, k] - highest)
    return weights, total


@compiled
def forward(weights: Array, first: int, end: int, start: Array, moves: Array, ahead: Array, scale: Array) -> float:
    states = weights.shape[1]
    total = 0.0
    for n in range(first, end):
        size = 0.0
        for k in range(states):
            value = 0.0
            if n == first:
                value = start[k]
            else:
                for j in range(states):
                    value += ahead[n - 1, j] * moves[j, k]
            ahead[n, k] = value * weights[n, k]
            size += ahead[n, k]
        for k in range(states):
            ahead[n, k] /= size
        scale[n] = size
        total += log(size)
    return total


@compiled
def backward(
    weights: Array, first: int, end: int, moves: Array, ahead: Array, scale: Array, smoothed: Array, moved: Array
) -> None:
    states = weights.shape[1]
    behind, next_behind, seen = np.ones(states), np.empty(states), np.empty(states)
    for k in range(states):
        smoothed[end - 1, k] = ahead[end - 1, k]
    for n in range(end - 2, first - 1, -1):
        for k in range(states):
            seen[k] = weights[n + 1, k] * behind[k] / scale[n + 1]
        for j in range(states):
            value = 0.0
            for k in range(states):
                step = moves[j, k] * seen[k]
                value += step
                moved[j, k] += ahead[n, j] * step
            next_behind[j] = value
            smoothed[n, j] = ahead[n, j] * value
        behind, next_behind = next_behind, behind


@compiled
def best_path(scores: Array, ends: Places, start: Array, moves: Array, path: Places) -> None:
    """The most likely states of each sequence as a whole (Viterbi); all weights are logarithms."""
    steps, states = scores.shape
    came, best, latest = np.empty((steps, states), dtype=np.int64), np.empty(states), np.empty(states)
    first = 0
    for end in ends:
        for k in range(states):
            best[k] = start[k] + scores[first, k]
        for n in range(first + 1, end):
            for k in range(states):
                highest, source = best[0] + moves[0, k], 0
                for j in range(1, states):
                    value = best[j] + moves[j, k]
                    if value > highest:
                        highest, source = value, j
                latest[k], came[n, k] = highest + scores[n, k], source
            best, latest = latest, best
        path[end - 1] = np.argmax(best)
        for n in range(end - 1, first, -1):
            path[n - 1] = came[n, path[n]]
        first = end
