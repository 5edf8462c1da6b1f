"""Figure 2a: the true posterior of the mixture example, six regions for six orderings (section 2.2)."""

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from paper.claims import Claim, always, number
from paper.experiment import TrialByTrial
from paper.mixture_example import example, ordering_shares, recalled, recorded, true_posterior
from paper.simplex import simplex_grid
from paper.style import COLUMN
from paper.table import Measurement, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SHARE = "share of an ordering"


@dataclass(frozen=True)
class MixtureTrue(TrialByTrial):
    """A Gibbs chain with relabelling moves on 30 observations."""

    trials: int = 5
    draws: int = 2000

    name: ClassVar[str] = "mixture-true"
    label: ClassVar[str] = "figure 2a"
    caption: ClassVar[str] = (
        "Samples from the true posterior over (μ, π): position on the simplex is π, colour is μ. "
        "Six regions, one for each ordering of the three components."
    )

    def draw(self, table: Table) -> "Figure":
        return simplex_grid([[("true posterior", recalled(table, "truth"))]], width=COLUMN)

    def claims(self, table: Table) -> list[Claim]:
        shares = table.values(method="truth", measure=SHARE)
        least, most = (number(float(extreme(shares, default=np.nan))) for extreme in (min, max))
        sentence = (
            "The true posterior has six regions, one for each ordering of the means, with shares from "
            f"{least} to {most} (a sixth is 0.17)"
        )
        return [always(sentence, shares, lambda share: 0.5 / 6 < share < 2 / 6)]

    def _trial(self, trial: int) -> list[Measurement]:
        begun = perf_counter()
        draws = true_posterior(example(self.seed, trial), self.seed, trial, self.draws)
        seconds = perf_counter() - begun
        shares = enumerate(ordering_shares(draws))
        found = [Measurement("truth", SHARE, share, seconds, member=ordering) for ordering, share in shares]
        return found + (recorded("truth", draws) if trial == 0 else [])
