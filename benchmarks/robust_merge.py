"""What a few faulty sites of twenty do to a merge, plain and robust: curves of deviation and held-out loss.

    python benchmarks/robust_merge.py [--seeds 5] [--quick] [--jobs 1] [--cache FOLDER] [--picture FILE]

Each site fits a Gaussian mixture or a topic model to its own data. Of f sites the posterior is not what it should be:

    inflated    its evidence is a million times what it saw, and displaced
    displaced   one of its clusters is four deviations away; half of one of its topics is on other words
    random      all its clusters or topics are something else
    copies      it sends what another member has sent
    colluding   all faulty sites agree on the same wrong cluster or topic, in the place of the largest that they have

Honest sites have everything alike ("like"), or mostly one or two of the clusters or topics ("unlike"). Printed per
attack, f and rule: how far the merged means are from those of all honest data at once, in units of that posterior's
deviation (the worst cluster or topic; the median over seeds and, in brackets, the worst seed), and how much held-out
log likelihood per point or word is lost against it. What was run is kept in the cache. The picture is one per kind of
data, FILE-mixture.png and FILE-topics.png. The last line is one JSON object.
"""

import argparse
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import joblib
import numpy as np
from _attacks import KINDS, attacked
from _kept import kept

import decbayes as db
from decbayes.posterior import Posterior
from decbayes.solvers import Matching

SITES = 20
FAULTY = (0, 1, 4, 9)
ATTACKS = ("inflated", "displaced", "random", "copies", "colluding")
LEAST_DRAWN = 0.05  # deviations: what is less is drawn there
RULES: dict[str, Callable[[list[Posterior]], Posterior]] = {
    "plain": db.merge,
    "one-to-one": lambda held: db.merge(held, solver=Matching()),
    "robust": lambda held: db.merge(held, robust=True),
}


Errors = dict[str, tuple[float, float]]
"""The deviation and the loss of each rule."""


def all_attacks(kind: str, faulty: int, unlike: bool, seed: int) -> dict[str, Errors]:
    """What each attack does to the same sites."""
    rng = np.random.default_rng([seed, faulty])
    data = KINDS[kind](rng)
    shards = [data.draw(rng, data.observations, unlike=unlike) for _ in range(SITES)]
    held_out = data.draw(rng, 2000 if kind == "mixture" else 400, unlike=False)[0]
    honest = data.pooled(shards[faulty:])
    batch = max((data.model.fit(honest, rng=rng) for _ in range(3)), key=lambda each: each.bound[-1]).posterior
    fits = [data.model.fit(shard, rng=rng).posterior for shard, _ in shards]
    best, found = data.scored(batch, held_out), {}
    for attack in ATTACKS if faulty else ("none",):
        posteriors = attacked(data, attack, shards, fits, faulty, rng)
        merged = {name: rule(posteriors) for name, rule in RULES.items()}
        found[attack] = {
            name: (data.deviation(each, batch), best - data.scored(each, held_out)) for name, each in merged.items()
        }
    return found


def kept_case(cache: Path, case: tuple[str, int, bool, int]) -> dict[str, Errors]:
    return kept(cache, "-".join(map(str, case)), lambda: all_attacks(*case))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="mixtures, one seed, f = 4 only")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--cache", type=Path, default=Path("out/robust"), help="folder that keeps what was run")
    parser.add_argument("--picture", help="draw the curves into FILE-mixture.png and FILE-topics.png")
    options = parser.parse_args()
    seeds, counts, kinds = (1, (4,), ["mixture"]) if options.quick else (options.seeds, FAULTY, options.kinds)
    cases = list(product(kinds, counts, (False, True)))
    jobs = (joblib.delayed(kept_case)(options.cache, (*case, seed)) for seed in range(seeds) for case in cases)
    runs = joblib.Parallel(options.jobs)(jobs)
    curves = []
    print(
        f"{'kind':9}{'sites':8}{'attack':12}{'f':>3}  "
        + "".join(f"{name + ': sd (worst), nats':>30}" for name in RULES)
    )
    for number, (kind, faulty, unlike) in enumerate(cases):
        same = runs[number :: len(cases)]
        for attack in same[0]:
            found = {name: np.array([run[attack][name] for run in same]) for name in RULES}
            row = {name: [*np.median(all_, axis=0).round(4), all_[:, 0].max().round(4)] for name, all_ in found.items()}
            sites = "unlike" if unlike else "like"
            told = "".join(f"{sd:14.2f} ({worst:6.2f}){nats:7.3f}" for sd, nats, worst in row.values())
            print(f"{kind:9}{sites:8}{attack:12}{faulty:3}  {told}")
            curves.append({"kind": kind, "sites": sites, "attack": attack, "faulty": faulty, **row})
    for kind in kinds if options.picture else ():
        picture([each for each in curves if each["kind"] == kind], options.picture.replace(".png", f"-{kind}.png"))
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
