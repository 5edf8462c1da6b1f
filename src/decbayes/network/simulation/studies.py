"""What a simulated group estimates: its model, its data, and what must hold once all sites agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from decbayes.errors import CannotDraw
from decbayes.families import Array
from decbayes.models.core.evaluation import hold_out
from decbayes.models.core.model import Model
from decbayes.models.core.simulation import drawn_parameters
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import Identity
from decbayes.network.protocol.limits import Limits, Rules
from decbayes.network.simulation.guarantees import Violation
from decbayes.posterior import Posterior

POINTS = 4
NEW = 200
"""The number of observations on which posteriors are scored."""


class Study(Protocol):
    """One charter, and data for it."""

    title: str
    """What `text` shows of a posterior."""

    expected: str
    """What all sites hold in the end, as `check` verifies."""

    def charter(self, keys: Sequence[Identity]) -> Charter:
        """The charter of a group with these keys."""

    def shard(self, rng: np.random.Generator) -> Any:
        """One shard of data."""

    def check(self, posterior: Posterior, shards: Sequence[Any]) -> None:
        """Raise a Violation unless the posterior is that of these shards, each counted once."""

    def check_deviations(self, plain: Posterior, calibrated: Posterior) -> None:
        """Raise a Violation if calibration changed a deviation that it must leave alone."""

    def text(self, posterior: Posterior) -> str:
        """A posterior in a few characters, for a table of sites."""

    def compared(self, posterior: Posterior, shards: Sequence[Any], rng: np.random.Generator) -> dict[str, float]:
        """The scores of the merge and of one fit of all its data; empty if `check` says more."""


class OneMean:
    """One mean with a known variance: the merge must equal the posterior of all data."""

    title = "posterior mean"
    expected = "the posterior of all counted data at once, to 1e-9"

    def charter(self, keys: Sequence[Identity]) -> Charter:
        settings = {"variance": 0.5, "prior_mean": 1.0, "prior_variance": 10.0, "dimension": 1}
        return Charter(model_name="GaussianMean", settings=settings, rules=Rules(intervals=True), **group(keys))

    def shard(self, rng: np.random.Generator) -> Array:
        return rng.normal(size=POINTS)

    def check(self, posterior: Posterior, shards: Sequence[Any]) -> None:
        points = np.concatenate([np.ravel(shard) for shard in shards]) if shards else np.empty(0)
        structure = posterior.structure
        variance = structure.model["variance"]
        expected = structure.prior["mean"] + np.array([[points.sum() / variance, -0.5 * len(points) / variance]])
        if not np.allclose(posterior.natural["mean"], expected, rtol=0, atol=1e-9):
            raise Violation("the merged posterior is not that of all data at once")

    def check_deviations(self, plain: Posterior, calibrated: Posterior) -> None:
        """A conjugate model has no latent variables, so calibration changes no width."""
        if not np.allclose(calibrated.deviation("mean"), plain.deviation("mean"), rtol=1e-9):
            raise Violation("where nothing is hidden, calibration has changed a deviation")

    def text(self, posterior: Posterior) -> str:
        mean, variance = (float(np.ravel(posterior.parameters("mean")[name])[0]) for name in ("mean", "variance"))
        return f"{mean:.4f} ± {np.sqrt(variance):.4f}"

    def compared(self, posterior: Posterior, shards: Sequence[Any], rng: np.random.Generator) -> dict[str, float]:
        return {}


@dataclass(frozen=True)
class SimulatedCharter(Charter):
    """The charter of a simulated group: it holds its model and is never written to a file."""

    simulated: Model = field(kw_only=True)

    @cached_property
    def model(self) -> Model:
        return self.simulated


class OfModel:
    """Any model: true parameters are drawn once from `truth` or the prior, and all sites' data from them."""

    title = "score"
    expected = "a merge in which each shard counts once"

    def __init__(
        self,
        model: Model,
        *,
        observations: int,
        rng: np.random.Generator,
        truth: Posterior | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self._observations, self._options = model, observations, dict(options or {})
        self._parameters = drawn_parameters(truth or Posterior.of_prior(model.structure), rng)
        self._new, self._held = self._draw(NEW, rng), None
        if model.in_parts:
            self._new, self._held = hold_out(self._new, share=0.5, rng=rng)
        self._scores: dict[str, float] = {}

    def charter(self, keys: Sequence[Identity]) -> Charter:
        return SimulatedCharter(
            model_name=type(self.model).__name__, settings={}, simulated=self.model, rules=Rules(), **group(keys)
        )

    def shard(self, rng: np.random.Generator) -> Any:
        return self._draw(self._observations, rng)

    def check(self, posterior: Posterior, shards: Sequence[Any]) -> None:
        """Nothing: no law holds for the merges of all models."""

    def check_deviations(self, plain: Posterior, calibrated: Posterior) -> None:
        """Nothing: no law holds for the widths of all models."""

    def text(self, posterior: Posterior) -> str:
        return f"{self.score(posterior):.4f}"

    def compared(self, posterior: Posterior, shards: Sequence[Any], rng: np.random.Generator) -> dict[str, float]:
        at_once = self.model.fit(self.model.joined(shards), rng=rng).posterior if shards else posterior
        return {"score": self.score(posterior), "score_at_once": self.score(at_once)}

    def score(self, posterior: Posterior) -> float:
        """The mean log density of new data, computed once per posterior."""
        if posterior.digest not in self._scores:
            self._scores[posterior.digest] = self.model.score(posterior, self._new, self._held)
        return self._scores[posterior.digest]

    def _draw(self, size: int, rng: np.random.Generator) -> Any:
        try:
            return self.model.draw(self._parameters, size, rng, **self._options)[0]
        except NotImplementedError as error:
            raise CannotDraw(f"{type(self.model).__name__} cannot be simulated: {error}") from None


ONE_MEAN = OneMean()


def three_clusters(rng: np.random.Generator) -> Study:
    """Clusters in the plane, for a picture."""
    from decbayes.models.mixtures import GaussianMixture

    return OfModel(GaussianMixture(3, dimension=2, variance=0.5, prior_variance=25.0), observations=30, rng=rng)


def group(keys: Sequence[Identity]) -> dict[str, Any]:
    """The common part of all simulated charters."""
    return {
        "group": "simulation",
        "id": "simulation",
        "secret": bytes(32),
        "members": {f"site {number}": key.public for number, key in enumerate(keys)},
        # A low limit, so that members that publish often must wait.
        "limits": Limits(members=max(2, len(keys)), versions=2),
    }
