"""First broadcasts of a regression's sites: fits with an anchor, and how merges use them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.base.arguments import Seed
from decbayes.families import Array, dense
from decbayes.models.core.ascent import Fit, FitInterrupted, OnPass
from decbayes.models.regressions.messages.doubts import of_levels, of_rows, of_terms, of_values, of_weights
from decbayes.models.regressions.messages.one_broadcast import (
    LAPLACE,
    STEP,
    Quadratic,
    anchor_of,
    anchors_by_number,
    marked,
    recentred,
    total,
)
from decbayes.models.regressions.outcome import Generalized
from decbayes.models.regressions.varying.climb import FACTOR, Climb
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.models.regressions.regression import Regression

# Most passes at the end of a site's first fit.
SETTLING = 40
# The prior variance of the intercept in a first fit.
ANCHORED_LEVEL = 3.0
# Of the prior variance of slopes, what is left where rows say nothing about them.
NEARLY_ZERO = 1e-4


@dataclass(frozen=True, eq=False)
class FirstBroadcasts:
    """What the sites of one regression send first; `Regression` documents methods of the same names."""

    model: "Regression"

    @cached_property
    def anchors(self) -> tuple[Quadratic, ...]:
        """The priors that sites' first fits may use and remove again; none if fits are exact, or if sites vary.

        Means are those of the prior, mostly 0. Variances of slopes are those of the outcome, in agreed units, or the
        model's own if that is smaller. The first anchor is as narrow for the intercept: for counts, and for rows with a
        single outcome. In the others the intercept is wider, because rare outcomes have intercepts far from 0.
        """
        outcome, labels = self.model.outcome, self.model.table.design.labels
        if self.model.varying or not isinstance(outcome, Generalized):
            return ()
        side, widest = len(labels), float(self.model.prior_variance)
        variances = sorted({min(widest, variance) for variance in outcome.anchors})
        slopes = np.ones(side, dtype=np.bool_)
        slopes[list(self.model.baseline_places if self.model.intercept else ())] = False
        level = min(widest, ANCHORED_LEVEL)
        narrow = np.full(side, min(widest, outcome.narrow))
        wider = [np.where(slopes, variance, level) for variance in variances]
        centre, _ = outcome.moments(outcome.prior(side, self.model))
        return tuple(Quadratic(centre / diagonal, np.diag(1.0 / diagonal)) for diagonal in (narrow, *wider))

    @cached_property
    def level_anchor(self) -> Quadratic:
        """The prior of rows that only say how frequent an outcome is: they are expanded where slopes are nearly 0."""
        precision, levels = self._prior.precision.copy(), list(self.model.baseline_places)
        slopes = np.setdiff1d(np.arange(len(precision)), levels or np.arange(len(precision)))
        precision[slopes, slopes] /= NEARLY_ZERO
        return Quadratic(precision @ self._prior.moments()[0], precision)

    @cached_property
    def levels(self) -> Array | None:
        """The baseline coefficients, of which each row has one; None if merges do not recentre.

        Rates with an offset are rates times a factor, which messages contain; other outcomes with an offset would be
        misread, and so would differences of levels that are not constant.
        """
        model, outcome = self.model, self.model.outcome
        if not (self.anchors and model.baseline_places and outcome.recentres and isinstance(outcome, Generalized)):
            return None
        labels, baseline = model.table.design.labels, model.table.baseline
        others = [label for place, label in enumerate(labels) if place not in model.baseline_places]
        constant = len(outcome.read_as) == 1 or not any(f"{baseline.name}=" in label for label in others if baseline)
        known = constant and (not model.offset or outcome.proportional)
        return np.array(sorted(model.baseline_places)) if known else None

    def fit(self, data: Any, rng: Seed | None, progress: OnPass | None) -> Fit:
        """The fit to send, with doubts about values that do not match the agreed columns."""
        fit, table = self._fit_to_send(data, rng, progress), self.model.table
        # Several rows stand for one value of the target.
        kept = {*table.predictors, *([self.model.target] if self.model.stack is None else [])}
        places = [place for place, name in enumerate(table.columns) if name in kept]
        columns = {name: column for name, column in table.columns.items() if name in kept}
        points = self.model.points(data)
        weights = table.named(points)[table.weights] if table.weights else np.empty(0)
        rows = of_rows(columns, points[:, places], table.predictors)
        remarks = *fit.posterior.remarks, *of_values(columns, points[:, places]), *rows, *of_weights(weights)
        return replace(fit, posterior=replace(fit.posterior, remarks=remarks))

    def _fit_to_send(self, data: Any, rng: Seed | None, progress: OnPass | None) -> Fit:
        """Each anchor is a start: the one with the highest likelihood of the rows is kept."""
        model = self.model
        if not self.anchors or not model.count(data):
            return model.fit(data, rng=rng, progress=progress)
        if model.hides_outcome(data):
            fit = self._fit(data, self.level_anchor, rng, progress)
            problem = model.problem(dict(Posterior.of_prior(model.structure).natural), data)
            _, settled = self._converge(fit.posterior, model.outcome.climb(problem), self.level_anchor)
            return replace(fit, posterior=replace(settled, remarks=fit.posterior.remarks))
        present, every = self._outcomes(data)
        # Such rows say where other outcomes are not, but not where they are.
        few = present <= (every + 1) // 2
        places = [0] if few or len(self.anchors) == 1 else [*range(1, len(self.anchors))]
        anchors = [self.anchors[place] for place in places]
        fits = [self._fit(data, anchor, rng, numbered(progress, start)) for start, anchor in enumerate(anchors)]
        fit, place = max(zip(fits, places, strict=True), key=lambda pair: pair[0].bound[-1])
        problem = model.problem(dict(Posterior.of_prior(model.structure).natural), data)
        believed, settled = self._converge(fit.posterior, model.outcome.climb(problem), self.anchors[place])
        sent = marked(message_of(settled), place + (LAPLACE if problem.approximation == "laplace" else 0))
        targets, mean, weights, _ = model.fitted(believed.natural, problem)
        broadcast = model.outcome.broadcast_remarks(targets, mean, weights, problem.rows.design)
        missing = of_terms(model.table.design.labels, problem.rows.design, sorted(model.baseline_places))
        rough = of_levels(present, every) if few else ()
        remarks = dict.fromkeys([*fit.posterior.remarks, *rough, *broadcast, *missing])
        return replace(fit, posterior=replace(settled, contribution={FACTOR: sent.natural}, remarks=(*remarks,)))

    def _outcomes(self, data: Any) -> tuple[int, int]:
        """The number of outcomes in these rows, and of all; for counts, 2 stands for several."""
        model = self.model
        observed = model.outcome.observed(model.table.targets(model.points(data)), model.problem({}, data).targets)
        return len(np.unique(observed)), 2 if model.stack is None else model.stack.outcomes

    def _fit(self, data: Any, anchor: Quadratic, rng: Seed | None, progress: OnPass | None) -> Fit:
        """A fit with an anchor as its prior; an interrupted one is raised without the anchor."""
        prior = Posterior.from_natural(self.model.structure, {FACTOR: anchor.natural})
        try:
            return self.model.fit(data, rng=rng, prior=prior, progress=progress)
        except FitInterrupted as interruption:
            fit = interruption.fit
            sent = self.model.contributed(fit.posterior, data)
            raise FitInterrupted(replace(fit, posterior=sent)) from None

    def _converge(self, fitted: Posterior, climb: Climb, anchor: Quadratic) -> tuple[Posterior, Posterior]:
        """Where a first fit ends, and what it sends: nearly the posterior without the anchor.

        Half steps, since whole ones oscillate where rows say little.
        """
        structure, current, moved = self.model.structure, fitted, np.inf
        for _ in range(SETTLING):
            contributed = Posterior.from_natural(structure, climb.contributed(current.natural))
            step = self._anchored(contributed, anchor).natural[FACTOR] - current.natural[FACTOR]
            if not np.abs(step).max() < moved:
                break
            believed, sent, moved = current, contributed, float(np.abs(step).max())
            if moved < STEP:
                break
            current = Posterior.from_natural(structure, {FACTOR: current.natural[FACTOR] + 0.5 * step})
        return believed, sent

    def beliefs(self, posterior: Posterior) -> list[Posterior]:
        anchors = (*self.anchors, self.level_anchor) if self.anchors else ()
        return [self._anchored(posterior, anchor) for anchor in anchors] or [posterior]

    def _anchored(self, posterior: Posterior, anchor: Quadratic) -> Posterior:
        return Posterior.from_natural(self.model.structure, {FACTOR: (message_of(posterior) + anchor).natural})

    def recentred(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        if self.levels is None:
            return list(posteriors)
        messages = [*map(message_of, posteriors)]
        return [
            posterior if now is before else replace(posterior, contribution={FACTOR: now.natural})
            for posterior, before, now in zip(posteriors, messages, self._recentred(messages), strict=True)
        ]

    def _recentred(self, messages: list[Quadratic]) -> list[Quadratic]:
        assert isinstance(self.model.outcome, Generalized)
        assert self.levels is not None
        return recentred(messages, self._prior, self.anchors, self.levels, self.model.outcome)

    def forecast(self, posteriors: Sequence[Posterior]) -> Array | None:
        if self.levels is None:
            return None
        messages, first = [*map(message_of, posteriors)], anchors_by_number(self.anchors)
        if not all(anchor_of(message) in first for message in messages):
            return None
        mean, covariance = total([self._prior, *self._recentred(messages)]).moments()
        return np.abs(mean - total([self._prior, *messages]).moments()[0]) / np.sqrt(np.diag(covariance))

    @property
    def _prior(self) -> Quadratic:
        return Quadratic.of(self.model.structure.prior[FACTOR])


def message_of(posterior: Posterior) -> Quadratic:
    return Quadratic.of(dense(posterior.contribution[FACTOR]))


def numbered(progress: OnPass | None, start: int) -> OnPass | None:
    """Report passes as those of the start with this number."""
    return None if progress is None else lambda reached: progress(replace(reached, restart=start))
