"""The runs behind the page "When it fails": `python docs/failures.py [NAME …]` prints its figures."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
    """How much a merge of very small sites loses: by the paper's rule, by the default, and after refinement."""
    for points in (3, 10, 30):
        trials = [trial(seed, points=points) for seed in range(100)]
        shown = {
            "one-to-one": [db.merge(each.agents, solver=db.solvers.Matching()) for each in trials],
            "merged": [each.rounds[0] for each in trials],
            "one round more": [each.rounds[1] for each in trials],
            "ten rounds more": [each.rounds[-1] for each in trials],
        }
        for name, posteriors in shown.items():
            losses = np.array([each.gap(posterior) for each, posterior in zip(trials, posteriors, strict=True)])
            print(f"{points} points per site, {name}:", described(losses))


def described(losses: Array) -> str:
    return (
        f"median {np.median(losses):.3f}, mean {losses.mean():.3f}, largest {losses.max():.2f}, "
        f"{(losses > 0.2).sum()} of {len(losses)} seeds lose more than 0.2 nat"
    )


def numbers() -> None:
    """How often components="auto" is right, too small or too large: clusters that overlap more and more."""
    for distance in (6.0, 4.0, 3.0, 2.0):
        for sites, points in ((10, 20), (10, 100)):
            found = [found_clusters(seed, distance, sites, points) for seed in range(20)]
            counts = {number: found.count(number) for number in sorted(set(found))}
            print(f"5 clusters {distance:g} deviations apart, {sites} sites with {points} points: {counts}")


def found_clusters(seed: int, distance: float, sites: int, points: int) -> int:
    """Five clusters in a plane, on a circle; each site sees three of them and fits four."""
    rng = np.random.default_rng(seed)
    angles = 2.0 * np.pi * np.arange(5) / 5
    centres = distance / (2.0 * np.sin(np.pi / 5)) * np.column_stack([np.cos(angles), np.sin(angles)])
    model = db.GaussianMixture(components=4, dimension=2, variance=1.0, prior_variance=100.0, weight_prior=0.3)
    posteriors = []
    for _ in range(sites):
        seen = rng.choice(5, 3, replace=False)
        posteriors.append(
            model.fit(centres[rng.choice(seen, points)] + rng.normal(size=(points, 2)), rng=rng).posterior
        )
    merged = db.merge(posteriors, components="auto")
    return merged.structure.components(merged.structure.symmetry[0])


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
        draws = np.sort(db.checking.gibbs(model, points, rng=rng, draws=1000)["components"][:, :, 0], axis=1)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        hits["Gibbs"].extend((low < centres) & (centres < high))
    return {name: float(np.mean(hit)) for name, hit in hits.items()}


def covered(posterior: db.Posterior, centres: Array) -> Array:
    usual = posterior.parameters("components")
    order = np.argsort(usual["mean"][:, 0])
    deviation = np.sqrt(np.ravel(usual["variance"])[order])
    return np.abs(usual["mean"][order, 0] - centres) < 1.645 * deviation


def topic_gaps(seed: int, restarts: int) -> list[float]:
    """Three sites that know three of five themes each: gap to batch of naive, one-to-one, merged, refined."""
    ascent = db.Ascent(passes=100, tolerance=1e-3, warm_up=10, restarts=restarts)
    model = db.LatentDirichletAllocation(5, tuple(f"word {w}" for w in range(30)), 0.1, 0.1, ascent=ascent)
    rng = np.random.default_rng(seed)
    themes = np.kron(np.eye(5), rng.dirichlet(np.full(6, 2.0)))

    def documents(count: int, known: list[int]) -> csr_array:
        shares = rng.dirichlet(np.where(np.isin(np.arange(5), known), 0.3, 0.01), size=count)
        return csr_array(rng.multinomial(30, shares @ themes))

    sites = [documents(100, [0, 1, 2]), documents(100, [1, 2, 3]), documents(100, [2, 3, 4])]
    observed, held = db.checking.hold_out(documents(300, [0, 1, 2, 3, 4]), share=0.1, rng=rng)
    posteriors = [model.fit(site, rng=rng).posterior for site in sites]
    rounds = db.refine(model, sites, posteriors, rounds=ROUNDS, rng=rng).rounds
    # The yardstick is the same for both: the best of many starts.
    best = db.LatentDirichletAllocation(5, model.vocabulary, 0.1, 0.1, ascent=db.Ascent(100, 1e-3, 9, 10))
    batch = model.score(best.fit(vstack(sites), rng=rng).posterior, observed, held)
    shown = (db.merging.product(posteriors), db.merge(posteriors, solver=db.solvers.Matching()), rounds[0], rounds[-1])
    return [batch - db.model_for(each.structure).score(each, observed, held) for each in shown]


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
        print(f"{restarts} restarts: mean gap of naive, one-to-one, merged, refined", table.mean(axis=0).round(3))
        print("  of 20 seeds lose more than 0.05 nat:", (table > 0.05).sum(axis=0))


STUDIES = {
    "tails": tails,
    "numbers": numbers,
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
