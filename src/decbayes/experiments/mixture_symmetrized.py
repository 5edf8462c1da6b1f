"""fig:symmetrizedpostmixvb: five restarts of variational Bayes, symmetrised, are all alike (section 2.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from decbayes.experiments.claims import Claim, Compared, within
from decbayes.experiments.experiment import Task, one_task_a_trial, settings_of
from decbayes.experiments.mixture_example import (
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
from decbayes.experiments.simplex import simplex_grid
from decbayes.experiments.style import FULL
from decbayes.experiments.table import Measurement, Table
from decbayes.merging import symmetrize

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MixtureSymmetrized:
    """The batch fits of `mixture-restarts`, symmetrised, beside samples of the true posterior."""

    trials: int = 1
    seed: int = 0
    restarts: int = 5
    draws: int = 800

    name: ClassVar[str] = "mixture-symmetrized"
    label: ClassVar[str] = "fig:symmetrizedpostmixvb"
    caption: ClassVar[str] = (
        "Samples from the symmetrised batch variational posterior, five random restarts: all alike, "
        "with the six regions of the true posterior."
    )

    def settings(self) -> Mapping[str, Any]:
        return settings_of(self)

    def tasks(self) -> Sequence[Task]:
        return one_task_a_trial(self.trials, self._trial)

    def draw(self, table: Table) -> "Figure":
        row = [(f"VB {i + 1}, symmetrised", draws) for i, draws in enumerate(self._draws(table, "symmetrised"))]
        return simplex_grid([row], width=FULL, corners=False)

    def claims(self, table: Table) -> list[Claim]:
        plain, symmetric = self._draws(table, "VB"), self._draws(table, "symmetrised")
        truth = recalled(table, "truth")
        apart = Compared("Largest distance between symmetrised restarts", furthest(symmetric, truth))
        before = Compared("that between the restarts as they are", furthest(plain, truth))
        near = Compared(
            "Largest distance of a symmetrised restart from the true posterior", from_truth(symmetric, truth)
        )
        far = Compared("that of a restart as it is", from_truth(plain, truth))
        return [within(apart, before, times=0.1, digits=3), within(near, far, times=0.2, digits=3)]

    def _draws(self, table: Table, kind: str) -> list[Draws]:
        return [recalled(table, f"{kind} {restart}") for restart in range(self.restarts)]

    def _trial(self, trial: int) -> list[Measurement]:
        data = example(self.seed, trial)
        begun = perf_counter()
        found = recorded("truth", true_posterior(data, self.seed, trial, self.draws), perf_counter() - begun)
        for restart in range(self.restarts):
            begun = perf_counter()
            fitted = fit_restart(data, self.seed, trial, restart)
            rng = stream(self.seed, trial, 6, restart)
            found += recorded(f"VB {restart}", sample(fitted, self.draws, rng), perf_counter() - begun)
            found += recorded(f"symmetrised {restart}", sample(symmetrize(fitted), self.draws, rng))
        return found


def furthest(restarts: list[Draws], unit: Draws) -> float:
    return max(energy_distance(first, second, unit) for first, second in combinations(restarts, 2))


def from_truth(restarts: list[Draws], truth: Draws) -> float:
    return max(energy_distance(draws, truth, truth) for draws in restarts)
