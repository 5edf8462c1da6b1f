"""Negative binomial regression: counts with more variance than Poisson counts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from scipy.special import betainc, gammaln, logsumexp

from decbayes.base.arguments import Above, check_positive
from decbayes.columns import Column
from decbayes.columns.sums import Dispersion
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.regressions.logistic import NODES, WEIGHTS, Logistic
from decbayes.models.regressions.outcome import Outcome
from decbayes.models.regressions.poisson import MOST, PoissonOutcome, PoissonRegression, smallest_count
from decbayes.models.regressions.private.bounded_scores import CountScores
from decbayes.remarks import Remark


@dataclass(frozen=True)
class NegativeBinomial(PoissonOutcome):
    """A count has the mean exp(f) and the variance mean + mean² / φ.

        log p(y|f) = y f′ − (y + φ) log(1 + exp f′) + const,   f′ = f − log φ

    so its expectations are those of the logistic function.
    """

    dispersion: float = 1.0
    proportional: ClassVar[bool] = False
    common: ClassVar[tuple[float, ...]] = ()

    def expectations(self, targets: Array, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        shifted, total = mean - np.log(self.dispersion), targets + self.dispersion
        # E[log σ(−f′)], its slope and its weight, as for rows that are all "no".
        value, slope, weight = Logistic().expectations(np.zeros(len(mean)), shifted, variance)
        constant = gammaln(total) - gammaln(self.dispersion) - gammaln(targets + 1.0)
        return targets * shifted + total * value + constant, targets + total * slope, total * weight

    def remarks(self, targets: Array, mean: Array, weights: Array, side: int) -> Iterator[Remark]:
        return iter(())

    @property
    def assumed(self) -> str:
        return f"with the variance mean + mean² / {self.dispersion:g} (dispersion)"

    def most_of_one(self, value: float) -> tuple[float, float]:
        total = value + self.dispersion
        return total * (2.0 + np.log1p(value) + abs(np.log(self.dispersion))), 0.25 * total

    def scores(self, column: Column) -> CountScores:
        return CountScores(float(getattr(column, "mean", 1.0)), float(self.dispersion))

    def log_density(self, natural: Array, mean: Array, variance: Array, targets: Array) -> Array:
        f = mean[:, None] + np.sqrt(variance)[:, None] * NODES
        values = self.expectations(targets.repeat(len(NODES)), f.ravel(), np.zeros(f.size))[0].reshape(f.shape)
        return np.asarray(logsumexp(values + np.log(WEIGHTS / WEIGHTS.sum()), axis=1))

    def predicted(self, natural: Array, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """The mean count; the interval is that of a new count, by quadrature over f."""
        expected = np.exp(np.minimum(mean + 0.5 * variance, MOST))
        low, high = (self._quantile(mean, variance, 0.5 + side * level) for side in (-0.5, 0.5))
        return {"mean": expected, "low": low, "high": high}

    def _quantile(self, mean: Array, variance: Array, share: float) -> Array:
        rates = np.exp(np.minimum(mean[:, None] + np.sqrt(variance)[:, None] * NODES, 30.0))
        weights, chance = WEIGHTS / WEIGHTS.sum(), self.dispersion / (self.dispersion + rates)

        def at_most(counts: Array) -> Array:
            return np.asarray(betainc(self.dispersion, counts[:, None] + 1.0, chance) @ weights)

        return smallest_count(at_most, share, np.ceil(1e3 * (rates.max(axis=1) + 1.0)))

    def draw(self, linear: Array, noise: float, rng: np.random.Generator) -> Array:
        rates = np.exp(np.minimum(linear, 30.0)) * rng.gamma(self.dispersion, 1.0 / self.dispersion, len(linear))
        return np.asarray(rng.poisson(np.minimum(rates, 1e15)), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class NegativeBinomialRegression(PoissonRegression):
    """How often something happens, if counts vary more than by chance alone: variance = mean + mean² / φ.

    Sites agree on `dispersion`, φ: each sends its two `sums`, and `settled` computes φ from those of all sites. All
    else is as in `PoissonRegression`.

    >>> rng = np.random.default_rng(0)
    >>> ward = rng.choice(["bone", "heart"], 400)
    >>> visits = rng.poisson(np.where(ward == "heart", 6.0, 2.0) * rng.gamma(2.0, 0.5, 400))
    >>> patients = {"ward": ward, "visits": visits}
    >>> model = db.NegativeBinomialRegression.from_frame(patients, "visits ~ ward")
    >>> sites = [model.points(patients)[site::2] for site in range(2)]
    >>> model = model.settled(db.columns.agree(*(model.sums(rows, least=5) for rows in sites)))
    >>> 1.0 < model.dispersion < 3.0
    True
    >>> [round(row["mean"], 1) for row in model.coefficients(model.fit(patients).posterior)]
    [0.7, 1.0]
    """

    dispersion: Annotated[float, "φ: the variance is mean + mean² / φ.", Above(0)] = 1.0

    about: ClassVar[str] = "Predict counts that vary more than Poisson counts do."
    summed_settings: ClassVar[frozenset[str]] = frozenset({"dispersion"})
    command: ClassVar[str] = "negative-binomial-regression"
    outcome: ClassVar[Outcome] = NegativeBinomial()
    example: ClassVar[str] = "patients.csv --formula 'visits ~ age + sex' --dispersion 2"

    def __post_init__(self) -> None:
        check_positive(dispersion=self.dispersion)
        object.__setattr__(self, "outcome", NegativeBinomial(float(self.dispersion)))
        super().__post_init__()

    def constants(self) -> dict[str, Any]:
        return super().constants() | {"dispersion": float(self.dispersion)}

    @property
    def _counts(self) -> str:
        """The name of the sums."""
        return f"Dispersion({self.target})"

    def sums(self, data: Any, *, least: int, persons: Persons = EACH) -> dict[str, Column]:
        """The two sums of a Poisson regression of these rows, from which the `dispersion` of all sites follows."""
        plain = PoissonRegression(**{field.name: getattr(self, field.name) for field in fields(PoissonRegression)})
        points = self.points(data)
        return {self._counts: Dispersion.of(*plain.dispersion_sums(plain.fit(points).posterior, points))}

    def settled(self, sums: Mapping[str, Column]) -> Self:
        dispersion = sums.get(self._counts)
        if not isinstance(dispersion, Dispersion):
            raise InvalidData(
                f"The agreed columns have no sums for the dispersion of '{self.target}'. List them at all sites with "
                "`decbayes columns DATA --model negative-binomial-regression --formula …`, or state --dispersion."
            )
        if not np.isfinite(dispersion.dispersion):
            raise InvalidData(
                f"Over all sites '{self.target}' varies no more than Poisson counts do: fit poisson-regression, or "
                "state --dispersion."
            )
        return replace(self, dispersion=dispersion.dispersion)
