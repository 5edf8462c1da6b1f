"""A good first broadcast: where a site expands its likelihood, and how a merge moves it to the joint estimate.

A site's message is a quadratic, its likelihood expanded around its own estimate. It is most useful near the joint
estimate, which the site does not know. Three things help:

- The *anchor*: a site fits with a prior that it removes again, so that small sites expand around moderate slopes.
- *Recentring*: a quadratic contains the scatter of rows, Σ w x xᵀ, and the residuals of their outcomes. A merge reads
  it as rows with normally distributed x, and computes their contribution at the joint posterior.
- A *forecast* of the distance of the merge from one fit of all rows: about as far as recentring has moved it.
"""

from collections.abc import Callable, Sequence
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from decbayes.families import Array

if TYPE_CHECKING:
    from decbayes.models.regressions.outcome import Generalized

# Most passes to the joint posterior, halvings of a step, and the gain of the bound below which passes end.
PASSES, HALVINGS, CLIMBED = 300, 30, 1e-10
# Larger exponents overflow.
MOST = 200.0
# Smaller weights count as no rows.
LITTLE = 1e-12
# Quadrature nodes per direction: more do not change a merge by 0.01 deviations.
NODES, SHARES = np.polynomial.hermite_e.hermegauss(12)
SHARES = SHARES / SHARES.sum()
# Merges recognise first broadcasts by their shifts: multiples of a step plus a fraction that identifies the anchor. No
# sum of fewer than fifty of them looks like one, and other messages do with a chance of 1e-10 per coefficient.
STEP, PARTS, FIRST_PART = 2.0**-14, 1024, 401
# Added to the number of the anchor for Laplace fits.
LAPLACE = 64


class Quadratic(NamedTuple):
    """A log density of coefficients, sβ − ½βPβ."""

    shift: Array
    precision: Array

    @classmethod
    def of(cls, natural: Array) -> "Quadratic":
        row = np.asarray(natural, dtype=np.float64).ravel()
        side = isqrt(len(row))  # the length is side + side²
        return cls(row[:side], -2.0 * row[side:].reshape(side, side))

    @property
    def natural(self) -> Array:
        return np.concatenate([self.shift, (-0.5 * self.precision).ravel()])[None, :]

    def __add__(self, other: "Quadratic") -> "Quadratic":  # type: ignore[override]
        return Quadratic(self.shift + other.shift, self.precision + other.precision)

    def moments(self) -> tuple[Array, Array]:
        covariance = np.asarray(np.linalg.inv(self.precision), dtype=np.float64)
        return covariance @ self.shift, covariance


class Cloud(NamedTuple):
    """Rows x: counts at some points, with the same normal scatter around each."""

    counts: Array
    points: Array
    scatter: Array

    @classmethod
    def weighted(cls, precision: Array, levels: Array) -> "Cloud":
        """Rows, counted by their weights and normal around the mean of their level, from Σ w x xᵀ.

        Each row has a one at one of the `levels`: those of the baseline, or the intercept. Differences of two levels
        add nothing to the sum over all levels.
        """
        counts = precision[:, levels].sum(axis=1)[levels]
        present, counts = levels[counts > LITTLE], counts[counts > LITTLE]
        means = precision[present] / counts[:, None]
        means[:, levels] = present[:, None] == levels
        scatter = (precision - (means.T * counts) @ means) / counts.sum()
        scatter[levels], scatter[:, levels] = 0.0, 0.0
        return cls(counts, means, scatter)

    @classmethod
    def between(cls, precision: Array, levels: Array) -> "Cloud":
        """Rows that are differences of two neighbouring levels, by their weights."""
        counts = -precision[levels[:-1], levels[1:]]
        points = np.eye(len(precision))[levels]
        present = counts > LITTLE
        return cls(counts[present], (points[:-1] - points[1:])[present], np.zeros_like(precision))

    def along(self, direction: Array) -> "Cloud":
        """Split the scatter along the direction into points; the remaining scatter does not change direction · x."""
        slope = self.scatter @ direction
        length = direction @ slope
        line = slope / np.sqrt(length) if length > 0.0 else np.zeros(len(direction))
        points = (self.points[:, None, :] + NODES[:, None] * line).reshape(-1, len(direction))
        return Cloud(np.outer(self.counts, SHARES).ravel(), points, self.scatter - np.outer(line, line))

    def tilted(self, square: Array) -> "Cloud | None":
        """Multiply all counts by exp(½ x square x); None if the total is infinite."""
        inner = np.eye(len(square)) - self.scatter @ square
        if (np.linalg.eigvals(inner).real <= 0).any():
            return None
        scatter, slope = np.linalg.solve(inner, self.scatter), self.points @ square
        height = 0.5 * np.sum(slope * (self.points + slope @ scatter), axis=1) - 0.5 * np.linalg.slogdet(inner)[1]
        counts = self.counts * np.exp(np.minimum(height, MOST))
        return Cloud(counts, self.points + slope @ scatter, 0.5 * (scatter + scatter.T))

    def variances(self, covariance: Array) -> Array:
        """E[x covariance x] at each point."""
        at_points = np.sum(self.points @ covariance * self.points, axis=1)
        return np.asarray(np.maximum(at_points + np.sum(covariance * self.scatter), 0.0))


class SiteRows(Protocol):
    """A site's rows, as read from its first broadcast; `spread` is 1 if contributions are expectations under the
    posterior, as in variational fits, and 0 if they are values at its mean, as in Laplace fits.
    """

    @property
    def estimate(self) -> Array:
        """The site's own estimate."""

    def at(self, mean: Array, covariance: Array) -> tuple[Quadratic, float] | None:
        """The contribution of the rows if β ~ N(mean, covariance), and their expected log-likelihood; None if it is not
        finite.
        """


class Reading(NamedTuple):
    """A site's rows as its message suggests: where they are, and the sum of their outcomes, Xᵀy.

        log p(y | β) = β Xᵀy + Σ h(xβ)

    Rows, counted by their weights at the site's own estimate, are normal. So every message can be read, and at that
    estimate the rows contribute exactly the message.
    """

    rows: Sequence[tuple[float, Cloud]]
    estimate: Array
    targets: Array
    outcome: "Generalized"
    spread: float = 1.0

    @classmethod
    def of(
        cls, message: Quadratic, anchor: Quadratic, levels: Array, outcome: "Generalized", spread: float = 1.0
    ) -> "Reading | None":
        """None if the message says too little about its rows."""
        if not (np.diag(message.precision)[levels] > LITTLE).any():
            return None
        mean, covariance = (message + anchor).moments()
        narrow, square = split_covariance(spread * covariance, outcome)
        clouds = []
        for target, read in outcome.read_as.items():
            rows = read(message.precision, levels).tilted(-square)
            if rows is None:
                return None
            rows = rows.along(mean)
            weights = outcome.bent(target, rows.points @ mean, rows.variances(narrow))[2]
            clouds.append((target, rows._replace(counts=rows.counts / weights)))
        silent = cls(clouds, mean, np.zeros(len(mean)), outcome, spread)
        contributed = silent.at(mean, covariance)
        return None if contributed is None else silent._replace(targets=message.shift - contributed[0].shift)

    def at(self, mean: Array, covariance: Array) -> tuple[Quadratic, float] | None:
        narrow, square = split_covariance(self.spread * covariance, self.outcome)
        shift, height, precision = self.targets, float(self.targets @ mean), np.zeros_like(covariance)
        for target, cloud in self.rows:
            rows = cloud.along(mean)
            parts = self.outcome.bent(target, rows.points @ mean, rows.variances(narrow))
            tilted = rows.tilted(square)
            if tilted is None:
                return None
            value, slope, weight = (tilted.counts * part for part in parts)
            precision = precision + (tilted.points.T * weight) @ tilted.points + weight.sum() * tilted.scatter
            shift, height = shift + slope @ tilted.points, height + float(value.sum())
        sums = Quadratic(shift + precision @ mean, precision)
        return (sums, height) if np.isfinite(height) and np.isfinite(sums.shift).all() else None


def split_covariance(covariance: Array, outcome: "Generalized") -> tuple[Array, Array]:
    """The covariance over which to take expectations, and the one that only multiplies rates, exp(½ x V x)."""
    nothing = np.zeros_like(covariance)
    return (nothing, covariance) if outcome.proportional else (covariance, nothing)


def marked(message: Quadratic, anchor: int) -> Quadratic:
    """Mark a message as a first broadcast with this anchor, by its shift."""
    part = (FIRST_PART + anchor) / PARTS
    shift = STEP * (np.rint(message.shift / STEP - part) + part)
    return Quadratic(np.where(message.shift == 0.0, 0.0, shift), message.precision)


def anchor_of(message: Quadratic) -> float:
    """The number of a first broadcast's anchor; −1 for other messages."""
    parts = np.unique(message.shift[message.shift != 0.0] / STEP % 1.0 * PARTS)
    return float(parts[0]) - FIRST_PART if len(parts) == 1 else -1.0


def anchors_by_number(anchors: Sequence[Quadratic]) -> dict[float, tuple[Quadratic, float]]:
    """The anchor and the spread of first broadcasts, by the result of `anchor_of`."""
    fits = ((0, 1.0), (LAPLACE, 0.0))
    return {float(first + place): (anchor, spread) for first, spread in fits for place, anchor in enumerate(anchors)}


def recentred(
    messages: Sequence[Quadratic], prior: Quadratic, anchors: Sequence[Quadratic], levels: Array, outcome: "Generalized"
) -> list[Quadratic]:
    """The contributions of sites at the joint posterior, as far as their messages determine them: see `Reading`.

    Messages that are no first broadcasts are not changed.
    """
    known = anchors_by_number(anchors)
    sites = [
        None if (read := known.get(anchor_of(message))) is None else outcome.reading(message, read[0], levels, read[1])
        for message in messages
    ]

    def contributed(mean: Array, covariance: Array) -> tuple[list[Quadratic], float] | None:
        moved, value = [], 0.0
        for site, message in zip(sites, messages, strict=True):
            plain = message, quadratic_value(message, mean, covariance)
            contribution = plain if site is None else site.at(mean, covariance)
            # A contribution that is no posterior by itself could not be published.
            if contribution is None or not (np.linalg.eigvalsh((prior + contribution[0]).precision) > 0).all():
                return None
            moved.append(contribution[0])
            value += contribution[1]
        return moved, value

    estimates = [site.estimate for site in sites if site is not None]
    joint = climb_to_joint(contributed, prior, messages, estimates) if estimates else None
    return [*messages] if joint is None else joint


def climb_to_joint(
    contributed: Callable[[Array, Array], tuple[list[Quadratic], float] | None],
    prior: Quadratic,
    messages: Sequence[Quadratic],
    estimates: Sequence[Array],
) -> list[Quadratic] | None:
    """Contributions that are consistent with their own joint posterior; None if no start leads anywhere."""

    def place(joint: Quadratic) -> tuple[float, Quadratic, list[Quadratic]] | None:
        mean, covariance = joint.moments()
        contributions = contributed(mean, covariance)
        if contributions is None or np.linalg.slogdet(joint.precision)[0] <= 0:
            return None
        return contributions[1] - divergence(joint, prior), joint, contributions[0]

    plain = total([prior, *messages])
    middle = plain.precision @ np.mean(estimates, axis=0)
    starts = [place(joint) for joint in (plain, Quadratic(middle, plain.precision))]
    reached = max((start for start in starts if start is not None), key=lambda start: start[0], default=None)
    for _ in range(PASSES if reached is not None else 0):
        assert reached is not None
        ahead, share, trial = total([prior, *reached[2]]), 1.0, None
        for _ in range(HALVINGS):
            trial = place(between(reached[1], ahead, share))
            if trial is not None and trial[0] >= reached[0] - 1e-12 * abs(reached[0]):
                break
            share, trial = 0.5 * share, None
        if trial is None:
            break
        gain, reached = trial[0] - reached[0], trial
        if gain < CLIMBED:
            break
    return None if reached is None else reached[2]


def between(start: Quadratic, end: Quadratic, share: float) -> Quadratic:
    return Quadratic(*(a + share * (b - a) for a, b in zip(start, end, strict=True)))


def total(parts: Sequence[Quadratic]) -> Quadratic:
    return Quadratic(sum(part.shift for part in parts), sum(part.precision for part in parts))  # type: ignore[arg-type]


def divergence(joint: Quadratic, prior: Quadratic) -> float:
    """KL(joint ‖ prior), up to a constant."""
    (mean, covariance), (centre, _) = joint.moments(), prior.moments()
    apart = (mean - centre) @ prior.precision @ (mean - centre) + np.trace(prior.precision @ covariance)
    return float(0.5 * (apart + np.linalg.slogdet(joint.precision)[1]))


def quadratic_value(message: Quadratic, mean: Array, covariance: Array) -> float:
    square = np.trace(message.precision @ (covariance + np.outer(mean, mean)))
    return float(message.shift @ mean - 0.5 * square)
