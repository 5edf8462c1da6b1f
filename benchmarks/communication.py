"""Bytes and rounds against held-out score: one broadcast and its refinements, beside methods that talk all the time.

    python benchmarks/communication.py [--quick] [--seeds 3] [--agents 10 50] [--cache FOLDER] [--picture FILE]

Sites with the same data on the same simulated links, of which some lose three messages in ten (`_exchanges.py`):

- broadcast: decbayes; each agent publishes its posterior once, then again after each of three refits
- consensus: gossip averages of natural parameters (hyperparameter consensus, Fraser et al. 2012)
- consensus, common start: the same after local fits that all begin from one start
- EM: statistics of all sites are added up after each iteration (distributed EM, Wolfe et al. 2008)
- Gibbs: counts are exchanged after each sweep (asynchronous distributed sampling of topics, Asuncion et al. 2008)

Mixture: six clusters in four dimensions, diagonal covariances, 60 points per site; unlike sites have mostly one or two
of the clusters. Topics: ten topics of 1,500 words in 2,000 documents of 20 Newsgroups, dealt out at random, or by
newsgroup to unlike sites. A common start is what site 0 has found (mixtures), or would begin with (topics).

Scores are held-out log likelihoods per point or word, less that of one fit of all data, means over sites and medians
over seeds. Runs are kept in the cache, so that an interrupted benchmark goes on where it was. The pictures are
FILE-10.png and FILE-50.png. The last line is one JSON object.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import islice, product
from pathlib import Path
from statistics import median
from typing import Any

import joblib
import numpy as np
from _exchanges import Answers, Post, Task, broadcast, consensus, sampled, summed
from _exchanges_picture import picture
from _kept import kept
from _workloads import news

import decbayes as db
from decbayes.models.core.ascent import Ascent

LOSSES = (0.0, 0.3)
WORDS, DOCUMENTS, TOPICS = 1500, 2000, 10
POINTS, CLUSTERS, DIMENSION = 60, 6, 4
STEPS = (*range(7), 8, 10, 12, 16, 20, 25, 30, 40, 60, 80, 100, 125, 150, 175, 200)  # exchanges that are scored
NEAR = 0.01  # nats: how close to one fit of all data is close

Curve = list[tuple[float, ...]]
"""Rounds, bytes per agent and score, less that of one fit of all data, after each exchange."""

Score = Callable[[db.Posterior], float]

METHODS: dict[str, tuple[Callable[[Task, Post], Answers], int]] = {
    "broadcast": (lambda task, post: broadcast(task, post, refinements=3), 4),
    "consensus": (lambda task, post: consensus(task, post, common=False), 31),
    "consensus, common start": (lambda task, post: consensus(task, post, common=True), 31),
    "EM": (summed, 31),
    "Gibbs": (sampled, 201),
}


def mixture(agents: int, seed: int, *, unlike: bool) -> tuple[Task, Any, Score]:
    rng = np.random.default_rng([seed, agents])
    centres, scales = rng.normal(0, 3, size=(CLUSTERS, DIMENSION)), rng.uniform(0.5, 1.5, size=(CLUSTERS, DIMENSION))
    weights = rng.dirichlet(np.full(CLUSTERS, 5.0))

    def draw(count: int, shares: np.ndarray = weights) -> np.ndarray:
        labels = rng.choice(CLUSTERS, size=count, p=shares)
        return centres[labels] + scales[labels] * rng.normal(size=(count, DIMENSION))

    shares = [rng.dirichlet(0.5 * weights) if unlike else weights for _ in range(agents)]
    shards, held_out = [draw(POINTS, share) for share in shares], draw(5000)
    settings = {"components": CLUSTERS, "dimension": DIMENSION, "covariance": "diagonal"}
    model, pooled = db.GaussianMixture(**settings), np.concatenate(shards)
    start = model.fit(shards[0], rng=rng).posterior
    return Task(model, settings, shards, start, seed), pooled, lambda posterior: model.score(posterior, held_out)


def topics(agents: int, seed: int, *, by_group: bool) -> tuple[Task, Any, Score]:
    counts, vocabulary, labels, held_out = news()
    rng = np.random.default_rng([seed, agents])
    frequent = np.sort(np.argsort(-counts[~held_out].sum(axis=0), kind="stable")[:WORDS])
    rows = rng.permutation(np.flatnonzero(~held_out))[:DOCUMENTS]
    rows = rows[np.argsort(labels[rows], kind="stable")] if by_group else rows
    counts = counts[:, frequent]
    settings = {"topics": TOPICS, "document_prior": 0.1, "topic_prior": 10 / WORDS}
    words = tuple(vocabulary[word] for word in frequent)
    model = db.LatentDirichletAllocation(vocabulary=words, **settings)
    first = db.LatentDirichletAllocation(vocabulary=words, **settings, ascent=Ascent(passes=0))
    test = counts[rng.permutation(np.flatnonzero(held_out))[:500]]
    observed, held = db.checking.hold_out(test, share=0.2, rng=np.random.default_rng(7))
    shards = [counts[each] for each in np.array_split(rows, agents)]
    # What site 0 would begin its own fit from. Its fitted topics are much worse to start from.
    start = first.fit(shards[0], rng=rng).posterior
    return (
        Task(model, settings, shards, start, seed),
        counts[rows],
        lambda posterior: model.score(posterior, observed, held),
    )


TASKS: dict[str, Callable[[int, int], tuple[Task, Any, Score]]] = {
    "mixture": lambda agents, seed: mixture(agents, seed, unlike=False),
    "mixture, unlike": lambda agents, seed: mixture(agents, seed, unlike=True),
    "topics": lambda agents, seed: topics(agents, seed, by_group=False),
    "topics, unlike": lambda agents, seed: topics(agents, seed, by_group=True),
}


def data_bytes(data: Any) -> int:
    """Bytes of the data itself: eight per number, or eight per word and document it occurs in."""
    return int(8 * (data.size if isinstance(data, np.ndarray) else data.nnz))


class Trial:
    """One task with one seed; what is in the cache is not run again."""

    def __init__(self, name: str, agents: int, seed: int, cache: Path) -> None:
        self.name, self.agents, self.seed, self.cache = name, agents, seed, cache

    @cached_property
    def made(self) -> tuple[Task, Any, Score]:
        return TASKS[self.name](self.agents, self.seed)

    @cached_property
    def best(self) -> float:
        """The score of one fit of all data, the best bound of three."""
        task, pooled, score = self.made
        fits = [task.model.fit(pooled, rng=task.rng(8, each)) for each in range(3)]
        return score(max(fits, key=lambda fit: fit.bound[-1]).posterior)

    def curves(self) -> dict[tuple[str, float], Curve]:
        """The curve of each method and loss, and of sites that are alone, or send all their data to all others."""
        methods = [method for method in METHODS if method != "Gibbs" or "mixture" not in self.name]
        return {("data", 0.0): self._kept("data", self._data)} | {
            (method, loss): self._kept(f"{method}-{loss}", partial(self._run, method, loss))
            for method, loss in product(methods, LOSSES)
        }

    def _run(self, method: str, loss: float) -> Curve:
        task, _, score = self.made
        post, (exchange, times) = Post(self.agents, loss, task.rng(10)), METHODS[method]
        return [
            (post.rounds, post.bytes / self.agents, mean_score(score, answers) - self.best)
            for step, answers in enumerate(islice(exchange(task, post), times))
            if step in STEPS
        ]

    def _data(self) -> Curve:
        task, pooled, score = self.made
        alone = [score(task.model.fit(task.shards[site], rng=task.rng(9)).posterior) for site in task.asked]
        return [
            (0, 0.0, float(np.mean(alone)) - self.best),
            (1, data_bytes(pooled) * (self.agents - 1) / self.agents, 0.0),
        ]

    def _kept(self, name: str, compute: Callable[[], Curve]) -> Curve:
        return kept(self.cache, f"{self.name}-{self.agents}-{self.seed}-{name}", compute)


def mean_score(score: Score, answers: Any) -> float:
    """The mean score of answers; the same answer is scored once."""
    scores = {each: score(posterior) for each, posterior in {id(one): one for one in answers}.items()}
    return float(np.mean([scores[id(each)] for each in answers]))


def medians(curves: Sequence[Curve]) -> Curve:
    """Medians over seeds, exchange by exchange."""
    return [tuple(median(column) for column in zip(*points, strict=True)) for points in zip(*curves, strict=True)]


def row(task: str, agents: int, method: str, loss: float, points: Curve) -> str:
    """The score after the first exchange, how soon it is near the best, and where it ends."""
    near = next((f"{rounds:.0f}, {sent / 1000:,.0f}" for rounds, sent, score in points if score >= -NEAR), "never")
    rounds, sent, score = points[-1]
    told = f"{task:17}{agents:6}  {method:24}{loss:5.0%}{points[0][2]:+9.3f}{near:>19}"
    return f"{told}{score:+9.3f}{f'{rounds:.0f}, {sent / 1000:,.0f}':>14}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the mixture, ten agents, one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--agents", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--cache", type=Path, default=Path("out/communication"), help="folder that keeps what was run")
    parser.add_argument("--jobs", type=int, default=1, help="tasks at a time")
    parser.add_argument("--picture", help="draw the curves of each number of agents into FILE-10.png, FILE-50.png")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.agents, options.tasks = 1, [10], ["mixture"]
    kinds = list(product(options.agents, options.tasks))
    trials = [Trial(task, agents, seed, options.cache) for agents, task in kinds for seed in range(options.seeds)]
    done = joblib.Parallel(options.jobs)(joblib.delayed(Trial.curves)(trial) for trial in trials)
    heads = f"{'task':17}{'agents':>6}  {'method':24}{'lost':>5}{'first':>9}{'near: rounds, kB':>19}"
    print(f"{heads}{'last':>9}{'rounds, kB':>14}")
    results = []
    for number, (agents, task) in enumerate(kinds):
        seeds = done[number * options.seeds : (number + 1) * options.seeds]
        for method, loss in seeds[0]:
            points = medians([each[method, loss] for each in seeds])
            results.append({"task": task, "agents": agents, "method": method, "lost": loss, "points": points})
            print(row(task, agents, method, loss, points))
    for agents in options.agents if options.picture else ():
        own = [each for each in results if each["agents"] == agents]
        picture(own, agents, options.picture.replace(".png", f"-{agents}.png"))
    print(json.dumps({"benchmark": "communication", "seeds": options.seeds, "curves": results}))


if __name__ == "__main__":
    main()
