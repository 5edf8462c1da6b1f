"""Figure 2b: ten agents' posteriors added as they are labelled, a poor approximation (section 2.2)."""

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

from decbayes.merging import product
from paper.claims import Claim, Compared, beats
from paper.experiment import TrialByTrial
from paper.mixture_example import (
    example,
    fit_agents,
    fit_batch,
    held_out_score,
    recalled,
    recorded,
    sample,
    stream,
)
from paper.simplex import simplex_grid
from paper.style import COLUMN
from paper.table import Measurement, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MixtureNaive(TrialByTrial):
    """The naive merge (equation 3 of the paper) of ten agents with three observations each, against batch."""

    draws: int = 2000

    name: ClassVar[str] = "mixture-naive"
    label: ClassVar[str] = "figure 2b"
    caption: ClassVar[str] = (
        "Samples from the naively merged posterior of ten agents: position π, colour μ. "
        "One blob where the true posterior has six regions."
    )

    def draw(self, table: Table) -> "Figure":
        return simplex_grid([[("naive merge of ten agents", recalled(table, "naive"))]], width=COLUMN)

    def claims(self, table: Table) -> list[Claim]:
        batch = table.median(method="batch", measure="held-out log density")
        naive = table.median(method="naive", measure="held-out log density")
        return [beats(Compared("Batch median", batch), Compared("the naive merge's", naive), by=0.5)]

    def _trial(self, trial: int) -> list[Measurement]:
        data = example(self.seed, trial)
        begun = perf_counter()
        batch = fit_batch(data, self.seed, trial)
        fitted = perf_counter()
        naive = product(fit_agents(data, self.seed, trial))
        ended = perf_counter()
        found = [
            Measurement("batch", "held-out log density", held_out_score(batch, data), fitted - begun),
            Measurement("naive", "held-out log density", held_out_score(naive, data), ended - fitted),
        ]
        if trial == 0:
            found += recorded("naive", sample(naive, self.draws, stream(self.seed, trial, 3)))
        return found
