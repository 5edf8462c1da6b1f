"""Mixtures as points in space."""

from collections.abc import Sequence
from math import pi
from typing import ClassVar

import numpy as np

from decbayes.families import Array
from decbayes.posterior import Posterior
from decbayes.views.image_view import names_of, square
from decbayes.views.values import Part, Point, Shape
from decbayes.views.view import LEVEL, TOP, View

SMALLEST_IMAGE = 64  # from this many on, unnamed numbers that fill a square look like pixels


class MixtureView(View):
    name: ClassVar[str] = "mixture"

    @property
    def noun(self) -> str:
        return "cluster"

    def entry(self, label: str) -> tuple[str, str]:
        (part,) = self.model.emissions.parts
        place = part.labels.index(label) if part.labels else int(label)
        column, category = self.model.entries[place]
        return str(column), str(category)


class PointView(MixtureView):
    name: ClassVar[str] = "points"

    def parts(
        self, posterior: Posterior, *, shape: Shape | None = None, top: int = TOP, level: float = LEVEL
    ) -> Sequence[Part]:
        """The mean, covariance and weight of each component."""
        if shape is not None:
            return super().parts(posterior, shape=shape, top=top)
        means, covariances = component_shapes(posterior)
        names, rows = names_of(posterior, means.shape[1]), self.rows(posterior)
        parameters = zip(rows, means, covariances, strict=True)
        return [Point(names, mean, cov, row["weight"], facts=self.facts(row)) for row, mean, cov in parameters]

    def pixels(self, posterior: Posterior) -> int:
        return int(np.size(self.rows(posterior)[0]["mean"]))

    def shape(self, posterior: Posterior, *, guess: bool = False) -> Shape | None:
        """The square that many unnamed numbers fill, if guessing is allowed."""
        return square(self.pixels(posterior), SMALLEST_IMAGE) if guess and not self.model.columns else None


def component_shapes(posterior: Posterior) -> tuple[Array, Array]:
    """Means and covariance matrices of a mixture's components, at the expected parameters."""
    mean, known = posterior.mean("components"), posterior.structure.model.get("variance")
    identity = np.eye(mean.shape[1])
    if known is not None:
        return mean, np.broadcast_to(known * identity, (len(mean), *identity.shape))
    precision = posterior.mean("components", "precision")
    if precision.ndim == 3:
        return mean, np.asarray(np.linalg.inv(precision), dtype=np.float64)
    return mean, (1.0 / precision.reshape(len(mean), -1))[:, :, None] * identity


def ellipse(mean: Array, covariance: Array) -> Array:
    """Points two standard deviations from the mean."""
    angles = np.linspace(0.0, 2 * pi, 100)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    return np.asarray(mean + 2.0 * circle @ np.linalg.cholesky(covariance).T)
