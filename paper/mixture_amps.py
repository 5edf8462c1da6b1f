"""Figure 6: the ten agents merged by AMPS, and that merge symmetrised (section 3.1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

from decbayes.merging import merge, product, symmetrize
from decbayes.posterior import Posterior
from decbayes.solvers import Swaps
from paper.amps import MATCHED
from paper.claims import Claim, Compared, beats, below, no_worse
from paper.experiment import TrialByTrial
from paper.mixture_agents import uncertainty
from paper.mixture_example import (
    Example,
    energy_distance,
    example,
    fit_agents,
    fit_batch,
    held_out_score,
    recalled,
    recorded,
    sample,
    stream,
    true_posterior,
)
from paper.simplex import simplex_grid
from paper.style import FULL
from paper.table import Measurement, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORE = "held-out log density"


@dataclass(frozen=True)
class MixtureAmps(TrialByTrial):
    """AMPS (matching, and the paper's row swaps), naive merge, batch and the agents alone, on the same data."""

    draws: int = 1500

    name: ClassVar[str] = "mixture-amps"
    label: ClassVar[str] = "figure 6"
    caption: ClassVar[str] = (
        "Samples from the posterior that AMPS merged from ten agents (left), and the same symmetrised (right), "
        "which resembles the true posterior."
    )

    def draw(self, table: Table) -> "Figure":
        row = [("AMPS", recalled(table, "AMPS")), ("AMPS, symmetrised", recalled(table, "AMPS symmetrised"))]
        return simplex_grid([row], width=0.7 * FULL)

    def claims(self, table: Table) -> list[Claim]:
        score = {method: table.median(method=method, measure=SCORE) for method in table.distinct("method")}
        amps, swaps = Compared("AMPS median", score["AMPS"]), Compared("AMPS by swaps, median", score["AMPS by swaps"])
        naive, agents = (
            Compared("the naive merge's", score["naive"]),
            Compared("the individual agents'", score["agent"]),
        )
        distance = {method: table.median(method=method, measure="distance from truth") for method in ("AMPS", "naive")}
        wider = {method: table.median(method=method, measure="weights") for method in ("batch", "AMPS")}
        return [
            beats(amps, naive),
            beats(swaps, naive),
            beats(amps, agents),
            no_worse(amps, Compared("batch", score["batch"]), slack=0.1),
            below(
                Compared("Distance from the true posterior of AMPS, symmetrised,", distance["AMPS"]),
                Compared("that of the naive merge, symmetrised,", distance["naive"]),
            ),
            below(
                Compared("Deviation of the weights in the batch posterior", wider["batch"]),
                Compared("that in the AMPS posterior", wider["AMPS"]),
                digits=3,
            ),
        ]

    def _trial(self, trial: int) -> list[Measurement]:
        data = example(self.seed, trial)
        agents = fit_agents(data, self.seed, trial)
        found: list[Measurement] = []
        merges = {}
        for method, make in {
            "batch": partial(fit_batch, data, self.seed, trial),
            "naive": partial(product, agents),
            "AMPS": partial(merge, agents, solver=MATCHED),
            "AMPS by swaps": partial(merge, agents, solver=Swaps()),
        }.items():
            begun = perf_counter()
            merges[method] = make()
            seconds = perf_counter() - begun
            found.append(Measurement(method, SCORE, held_out_score(merges[method], data), seconds))
            found += uncertainty(method, merges[method], 0, seconds)
        found += [Measurement("agent", SCORE, held_out_score(q, data), member=i) for i, q in enumerate(agents)]
        if trial == 0:
            found += self._shown(data, merges)
        return found

    def _shown(self, data: Example, merges: Mapping[str, Posterior]) -> list[Measurement]:
        """The first trial's samples, and how far the symmetrised merges are from the true posterior."""
        rng = stream(self.seed, 0, 8)
        truth = true_posterior(data, self.seed, 0, self.draws)
        symmetric = {method: sample(symmetrize(merges[method]), self.draws, rng) for method in ("AMPS", "naive")}
        distances = [
            Measurement(method, "distance from truth", energy_distance(draws, truth, truth))
            for method, draws in symmetric.items()
        ]
        plain = sample(merges["AMPS"], self.draws, rng)
        return [*distances, *recorded("AMPS", plain), *recorded("AMPS symmetrised", symmetric["AMPS"])]
