"""What faulty sites do to a merge, plain and robust; whom a robust merge names; its price; and its time.

    python benchmarks/robust.py [--seeds 3] [--first 0] [--quick] [--kinds …] [--faulty 0 1 3] [--varied] [--markdown]
                                [--keep FILE] [--twins] [--misfit]

Ten sites, f of them faulty. Each fits a Gaussian mixture (known, diagonal or full variances; "small": 40 points of
three clusters that may overlap), a hidden Markov model, latent classes, a table of mixed columns, topics or a
regression (linear, logistic, counts) to its own data. With --varied there are 6 to 20 sites of unequal sizes, f = 3
stands for 30 % of them, and numbers of components and dimensions are random, too. What a faulty site sends:

    units10, units100   its data in units ten or a hundred times smaller; of a table or regression, one column
    random              all its components are something else
    inflated            one component is displaced, and the evidence is five times what was seen
    copies              a lie, and copies of it that are a little larger
    displaced           one component is displaced
    colluding           all faulty sites put the same wrong component in the place of their largest
    noise, shuffled     of classes and tables: rows that mean nothing, or each column in an order of its own

Honest sites have all components ("like") or 60 % of them ("unlike"); at least two honest sites have each of them, since
what one site alone has seen cannot be told from an invention. Printed: how far the worst component of the merge of the
honest sites is from the nearest one, in posterior deviations (median over seeds, worst in brackets; with as many slots
as the largest site has components, or as usual, whichever is nearer); held-out nats per observation or word lost
against the merge of honest sites (mean, worst in brackets); the share of runs within both bars (1 deviation and 0.02
nats; without faulty sites 0.005, with a large one 0.03); the shares of faulty and of honest sites that are flagged; of
the faulty ones that are flagged or named as the few behind a slot ("told"); and the time in units of a plain merge.
Without faulty sites the loss is the price of a robust merge. "large" is one site with as much data as all others; the
part of it that counts is printed, too. "texts" are 20 topics of 20 Newsgroups at sites of 3,000 to 100 posts, at ten
sites with eight newsgroups each ("unlike"), and "short" the first 12 words of each post at such sites; a faulty site
has mixed up its vocabulary. Then follow all runs together against the bars, with --markdown the table of the
documentation, and JSON as the last line. With --keep, runs are kept in a file as they end, and those that are there are
not made again. With --twins two truths are compared under which sites send the same posteriors (see `twins`). With
--misfit sites have data that a mixture does not describe (see `misfit`); with --misfit --kinds regression, noise that a
linear regression does not.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _attacked_news import News
from _attacks import KINDS, deviation, scaled
from _misfit import misfit, misfit_of_regressions

import decbayes as db
from decbayes.posterior import Posterior

SITES, MOST = 10, 3
KNOWN = 0.05
LARGE = 9
TEXTS = ("texts", "short")
# What a robust merge is held to: nats lost per observation, and deviations of the worst component.
NATS = {"none": 0.005, "large": 0.03}
HARM, MOVED, FALSE, TIMES = 0.02, 1.0, 0.02, 5.0
NAMES = {
    "known": "clusters, known variance",
    "diagonal": "clusters, unknown variances",
    "full": "clusters, unknown covariances",
    "small": "small sites",
    "states": "hidden Markov",
    "tables": "mixed tables",
    "regression": "linear regression",
    "logistic": "logistic regression",
    "counts": "Poisson regression",
}
Row = dict[str, Any]


@dataclass
class World:
    """Sites' fits of what they have seen, and what they would send as faulty ones, by attack."""

    data: Any
    held_out: Any
    fits: list[Posterior]
    lies: dict[str, list[Posterior]]
    large: list[Posterior]

    def attacked(self, attack: str, faulty: int) -> list[Posterior]:
        """The posteriors, with those of the first sites as the attack has them."""
        if attack == "copies":
            # Of one lie, hidden by other amounts of evidence.
            lie = self.lies["colluding"][0]
            return [*(scaled(lie, 1.0 + 0.01 * site) for site in range(faulty)), *self.fits[faulty:]]
        if attack == "inflated":
            return [*(scaled(lie, 5.0) for lie in self.lies["displaced"][:faulty]), *self.fits[faulty:]]
        return [*self.lies[attack][:faulty], *self.fits[faulty:]]

    def runs(self, counts: list[int]) -> Iterator[tuple[int, str, Row]]:
        for faulty in counts:
            if faulty and len(self.fits) < 2 * faulty + 1:
                continue
            many = int(0.3 * len(self.fits)) if faulty > 1 else faulty
            honest = Honest(self.data, self.held_out, self.fits[many:])
            if not faulty:
                yield 0, "none", honest.measured(self.fits, 0)
                if self.large:
                    yield 0, "large", Honest(self.data, self.held_out, self.large).measured(self.large, 0)
            for attack in self.data.attacks if faulty else ():
                yield faulty, attack, honest.measured(self.attacked(attack, many), many)


class Honest:
    """Merges of the honest sites, by which others are judged."""

    def __init__(self, data: Any, held_out: Any, fits: list[Posterior]) -> None:
        merged = db.merge(fits)
        self.data, self.held_out, self.score = data, held_out, data.scored(merged, held_out)
        self.references = [merged, db.merge(fits, components="largest")] if merged.structure.symmetry else [merged]

    def measured(self, posteriors: list[Posterior], faulty: int) -> Row:
        plain, usual = timed(lambda: db.merge(posteriors))
        robust, seconds = timed(lambda: db.merging.robust_merge(posteriors))
        flagged = [site.flagged for site in robust.sites]
        few = {site for sites in robust.thin_slots().values() for site in sites}
        return {
            "plain": self.harm(plain),
            "robust": self.harm(robust.posterior),
            "named": (sum(flagged[:faulty]), faulty),
            "told": (sum(flagged[site] or site in few for site in range(faulty)), faulty),
            "false": (sum(flagged[faulty:]), len(flagged) - faulty),
            "time": seconds / usual,
            "counts": robust.sites[0].counts,
        }

    def harm(self, merged: Posterior) -> tuple[float, float]:
        away = min(deviation(self.data, merged, one) for one in self.references)
        return away, self.score - self.data.scored(merged, self.held_out)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the shortest of some times: the first may include that of loading code."""
    times = []
    while len(times) < 2 or (len(times) < 5 and sum(times[1:]) < 0.1):
        begin = time.process_time()
        found = work()
        times.append(time.process_time() - begin)
    return found, min(times)


def simulated(kind: str, unlike: bool, seed: int, varied: bool) -> World:
    rng = np.random.default_rng([seed, unlike, varied])
    data, sizes = KINDS[kind](rng), np.full(SITES, 1.0)
    if varied:
        number, sites = int(rng.integers(3, 8)), int(rng.integers(6, 21))
        data = KINDS[kind](rng, number=number, dimension=int(rng.integers(1, 7)))
        sizes = number / 5 * np.exp(rng.normal(0.0, 0.6, size=sites))
    counts = np.maximum(data.observations * sizes, 20).astype(int).tolist()
    honest = len(counts) - max(MOST, int(0.3 * len(counts)))
    while True:
        shards = [data.draw(rng, count, unlike=unlike) for count in counts]
        if (np.sum([shares(data, what) >= KNOWN for _, what in shards[-honest:]], axis=0) >= 2).all():
            break
    held_out = data.draw(rng, data.held_out, unlike=False)[0]

    def fitted(shard: Any) -> Posterior:
        return data.model.fit_site(shard, rng=rng).posterior

    fits = [fitted(shard) for shard, _ in shards]
    liars = shards[: len(counts) - honest]
    told = [attack for attack in data.attacks if attack not in ("copies", "inflated")]
    lies = {attack: [fitted(data.spoilt(attack, shard, rng)) for shard in liars] for attack in told}
    large = fitted(data.draw(rng, LARGE * data.observations, unlike=unlike)[0])
    return World(data, held_out, fits, lies, [] if varied else [large, *fits[:LARGE]])


def shares(data: Any, what: np.ndarray) -> np.ndarray:
    """The share of each component in what a site has seen: of labels, or of documents' mixtures."""
    if not data.number or what.dtype.kind == "f":
        return what.mean(axis=0) if data.number else np.zeros(0)
    return np.bincount(what.ravel(), minlength=data.number) / what.size


def texts(unlike: bool, short: bool, seed: int) -> World:
    data, rng = News(), np.random.default_rng([seed, 1])
    shards = data.shards(unlike, short, rng)
    fits = [data.model.fit_site(shard, rng=rng).posterior for shard in shards]
    mixed_up = rng.permutation(len(data.vocabulary))
    wrong = [data.model.fit(shard[:, mixed_up], rng=rng).posterior for shard in shards[:MOST]]
    return World(data, None, fits, {"random": wrong}, [])


def world(kind: str, unlike: bool, seed: int, varied: bool) -> World:
    return texts(unlike, kind == "short", seed) if kind in TEXTS else simulated(kind, unlike, seed, varied)


class Kept:
    """Runs of worlds, in a file if there is one: worlds of which all runs are there are not made again."""

    def __init__(self, path: Path | None) -> None:
        self.path, lines = path, path.read_text().splitlines() if path is not None and path.exists() else []
        self.worlds = {tuple(key): runs for key, runs in map(json.loads, lines)}

    def runs(self, kind: str, unlike: bool, seed: int, varied: bool, faulty: list[int]) -> list[tuple[int, str, Row]]:
        key = (kind, unlike, seed, varied, *faulty)
        if key not in self.worlds:
            self.worlds[key] = [*world(kind, unlike, seed, varied).runs(faulty)]
            if self.path is not None:
                with self.path.open("a") as file:
                    file.write(json.dumps([key, self.worlds[key]], default=float) + "\n")
        return self.worlds[key]


def twins(seeds: range) -> None:
    """The same posteriors under two truths: what three of ten unlike sites share is invented, or is there.

    A merge cannot know which. If it gives what they share the weight w, and its true share is 0 or s, it loses at least
    −log(1 − w) or KL(s, w) nats per observation. Printed: both losses of the plain and of the robust merge and of the
    merge without the three sites, against the better of the last two; and the least that the larger of both losses can
    be, whatever the rule.
    """
    print(f"{'kind':11}{'seed':5}{'plain':>16}{'robust':>16}{'without them':>16}{'no rule below':>15}  invented, true")
    for kind, seed in product(("known", "diagonal", "classes", "tables"), seeds):
        truth = simulated(kind, True, seed, False)
        sites, rng = truth.attacked("colluding", MOST), np.random.default_rng([seed, 2])
        # What they share is in the place of each one's largest component.
        share = sum(float(site.mean("weights").max()) for site in sites[:MOST]) / len(sites)
        drawn, labels = truth.data.draw(rng, truth.data.held_out, unlike=False)
        more = truth.data.spoilt("colluding", (drawn, np.zeros_like(labels)), rng)
        merges = [db.merge(sites), db.merging.robust_merge(sites).posterior, db.merge(sites[MOST:])]
        invented, other = (
            np.array([truth.data.scored(one, points) for one in merges]) for points in (truth.held_out, more)
        )
        true = (1.0 - share) * invented + share * other
        losses = [f"{a:8.3f}{b:8.3f}" for a, b in zip(invented.max() - invented, true.max() - true, strict=True)]
        print(f"{kind:11}{seed:5}{''.join(losses)}{least_loss(share):15.3f}", flush=True)


def least_loss(share: float) -> float:
    """min over w of the larger of −log(1 − w) and KL(share, w)."""
    weights = np.linspace(0.0, share, 10_001)[1:-1]
    kept = share * np.log(share / weights) + (1.0 - share) * np.log((1.0 - share) / (1.0 - weights))
    return float(np.maximum(-np.log(1.0 - weights), kept).min())


def held(attack: str, row: Row) -> bool:
    """Whether the robust merge is within the bars."""
    away, lost = row["robust"]
    return bool(lost <= NATS.get(attack, HARM) and (attack in NATS or away <= MOVED))


def summary(attack: str, same: list[Row]) -> Row:
    """Medians over seeds, the worst deviation, and means of losses and flags."""
    found: Row = {"runs": len(same)}
    for rule in ("plain", "robust"):
        away, lost = np.array([row[rule] for row in same]).T
        found[rule] = [round(float(value), 4) for value in (np.median(away), away.max(), lost.mean(), lost.max())]
    for name in ("named", "told", "false"):
        flagged, sites = np.sum([row[name] for row in same], axis=0)
        found[name] = round(float(flagged / sites), 4) if sites else None
    found["held"] = round(float(np.mean([held(attack, row) for row in same])), 3)
    return found | {"time": round(float(np.median([row["time"] for row in same])), 2)}


def line(row: Row) -> str:
    parts = [
        f"{away:8.2f} ({worst:7.2f}){lost:8.4f} ({most:7.4f})"
        for away, worst, lost, most in (row["plain"], row["robust"])
    ]
    named = "".join("      –" if row[name] is None else f"{row[name]:7.2f}" for name in ("named", "told"))
    return "".join(parts) + f"{row['held']:6.2f}{named}{row['false']:7.3f}{row['time']:6.1f}"


def verdicts(results: dict[tuple[str, str, int, str], list[Row]]) -> list[str]:
    """All runs together against the bars."""
    lines = []
    for what, attacks in (("price", ("none",)), ("price, one large site", ("large",)), ("harm", None)):
        rows = [
            (key, row)
            for key, same in results.items()
            for row in same
            if (key[3] in attacks if attacks else key[3] not in NATS)
        ]
        if rows:
            lost = np.array([row["robust"][1] for _, row in rows])
            within = np.mean([held(key[3], row) for key, row in rows])
            lines.append(
                f"{what}: mean {lost.mean():.4f} nats, 95 % of runs below {np.quantile(lost, 0.95):.4f}, worst "
                f"{lost.max():.4f}; {within:.1%} of {len(rows)} runs within the bar"
            )
    for kind in dict.fromkeys(key[0] for key in results):
        counts = [
            row["counts"] for key, same in results.items() if key[0] == kind and key[3] == "large" for row in same
        ]
        if counts:
            middle = f"median {np.median(counts):.2f}, least {min(counts):.2f} of {len(counts)}"
            lines.append(f"the part of one large site that counts, {kind}: mean {np.mean(counts):.2f}, {middle}")
    for what, faulty in (("nobody faulty", (0,)), ("some faulty", (1, 3))):
        worlds: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
        for key, same in results.items():
            for place, row in enumerate(same if key[2] in faulty else ()):
                worlds.setdefault((key[0], key[1], place), []).append(row["false"])
        if worlds:
            wrong, sites = np.sum([np.sum(flags, axis=0) for flags in worlds.values()], axis=0)
            rates = [np.divide(*np.sum(flags, axis=0)) for flags in worlds.values()]
            error = np.std(rates) / np.sqrt(len(rates))
            lines.append(
                f"false flags, {what}: {wrong} of {sites} honest sites, {wrong / sites:.2%} ± {error:.2%} (standard "
                f"error over {len(rates)} worlds; bar {FALSE:.0%})"
            )
    for kind in dict.fromkeys(key[0] for key in results):
        times = [row["time"] for key, same in results.items() if key[0] == kind for row in same]
        lines.append(
            f"time, {kind}: {np.median(times):.1f} times plain, 95 % of runs below {np.quantile(times, 0.95):.1f}, "
            f"worst {max(times):.1f} (bar {TIMES:.0f})"
        )
    return lines


# The columns of the documentation's table: attacks, numbers of faulty sites, and which honest sites.
COLUMNS = {
    "nobody faulty": (("none",), (0,), ("like", "unlike")),
    "a large site": (("large",), (0,), ("like", "unlike")),
    "units, random, inflated, copies": (
        ("units10", "units100", "random", "inflated", "copies"),
        (1, 3),
        ("like", "unlike"),
    ),
    "displaced": (("displaced",), (1, 3), ("like", "unlike")),
    "noise, shuffled": (("noise", "shuffled"), (1, 3), ("like", "unlike")),
    "same lie": (("colluding",), (1, 3), ("like",)),
    "same lie, unlike": (("colluding",), (3,), ("unlike",)),
}


def markdown(results: dict[tuple[str, str, int, str], list[Row]]) -> Iterator[str]:
    """A row for each kind: runs within the bars, the largest deviations of plain and robust merges, the mean and the
    largest loss in nats; and the median and the largest time."""
    yield f"| sites | {' | '.join(COLUMNS)} | time |"
    yield "|---" * (2 + len(COLUMNS)) + "|"
    for kind in dict.fromkeys(key[0] for key in results):
        cells = []
        for attacks, faulty, sites in COLUMNS.values():
            of_kind = [key for key in results if key[0] == kind]
            chosen = [key for key in of_kind if key[3] in attacks and key[2] in faulty and key[1] in sites]
            rows = [(key[3], row) for key in chosen for row in results[key]]
            if not rows:
                cells.append("–")
                continue
            (before, _), (away, lost) = (np.array([row[rule] for _, row in rows]).T for rule in ("plain", "robust"))
            within = f"{sum(held(attack, row) for attack, row in rows)}/{len(rows)}"
            moved = "" if 0 in faulty else f"{before.max():.1f}→**{away.max():.1f}**, "
            cells.append(f"{within}, {moved}{lost.mean():.3f} ({lost.max():.3f})")
        times = [row["time"] for key, same in results.items() if key[0] == kind for row in same]
        yield f"| {NAMES.get(kind, kind)} | {' | '.join(cells)} | {np.median(times):.1f} ({max(times):.1f}) |"


def main() -> None:
    warnings.simplefilter("ignore", db.errors.MergeWarning)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed, mixtures of known variance, f = 0 and 3")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=[*KINDS, *TEXTS])
    parser.add_argument("--faulty", nargs="+", type=int, default=[0, 1, MOST], choices=[0, 1, MOST])
    parser.add_argument("--varied", action="store_true", help="random numbers of sites, components and dimensions")
    parser.add_argument("--keep", type=Path, help="a file for single runs; those in it are not made again")
    parser.add_argument("--twins", action="store_true", help="the same posteriors under two truths")
    parser.add_argument("--misfit", action="store_true", help="data that the model does not describe")
    parser.add_argument("--markdown", action="store_true", help="print the table of the documentation, too")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.kinds, options.faulty = 1, ["known"], [0, MOST]
    if options.twins or options.misfit:
        unfit = misfit_of_regressions if options.kinds == ["regression"] else misfit
        (twins if options.twins else unfit)(range(options.first, options.first + options.seeds))
        return
    results: dict[tuple[str, str, int, str], list[Row]] = {}
    kept = Kept(options.keep)
    print(
        f"{'kind':11}{'sites':8}{'f':>2} {'attack':10}{'plain: sd (worst), nats (worst)':>36}{'robust':>36}"
        "  held  named   told  false  time"
    )
    for kind, unlike in product(options.kinds, (False, True)):
        if kind == "short" and unlike:
            continue
        sites, found = "unlike" if unlike else "like", {}
        for seed in range(options.first, options.first + options.seeds):
            for faulty, attack, row in kept.runs(kind, unlike, seed, options.varied, options.faulty):
                found.setdefault((kind, sites, faulty, attack), []).append(row)
        for key, same in found.items():
            print(f"{kind:11}{sites:8}{key[2]:2} {key[3]:10}{line(summary(key[3], same))}", flush=True)
        results |= found
    print(*verdicts(results), *(markdown(results) if options.markdown else ()), sep="\n")
    rows = [
        dict(zip(("kind", "sites", "faulty", "attack"), key, strict=True)) | summary(key[3], same)
        for key, same in results.items()
    ]
    print(json.dumps({"benchmark": "robust", "seeds": options.seeds, "first": options.first, "rows": rows}))


if __name__ == "__main__":
    main()
