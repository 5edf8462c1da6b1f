"""What all regressions share: their structure, coefficients with intervals, predictions, and made-up rows."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from decbayes.arguments import Above, check_level, check_positive
from decbayes.families import Array, Family, Gamma
from decbayes.models.core.model import Row
from decbayes.models.core.points import check_structure
from decbayes.models.core.transforms import Transform
from decbayes.models.regressions._data import told
from decbayes.models.regressions._site_effects import numbered
from decbayes.models.regressions._varying import BETWEEN, Varying
from decbayes.models.regressions.table import FACTOR
from decbayes.posterior import Posterior
from decbayes.structure import Structure


@dataclass(frozen=True)
class Regression(Varying):
    """Coefficients β with a prior variance of `prior_variance` each, in agreed units."""

    prior_variance: Annotated[float, "The prior variance of each coefficient, in agreed units.", Above(0)] = field(
        default=10.0, kw_only=True
    )

    view: ClassVar[str] = "coefficients"

    def __post_init__(self) -> None:
        check_positive(prior_variance=self.prior_variance)
        super().__post_init__()

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

    def agreement(self) -> Structure:
        families: dict[str, Family] = {FACTOR: self.family}
        prior, labels = {FACTOR: self.coefficient_prior()}, {FACTOR: self.design.labels}
        if self.varying:
            families[BETWEEN] = Gamma()
            shape = np.full((1, len(self.places)), 0.5 * float(self.between_degrees))
            prior[BETWEEN] = Gamma().natural(shape=shape, rate=shape * float(self.prior_between))
            labels[BETWEEN] = tuple(self.design.labels[place] for place in self.places)
        return Structure(
            families=families,
            prior=prior,
            labels=labels,
            model={"name": type(self).__name__, **self.constants()},
        )

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None, *, known: Any = None) -> Array:
        """log p(y | x, posterior) per row, all parameters integrated out; `held` may have the targets.

        Where something varies, rows are of a site that nobody has met, unless `known` has rows of the same site.
        """
        check_structure(posterior, self.structure, "posterior")
        points = self.points(data if held is None else self.rows_with(data, held))
        targets = self._targets(points)
        return self.log_density(posterior, *self.linear(posterior, points, known), targets)

    def assign(self, posterior: Posterior, data: Any) -> Array:
        """There is one component, and it accounts for everything."""
        check_structure(posterior, self.structure, "posterior")
        return np.ones((len(self.points(data, target=False)), 1))

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
        wider = unit * self.widening(posterior)
        ends = {
            "low": mean * unit + offset + wider * (low - mean),
            "high": mean * unit + offset + wider * (high - mean),
        }
        return told(self.design.labels, {"mean": mean * unit + offset, "deviation": deviation * wider} | ends)

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
            points, sites = self.made_up_rows(size, rng), np.arange(size) // rows
            points = np.column_stack([points, sites]) if self.varying else points
        else:
            points = self.points(data, target=False)[:size]
        design = self._matrix(points)
        linear = np.asarray(design @ self.drawn_coefficients(parameters[FACTOR]))
        if self.varying:
            groups, numbers = numbered(points[:, -1])
            drawn = rng.standard_normal((len(numbers), len(self.places))) / np.sqrt(parameters[BETWEEN][0])
            own = drawn * self.drawn_noise(parameters[FACTOR])
            linear += np.einsum("nv,nv->n", design[:, self.places], own[groups])
        points[:, self.target_place] = self.draw_outcomes(parameters[FACTOR], linear, rng)
        return points, linear

    def drawn_coefficients(self, parameters: Any) -> Array:
        return np.asarray(parameters[0])

    def drawn_noise(self, parameters: Any) -> float:
        """In which standard deviations from site to site are told."""
        return 1.0

    def transform(self, posterior: Posterior) -> Transform:
        """The mean of the target and an interval of 90 %."""

        def predicted(data: Any) -> Array:
            return np.column_stack([*self.predict(posterior, data).values()])

        return Transform(("mean", "low", "high"), predicted, shares=False)
