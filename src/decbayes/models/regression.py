"""What all regressions share: coefficients with intervals, predictions, and terms that differ from site to site."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from decbayes.arguments import Above, check_level, check_positive
from decbayes.columns import plain
from decbayes.errors import InvalidData
from decbayes.families import Array, Family, Gamma
from decbayes.models.model import Row
from decbayes.models.points import as_points, check_structure
from decbayes.models.regression_data import made_up
from decbayes.models.regression_table import RegressionTable
from decbayes.models.site_effects import Moments, SiteEffects, numbered, rows_by
from decbayes.models.transforms import Transform
from decbayes.posterior import Posterior
from decbayes.structure import Structure

FACTOR, BETWEEN = "coefficients", "variation"


@dataclass(frozen=True)
class Regression(RegressionTable):
    """Coefficients β with a prior variance of `prior_variance` each, in agreed units.

    Those that vary are β + u at each site, u ~ N(0, 1 / Λ). The precision Λ of each is Gamma; 1 / Λ is `prior_between`
    before anything is known, with the weight of `between_degrees` sites.
    """

    prior_variance: Annotated[float, "The prior variance of each coefficient, in agreed units.", Above(0)] = field(
        default=10.0, kw_only=True
    )
    prior_between: Annotated[float, "The prior variance from site to site of what varies.", Above(0)] = field(
        default=0.1, kw_only=True
    )
    between_degrees: Annotated[float, "Sites that this prior variance weighs.", Above(0)] = field(
        default=1.0, kw_only=True
    )

    def __post_init__(self) -> None:
        check_positive(
            prior_variance=self.prior_variance,
            prior_between=self.prior_between,
            between_degrees=self.between_degrees,
        )
        super().__post_init__()

    @property
    @abstractmethod
    def family(self) -> Family:
        """The family of the coefficients."""

    @abstractmethod
    def coefficient_prior(self) -> Array:
        """(1, d): its prior."""

    @abstractmethod
    def moments(self, natural: Array) -> tuple[Array, Array]:
        """Mean (D,) and covariance (D, D) of the coefficients; the latter in variances of the noise if there is one."""

    @abstractmethod
    def interval(self, posterior: Posterior, level: float) -> tuple[Array, Array, Array, Array]:
        """Mean, standard deviation, lower and upper end of each coefficient, in agreed units."""

    @abstractmethod
    def draw_outcomes(self, parameters: Any, linear: Array, rng: np.random.Generator) -> Array:
        """One value of the target per row, as its column is coded, given the linear predictors."""

    @abstractmethod
    def predicted(self, posterior: Posterior, mean: Array, variance: Array, level: float) -> dict[str, Array]:
        """The mean of the target per row, and an interval, where the linear predictor is N(mean, variance)."""

    @abstractmethod
    def log_density(self, posterior: Posterior, mean: Array, variance: Array, targets: Array) -> Array:
        """log p(y | x, posterior) per row, where the linear predictor is N(mean, variance)."""

    @abstractmethod
    def site_effects(self, posterior: Posterior, data: Any) -> tuple[SiteEffects, Array]:
        """What rows say of the sites that they are of, given the posterior; and the numbers of these sites."""

    @abstractmethod
    def reach(self, posterior: Posterior, level: float) -> float:
        """Half the width of an interval, in scales of a coefficient."""

    def noise_variance(self, posterior: Posterior) -> float:
        """In which variances from site to site are told."""
        return 1.0

    def agreement(self) -> Structure:
        families: dict[str, Family] = {FACTOR: self.family}
        prior, labels = {FACTOR: self.coefficient_prior()}, {FACTOR: self.design.labels}
        varying: dict[str, Any] = {}
        if self.varying:
            families[BETWEEN] = Gamma()
            shape = np.full((1, len(self.places)), 0.5 * float(self.between_degrees))
            prior[BETWEEN] = Gamma().natural(shape=shape, rate=shape * float(self.prior_between))
            labels[BETWEEN] = tuple(self.design.labels[place] for place in self.places)
            varying = {"varying": list(self.varying), **({"by": self.by} if self.by else {})}
        return Structure(
            families=families,
            prior=prior,
            labels=labels,
            model={
                "name": type(self).__name__,
                "target": self.target,
                "columns": plain(self.columns),
                "terms": list(self.terms),
                "intercept": self.intercept,
                **varying,
            },
        )

    def linear(self, posterior: Posterior, data: Any, known: Any = None) -> tuple[Array, Array]:
        """Mean and variance of the linear predictor in each row: of a site that is in `known`, or of a new one."""
        check_structure(posterior, self.structure, "posterior")
        mean, covariance = self.moments(posterior.natural[FACTOR])
        design, sites = self.design_of(data), self.sites(data)
        new = covariance.copy()
        new[self.places, self.places] += self.between_variances(posterior)
        if known is None or not self.varying:
            return rows_by(design, np.zeros(len(design), dtype=np.intp), 1).linear(mean[None], new[None])
        effects, numbers = self.site_effects(posterior, known)
        means, covariances = effects.coefficients(mean, covariance)
        groups = places_among(sites, numbers)
        rows = rows_by(design, groups, len(numbers) + 1)
        return rows.linear(np.append(means, mean[None], axis=0), np.append(covariances, new[None], axis=0))

    def expected(self, natural: Mapping[str, Array]) -> Moments:
        """The moments that sites' own parts depend on: the last statistics of the coefficients."""
        side, mean = len(self.design.labels), np.append(1.0, self.family.mean(natural[FACTOR])[0])
        weight, *told = mean[-1 - side - side * side :]
        return Moments(float(weight), np.array(told[:side]), np.reshape(told[side:], (side, side)))

    def between_variances(self, posterior: Posterior) -> Array:
        """(V,): E[1 / Λ] of each coefficient that varies, or where that is infinite, something large."""
        if not self.varying:
            return np.zeros(0)
        shape, rate = Gamma().columns(posterior.natural[BETWEEN][0])
        return np.asarray(rate / np.maximum(shape - 1.0, 0.5))

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None, *, known: Any = None) -> Array:
        """log p(y | x, posterior) per row, all parameters integrated out; `held` may have the targets.

        Where something varies, rows are of a site that nobody has met, unless `known` has rows of the same site.
        """
        check_structure(posterior, self.structure, "posterior")
        if held is not None:
            width = len(self.columns) + bool(self.varying)
            seen, hidden = (as_points(self._with_sites(part), width, unseen=True) for part in (data, held))
            data = np.where(np.isnan(hidden), seen, hidden)
        _, targets = self.parts(data)
        return self.log_density(posterior, *self.linear(posterior, data, known), targets)

    def assign(self, posterior: Posterior, data: Any) -> Array:
        """There is one component, and it accounts for everything."""
        check_structure(posterior, self.structure, "posterior")
        return np.ones((self.count(data), 1))

    def information(self, posterior: Posterior, data: Any) -> Array:
        """What varies is hidden. Else nothing is: coefficients have one posterior together, which is right as it is."""
        size = posterior.structure.prior[FACTOR].size
        found = np.zeros((size + 2 * len(self.places),) * 2)
        if self.varying:
            effects, _ = self.site_effects(posterior, data)
            crossed, own = effects.response(self.expected(posterior.natural))
            # Without noise there is no E[τ] among the statistics.
            shown, precisions = crossed[:, -size:], slice(size + len(self.places), None)
            statistics = slice(size - shown.shape[1], size)
            found[precisions, statistics], found[statistics, precisions] = shown, shown.T
            found[precisions, precisions] = own
        return found

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9, known: Any = None) -> dict[str, Array]:
        """For each row the `mean` of the target, and `low` and `high` of an interval around it, for a data frame.

        Where something varies, rows are of a site that nobody has met, and intervals as wide as that makes them; unless
        `known` has rows of the same site, with their targets.
        """
        check_level(level)
        return self.predicted(posterior, *self.linear(posterior, data, known), level)

    def coefficients(self, posterior: Posterior, *, level: float = 0.9) -> list[dict[str, Any]]:
        """What the target changes by with one unit of each term, in the columns' own units, with intervals.

        The intercept is where all real columns are at their agreed centres, and all others at zero or at their first
        category. Of terms that vary it is the mean over all sites that there could be.
        """
        check_level(level)
        check_structure(posterior, self.structure, "posterior")
        unit, offset = self.units_and_offset()
        mean, deviation, low, high = self.interval(posterior, level)
        shown = {"mean": mean * unit + offset, "deviation": deviation * unit}
        return told(self.design.labels, shown | {"low": low * unit + offset, "high": high * unit + offset})

    def between(self, posterior: Posterior, *, level: float = 0.9) -> list[dict[str, Any]]:
        """How far each term that varies does so: its standard deviation from site to site, with an interval."""
        check_level(level)
        check_structure(posterior, self.structure, "posterior")
        if not self.varying:
            return []
        natural = posterior.natural[BETWEEN]
        unit = self.units_and_offset()[0][self.places] * self.noise_variance(posterior) ** 0.5
        low, high = (unit / np.sqrt(Gamma().quantile(natural, 0.5 - side * level)[0]) for side in (-0.5, 0.5))
        mean, deviation = (unit * part for part in of_scale(*Gamma().columns(natural[0])))
        names = posterior.structure.labels[BETWEEN]
        return told(names, {"mean": mean, "deviation": deviation, "low": low, "high": high})

    def effects(self, posterior: Posterior, data: Any, *, level: float = 0.9) -> list[dict[str, Any]]:
        """How the sites of these rows differ from the mean of all sites, term by term: for whoever holds the rows."""
        check_level(level)
        check_structure(posterior, self.structure, "posterior")
        if not self.varying:
            raise InvalidData("Nothing varies from site to site in this regression; `varying` says what does.")
        own, numbers = self.site_effects(posterior, data)
        (mean, covariance), names = self.moments(posterior.natural[FACTOR]), self.site_names(data)
        unit, size = self.units_and_offset()[0][self.places], self.noise_variance(posterior)
        sloped = np.einsum("gvd,de,gve->gv", own.slope, covariance, own.slope)
        deviation = unit * np.sqrt(size * (sloped + np.diagonal(own.spread, axis1=-2, axis2=-1)))
        middle, reach = unit * (own.centre - own.slope @ mean), self.reach(posterior, level) * deviation
        parts = {"mean": middle, "deviation": deviation, "low": middle - reach, "high": middle + reach}
        return [
            {"site": names[number], **row}
            for site, number in enumerate(map(str, numbers))
            for row in told(posterior.structure.labels[BETWEEN], {name: part[site] for name, part in parts.items()})
        ]

    def units_and_offset(self) -> tuple[Array, Array]:
        """One unit of each coefficient, and its zero, as columns and target have them."""
        size, zero = self.target_units()
        offset = np.zeros(len(self.design.labels))
        offset[: int(self.intercept)] = zero
        return size / self.design.units, offset

    def target_units(self) -> tuple[float, float]:
        """One unit of the linear predictor, and its zero, as the target has them."""
        return 1.0, 0.0

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each coefficient with its interval, and how far those that vary differ from site to site."""
        between = [{**row, "term": f"{row['term']}, from site to site"} for row in self.between(posterior)]
        return [*self.coefficients(posterior), *between]

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator, *, data: Any = None, rows: int = 20
    ) -> tuple[Array, NDArray[np.float64]]:
        """Rows with made-up predictors, or with those of `data`, and the linear predictor of each.

        Where something varies there are so many `rows` of each site, unless `data` says of which site each is.
        """
        if data is None:
            points = np.column_stack([made_up(column, size, rng) for column in self.columns.values()])
            sites = np.arange(size) // rows
            points = np.column_stack([points, sites]) if self.varying else points
        else:
            points = self.points(data, target=False)[:size]
        design, place = self._matrix(points), list(self.columns).index(self.target)
        linear = np.asarray(design @ self.drawn_coefficients(parameters[FACTOR]))
        if self.varying:
            groups, numbers = numbered(points[:, -1])
            drawn = rng.standard_normal((len(numbers), len(self.places))) / np.sqrt(parameters[BETWEEN][0])
            own = drawn * self.drawn_noise(parameters[FACTOR])
            linear += np.einsum("nv,nv->n", design[:, self.places], own[groups])
        points[:, place] = self.draw_outcomes(parameters[FACTOR], linear, rng)
        return points, linear

    def drawn_coefficients(self, parameters: Any) -> Array:
        return np.asarray(parameters[0])

    def drawn_noise(self, parameters: Any) -> float:
        """In which standard deviations from site to site are told."""
        return 1.0

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        told = super().settings_of(structure)
        told |= {"terms": tuple(told["terms"]), **cls.prior_settings(structure.prior[FACTOR])}
        if BETWEEN in structure.prior:
            shape, rate = Gamma().columns(structure.prior[BETWEEN][0])
            told |= {"prior_between": float(rate[0] / shape[0]), "between_degrees": 2.0 * float(shape[0])}
        return told

    @classmethod
    @abstractmethod
    def prior_settings(cls, prior: Array) -> dict[str, float]:
        """The settings that a prior tells."""

    def transform(self, posterior: Posterior) -> Transform:
        """The mean of the target and an interval of 90 %."""

        def predicted(data: Any) -> Array:
            return np.column_stack([*self.predict(posterior, data).values()])

        return Transform(("mean", "low", "high"), predicted, shares=False)


def told(labels: Sequence[str], parts: Mapping[str, Array]) -> list[dict[str, Any]]:
    """One row per term."""
    return [
        {"term": label, **{name: float(values[place]) for name, values in parts.items()}}
        for place, label in enumerate(labels)
    ]


def of_scale(shape: Array, rate: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of 1 / √Λ where Λ is Gamma; infinite where there is none."""
    few = np.where(shape > 0.5, shape, np.nan)
    mean = np.sqrt(rate) * np.exp(gammaln(few - 0.5) - gammaln(few))
    variance = rate / np.where(shape > 1.0, shape - 1.0, np.nan) - mean**2
    return np.nan_to_num(mean, nan=np.inf), np.nan_to_num(np.sqrt(variance), nan=np.inf)


def places_among(sites: Array, numbers: Array) -> NDArray[np.intp]:
    """Where each row's site is among some; behind all of them if it is none."""
    found = np.full(len(sites), len(numbers), dtype=np.intp)
    for place, number in enumerate(numbers):
        found[np.isnan(sites) if np.isnan(number) else sites == number] = place
    return found
