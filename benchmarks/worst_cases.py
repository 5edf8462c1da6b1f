"""Merges behind one-to-one matching, behind a site alone, and behind one fit: their distribution over random settings.

    python benchmarks/worst_cases.py --count 400
    python benchmarks/worst_cases.py --count 400 --first 100000     # settings that nobody has seen

Mixtures, classes, topics and hidden Markov models in turn (`_settings.py`). Differences are of held-out scores in nats
per observation (word, step), the merge less the other: one-to-one into as many slots (`Matching`, for states
`Hierarchical`); the same merge with one more slot, which is empty; the mean site alone, on the held-out data of all;
and one fit of all data with the true number of components. Of the latter there are two more comparisons, which say
where losses come from: with the true number at all sites, from their usual starts ("true number") and beginning at that
one fit ("best start"). What is still lost there is lost by a single broadcast. `--against` leaves comparisons out, most
of the time is that of "one fit" and after; with `--kept FOLDER` an interrupted run goes on.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from _kept import kept
from _settings import KINDS, Setting, settings

import decbayes as db

LOST = 0.2
AGAINST = ("one-to-one", "empty slot", "sites alone", "one fit", "true number", "best start")
QUANTILES = (0.0, 0.01, 0.05, 0.5, 0.95)


def compared(setting: Setting, seed: int, against: list[str]) -> dict[str, float]:
    rng, model = np.random.default_rng([4, seed]), setting.model()
    posteriors = [model.fit(shard, rng=rng).posterior for shard in setting.shards]
    merged = db.align(posteriors).merged()
    slots = merged.structure.components(merged.structure.symmetry[0])
    solver = "hierarchical" if setting.kind == "states" else "matching"
    others = {
        "one-to-one": [db.align(posteriors, components=slots, solver=solver).merged()],
        "empty slot": [db.merging.pad(merged, slots + 1)],
        "sites alone": posteriors,
    }
    score = setting.scores(merged).mean()
    found = {
        name: float(score - np.mean([setting.scores(each).mean() for each in those]))
        for name, those in others.items()
        if name in against
    }
    return found | compared_with_one_fit(setting, score, rng) if AGAINST[3] in against else found


def compared_with_one_fit(setting: Setting, score: float, rng: np.random.Generator) -> dict[str, float]:
    right = setting.sized(setting.true)
    whole = right.fit(setting.joined(setting.shards), rng=rng).posterior
    best = setting.scores(whole).mean()
    found = {"one fit": float(score - best)}
    for name, start in {"true number": {}, "best start": {"start": whole}}.items():
        fits = [right.fit(shard, rng=rng, **start).posterior for shard in setting.shards]
        found[name] = float(setting.scores(db.align(fits).merged()).mean() - best)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400, help="settings")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=KINDS)
    parser.add_argument("--worst", type=int, default=3, help="cases to print for each comparison")
    parser.add_argument("--against", nargs="+", default=[*AGAINST], choices=AGAINST[:4], help="what to compare with")
    parser.add_argument("--kept", type=Path, help="a folder for what was found, to go on after an interruption")
    parser.add_argument("--quick", action="store_true", help="twelve settings")
    options = parser.parse_args()
    options.count = 12 if options.quick else options.count
    warnings.simplefilter("ignore", db.errors.MergeWarning)

    def known(setting: Setting, seed: int) -> dict[str, float]:
        if options.kept is None:
            return compared(setting, seed, options.against)
        name = f"worst_cases-{seed}-{'-'.join(sorted({*options.against} & {*AGAINST[:4]}))}-{setting.kind}"
        return kept(options.kept, name.replace(" ", "_"), lambda: compared(setting, seed, options.against))

    found = [
        (setting.kind, seed, setting.name, known(setting, seed))
        for seed, setting in settings(options.first, options.count, tuple(options.kinds))
    ]
    against = [name for name in AGAINST if name in found[0][3]]
    head = "".join(f"{f'{100 * quantile:g} %':>9}" for quantile in QUANTILES)
    print(f"{'kind':9}{'against':13}{'settings':>9}{head}{f'lost > {LOST:g}':>12}")
    rows = []
    for kind in ["all", *options.kinds]:
        for other in against:
            values = np.array([difference[other] for its, _, _, difference in found if kind in (its, "all")])
            if not len(values):
                continue
            shares = np.quantile(values, QUANTILES)
            lost = float((values < -LOST).mean())
            texts = "".join(f"{value:9.3f}" for value in shares)
            print(f"{kind:9}{other:13}{len(values):9}{texts}{lost:12.2%}")
            rows.append([kind, other, len(values), *(round(float(value), 4) for value in shares), round(lost, 4)])
    for other in against:
        for _, seed, name, difference in sorted(found, key=lambda case: case[3][other])[: options.worst]:
            print(f"behind {other} by {-difference[other]:.2f}: seed {seed}, {name}")
    print(json.dumps({"benchmark": "worst_cases", "first": options.first, "rows": rows}))


if __name__ == "__main__":
    main()
