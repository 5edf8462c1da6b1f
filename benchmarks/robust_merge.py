"""What a few faulty sites of twenty do to a merge, plain and robust: curves of deviation and held-out loss.

Each site fits a Gaussian mixture to its own points. Of f sites the posterior is not what it should be:

    inflated    its evidence is a million times what it saw, and displaced
    displaced   one of its clusters is four deviations away
    random      all its clusters are somewhere else
    copies      it sends what another member has sent
    colluding   all faulty sites agree on the same wrong place for one cluster

Honest sites have all clusters alike ("like"), or mostly one or two of them ("unlike"). Printed per attack, f and rule:
how far the merged means are from those of all honest data at once, in units of that posterior's deviation (the worst
cluster, the median over seeds), and how much held-out log likelihood per point is lost against it. Run as
`python benchmarks/robust_merge.py [--seeds 5] [--quick] [--picture FILE] [--again FILE]`; the last line is one JSON
object, which `--again` takes to draw the picture without measuring again.
"""

import argparse
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

import decbayes as db
from decbayes.merging import Matching
from decbayes.posterior import Posterior

SITES, POINTS, CLUSTERS = 20, 150, 5
FAULTY = (0, 1, 4, 9)
LEAST_DRAWN = 0.05  # deviations: what is less is drawn there
MODEL = db.GaussianMixture(CLUSTERS, 2, variance=1.0, prior_variance=100.0)
RULES: dict[str, Callable[[list[Posterior]], Posterior]] = {
    "plain": db.merge,
    "one-to-one": lambda held: db.merge(held, solver=Matching()),
    "robust": lambda held: db.merge(held, robust=True),
}


def centres(rng: np.random.Generator) -> np.ndarray:
    """Places that are at least six deviations apart."""
    while True:
        places = rng.uniform(-12, 12, size=(CLUSTERS, 2))
        apart = np.linalg.norm(places[:, None] - places, axis=2) + 100 * np.eye(CLUSTERS)
        if apart.min() > 6:
            return places


def draw(places: np.ndarray, rng: np.random.Generator, count: int, *, unlike: bool) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.choice(CLUSTERS, size=count, p=rng.dirichlet(np.full(CLUSTERS, 0.3 if unlike else 50.0)))
    return places[labels] + rng.normal(size=(count, 2)), labels


def fit(points: np.ndarray, rng: np.random.Generator) -> Posterior:
    return MODEL.fit(points, rng=rng).posterior


def attacked(attack: str, shards: list, posteriors: list[Posterior], faulty: int, rng: np.random.Generator) -> list:
    """The posteriors with those of the first sites as the attack has them."""
    held = list(posteriors)
    for site in range(faulty):
        points, labels = shards[site][0].copy(), shards[site][1]
        largest = np.bincount(labels).argmax()
        if attack == "copies":
            held[site] = posteriors[-1]
        elif attack == "random":
            elsewhere = rng.uniform(-12, 12, size=(CLUSTERS, 2))
            held[site] = fit(elsewhere[labels] + rng.normal(size=points.shape), rng)
        elif attack == "colluding":
            points[labels == largest] = np.array([15.0, 15.0]) + rng.normal(size=((labels == largest).sum(), 2))
            held[site] = fit(points, rng)
        else:
            angle = rng.uniform(0, 2 * np.pi)
            points[labels == largest] += 4 * np.array([np.cos(angle), np.sin(angle)])
            held[site] = scaled(fit(points, rng), 1e6 if attack == "inflated" else 1.0)
    return held


def scaled(posterior: Posterior, factor: float) -> Posterior:
    return Posterior(posterior.structure, {name: factor * part for name, part in posterior.contribution.items()})


def deviation(merged: Posterior, batch: Posterior) -> float:
    """The farthest that a mean of the batch posterior is from the nearest merged one, in its own deviations."""
    natural, reference = merged.natural["components"], batch.natural["components"]
    means, right = (-0.5 * each[:, :2] / each[:, 2:] for each in (natural, reference))
    nearest = np.linalg.norm(right[:, None] - means, axis=2).min(axis=1)
    return float((nearest * np.sqrt(-2 * reference[:, 2])).max())


def one(attack: str, faulty: int, unlike: bool, seed: int) -> dict[str, tuple[float, float]]:
    rng = np.random.default_rng([seed, faulty])
    places = centres(rng)
    shards = [draw(places, rng, POINTS, unlike=unlike) for _ in range(SITES)]
    held_out = draw(places, rng, 2000, unlike=False)[0]
    pooled = np.concatenate([points for points, _ in shards[faulty:]])
    batch = max((MODEL.fit(pooled, rng=rng) for _ in range(5)), key=lambda each: each.bound[-1]).posterior
    posteriors = attacked(attack, shards, [fit(points, rng) for points, _ in shards], faulty, rng)
    best = MODEL.score(batch, held_out)
    merged = {name: rule(posteriors) for name, rule in RULES.items()}
    return {name: (deviation(each, batch), best - MODEL.score(each, held_out)) for name, each in merged.items()}


ATTACKS = ("inflated", "displaced", "random", "copies", "colluding")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one seed, f = 4 only")
    parser.add_argument("--picture", help="draw the curves into this file")
    parser.add_argument("--again", help="a file whose last line is that of an earlier run: only draw it")
    arguments = parser.parse_args()
    if arguments.again:
        told = Path(arguments.again).read_text(encoding="utf-8").splitlines()[-1]
        picture(json.loads(told)["curves"], arguments.picture)
        return
    seeds, counts = (1, (4,)) if arguments.quick else (arguments.seeds, FAULTY)
    curves = []
    print(f"{'sites':8}{'attack':12}{'f':>3}  " + "".join(f"{name + ': sd, nats':>26}" for name in RULES))
    for unlike, attack, faulty in product((False, True), ATTACKS, counts):
        if not faulty and attack != ATTACKS[0]:
            continue
        runs = [one(attack, faulty, unlike, seed) for seed in range(seeds)]
        row = {name: np.median([run[name] for run in runs], axis=0).round(4).tolist() for name in RULES}
        kind, label = "unlike" if unlike else "like", attack if faulty else "none"
        print(f"{kind:8}{label:12}{faulty:3}  " + "".join(f"{sd:18.2f}{nats:8.3f}" for sd, nats in row.values()))
        curves.append({"sites": kind, "attack": label, "faulty": faulty, **row})
    if arguments.picture:
        picture(curves, arguments.picture)
    print(json.dumps({"benchmark": "robust_merge", "sites": SITES, "seeds": seeds, "curves": curves}))


def picture(curves: list[dict], path: str) -> None:
    """Deviation against the number of faulty sites, one panel per attack and kind of sites."""
    from decbayes.plot.style import AMPS, GREY, NAIVE, canvas, styled
    from decbayes.plot.style import SITES as OCHRE

    looks = {"plain": (NAIVE, "o"), "one-to-one": (OCHRE, "s"), "robust": (AMPS, "^")}
    with styled():
        figure = canvas(7.2, 3.5)
        panels = figure.subplots(2, len(ATTACKS), sharex=True, sharey=True)
        for (kind, attack), panel in zip(product(("like", "unlike"), ATTACKS), panels.ravel(), strict=True):
            points = [each for each in curves if each["sites"] == kind and each["attack"] in (attack, "none")]
            for rule, (colour, mark) in looks.items():
                deviations = [max(each[rule][0], LEAST_DRAWN) for each in points]
                panel.plot(
                    [each["faulty"] for each in points], deviations, color=colour, marker=mark, ms=3.5, label=rule
                )
            panel.axhline(1.0, color=GREY, linewidth=0.6, linestyle=":")
            panel.set(yscale="log", xticks=FAULTY)
        for attack, panel in zip(ATTACKS, panels[0], strict=True):
            panel.set_title(attack)
        for kind, panel in zip(("like sites", "unlike sites"), panels[:, 0], strict=True):
            panel.set_ylabel(f"{kind}\n(deviations)")
        figure.supxlabel(f"faulty sites of {SITES}", fontsize=8)
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
        figure.savefig(path)


if __name__ == "__main__":
    main()
