"""Gaussian mixtures: known variance as in the paper, or unknown spherical, diagonal or full covariances."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np

from decbayes.base.arguments import Above, as_shape, check_positive, given
from decbayes.families import Array, IsotropicGaussian, dense
from decbayes.models.core.model import Columns
from decbayes.models.core.points import of_own_posterior
from decbayes.models.core.settings import Width
from decbayes.models.likelihoods.likelihood import FullCovariance, KnownVariance, Likelihood, SphericalCovariance
from decbayes.models.likelihoods.point_pass import PointBlocks
from decbayes.models.likelihoods.real import DiagonalCovariance
from decbayes.models.mixtures import prior_remarks
from decbayes.models.mixtures.column_remarks import LOOKED_AT, column_remarks, repeated_rows, skewed_columns
from decbayes.models.mixtures.mixture import Mixture
from decbayes.posterior import Posterior
from decbayes.remarks import Remark
from decbayes.structure import Structure

Covariance = Literal["spherical", "diagonal", "full"]

UNKNOWN: dict[str, Likelihood] = {
    "spherical": SphericalCovariance(),
    "diagonal": DiagonalCovariance(),
    "full": FullCovariance(),
}

# Settings of the prior without a meaning for known, and for unknown, variances.
UNUSED = {"known": ("prior_strength", "prior_degrees", "prior_scale"), "unknown": ("prior_variance",)}

# Clusters of known variance are far from the prior if the root mean square distance of their means from the prior mean
# exceeds this many prior standard deviations. Each of them then costs the bound many nats.
FAR = 3.0
FAR_FROM_PRIOR = Remark(
    "far from the prior",
    "The data lie far from where the prior expects clusters: it pulls them to itself, and may make one of several.",
    "Agree on a prior_mean and a prior_variance that cover the data of all sites, and fit again.",
)


@dataclass(frozen=True, kw_only=True)
class GaussianMixture(Mixture):
    """x ~ Σ_k π_k N(μ_k, ·), with a Dirichlet prior on π and a conjugate prior on each component.

    With `variance` the components share that known variance and μ_k ~ N(prior_mean, prior_variance I). Without it
    `covariance` is "spherical" or "diagonal" (Normal-Gamma) or "full" (Normal-Wishart, the default). The
    prior's expected precision is then 1 / `prior_scale`, with the weight of `prior_degrees` observations (its expected
    variance is larger, or infinite), and its expected mean is `prior_mean`, with the weight of `prior_strength`. Unless
    both are given, columns should have a mean near 0 and a spread near 1; a remark says where the prior outweighs them.

    `components` is the number of clusters, or "auto"; `dimension` the number of columns, by default that of the data;
    `columns` are their names. `weight_prior` is α of the clusters' weights.

    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal([[0.0, 0.0], [5.0, 9.0]] * 50)
    >>> model = db.GaussianMixture(2, covariance="diagonal")
    >>> posterior = model.fit(points, rng=rng).posterior
    >>> np.abs(np.sort(posterior.mean("components"), axis=0)).round()
    array([[0., 0.],
           [5., 9.]])
    >>> posterior.mean("components", "precision").shape
    (2, 2)
    """

    variance: Annotated[float | None, "Known variance of the clusters.", Above(0)] = None
    covariance: Annotated[Covariance | None, "Shape of the clusters, if their variance is not known."] = None
    prior_mean: Annotated[Any, "The prior mean: one number, or one per column (1000,15)."] = 0.0
    prior_variance: Annotated[float, "The prior variance of a (known-variance) mean.", Above(0)] = 1.0
    prior_strength: Annotated[float, "Weight of the prior mean, in observations.", Above(0)] = 0.01
    prior_degrees: Annotated[float | None, "Weight of the prior scale, in observations.", Above(0)] = None
    prior_scale: Annotated[Any, "Expected variance of a cluster: one number, or one per column.", Above(0)] = 1.0

    about: ClassVar[str] = "Clusters of points: a Gaussian mixture."
    command: ClassVar[str] = "mixture"
    said_by_options: ClassVar[bool] = True
    example: ClassVar[str] = "geyser.csv --columns duration,waiting"
    view: ClassVar[str] = "points"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variance is not None and self.covariance is not None:
            raise ValueError("Give either `variance` (known) or `covariance` ('spherical', 'diagonal' or 'full').")
        if self.variance is None and self.covariance is None:
            object.__setattr__(self, "covariance", "full")
        if self.covariance not in (None, *UNKNOWN):
            raise ValueError(f"covariance is 'spherical', 'diagonal' or 'full', not {self.covariance!r}.")
        idle = UNUSED["known" if self.covariance is None else "unknown"]
        for name in idle:
            if np.any(getattr(self, name) != type(self).__dataclass_fields__[name].default):
                needs = "`covariance`" if self.covariance is None else "a known `variance`"
                raise ValueError(f"{name} is about clusters with {needs}: leave it out here.")
        check_positive(
            prior_variance=self.prior_variance,
            prior_strength=self.prior_strength,
            **given(variance=self.variance, prior_degrees=self.prior_degrees),
        )

    @property
    def likelihood(self) -> Likelihood:
        if self.variance is not None:
            return KnownVariance(float(self.variance))
        return UNKNOWN[self.covariance or "full"]

    def constants(self) -> Mapping[str, Any]:
        # Sites that write 1 and 1.0 agree.
        variance = None if self.variance is None else float(self.variance)
        return {"covariance": self.covariance or "known", "variance": variance}

    def component_prior(self) -> Array:
        natural = self.likelihood.family.natural
        mean = as_shape("prior_mean", self.prior_mean, (1, self.dimension))
        if self.variance is not None:
            return natural(mean=mean, variance=self.prior_variance)
        if self.covariance == "spherical":
            scale = as_shape("prior_scale", self.prior_scale, (), above=0.0)
            weight = 0.5 * self.dimension * self._degrees
            return natural(mean=mean, strength=self.prior_strength, shape=weight, rate=weight * scale)
        if self.covariance == "diagonal":
            rate = 0.5 * self._degrees * as_shape("prior_scale", self.prior_scale, (1, self.dimension), above=0.0)
            return natural(mean=mean, strength=[[self.prior_strength]], shape=[[0.5 * self._degrees]], rate=rate)
        if np.ndim(self.prior_scale) == 2:
            scale = as_shape("prior_scale", self.prior_scale, (self.dimension, self.dimension))
        else:
            scale = np.diag(as_shape("prior_scale", self.prior_scale, (self.dimension,), above=0.0))
        return natural(
            mean=mean, strength=self.prior_strength, degrees=self._degrees, inverse_scale=self._degrees * scale
        )

    @property
    def _points_per_group(self) -> float:
        # If the variance is known the bound joins only points that belong together, which helps one-to-one merges.
        return super()._points_per_group if self.variance is None else 0.0

    def _doubts(self, posterior: Posterior, blocks: PointBlocks) -> tuple[Remark, ...]:
        points, pooled = blocks.sample(LOOKED_AT, np.random.default_rng(0)), self.covariance == "spherical"
        on_columns = column_remarks(blocks, self._names, correlated=self.covariance == "full")
        on_columns += (*repeated_rows(blocks, [True] * points.shape[1]), *skewed_columns(points, self._names))
        if self.variance is not None:
            return (FAR_FROM_PRIOR, *on_columns) if is_far_from_prior(posterior) else on_columns
        on_prior = prior_remarks.of_points(posterior, points, self._names, self._degrees, pooled=pooled)
        # Pieces are narrower than clusters, and columns that mislead the fit come first.
        if not (on_prior or on_columns) and self.components != "wide":
            on_prior = prior_remarks.of_scale(posterior, self._prior_at, len(blocks), self.prior_scale, points)
        return (*on_prior, *on_columns)

    def _prior_at(self, factor: float) -> Array:
        return replace(self, prior_scale=factor * np.asarray(self.prior_scale)).component_prior()

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        shared, kind = super().settings_of(structure), structure.model["covariance"]
        prior = structure.families["components"].parameters(structure.prior["components"][:1])
        settings = {**shared, "covariance": None if kind == "known" else kind, "prior_mean": plain(prior["mean"][0])}
        if kind == "known":
            return {**settings, "prior_variance": prior["variance"].item()}
        settings["prior_strength"] = float(np.ravel(prior["strength"])[0])
        if kind == "full":
            degrees = float(prior["degrees"][0])
            return {**settings, "prior_degrees": degrees, "prior_scale": plain(prior["inverse_scale"][0] / degrees)}
        weight = float(np.ravel(prior["shape"])[0])
        dimensions = shared["dimension"] if kind == "spherical" else 1
        scale = plain(np.ravel(prior["rate"]) / weight)
        return {**settings, "prior_degrees": 2.0 * weight / dimensions, "prior_scale": scale}

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        components: Width = 3,
        covariance: Covariance | None = None,
        columns: Columns = "",
        **options: Any,
    ) -> tuple[Self, Any]:
        """With --variance all clusters share that known variance; otherwise --covariance is their shape, by default
        "full". Values should have a mean near 0 and a spread near 1, unless --prior-mean and --prior-scale (or
        --prior-variance) are given."""
        return super().from_file(path, components=components, covariance=covariance, columns=columns, **options)

    @classmethod
    def without_data(cls, *, components: Width = 3, **settings: Any) -> Self:
        return super().without_data(components=components, **settings)

    @of_own_posterior
    def profile(self, posterior: Posterior) -> Mapping[str, Array]:
        """Means, and the standard deviation of the data around them."""
        means = posterior.mean("components")
        if self.variance is not None:
            return {"mean": means, "standard deviation": np.full((len(means), 1), self.variance**0.5)}
        precisions = posterior.mean("components", "precision")
        return {"mean": means, "standard deviation": np.array([deviations(matrix) for matrix in precisions])}

    def box(self) -> tuple[Array, Array]:
        """Three prior standard deviations around the prior mean, where clusters are expected."""
        from decbayes.models.mixtures.histogram import box_around

        mean = as_shape("prior_mean", self.prior_mean, (self.known_dimension(),))
        if self.variance is not None:
            return box_around(mean, np.sqrt(self.prior_variance), np.sqrt(self.variance))
        scale = np.asarray(self.prior_scale, dtype=np.float64)
        within = np.sqrt(np.diag(scale) if scale.ndim == 2 else np.broadcast_to(scale, mean.shape))
        return box_around(mean, within / np.sqrt(self.prior_strength), within)

    @property
    def _degrees(self) -> float:
        default = 2.0 if self.covariance != "full" else self.dimension + 2.0
        return default if self.prior_degrees is None else self.prior_degrees


def is_far_from_prior(posterior: Posterior) -> bool:
    """Whether observed cluster means, with known variance, are improbable under their prior."""
    counts = dense(posterior.contribution["weights"])[:, 0]
    filled = counts > 0.5
    if not filled.any():
        return False
    (centre, width), (means, noise) = (
        IsotropicGaussian().columns(rows)
        for rows in (posterior.structure.prior["components"][:1], dense(posterior.contribution["components"])[filled])
    )
    apart = ((means - centre) ** 2).mean(axis=1) / (width + noise)
    return bool(np.average(apart, weights=counts[filled]) > FAR**2)


def deviations(precision: Array) -> Array:
    """Standard deviations of the data around a mean, from a precision matrix or from precisions."""
    if np.ndim(precision) == 2:
        return np.sqrt(np.diag(np.linalg.inv(precision)))
    return np.atleast_1d(1.0 / np.sqrt(precision))


def plain(values: Array) -> Any:
    """A diagonal matrix as its diagonal, equal numbers as one."""
    if values.ndim == 2:
        return plain(np.diag(values)) if (values == np.diag(np.diag(values))).all() else values
    return float(values[0]) if (values == values[0]).all() else values
