"""Figures 9a and 9b: five binary features in ten dimensions, five agents (section 3.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from decbayes.families import Array
from decbayes.models.core.evaluation import hold_out
from decbayes.models.features.latent_features import LatentFeatures
from decbayes.plot.style import canvas
from decbayes.posterior import Posterior
from paper.boxes import draw_boxes
from paper.claims import Claim, Compared, below, no_worse, within
from paper.experiment import Task, settings_of
from paper.features_common import (
    LIKELIHOOD,
    Trial,
    estimated_prior_variance,
    feature_tasks,
    medians,
    nothing_more,
    series,
)
from paper.style import FULL
from paper.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERROR = "feature error"


@dataclass(frozen=True)
class FeaturesSynthetic:
    """K = 5, D = 10, σ² = 0.04, 1,000 observations to learn from and 300 to predict a component of.

    Features are redrawn until they are linearly independent: no method can tell dependent ones apart.
    """

    trials: int = 10
    seed: int = 0
    learners: int = 5
    features: int = 5
    dimension: int = 10
    variance: float = 0.04
    observations: int = 1000
    held_out: int = 300

    name: ClassVar[str] = "features-synthetic"
    label: ClassVar[str] = "figures 9a and 9b"
    caption: ClassVar[str] = (
        "Synthetic latent features, five agents. Left: 2-norm error between discovered and true features, in their "
        "best order (less is better). Right: log-likelihood of one component of a test vector given the other nine."
    )

    def settings(self) -> Mapping[str, Any]:
        return settings_of(self)

    def tasks(self) -> Sequence[Task]:
        return [
            task
            for trial in range(self.trials)
            for task in feature_tasks(trial, self.learners, partial(self._trial, trial), nothing_more)
        ]

    def draw(self, table: Table) -> "Figure":
        figure = canvas(FULL, 1.8)
        left, right = figure.subplots(1, 2, sharey=True)
        draw_boxes(left, series(table, ERROR, self.learners))
        draw_boxes(right, series(table, LIKELIHOOD, self.learners), digits=3)
        left.set_xlabel("2-norm error of the features")
        right.set_xlabel("log-likelihood per component")
        return figure

    def claims(self, table: Table) -> list[Claim]:
        error, predicted = medians(table, ERROR), medians(table, LIKELIHOOD)
        amps = Compared("AMPS's median feature error", error["AMPS"])
        return [
            below(amps, Compared("the naive merge's", error["naive"])),
            below(amps, Compared("the individual agents'", error["agent"])),
            within(amps, Compared("batch's", error["batch"]), times=1.5),
            no_worse(
                Compared("AMPS's median log-likelihood", predicted["AMPS"]),
                Compared("the naive merge's", predicted["naive"]),
                digits=3,
            ),
        ]

    def _trial(self, trial: int) -> Trial:
        rng = np.random.default_rng([self.seed, trial])
        truth = independent_features(self.features, self.dimension, rng)
        inclusion = rng.uniform(size=self.features)
        total = self.observations + self.held_out
        present = rng.uniform(size=(total, self.features)) < inclusion
        points = present @ truth + rng.normal(scale=self.variance**0.5, size=(total, self.dimension))
        training, test = np.split(points, [self.observations])
        observed, held = hold_out(test, share=1 / self.dimension, rng=rng)
        model = self._model(training)

        def measures(posterior: Posterior) -> dict[str, float]:
            return {
                ERROR: feature_error(posterior.mean("features"), truth),
                LIKELIHOOD: model.score(posterior, observed, held),
            }

        return Trial(model, training, (self.seed, trial), measures)

    def _model(self, points: Array) -> LatentFeatures:
        prior = estimated_prior_variance(points, self.features, self.variance)
        return LatentFeatures(self.features, self.dimension, variance=self.variance, prior_variance=prior)


def independent_features(features: int, dimension: int, rng: np.random.Generator) -> Array:
    """Binary vectors, each entry 0 or 1 with equal chance, linearly independent."""
    while True:
        drawn = rng.integers(2, size=(features, dimension)).astype(np.float64)
        if np.linalg.matrix_rank(drawn) == features:
            return drawn


def feature_error(found: Array, truth: Array) -> float:
    """√Σ_k |μ_k − truth_k|², with the features in the order that makes it least."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    squares = cdist(found, truth, "sqeuclidean")
    return float(np.sqrt(squares[linear_sum_assignment(squares)].sum()))
