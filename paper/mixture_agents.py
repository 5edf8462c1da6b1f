"""Figure 5: what three of the ten agents know by themselves (section 3.1)."""

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

from decbayes.merging import merge
from decbayes.posterior import Posterior
from paper.amps import MATCHED
from paper.claims import Claim, Compared, below
from paper.experiment import TrialByTrial
from paper.mixture_example import AGENTS, example, fit_agents, recalled, recorded, sample, stream
from paper.simplex import simplex_grid
from paper.style import FULL
from paper.table import Measurement, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MixtureAgents(TrialByTrial):
    """Posteriors of three observations each, and how uncertain they are beside their merge."""

    shown: int = 3
    draws: int = 1500

    name: ClassVar[str] = "mixture-agents"
    label: ClassVar[str] = "figure 5"
    caption: ClassVar[str] = (
        "Samples from the posteriors of three of the ten agents: high uncertainty in the weights (position) "
        "and in the cluster means (colour)."
    )

    def draw(self, table: Table) -> "Figure":
        row = [(f"agent {i + 1}", recalled(table, f"agent {i}")) for i in range(self.shown)]
        return simplex_grid([row], width=FULL)

    def claims(self, table: Table) -> list[Claim]:
        return [
            below(
                Compared(f"Standard deviation of the {what} after AMPS", table.median(method="AMPS", measure=what)),
                Compared("the individual agents'", table.median(method="agent", measure=what)),
            )
            for what in ("weights", "means")
        ]

    def _trial(self, trial: int) -> list[Measurement]:
        begun = perf_counter()
        agents = fit_agents(example(self.seed, trial), self.seed, trial)
        fitted = perf_counter()
        found = uncertainty("AMPS", merge(agents, solver=MATCHED), 0, perf_counter() - begun)
        for agent, posterior in enumerate(agents):
            found += uncertainty("agent", posterior, agent, (fitted - begun) / AGENTS)
            if trial == 0 and agent < self.shown:
                draws = sample(posterior, self.draws, stream(self.seed, trial, 7, agent))
                found += recorded(f"agent {agent}", draws)
        return found


def uncertainty(method: str, posterior: Posterior, member: int, seconds: float) -> list[Measurement]:
    """Root mean square of the posterior standard deviations of the weights, and of the means."""
    alpha = posterior.parameters("weights")["alpha"].ravel()
    share = alpha / alpha.sum()
    weights = (share * (1 - share) / (alpha.sum() + 1)).mean() ** 0.5
    means = posterior.parameters("components")["variance"].mean() ** 0.5
    return [
        Measurement(method, "weights", float(weights), seconds, member=member),
        Measurement(method, "means", float(means), seconds, member=member),
    ]
