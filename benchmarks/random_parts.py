"""How often random parts of one real table are said to differ, and parts of which some were moved.

    python benchmarks/random_parts.py [--sets N] [--skip N] [--only TEXT] [--moved] [--quick]

No model is true of these tables, and their parts are the same. Each line is a table, a model and a number of sites, and
how often p < 0.05, with its standard error over sets: as posteriors are ("plain"), and where sites state how far random
halves of their own rows are apart ("halves"). It should be 5 %. With --moved, every third site differs: half a
deviation of the first column of clusters, half a deviation per deviation of the first predictor, or an odds or rate
ratio of 1.6; then it should be often. `tuned` are the tables on which the rule was chosen, `new` those looked at
afterwards, `inside` data from the model. The last line is one JSON object.
"""

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

sys.path.sort(key=lambda folder: folder == str(Path(__file__).parent))
for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np

import decbayes as db

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.87]])
MOST_ROWS = 1500
KINDS = {
    "linear": (db.LinearRegression, "real"),
    "logistic": (db.LogisticRegression, "yes/no"),
    "Poisson": (db.PoissonRegression, "count"),
}


def of_sklearn(name, columns):
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")().data[:, columns]


def of_statsmodels(name, columns):
    return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data[columns].to_numpy(dtype=float)


def some(rows, rng):
    """A sample of complete rows, in random order."""
    rows = rows[np.isfinite(rows).all(axis=1)]
    return rows[rng.permutation(len(rows))[:MOST_ROWS]]


def standard(columns):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def clusters(table, covariance, count):
    def drawn(rng, sites, moved):
        rows = standard(some(table(), rng))
        model = db.GaussianMixture(count, rows.shape[1], covariance=covariance)
        shards = np.array_split(rows, sites)
        return model, [
            shard + 0.5 * (moved and site % 3 == 0) * np.eye(rows.shape[1])[0] for site, shard in enumerate(shards)
        ]

    return drawn


def classes(table, kinds, count):
    """Latent classes of columns of these kinds; real ones are standardized."""

    def drawn(rng, sites, moved):
        rows = some(table(), rng)
        real = [place for place, kind in enumerate(kinds) if kind == "real"]
        counts = [place for place, kind in enumerate(kinds) if kind == "count"]
        rows[:, real], rows[:, counts] = standard(rows[:, real]), np.floor(rows[:, counts])
        model = db.LatentClasses(count, columns={f"c{place}": kind for place, kind in enumerate(kinds)})
        shards = np.array_split(rows, sites)
        for shard in shards[::3] if moved else []:
            shard[:, real[0]] += 0.5
        return model, shards

    return drawn


def regression(kind, table):
    """The last column by the others, which are standardized."""

    def drawn(rng, sites, moved):
        rows = some(table(), rng)
        rows[:, :-1] = standard(rows[:, :-1])
        if kind == "linear":
            rows[:, -1] = standard(rows[:, -1])
        shards = np.array_split(rows, sites)
        for shard in shards[::3] if moved else []:
            shard[:, -1] = outcomes(kind, shard, rng)
        make, outcome = KINDS[kind]
        names = {f"x{place}": "real" for place in range(rows.shape[1] - 1)}
        return make("y", columns={**names, "y": outcome}), shards

    return drawn


def outcomes(kind, rows, rng):
    """Outcomes with another effect of the first predictor."""
    ratio = np.exp(0.5 * rows[:, 0])
    if kind == "linear":
        return rows[:, -1] + 0.5 * rows[:, 0]
    if kind == "Poisson":
        return np.where(
            ratio > 1.0,
            rows[:, -1] + rng.poisson(rows[:, -1] * np.maximum(ratio - 1.0, 0.0)),
            rng.binomial(rows[:, -1].astype(int), np.minimum(ratio, 1.0)),
        )
    share = rows[:, -1].mean()
    up = np.clip(share * ratio / (1.0 - share + share * ratio), 0.0, 1.0)
    gains = (rows[:, -1] == 0) & (rng.random(len(rows)) < np.maximum(up - share, 0.0) / (1.0 - share))
    losses = (rows[:, -1] == 1) & (rng.random(len(rows)) < np.maximum(share - up, 0.0) / share)
    return np.where(gains, 1.0, np.where(losses, 0.0, rows[:, -1]))


def inside_clusters(covariance, apart, rows):
    def drawn(rng, sites, moved):
        centres = apart * CORNERS
        model, shards = db.GaussianMixture(3, 2, covariance=covariance), []
        for site in range(sites):
            labels = rng.choice(3, size=rows, p=rng.dirichlet([5, 5, 5]))
            shards.append(
                (centres + 0.5 * (moved and site % 3 == 0) * np.eye(2)[0])[labels] + rng.normal(size=(rows, 2))
            )
        return model, shards

    return drawn


def drawn_outcomes(kind, linear, rng):
    if kind == "linear":
        return linear + rng.normal(size=len(linear))
    if kind == "logistic":
        return (rng.random(len(linear)) < 1.0 / (1.0 + np.exp(-linear))).astype(float)
    return rng.poisson(np.exp(linear)).astype(float)


def inside_regression(kind, rows):
    def drawn(rng, sites, moved):
        shards = []
        for site in range(sites):
            x = rng.normal(size=(rows, 3))
            linear = x @ [0.5 + 0.5 * (moved and site % 3 == 0), -0.3, 0.4] - 0.2
            shards.append(np.column_stack([x, drawn_outcomes(kind, linear, rng)]))
        make, outcome = KINDS[kind]
        return make("y", columns={"x0": "real", "x1": "real", "x2": "real", "y": outcome}), shards

    return drawn


def cancer(columns):
    return lambda: of_sklearn("breast_cancer", columns)


def table(name, columns):
    return lambda: of_statsmodels(name, columns)


def digits():
    pixels = of_sklearn("digits", slice(None))
    return standard(np.linalg.svd(pixels - pixels.mean(axis=0), full_matrices=False)[0][:, :5])


def affairs(columns, change):
    def rows():
        given = of_statsmodels("fair", [*columns, "affairs"])
        given[:, -1] = change(given[:, -1])
        return given

    return rows


MARRIED = ["rate_marriage", "age", "children"]
STARS = ["LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PERMINTE"]
SETTINGS = {
    "tuned, iris, diagonal": (clusters(lambda: of_sklearn("iris", slice(None)), "diagonal", 3), 3),
    "tuned, wine, diagonal": (clusters(lambda: of_sklearn("wine", slice(0, 5)), "diagonal", 3), 3),
    "tuned, cancer, diagonal": (clusters(cancer(slice(0, 5)), "diagonal", 3), 3),
    "tuned, cancer, diagonal, 8 sites": (clusters(cancer(slice(0, 5)), "diagonal", 2), 8),
    "tuned, fair, diagonal": (
        clusters(table("fair", ["rate_marriage", "age", "yrs_married", "educ"]), "diagonal", 3),
        3,
    ),
    "tuned, star98, diagonal": (clusters(table("star98", STARS), "diagonal", 3), 3),
    "tuned, star98, diagonal, 8 sites": (clusters(table("star98", STARS), "diagonal", 2), 8),
    "tuned, star98, full": (clusters(table("star98", STARS), "full", 3), 3),
    "tuned, engel, linear": (regression("linear", table("engel", ["income", "foodexp"])), 5),
    "tuned, cancer, linear": (regression("linear", cancer([0, 4, 13])), 10),
    "tuned, star98, linear": (regression("linear", table("star98", ["LOWINC", "PERASIAN", "PERBLACK", "NABOVE"])), 10),
    "tuned, randhie, linear": (regression("linear", table("randhie", ["lncoins", "physlm", "disea", "mdvis"])), 10),
    "new, digits, diagonal": (clusters(digits, "diagonal", 3), 3),
    "new, digits, diagonal, 8 sites": (clusters(digits, "diagonal", 2), 8),
    "new, anes96, diagonal": (
        clusters(table("anes96", ["TVnews", "selfLR", "age", "educ", "income"]), "diagonal", 3),
        3,
    ),
    "new, cancer's worst, diagonal": (clusters(cancer(slice(20, 25)), "diagonal", 3), 3),
    "new, cancer's errors, diagonal": (clusters(cancer(slice(10, 15)), "diagonal", 3), 3),
    "new, cancer's errors, full, 8 sites": (clusters(cancer(slice(10, 15)), "full", 2), 8),
    "new, fair, classes, 6 sites": (
        classes(table("fair", ["rate_marriage", "children", "age", "religious"]), ["real", "count", "real", "real"], 3),
        6,
    ),
    "new, randhie, classes, 6 sites": (
        classes(table("randhie", ["lpi", "hlthg", "mdvis", "hlthf"]), ["real", "yes/no", "count", "yes/no"], 3),
        6,
    ),
    "new, fair, linear": (regression("linear", affairs(MARRIED, lambda y: y)), 10),
    "new, ccard, linear": (regression("linear", table("ccard", ["AGE", "INCOME", "OWNRENT", "AVGEXP"])), 5),
    "new, cancer's errors, linear": (regression("linear", cancer([10, 14, 17])), 10),
    "new, modechoice, linear": (regression("linear", table("modechoice", ["ttme", "invc", "hinc", "gc"])), 10),
    "new, fair, logistic": (regression("logistic", affairs(MARRIED, lambda y: y > 0)), 10),
    "new, anes96, logistic": (regression("logistic", table("anes96", ["age", "educ", "selfLR", "vote"])), 10),
    "new, anes96, Poisson": (regression("Poisson", table("anes96", ["age", "educ", "selfLR", "TVnews"])), 10),
    "new, fair, Poisson": (regression("Poisson", affairs(MARRIED, np.round)), 10),
    "new, randhie, Poisson": (regression("Poisson", table("randhie", ["lncoins", "physlm", "disea", "mdvis"])), 10),
    "inside, diagonal, apart, 10 × 60": (inside_clusters("diagonal", 6.0, 60), 10),
    "inside, full, apart, 5 × 100": (inside_clusters("full", 6.0, 100), 5),
    "inside, diagonal, overlapping, 5 × 300": (inside_clusters("diagonal", 3.0, 300), 5),
    "inside, linear, 5 × 15": (inside_regression("linear", 15), 5),
    "inside, linear, 30 × 15": (inside_regression("linear", 15), 30),
    "inside, linear, 10 × 60": (inside_regression("linear", 60), 10),
    "inside, logistic, 10 × 60": (inside_regression("logistic", 60), 10),
    "inside, Poisson, 10 × 60": (inside_regression("Poisson", 60), 10),
}


def p_values(model, shards, rng):
    """Of all slots or of the regression, plain and with halves."""
    fits = [model.fit_site(shard, rng=rng).posterior for shard in shards]
    stated = [db.checking.with_halves(model, fit, shard) for fit, shard in zip(fits, shards, strict=True)]
    return [
        compared.probability
        for sites in (fits, stated)
        for compared in db.checking.heterogeneity(db.align(sites)).values()
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--moved", action="store_true")
    parser.add_argument("--quick", action="store_true", help="two sets of each linear regression")
    options, rows = parser.parse_args(), []
    if options.quick:
        options.sets, options.only = 2, ", linear"
    for name, (drawn, sites) in SETTINGS.items():
        if options.only not in name:
            continue
        shares = []
        for seed in range(options.skip, options.skip + options.sets):
            rng = np.random.default_rng([seed, 31])
            model, shards = drawn(rng, sites, options.moved)
            plain, halves = p_values(model, shards, rng)
            known = np.isfinite(plain) & np.isfinite(halves)
            if known.any():
                shares.append([np.mean(part[known] < 0.05) for part in (plain, halves)])
        mean, error = np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(len(shares))
        figures = {"plain": round(mean[0], 3), "halves": round(mean[1], 3), "errors": error.round(3).tolist()}
        rows.append({"setting": name, "sites": sites, "sets": len(shares), **figures})
        print(
            f"{name:42} {sites:3} sites  plain {mean[0]:5.0%} ({error[0]:.0%})  halves {mean[1]:5.0%} ({error[1]:.0%})",
            flush=True,
        )
    print(json.dumps({"parts": rows}))


if __name__ == "__main__":
    main()
