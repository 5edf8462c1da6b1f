"""Mixtures of any likelihood that has a conjugate family: one engine for all of them."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.special import logsumexp, softmax

from decbayes.arguments import Above, check_positive, check_whole
from decbayes.families import Array, Weights
from decbayes.models.ascent import Ascent, Fit, OnPass, fit_best, fit_of
from decbayes.models.likelihoods import Likelihood, squared_distances
from decbayes.models.mixture_moves import MixtureMoves
from decbayes.models.model import Model, Number, Row
from decbayes.models.number import Search, check_number, known_number
from decbayes.models.points import as_points, check_fit, check_held, check_rounding, check_structure
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.symmetry import CoupledSet

Natural = dict[str, Array]
Start = Literal["k-means++", "random"]

# Rows of a block are weighed while they are still in the cache.
BLOCK = 1024
POINTS_PER_CENTRE = 10
# Features up to this many numbers (128 MiB) stay in memory between passes.
MOST_KEPT = 1 << 24


@dataclass(frozen=True)
class Mixture(Model):
    """x ~ Σ_k π_k p(x | θ_k), with a Dirichlet prior on π and a conjugate prior on each θ_k.

    A mixture of its own kind says its `likelihood`, its `component_prior` and what of its settings `constants` are. It
    need not say more. `columns` names the dimensions; sites that name them differently do not merge.

    A fit starts from the nearest of centres chosen by "k-means++", or from "random" responsibilities where there are
    fewer than ten points per component: centres would then give every point a component of its own.

    With `components="auto"` a fit finds how many there are: births, joins and deletions that raise its bound. The
    posterior says the number, and predictions take posteriors of any number.
    """

    components: Annotated[Number, "Number of clusters, or 'auto' to find it.", Above(0)]
    dimension: int = 1
    weight_prior: Annotated[float, "Dirichlet prior α of the cluster weights.", Above(0)] = field(
        default=1.0, kw_only=True
    )
    columns: tuple[str, ...] = field(default=(), kw_only=True)
    start_from: Annotated[Start | None, "How a fit starts; default: depends on the number of points."] = field(
        default=None, kw_only=True
    )
    ascent: Ascent = field(default=Ascent(restarts=9), kw_only=True)

    number: ClassVar[str] = "components"
    caption: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        check_number(components=self.components)
        check_whole(1, dimension=self.dimension)
        check_positive(weight_prior=self.weight_prior)
        if len(self.columns) not in (0, self.dimension):
            raise ValueError(f"{len(self.columns)} column names for {self.dimension} dimensions.")
        if self.start_from not in (None, "k-means++", "random"):
            raise ValueError(f"start_from is 'k-means++' or 'random', not {self.start_from!r}.")

    @property
    @abstractmethod
    def likelihood(self) -> Likelihood:
        """How observations depend on a component's parameters."""

    @abstractmethod
    def component_prior(self) -> Array:
        """(1, d): the natural parameters of the prior that all components share."""

    def constants(self) -> Mapping[str, Any]:
        """What sites must agree on beside the prior: known variances and the like."""
        return {}

    def agreement(self) -> Structure:
        return Structure(
            families={"weights": Weights(), "components": self.likelihood.family},
            prior={
                "weights": Weights().natural(alpha=np.full(self._count, self.weight_prior)),
                "components": np.tile(self.component_prior(), (self._count, 1)),
            },
            symmetry=(CoupledSet(("weights", "components")),),
            labels={"components": tuple(self.columns)} if self.columns else {},
            model={"name": type(self).__name__, **self.constants()},
        )

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        prior, family = structure.prior, structure.families["components"]
        return {
            **super().settings_of(structure),
            "components": len(prior["weights"]),
            "dimension": family.dimension(prior["components"].shape[1]),
            "weight_prior": float(Weights().parameters(prior["weights"])["alpha"][0]),
            "columns": structure.labels.get("components", ()),
        }

    def fit(
        self,
        data: Any,
        *,
        rng: np.random.Generator,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """The posterior of the data, on top of `prior` if given, starting from `start` if given.

        Where the number of components is "auto", a prior or a start of so many components says it.
        """
        if (known := known_number(self, prior, start)) is not None:
            return self.sized(known).fit(data, rng=rng, prior=prior, start=start, progress=progress)
        points = as_points(data, self.dimension)
        check_fit(self.structure, rng, prior, start)
        before = dict((prior or Posterior.of_prior(self.structure)).natural)
        if not len(points):
            return Fit(Posterior.from_natural(self.structure, before), (0.0,), True)
        if self.auto:
            moves = MixtureMoves(self, points, rng)
            return fit_of(Search(moves, self.ascent, progress).run(), self._of_any_number)
        blocks = Blocks(self.likelihood, points)
        begin = partial(self._begin, points, before, rng) if start is None else lambda: dict(start.natural)
        ascent = self.ascent if start is None else Ascent(self.ascent.passes, self.ascent.tolerance)
        return fit_best(
            begin,
            partial(self._pass, blocks, before),
            partial(Posterior.from_natural, self.structure),
            ascent=ascent,
            observations=len(points),
            progress=progress,
        )

    def assign(self, posterior: Posterior, data: Any) -> Array:
        """(N, K): the probability that each observation belongs to each component."""
        check_structure(posterior, self.structure_for(posterior), "posterior")
        features = self.likelihood.features(as_points(data, self.dimension))
        return np.asarray(softmax(features @ self._coefficients(dict(posterior.natural)), axis=1))

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None) -> Array:
        """log p(x | posterior) per observation, all parameters integrated out.

        With `held` it is that of the values held out, given the others of the same observation. Both arrays then have
        the data's shape, with NaN where a value is not in that part.
        """
        check_structure(posterior, self.structure_for(posterior), "posterior")
        points = as_points(data, self.dimension, unseen=held is not None)
        if held is None:
            return self._log_density(posterior, points)
        hidden = as_points(held, self.dimension, unseen=True)
        check_held(points, hidden)
        together = np.where(np.isnan(hidden), points, hidden)
        return self._log_density(posterior, together) - self._log_density(posterior, points)

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each component's weight and profile."""
        profile = self.profile(posterior)
        return [
            {"component": k, "weight": float(weight), **{name: values[k] for name, values in profile.items()}}
            for k, weight in enumerate(posterior.mean("weights"))
        ]

    def profile(self, posterior: Posterior) -> Mapping[str, Array]:
        """What tells components apart, by name: one row per component."""
        return {"mean": posterior.mean("components")}

    @property
    def _count(self) -> int:
        return 1 if self.components == "auto" else self.components

    def _of_any_number(self, natural: Natural) -> Posterior:
        return Posterior.from_natural(self.structure.with_components(len(natural["weights"])), natural)

    def _log_density(self, posterior: Posterior, points: Array) -> Array:
        density = self.likelihood.log_predictive(posterior.natural["components"], points)
        return np.asarray(logsumexp(density + np.log(posterior.mean("weights")), axis=1))

    def _begin(self, points: Array, before: Natural, rng: np.random.Generator) -> Natural:
        """A first posterior: every point belongs to its nearest centre, or to a random mix of components."""
        crowded = len(points) >= POINTS_PER_CENTRE * self._count
        if (self.start_from or ("k-means++" if crowded else "random")) == "random":
            responsibilities = rng.dirichlet(np.ones(self._count), size=len(points))
        else:
            centres = spread_out_centres(points, self._count, rng)
            nearest = np.argmin(squared_distances(points, centres), axis=1)
            responsibilities = np.eye(self._count)[nearest]
        return self._plus(before, responsibilities.T @ self.likelihood.features(points))

    def _pass(self, blocks: "Blocks", before: Natural, natural: Natural) -> tuple[Natural, float]:
        """One pass over the data; the bound is that of the parameters it was given."""
        from decbayes.kernels.softmax import normalise

        families = self.structure.families
        bound = -sum(families[name].kl(natural[name], before[name]) for name in families)
        coefficients = self._coefficients(natural).T
        sums = np.zeros(coefficients.shape)
        buffer = np.empty(len(coefficients) * BLOCK)  # fresh memory for each product would cost as much as the product
        for features in blocks:
            shape = (len(coefficients), len(features))
            scores = np.dot(coefficients, features.T, out=buffer[: shape[0] * shape[1]].reshape(shape))
            bound += normalise(scores)
            sums += scores @ features
        return self._plus(before, sums), bound

    def _coefficients(self, natural: Natural) -> Array:
        """(p, K): features times these are E[log π_k] + E[log p(x | θ_k)]; the last feature is 1."""
        coefficients = self.likelihood.coefficients(natural["components"])
        # The constant (of a Gaussian, half the squared distance of a component from zero, in its own standard
        # deviations) may be large; the scores of a component's points are small because the other terms cancel it.
        check_rounding(float(np.abs(coefficients[-1]).max()))
        coefficients[-1] += Weights().mean(natural["weights"])[:, 0]
        return coefficients

    def _plus(self, natural: Natural, sums: Array) -> Natural:
        """Natural parameters with the contribution of some points added."""
        components = natural["components"] + self.likelihood.contribution(sums)
        # What has left the domain has lost all its digits.
        check_rounding(0.0 if self.likelihood.family.contains(components) else np.inf)
        return {"weights": natural["weights"] + sums[:, -1:], "components": components}


class Blocks:
    """Features of the points, a block at a time; kept between passes unless they are too large."""

    def __init__(self, likelihood: Likelihood, points: Array) -> None:
        blocks = [points[first : first + BLOCK] for first in range(0, len(points), BLOCK)]
        width = likelihood.features(points[:1]).shape[1]
        kept = len(points) * width <= MOST_KEPT
        self._features = [likelihood.features(block) for block in blocks] if kept else []
        self._later = [] if kept else [partial(likelihood.features, block) for block in blocks]

    def __iter__(self) -> Iterator[Array]:
        yield from self._features
        yield from (features() for features in self._later)


def spread_out_centres(points: Array, count: int, rng: np.random.Generator) -> Array:
    """Centres chosen among the points, each with probability proportional to its squared distance (k-means++)."""
    chosen = [int(rng.integers(len(points)))]
    distance = squared_distances(points, points[chosen])[:, 0]
    while len(chosen) < min(count, len(points)) and distance.sum() > 0:
        chosen.append(int(rng.choice(len(points), p=distance / distance.sum())))
        distance = np.minimum(distance, squared_distances(points, points[chosen[-1:]])[:, 0])
    return points[chosen]
