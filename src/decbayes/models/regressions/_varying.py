"""Regressions whose coefficients may differ from site to site: how far they do, and each site's own part."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from decbayes.arguments import Above, check_level, check_positive
from decbayes.columns.frames import is_frame, names_in, values_in
from decbayes.columns.values import text_of
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array, Family, Gamma, dense
from decbayes.models.core.model import Columns as Names
from decbayes.models.core.model import split_names
from decbayes.models.core.points import as_numbers, as_points, check_structure
from decbayes.models.regressions._data import number_of, site_numbers, told, with_sites
from decbayes.models.regressions._site_effects import Moments, SiteEffects, rows_by
from decbayes.models.regressions.design import Formula
from decbayes.models.regressions.table import FACTOR, RegressionTable, Target
from decbayes.models.tables.tabular import Agreed, Kinds
from decbayes.posterior import Posterior
from decbayes.structure import Structure

BETWEEN = "variation"


@dataclass(frozen=True)
class Varying(RegressionTable):
    """Coefficients of the terms in `varying`, or the "intercept", are β + u at each site, u ~ N(0, 1 / Λ).

    A site is a place that holds rows, or, where its rows are of several, what the column `by` names; nobody else sees
    these names. Matrices have a number for the site behind the columns, where something varies.

    The precision Λ of each is Gamma; 1 / Λ is `prior_between` before anything is known, with the weight of
    `between_degrees` sites.
    """

    varying: tuple[str, ...] = field(default=(), kw_only=True)
    by: str = field(default="", kw_only=True)
    prior_between: Annotated[float, "The prior variance from site to site of what varies.", Above(0)] = field(
        default=0.1, kw_only=True
    )
    between_degrees: Annotated[float, "Sites that this prior variance weighs.", Above(0)] = field(
        default=1.0, kw_only=True
    )

    from_data: ClassVar[frozenset[str]] = RegressionTable.from_data | {"varying", "by"}

    def __post_init__(self) -> None:
        check_positive(prior_between=self.prior_between, between_degrees=self.between_degrees)
        super().__post_init__()
        object.__setattr__(self, "varying", tuple(self.varying))
        if self.by and not self.varying:
            raise InvalidStructure(f"Sites are in '{self.by}', but nothing is said to vary: name it with `varying`.")
        if self.by in self.columns:
            raise InvalidStructure(f"'{self.by}' names sites (`by`), and can be no column of the regression as well.")
        _ = self.places

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Which coefficients differ from site to site."""
        return np.array(self.design.places(self.varying), dtype=np.intp)

    def constants(self) -> Mapping[str, Any]:
        varying = {"varying": list(self.varying), **({"by": self.by} if self.by else {})} if self.varying else {}
        return {**super().constants(), **varying}

    @classmethod
    def settings_of(cls, structure: Structure) -> dict[str, Any]:
        told = super().settings_of(structure)
        if BETWEEN in structure.prior:
            shape, rate = Gamma().columns(structure.prior[BETWEEN][0])
            told |= {"prior_between": float(rate[0] / shape[0]), "between_degrees": 2.0 * float(shape[0])}
        return told

    @classmethod
    def formula_settings(cls, said: Formula) -> dict[str, Any]:
        """Of what varies only where something does."""
        varying = {"varying": said.varying, "by": said.by} if said.varying else {}
        return {"intercept": said.intercept, **varying}

    @classmethod
    def from_file(
        cls,
        path: Path,
        *,
        formula: Annotated[str, "What to fit, as in 'visits ~ age + sex + (1 | site)'; or name a --target."] = "",
        target: Target = "",
        varying: Annotated[str, "Terms that differ from site to site, or 'intercept', separated by commas."] = "",
        by: Annotated[str, "The column that names sites, where a file has several."] = "",
        columns: Names = "",
        kinds: Kinds = "",
        agreed_columns: Agreed = None,
        **options: Any,
    ) -> tuple[Self, Any]:
        """Say what to fit with --formula, or the --target. Texts are categorical, true and false are yes/no, other
        columns are real. Rows with missing values are left out.
        """
        options |= {"varying": tuple(split_names(varying))} if varying else {}
        options |= {"by": by} if by else {}
        said: dict[str, Any] = {"formula": formula, "target": target, "columns": columns, "kinds": kinds}
        return super().from_file(path, agreed_columns=agreed_columns, **said, **options)

    def _frame(self, path: Path, names: list[str]) -> Mapping[str, Any]:
        return with_sites(path, names, self.by)

    def _coded(self, frame: Any, target: bool) -> Array:
        """With the number of each row's site, NaN where nobody names one."""
        points = super()._coded(frame, target)
        return np.column_stack([points, site_numbers(frame, self.by, len(points))]) if self.varying else points

    def _numbers(self, data: Any) -> Array:
        """A matrix without a column for the site has rows of one."""
        rows = as_numbers(data)
        if self.varying and rows.ndim == 2 and rows.shape[1] == len(self.columns):
            rows = np.column_stack([rows, np.full(len(rows), np.nan)])
        return as_points(rows, len(self.columns) + bool(self.varying), unseen=True)

    def _sites(self, points: Array) -> Array:
        """(N,): the number of each row's site, NaN where nobody names one."""
        return points[:, -1] if self.varying else np.full(len(points), np.nan)

    def site_names(self, data: Any, numbers: Array) -> dict[str, str]:
        """What these sites are called here, by their numbers."""
        names = {str(number): "here" if np.isnan(number) else f"{number:g}" for number in numbers}
        if is_frame(data) and self.by in names_in(data):
            texts = sorted({text_of(value) for value in values_in(data, self.by)})
            names |= {str(np.float64(number_of(text))): text for text in texts}
        return names

    def precisions(self, natural: Mapping[str, Array]) -> Array:
        """(V,): E[Λ] of each coefficient that varies."""
        return Gamma().expected(natural[BETWEEN])[0] if self.varying else np.zeros(0)

    def sites_told(self, posterior: Posterior) -> dict[str, Array]:
        """How many sites a contribution says there are, of each thing that varies: no more than rows."""
        return {BETWEEN: 2.0 * np.split(dense(posterior.contribution[BETWEEN]), 2, axis=1)[0]} if self.varying else {}

    @property
    @abstractmethod
    def family(self) -> Family:
        """The family of the coefficients."""

    @abstractmethod
    def moments(self, natural: Array) -> tuple[Array, Array]:
        """Mean (D,) and covariance (D, D) of the coefficients; the latter in variances of the noise if there is one."""

    @abstractmethod
    def site_effects(self, posterior: Posterior, data: Any) -> tuple[SiteEffects, Array]:
        """What rows say of the sites that they are of, given the posterior; and the numbers of these sites."""

    @abstractmethod
    def reach(self, posterior: Posterior, level: float) -> float:
        """Half the width of an interval, in scales of a coefficient."""

    def noise_variance(self, posterior: Posterior) -> float:
        """In which variances from site to site are told."""
        return 1.0

    def linear(self, posterior: Posterior, data: Any, known: Any = None) -> tuple[Array, Array]:
        """Mean and variance of the linear predictor in each row: of a site that is in `known`, or of a new one."""
        check_structure(posterior, self.structure, "posterior")
        mean, covariance = self.moments(posterior.natural[FACTOR])
        points = self.points(data, target=False)
        design, sites = self._matrix(points), self._sites(points)
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

    def widening(self, posterior: Posterior) -> Array:
        """(D,): how many times wider coefficients are since nobody knows how far sites differ; 1 where none varies.

        With Λ known at its mean, the own parts of G sites leave their mean with a variance of 1 / (E[Λ] G); over all
        that Λ may be it is E[1 / Λ] / G.
        """
        wider = np.ones(len(self.design.labels))
        if self.varying:
            shape, rate = Gamma().columns(posterior.natural[BETWEEN][0])
            sites = 2.0 * dense(posterior.contribution[BETWEEN])[0, : len(shape)]
            extra = np.where(sites > 1.0, self.between_variances(posterior) - rate / shape, 0.0) / np.maximum(
                sites, 1.0
            )
            _, covariance = self.moments(posterior.natural[FACTOR])
            wider[self.places] = np.sqrt(1.0 + extra / np.diag(covariance)[self.places])
        return wider

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
        (mean, covariance), names = self.moments(posterior.natural[FACTOR]), self.site_names(data, numbers)
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
