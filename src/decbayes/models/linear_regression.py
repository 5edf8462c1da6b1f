"""Linear regression with unknown noise: conjugate, so that a merge of sites is the posterior of all their rows."""

from dataclasses import dataclass, field
from math import log, pi
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import gammaln, stdtrit

from decbayes.arguments import Above, check_positive
from decbayes.columns import Gaussian
from decbayes.families import Array, GaussianGamma, MeanAndPrecision
from decbayes.models.ascent import Fit, OnPass, Pass
from decbayes.models.points import check_rounding, check_structure
from decbayes.models.regression import FACTOR, Regression
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class LinearRegression(Regression):
    """y ~ N(xβ, 1/τ) with τ ~ Gamma and β | τ ~ N(0, prior_variance / τ): exact, merged or not.

    A coefficient's prior variance is `prior_variance` times that of the noise. The noise's own variance has the prior
    mean `prior_noise`, in squared units of the target, with the weight of `prior_degrees` observations.
    """

    prior_variance: Annotated[float, "Prior variance of coefficients, in variances of the noise.", Above(0)] = field(
        default=100.0, kw_only=True
    )
    prior_noise: Annotated[float, "The prior noise variance, in the target's own squared units.", Above(0)] = field(
        default=0.5, kw_only=True
    )
    prior_degrees: Annotated[float, "Observations that the prior noise weighs.", Above(0)] = field(
        default=1.0, kw_only=True
    )

    about: ClassVar[str] = "A real column from others, where a merge is exact."
    command: ClassVar[str] = "linear-regression"
    example: ClassVar[str] = "patients.csv --formula 'pressure ~ age + sex'"

    def __post_init__(self) -> None:
        check_positive(prior_noise=self.prior_noise, prior_degrees=self.prior_degrees)
        super().__post_init__()

    @property
    def family(self) -> GaussianGamma:
        return GaussianGamma()

    def coefficient_prior(self) -> Array:
        side, shape = len(self.design.labels), 0.5 * float(self.prior_degrees)
        weight = np.eye(side) / float(self.prior_variance)
        mean = np.zeros((1, side))
        return self.family.natural(mean=mean, scaled_precision=weight, shape=shape, rate=shape * self.prior_noise)

    @classmethod
    def prior_settings(cls, prior: Array) -> dict[str, float]:
        usual = GaussianGamma().parameters(prior)
        shape = float(usual["shape"][0])
        variance = 1.0 / float(usual["scaled_precision"][0, 0, 0])
        noise = float(usual["rate"][0]) / shape
        return {"prior_variance": variance, "prior_noise": noise, "prior_degrees": 2.0 * shape}

    def fit(
        self,
        data: Any,
        *,
        rng: np.random.Generator | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """The exact posterior; `rng` and `start` are accepted, as every model does, and change nothing."""
        prior = prior or Posterior.of_prior(self.structure)
        check_structure(prior, self.structure, "prior")
        before = prior.natural[FACTOR]
        design, targets = self.parts(data)
        after = before + contribution(design, self.in_units(targets))
        check_rounding(0.0 if self.family.contains(after) else np.inf)
        size, _ = self.target_units()
        gained = self.family.log_partition(after) - self.family.log_partition(before)
        bound = gained - len(targets) * (0.5 * log(2 * pi) + log(size))
        if progress is not None:
            progress(Pass(0, 1, bound))
        return Fit(Posterior.from_natural(self.structure, {FACTOR: after}), (bound,), True)

    def target_units(self) -> tuple[float, float]:
        column = self.columns[self.target]
        assert isinstance(column, Gaussian)
        return column.scale, column.centre

    def in_units(self, targets: Array) -> Array:
        size, zero = self.target_units()
        return (targets - zero) / size

    def log_density(self, posterior: Posterior, design: Array, targets: Array) -> Array:
        mean, scale, degrees = self._student(posterior, design)
        size, _ = self.target_units()
        z = (self.in_units(targets) - mean) / scale
        constant = gammaln(0.5 * (degrees + 1)) - gammaln(0.5 * degrees) - 0.5 * log(degrees * pi)
        return np.asarray(constant - np.log(scale * size) - 0.5 * (degrees + 1) * np.log1p(z**2 / degrees))

    def predicted(self, posterior: Posterior, design: Array, level: float) -> dict[str, Array]:
        """The interval is that of a new value, noise included."""
        mean, scale, degrees = self._student(posterior, design)
        reach = stdtrit(degrees, 0.5 + 0.5 * level) * scale
        size, zero = self.target_units()
        return {"mean": zero + size * mean, "low": zero + size * (mean - reach), "high": zero + size * (mean + reach)}

    def interval(self, posterior: Posterior, level: float) -> tuple[Array, Array, Array, Array]:
        (mean,), (weight,), (shape,), (rate,) = self.family.columns(posterior.natural[FACTOR])
        scale = np.sqrt(np.diag(np.linalg.inv(weight)) * rate / shape)
        reach = stdtrit(2.0 * shape, 0.5 + 0.5 * level) * scale
        return mean, self.family.deviation(posterior.natural[FACTOR]).mean[0], mean - reach, mean + reach

    def noise(self, posterior: Posterior) -> float:
        """The standard deviation of the noise, in the target's own unit, at its mean precision."""
        check_structure(posterior, self.structure, "posterior")
        precision = float(self.family.expected(posterior.natural[FACTOR]).precision[0])
        return float(self.target_units()[0] / precision**0.5)

    def draw_outcomes(self, parameters: MeanAndPrecision, design: Array, rng: np.random.Generator) -> Array:
        size, zero = self.target_units()
        noise = rng.standard_normal(len(design)) / np.sqrt(parameters.precision[0])
        return np.asarray(zero + size * (design @ parameters.mean[0] + noise))

    def drawn_coefficients(self, parameters: Any) -> Array:
        return np.asarray(parameters.mean[0])

    def _student(self, posterior: Posterior, design: Array) -> tuple[Array, Array, float]:
        """Mean and scale of each row's prediction, a Student-t, and its degrees of freedom; in units of the target."""
        (mean,), (weight,), (shape,), (rate,) = self.family.columns(posterior.natural[FACTOR])
        spread = np.einsum("nd,nd->n", design, np.linalg.solve(weight, design.T).T)
        return design @ mean, np.sqrt(rate / shape * (1.0 + spread)), 2.0 * float(shape)


def contribution(design: Array, targets: Array) -> Array:
    """(1, d): what rows add to the natural parameters, (½N, −½yᵀy, Xᵀy, −½XᵀX)."""
    first = np.array([0.5 * len(targets), -0.5 * float(targets @ targets)])
    return np.concatenate([first, design.T @ targets, (-0.5 * (design.T @ design)).ravel()])[None, :]
