"""Ways in which sites learn one posterior by sending each other numbers, all on the same links with the same losses.

Each is a generator that yields what a few sites would answer with (a posterior each), again after each exchange.
`Post` counts the rounds and the bytes. What agents of decbayes send is counted as it is on the wire, with signatures,
hashes and listings. The other methods have it easier: their messages are bare numbers without a header, eight bytes
each, or four for a count, dense or sparse, whichever is smaller; a site knows for nothing whether a message of its own
arrived; and a common start, if they need one, is given to all of them.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from scipy.sparse import csr_array

from decbayes.families import dense
from decbayes.models.core.ascent import Ascent
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.limits import Limits
from decbayes.network.simulation.schedule import simulated_identities
from decbayes.network.simulation.simulator import Simulation, Weather
from decbayes.network.simulation.topology import Edge, sparse
from decbayes.posterior import Posterior

PACE = 12  # rounds after which an agent goes on, whether all has arrived or not
DEGREE = 4
ASKED = 5
INDEX = 4  # bytes that say where a number of a sparse message belongs
Answers = Iterator[Sequence[Posterior]]


@dataclass
class Task:
    """A model and its settings, each site's data, a common start for methods that need one, and a seed."""

    model: Any
    settings: dict[str, Any]
    shards: list[Any]
    start: Posterior
    seed: int

    @property
    def sites(self) -> range:
        return range(len(self.shards))

    @property
    def asked(self) -> range:
        """The sites whose answers are scored."""
        return range(0, len(self.shards), max(1, len(self.shards) // ASKED))

    def rng(self, *numbers: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, len(self.shards), *numbers])

    def flat(self, posterior: Posterior) -> np.ndarray:
        """A contribution as one vector."""
        return np.concatenate([dense(posterior.contribution[name]).ravel() for name in sorted(posterior.contribution)])

    def posterior(self, vector: np.ndarray) -> Posterior:
        """The posterior whose contribution is that vector."""
        parts, structure, begin = {}, self.model.structure, 0
        for name in sorted(structure.prior):
            shape = structure.prior[name].shape
            rows = vector[begin : begin + shape[0] * shape[1]].reshape(shape)
            parts[name] = csr_array(rows) if name in structure.sparse else rows.copy()
            begin += rows.size
        return Posterior(structure, parts)


class Post:
    """Links between sites that lose messages, and what was sent over them."""

    def __init__(self, sites: int, loss: float, rng: np.random.Generator) -> None:
        self.loss, self.rng = loss, rng
        self.links: set[Edge] = sparse(sites, rng, degree=DEGREE)
        self.rounds, self.bytes = 0, 0

    def neighbours(self, site: int) -> list[int]:
        return sorted({a + b - site for a, b in self.links if site in (a, b)})

    def send(self, size: int) -> bool:
        """One message; whether it arrives."""
        self.bytes += size
        return not self.rng.random() < self.loss


def size(numbers: np.ndarray, width: int = 8) -> int:
    """Bytes of a message, dense or sparse."""
    return int(min(width * numbers.size, (width + INDEX) * np.count_nonzero(numbers)))


def broadcast(task: Task, post: Post, *, refinements: int) -> Answers:
    """decbayes: every agent publishes its posterior once, and again after each refit against everybody else's."""
    keys = simulated_identities(len(task.shards))
    charter = Charter(
        group="benchmark",
        id="benchmark",
        secret=bytes(32),
        model_name=type(task.model).__name__,
        settings=task.settings,
        members={f"site {number}": key.public for number, key in enumerate(keys)},
        limits=Limits(members=len(keys)),
        vocabulary=getattr(task.model, "vocabulary", ()),
    )
    rng = task.rng(2)
    simulation = Simulation(charter, keys, rng=rng, weather=Weather(loss=post.loss))
    simulation.links = post.links
    for site, shard in zip(simulation.sites, task.shards, strict=True):
        site.shards["own"] = shard
        simulation.start(site)
    agents = [site.agent for site in simulation.sites]
    for publication in range(refinements + 1):
        for site in simulation.sites if publication else ():
            simulation.perform(site, site.agent.refine(rng=rng))
        post.rounds += talk(simulation)
        post.bytes = simulation.traffic.bytes
        different = {agents[site].pool.root: agents[site] for site in task.asked}
        answers = {root: agent.posterior() for root, agent in different.items()}
        yield [answers[agents[site].pool.root] for site in task.asked]


def talk(simulation: Simulation) -> int:
    """Rounds until all agents hold the same, or until they no longer wait for it."""
    rounds, agents = 0, [site.agent for site in simulation.sites]
    while rounds < PACE and (not rounds or len({agent.pool.root for agent in agents}) > 1):
        simulation.round()
        rounds += 1
    return rounds


def consensus(task: Task, post: Post, *, common: bool) -> Answers:
    """Hyperparameter consensus: neighbours' natural parameters are averaged until all are the mean of all sites'.

    The weights are Metropolis's. Where a message is lost, a site's own value takes its place. With a `common` start the
    local fits begin from it, so that components have the same labels at first; else labels are each site's own.
    """
    start = task.start if common else None
    fits = [
        task.model.fit(shard, start=start, rng=task.rng(3, site)).posterior for site, shard in enumerate(task.shards)
    ]
    values = [task.flat(posterior) for posterior in fits]
    links = [post.neighbours(site) for site in task.sites]
    while True:
        yield [task.posterior(len(values) * values[site]) for site in task.asked]
        post.rounds += 1
        sent = list(values)
        for site, others in enumerate(links):
            for other in others:
                if post.send(size(sent[other])):
                    values[site] = values[site] + (sent[other] - sent[site]) / (1 + max(len(others), len(links[other])))


def summed(task: Task, post: Post) -> Answers:
    """Distributed EM: after each iteration the statistics of all sites are added up along a tree, and sent back.

    The tree is the cheapest of the ways to do it: two messages per site and iteration. A lost message is sent again in
    the next round, so that every iteration is one of the EM (here: of variational Bayes) of all data at once.
    """
    current = task.start
    parents = tree(post, len(task.shards))
    step = replace(task.model, ascent=Ascent(passes=1))
    while True:
        yield [current]
        own = [task.flat(step.fit(shard, start=current, rng=task.rng(4)).posterior) for shard in task.shards]
        current = task.posterior(added_up(own, parents, post))


def added_up(own: list[np.ndarray], parents: dict[int, int], post: Post) -> np.ndarray:
    """The sum of what all sites have, which all of them know in the end: from the leaves to site 0 and back."""
    sums, left = list(own), set(parents)
    while left:
        post.rounds += 1
        ready = sorted(left - {parents[site] for site in left})
        for site in (each for each in ready if post.send(size(sums[each]))):
            sums[parents[site]] = sums[parents[site]] + sums[site]
            left.discard(site)
    left = set(parents)
    while left:
        post.rounds += 1
        left -= {site for site in sorted(left) if parents[site] not in left and post.send(size(sums[0]))}
    return sums[0]


def tree(post: Post, sites: int) -> dict[int, int]:
    """The parent of each site but 0, on shortest ways to 0."""
    parents, reached = {}, [0]
    for site in reached:
        for other in post.neighbours(site):
            if other not in parents and other != 0:
                parents[other] = site
                reached.append(other)
    return parents


def sampled(task: Task, post: Post) -> Answers:
    """Asynchronous distributed Gibbs sampling of topics: a sweep at each site, then it exchanges counts with another
    one at random, linked or not. The newest counts that it has heard of each other site stand for that site's.

    Answers are the means of the last quarter of the sweeps, twenty at most.
    """
    topics = len(task.model.structure.prior["topics"])
    alpha, beta = float(task.model.document_prior), float(task.model.topic_prior)
    samplers = [Tokens.of(shard, topics, task.rng(5, site)) for site, shard in enumerate(task.shards)]
    nothing, rng = np.zeros_like(samplers[0].counts), task.rng(6)
    heard: list[dict[int, np.ndarray]] = [{} for _ in task.sites]
    known: list[deque[np.ndarray]] = [deque() for _ in task.sites]
    while True:
        others = [sum(each.values(), nothing) for each in heard]
        for site in task.sites:
            known[site].append(samplers[site].counts + others[site])
            while len(known[site]) > min(1 + post.rounds // 4, 20):
                known[site].popleft()
        yield [task.posterior(np.mean(known[site], axis=0).T.ravel()) for site in task.asked]
        for site in task.sites:
            samplers[site].sweep(others[site], alpha, beta, task.rng(7, site, post.rounds))
        post.rounds += 1
        for site in task.sites:
            other = int(rng.choice([each for each in task.sites if each != site]))
            for one, two in ((site, other), (other, site)):
                if post.send(size(samplers[one].counts, width=4)):
                    heard[two][one] = samplers[one].counts.copy()


@dataclass
class Tokens:
    """The words of a site's documents, one after another, their topics, and words × topics counts of them."""

    documents: np.ndarray
    words: np.ndarray
    topics: np.ndarray
    shares: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, counts: Any, topics: int, rng: np.random.Generator) -> "Tokens":
        entries = csr_array(counts).tocoo()
        documents = np.repeat(entries.row, entries.data).astype(np.int64)
        words = np.repeat(entries.col, entries.data).astype(np.int64)
        drawn = rng.integers(topics, size=len(words))
        shares, sums = np.zeros((counts.shape[0], topics)), np.zeros((counts.shape[1], topics))
        np.add.at(shares, (documents, drawn), 1.0)
        np.add.at(sums, (words, drawn), 1.0)
        return cls(documents, words, drawn, shares, sums)

    def sweep(self, others: np.ndarray, alpha: float, beta: float, rng: np.random.Generator) -> None:
        uniform = rng.random(len(self.words))
        resample(self.documents, self.words, self.topics, self.shares, self.counts, others, alpha, beta, uniform)


@njit(cache=True)
def resample(documents, words, topics, shares, counts, others, alpha, beta, uniform):
    """One collapsed sweep over all words of a site, in place, beside the counts of others."""
    number = counts.shape[1]
    totals = counts.sum(axis=0) + others.sum(axis=0) + beta * counts.shape[0]
    ladder = np.zeros(number)
    for n in range(len(words)):
        document, word, old = documents[n], words[n], topics[n]
        shares[document, old] -= 1
        counts[word, old] -= 1
        totals[old] -= 1
        total = 0.0
        for k in range(number):
            total += (shares[document, k] + alpha) * (counts[word, k] + others[word, k] + beta) / totals[k]
            ladder[k] = total
        new = 0
        while new < number - 1 and ladder[new] < uniform[n] * total:
            new += 1
        topics[n] = new
        shares[document, new] += 1
        counts[word, new] += 1
        totals[new] += 1
