"""How often 90 % intervals hold the truth: batch and merged, one shot and refined, mean-field and calibrated, Gibbs.

    python benchmarks/coverage.py [--quick] [--sets N] [--jobs N] [--only NAME,…] [--sites N,…] [--results FILE]

Settings are mixtures of known, diagonal and full covariance, overlapping and apart, topics, features, sequences and
regressions.
Every data set is dealt out at random to so many sites. The results of each data set are a line of FILE (JSON), and
those that are there already are not computed again: interrupt it and go on, or add data sets later. Rows are estimates,
columns quantities; each figure is the share of intervals that hold the truth, in percent, ± its standard error over
data sets. The last line is a JSON object.
"""

import argparse
import json
import os
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property, partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

# There is a library of this file's name, which others import: this folder comes last.
sys.path.sort(key=lambda folder: folder == str(Path(__file__).parent))
# Each process has one core.
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
from _gibbs import Features, Mixture, Topics, draws
from joblib import parallel_config
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array

import decbayes as db
from decbayes.calibration import jackknifed

LEVEL = 0.9
# Words of a smaller probability are hardly ever seen in so few documents.
LEAST_PROBABILITY = 0.005


class Setting:
    """What is simulated; where nothing else is said, without a sampler, and every entry counts."""

    def sampled(self, data, truth, rng):
        return {}

    def counted(self, truth):
        return {name: np.ones(np.shape(value), dtype=bool) for name, value in truth.items()}


@dataclass(frozen=True)
class GaussianSetting(Setting):
    """Two clusters of 400 points in one or two dimensions, at ± `place` on the first axis."""

    kind: str
    place: float
    size: int = 400

    @cached_property
    def model(self):
        if self.kind == "known":
            return db.GaussianMixture(2, 1, variance=0.25, prior_variance=4.0, ascent=db.Ascent(restarts=3))
        scale = {"prior_strength": 0.05, "prior_scale": 0.25, "prior_degrees": 5.0}
        return db.GaussianMixture(2, 2, covariance=self.kind, **scale, ascent=db.Ascent(restarts=3))

    def simulate(self, rng):
        dimension = self.model.dimension
        means = np.zeros((2, dimension))
        means[:, 0] = -self.place, self.place
        z = rng.integers(2, size=self.size)
        truth = {"mean": means, "weights": np.array([0.5, 0.5])}
        if self.kind != "known":
            precision = np.eye(2) if self.kind == "full" else np.ones(2)
            truth["precision"] = np.stack([4.0 * precision] * 2)
        return means[z] + 0.5 * rng.standard_normal((self.size, dimension)), truth

    def quantities(self, posterior, value):
        names = posterior.quantities("components")
        parts = {"mean" if name == "value" else name: value("components", quantity=name) for name in names}
        return parts | {"weights": value("weights")}

    def order(self, truth, estimate):
        distance = ((truth["mean"][:, None] - estimate["mean"]) ** 2).sum(axis=2)
        return linear_sum_assignment(distance)[1]

    def sampled(self, data, truth, rng):
        sampler = Mixture(self.model, self.size)
        scores = ((data[:, None] - truth["mean"]) ** 2).sum(axis=2)
        state = {**sampler.first(rng), "z": np.argmin(scores, axis=1)}
        state = sampler.sweep({**state, "weights": truth["weights"], "components": self.start(truth)}, data, rng)
        return draws(sampler, data, state, rng, burn_in=200, count=2000)

    def start(self, truth):
        if self.kind == "known":
            return truth["mean"]
        return db.families.MeanAndPrecision(truth["mean"], truth["precision"])


@dataclass(frozen=True)
class TopicSetting(Setting):
    """Five topics, 400 documents of 40 words."""

    topics: int = 5
    words: int = 100
    documents: int = 400
    length: int = 40

    @cached_property
    def model(self):
        words = tuple(f"word{word}" for word in range(self.words))
        ascent = db.Ascent(passes=300, tolerance=1e-5, warm_up=10, restarts=2)
        return db.LatentDirichletAllocation(self.topics, words, 0.2, 0.1, ascent=ascent)

    def simulate(self, rng):
        sampler = self.sampler()
        state = sampler.first(rng)
        words = sampler.data(state, rng)
        counts = np.zeros((self.documents, self.words))
        np.add.at(counts, (np.arange(self.documents)[:, None], words), 1)
        return csr_array(counts), {"topics": state["topics"]}

    def sampler(self):
        return Topics(self.model, self.documents, self.length)

    def quantities(self, posterior, value):
        return {"topics": value("topics")}

    def order(self, truth, estimate):
        return linear_sum_assignment(-(np.sqrt(truth["topics"]) @ np.sqrt(estimate["topics"]).T))[1]

    def sampled(self, data, truth, rng):
        dense = data.toarray().astype(int)
        words = np.array([np.repeat(np.arange(self.words), row) for row in dense])
        shares = truth["topics"][:, words]
        z = np.argmax(np.log(shares) + rng.gumbel(size=shares.shape), axis=0)
        return draws(self.sampler(), words, {"z": z}, rng, burn_in=200, count=600)

    def counted(self, truth):
        return {"topics": truth["topics"] > LEAST_PROBABILITY}


@dataclass(frozen=True)
class FeatureSetting(Setting):
    """Three features of 300 vectors of six numbers, in little or much noise."""

    noise: float
    size: int = 300

    @cached_property
    def model(self):
        return db.LatentFeatures(3, 6, variance=self.noise)

    def simulate(self, rng):
        sampler = Features(self.model, self.size)
        state = sampler.first(rng)
        state = sampler.allocate({**state, "inclusion": rng.uniform(0.2, 0.7, size=3)}, rng)
        return sampler.data(state, rng), {"features": state["features"], "inclusion": state["inclusion"]}

    def quantities(self, posterior, value):
        return {"features": value("features"), "inclusion": value("inclusion")}

    def order(self, truth, estimate):
        distance = ((truth["features"][:, None] - estimate["features"]) ** 2).sum(axis=2)
        return linear_sum_assignment(distance)[1]

    def sampled(self, data, truth, rng):
        sampler = Features(self.model, self.size)
        state = sampler.allocate(truth, rng)
        return draws(sampler, data, state, rng, burn_in=300, count=2000)


@dataclass(frozen=True)
class SequenceSetting(Setting):
    """Two states that overlap, in 50 sequences of ten steps; there is no sampler here."""

    stay: float = 0.85
    place: float = 0.7
    sequences: int = 50
    steps: int = 10

    @cached_property
    def model(self):
        return db.HiddenMarkov(states=2, columns={"x": db.columns.Gaussian(0, 1)}, ascent=db.Ascent(restarts=3))

    def simulate(self, rng):
        transitions = np.array([[self.stay, 1 - self.stay], [1 - self.stay, self.stay]])
        states = np.zeros((self.sequences, self.steps), dtype=int)
        states[:, 0] = rng.integers(2, size=self.sequences)
        for step in range(1, self.steps):
            states[:, step] = states[:, step - 1] ^ (rng.random(self.sequences) > self.stay)
        means = np.array([[-self.place], [self.place]])
        points = means[states] + 0.7 * rng.standard_normal((self.sequences, self.steps, 1))
        return list(points), {"mean": means, "precision": np.full((2, 1), 0.7**-2), "transitions": transitions}

    def quantities(self, posterior, value):
        (emitted,) = (name for name in posterior.structure.families if name not in ("start", "transitions"))
        parts = {name: np.reshape(value(emitted, quantity=name), (2, 1)) for name in ("mean", "precision")}
        return parts | {"transitions": value("transitions")}

    def order(self, truth, estimate):
        return np.argsort(estimate["mean"].ravel())


@dataclass(frozen=True)
class RegressionSetting(Setting):
    """Three coefficients, drawn from their prior, and 100 rows. There is nothing to calibrate, and no sampler here."""

    kind: type
    target: str
    prior_variance: float
    size: int = 100

    @cached_property
    def model(self):
        columns = {"a": db.columns.Gaussian(0, 1), "b": db.columns.Gaussian(0, 1), "y": self.target}
        return self.kind("y", columns=columns, prior_variance=self.prior_variance)

    def simulate(self, rng):
        drawn = db.simulate(self.model, self.size, rng=rng)
        return drawn.data, {"coefficients": np.asarray(drawn.parameters["coefficients"])}

    def quantities(self, posterior, value):
        return {"coefficients": value("coefficients")}

    def order(self, truth, estimate):
        return np.zeros(1, dtype=int)


SETTINGS = {
    "known, overlapping": GaussianSetting("known", 0.7),
    "known, apart": GaussianSetting("known", 1.5),
    "diagonal, overlapping": GaussianSetting("diagonal", 0.7),
    "diagonal, apart": GaussianSetting("diagonal", 1.5),
    "full, overlapping": GaussianSetting("full", 0.7),
    "full, apart": GaussianSetting("full", 1.5),
    "topics": TopicSetting(),
    "features, clear": FeatureSetting(0.1),
    "features, noisy": FeatureSetting(0.5),
    "sequences": SequenceSetting(),
    "logistic regression": RegressionSetting(db.LogisticRegression, "yes/no", 1.0),
    "Poisson regression": RegressionSetting(db.PoissonRegression, "count", 0.25),
}


def estimates(setting, data, sites, rng):
    """Every posterior whose intervals are looked at, by name, in the order of the table's rows."""
    model = setting.model
    fitted = replace(model.fit(data, rng=rng).posterior)
    batch = db.refine(model, [data], [fitted], rng=rng, tolerance=1e-3).merged
    yield "batch", batch
    yield "batch, calibrated", lambda: db.calibrate(model, [data], batch)
    for count in sites:
        parts = np.array_split(rng.permutation(model.count(data)), count)
        shards = [model.taken(data, part) for part in parts]
        local = model.fit_many(shards, rng=rng)
        found = db.align([fit.posterior for fit in local])
        merged = found.merged()
        yield f"{count} sites, one shot", merged
        yield f"{count} sites, one shot, jackknife", lambda found=found: jackknifed(found)
        if model.calibrated_by == "linear response":
            yield f"{count} sites, one shot, calibrated", lambda s=shards, m=merged: db.calibrate(model, s, m)
        refined = db.refine(model, shards, [fit.posterior for fit in local], rng=rng, schedule="parallel").merged
        yield f"{count} sites, refined", refined
        yield f"{count} sites, refined, calibrated", lambda s=shards, m=refined: db.calibrate(model, s, m)


def covered(setting, truth, mean, lower, upper):
    """How many intervals hold the truth, and of how many, by quantity."""
    order, counted = setting.order(truth, mean), setting.counted(truth)
    hits = {}
    for name, true in truth.items():
        places = np.ix_(order, order) if name == "transitions" else order
        inside = (lower[name][places] <= true) & (true <= upper[name][places])
        hits[name] = [int(inside[counted[name]].sum()), int(counted[name].sum())]
    return hits


def data_set(name, seed, sites):
    """One data set's row of results."""
    warnings.simplefilter("ignore")
    setting, rng = SETTINGS[name], np.random.default_rng([seed, 13])
    begun = perf_counter()
    data, truth = setting.simulate(rng)
    row = {"setting": name, "seed": seed, "hits": {}, "refused": []}
    with parallel_config(n_jobs=1):
        for label, posterior in estimates(setting, data, sites, rng):
            try:
                found = posterior() if callable(posterior) else posterior
            except db.errors.DecbayesError:
                row["refused"].append(label)
                continue
            interval = partial(found.interval, level=LEVEL)
            bounds = (lambda *at, of=interval, end=end, **part: of(*at, **part)[end] for end in (0, 1))
            values = [setting.quantities(found, pick) for pick in (found.mean, *bounds)]
            row["hits"][label] = covered(setting, truth, *values)
    drawn = setting.sampled(data, truth, rng)
    if drawn:
        tails = 0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL
        bounds = [{key: np.quantile(value, tail, axis=0) for key, value in drawn.items()} for tail in tails]
        means = {key: value.mean(axis=0) for key, value in drawn.items()}
        row["hits"]["Gibbs"] = covered(setting, truth, means, *bounds)
    row["seconds"] = perf_counter() - begun
    return row


def table(name, rows):
    """Coverage of each estimate, with the standard error over data sets."""
    labels = list(dict.fromkeys(label for row in rows for label in row["hits"]))
    labels.sort(key=lambda label: label == "Gibbs")
    quantities = list(rows[0]["hits"]["batch"])
    print(f"\n{name}: {len(rows)} data sets, {np.mean([row['seconds'] for row in rows]):.1f} s each")
    print(f"{'':36}" + "".join(f"{quantity:>16}" for quantity in quantities) + f"{'refused':>10}")
    summary = {"sets": len(rows)}
    for label in labels:
        cells, summary[label] = [], {}
        for quantity in quantities:
            shares = np.array([np.divide(*row["hits"][label][quantity]) for row in rows if label in row["hits"]])
            spread = shares.std(ddof=1) / np.sqrt(len(shares)) if len(shares) > 1 else np.nan
            cells.append(f"{100 * shares.mean():>9.1f} ± {100 * spread:3.1f}")
            summary[label][quantity] = round(float(shares.mean()), 4)
        refused = sum(label in row["refused"] for row in rows)
        print(f"{label:36}" + "".join(f"{cell:>16}" for cell in cells) + (f"{refused:>10}" if refused else ""))
    return summary


def known_rows(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.strip()]


def computed(tasks, sites, jobs):
    """The rows of all tasks as they are ready, by so many processes."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(data_set, name, seed, sites) for name, seed in tasks]
        for future in as_completed(futures):
            yield future.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four data sets, two and ten sites")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--sites", default="")
    parser.add_argument("--results", type=Path, help="default: a new file, which is deleted in the end")
    options = parser.parse_args()
    sets = options.sets or (4 if options.quick else 200)
    sites = [int(count) for count in (options.sites or ("2,10" if options.quick else "2,10,50")).split(",")]
    with TemporaryDirectory() as folder:
        run(options, sets, sites, options.results or Path(folder) / "coverage.jsonl")


def run(options, sets, sites, results):
    names = [name for name in SETTINGS if not options.only or any(part in name for part in options.only.split(","))]
    known = {(row["setting"], row["seed"]): row for row in known_rows(results)}
    # All settings grow together, so that an interrupted run has something to say about each.
    tasks = [(name, seed) for seed in range(sets) for name in names if (name, seed) not in known]
    with results.open("a") as file:
        for row in computed(tasks, sites, options.jobs):
            known[row["setting"], row["seed"]] = row
            print(json.dumps(row), file=file, flush=True)
    summary = {}
    for name in names:
        rows = [known[name, seed] for seed in range(sets) if (name, seed) in known]
        summary[name] = table(name, rows)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
