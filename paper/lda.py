"""Figure 7: topics of 20 Newsgroups, learned in one place and by 5, 10 and 50 agents (section 3.2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from decbayes.merging import align, merge, product
from decbayes.plot.style import canvas
from decbayes.posterior import Posterior
from decbayes.updates import Update
from paper.amps import MATCHED
from paper.boxes import draw_boxes, draw_times
from paper.claims import Claim
from paper.corpora import SCORE, Bench, Split, bench, refining, weak_start
from paper.datasets import Corpus
from paper.experiment import Task, settings_of
from paper.lda_results import ROUNDS, WIDE_BATCH, checked, series
from paper.starts import BOUND
from paper.style import FULL
from paper.table import Measurement, Table
from paper.wider import WIDE_AMPS, WIDER, merged_wider

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Lda:
    """Batch, AMPS, naive merge and agents alone, on the same splits, priors and test words.

    Every fit has one start. Batch is fitted from as many starts as there are agents, each a task of its own: the first
    is the fair partner of the agents' single starts, the best by bound of all is a further row. Beyond the paper: AMPS
    into WIDER times as many slots as an agent has topics, beside a batch fit of as many topics.
    """

    trials: int = 1
    seed: int = 0
    data: Path | None = None
    agents: tuple[int, ...] = (5, 10, 50)
    split: Split = "random"
    topics: int = 20
    held_out: int = 1000
    corpus: Corpus | None = field(default=None, repr=False)

    label: ClassVar[str] = "figure 7"
    caption: ClassVar[str] = (
        "Log-likelihood of test words (above) and time (below; agents work at the same time, so theirs is that of the "
        "slowest, plus the merge). N is the number of agents. Boxes hold the middle half of all trials (and agents), "
        "whiskers the extremes. 3K: three times as many slots, or topics."
    )

    @property
    def name(self) -> str:
        return "lda" if self.split == "random" else f"lda-{self.split}"

    def settings(self) -> Mapping[str, Any]:
        kept = settings_of(self, "data", "agents", "corpus")
        return {**kept, "corpus": self.corpus.digest if self.corpus else "20 Newsgroups"}

    def tasks(self) -> Sequence[Task]:
        """All trials' agents first, then batch starts, those that fewer agents need before those that more do."""
        trials = range(self.trials)
        return [
            *(task for trial in trials for task in self._agents_tasks(trial)),
            *(self._batch_task(trial, start) for start in range(max(self.agents)) for trial in trials),
        ]

    def draw(self, table: Table) -> "Figure":
        columns = {agents: series(table, agents) for agents in self.agents}
        rows = max(map(len, columns.values()))
        figure = canvas(FULL, 0.34 * rows + 1.0)
        grid = figure.subplots(2, len(columns), sharey=True, squeeze=False, sharex="row")
        for (agents, shown), (above, under) in zip(columns.items(), grid.T, strict=True):
            draw_boxes(above, shown)
            draw_times(under, shown)
            above.set_title(f"{agents} agents", loc="left")
            above.set_xlabel("log-likelihood per word")
            under.set_xlabel("seconds")
        return figure

    def claims(self, table: Table) -> list[Claim]:
        return checked(table, self.agents, self.split)

    def _agents_tasks(self, trial: int) -> list[Task]:
        work: dict[str, Callable[[], list[Measurement]]] = {
            "batch, weak start": partial(self._weak_batch, trial),
            WIDE_BATCH: partial(self._wide_batch, trial),
        }
        work |= {f"{agents} agents": partial(self._decentralised, trial, agents) for agents in self.agents}
        return [Task(f"trial {trial}: {name}", trial, each) for name, each in work.items()]

    def _batch_task(self, trial: int, start: int) -> Task:
        return Task(f"trial {trial}: batch start {start}", trial, partial(self._batch, trial, start))

    def _bench(self) -> Bench:
        return bench(self.corpus, self.data, topics=self.topics, held_out=self.held_out, seed=self.seed)

    def _rng(self, trial: int, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, trial, *purpose])

    def _batch(self, trial: int, start: int) -> list[Measurement]:
        work = self._bench()
        begun = perf_counter()
        fit = work.model.fit(work.counts, rng=self._rng(trial, 0, start))
        seconds = perf_counter() - begun
        return [
            Measurement("batch", SCORE, work.score(fit.posterior), seconds, member=start),
            Measurement("batch", BOUND, fit.bound[-1], seconds, member=start),
        ]

    def _weak_batch(self, trial: int) -> list[Measurement]:
        work, rng = self._bench(), self._rng(trial, 1)
        begun = perf_counter()
        fit = work.model.fit(work.counts, rng=rng, start=weak_start(work.model, work.counts, rng))
        return [Measurement("batch, weak start", SCORE, work.score(fit.posterior), perf_counter() - begun)]

    def _wide_batch(self, trial: int) -> list[Measurement]:
        """What a merge into more slots must be compared with, too: a model of everything with as many topics."""
        work = self._bench()
        model = replace(work.model, topics=WIDER * self.topics)
        begun = perf_counter()
        posterior = model.fit(work.counts, rng=self._rng(trial, 3)).posterior
        return [Measurement(WIDE_BATCH, SCORE, work.score(posterior), perf_counter() - begun)]

    def _decentralised(self, trial: int, agents: int) -> list[Measurement]:
        work, rng = self._bench(), self._rng(trial, 2, agents)
        shards = work.shards(agents, self.split, rng)
        own, spent = timed_fits(work, shards, rng)
        setting = f"{agents} agents"
        found = [
            Measurement("agent", SCORE, work.score(posterior), seconds, setting, member)
            for member, (posterior, seconds) in enumerate(zip(own, spent, strict=True))
        ]
        found += merged_naively(work, own, max(spent), setting)
        found += wide_merge(work, own, max(spent), setting)
        found += merged_and_refined(work, shards, own, max(spent), setting, rng)
        return found + self._weak(work, shards, setting, rng)

    def _weak(self, work: Bench, shards: Sequence[Any], setting: str, rng: np.random.Generator) -> list[Measurement]:
        """AMPS of agents that all began with the weak start: the like of the weakly started batch."""
        own, spent = timed_fits(work, shards, rng, start=weak_start)
        begun = perf_counter()
        merged = merge(own, solver=MATCHED)
        seconds = max(spent) + perf_counter() - begun
        return [Measurement("AMPS, weak start", SCORE, work.score(merged), seconds, setting)]


def timed_fits(
    work: Bench, shards: Sequence[Any], rng: np.random.Generator, start: Callable[..., Posterior] | None = None
) -> tuple[list[Posterior], list[float]]:
    """Each agent's own posterior, and the seconds it took."""
    own, spent = [], []
    for shard in shards:
        begun = perf_counter()
        begin = None if start is None else start(work.model, shard, rng)
        own.append(work.model.fit(shard, rng=rng, start=begin).posterior)
        spent.append(perf_counter() - begun)
    return own, spent


def merged_naively(work: Bench, own: Sequence[Posterior], slowest: float, setting: str) -> list[Measurement]:
    begun = perf_counter()
    naive = product(own)
    return [Measurement("naive", SCORE, work.score(naive), slowest + perf_counter() - begun, setting)]


def wide_merge(work: Bench, own: Sequence[Posterior], slowest: float, setting: str) -> list[Measurement]:
    begun = perf_counter()
    merged = merged_wider(own)
    return [Measurement(WIDE_AMPS, SCORE, work.score(merged), slowest + perf_counter() - begun, setting)]


def merged_and_refined(
    work: Bench, shards: Sequence[Any], own: Sequence[Posterior], slowest: float, setting: str, rng: np.random.Generator
) -> list[Measurement]:
    """AMPS, and the merged posterior after further broadcasts; agents refit one after another."""
    begun = perf_counter()
    alignment = align(own, solver=MATCHED)
    merged = alignment.merged()
    spent = perf_counter() - begun
    found = [
        Measurement("AMPS", SCORE, work.score(merged), slowest + spent, setting),
        Measurement("AMPS", "alignment seconds", spent, spent, setting),
    ]
    current, update = list(alignment.relabelled()), Update(refining(work.model))
    for number in range(1, max(ROUNDS) + 1):
        begun = perf_counter()
        for site, shard in enumerate(shards):
            current[site] = update.relearn(shard, current[site], product(current), rng=rng)
        merged = product(current)
        spent += perf_counter() - begun
        if number in ROUNDS:
            found.append(Measurement(ROUNDS[number], SCORE, work.score(merged), slowest + spent, setting))
    return found
