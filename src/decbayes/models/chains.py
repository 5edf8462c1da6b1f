"""What hidden Markov models compute along chains of states, between numbers and natural parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, Transitions, Weights
from decbayes.models.emissions import Emissions, Natural
from decbayes.workers import gathered

# Steps that are worked on at a time, or more where a sequence is longer.
BLOCK = 1 << 12


@dataclass(frozen=True)
class Steps:
    """Sequences one after another: all their rows, and where each ends."""

    points: Array
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, sequences: list[Array], width: int) -> "Steps":
        """Empty sequences are left out."""
        parts = [part for part in sequences if len(part)]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return cls(np.concatenate([np.empty((0, width)), *parts]), ends)

    @property
    def firsts(self) -> NDArray[np.int64]:
        return np.append(0, self.ends[:-1]) if len(self.ends) else self.ends

    def split(self, values: Any) -> list[Any]:
        return np.split(values, self.ends[:-1]) if len(self.ends) else []

    def counted(self, shares: Array) -> tuple[Array, Array]:
        """Moves between states, and first states, where steps are independent given their shares."""
        goes_on = np.ones(len(shares), dtype=np.bool_)
        goes_on[self.ends - 1] = False
        moved = shares[:-1][goes_on[:-1]].T @ shares[1:][goes_on[:-1]]
        return moved, shares[self.firsts].sum(axis=0)

    def followed_by(self, missing: int) -> "Steps":
        """The same sequences, each with so many missing steps at its end."""
        gap = np.full((missing, self.points.shape[1]), np.nan)
        return Steps.of([np.concatenate([part, gap]) for part in self.split(self.points)], self.points.shape[1])


class ChainBlocks:
    """Features of whole sequences, some thousand steps at a time: threads share them out, and sums have one order."""

    def __init__(self, emissions: Emissions, steps: Steps) -> None:
        number = steps.firsts // BLOCK
        cuts = steps.ends[:-1][np.diff(number) > 0]
        self.blocks = [(emissions.features(points), ends) for points, ends in zip(*cut_at(steps, cuts), strict=True)]

    def weigh(self, slopes: Array, start: Array, moves: Array) -> tuple[float, Array, Array, Array]:
        """The log weight of all paths, (K, p) sums of features by state, expected moves and first states."""
        parts = gathered(partial(weighed, features, ends, slopes, start, moves) for features, ends in self.blocks)
        weight, sums, moved, begun = (sum(part[1:], start=part[0]) for part in zip(*parts, strict=True))
        return weight, sums, moved, begun


def cut_at(steps: Steps, cuts: NDArray[np.int64]) -> tuple[list[Array], list[NDArray[np.int64]]]:
    """The steps between cuts, and where their sequences end in them."""
    points = np.split(steps.points, cuts)
    ends = np.split(steps.ends, np.searchsorted(steps.ends, cuts, side="right"))
    return points, [own - first for own, first in zip(ends, np.append(0, cuts), strict=True)]


def weighed(
    features: Array, ends: NDArray[np.int64], slopes: Array, start: Array, moves: Array
) -> tuple[float, Array, Array, Array]:
    scores = np.ascontiguousarray(features @ slopes)
    weight, moved, begun = smoothed(scores, Steps(features, ends), start, moves)
    return weight, scores.T @ features, moved, begun


def smoothed(scores: Array, steps: Steps, start: Array, moves: Array) -> tuple[float, Array, Array]:
    """Probabilities of states in the place of scores; the log weight of all paths, expected moves and first states."""
    from decbayes.kernels.chains import smooth

    moved, begun = np.zeros(moves.shape), np.zeros(len(start))
    return smooth(scores, steps.ends, start, moves, moved, begun), moved, begun


def chain_weights(natural: Mapping[str, Array]) -> tuple[Array, Array]:
    """exp E[log π] and exp E[log A]."""
    start = np.exp(Weights().mean(natural["start"])[:, 0])
    return start, np.ascontiguousarray(np.exp(Transitions().mean(natural["transitions"])))


def plus(emissions: Emissions, natural: Mapping[str, Array], sums: Array, moved: Array, begun: Array) -> Natural:
    """Natural parameters with the evidence of some sequences added."""
    chain = {"start": natural["start"] + begun[:, None], "transitions": natural["transitions"] + moved}
    return {**chain, **emissions.plus(natural, sums)}


def stationary(moves: Array) -> Array:
    """The distribution that transitions leave as it is."""
    size = len(moves)
    equations = np.vstack([moves.T - np.eye(size), np.ones(size)])
    shares = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
    return np.asarray(np.maximum(shares, 0.0) / np.maximum(shares, 0.0).sum())
