"""Latent classes of real tables with missing values: one fit of all rows, sites merged and refined, and StepMix.

    python benchmarks/tables.py [--quick] [--seeds N] [--only NAME] [--keep FILE]

Tables as scikit-learn, statsmodels and palmerpenguins bring them, ten per cent of the values hidden besides those that
are missing, a third of the rows held out, five sites at random or by class. Scores are mean log predictive densities
of the values that are there in held-out rows, real columns in units of their standard deviations. Both libraries take
the best of ten starts, in one thread; seconds are those of the processor. The last line is JSON.

`merged` is one broadcast, any class into any slot, `one to one` the same posteriors as the paper merges them. `gap` is
what ten rounds score beside the median of eight fits of all rows with other seeds, and `bound` how far their bound of
all rows, per row, is from the best of these fits: medians of differences within a seed. `wide` are sites with twice as
many classes, whose slots are joined after three rounds. `--keep` names a file of the runs that are done, to go on from
there.
"""

import argparse
import json
import os
import time
import warnings
from dataclasses import replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
import pandas as pd

import decbayes as db
from decbayes.columns import Gaussian
from decbayes.updates import joining

SITES, HIDDEN, STARTS, ROUNDS, RESTARTS = 5, 0.1, 10, 10, 4
# Fits of all rows with other seeds, which may end in other optima.
AGAIN = 8
ROUNDED = ("refined", "best of 5", "wide")


def penguins():
    from palmerpenguins import load_penguins

    frame = load_penguins().drop(columns="year")
    return frame.drop(columns="species"), frame["species"], 3, {}


def of_scikit_learn(load, classes):
    bunch = load(as_frame=True)
    return bunch.data, bunch.target, classes, dict.fromkeys(bunch.data, "real")


def wine():
    from sklearn.datasets import load_wine

    return of_scikit_learn(load_wine, 3)


def cancer():
    from sklearn.datasets import load_breast_cancer

    return of_scikit_learn(load_breast_cancer, 2)


def digits(kind):
    from sklearn.datasets import load_digits

    bunch = load_digits(as_frame=True)
    images = bunch.data > 7 if kind == "yes/no" else bunch.data
    kept = images.loc[:, images.nunique() > 1]
    return kept, bunch.target, 10, dict.fromkeys(kept, kind)


def health():
    """The RAND health insurance experiment; sites by the number of visits to a doctor.

    Columns of which half the values are zero are no Gaussians: zero and thirds of the rest are categories.
    """
    from statsmodels.datasets import randhie

    frame = randhie.load_pandas().data
    kinds = {"mdvis": "count", "lncoins": "categorical"}
    for name in ("hlthg", "hlthf", "hlthp", "idp", "physlm"):
        frame[name] = frame[name] > 0.5
    for name in ("lpi", "fmde"):
        thirds = pd.qcut(frame[name].where(frame[name] > 0), 3, labels=["low", "middle", "high"])
        frame[name] = thirds.astype(object).where(frame[name] > 0, "zero")
    return (
        frame.iloc[::4].reset_index(drop=True),
        pd.qcut(frame["mdvis"].iloc[::4], 4, duplicates="drop").astype(str),
        4,
        kinds,
    )


TABLES = {
    "penguins": penguins,
    "wine": wine,
    "cancer": cancer,
    "binary digits": lambda: digits("yes/no"),
    "Poisson digits": lambda: digits("count"),
    "health insurance": health,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="penguins and wine only")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path, help="a file of runs that are done")
    arguments = parser.parse_args()
    names = [name for name in (list(TABLES)[:2] if arguments.quick else TABLES) if arguments.only in name]
    seeds = 1 if arguments.quick else arguments.seeds
    figures = {name: figures_of(name, seeds, arguments.keep) for name in names}
    print(json.dumps({"benchmark": "tables", **figures}))


def figures_of(name, seeds, keep):
    """Medians over seeds of every figure."""
    runs = [kept_run(name, seed, keep) for seed in range(seeds)]
    figures = {key: float(np.median([run[key] for run in runs])) for key in runs[0]}
    print(name, {key: round(value, 3) for key, value in figures.items()}, flush=True)
    return figures


def kept_run(name, seed, keep):
    lines = keep.read_text(encoding="utf-8").splitlines() if keep is not None and keep.exists() else []
    done = {(each, number): run for each, number, run in map(json.loads, lines)}
    if (name, seed) not in done:
        done[name, seed] = one_run(*TABLES[name](), seed)
        if keep is not None:
            keep.write_text("\n".join([*lines, json.dumps([name, seed, done[name, seed]])]), encoding="utf-8")
    return done[name, seed]


def one_run(frame, labels, components, kinds, seed):
    rng = np.random.default_rng(seed)
    model = db.LatentClasses.from_frame(
        frame, kinds=kinds, components=components, ascent=db.Ascent(restarts=STARTS - 1)
    )
    points = model.points(frame)
    points[rng.random(points.shape) < HIDDEN] = np.nan
    held = rng.random(len(points)) < 1 / 3
    train, test, groups = points[~held], points[held], np.asarray(labels)[~held]
    unit = np.array([column.scale if isinstance(column, Gaussian) else 1.0 for column in model.columns.values()])

    def score(posterior):
        return model.score(posterior, test) + float((~np.isnan(test) @ np.log(unit)).mean())

    def bound(posterior):
        return joining.bound(model, [train], posterior, rng) / len(train)

    model.fit(train[:50], rng=rng)  # compiles the kernels
    begin = time.process_time()
    batch = model.fit(train, rng=rng)
    figures = {"batch": score(batch.posterior), "seconds": time.process_time() - begin}
    others = [model.fit(train, rng=np.random.default_rng([seed, again])).posterior for again in range(AGAIN)]
    usual, best = float(np.median([score(other) for other in others])), max(bound(other) for other in others)
    figures |= {"batch, median of 8": usual, "batch, spread of 8": float(np.ptp([score(other) for other in others]))}
    figures |= stepmix(model, train, test, seed, figures["seconds"])
    by_chance = np.array_split(rng.permutation(len(train)), SITES)
    order = np.lexsort([rng.random(len(train)), groups])
    for split, rows in (("random", by_chance), ("by class", np.array_split(order, SITES))):
        shards = [train[part] for part in rows]
        found = of_sites(model, shards, rng)
        figures[f"{split}, one site"] = float(np.mean([score(each) for each in found.pop("one site")]))
        for name, posterior in found.items():
            figures[f"{split}, {name}"] = score(posterior)
        for name in ROUNDED:
            figures[f"{split}, {name}, gap"] = score(found[name]) - usual
            figures[f"{split}, {name}, bound"] = bound(found[name]) - best
    return figures


def of_sites(model, shards, rng):
    """Posteriors of each site, of one broadcast, and of rounds."""
    own = [model.fit(shard, rng=rng).posterior for shard in shards]
    refined = db.refine(model, shards, own, rounds=ROUNDS, rng=rng)
    again = db.refine(model, shards, own, rounds=ROUNDS, restarts=RESTARTS, rng=rng)
    wide = replace(model, components=2 * model.components)
    more = [wide.fit(shard, rng=rng).posterior for shard in shards]
    joined = db.refine(wide, shards, more, rounds=3, components=model.components, rng=rng)
    joined = db.refine(model, shards, joined.posteriors, rounds=ROUNDS - 6, rng=rng)
    return {
        "one site": own,
        "one to one": db.merge(own, solver=db.solvers.Matching()),
        "merged": refined.rounds[0],
        "refined": refined.merged,
        "best of 5": again.merged,
        "wide": joined.merged,
    }


def stepmix(model, train, test, seed, seconds):
    """StepMix on the same numbers; it has no counts."""
    kinds = {column.kind for column in model.columns.values()}
    if "count" in kinds:
        return {}
    from stepmix.stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    frames = [standardised(model, part) for part in (train, test)]
    named = {"real": "continuous_nan", "yes/no": "binary_nan", "categorical": "categorical_nan"}
    groups = {
        named[kind]: [name for name, column in model.columns.items() if column.kind == kind] for kind in sorted(kinds)
    }
    data, descriptor = get_mixed_descriptor(dataframe=frames[0], **groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = StepMix(
            n_components=model.components,
            measurement=descriptor,
            n_init=STARTS,
            random_state=seed,
            progress_bar=0,
            verbose=0,
            max_iter=200,
            abs_tol=1e-5,
        )
        begin = time.process_time()
        estimator.fit(data)
        theirs = time.process_time() - begin
        held, _ = get_mixed_descriptor(dataframe=frames[1], **groups)
        found = estimator.score(held)
    return {"StepMix": float(found), "StepMix seconds": theirs, "times as fast": theirs / seconds}


def standardised(model, points):
    frame = pd.DataFrame(points, columns=list(model.columns))
    for name, column in model.columns.items():
        if isinstance(column, Gaussian):
            frame[name] = (frame[name] - column.centre) / column.scale
    return frame


if __name__ == "__main__":
    main()
