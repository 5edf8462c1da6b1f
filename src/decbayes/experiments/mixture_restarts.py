"""fig:postmixapprox: five restarts each of Gibbs sampling and variational Bayes, each in one ordering (section 2.2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from decbayes.experiments.claims import Claim, always, number
from decbayes.experiments.experiment import Task, one_task_a_trial, settings_of
from decbayes.experiments.mixture_example import (
    Draws,
    example,
    fit_restart,
    gibbs_draws,
    ordering_shares,
    recalled,
    recorded,
    sample,
    stream,
)
from decbayes.experiments.simplex import simplex_grid
from decbayes.experiments.style import FULL
from decbayes.experiments.table import Measurement, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A sampler is stuck in an ordering when at least this share of its draws have it.
MOSTLY = 0.9


@dataclass(frozen=True)
class MixtureRestarts:
    """Gibbs without relabelling moves, and variational Bayes, on the 30 observations of one trial."""

    trials: int = 1
    seed: int = 0
    restarts: int = 5
    draws: int = 500

    name: ClassVar[str] = "mixture-restarts"
    label: ClassVar[str] = "fig:postmixapprox"
    caption: ClassVar[str] = (
        "Batch Gibbs sampling (top) and variational Bayes (bottom), five random restarts each: "
        "every restart finds one of the six orderings."
    )

    def settings(self) -> Mapping[str, Any]:
        return settings_of(self)

    def tasks(self) -> Sequence[Task]:
        return one_task_a_trial(self.trials, self._trial)

    def draw(self, table: Table) -> "Figure":
        rows = [
            [(f"{method} {restart + 1}", recalled(table, f"{method} {restart}")) for restart in range(self.restarts)]
            for method in ("Gibbs", "VB")
        ]
        return simplex_grid(rows, width=FULL, corners=False)

    def claims(self, table: Table) -> list[Claim]:
        return [
            claim
            for method in ("Gibbs", "VB")
            for claim in sticking(method, [recalled(table, f"{method} {i}") for i in range(self.restarts)])
        ]

    def _trial(self, trial: int) -> list[Measurement]:
        data = example(self.seed, trial)
        found: list[Measurement] = []
        for restart in range(self.restarts):
            begun = perf_counter()
            chain = gibbs_draws(data, stream(self.seed, trial, 4, restart), self.draws, relabel=False)
            sampled = perf_counter()
            fitted = fit_restart(data, self.seed, trial, restart)
            draws = sample(fitted, self.draws, stream(self.seed, trial, 5, restart))
            found += recorded(f"Gibbs {restart}", chain, sampled - begun)
            found += recorded(f"VB {restart}", draws, perf_counter() - sampled)
        return found


def sticking(method: str, restarts: list[Draws]) -> list[Claim]:
    """Each restart stays in one ordering, and not all restarts in the same."""
    shares = [float(ordering_shares(draws).max()) for draws in restarts]
    stuck = f"Each of {len(restarts)} {method} restarts is in one ordering (share of its draws at least {MOSTLY}; "
    kinds = len(set(main_orderings(restarts)))
    return [
        always(f"{stuck}lowest {number(min(shares))})", shares, lambda share: share >= MOSTLY),
        Claim(f"The {method} restarts find different orderings ({kinds} of 6 among {len(restarts)})", kinds > 1),
    ]


def main_orderings(restarts: Iterable[Draws]) -> list[tuple[int, ...]]:
    return [tuple(np.argsort(np.median(draws.means, axis=0)).tolist()) for draws in restarts]
