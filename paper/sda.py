"""Figure 8: AMPS against SDA-Bayes, one or ten agents with one or ten sub-batches each (section 3.2)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from decbayes.base.arguments import Seed
from decbayes.models.core.ascent import Fit
from decbayes.models.topics.lda import LatentDirichletAllocation
from decbayes.plot.style import AMPS, NAIVE, canvas
from decbayes.posterior import Posterior
from decbayes.streams import merge_batches, sda_bayes
from paper.amps import MATCHED
from paper.boxes import Series, draw_boxes, draw_times
from paper.claims import Claim, Compared, beats
from paper.corpora import SCORE, bench
from paper.datasets import Corpus
from paper.experiment import Task, settings_of
from paper.style import FULL
from paper.table import Measurement, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FreshStarts(LatentDirichletAllocation):
    """A model whose every fit begins as if it were the first, on top of whatever prior it is given."""

    def fit(self, data: Any, *, rng: Seed | None = None, prior: Posterior | None = None, **others: Any) -> Fit:
        return super().fit(data, rng=rng, prior=prior)


def sda_with_fresh_starts(model: LatentDirichletAllocation, shards: Any, *, rng: np.random.Generator) -> Posterior:
    settings = {field.name: getattr(model, field.name) for field in fields(model)}
    return sda_bayes(FreshStarts(**settings), shards, rng=rng)


METHODS: dict[str, Callable[..., Posterior]] = {
    "AMPS": partial(merge_batches, solver=MATCHED),
    "SDA-Bayes": sda_with_fresh_starts,
    "SDA-Bayes from prior": sda_bayes,
}


@dataclass(frozen=True)
class Sda:
    """Both methods on the same sub-batches, with the same priors.

    SDA-Bayes is run in two ways, and AMPS is compared with the better one: every sub-batch starts like any other fit,
    with the shared posterior as its prior; or it starts at that posterior. The time is that of all work in one process.
    """

    trials: int = 1
    seed: int = 0
    data: Path | None = None
    shapes: tuple[tuple[int, int], ...] = ((1, 10), (10, 1), (10, 10))
    topics: int = 20
    held_out: int = 1000
    corpus: Corpus | None = field(default=None, repr=False)

    name: ClassVar[str] = "sda"
    label: ClassVar[str] = "figure 8"
    caption: ClassVar[str] = (
        "AMPS against SDA-Bayes: A×B is A agents with B sub-batches each. Left: log-likelihood of test words; right: "
        "time of all the work in one process."
    )

    def settings(self) -> Mapping[str, Any]:
        kept = settings_of(self, "data", "corpus", "shapes")
        return {**kept, "corpus": self.corpus.digest if self.corpus else "20 Newsgroups"}

    def tasks(self) -> Sequence[Task]:
        return [
            Task(f"trial {trial}: {method} {shape_name(shape)}", trial, partial(self._run, trial, shape, method))
            for trial in range(self.trials)
            for shape in self.shapes
            for method in METHODS
        ]

    def draw(self, table: Table) -> "Figure":
        figure = canvas(FULL, 2.6)
        left, right = figure.subplots(1, 2, sharey=True)
        shown = [self._series(table, method, shape) for shape in self.shapes for method in METHODS]
        draw_boxes(left, shown)
        draw_times(right, shown)
        left.set_xlabel("log-likelihood per word")
        right.set_xlabel("seconds")
        return figure

    def claims(self, table: Table) -> list[Claim]:
        return [self._claim(table, shape_name(shape)) for shape in self.shapes]

    def _claim(self, table: Table, setting: str) -> Claim:
        amps, *others = (table.median(method=method, setting=setting, measure=SCORE) for method in METHODS)
        return beats(Compared(f"{setting}: AMPS median", amps), Compared("SDA-Bayes's better one", max(others)))

    def _series(self, table: Table, method: str, shape: tuple[int, int]) -> Series:
        rows = table.where(method=method, setting=shape_name(shape))
        colour = AMPS if method == "AMPS" else NAIVE
        return Series(f"{method} {shape_name(shape)}", rows.values(), rows.seconds(), colour)

    def _run(self, trial: int, shape: tuple[int, int], method: str) -> list[Measurement]:
        work = bench(self.corpus, self.data, topics=self.topics, held_out=self.held_out, seed=self.seed)
        agents, batches = shape
        pieces = work.shards(agents * batches, "random", np.random.default_rng([self.seed, trial, *shape]))
        shards = [pieces[first : first + batches] for first in range(0, len(pieces), batches)]
        begun = perf_counter()
        posterior = METHODS[method](work.model, shards, rng=np.random.default_rng([self.seed, trial, 3]))
        return [Measurement(method, SCORE, work.score(posterior), perf_counter() - begun, shape_name(shape))]


def shape_name(shape: tuple[int, int]) -> str:
    return f"{shape[0]}×{shape[1]}"
