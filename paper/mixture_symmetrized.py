"""Figure 4: five restarts of variational Bayes, symmetrised, are all alike (section 2.3)."""

from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

from decbayes.merging import symmetrize
from paper.claims import Claim, Compared, within
from paper.experiment import TrialByTrial
from paper.mixture_example import (
    Draws,
    energy_distance,
    example,
    fit_restart,
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


APART, FROM_TRUTH = "distance between restarts", "distance from truth"


@dataclass(frozen=True)
class MixtureSymmetrized(TrialByTrial):
    """The batch fits of `mixture-restarts`, symmetrised, beside samples of the true posterior."""

    trials: int = 5
    restarts: int = 5
    draws: int = 800

    name: ClassVar[str] = "mixture-symmetrized"
    label: ClassVar[str] = "figure 4"
    caption: ClassVar[str] = (
        "Samples from the symmetrised batch variational posterior, five random restarts: all alike, "
        "with the six regions of the true posterior."
    )

    def draw(self, table: Table) -> "Figure":
        row = [(f"VB {i + 1}, symmetrised", recalled(table, f"symmetrised {i}")) for i in range(self.restarts)]
        return simplex_grid([row], width=FULL, corners=False)

    def claims(self, table: Table) -> list[Claim]:
        apart, near = (
            {method: table.median(method=method, measure=measure) for method in ("VB", "symmetrised")}
            for measure in (APART, FROM_TRUTH)
        )
        return [
            within(
                Compared("Largest distance between symmetrised restarts", apart["symmetrised"]),
                Compared("that between the restarts as they are", apart["VB"]),
                times=0.1,
                digits=3,
            ),
            within(
                Compared("Largest distance of a symmetrised restart from the true posterior", near["symmetrised"]),
                Compared("that of a restart as it is", near["VB"]),
                times=0.2,
                digits=3,
            ),
        ]

    def _trial(self, trial: int) -> list[Measurement]:
        data = example(self.seed, trial)
        truth = true_posterior(data, self.seed, trial, self.draws)
        begun = perf_counter()
        fits = [fit_restart(data, self.seed, trial, restart) for restart in range(self.restarts)]
        seconds = perf_counter() - begun
        streams = [stream(self.seed, trial, 6, restart) for restart in range(self.restarts)]
        drawn = {
            "VB": [sample(fit, self.draws, rng) for fit, rng in zip(fits, streams, strict=True)],
            "symmetrised": [sample(symmetrize(fit), self.draws, rng) for fit, rng in zip(fits, streams, strict=True)],
        }
        found = [
            Measurement(method, measure, distance(restarts, truth), seconds)
            for method, restarts in drawn.items()
            for measure, distance in ((APART, furthest), (FROM_TRUTH, from_truth))
        ]
        shown = drawn["symmetrised"] if trial == 0 else []
        return found + [one for i, draws in enumerate(shown) for one in recorded(f"symmetrised {i}", draws)]


def furthest(restarts: list[Draws], unit: Draws) -> float:
    return max(energy_distance(first, second, unit) for first, second in combinations(restarts, 2))


def from_truth(restarts: list[Draws], truth: Draws) -> float:
    return max(energy_distance(draws, truth, truth) for draws in restarts)
