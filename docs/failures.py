"""The runs behind the page "When it fails": `python docs/failures.py [NAME …]` prints its figures."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, vstack

import decbayes as db
from decbayes.families import Array

MEANS, WEIGHTS, VARIANCE = np.array([1.0, -1.0, 3.0]), np.array([0.6, 0.3, 0.1]), 0.09
MODEL = db.GaussianMixture(components=3, variance=VARIANCE, prior_variance=2.0)
ROUNDS = 10


def draw(count: int, rng: np.random.Generator) -> Array:
    return rng.normal(MEANS[rng.choice(3, size=count, p=WEIGHTS)], np.sqrt(VARIANCE))


@dataclass(frozen=True)
class Trial:
    """Ten agents with a few points each: what they and others know, all scored on the same new points."""

    shards: Array
    agents: list[db.Posterior]
    batch: db.Posterior
    rounds: tuple[db.Posterior, ...]
    held_out: Array

    def score(self, posterior: db.Posterior) -> float:
        return float(db.model_for(posterior.structure).log_predictive(posterior, self.held_out).mean())

    def gap(self, posterior: db.Posterior) -> float:
        """What is lost against all data in one place, in nats a point."""
        return self.score(self.batch) - self.score(posterior)


def trial(seed: int, *, points: int = 3, rounds: int = ROUNDS) -> Trial:
    rng = np.random.default_rng(seed)
    data, held_out = draw(10 * points, rng), draw(1000, rng)
    shards = data.reshape(10, points)
    agents = [MODEL.fit(shard, rng=rng).posterior for shard in shards]
    batch = MODEL.fit(data, rng=rng).posterior
    return Trial(shards, agents, batch, db.refine(MODEL, shards, agents, rounds=rounds, rng=rng).rounds, held_out)


def gaps(seeds: int, points: int) -> Array:
    """(seeds, rounds + 1): the gap to batch of the one-shot merge and after each round."""
    trials = (trial(seed, points=points) for seed in range(seeds))
    return np.array([[each.gap(posterior) for posterior in each.rounds] for each in trials])


def tails() -> None:
    """How much a merge of very small shards loses, and what refinement repairs."""
    for points in (3, 10, 30):
        table = gaps(100, points)
        for round_ in (0, 1, ROUNDS):
            print(f"{points} points an agent, {round_} rounds:", described(table[:, round_]))


def described(losses: Array) -> str:
    return (
        f"median {np.median(losses):.3f}, mean {losses.mean():.3f}, largest {losses.max():.2f}, "
        f"{(losses > 0.2).sum()} of {len(losses)} seeds lose more than 0.2 nat"
    )


def wider(posteriors: list[db.Posterior], slots: int) -> db.Posterior:
    """One-shot, with slots to spare for what only some agents have found."""
    return db.merge(db.pad(posterior, slots) for posterior in posteriors)


def spare() -> None:
    """What one-shot merges lose when they have slots to spare."""
    for points in (3, 10, 30):
        trials = [trial(seed, points=points, rounds=0) for seed in range(100)]
        for slots in (3, 4, 6):
            losses = np.array([each.gap(wider(each.agents, slots)) for each in trials])
            print(f"{points} points an agent, {slots} slots:", described(losses))


def prices() -> None:
    """What slots cost where all agents have found the same: it is the prior's share, and grows with α."""
    for alpha in (0.1, 1.0, 10.0):
        losses = np.array([mixture_prices(seed, alpha) for seed in range(20)])
        print(f"weight prior {alpha}: mean gap with 3, 4, 6, 12, 30 slots", losses.mean(axis=0).round(3))
    for alpha in (0.1, 0.3, 1.0):
        losses = np.array([topic_prices(seed, alpha) for seed in range(10)])
        print(f"document prior {alpha}: mean gap with 5, 6, 8, 15, 50 slots", losses.mean(axis=0).round(3))


def mixture_prices(seed: int, alpha: float) -> list[float]:
    """Ten agents with ten points of three clusters each."""
    rng, model = np.random.default_rng(seed), replace(MODEL, weight_prior=alpha)
    shards, held_out = draw(100, rng).reshape(10, 10), draw(1000, rng)
    agents = [model.fit(shard, rng=rng).posterior for shard in shards]
    batch = model.fit(shards.ravel(), rng=rng).posterior
    scores = [
        db.model_for(each.structure).log_predictive(each, held_out).mean()
        for each in (batch, *(wider(agents, slots) for slots in (3, 4, 6, 12, 30)))
    ]
    return [float(scores[0] - score) for score in scores[1:]]


def topic_prices(seed: int, alpha: float) -> list[float]:
    """Twenty sites with twenty documents each, of thirty words, of five topics that all sites know."""
    rng, model = np.random.default_rng(seed), db.LatentDirichletAllocation(5, tuple(map(str, range(60))), alpha, 0.05)
    themes = rng.dirichlet(np.full(60, 0.1), size=5)
    documents = csr_array(rng.multinomial(30, rng.dirichlet(np.full(5, 0.3), size=700) @ themes))
    training, (observed, held) = documents[:400], db.hold_out(documents[400:], rng=rng)
    sites = [model.fit(training[first : first + 20], rng=rng).posterior for first in range(0, 400, 20)]
    batch = model.fit(training, rng=rng).posterior
    scores = [
        db.model_for(each.structure).score(each, observed, held)
        for each in (batch, *(wider(sites, slots) for slots in (5, 6, 8, 15, 50)))
    ]
    return [float(scores[0] - score) for score in scores[1:]]


def coverage(distance: float, seeds: int = 100) -> dict[str, float]:
    """How often 90 % intervals of two clusters' means hold the truth: all data at once, five agents merged, Gibbs."""
    centres = np.array([-distance, distance])
    model = db.GaussianMixture(components=2, variance=0.25, prior_variance=4.0)
    hits: dict[str, list[bool]] = {"batch": [], "merged": [], "Gibbs": []}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        points = rng.normal(centres[rng.integers(2, size=200)], 0.5)
        merged = db.merge([model.fit(shard, rng=rng).posterior for shard in np.split(points, 5)])
        hits["batch"].extend(covered(model.fit(points, rng=rng).posterior, centres))
        hits["merged"].extend(covered(merged, centres))
        draws = np.sort(db.gibbs(model, points, rng=rng, draws=1000)["components"][:, :, 0], axis=1)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        hits["Gibbs"].extend((low < centres) & (centres < high))
    return {name: float(np.mean(hit)) for name, hit in hits.items()}


def covered(posterior: db.Posterior, centres: Array) -> Array:
    usual = posterior.parameters("components")
    order = np.argsort(usual["mean"][:, 0])
    deviation = np.sqrt(np.ravel(usual["variance"])[order])
    return np.abs(usual["mean"][order, 0] - centres) < 1.645 * deviation


def topic_gaps(seed: int, restarts: int) -> list[float]:
    """Three sites that know three of five themes each: gap to batch of merges naive, aligned, wider, and refined."""
    ascent = db.Ascent(passes=100, tolerance=1e-3, warm_up=10, restarts=restarts)
    model = db.LatentDirichletAllocation(5, tuple(f"word {w}" for w in range(30)), 0.1, 0.1, ascent=ascent)
    rng = np.random.default_rng(seed)
    themes = np.kron(np.eye(5), rng.dirichlet(np.full(6, 2.0)))

    def documents(count: int, known: list[int]) -> csr_array:
        shares = rng.dirichlet(np.where(np.isin(np.arange(5), known), 0.3, 0.01), size=count)
        return csr_array(rng.multinomial(30, shares @ themes))

    sites = [documents(100, [0, 1, 2]), documents(100, [1, 2, 3]), documents(100, [2, 3, 4])]
    observed, held = db.hold_out(documents(300, [0, 1, 2, 3, 4]), share=0.1, rng=rng)
    posteriors = [model.fit(site, rng=rng).posterior for site in sites]
    rounds = db.refine(model, sites, posteriors, rounds=ROUNDS, rng=rng).rounds
    # The yardstick is the same for both: the best of many starts.
    best = db.LatentDirichletAllocation(5, model.vocabulary, 0.1, 0.1, ascent=db.Ascent(100, 1e-3, 9, 10))
    batch = model.score(best.fit(vstack(sites), rng=rng).posterior, observed, held)
    shown = (db.product(posteriors), rounds[0], wider(posteriors, 7), rounds[-1])
    return [batch - db.model_for(each.structure).score(each, observed, held) for each in shown]


def splits() -> None:
    """Do the bad seeds come from sites that lack the rare cluster and split another one?"""
    losses = gaps(100, 10)[:, 0]
    for name, seeds in (("worst", np.argsort(-losses)[:10]), ("closest", np.argsort(np.abs(losses))[:10])):
        counts = [splitting_agents(trial(int(seed), points=10, rounds=0)) for seed in seeds]
        print(f"10 points an agent, ten {name} seeds: agents that split a cluster {counts}")


def splitting_agents(each: Trial) -> int:
    """Agents without a point of the rare cluster whose three components are all in use."""
    lacking = [agent for shard, agent in zip(each.shards, each.agents, strict=True) if (shard < 2.0).all()]
    return sum(bool((agent.contribution["weights"][:, 0] > 0.5).all()) for agent in lacking)


def stuck() -> None:
    """A seed at which refinement ends at a worse optimum of the batch bound than the batch fit."""
    each = trial(48, rounds=30)
    for name, posterior in (("refined", each.rounds[-1]), ("batch", each.batch)):
        bound = MODEL.fit(each.shards.ravel(), rng=np.random.default_rng(0), start=posterior).bound[-1]
        print(f"seed 48, {name}: bound {bound:.2f}, gap {each.gap(posterior):.2f}")


def coverages() -> None:
    for distance in (0.7, 1.5):
        print(f"clusters at ±{distance}: coverage of 90 % intervals", coverage(distance))


def topics() -> None:
    for restarts in (0, 4):
        table = np.array([topic_gaps(seed, restarts) for seed in range(20)])
        print(f"{restarts} restarts: mean gap of naive, merged, wider, refined", table.mean(axis=0).round(3))
        print("  of 20 seeds lose more than 0.05 nat:", (table > 0.05).sum(axis=0))


STUDIES = {
    "tails": tails,
    "spare": spare,
    "prices": prices,
    "splits": splits,
    "stuck": stuck,
    "coverages": coverages,
    "topics": topics,
}


def run_named(works: Mapping[str, Callable[[], None]], description: str) -> None:
    """Do what is named on the command line, everything if nothing is."""
    parser = argparse.ArgumentParser(description=f"{description}; all of them unless named.")
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(works))
    chosen = parser.parse_args().names or list(works)
    unknown = sorted(set(chosen) - works.keys())
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(works)}")
    for name in chosen:
        works[name]()


if __name__ == "__main__":
    run_named(STUDIES, "The long runs behind docs/when-it-fails.md")
