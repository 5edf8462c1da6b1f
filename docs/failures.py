"""The runs behind the page "When it fails": `python docs/failures.py`; the figures are printed as the page shows them."""

from dataclasses import dataclass

import numpy as np

import decbayes as db
from decbayes.families import Array

MEANS, WEIGHTS, VARIANCE = np.array([1.0, -1.0, 3.0]), np.array([0.6, 0.3, 0.1]), 0.09
MODEL = db.GaussianMixture(components=3, variance=VARIANCE, prior_variance=2.0)
ROUNDS = 5


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
        return float(MODEL.log_predictive(posterior, self.held_out).mean())

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


def main() -> None:
    for points in (3, 10, 30):
        table = gaps(100, points)
        for round_, losses in ((0, table[:, 0]), (1, table[:, 1]), (ROUNDS, table[:, -1])):
            print(
                f"{points:3} points an agent, {round_} rounds: median {np.median(losses):.3f}, mean {losses.mean():.3f}, "
                f"90 % quantile {np.quantile(losses, 0.9):.3f}, largest {losses.max():.3f}, "
                f"{(losses > 0.2).sum()} of 100 lose more than 0.2 nat"
            )
        if points == 3:
            print("worst seeds", np.argsort(-table[:, 0])[:8], np.sort(table[:, 0])[::-1][:8].round(2))


if __name__ == "__main__":
    main()
