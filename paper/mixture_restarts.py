"""Figure 3: five restarts each of Gibbs sampling and variational Bayes, each in one ordering (section 2.2)."""

from dataclasses import dataclass
from itertools import permutations
from time import perf_counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from paper.claims import Claim
from paper.experiment import TrialByTrial
from paper.mixture_example import (
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
from paper.simplex import simplex_grid
from paper.style import FULL
from paper.table import Measurement, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARE, ORDERING = "share of its ordering", "ordering"

# A sampler is stuck in an ordering when at least this share of its draws have it.
MOSTLY = 0.9


@dataclass(frozen=True)
class MixtureRestarts(TrialByTrial):
    """Gibbs without relabelling moves, and variational Bayes, on the 30 observations of one trial."""

    trials: int = 5
    restarts: int = 5
    draws: int = 500

    name: ClassVar[str] = "mixture-restarts"
    label: ClassVar[str] = "figure 3"
    caption: ClassVar[str] = (
        "Batch Gibbs sampling (top) and variational Bayes (bottom), five random restarts each: "
        "every restart finds one of the six orderings."
    )

    def draw(self, table: Table) -> "Figure":
        rows = [
            [(f"{method} {restart + 1}", recalled(table, f"{method} {restart}")) for restart in range(self.restarts)]
            for method in ("Gibbs", "VB")
        ]
        return simplex_grid(rows, width=FULL, corners=False)

    def claims(self, table: Table) -> list[Claim]:
        return [claim for method in ("Gibbs", "VB") for claim in sticking(table, method)]

    def _trial(self, trial: int) -> list[Measurement]:
        data = example(self.seed, trial)
        found: list[Measurement] = []
        for restart in range(self.restarts):
            begun = perf_counter()
            chain = gibbs_draws(data, stream(self.seed, trial, 4, restart), self.draws, relabel=False)
            sampled = perf_counter()
            fitted = fit_restart(data, self.seed, trial, restart)
            draws = sample(fitted, self.draws, stream(self.seed, trial, 5, restart))
            ended = perf_counter()
            found += self._measured("Gibbs", chain, trial, restart, sampled - begun)
            found += self._measured("VB", draws, trial, restart, ended - sampled)
        return found

    def _measured(self, method: str, draws: Draws, trial: int, restart: int, seconds: float) -> list[Measurement]:
        """The ordering that most draws have, by number, and how many have it; the first trial's draws as well."""
        found = [
            Measurement(method, SHARE, float(ordering_shares(draws).max()), seconds, member=restart),
            Measurement(method, ORDERING, main_ordering(draws), seconds, member=restart),
        ]
        return found + (recorded(f"{method} {restart}", draws) if trial == 0 else [])


def sticking(table: Table, method: str) -> list[Claim]:
    """Restarts tend to stay in one ordering, and those of a trial do not all choose the same.

    Data without a single observation of some component leave its mean free, and a sampler then wanders.
    """
    shares = table.values(method=method, measure=SHARE)
    rows = table.where(method=method, measure=ORDERING)
    kinds = [len(np.unique(rows.values(trial=trial))) for trial in rows.distinct("trial")]
    stuck = int((shares >= MOSTLY).sum())
    differ = f"The {method} restarts of a trial find different orderings (at least {min(kinds, default=0)} of 6)"
    return [
        Claim(f"Most {method} restarts stay in one ordering ({stuck} of {len(shares)})", 2 * stuck > len(shares)),
        Claim(differ, min(kinds, default=0) > 1),
    ]


def main_ordering(draws: Draws) -> int:
    """The ordering of the medians of the three means, as a number."""
    order = tuple(np.argsort(np.median(draws.means, axis=0)).tolist())
    return list(permutations(range(3))).index(order)
