"""A good first broadcast: where a site makes its likelihood quadratic, and how a merge moves it to the joint estimate.

A site's message is a quadratic, its likelihood around its own estimate. It is worth most near the joint estimate, which
a site does not know. Three things bring it closer:

- The *anchor*: a site fits with a prior of slopes that it takes out again: for counts one of variance 0.3 in agreed
  units, else the one of a few under which its rows are most likely. Small sites then expand around moderate slopes,
  and sites with strong effects where these are.
- *Recentring*: counts have rates exp(xβ), and a quadratic says how rows with such rates lie. Whoever merges reads it as
  rows with normally distributed x, and computes what these contribute at the joint posterior.
- A *forecast* of how far the merge is from one fit of all rows, from the same reading of messages.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from decbayes.families import Array

PASSES, HALVINGS, CLIMBED = 300, 30, 1e-10
# exp of more is no count, and would overflow.
MOST = 200.0
# How far Σy may be from a whole number in a message of a first broadcast: as far as fits are from their end, and
# rounding, relative to itself. Of messages of later rounds, one in 1,700 is taken for a first one.
WHOLE, ROUNDING = 3e-4, 1e-8


class Quadratic(NamedTuple):
    """A log-density of coefficients, sβ − ½βPβ."""

    shift: Array
    precision: Array

    @classmethod
    def of(cls, natural: Array) -> "Quadratic":
        row = np.asarray(natural, dtype=np.float64).ravel()
        side = int((np.sqrt(1 + 4 * len(row)) - 1) / 2)
        return cls(row[:side], -2.0 * row[side:].reshape(side, side))

    @property
    def natural(self) -> Array:
        return np.concatenate([self.shift, (-0.5 * self.precision).ravel()])[None, :]

    def __add__(self, other: "Quadratic") -> "Quadratic":  # type: ignore[override]
        return Quadratic(self.shift + other.shift, self.precision + other.precision)

    def moments(self) -> tuple[Array, Array]:
        covariance = np.asarray(np.linalg.inv(self.precision), dtype=np.float64)
        return covariance @ self.shift, covariance

    def in_basis(self, basis: Array) -> "Quadratic":
        """The same of γ, where β = basis · γ."""
        return Quadratic(basis.T @ self.shift, basis.T @ self.precision @ basis)


class Cloud(NamedTuple):
    """`total` rows with x = (1, u), u ~ N(mean, covariance); of each, `total` counts its rate."""

    total: float
    mean: Array
    covariance: Array

    @classmethod
    def of(cls, precision: Array) -> "Cloud":
        total = float(precision[0, 0])
        mean = precision[0, 1:] / total
        return cls(total, mean, precision[1:, 1:] / total - np.outer(mean, mean))

    @property
    def moments(self) -> Array:
        """Σ rate · x xᵀ."""
        first = np.append(1.0, self.mean)
        second = np.outer(first, first)
        second[1:, 1:] += self.covariance
        return self.total * second

    def tilted(self, linear: Array, square: Array) -> "Cloud | None":
        """The cloud with all rates times exp(linear · x + ½ x square x); None if that has no finite total."""
        inner = np.eye(len(self.mean)) - self.covariance @ square[1:, 1:]
        if (np.linalg.eigvals(inner).real <= 0).any():
            return None
        covariance = np.linalg.solve(inner, self.covariance)
        slope = linear[1:] + square[0, 1:] + square[1:, 1:] @ self.mean
        centre = linear[0] + 0.5 * square[0, 0] + (linear[1:] + square[0, 1:]) @ self.mean
        centre += 0.5 * self.mean @ square[1:, 1:] @ self.mean + 0.5 * slope @ covariance @ slope
        height = centre - 0.5 * np.linalg.slogdet(inner)[1]
        total = self.total * float(np.exp(min(height, MOST)))
        return Cloud(total, self.mean + covariance @ slope, 0.5 * (covariance + covariance.T))


class Counted(NamedTuple):
    """A site's counts as its message tells: the cloud of rows at its own estimate, that estimate, and Xᵀy."""

    rows: Cloud
    estimate: Array
    targets: Array

    @classmethod
    def read(cls, message: Quadratic, anchor: Quadratic) -> "Counted | None":
        """None if the message is no first broadcast, or says too little of its rows."""
        if message.precision[0, 0] <= 0:
            return None
        mean, covariance = (message + anchor).moments()
        targets = message.shift - message.precision @ mean + message.precision[0]
        if abs(targets[0] - np.rint(targets[0])) > WHOLE + ROUNDING * abs(targets[0]):
            return None
        rows = Cloud.of(message.precision).tilted(np.zeros(len(mean)), -covariance)
        return None if rows is None else cls(rows, mean, targets)

    def at(self, mean: Array, covariance: Array) -> tuple[Quadratic, float] | None:
        """What the rows contribute where β ~ N(mean, covariance), and their expected log-likelihood."""
        there = self.rows.tilted(mean - self.estimate, covariance)
        if there is None:
            return None
        weights = there.moments
        return Quadratic(self.targets - weights[0] + weights @ mean, weights), float(self.targets @ mean - there.total)


def recentred(messages: Sequence[Quadratic], prior: Quadratic, anchor: Quadratic, ones: Array) -> list[Quadratic]:
    """What sites with counts contribute at the joint posterior, as far as their messages tell.

    `ones` are the coefficients that add 1 to every row. Messages that are no first broadcasts stay as they are.
    """
    basis = basis_of(ones)
    given, first, before = ([each.in_basis(basis) for each in part] for part in (messages, [anchor], [prior]))
    sites = [Counted.read(message, first[0]) for message in given]

    def contributed(mean: Array, covariance: Array) -> tuple[list[Quadratic], float] | None:
        moved, value = [], 0.0
        for site, message in zip(sites, given, strict=True):
            there = (message, 0.0) if site is None else site.at(mean, covariance)
            if there is None or not np.isfinite(there[1]):
                return None
            moved.append(there[0])
            value += there[1] if site is not None else quadratic_value(message, mean, covariance)
        return moved, value

    found = climbed(contributed, before[0], given, [site.estimate for site in sites if site is not None])
    inverse = np.asarray(np.linalg.inv(basis), dtype=np.float64)
    return [*messages] if found is None else [each.in_basis(inverse) for each in found]


def climbed(
    contributed: Callable[[Array, Array], tuple[list[Quadratic], float] | None],
    prior: Quadratic,
    given: Sequence[Quadratic],
    estimates: Sequence[Array],
) -> list[Quadratic] | None:
    """Contributions where they are those at their own joint posterior; None if no start leads anywhere."""

    def place(joint: Quadratic) -> tuple[float, Quadratic, list[Quadratic]] | None:
        mean, covariance = joint.moments()
        told = contributed(mean, covariance)
        if told is None or np.linalg.slogdet(joint.precision)[0] <= 0:
            return None
        return told[1] - divergence(joint, prior), joint, told[0]

    plain = total([prior, *given])
    middle = np.mean(estimates, axis=0) if estimates else plain.moments()[0]
    starts = [place(joint) for joint in (plain, Quadratic(plain.precision @ middle, plain.precision))]
    here = max((start for start in starts if start is not None), key=lambda start: start[0], default=None)
    for _ in range(PASSES if here is not None else 0):
        assert here is not None
        ahead, share, there = total([prior, *here[2]]), 1.0, None
        for _ in range(HALVINGS):
            there = place(between(here[1], ahead, share))
            if there is not None and there[0] >= here[0] - 1e-12 * abs(here[0]):
                break
            share, there = 0.5 * share, None
        if there is None:
            break
        gain, here = there[0] - here[0], there
        if gain < CLIMBED:
            break
    return None if here is None else here[2]


def between(here: Quadratic, there: Quadratic, share: float) -> Quadratic:
    return Quadratic(*(a + share * (b - a) for a, b in zip(here, there, strict=True)))


def total(parts: Sequence[Quadratic]) -> Quadratic:
    return Quadratic(sum(part.shift for part in parts), sum(part.precision for part in parts))  # type: ignore[arg-type]


def divergence(joint: Quadratic, prior: Quadratic) -> float:
    """KL(joint ‖ prior), but for a constant."""
    (mean, covariance), (centre, _) = joint.moments(), prior.moments()
    apart = (mean - centre) @ prior.precision @ (mean - centre) + np.trace(prior.precision @ covariance)
    return float(0.5 * (apart + np.linalg.slogdet(joint.precision)[1]))


def quadratic_value(message: Quadratic, mean: Array, covariance: Array) -> float:
    square = np.trace(message.precision @ (covariance + np.outer(mean, mean)))
    return float(message.shift @ mean - 0.5 * square)


def basis_of(ones: Array) -> Array:
    """(D, D): coordinates of which the first adds 1 to every row."""
    basis = np.eye(len(ones))
    first = int(np.flatnonzero(ones)[0])
    basis[:, first] = ones
    return np.asarray(basis[:, [first, *(place for place in range(len(ones)) if place != first)]])


def forecast(
    messages: Sequence[Quadratic],
    prior: Quadratic,
    anchor: Quadratic,
    ones: Array,
    bend: Callable[[float], float],
) -> Array:
    """(D,): how far the sum of the messages is from one fit of all rows, in posterior standard deviations, roughly.

    The next term of each site's likelihood beyond its quadratic, −½ Σ w b x (xδ)², taken at the joint estimate: δ is
    its distance from the site's own, and b = `bend`(f) is how fast a row's weight w grows with f, relative to itself.
    """
    basis = basis_of(ones)
    joint = total([prior, *messages]).in_basis(basis)
    mean, covariance = joint.moments()
    slope = np.zeros(len(mean))
    for message in (each.in_basis(basis) for each in messages):
        if message.precision[0, 0] <= 0:
            continue
        estimate, _ = (message + anchor.in_basis(basis)).moments()
        cloud, apart = Cloud.of(message.precision), mean - estimate
        centre = np.append(1.0, cloud.mean)
        wide = np.append(0.0, cloud.covariance @ apart[1:])
        along = centre @ apart
        third = centre * (along**2 + apart @ wide) + 2.0 * along * wide
        slope -= 0.5 * cloud.total * bend(float(centre @ estimate)) * third
    moved, deviations = basis @ covariance @ slope, np.sqrt(np.diag(basis @ covariance @ basis.T))
    return np.asarray(np.abs(moved) / deviations)
