"""Figure 9c: ten latent features of frontal faces, five agents; and what the features look like (section 3.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from decbayes.families import Array
from decbayes.models.core.evaluation import hold_out
from decbayes.models.features.latent_features import LatentFeatures
from decbayes.plot import images
from decbayes.plot.style import canvas
from decbayes.posterior import Posterior
from paper.boxes import draw_boxes
from paper.claims import Claim, Compared, beats, no_worse
from paper.datasets import faces
from paper.experiment import Task, settings_of
from paper.features_common import (
    LIKELIHOOD,
    WIDE_MERGES,
    Result,
    Trial,
    estimated_prior_variance,
    feature_tasks,
    medians,
    nothing_more,
    series,
)
from paper.style import FULL
from paper.table import Measurement, Table
from paper.wider import WIDE_AMPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = {"batch": "batch", "AMPS": "AMPS", "naive": "naive", "agent": "one agent"}


@dataclass(frozen=True)
class FeaturesFaces:
    """581 images of 32 × 32 pixels, 50 of them for testing, K = 10.

    The paper does not state σ². Here it is the mean square that the best K directions leave of the training images:
    the features can explain about as much, and the rest is noise to them.
    """

    trials: int = 2
    seed: int = 0
    data: Path | None = None
    learners: int = 5
    features: int = 10
    held_out: int = 50
    images: Array | None = field(default=None, repr=False)

    name: ClassVar[str] = "features-faces"
    label: ClassVar[str] = "figure 9c"
    caption: ClassVar[str] = (
        "Latent features of faces, five agents. Above: log-likelihood of 10 % of the pixels of a test image given the "
        "others; 3K: three times as many slots. Below: the learned features of the first trial, each at its own "
        "contrast, mid grey being zero."
    )

    def settings(self) -> Mapping[str, Any]:
        images = "faces" if self.images is None else f"{len(self.images)} images of {np.sum(self.images):.6g}"
        return {**settings_of(self, "data", "images"), "images": images}

    def tasks(self) -> Sequence[Task]:
        return [
            task
            for trial in range(self.trials)
            for task in feature_tasks(
                trial, self.learners, partial(self._trial, trial), nothing_more if trial else pictured, WIDE_MERGES
            )
        ]

    def draw(self, table: Table) -> "Figure":
        figure = canvas(FULL, 4.3)
        above, under = figure.subplots(2, 1, height_ratios=(1.0, 1.75))
        draw_boxes(above, series(table, LIKELIHOOD, self.learners), digits=3)
        above.set_xlabel("log-likelihood per pixel")
        learned = {label: recalled_features(table, method, self.features) for method, label in SHOWN.items()}
        side = isqrt(learned["batch"].shape[1])
        images(learned, (side, side), axes=under)
        return figure

    def claims(self, table: Table) -> list[Claim]:
        median = medians(table, LIKELIHOOD)
        amps = Compared("AMPS's median log-likelihood", median["AMPS"])
        wide, alone = Compared("AMPS into 3K slots", median[WIDE_AMPS]), Compared("its agents'", median["agent"])
        return [
            no_worse(amps, Compared("the naive merge's", median["naive"]), digits=3),
            beats(wide, amps),
            beats(wide, alone),
        ]

    def _trial(self, trial: int) -> Trial:
        images = faces(self.data) if self.images is None else self.images
        rng = np.random.default_rng([self.seed, trial])
        order = rng.permutation(len(images))
        test, training = images[order[: self.held_out]], images[order[self.held_out :]]
        observed, held = hold_out(test, share=0.1, rng=rng)
        model = self._model(training)

        def measures(posterior: Posterior) -> dict[str, float]:
            wide = replace(model, features=len(posterior.structure.prior["features"]))
            return {LIKELIHOOD: wide.score(posterior, observed, held)}

        return Trial(model, training, (self.seed, trial), measures)

    def _model(self, training: Array) -> LatentFeatures:
        variance = unexplained(training, self.features)
        prior = estimated_prior_variance(training, self.features, variance)
        return LatentFeatures(self.features, training.shape[1], variance=variance, prior_variance=prior)


def unexplained(points: Array, directions: int) -> float:
    """The mean square that is left when the best so many directions are taken out."""
    strengths = np.linalg.svd(points, compute_uv=False)
    return float(np.sum(strengths[directions:] ** 2) / points.size)


def pictured(learned: Sequence[Result]) -> list[Measurement]:
    """The features of each method shown, pixel by pixel, those of the first agent for all agents."""
    return [
        Measurement(each.method, f"pixel {feature}", round(float(value), 4), member=pixel)
        for each in learned
        if each.method in SHOWN and each.member == 0
        for feature, picture in enumerate(each.posterior.mean("features"))
        for pixel, value in enumerate(picture)
    ]


def recalled_features(table: Table, method: str, features: int) -> Array:
    """(features, pixels), as `pictured` wrote them, the brightest first."""
    rows = table.where(trial=0, method=method)
    pictures = np.array([rows.values(measure=f"pixel {feature}") for feature in range(features)])
    return np.asarray(pictures[np.argsort(-pictures.sum(axis=1))])
