"""Regressions: a table of rows, coefficients that may vary between sites, and an outcome to predict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import Seed, check_level
from decbayes.errors import InvalidData, NotCalibrated
from decbayes.families import Array, dense
from decbayes.models.core.ascent import Ascent, Fit, OnPass, Pass, fit_best, on_top
from decbayes.models.core.evaluation import Risks
from decbayes.models.core.information import Tally
from decbayes.models.core.model import Row
from decbayes.models.core.points import check_fit, check_structure, in_blocks, of_own_posterior
from decbayes.models.core.transforms import Transform
from decbayes.models.likelihoods.discrete import one_share
from decbayes.models.regressions._estimates import Estimates, ratio_text
from decbayes.models.regressions._regression_settings import RegressionSettings
from decbayes.models.regressions.messages.doubts import FEW_EVENTS
from decbayes.models.regressions.messages.first_broadcasts import FirstBroadcasts
from decbayes.models.regressions.messages.other_units import other_units
from decbayes.models.regressions.robust_errors import RobustErrors
from decbayes.models.regressions.varying.climb import FACTOR, Climb, Problem
from decbayes.models.regressions.varying.compared import as_compared
from decbayes.models.regressions.varying.half_cauchy import HalfCauchy
from decbayes.models.regressions.varying.site_deviations import SiteDeviations
from decbayes.models.regressions.varying.site_effects import groups_of, rows_by
from decbayes.posterior import Posterior
from decbayes.remarks import Remark

if TYPE_CHECKING:
    from decbayes.privacy.mechanism import Mechanism


@dataclass(frozen=True)
class Regression(RegressionSettings):
    """How one column depends on others: a linear predictor xβ, and an outcome whose distribution depends on it.

    Data are data frames with the columns of the settings, or matrices of numbers in their order, with categories as
    numbers from 0.
    """

    def points(self, data: Any) -> Array:
        """Rows as a matrix of numbers, with the site's number after the columns if something varies."""
        return self.table.points(data)

    @on_top
    def fit(
        self,
        data: Any,
        *,
        rng: Seed | None = None,
        prior: Posterior | None = None,
        start: Posterior | None = None,
        progress: OnPass | None = None,
    ) -> Fit:
        """Fit the data, on top of `prior` and starting from `start` if given.

        `rng` has no effect. Linear regressions are fitted exactly, in one pass; if something varies between sites,
        passes estimate how much.
        """
        check_fit(self.structure, rng, prior, start)
        before = dict((prior or Posterior.of_prior(self.structure)).natural)
        problem, said = self.problem(before, data), self.table.unagreed(data)
        if not len(problem.targets):
            return Fit(Posterior.from_natural(self.structure, before), (0.0,), True)
        climb = self.outcome.climb(problem)
        if climb.exact:
            place = climb.begin(None)
            if progress is not None:
                progress(Pass(0, 1, place.bound))
            return Fit(self._learned(place.natural, problem, said), (place.bound,), True)
        return fit_best(
            lambda: climb.begin(None if start is None else start.natural),
            climb.step,
            lambda place: self._learned(place.natural, problem, said),
            ascent=Ascent(self.ascent.passes, self.ascent.tolerance),
            observations=len(problem.targets),
            progress=progress,
        )

    def _learned(self, natural: Mapping[str, Array], problem: Problem, said: tuple[Remark, ...]) -> Posterior:
        posterior = Posterior.from_natural(self.structure, natural)
        if self.outcome.are_few(problem.targets):
            return replace(posterior, remarks=(FEW_EVENTS, *said))
        return replace(posterior, remarks=(*self.outcome.remarks(*self.fitted(natural, problem)), *said))

    def fitted(self, natural: Mapping[str, Array], problem: Problem) -> tuple[Array, Array, Array, int]:
        """The basis of remarks on a fit: targets, E[f] and weights of the rows, and the number of coefficients."""
        mean = problem.rows.design @ self.outcome.moments(natural[FACTOR])[0] + problem.offset
        return problem.targets, mean, problem.weights, problem.side

    @cached_property
    def _broadcasts(self) -> FirstBroadcasts:
        return FirstBroadcasts(self)

    def fit_site(self, data: Any, *, rng: Seed | None = None, progress: OnPass | None = None) -> Fit:
        """The posterior to broadcast: the likelihood is expanded around an estimate with a tighter prior, which is
        removed again. Merges are then closer to one fit of all rows, above all if sites are small or hold a single
        outcome. `remarks` say where a round is needed before relying on a merge.

        >>> frame = {"ill": [True] * 8, "age": [40.0, 50.0, 60.0, 70.0] * 2}
        >>> model = db.LogisticRegression("ill", columns={"ill": "yes/no", "age": db.columns.Gaussian(50, 20)})
        >>> [remark.kind for remark in model.fit_site(frame).posterior.remarks]
        ['single outcome']
        """
        return self._broadcasts.fit(data, rng, progress)

    def site_beliefs(self, posterior: Posterior) -> list[Posterior]:
        return self._broadcasts.beliefs(posterior)

    def recentred(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        """The contributions of sites at the joint posterior, as far as their first broadcasts determine them.

        A site's quadratic shows where its rows are, and so how its likelihood continues elsewhere. Sums are then closer
        to one fit of all rows; every merge does this. Posteriors that are no first broadcasts (from `fit_site`) are not
        changed, and neither are those of regressions without an intercept.

        >>> rng = np.random.default_rng(0)
        >>> model = db.PoissonRegression("y", columns={"y": "count", "x": "real"})
        >>> sites = [{"x": x, "y": rng.poisson(np.exp(x))} for x in (rng.normal(size=60), rng.normal(1, 1, size=60))]
        >>> moved = model.recentred([model.fit_site(site).posterior for site in sites])
        >>> round(model.coefficients(db.merging.product(moved))[1]["mean"], 1)
        1.0
        """
        return self._broadcasts.recentred(posteriors)

    def compared(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        return as_compared(self, posteriors)

    def other_units(self, posteriors: Sequence[Posterior]) -> list[tuple[int, str, float]]:
        return other_units(self, posteriors)

    def forecast(self, posteriors: Sequence[Posterior]) -> Array | None:
        """(D,): the approximate distance of a merge of first broadcasts from one fit of all rows, in posterior
        deviations.

        None if merges are exact, or if it is unknown, for example for posteriors that are no first broadcasts.
        """
        return self._broadcasts.forecast(posteriors)

    def hides_outcome(self, data: Any) -> bool:
        """Whether disclosure rules have replaced all outcomes by one share: see `FewEvents`."""
        return bool(self.outcome.common) and bool(one_share(self.points(data)[:, [self.table.target_place]]).all())

    def problem(self, before: dict[str, Array], data: Any) -> Problem:
        """The rows of these data, and the prior `before` them, as a climb takes them."""
        points, (size, zero) = self.table.points(data), self.target_units
        if not self.hides_outcome(points):
            self._targets(points)
        groups, rows = groups_of(self.table.names(points)), self.table.rows(points)
        by_group = rows_by(rows.matrix, groups.rows[rows.observation], len(groups.parents))
        targets, offset = (rows.targets - zero) / size, rows.offset / size
        settings = before, self.variation, self._approximation, self.ascent.tolerance
        constant = float(rows.weights @ rows.constant)
        return Problem(by_group, targets, offset, rows.weights, constant, size, groups, *settings)

    def _targets(self, points: Array) -> Array:
        targets = self.table.targets(points)
        self.outcome.check_targets(self.target, targets)
        return targets

    @cached_property
    def _deviations(self) -> SiteDeviations:
        return SiteDeviations(self)

    def contributed(self, posterior: Posterior, data: Any) -> Posterior:
        check_structure(posterior, self.structure, "posterior")
        climb: Climb = self.outcome.climb(self.problem(dict(Posterior.of_prior(self.structure).natural), data))
        return Posterior.from_natural(self.structure, climb.contributed(posterior.natural))

    def information(self, posterior: Posterior, data: Any) -> Array:
        """Only variation is hidden: the joint posterior of coefficients needs no correction."""
        check_structure(posterior, self.structure, "posterior")
        return self._deviations.information(posterior, data)

    def risks(self, posterior: Posterior, data: Any) -> Risks:
        """Per observation: its linear predictor without baseline and offset, and its expected outcome."""
        check_structure(posterior, self.structure, "posterior")
        points, natural, (size, zero) = self.points(data), posterior.natural[FACTOR], self.target_units
        rows = self.table.rows(points)
        effects = self.outcome.moments(natural)[0].copy()
        effects[list(self.baseline_places)] = 0.0
        expected = self.outcome.predicted(natural, *self._deviations.linear(posterior, points, rows, None), 0.9)["mean"]
        parts = np.column_stack([rows.matrix @ effects, rows.targets, zero + size * expected, np.ones(len(expected))])
        summed = np.zeros((len(points), 4))
        np.add.at(summed, rows.observation, parts)
        risk = summed[:, 0] / np.maximum(summed[:, 3], 1.0)
        return Risks(risk, *self._order(points), summed[:, 1], summed[:, 2])

    def _order(self, points: Array) -> tuple[Array, Array, Array]:
        """Time of the outcome, whether it happened, and time of entry: larger outcomes count as earlier."""
        targets = self.table.targets(points)
        return -targets, np.ones(len(targets)), np.full(len(targets), -np.inf)

    @of_own_posterior
    def tally(self, posterior: Posterior) -> Tally:
        """Also checks the number of groups in a contribution, for each factor that varies: at most that of rows.

        Weights say nothing about the number of rows.
        """
        tally = self.outcome.tally(dense(posterior.contribution[FACTOR]), self.table.design, bool(self.varying))
        tally = Tally((), np.empty(0)) if self.weights else tally
        groupings = self.variation.groupings
        groups = {
            grouping.factor: grouping.groups(dense(posterior.contribution[grouping.factor])) for grouping in groupings
        }
        return replace(tally, within={**tally.within, **groups})

    def mechanism(self) -> "Mechanism":
        from decbayes.models.regressions.private.rounds import RegressionMechanism

        return RegressionMechanism(self)

    def largest_contribution(self, value: float) -> Mapping[str, Array]:
        target = self.columns[self.target].largest_contrast(value)
        if self.table.added is not None:
            target += max(map(abs, self.table.added.range(value))) / self.target_units[0]
        return {FACTOR: self.outcome.largest_contribution(self.table.design.largest(value), value, target)}

    def log_likelihoods(self, parameters: Mapping[str, Any], data: Any) -> Iterator[Array]:
        if self.varying:
            raise NotCalibrated("The posterior has no draws of coefficients that vary: leave `varying` out.")
        points, (unit, zero) = self.points(data), self.target_units
        self._targets(points)
        family, values = self.outcome.family, parameters[FACTOR]
        draws = len(next(iter(family.quantities(values).values())))
        drawn = [self.outcome.drawn(family.one_of(values, number)) for number in range(draws)]
        for block in in_blocks(points):
            rows = self.table.rows(block)
            targets, offset, densities = (rows.targets - zero) / unit, rows.offset / unit, []
            for coefficients, noise in drawn:
                density = self.outcome.log_given(targets, rows.matrix @ coefficients + offset, noise)
                weighted = rows.weights * (density + rows.constant - log(unit))
                densities.append(np.bincount(rows.observation, weighted, minlength=len(block)))
            yield np.stack(densities)

    def linear(self, posterior: Posterior, data: Any, known: Any = None) -> tuple[Array, Array]:
        """Mean and variance of the linear predictor in each row: for a site with rows in `known`, or for a new one."""
        check_structure(posterior, self.structure, "posterior")
        points = self.table.points(data, target=False)
        return self._deviations.linear(posterior, points, self.table.rows(points), known)

    def log_predictive(self, posterior: Posterior, data: Any, held: Any = None, *, known: Any = None) -> Array:
        """log p(y | x, posterior) per row, all parameters integrated out; `held` may have the targets.

        If something varies, rows are from a new site, unless `known` has rows of the same site. If rules have hidden
        who has the outcome, everybody counts as not having it.
        """
        check_structure(posterior, self.structure, "posterior")
        points = self.points(data if held is None else self.table.with_targets(data, held))
        if self.hides_outcome(points):
            points = points.copy()
            points[:, self.table.target_place] = np.rint(points[:, self.table.target_place])
        size, zero = self.target_units
        self._targets(points)
        rows = self.table.rows(points)
        linear = self._deviations.linear(posterior, points, rows, known)
        density = self.outcome.log_density(posterior.natural[FACTOR], *linear, (rows.targets - zero) / size) - log(size)
        summed = np.bincount(rows.observation, weights=density + rows.constant, minlength=len(points))
        return np.asarray(summed, dtype=np.float64)

    def assign(self, posterior: Posterior, data: Any) -> Array:
        """Everything belongs to the one component."""
        check_structure(posterior, self.structure, "posterior")
        return np.ones((len(self.table.points(data, target=False)), 1))

    def predict(self, posterior: Posterior, data: Any, *, level: float = 0.9, known: Any = None) -> dict[str, Array]:
        """The `mean` of the target in each row, and an interval from `low` to `high`, for a data frame.

        If something varies, rows are from a new site, which widens intervals, unless `known` has rows of the same site
        with their targets.
        """
        check_level(level)
        (size, zero), linear = self.target_units, self.linear(posterior, data, known)
        predicted = self.outcome.predicted(posterior.natural[FACTOR], *linear, level)
        return {name: zero + size * values for name, values in predicted.items()}

    def transform(self, posterior: Posterior) -> Transform:
        """The mean of the target and a 90 % interval."""

        def predicted(data: Any) -> Array:
            return np.column_stack([*self.predict(posterior, data).values()])

        return Transform(("mean", "low", "high"), predicted, adds_up=False)

    def coefficients(self, posterior: Posterior, *, level: float = 0.9) -> list[dict[str, Any]]:
        """The change of the target with one unit of each term, in the columns' own units, with intervals.

        As in R, the intercept is where all numbers are 0 and all others are at their first category, and beside a
        product `x:z` the slope of x is that at z = 0. Coefficients of terms that vary are means over the population of
        sites.
        """
        return Estimates(self, posterior, level).coefficients()

    def ratios(self, posterior: Posterior, *, level: float = 0.9) -> list[dict[str, Any]]:
        """exp(β) of each term, with intervals: odds ratios, rate ratios or hazard ratios.

        Categories are compared with the first; real columns change by `per`, which is 1 unless their values call for
        another: 0.01 if they vary by 0.014. Terms that predictions start from (the intercept, the baseline hazard,
        thresholds) have none, and neither has a linear regression.

        >>> model = db.LogisticRegression("ill", columns={"ill": "yes/no", "old": "yes/no"})
        >>> model.ratios(db.Posterior.of_prior(model.structure))[0]["ratio"]
        1.0
        """
        return Estimates(self, posterior, level).ratios()

    def between(self, posterior: Posterior, *, level: float = 0.9) -> list[dict[str, Any]]:
        """The standard deviation between groups of each term that varies, with an interval.

        A `group` is a "site", or what `by` or `within` names.

        Mean-field intervals are too narrow. `db.calibrate` of a refined posterior gives valid ones, with a half-Cauchy
        prior in place of the Gamma; the mean is then the median.
        """
        return Estimates(self, posterior, level).between()

    def half_cauchy(self, posterior: Posterior) -> HalfCauchy:
        """The same deviations, and their correlations, with half-Cauchy priors, on a grid; for `db.calibrate`."""
        check_structure(posterior, self.structure, "posterior")
        return HalfCauchy(self, posterior)

    def robust_errors(self, posterior: Posterior) -> RobustErrors:
        """Errors of coefficients that are valid even if variances are wrong; for `db.calibrate`."""
        return RobustErrors(self, posterior)

    def correlations(self, posterior: Posterior, *, level: float = 0.9) -> list[dict[str, Any]]:
        """Correlations between sites of the coefficients that vary, if they are `correlated`, with intervals."""
        return Estimates(self, posterior, level).correlations()

    def effects(self, posterior: Posterior, data: Any, *, level: float = 0.9) -> list[dict[str, Any]]:
        """The difference of each site in these rows from the mean of all sites, term by term: for the holder of the
        rows.

        Then the differences of groups from their site, if something varies inside sites, too.
        """
        estimates = Estimates(self, posterior, level)
        if not self.varying:
            raise InvalidData("Nothing varies between sites in this regression: name terms with `varying`.")
        effects, groups = self._deviations.estimates(posterior, data)
        return estimates.effects(effects, groups, self.table.group_names(data, (groups.sites, groups.numbers)))

    def describe(self, posterior: Posterior, *, top: int = 10) -> list[Row]:
        """Each coefficient with its interval and its ratio, and the variation between sites of those that vary."""
        rows: list[Row] = [*self.coefficients(posterior)]
        rows += [{**row, "term": "{term}, from {group} to {group}".format(**row)} for row in self.between(posterior)]
        together = "correlation of {term}, from {group} to {group}"
        rows += [{**row, "term": together.format(**row)} for row in self.correlations(posterior)]
        rows = [{name: value for name, value in row.items() if name != "group"} for row in rows]
        if not self.outcome.ratio:
            return rows
        texts = {row["term"]: ratio_text(row) for row in self.ratios(posterior)}
        return [{**row, self.outcome.ratio: texts.get(row["term"], "")} for row in rows]

    def draw(
        self, parameters: Mapping[str, Any], size: int, rng: np.random.Generator, *, data: Any = None, rows: int = 20
    ) -> tuple[Array, NDArray[np.float64]]:
        """Rows with made-up predictors, or with those of `data`, and the linear predictors of their levels.

        If something varies there are `rows` of each site, unless `data` says which site each is from.
        """
        if data is not None:
            points = self.table.points(data, target=False)[:size].copy()
        else:
            points = np.column_stack([self.table.made_up(size, rng), self._deviations.made_up_groups(size, rows)])
        levels, (coefficients, noise) = self.table.rows(points, every=True), self.outcome.drawn(parameters[FACTOR])
        linear = levels.matrix @ coefficients + levels.offset / self.target_units[0]
        linear = linear + noise * self._deviations.draw(parameters, levels, points, rng)
        self._draw_outcome(points, linear, noise, rng)
        return points, linear

    def _draw_outcome(self, points: Array, linear: Array, noise: float, rng: np.random.Generator) -> None:
        """Write an outcome into each row, given the linear predictors of all its levels."""
        unit, zero = self.target_units
        points[:, self.table.target_place] = zero + unit * self.outcome.draw(linear, noise, rng)
