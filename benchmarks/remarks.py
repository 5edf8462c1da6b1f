"""How often each remark of a merge is right: sensitivity and specificity over random settings.

    python benchmarks/remarks.py --count 360

Mixtures, classes, topics and hidden Markov models in turn (`_settings.py`). Of three settings one is as drawn, in one a
further site holds the data of the first, fitted from another start, and in one the last site has other units (or
other codes). What is true is measured on held-out data of each site, or known from how the data were made:

- few slots: some larger number of slots scores more than 0.05 nat per observation better
- unlike shares: sites' own posteriors predict their own held-out data better than the merge by more than 0.05 nat
- alone (a site alone, a site that disagrees, or nothing shared): the last site has other units, or sites have seen no
  component in common
- counted twice: the data of one site are at two
- small sites (a note; settings as drawn): three rounds score more than 0.05 nat better than the one broadcast

    python benchmarks/remarks.py --clusters 40

Three clusters with shares of 50, 30 and 20 % at all sites: how often "unlike shares" is said if they overlap (five
sites of 60 rows), and which sites are named as alone if the first has other units (four to eight sites of 120 rows,
clusters eight standard deviations apart), also with outliers (2 % of the rows, twenty times as far) or skewed clusters.

    python benchmarks/remarks.py --faults 30

Three to six clusters in two to eight columns, at six to fourteen sites of 40 to 600 rows with different shares; the
first site, or the first quarter of them, has one fault. Which sites are named as alone or as disagreeing.

    python benchmarks/remarks.py --splits 200

Random parts of scikit-learn's tables at 3 to 15 sites: what plain and robust merges say of sites that are all the same.
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
SHARES = (0.5, 0.3, 0.2)
NAMING = {"nothing shared", "site alone", "site disagrees"}
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
        "alone": (bool(said & NAMING), scene == "units" or disconnected(setting.seen)),
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


def clusters(rng: np.random.Generator, size: int, apart: float, shape: str = "normal") -> np.ndarray:
    noise = rng.normal(size=(size, 2))
    if shape == "outliers":
        noise *= np.where(rng.random((size, 1)) < 0.02, 20.0, 1.0)
    noise = np.exp(noise) if shape == "skewed" else noise
    return apart * np.eye(3)[rng.choice(3, size=size, p=SHARES), 1:] + noise


def equal_sites(first: int, count: int) -> None:
    """How often sites that are the same are said to have unlike shares."""
    print("unlike shares said of equal sites, by covariance and distance in standard deviations")
    for covariance in ("full", "diagonal"):
        model = db.GaussianMixture(3, 2, covariance=covariance, ascent=db.Ascent(restarts=3))
        for apart in (2.0, 2.5, 3.0, 4.0):
            said = []
            for seed in range(first, first + count):
                rng = np.random.default_rng([4, seed])
                shards = [clusters(rng, 60, apart) for _ in range(5)]
                merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards])
                said.append(any(remark.kind == "unlike shares" and remark.is_warning for remark in merged.remarks))
            print(f"{covariance:10}{apart:4g} {rate(said)}", flush=True)


def sites_named(remarks, count: int) -> set[int]:
    """The sites that are said to be alone, or to share nothing with any other."""
    texts = [remark.what for remark in remarks if remark.kind in NAMING]
    groups = [group.strip(" .") for text in texts for group in text.split(":")[-1].split(";")]
    names = {site: f"site {site}" for site in range(count)}
    return {site for site, name in names.items() if name in groups or any(f"{name} (" in text for text in texts)}


def other_units(first: int, count: int) -> None:
    """Which sites are named as alone, with the first in other units, or all the same."""
    print("sites named: the first, only others, others if all are the same")
    for shape in ("normal", "outliers", "skewed"):
        named: dict[float, list[set[int]]] = {10.0: [], 1.0: []}
        for seed in range(first, first + count):
            for factor, sets in named.items():
                rng = np.random.default_rng([5, seed])
                shards = [clusters(rng, 120, 8.0, shape) for _ in range(int(rng.integers(4, 9)))]
                shards[0] = factor * shards[0]
                model = db.GaussianMixture(3, 2)
                merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards])
                sets.append(sites_named(merged.remarks, len(shards)))
        found, others, false = (
            [0 in sites for sites in named[10.0]],
            [bool(sites) and 0 not in sites for sites in named[10.0]],
            [bool(sites) for sites in named[1.0]],
        )
        print(f"{shape:10} {rate(found):>14} {rate(others):>14} {rate(false):>14}", flush=True)


FAULTS = {
    "none": lambda points, rng: points,
    "one column reversed": lambda points, rng: points * np.where(np.arange(points.shape[1]) == 0, -1.0, 1.0),
    "two columns swapped": lambda points, rng: points[:, [1, 0, *range(2, points.shape[1])]],
    "one column shifted": lambda points, rng: points + np.where(np.arange(points.shape[1]) == 0, 6.0, 0.0),
    "99 in a tenth of one column": lambda points, rng: np.where(
        (np.arange(points.shape[1]) == 0) & (rng.random((len(points), 1)) < 0.1), 99.0, points
    ),
    "values cut at ± 2": lambda points, rng: points.clip(-2.0, 2.0),
    "noise of three deviations": lambda points, rng: points + 3.0 * rng.normal(size=points.shape),
    "a tenth of the rows, ten times": lambda points, rng: np.repeat(points[: max(8, len(points) // 10)], 10, axis=0),
    "logarithms": lambda points, rng: np.sign(points) * np.log1p(np.abs(points)),
}


def faulty_sites(first: int, count: int) -> None:
    """Which sites a plain merge names if some have a fault."""
    print("fault: all faulty sites named, some of them, an honest site")
    for fault, changed in FAULTS.items():
        named = []
        for seed in range(first, first + count):
            rng = np.random.default_rng([6, seed])
            clusters, columns, sites = (int(rng.choice(of)) for of in ([3, 4, 5, 6], [2, 4, 8], [6, 9, 14]))
            centres = 4.0 * rng.normal(size=(clusters, columns))
            spreads = np.exp(0.3 * rng.normal(size=(clusters, columns)))
            faulty = set(range(0 if fault == "none" else int(rng.choice([1, sites // 4]))))
            model, posteriors = db.GaussianMixture(clusters, columns, covariance="diagonal"), []
            for site in range(sites):
                rows, shares = int(np.exp(rng.uniform(np.log(40), np.log(600)))), rng.dirichlet(np.full(clusters, 5.0))
                labels = rng.choice(clusters, size=rows, p=shares)
                points = centres[labels] + spreads[labels] * rng.normal(size=(rows, columns))
                posteriors.append(model.fit(changed(points, rng) if site in faulty else points, rng=rng).posterior)
            found = sites_named(db.merge(posteriors).remarks, sites)
            named.append((faulty <= found, bool(faulty & found), bool(found - faulty)))
        print(f"{fault:32}" + "".join(f"{rate(outcome):>14}" for outcome in zip(*named, strict=True)), flush=True)


def random_splits(first: int, count: int) -> None:
    """What merges say of random parts of real tables."""
    from sklearn import datasets

    tables = [load().data for load in (datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer)]
    tables.append(datasets.load_diabetes(scaled=False).data)
    said: dict[str, list[bool]] = {}
    for seed in range(first, first + count):
        rng = np.random.default_rng([7, seed])
        table = tables[seed % len(tables)]
        table = rng.permutation((table - table.mean(axis=0)) / table.std(axis=0))[:, rng.permutation(4)]
        sites, components = int(rng.integers(3, min(15, len(table) // 25) + 1)), rng.choice(["auto", "2", "3", "4"])
        covariance = str(rng.choice(["diagonal", "full", "spherical"]))
        number = "auto" if components == "auto" else int(components)
        model = db.GaussianMixture(number, 4, covariance=covariance)
        posteriors = [model.fit(part, rng=rng).posterior for part in np.array_split(table, sites)]
        plain, robust = db.merge(posteriors).remarks, db.merging.robust_merge(posteriors)
        found = {
            "unlike shares": any(remark.kind == "unlike shares" for remark in plain),
            "clearly disagrees": any("clearly disagree" in remark.what for remark in plain),
            "like data, other components": any("data like the others'" in remark.what for remark in plain),
            "robust: a site is accused": any(site.flagged and not site.alike for site in robust.sites),
            "robust: slots could be made up": any("made them up" in remark.what for remark in robust.remarks()),
        }
        for name, outcome in found.items():
            said.setdefault(name, []).append(outcome)
    for name, outcomes in said.items():
        print(f"{name:34} {rate(outcomes)}", flush=True)


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
    parser.add_argument("--clusters", type=int, default=0, metavar="SETS", help="only sets of three clusters")
    parser.add_argument("--faults", type=int, default=0, metavar="SETS", help="only sets with faulty sites")
    parser.add_argument("--splits", type=int, default=0, metavar="SETS", help="only random parts of real tables")
    parser.add_argument("--quick", action="store_true", help="twelve settings")
    options = parser.parse_args()
    options.count = 12 if options.quick else options.count
    warnings.simplefilter("ignore", db.errors.MergeWarning)
    if options.clusters:
        equal_sites(options.first, options.clusters)
        other_units(options.first, options.clusters)
    if options.faults:
        faulty_sites(options.first, options.faults)
    if options.splits:
        random_splits(options.first, options.splits)
    if options.clusters or options.faults or options.splits:
        return
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
