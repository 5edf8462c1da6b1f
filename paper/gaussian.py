"""Figure 1: ten agents learn the mean of a Gaussian; merged and batch posterior are the same (section 2.1)."""

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from decbayes.families import Array
from decbayes.merging import merge
from decbayes.models.mixtures._mean import GaussianMean
from decbayes.plot.style import BATCH, GREY, canvas
from decbayes.posterior import Posterior
from paper.claims import Claim
from paper.experiment import TrialByTrial
from paper.style import FULL
from paper.table import Measurement, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Sums in another order: the two posteriors may differ in the last few of 16 digits.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Gaussian(TrialByTrial):
    """μ = 1 and σ² = 1, prior N(0, 2); 10 agents with 10 observations each."""

    learners: int = 10
    observations: int = 10

    name: ClassVar[str] = "gaussian"
    label: ClassVar[str] = "figure 1"
    caption: ClassVar[str] = (
        "Left: batch posterior of μ with a histogram of all observations. Right: decentralised posterior in black, "
        "the agents' own posteriors and histograms in colour."
    )

    def draw(self, table: Table) -> "Figure":
        figure = canvas(FULL, 2.4)
        left, right = figure.subplots(1, 2, sharex=True, sharey=True)
        first = table.where(trial=0)
        shards = [first.values(method="data", measure="observation", member=agent) for agent in range(self.learners)]
        draw_histogram(left, [np.concatenate(shards)], [GREY])
        draw_histogram(right, shards, agent_colours(self.learners))
        for agent, colour in enumerate(agent_colours(self.learners)):
            draw_posterior(right, first.where(method="agent", member=agent), colour, 0.9)
        draw_posterior(left, first.where(method="batch"), BATCH, 1.8)
        draw_posterior(right, first.where(method="merged"), "black", 1.8)
        label_panels(left, right)
        return figure

    def claims(self, table: Table) -> list[Claim]:
        gap = max(
            float(np.abs(table.values(method="merged", measure=m) - table.values(method="batch", measure=m)).max())
            for m in ("mean", "deviation")
        )
        sentence = f"The decentralised posterior is the batch posterior (largest difference {gap:.0e})"
        return [Claim(sentence, holds=gap <= ROUNDING)]

    def _trial(self, trial: int) -> list[Measurement]:
        rng = np.random.default_rng([self.seed, trial])
        model = GaussianMean(variance=1.0, prior_mean=0.0, prior_variance=2.0)
        shards = rng.normal(1.0, 1.0, size=(self.learners, self.observations))
        begun = perf_counter()
        batch = model.fit(shards.ravel()).posterior
        fitted = perf_counter()
        own = [model.fit(shard).posterior for shard in shards]
        merged = merge(own)
        ended = perf_counter()
        found = [*described("batch", batch, fitted - begun), *described("merged", merged, ended - fitted)]
        for agent, posterior in enumerate(own):
            found += described("agent", posterior, 0.0, agent)
        found += [Measurement("data", "observation", y, member=i) for i, shard in enumerate(shards) for y in shard]
        return found


def described(method: str, posterior: Posterior, seconds: float, member: int = 0) -> list[Measurement]:
    """A posterior of μ by its mean and standard deviation."""
    parameters = posterior.parameters("mean")
    deviation = float(np.sqrt(parameters["variance"].item()))
    return [
        Measurement(method, "mean", parameters["mean"].item(), seconds, member=member),
        Measurement(method, "deviation", deviation, seconds, member=member),
    ]


def agent_colours(agents: int) -> list[Any]:
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0.05, 0.9, agents)))


def draw_histogram(axes: "Axes", shards: list[Array], colours: list[Any]) -> None:
    axes.hist(shards, bins=list(np.linspace(-2, 4, 19)), density=True, stacked=True, color=colours, alpha=0.5)


def draw_posterior(axes: "Axes", table: Table, colour: Any, width: float) -> None:
    mean, deviation = table.median(measure="mean"), table.median(measure="deviation")
    grid = np.linspace(-2, 4, 601)
    density = np.exp(-0.5 * ((grid - mean) / deviation) ** 2) / (deviation * np.sqrt(2 * np.pi))
    axes.plot(grid, density, color=colour, linewidth=width)


def label_panels(left: "Axes", right: "Axes") -> None:
    left.set_title("batch: all observations in one place", loc="left")
    right.set_title("decentralised: ten agents, merged", loc="left")
    left.set_ylabel("density")
    for axes in (left, right):
        axes.set_xlabel("μ, observations")
    left.text(1.6, 3.2, "posterior of μ", color=BATCH)
    left.text(2.4, 0.45, "observations", color=GREY)
    right.text(1.6, 3.2, "merged", color="black")
    right.text(2.1, 1.0, "agents", color=agent_colours(10)[4])
