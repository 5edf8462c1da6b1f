"""A Gaussian with unknown mean: the conjugate case, in which merges are exact (section 2.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from decbayes.base.arguments import Above, Seed, as_shape, check_positive, check_whole
from decbayes.families import Array, IsotropicGaussian, dense
from decbayes.models.core.ascent import Fit, OnPass, Pass, on_top
from decbayes.models.core.dimensions import OfPoints, completed
from decbayes.models.core.information import Tally
from decbayes.models.core.model import Row
from decbayes.models.core.points import as_points, check_fit, check_held, check_structure
from decbayes.models.likelihoods.likelihood import KnownVariance, counts_of, largest_contribution
from decbayes.posterior import Posterior
from decbayes.structure import Structure


@dataclass(frozen=True)
class GaussianMean(OfPoints):
    """x ~ N(μ, variance · I) with μ ~ N(prior_mean, prior_variance · I).

    `dimension` is the number of columns, by default that of the data.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> sites = [model.fit(points).posterior for points in ([1.0, 2.0], [3.0])]
    >>> db.merge(sites).mean("mean").round(2), model.fit([1.0, 2.0, 3.0]).posterior.mean("mean").round(2)
    (array([[1.99]]), array([[1.99]]))
    """

    variance: Annotated[float, "The known variance of the points.", Above(0)] = 1.0
    prior_mean: Annotated[Any, "The prior mean, in every dimension."] = 0.0
    prior_variance: Annotated[float, "The prior variance of the mean.", Above(0)] = 1.0
    dimension: int = 0

    about: ClassVar[str] = "The mean of points with known variance; merges are exact."
    command: ClassVar[str] = "mean"
    example: ClassVar[str] = "heights.csv --variance 50 --prior-mean 170"

    def __post_init__(self) -> None:
        check_whole(0, dimension=self.dimension)
        check_positive(variance=self.variance, prior_variance=self.prior_variance)

    def described(self) -> Structure:
        mean = as_shape("prior_mean", self.prior_mean, (1, self.known_dimension()))
        return Structure(
            families={"mean": IsotropicGaussian()},
            prior={"mean": IsotropicGaussian().natural(mean=mean, variance=self.prior_variance)},
            model={"name": "GaussianMean", "variance": float(self.variance)},
        )

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        prior = IsotropicGaussian().parameters(structure.prior["mean"])
        mean, variance = prior["mean"][0], float(prior["variance"][0])
        shared = {"prior_mean": mean, "prior_variance": variance, "dimension": len(mean)}
        return {**super().settings_of(structure), **shared}

    @on_top
    @completed
    def fit(
        self,
        data: Any,
        *,
        rng: Seed | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """The exact posterior; `rng` and `start` have no effect, they belong to every model's signature."""
        check_fit(self.structure, rng, prior, start)
        points = as_points(data, self.dimension)
        prior = prior or Posterior.of_prior(self.structure)
        before = prior.natural["mean"]
        sums = self._likelihood.features(points).sum(axis=0, keepdims=True)
        after = before + self._likelihood.contribution(sums)
        bound = self._log_evidence(points, before)
        if progress is not None:
            progress(Pass(0, 1, bound))
        return Fit(Posterior.from_natural(self.structure, {"mean": after}), (bound,), True)

    @completed
    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(x | posterior) per observation, the mean integrated out; with `held`, that of the held-out values."""
        check_structure(posterior, self.structure, "posterior")
        points = as_points(data if held is None else held, self.dimension, unseen=held is not None)
        if held is not None:
            check_held(as_points(data, self.dimension, unseen=True), points)
        # Dimensions are independent: observed values of a point do not help to predict the others.
        return self._likelihood.log_predictive(posterior.natural["mean"], points)[:, 0]

    @completed
    def assign(self, posterior: Posterior, data: Any) -> Array:
        """Everything belongs to the one component."""
        check_structure(posterior, self.structure, "posterior")
        return np.ones((len(as_points(data, self.dimension)), 1))

    def draw(self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator) -> tuple[Array, Any]:
        """Points around the mean; there are no hidden variables."""
        nothing = np.zeros(size, dtype=np.intp)
        return self._likelihood.draw(parameters["mean"], nothing, rng), nothing

    @completed
    def information(self, posterior: Posterior, data: Any) -> Array:
        """Zero: nothing is hidden, and the posterior is exact."""
        check_structure(posterior, self.structure, "posterior")
        return np.zeros((posterior.structure.prior["mean"].size,) * 2)

    @completed
    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """The mean and its standard deviation."""
        check_structure(posterior, self.structure, "posterior")
        parameters = posterior.parameters("mean")
        return [{"component": 0, "mean": parameters["mean"][0], "standard deviation": np.sqrt(parameters["variance"])}]

    @completed
    def tally(self, posterior: Posterior) -> Tally:
        check_structure(posterior, self.structure, "posterior")
        counts = counts_of(self._likelihood, dense(posterior.contribution["mean"]), self.dimension)[:, 0]
        return Tally(counts, counts)

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        return {"mean": largest_contribution(self._likelihood, value, self.dimension)}

    @property
    def _likelihood(self) -> KnownVariance:
        return KnownVariance(float(self.variance))

    def _log_evidence(self, points: Array, before: Array) -> float:
        """log p(x), from deviations from the sample mean: far from zero, squares of the points would cancel."""
        (prior_mean,), (prior_variance,) = IsotropicGaussian().columns(before)
        count, noise = len(points), float(self.variance)
        centre = points.sum(axis=0) / max(count, 1)
        offset = count * np.sum((centre - prior_mean) ** 2) / (noise + count * prior_variance)
        base = np.sum((points - centre) ** 2) / noise + points.size * np.log(2 * np.pi * noise)
        return -0.5 * float(base + offset + self.dimension * np.log1p(count * prior_variance / noise))
