"""What hidden Markov models compute along chains of states, between numbers and natural parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array, Transitions, Weights
from decbayes.models.emissions import Emissions, Natural


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
