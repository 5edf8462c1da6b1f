"""Latent classes whose number nobody knows: sites merged once, sites refined, one fit of all rows, and StepMix.

    python benchmarks/unknown_classes.py [--quick] [--seeds N] [--first N] [--only NAME] [--sites N] [--split NAME]
                                         [--told N ...] [--oracle] [--no-refined] [--no-stepmix]

Made-up tables of ten classes, a quarter of whose columns say nothing about the class, and binary MNIST (14 × 14). Rows
are at 5 or 20 sites, at random or two classes each. Nobody is given the number of classes but StepMix, which has the
true one and ten starts; its time is that of one number. Rows of the table: one fit of all rows with "auto"; StepMix;
"largest": sites fit "auto" and are merged into as many slots as the largest has; "default" and "auto": the same
posteriors merged by these rules; "wide": sites fit "wide" and are merged with "auto"; "refined": one call of
`refine(components="auto")`. Columns: adjusted Rand index of the held-out rows, the number of classes that hold any of
them, held-out score in nats per row, and seconds of the processor. `--oracle` adds what sites could do at best that
find all classes: they know the number and begin at the true classes, which are added up in the true order; "unlikely"
is the share of sites where that fit has a lower bound than the one found, both under a prior of their own
(`empirical_prior.py`), so that nobody could have preferred it. The last line is JSON.
"""

import argparse
import gzip
import json
import os
import warnings
from dataclasses import dataclass, replace
from time import process_time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from _data import data_file

import decbayes as db
from decbayes.families import dense
from decbayes.models.mixtures.empirical_prior import empirical_prior
from decbayes.posterior import Posterior

CLASSES, IRRELEVANT, HELD_OUT = 10, 0.25, 2000


@dataclass(frozen=True)
class Table:
    """A made-up table: its size, the categories of its columns (2: yes/no), and whether classes are equally large."""

    rows: int
    columns: int
    categories: int
    equal: bool

    def drawn(self, seed):
        """Rows and their classes, and as many held-out ones."""
        rng = np.random.default_rng([self.rows, self.columns, self.categories, seed])
        count, relevant = self.rows + HELD_OUT, self.columns - round(IRRELEVANT * self.columns)
        shares = np.full(CLASSES, 1 / CLASSES) if self.equal else rng.dirichlet(np.full(CLASSES, 5.0))
        labels = rng.choice(CLASSES, count, p=shares)
        if self.categories == 2:
            chances = rng.beta(1.0, 5.0, size=(CLASSES, self.columns))
            chances[:, relevant:] = chances[0, relevant:]
            table = (rng.random((count, self.columns)) < chances[labels]).astype(float)
        else:
            chances = rng.dirichlet(np.full(self.categories, 2.0), size=(CLASSES, self.columns))
            chances[:, relevant:] = chances[0, relevant:]
            uniform = rng.random((count, self.columns, 1))
            table = (uniform > chances[labels].cumsum(axis=2)[:, :, :-1]).sum(axis=2).astype(float)
        return table[: self.rows], labels[: self.rows], table[self.rows :], labels[self.rows :]

    @property
    def model(self):
        if self.categories == 2:
            return db.BernoulliMixture("auto", self.columns)
        return db.CategoricalMixture("auto", self.columns, categories=self.categories)


@dataclass(frozen=True)
class Digits:
    """Some images of MNIST as 14 × 14 black and white pixels."""

    rows: int
    categories: int = 2

    def drawn(self, seed):
        chosen = np.random.default_rng([self.rows, seed]).permutation(60_000)[: self.rows]
        (images, labels), (held_out, truth) = digits("train"), digits("t10k")
        return images[chosen], labels[chosen], held_out[:HELD_OUT], truth[:HELD_OUT]

    @property
    def model(self):
        return db.BernoulliMixture("auto", 196)


def digits(part):
    images, labels = (
        gzip.decompress(data_file("mnist", f"{part}-{kind}-ubyte.gz").read_bytes())
        for kind in ("images-idx3", "labels-idx1")
    )
    grey = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    return 1.0 * (grey > 127).reshape(len(grey), -1), np.frombuffer(labels, np.uint8, offset=8)


TABLES = {
    "binary 1,000": Table(1000, 100, 2, True),
    "binary 5,000": Table(5000, 100, 2, False),
    "categorical 5,000": Table(5000, 30, 4, False),
    "binary 20,000": Table(20_000, 100, 2, True),
    "digits 5,000": Digits(5000),
}


def split_up(labels, sites, how, rng):
    """The rows of each site: at random, or two classes each, of which every class is at as many sites."""
    if how == "random":
        return np.array_split(rng.permutation(len(labels)), sites)
    pairs = [np.array_split(rng.permutation(np.flatnonzero(labels // 2 == pair)), sites // 5) for pair in range(5)]
    return [part for parts in pairs for part in parts]


def measured(posterior, rows, truth, seconds):
    model = db.model_for(posterior.structure)
    labels = model.assign(posterior, rows).argmax(axis=1)
    return row(labels, truth, model.score(posterior, rows), seconds)


def row(labels, truth, score, seconds):
    rand = db.checking.adjusted_rand(truth, labels)
    return {"rand": rand, "classes": len(np.unique(labels)), "score": float(score), "seconds": seconds}


def timed(call):
    began = process_time()
    return call(), process_time() - began


def stepmix(table, rows, held_out, truth, seed):
    from stepmix.stepmix import StepMix

    measurement = "binary" if table.categories == 2 else "categorical"
    model = StepMix(CLASSES, measurement=measurement, n_init=10, random_state=seed, progress_bar=0, max_iter=500)
    _, seconds = timed(lambda: model.fit(rows))
    return row(model.predict(held_out), truth, model.score(held_out), seconds)


def pooled_ways(table, drawn, seed, with_stepmix):
    rows, _, held_out, truth = drawn
    fit, seconds = timed(lambda: table.model.fit(rows, rng=seed).posterior)
    ways = {"one fit": measured(fit, held_out, truth, seconds)}
    if with_stepmix:
        ways["StepMix"] = stepmix(table, rows, held_out, truth, seed)
    return ways


def site_ways(table, drawn, sites, how, seed, options):
    rows, labels, held_out, truth = drawn
    parts = split_up(labels, sites, how, np.random.default_rng(seed))
    shards, model = [rows[part] for part in parts], table.model
    fits, own = timed(lambda: [model.fit(shard, rng=seed) for shard in shards])
    fitted, ways = [fit.posterior for fit in fits], {}
    if options.oracle:
        best, lower = begun_at_truth(model, shards, [labels[part] for part in parts], fits)
        ways["oracle"] = measured(best, held_out, truth, 0.0) | {"unlikely": lower}
    for name, components in {"largest": "largest", "default": None, "auto": "auto"}.items():
        merged, seconds = timed(lambda components=components: db.merge(fitted, components=components))
        ways[name] = measured(merged, held_out, truth, own + seconds)
    wide, own_wide = timed(lambda: [model.sized("wide").fit(shard, rng=seed).posterior for shard in shards])
    merged, seconds = timed(lambda: db.merge(wide, components="auto"))
    ways["wide"] = measured(merged, held_out, truth, own_wide + seconds)
    for number in options.told:
        merged, seconds = timed(lambda number=number: told_merge(model, number, shards, seed))
        ways[f"told {number}"] = measured(merged, held_out, truth, seconds)
    if options.no_refined:
        return ways
    refined, seconds = timed(lambda: db.refine(model, shards, fitted, components="auto", rng=seed).merged)
    return ways | {"refined": measured(refined, held_out, truth, own + seconds)}


def begun_at_truth(model, shards, labels, fits):
    """Fits that begin at the true classes, added up, and the share of sites where such a fit has a lower bound."""
    model, posteriors, lower = replace(model, components=CLASSES), [], []
    for shard, classes, fit in zip(shards, labels, fits, strict=True):
        known = model.from_assignments(shard, classes)
        posteriors.append(model.fit(shard, start=known).posterior)
        agreed = {name: rows[:1] for name, rows in model.structure.prior.items()}
        statistics = {name: dense(part) for name, part in known.contribution.items()}
        own, _ = empirical_prior(model.emissions, agreed, statistics)
        prior = Posterior.from_natural(model.structure, {name: np.tile(row, (CLASSES, 1)) for name, row in own.items()})
        lower.append(model.fit(shard, start=known, prior=prior).bound[-1] < fit.bound[-1])
    return db.merging.product(posteriors), float(np.mean(lower))


def told_merge(model, number, shards, seed):
    """The merge of sites that each fit so many classes."""
    return db.merge([replace(model, components=number).fit(shard, rng=seed).posterior for shard in shards])


def medians(runs):
    """The median of each figure over seeds."""
    return {way: {name: float(np.median([run[way][name] for run in runs])) for name in runs[0][way]} for way in runs[0]}


def shown(setting, ways):
    for way, found in ways.items():
        rand, classes, score, seconds = (found[name] for name in ("rand", "classes", "score", "seconds"))
        rest = f"  unlikely at {found['unlikely']:.0%} of sites" if "unlikely" in found else ""
        head = f"{setting:42s} {way:8s} Rand {rand:.3f}  classes {classes:4.0f}  score {score:8.3f}"
        print(f"{head}  {seconds:6.1f} s{rest}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the smallest table, five sites")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=sorted(TABLES), help="one table")
    parser.add_argument("--sites", type=int, choices=(5, 20), help="one number of sites")
    parser.add_argument("--split", choices=("random", "unlike"), help="one way to divide rows among sites")
    parser.add_argument("--told", type=int, nargs="+", default=[], help="also merge sites that fit so many classes")
    parser.add_argument("--oracle", action="store_true", help="also begin the sites' fits at the true classes")
    parser.add_argument("--no-refined", action="store_true", help="leave rounds out")
    parser.add_argument("--no-stepmix", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ["binary 1,000"] if options.quick else [options.only] if options.only else list(TABLES)
    numbers = (5,) if options.quick else (options.sites,) if options.sites else (5, 20)
    splits = (options.split,) if options.split else ("random", "unlike")
    results = {}
    for name in names:
        table = TABLES[name]
        seeds = range(options.first, options.first + (1 if options.quick else options.seeds))
        tables = {seed: table.drawn(seed) for seed in seeds}
        pooled = [pooled_ways(table, drawn, seed, not options.no_stepmix) for seed, drawn in tables.items()]
        results[name] = medians(pooled)
        shown(name, results[name])
        for sites in numbers:
            for how in splits:
                setting = f"{name}, {sites} sites, {how}"
                runs = [site_ways(table, drawn, sites, how, seed, options) for seed, drawn in tables.items()]
                results[setting] = medians(runs)
                shown(setting, results[setting])
    print(json.dumps(results))


if __name__ == "__main__":
    main()
