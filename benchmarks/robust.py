"""What faulty sites do to a merge, plain and robust; whom a robust merge names; its price; and its time.

    python benchmarks/robust.py [--seeds 3] [--quick] [--kinds …] [--faulty 0 1 3] [--fresh] [--small]

Ten sites, f of them faulty. Each fits a Gaussian mixture (known, diagonal or full variances), a hidden Markov model,
latent classes, a table of mixed columns, topics or a regression (linear, logistic, counts) to its own data. With
--fresh there are 6 to 20 sites of unequal sizes, f = 3 stands for 30 % of them, and numbers of components and
dimensions are random, too. What a faulty site sends:

    units10, units100   its data in units ten or a hundred times smaller; of a table or regression, one column
    random              all its components are something else
    inflated            one component is displaced, and the evidence is five times what was seen
    copies              a lie, and copies of it that are a little larger
    displaced           one component is displaced
    colluding           all faulty sites put the same wrong component in the place of their largest

Honest sites have all components ("like") or 60 % of them ("unlike"). Printed: how far the worst component of the
merge of the honest sites is from the nearest one, in posterior deviations (median over seeds, worst in brackets; with
as many slots as the largest site has components, or as usual, whichever is nearer); held-out nats per observation or
word lost against the merge of honest sites (mean, worst in brackets); the shares of faulty and of honest sites that are
flagged; and the time in units of a plain merge. Without faulty sites the loss is the price of a robust merge. "large"
is one site with as much data as all others. "texts" are 20 topics of 20 Newsgroups at sites of 3,000 to 100 posts, at
ten sites with eight newsgroups each ("unlike"), and "short" the first 12 words of each post at such sites; a faulty
site has mixed up its vocabulary. The last line is JSON.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from _attacks import KINDS, attacked, deviation
from _workloads import news, news_model
from scipy.sparse import csr_array

import decbayes as db
from decbayes.posterior import Posterior

SITES = 10
LARGE = 9
UNEQUAL, POSTS, SHORT = (3000, 1500, 800, 400, 200, 100), 300, 12
TEXTS = ("texts", "short")
Row = dict[str, Any]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the shortest of some times."""
    times = []
    while not times or (len(times) < 5 and sum(times) < 0.3):
        begin = time.process_time()
        found = work()
        times.append(time.process_time() - begin)
    return found, min(times)


def measured(data: Any, posteriors: list[Posterior], fits: list[Posterior], held_out: Any, faulty: int) -> Row:
    """Merges of these posteriors, the first of them faulty; `fits` are what all would be without a fault."""
    honest = db.merge(fits[faulty:])
    references = [honest, db.merge(fits[faulty:], components="largest")] if honest.structure.symmetry else [honest]
    plain, usual = timed(lambda: db.merge(posteriors))
    robust, seconds = timed(lambda: db.merging.robust_merge(posteriors))
    flagged = [site.flagged for site in robust.sites]
    best = data.scored(honest, held_out)
    return {
        "plain": (min(deviation(data, plain, one) for one in references), best - data.scored(plain, held_out)),
        "robust": (
            min(deviation(data, robust.posterior, one) for one in references),
            best - data.scored(robust.posterior, held_out),
        ),
        "named": float(np.mean(flagged[:faulty])) if faulty else np.nan,
        "false": float(np.mean(flagged[faulty:])),
        "time": seconds / usual,
    }


def cases(kind: str, unlike: bool, faulty: int, seed: int, fresh: bool) -> dict[str, Row]:
    """All attacks on the same sites."""
    rng = np.random.default_rng([seed, faulty, unlike, fresh])
    data, sizes = KINDS[kind](rng), np.full(SITES, 1.0)
    if fresh:
        number, sites = int(rng.integers(3, 8)), int(rng.integers(6, 21))
        data = KINDS[kind](rng, number=number, dimension=int(rng.integers(1, 7)))
        sizes = number / 5 * np.exp(rng.normal(0.0, 0.6, size=sites))
        faulty = int(0.3 * sites) if faulty > 1 else faulty
    counts = np.maximum(data.observations * sizes, 20).astype(int).tolist()
    shards = [data.draw(rng, count, unlike=unlike) for count in counts]
    held_out = data.draw(rng, data.held_out, unlike=False)[0]
    fits = [data.model.fit(shard, rng=rng).posterior for shard, _ in shards]
    if not faulty:
        return {"none": measured(data, fits, fits, held_out, 0), "large": large(data, held_out, unlike, rng)}
    return {
        attack: measured(data, attacked(data, attack, shards, fits, faulty, rng), fits, held_out, faulty)
        for attack in data.attacks
    }


def large(data: Any, held_out: Any, unlike: bool, rng: np.random.Generator) -> Row:
    """One site that has as much data as nine others together."""
    sizes = [LARGE * data.observations, *[data.observations] * LARGE]
    fits = [data.model.fit(data.draw(rng, size, unlike=unlike)[0], rng=rng).posterior for size in sizes]
    return measured(data, fits, fits, held_out, 0)


class News:
    """20 topics of 20 Newsgroups."""

    def __init__(self) -> None:
        counts, self.vocabulary, self.labels, held_out = news()
        self.counts, self.model = counts.astype(float), news_model()
        self.training = np.random.default_rng(0).permutation(np.flatnonzero(~held_out))
        some = self.counts[np.flatnonzero(held_out)[:POSTS]]
        self.observed, self.held = db.checking.hold_out(some, share=0.1, rng=np.random.default_rng(7))

    def shards(self, unlike: bool, short: bool, rng: np.random.Generator) -> list[Any]:
        if short:
            parts = [self.counts[part] for part in np.split(self.training[: SITES * 600], SITES)]
            return [shortened(part, rng) for part in parts]
        if not unlike:
            return [self.counts[part] for part in np.split(self.training, np.cumsum(UNEQUAL))[: len(UNEQUAL)]]
        having = [np.isin(self.labels[self.training], rng.choice(20, 8, replace=False)) for _ in range(SITES)]
        return [self.counts[self.training[own][:600]] for own in having]

    def distances(self, reference: Posterior, merged: Posterior) -> np.ndarray:
        right, spread, found = reference.mean("topics"), reference.deviation("topics"), merged.mean("topics")
        away = np.empty((len(right), len(found)))
        for topic, often in enumerate(right > 0.005):
            away[topic] = np.sqrt((((right[topic] - found) / spread[topic])[:, often] ** 2).mean(axis=1))
        return away

    def scored(self, posterior: Posterior, _: Any) -> float:
        size = posterior.structure.components(posterior.structure.symmetry[0])
        return float(replace(self.model, topics=size).score(posterior, self.observed, self.held))


def shortened(counts: Any, rng: np.random.Generator) -> Any:
    """Twelve words of each post, or all where there are fewer."""
    rows = counts.toarray().astype(int)
    return csr_array(
        np.array([rng.multivariate_hypergeometric(row, min(SHORT, row.sum()), method="count") for row in rows])
    ).astype(float)


def texts(unlike: bool, short: bool, faulty: int) -> dict[str, Row]:
    data, rng = News(), np.random.default_rng(1)
    shards = data.shards(unlike, short, rng)
    fits = [data.model.fit(shard, rng=rng).posterior for shard in shards]
    mixed_up = rng.permutation(len(data.vocabulary))
    wrong = [data.model.fit(shard[:, mixed_up], rng=rng).posterior for shard in shards[:faulty]]
    return {"random" if faulty else "none": measured(data, [*wrong, *fits[faulty:]], fits, None, faulty)}


def small_sites(seeds: int) -> None:
    """How many honest sites with few readings are flagged: clusters anywhere, which may overlap."""
    for covariance in ("known", "diagonal"):
        flagged = []
        for seed, count, (components, dimension, sites) in product(range(seeds), (20, 40), ((2, 1, 10), (3, 2, 6))):
            rng = np.random.default_rng([seed, components, count, sites])
            places = rng.uniform(-10, 10, size=(components, dimension))
            options = (
                {"variance": 1.0, "prior_variance": 100.0} if covariance == "known" else {"covariance": covariance}
            )
            model = db.GaussianMixture(components, dimension, **options)
            noise = rng.normal(size=(sites, count, dimension))
            shards = places[rng.integers(components, size=(sites, count))] + noise
            found = db.merging.robust_merge([model.fit(shard, rng=rng).posterior for shard in shards])
            flagged += [site.flagged for site in found.sites]
        print(
            f"small sites, {covariance} variances: {sum(flagged)} of {len(flagged)} honest sites are flagged",
            flush=True,
        )


def main() -> None:
    warnings.simplefilter("ignore", db.errors.MergeWarning)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed, mixtures of known variance, f = 0 and 3")
    parser.add_argument("--kinds", nargs="+", default=[*KINDS, *TEXTS], choices=[*KINDS, *TEXTS])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--fresh", action="store_true", help="random numbers of sites, components and dimensions")
    parser.add_argument("--faulty", nargs="+", type=int, default=[0, 1, 3])
    parser.add_argument("--small", action="store_true", help="only: false flags of small honest sites")
    options = parser.parse_args()
    if options.small:
        small_sites(4 * options.seeds)
        return
    seeds, kinds, counts = options.seeds, options.kinds, options.faulty
    if options.quick:
        seeds, kinds, counts = 1, ["known"], [0, 3]
    rows = []
    print(
        f"{'kind':11}{'sites':8}{'f':>2} {'attack':10}{'plain: sd (worst), nats (worst)':>36}{'robust':>36}"
        "  named  false  time"
    )
    for kind, faulty, unlike in product(kinds, counts, (False, True)):
        if kind in TEXTS:
            # Of six sites, three are no minority.
            runs = [] if faulty > 1 and kind == "texts" and not unlike else [texts(unlike, kind == "short", faulty)]
        else:
            first = options.first
            runs = [cases(kind, unlike, faulty, seed, options.fresh) for seed in range(first, first + seeds)]
        if not runs or (kind == "short" and unlike):
            continue
        for attack in runs[0]:
            row = summary([run[attack] for run in runs])
            sites = "unlike" if unlike else "like"
            print(f"{kind:11}{sites:8}{faulty:2} {attack:10}{line(row)}", flush=True)
            rows.append({"kind": kind, "sites": sites, "faulty": faulty, "attack": attack, **row})
    print(json.dumps({"benchmark": "robust", "sites": SITES, "seeds": seeds, "rows": rows}))


def summary(same: list[Row]) -> Row:
    """Medians over seeds, the worst deviation, and means of losses and flags."""
    found: Row = {}
    for rule in ("plain", "robust"):
        away, lost = np.array([row[rule] for row in same]).T
        found[rule] = [round(float(value), 4) for value in (np.median(away), away.max(), lost.mean(), lost.max())]
    return found | {name: round(float(np.mean([row[name] for row in same])), 3) for name in ("named", "false", "time")}


def line(row: Row) -> str:
    parts = [
        f"{away:8.2f} ({worst:7.2f}){lost:8.4f} ({most:7.4f})"
        for away, worst, lost, most in (row["plain"], row["robust"])
    ]
    return "".join(parts) + f"{row['named']:7.2f}{row['false']:7.3f}{row['time']:6.1f}"


if __name__ == "__main__":
    main()
