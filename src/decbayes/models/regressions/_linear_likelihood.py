"""A real target with noise of unknown size around a linear predictor: for one regression, and for mixtures of them."""

from dataclasses import dataclass, field
from math import log, pi
from typing import Annotated

import numpy as np
from scipy.special import gammaln

from decbayes.arguments import Above, check_positive
from decbayes.columns import Gaussian
from decbayes.families import Array, GaussianGamma
from decbayes.families.matrices import flat, folded, mirrored, upper_products
from decbayes.models.regressions.design import Design
from decbayes.models.regressions.table import RegressionTable


@dataclass(frozen=True)
class LinearTable(RegressionTable):
    """y ~ N(xβ, 1/τ) with τ ~ Gamma and β | τ ~ N(0, prior_variance / τ).

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

    def __post_init__(self) -> None:
        check_positive(prior_variance=self.prior_variance, prior_noise=self.prior_noise)
        check_positive(prior_degrees=self.prior_degrees)
        super().__post_init__()

    @property
    def family(self) -> GaussianGamma:
        return GaussianGamma()

    def coefficient_prior(self) -> Array:
        side, shape = len(self.design.labels), 0.5 * float(self.prior_degrees)
        weight, rate = np.eye(side) / float(self.prior_variance), shape * float(self.prior_noise)
        return self.family.natural(mean=np.zeros((1, side)), scaled_precision=weight, shape=shape, rate=rate)

    @classmethod
    def prior_settings(cls, prior: Array) -> dict[str, float]:
        usual = GaussianGamma().parameters(prior)
        shape = float(usual["shape"][0])
        variance = 1.0 / float(usual["scaled_precision"][0, 0, 0])
        noise = float(usual["rate"][0]) / shape
        return {"prior_variance": variance, "prior_noise": noise, "prior_degrees": 2.0 * shape}

    def target_units(self) -> tuple[float, float]:
        column = self.columns[self.target]
        assert isinstance(column, Gaussian)
        return column.scale, column.centre


@dataclass(frozen=True)
class LinearLikelihood:
    """y ~ N(xβ_k, 1 / τ_k), both unknown, of rows coded as columns say. Features: y², xy, products of two of x, 1."""

    design: Design
    place: int
    centre: float
    scale: float

    @property
    def family(self) -> GaussianGamma:
        return GaussianGamma()

    def parts(self, points: Array) -> tuple[Array, Array]:
        """(N, D) numbers of the terms, and (N,) targets in agreed units."""
        rows = self.design.matrix(np.delete(points, self.place, axis=1))
        return rows, (points[:, self.place] - self.centre) / self.scale

    def features(self, points: Array) -> Array:
        x, y = self.parts(points)
        return np.column_stack([y**2, x * y[:, None], upper_products(x), np.ones(len(x))])

    def coefficients(self, natural: Array) -> Array:
        mean, side = self.family.mean(natural), self.family.dimension(natural.shape[1])
        products = folded(mean[:, 2 + side :].reshape(-1, side, side))
        constant = 0.5 * (mean[:, :1] - log(2 * pi)) - log(self.scale)
        return np.hstack([-0.5 * mean[:, 1:2], mean[:, 2 : 2 + side], -0.5 * products, constant]).T

    def contribution(self, sums: Array) -> Array:
        side = len(self.design.labels)
        square, shift, products, count = np.split(sums, [1, 1 + side, -1], axis=1)
        return np.hstack([0.5 * count, -0.5 * square, shift, -0.5 * flat(mirrored(products, side))])

    def student(self, natural: Array, rows: Array) -> tuple[Array, Array, Array]:
        """Mean and scale of y, (N, K), in agreed units, and degrees of freedom, (K,)."""
        mean, weight, shape, rate = self.family.columns(natural)
        spread = np.einsum("nd,kde,ne->nk", rows, np.linalg.inv(weight), rows)
        return rows @ mean.T, student_scale(shape, rate, spread), 2.0 * shape

    def log_predictive(self, natural: Array, points: Array) -> Array:
        """A target that nobody has seen says nothing."""
        rows, targets = self.parts(points)
        density = log_student(targets[:, None], *self.student(natural, rows)) - log(self.scale)
        return np.where(np.isnan(targets)[:, None], 0.0, density)


def student_scale(shape: Array, rate: Array, variance: Array) -> Array:
    """The scale of y where its mean has this variance, in variances of a noise whose precision is Gamma."""
    return np.asarray(np.sqrt(rate / shape * (1.0 + variance)))


def log_student(y: Array, mean: Array, scale: Array, degrees: Array) -> Array:
    """The log density of Student's t."""
    constant = gammaln(0.5 * (degrees + 1)) - gammaln(0.5 * degrees) - 0.5 * np.log(degrees * pi)
    return np.asarray(constant - np.log(scale) - 0.5 * (degrees + 1) * np.log1p(((y - mean) / scale) ** 2 / degrees))
