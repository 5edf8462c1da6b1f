"""Latent features: each observation is a sum of the features it has (section 3.3)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from math import prod
from typing import Annotated, Any, ClassVar

import numpy as np

from decbayes.base.arguments import Above, Seed, check_positive, check_whole, generator
from decbayes.families import Array, Beta, IsotropicGaussian, dense
from decbayes.models.core.ascent import Ascent, Climb, Fit, OnPass, announce, best_climb, climb, fit_of, on_top
from decbayes.models.core.dimensions import OfPoints, completed
from decbayes.models.core.information import Tally, feature_information
from decbayes.models.core.model import Row
from decbayes.models.core.points import (
    as_numbers,
    as_points,
    check_fit,
    check_held,
    check_rounding,
    check_structure,
    of_own_posterior,
)
from decbayes.models.core.transforms import Transform
from decbayes.models.features._feature_prediction import (
    FeaturePosterior,
    assignments_given,
    held_log_densities,
    log_densities,
)
from decbayes.models.features._starts import exchangeable, repaired, starts
from decbayes.models.features._state import FeatureData, Span, State, improved, state_given, state_of
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Structure


@dataclass(frozen=True)
class LatentFeatures(OfPoints):
    """y ~ N(Σ_k z_k μ_k, variance · I) with z_k ~ Bernoulli(π_k), π_k ~ Beta, μ_k ~ N(0, prior_variance · I).

    Observations are vectors of `dimension` numbers, or arrays (images) of as many.

    A fit climbs from 1 + `ascent.restarts` starts, of which the first three are independent components of the data
    and the fourth is random; the best is then improved by moves until none raises the bound.

    `features` is their number; `dimension` that of the columns, by default the data's; `variance` that of the noise;
    `prior_variance` that of a feature; `inclusion_prior` are α and β of a feature's frequency.

    >>> rng = np.random.default_rng(0)
    >>> features = np.array([[3.0, 3.0, 0.0, 0.0], [0.0, 0.0, 3.0, 3.0]])
    >>> points = rng.integers(2, size=(60, 2)) @ features + 0.2 * rng.normal(size=(60, 4))
    >>> posterior = db.LatentFeatures(2, variance=0.04, prior_variance=9.0).fit(points, rng=rng).posterior
    >>> np.abs(np.sort(posterior.mean("features")[:, 0])).round()
    array([0., 3.])
    """

    features: Annotated[int, "Number of features.", Above(0)] = 5
    dimension: int = 0
    variance: Annotated[float, "The known variance of the noise.", Above(0)] = 0.04
    prior_variance: Annotated[float, "The prior variance of a feature.", Above(0)] = 1.0
    inclusion_prior: tuple[float, float] = (1.0, 1.0)
    _: KW_ONLY
    ascent: Ascent = field(default=Ascent(restarts=3))

    about: ClassVar[str] = "Features that points or images share: a latent feature model."
    command: ClassVar[str] = "features"
    example: ClassVar[str] = "faces.npy --features 10"
    in_parts: ClassVar[bool] = True
    view: ClassVar[str] = "images"
    noun: ClassVar[str] = "feature"
    joins: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole(1, features=self.features)
        check_whole(0, dimension=self.dimension)
        check_positive(variance=self.variance, prior_variance=self.prior_variance)
        if not isinstance(self.inclusion_prior, Sequence | np.ndarray) or len(self.inclusion_prior) != 2:
            raise ValueError(f"inclusion_prior must be the two parameters of a Beta, not {self.inclusion_prior!r}.")
        check_positive(**{f"inclusion_prior[{place}]": value for place, value in enumerate(self.inclusion_prior)})

    def described(self) -> Structure:
        alpha, beta = (np.full(self.features, value) for value in self.inclusion_prior)
        origin = np.zeros((self.features, self.known_dimension()))
        return Structure(
            families={"features": IsotropicGaussian(), "inclusion": Beta()},
            prior={
                "features": IsotropicGaussian().natural(mean=origin, variance=self.prior_variance),
                "inclusion": Beta().natural(alpha=alpha, beta=beta),
            },
            symmetry=(CoupledSet(("features", "inclusion")),),
            model={"name": "LatentFeatures", "variance": float(self.variance)},
        )

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        features = structure.families["features"].parameters(structure.prior["features"])
        inclusion = structure.families["inclusion"].parameters(structure.prior["inclusion"])
        shared = {"features": len(features["mean"]), "dimension": features["mean"].shape[1]}
        pair = float(inclusion["alpha"][0]), float(inclusion["beta"][0])
        prior = {"prior_variance": float(features["variance"][0]), "inclusion_prior": pair}
        return {**super().settings_of(structure), **shared, **prior}

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
        """Fit the data, on top of `prior` if given.

        With `start` the fit is one plain ascent from there, without restarts and moves, so that features keep their
        places. Features that no observation needs stay at the prior; there may be more features than observations.
        """
        points = self._points(data)
        random = check_fit(self.structure, rng, prior, start)
        before = prior or Posterior.of_prior(self.structure)
        if not len(points):
            return Fit(before, (0.0,), True)
        span = Span.of(points, before.mean("features"), *([] if start is None else [start.mean("features")]))
        problem = self._problem(points, before, span)
        if start is None:
            reached = self._search(problem, generator(random), progress)
        else:
            reached = self._climb(problem, iter([self._believing(problem, start, span)]), 0, progress)
        return fit_of(reached, partial(self._posterior, span))

    @completed
    def assign(self, posterior: Posterior, data: Any) -> Array:
        """(N, K): the probability that each observation has each feature. NaN marks unseen components."""
        check_structure(posterior, self.structure, "posterior")
        return assignments_given(self._parameters(posterior), self._points(data, unseen=True))

    def transform(self, posterior: Posterior) -> Transform:
        """Features of an observation do not add up to one."""
        return super().transform(posterior)._replace(adds_up=False)

    @completed
    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """Per observation, the log density of the held-out values, given the others of the same vector.

        Both arrays have the data's shape, with NaN where a value is not in that part; values in neither are unseen.
        Held-out values of one vector are predicted one by one. Without `held` it is the density of the whole vector.
        Features and inclusion probabilities are integrated out. The sum over assignments is exact up to ten features;
        beyond that it is exact over the ten least certain of each observation, and mean field in the others.
        """
        check_structure(posterior, self.structure, "posterior")
        belief = self._parameters(posterior)
        if held is None:
            return log_densities(belief, self._points(data, unseen=True))
        observed, hidden = (self._points(part, unseen=True) for part in (data, held))
        check_held(observed, hidden)
        return held_log_densities(belief, observed, hidden)

    @completed
    def contributed(self, posterior: Posterior, data: Any) -> Posterior:
        """A fit would solve for all features jointly; here each is updated given the others as in the posterior."""
        points, shares = self._points_and_inclusion(posterior, data)
        others = shares @ posterior.mean("features") - points
        overlap = shares[:, :, None] * posterior.mean("features")
        shift = np.einsum("nk,nkd->kd", shares, overlap - others[:, None, :]) / self.variance
        had, missed = shares.sum(axis=0)[:, None], (1.0 - shares).sum(axis=0)[:, None]
        added = {"features": np.hstack([shift, -0.5 * had / self.variance]), "inclusion": np.hstack([had, missed])}
        return Posterior(self.structure, added)

    @completed
    def information(self, posterior: Posterior, data: Any) -> Array:
        points, shares = self._points_and_inclusion(posterior, data)
        return feature_information(self.structure, points, self.variance, posterior.mean("features"), shares)

    def draw(self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """`size` vectors, and which features each has."""
        assigned = (rng.random((size, self.features)) < parameters["inclusion"]).astype(np.float64)
        noise = np.sqrt(self.variance) * rng.standard_normal((size, self.dimension))
        return assigned @ parameters["features"] + noise, assigned

    @completed
    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each feature and how often it occurs."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        pairs = zip(posterior.mean("inclusion"), posterior.mean("features"), strict=True)
        return [{"feature": k, "how often": float(share), "mean": mean} for k, (share, mean) in enumerate(pairs)]

    @of_own_posterior
    def tally(self, posterior: Posterior) -> Tally:
        inclusion = dense(posterior.contribution["inclusion"])
        with_feature = -2.0 * self.variance * dense(posterior.contribution["features"])[:, -1]
        # Every observation has each feature or not. A feature that hardly anybody has may be withheld.
        totals = inclusion.sum(axis=1)
        stated = inclusion.any(axis=1) if inclusion.any() else np.ones(len(totals), dtype=np.bool_)
        return Tally(totals[stated], inclusion, {"features": with_feature - inclusion[:, 0]})

    def _points(self, data: Any, *, unseen: bool = False) -> Array:
        points = as_points(flattened(data), self.dimension, unseen=unseen)
        # The fit of a vector is a small remainder of its square, in units of the noise.
        check_rounding(0.5 * float(np.nansum(points**2, axis=1).max(initial=0.0)) / self.variance)
        return points

    def _points_and_inclusion(self, posterior: Posterior, data: Any) -> tuple[Array, Array]:
        """The points, and the probability that each has each feature, (N, K), given a posterior of more data."""
        check_structure(posterior, self.structure, "posterior")
        points = self._points(data)
        span = Span.of(points, posterior.mean("features"))
        state = self._believing(self._problem(points, posterior, span), posterior, span)
        return points, state.assignments.T

    def _search(self, problem: FeatureData, rng: np.random.Generator, progress: OnPass | None) -> Climb[State]:
        """The best of several starts, then moves until none raises the bound."""
        reached = self._climb(problem, self._starts(problem, rng), self.ascent.restarts, progress)
        if reached.interrupted:
            return reached
        observations = len(problem.data)
        threshold = self.ascent.tolerance * observations
        # The moves report as one more start.
        report = partial(announce, progress, self.ascent.restarts + 1)
        step = partial(measured, partial(repaired, rng=rng, threshold=threshold))
        moved = climb(reached.state, step, self.ascent, observations, report)
        return Climb(moved.state, reached.bound + moved.bound, moved.converged, moved.interrupted)

    def _climb(
        self, problem: FeatureData, begins: Iterator[State], restarts: int, progress: OnPass | None
    ) -> Climb[State]:
        return best_climb(
            partial(next, begins),
            partial(measured, improved),
            ascent=replace(self.ascent, restarts=restarts),
            observations=len(problem.data),
            progress=progress,
        )

    def _starts(self, problem: FeatureData, rng: np.random.Generator) -> Iterator[State]:
        """The prior, if it tells features apart, then starts from the data."""
        if not exchangeable(problem):
            means = problem.shift / problem.precision[:, None]
            yield state_given(problem, means, 1.0 / problem.precision, problem.alpha, problem.beta)
        yield from (state_of(problem, start) for start in starts(problem.data, self.features, rng))

    def _problem(self, points: Array, before: Posterior, span: Span) -> FeatureData:
        mean, variance = before.parameters("features").values()
        shift = span.inside(mean) / variance[:, None]
        return FeatureData(
            span.inside(points), self.dimension, self.variance, shift, 1.0 / variance, **before.parameters("inclusion")
        )

    def _believing(self, problem: FeatureData, start: Posterior, span: Span) -> State:
        mean, variance = start.parameters("features").values()
        return state_given(problem, span.inside(mean), variance, **start.parameters("inclusion"))

    def _parameters(self, posterior: Posterior) -> FeaturePosterior:
        mean, variance = posterior.parameters("features").values()
        return FeaturePosterior(mean, variance, **posterior.parameters("inclusion"), noise=self.variance)

    def _posterior(self, span: Span, state: State) -> Posterior:
        natural = {
            "features": IsotropicGaussian().natural(mean=span.outside(state.means), variance=state.variances),
            "inclusion": Beta().natural(alpha=state.alpha, beta=state.beta),
        }
        return Posterior.from_natural(self.structure, natural)


def measured(step: Callable[[State], State], state: State) -> tuple[State, float]:
    """A pass, and the bound it reached."""
    following = step(state)
    return following, following.bound


def flattened(data: Any) -> Array:
    """Flatten images (N, height, width) to vectors."""
    array = as_numbers(data)
    # −1 would fail to determine the number of pixels if there is no image.
    return array.reshape(len(array), prod(array.shape[1:])) if array.ndim > 2 else array
