"""How often each remark of a merge is right: sensitivity and specificity over random settings.

    python benchmarks/remarks.py --count 360

Mixtures, classes, topics and hidden Markov models in turn (`_settings.py`). Of three settings one is as drawn, in one a
further site holds the data of the first, fitted from another start, and in one the last site has other units (or
other codes). What is true is measured on held-out data of each site, or known from how the data were made:

- few slots: some larger number of slots scores more than 0.05 nat per observation better
- unlike shares: sites' own posteriors predict their own held-out data better than the merge by more than 0.05 nat
- alone (a site alone, or nothing shared): the last site has other units, or sites have seen no component in common
- counted twice: the data of one site are at two
- small sites (a note; settings as drawn): three rounds score more than 0.05 nat better than the one broadcast
"""

import argparse
import json
import warnings
from itertools import combinations

import numpy as np
from _settings import KINDS, Setting, settings

import decbayes as db

CLEARLY = 0.05
SCENES = ("as drawn", "copy", "units")
STATEMENTS = ("few slots", "unlike shares", "alone", "counted twice", "small sites", "any warning")


def odd(kind: str, data, rng: np.random.Generator):
    """Data in other units or codes."""
    if kind == "topics":
        return data[:, rng.permutation(data.shape[1])]
    if kind == "classes":
        return 1.0 - data
    return [10.0 * each for each in data] if kind == "states" else 10.0 * data


def disconnected(seen) -> bool:
    """Whether the sites fall into groups that have seen nothing in common, or one has seen nothing with any other."""
    groups = [set(one) for one in seen]
    while merged := next(((a, b) for a, b in combinations(range(len(groups)), 2) if groups[a] & groups[b]), None):
        groups[merged[0]] |= groups.pop(merged[1])
    return len(groups) > 1


def judged(setting: Setting, scene: str, seed: int) -> dict[str, tuple[bool, bool]]:
    """For each statement, whether it was made and whether it is true."""
    rng, model, shards = np.random.default_rng([3, seed]), setting.model(), list(setting.shards)
    if scene == "units":
        shards[-1] = odd(setting.kind, shards[-1], rng)
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    if scene == "copy":
        posteriors.append(model.fit(shards[0][::-1], rng=rng).posterior)
    merged = db.merge(posteriors, duplicates="allow")
    said = {remark.kind for remark in merged.remarks if remark.is_warning}
    found = {
        "alone": (bool(said & {"nothing shared", "site alone"}), scene == "units" or disconnected(setting.seen)),
        "counted twice": ("counted twice" in said, scene == "copy"),
    }
    if scene == "units":
        return found
    scores, slots = setting.scores(merged), merged.structure.components(merged.structure.symmetry[0])
    if setting.kind != "topics":
        most = sum(posterior.structure.components(posterior.structure.symmetry[0]) for posterior in posteriors)
        more = sorted({min(more, most) for more in (slots + 1, slots + 2, slots + 4, 2 * slots)} - {slots})
        better = [setting.scores(db.align(posteriors, components=number).merged()).mean() for number in more]
        found["few slots"] = ("few slots" in said, max(better, default=-np.inf) > scores.mean() + CLEARLY)
    if setting.kind in ("mixture", "classes"):
        own = [setting.scores(posterior)[site] for site, posterior in enumerate(posteriors[: len(setting.shards)])]
        found["unlike shares"] = ("unlike shares" in said, bool(np.mean(own - scores) > CLEARLY))
    if scene == "as drawn":
        refined = setting.scores(db.refine(model, shards, posteriors, rounds=3, rng=rng).merged)
        small = any(remark.kind == "small sites" for remark in merged.remarks)
        found["small sites"] = (small, bool(refined.mean() > scores.mean() + CLEARLY))
    found["any warning"] = (
        bool(said),
        scene == "copy" or any(true for name, (_, true) in found.items() if name != "small sites"),
    )
    return found


def rate(values) -> str:
    if not len(values):
        return "–"
    # Agresti and Coull's standard error, which is not 0 where all are right.
    count = len(values) + 4
    share, near = float(np.mean(values)), (float(np.sum(values)) + 2) / count
    return f"{share:.2f} ± {np.sqrt(near * (1 - near) / count):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=360, help="settings")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--quick", action="store_true", help="twelve settings")
    options = parser.parse_args()
    options.count = 12 if options.quick else options.count
    warnings.simplefilter("ignore", db.errors.MergeWarning)
    results: dict[str, list[tuple[bool, bool]]] = {name: [] for name in STATEMENTS}
    topics_warned = []
    for seed, setting in settings(options.first, options.count):
        scene = SCENES[seed // len(KINDS) % len(SCENES)]
        for name, outcome in judged(setting, scene, seed).items():
            results[name].append(outcome)
            if name == "any warning" and setting.kind == "topics" and scene == "as drawn":
                topics_warned.append(outcome[0])
    print(f"{'remark':16}{'settings':>9}{'true in':>9}{'sensitivity':>15}{'specificity':>15}{'right if said':>15}")
    rows = {}
    for name, outcomes in results.items():
        said, true = np.array(outcomes).T
        texts = rate(said[true]), rate(~said[~true]), rate(true[said])
        print(f"{name:16}{len(said):9}{true.mean():9.2f}" + "".join(f"{text:>15}" for text in texts))
        rows[name] = [len(said), round(float(true.mean()), 3), *texts]
    print(f"topics as drawn with any warning: {rate(topics_warned)}")
    print(json.dumps({"benchmark": "remarks", "count": options.count, "first": options.first, "rows": rows}))


if __name__ == "__main__":
    main()
