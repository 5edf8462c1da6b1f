"""Unordered outcomes: the probability of each of several levels, compared with a reference.

    P(level i) = exp(f_i) / Σ_j exp(f_j),   f_i = xβ_i,   f of the reference is zero

The expected log Σ exp(f) under a Gaussian has no closed form. Tilting it by shares a that add up to 1 bounds it,

    E log Σ_j exp(f_j) ≤ aᵀμ + log Σ_j exp(μ_j − aᵀμ + ½ (e_j − a)ᵀ Σ (e_j − a)),

and the bound is lowest where a = softmax(μ + ½ diag Σ − Σ a). Its slopes there are a, and the weight of an observation
is diag(a) − aaᵀ = Σ_{i<j} a_i a_j (e_i − e_j)(e_i − e_j)ᵀ: one row for each pair of levels (`Pairs`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri, softmax

from decbayes.base.arguments import check_level
from decbayes.columns import Categorical, Column
from decbayes.columns.frames import known as known_columns
from decbayes.errors import InvalidStructure, NotCalibrated, NotPrivate
from decbayes.families import Array
from decbayes.models.core.evaluation import Risks
from decbayes.models.core.points import check_structure
from decbayes.models.core.transforms import Transform
from decbayes.models.regressions.messages import doubts
from decbayes.models.regressions.messages.one_broadcast import LITTLE, Cloud, Quadratic, quadratic_value
from decbayes.models.regressions.outcome import Approximation, Generalized, Outcome
from decbayes.models.regressions.private.bounded_scores import Scores
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.rows.stacking import Pairs
from decbayes.models.regressions.varying.half_cauchy import even_points
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

# Tolerance of log shares, the most Newton steps, and the most halvings of a step.
SHARES_WITHIN, STEPS, HALVINGS = 1e-12, 50, 20
# Half the number of points at which softmax is averaged, and of those that represent a message with few columns.
POINTS, READ_AS = 256, 64


class Softmax(Generalized):
    """The level of an observation among those `compared`; rows are its pairs of levels."""

    holds: ClassVar[type[Column]] = Categorical
    ratio: ClassVar[str] = "odds ratio"
    heaviest: ClassVar[float | None] = 0.25
    recentres: ClassVar[bool] = True

    def __init__(self, stack: Pairs | None = None) -> None:
        self.stack = stack or Pairs(("", ""), (0, 1))

    def check_column(self, model: str, name: str, column: Column) -> None:
        """Levels have been checked already."""

    def modelled(self, name: str, column: Column) -> str:
        return self.against(name, " or ".join(self.compared[1:]))

    @property
    def compared(self) -> tuple[str, ...]:
        return tuple(self.stack.compared)

    def scores(self, column: Column) -> Scores:
        raise NotPrivate(
            "MultinomialRegression has no private release: nobody has bounded what the levels of one person add "
            "together. Predict one level against all others, with LogisticRegression."
        )

    def observed(self, targets: Array, of_rows: Array) -> Array:
        return self._levels(of_rows).astype(np.float64)

    def remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
        return doubts.of_outcomes(self._levels(targets).astype(np.float64))

    def broadcast_remarks(self, targets: Array, mean: Array, weights: Array, design: Array) -> Iterator[Remark]:
        levels, others = self._levels(targets), len(self.stack.compared) - 1
        persons = np.bincount(levels, weights=weights[:: self._pairs], minlength=others + 1)
        occurring = np.sort(persons[persons > 0])
        separated = bool((self._whole(mean).argmax(axis=1) == levels).all())
        return doubts.of_one_broadcast(occurring[0], occurring[1:].sum(), design.shape[1] // others, separated)

    @property
    def _pairs(self) -> int:
        return len(self.stack.pairs[0])

    def _levels(self, targets: Array) -> NDArray[np.intp]:
        """The level of each observation, as its place among those compared, from the targets of its pairs."""
        with_reference = targets.reshape(-1, self._pairs)[:, : len(self.stack.compared) - 1]
        return np.where((with_reference > 0).any(axis=1), 1 + with_reference.argmax(axis=1), 0)

    def _whole(self, mean: Array) -> Array:
        """(N, levels): E[f] of each level, zero for the reference."""
        means = mean.reshape(-1, self._pairs)[:, : len(self.stack.compared) - 1]
        return np.column_stack([np.zeros(len(means)), means])

    def joint(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """(N, levels) and (N, levels, levels): moments of f, from those of the differences of all pairs."""
        count, (later, earlier) = len(self.stack.compared), self.stack.pairs
        differences = np.zeros((len(mean) // self._pairs, count, count))
        differences[:, later, earlier] = differences[:, earlier, later] = variance.reshape(-1, self._pairs)
        from_reference = differences[:, :, 0]
        return self._whole(mean), 0.5 * (from_reference[:, :, None] + from_reference[:, None, :] - differences)

    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        means, covariances = self.joint(mean, variance)
        shares, total = tilted(means, covariances)
        levels, (later, earlier) = self._levels(targets), self.stack.pairs
        rows = np.arange(len(levels))
        value = np.zeros((len(levels), self._pairs))
        value[:, 0] = means[rows, levels] - total
        has = np.zeros(shares.shape)
        has[rows, levels] = 1.0
        slope = has[:, later] * shares[:, earlier] - has[:, earlier] * shares[:, later]
        return value.ravel(), slope.ravel(), (shares[:, later] * shares[:, earlier]).ravel()

    def reading(self, message: Quadratic, anchor: Quadratic, levels: Array, spread: float) -> "LevelRows | None":
        return LevelRows.of(message, anchor, levels, spread)

    def most_of_one(self, value: float) -> tuple[float, float]:
        # a_i Σ_j a_j (f_i − f_j) is a_i (log a_i + H(a)), and the tilt adds at most half of tr(WΣ), which the
        # observation's own weight keeps below the number of levels.
        count = len(self.stack.compared)
        return 2.0 + float(np.log(count)) + 0.5 * count, 0.25

    def beginning(self, targets: Array, offset: Array) -> Array:
        return offset

    def log_shares(self, mean: Array, variance: Array) -> Array:
        """(N, levels, points): log softmax(f) at points that represent f ~ N(mean, variance)."""
        means, covariances = self.joint(mean, variance)
        values, axes = np.linalg.eigh(covariances[:, 1:, 1:])
        roots = axes * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        drawn = np.repeat(means[:, :, None], 2 * POINTS, axis=2)
        drawn[:, 1:] += roots @ normal_points(len(self.stack.compared) - 1).T
        return np.asarray(drawn - logsumexp(drawn, axis=1, keepdims=True))

    def log_density(self, natural: Array, mean: Array, variance: Array, targets: Array) -> Array:
        """Of each observation, at the first of its pairs."""
        logs = logsumexp(self.log_shares(mean, variance), axis=2) - np.log(2 * POINTS)
        density = np.zeros((len(logs), self._pairs))
        density[:, 0] = logs[np.arange(len(logs)), self._levels(targets)]
        return density.ravel()

    def predicted(self, natural: Array, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """(N, levels): the probability of each; intervals say how well it is known."""
        shares = np.exp(self.log_shares(mean, variance))
        low, high = np.quantile(shares, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=2)
        return {"mean": shares.mean(axis=2), "low": low, "high": high}

    def draw(self, linear: Array, noise: float, rng: np.random.Generator) -> Array:
        """A level per observation, as its place among those compared."""
        chances = np.cumsum(softmax(self._whole(linear), axis=1), axis=1)
        drawn = (rng.random(len(chances))[:, None] > chances).sum(axis=1)
        return np.asarray(np.minimum(drawn, len(self.stack.compared) - 1), dtype=np.float64)


class LevelRows(NamedTuple):
    """A site's rows as its message suggests: counts at some points, and the part of the message that these miss.

        log p(y | β) = β Xᵀy − Σ log Σ_j exp(xβ_j)

    The weights of all pairs of an observation add up to w = Σ_{i<j} a_i a_j. Observations, weighted by w at the site's
    own estimate, are normal; there they and the rest contribute exactly the message.
    """

    counts: Array
    points: Array
    estimate: Array
    rest: Quadratic
    spread: float

    @classmethod
    def of(cls, message: Quadratic, anchor: Quadratic, levels: Array, spread: float) -> "LevelRows | None":
        """None if the message says too little about its rows. `levels` are the intercepts of the outcome's levels."""
        size, others = len(message.shift), len(levels)
        blocks = message.precision.reshape(others, size // others, others, size // others)
        # Σ a_i a_j x xᵀ is minus the off-diagonal block; for pairs with the reference, the rest of a row.
        weighted = sum(blocks[i, :, j] for i in range(others) for j in range(i + 1))
        if not np.asarray(weighted)[levels[0], levels[0]] > LITTLE:
            return None
        cloud = Cloud.weighted(np.asarray(weighted), levels[:1])
        values, axes = np.linalg.eigh(cloud.scatter)
        standard = normal_points(len(values), max(READ_AS, 4 * len(values)))
        # Points with exactly the moments of the cloud.
        standard = np.linalg.solve(np.linalg.cholesky(standard.T @ standard / len(standard)), standard.T).T
        points = cloud.points + standard @ (axes * np.sqrt(np.maximum(values, 0.0))).T
        mean, covariance = (message + anchor).moments()
        nothing = Quadratic(np.zeros(size), np.zeros((size, size)))
        rows = cls(np.full(len(points), cloud.counts[0] / len(points)), points, mean, nothing, spread)
        shares, _ = rows.shares(mean, covariance)
        rows = rows._replace(counts=rows.counts / (0.5 * (1.0 - np.sum(shares**2, axis=1))))
        contributed, _ = rows.at(mean, covariance)
        rest = Quadratic(message.shift - contributed.shift, message.precision - contributed.precision)
        return rows._replace(rest=rest)

    def shares(self, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Shares of all levels at each point, and the bound of E log Σ exp(f), if β ~ N(mean, covariance)."""
        (count, side), others = self.points.shape, len(mean) // self.points.shape[1]
        means, covariances = np.zeros((count, others + 1)), np.zeros((count, others + 1, others + 1))
        means[:, 1:] = self.points @ mean.reshape(others, side).T
        wide = self.spread * covariance.reshape(others, side, others, side)
        covariances[:, 1:, 1:] = np.einsum("nd,idje,ne->nij", self.points, wide, self.points, optimize=True)
        return tilted(means, covariances)

    def at(self, mean: Array, covariance: Array) -> tuple[Quadratic, float]:
        """The contribution of the rows if β ~ N(mean, covariance), and their expected log-likelihood."""
        shares, total = self.shares(mean, covariance)
        counted = self.counts[:, None] * shares[:, 1:]
        weights = counted[:, :, None] * (np.eye(counted.shape[1]) - shares[:, None, 1:])
        precision = np.einsum("nij,nd,ne->idje", weights, self.points, self.points, optimize=True)
        precision = precision.reshape(len(mean), len(mean))
        sums = Quadratic(precision @ mean - (counted.T @ self.points).ravel(), precision) + self.rest
        return sums, quadratic_value(self.rest, mean, self.spread * covariance) - float(self.counts @ total)


def tilted(mean: Array, covariance: Array) -> tuple[Array, Array]:
    """The shares a of levels, and the bound of E log Σ exp(f), given the moments of f in each row."""
    spread = np.diagonal(covariance, axis1=1, axis2=2)
    shares = shares_at(mean + 0.5 * spread, covariance)
    product = times(covariance, shares)
    middle, quadratic = np.sum(shares * mean, axis=1), np.sum(shares * product, axis=1)
    heights = mean - middle[:, None] + 0.5 * (spread - 2.0 * product + quadratic[:, None])
    return shares, middle + (heights - log_shares_of(heights))[:, 0]


def shares_at(high: Array, covariance: Array) -> Array:
    """(N, levels): a = softmax(high − Σ a), the minimum of Σ a log a − highᵀa + ½ aᵀΣa, by Newton's method on log a."""
    logits = high - times(covariance, np.exp(log_shares_of(high)))
    moving, alike = np.arange(len(high)), np.eye(high.shape[1])
    for _ in range(STEPS if len(high) else 0):
        top, wide, at = high[moving], covariance[moving], logits[moving]
        shares = np.exp(log_shares_of(at))
        off = at + times(wide, shares) - top
        weights = shares[:, :, None] * (alike - shares[:, None, :])
        step = np.asarray(-np.linalg.solve(alike + wide @ weights, off[:, :, None])[:, :, 0], dtype=np.float64)
        logits[moving], lower = shorter(at, step, top, wide)
        moving = moving[lower & (np.abs(step).max(axis=1) > SHARES_WITHIN * (1.0 + np.abs(top).max(axis=1)))]
        if not len(moving):
            break
    return np.exp(log_shares_of(logits))


def shorter(logits: Array, step: Array, high: Array, covariance: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Logits after a step, halved while it would lead upward; and where it led downward."""

    def height(at: Array) -> Array:
        logs = log_shares_of(at)
        shares = np.exp(logs)
        return np.asarray(np.sum(shares * (logs - high + 0.5 * times(covariance, shares)), axis=1))

    before, share = height(logits), np.ones((len(logits), 1))
    worse = np.ones(len(logits), dtype=np.bool_)
    for _ in range(HALVINGS):
        worse = height(logits + share * step) > before + 1e-12 * (1.0 + np.abs(before))
        if not worse.any():
            break
        share[worse] *= 0.5
    return np.where(worse[:, None], logits, logits + share * step), ~worse


def log_shares_of(logits: Array) -> Array:
    """log softmax of each row; SciPy's is slow for small arrays."""
    below = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(below - np.log(np.exp(below).sum(axis=1, keepdims=True)))


def times(matrices: Array, vectors: Array) -> Array:
    """The product of each matrix and its vector."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def normal_points(side: int, half: int = POINTS) -> Array:
    """(2 × half, side): quasi-random points of a standard Gaussian, and their negatives."""
    normal = ndtri(even_points(half, side))
    return np.concatenate([normal, -normal])


@dataclass(frozen=True, kw_only=True)
class MultinomialRegression(Regression):
    """Which of several unordered levels (bus, car, train) an outcome has, from other columns.

        P(level) = exp(xβ_level) / Σ exp(xβ),   β of the `reference` is zero

    Each level but the reference (default: the first of the column) has its own coefficients. exp(β) is the odds ratio
    of that level against the reference. Variation between sites is independent for each level. All else is as in
    `LogisticRegression`; there is no offset.

    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(50, 10, 600)
    >>> odds = np.exp(np.column_stack([0 * age, 0.1 * (age - 50), -0.1 * (age - 50)]))
    >>> places = (rng.random((600, 1)) > np.cumsum(odds / odds.sum(axis=1, keepdims=True), axis=1)).sum(axis=1)
    >>> trips = {"age": age, "by": np.array(["bus", "car", "train"])[places]}
    >>> model = db.MultinomialRegression.from_frame(trips, "by ~ age", reference="bus")
    >>> posterior = model.fit(trips).posterior
    >>> [(row["term"], round(row["ratio"], 1)) for row in model.ratios(posterior)]
    [('car: age', 1.1), ('train: age', 0.9)]
    >>> model.probabilities(posterior, {"age": [30.0, 70.0]}).round(1)
    array([[0.2, 0. , 0.8],
           [0.1, 0.9, 0. ]])
    """

    approximation: Approximation = "variational"
    reference: Annotated[str, "The level of the outcome that all others are compared with."] = ""

    about: ClassVar[str] = "Predict a column with levels in no order, such as bus, car, train."
    command: ClassVar[str] = "multinomial-regression"
    example: ClassVar[str] = "trips.csv --formula 'by ~ age + distance' --reference bus"
    outcome: ClassVar[Outcome] = Softmax()

    def __post_init__(self) -> None:
        if self.offset:
            raise InvalidStructure("MultinomialRegression has no offset: leave it out of the formula.")
        super().__post_init__()

    @cached_property
    def stack(self) -> Pairs:
        column = known_columns(self.columns).get(self.target)
        entries = () if column is None else column.entries
        if len(entries) < 2 or not isinstance(column, Categorical):
            raise InvalidStructure(f"The target '{self.target}' must be a categorical column.")
        reference = self.reference or entries[0]
        if reference not in entries:
            raise InvalidStructure(f"There is no level '{reference}' in '{self.target}' to compare with.")
        compared = (reference, *(entry for entry in entries if entry != reference))
        stack = Pairs(compared, tuple(compared.index(entry) for entry in entries))
        object.__setattr__(self, "reference", reference)
        object.__setattr__(self, "outcome", Softmax(stack))
        return stack

    @property
    def predicted_levels(self) -> tuple[str, ...]:
        """In the order of probabilities."""
        return tuple(self.columns[self.target].entries)

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        formula: Annotated[str, "What to fit, as in 'by ~ age + distance'; or name a --target."] = "",
        **options: Any,
    ) -> tuple[Self, Any]:
        """Give a --formula, or name the --target column; and say which level is the --reference."""
        return super().from_file(path, formula=formula, **options)

    def probabilities(self, posterior: Posterior, data: Any, *, known: Any = None) -> Array:
        """(N, levels): the probability of each level in each row of `data`.

        >>> model = db.MultinomialRegression("by", columns={"by": db.columns.Categorical("bus", "car", "train")})
        >>> model.probabilities(db.Posterior.of_prior(model.structure), np.full((1, 1), np.nan)).round(2)
        array([[0.33, 0.33, 0.33]])
        """
        return self.predict(posterior, data, known=known)["mean"]

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9, known: Any = None) -> dict[str, Array]:
        """(N, levels): the probability of each level as the `mean`, with an interval from `low` to `high`."""
        check_level(level)
        check_structure(posterior, self.structure, "posterior")
        points = self.table.points(data, target=False)
        linear = self._deviations.linear(posterior, points, self.table.rows(points, every=True), known)
        predicted = self.outcome.predicted(np.empty(0), *linear, level)
        return {name: part[:, self.stack.places] for name, part in predicted.items()}

    def transform(self, posterior: Posterior) -> Transform:
        """The probability of each level, and the ends of its 90 % interval."""
        parts, levels = super().transform(posterior), self.predicted_levels
        return parts._replace(names=tuple(f"{level}: {part}" for part in parts.names for level in levels))

    def risks(self, posterior: Posterior, data: Any) -> Risks:
        raise NotCalibrated(
            "Unordered levels have no concordance. `decbayes score` measures how well levels are predicted."
        )

    def _draw_outcome(self, points: Array, linear: Array, noise: float, rng: np.random.Generator) -> None:
        drawn = self.outcome.draw(linear, noise, rng).astype(int)
        points[:, self.table.target_place] = np.argsort(self.stack.places)[drawn]
