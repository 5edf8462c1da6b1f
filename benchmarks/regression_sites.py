"""Regressions: one broadcast by the number of rows per site, and sites that differ.

    python benchmarks/regression_sites.py [--quick] [--seeds N] [--only NAME]

First one broadcast by the number of rows per site, six coefficients and ten sites, where the model holds: the largest
distance of a coefficient from that of one fit of all rows, in its posterior standard deviations.

Then sites that differ, each with an intercept of its own, which the model knows (`varying`): how far five rounds are
from one fit of all rows, how often 90 % intervals of the mean intercept hold the truth, and how wide they are, next to
a meta-analysis with fixed and with random effects (DerSimonian and Laird) of the sites' own fits, and to statsmodels'
MixedLM of all rows (linear only). The last line is JSON.

The data sets here are those that `one_broadcast.py` compares other summaries on; `regression.py` has the table beside
other methods.
"""

import argparse
import itertools
import json
import os
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes

import decbayes as db

SITES = 10


def diabetes():
    data = load_diabetes(as_frame=True, scaled=False).frame
    return db.LinearRegression.from_frame(data, target="target", kinds=dict.fromkeys(data, "real")), data


def cancer():
    """Ten means of the cells' features: all thirty are nearly collinear, and separate the two kinds."""
    data = load_breast_cancer(as_frame=True).frame
    data = data[[name for name in data if name.startswith("mean")] + ["target"]]
    return db.LogisticRegression.from_frame(data, target="target", report=print), data


def visits():
    from statsmodels.datasets import randhie

    data = randhie.load_pandas().data.iloc[::4]
    kinds = dict.fromkeys(data.columns.drop("mdvis"), "real")
    return db.PoissonRegression.from_frame(data, target="mdvis", kinds=kinds), data


def made_up(kind, extra=0.0):
    """Rows of the model itself, with random coefficients; `extra` makes counts vary more than it allows."""

    def rows():
        rng = np.random.default_rng(7)
        columns = {f"x{place}": "real" for place in range(5)}
        model = kind("y", columns={**columns, "y": kind.outcome.holds()})
        x = rng.normal(size=(900, 5))
        f = x @ rng.normal(0, 0.5, 5) + extra * rng.standard_normal(900)
        drawn = rng.random(900) < expit(f) if kind is db.LogisticRegression else rng.poisson(np.exp(f))
        return model, np.column_stack([x, drawn])

    return rows


DATA = {
    "diabetes": diabetes,
    "breast cancer": cancer,
    "RAND": visits,
    "made up, logistic": made_up(db.LogisticRegression),
    "made up, Poisson": made_up(db.PoissonRegression),
    "overdispersed, Poisson": made_up(db.PoissonRegression, 1.0),
}


def shards_of(name, split, rng, sites=SITES):
    """The model, each site's rows, all of them, and those that are held out."""
    model, data = DATA[name]()
    points = model.points(data)
    held = rng.random(len(points)) < 1 / 3
    train = points[~held]
    order = rng.permutation(len(train))
    if split == "by target":
        order = order[np.argsort(train[order, list(model.columns).index(model.target)], kind="stable")]
    return model, [train[part] for part in np.array_split(order, sites)], train, points[held]


def passed_on(model, shards, rng):
    """One site after the other, in random order, each with all before it as its prior."""
    held = None
    for place in rng.permutation(len(shards)):
        held = model.fit(shards[place], prior=held, rng=rng).posterior
    return held


def by_size(kind, rows, prior_variance, seed):
    """How far one broadcast of ten sites with so many rows each is from one fit of all, where the model holds."""
    rng = np.random.default_rng(seed)
    columns = {f"x{place}": "real" for place in range(5)}
    model = kind("y", columns={**columns, "y": kind.outcome.holds()}, prior_variance=prior_variance)
    x = rng.normal(size=(SITES * rows, 5))
    f = x @ rng.normal(0, 0.5, 5)
    drawn = rng.random(len(f)) < expit(f) if kind is db.LogisticRegression else rng.poisson(np.exp(f))
    points = np.column_stack([x, drawn])
    merged = db.merge([model.fit_site(part).posterior for part in np.array_split(points, SITES)])
    mean, spread, _, _ = model.outcome.interval(model.fit(points, rng=rng).posterior.natural["coefficients"], 0.9)
    return float(np.abs((model.outcome.interval(merged.natural["coefficients"], 0.9)[0] - mean) / spread).max())


TRUTH, BETWEEN = 0.5, 0.7


def unlike_sites(kind, sites, rows, rng):
    """Frames of sites whose intercepts differ."""
    frames = []
    for site in range(sites):
        x = rng.normal(size=rows)
        f = TRUTH + BETWEEN * rng.standard_normal() + 0.4 * x
        drawn = {
            db.LinearRegression: f + rng.standard_normal(rows),
            db.LogisticRegression: rng.random(rows) < expit(f),
            db.PoissonRegression: rng.poisson(np.exp(f)),
        }[kind]
        frames.append(pd.DataFrame({"x": x, "y": drawn, "site": f"s{site}"}))
    return frames


def meta(estimates, errors):
    """Mean and standard error of a meta-analysis, by fixed and by random effects."""
    weights = errors**-2.0
    mean = np.average(estimates, weights=weights)
    excess = np.sum(weights * (estimates - mean) ** 2) - (len(weights) - 1)
    between = max(0.0, excess / (weights.sum() - np.sum(weights**2) / weights.sum()))
    wider = 1.0 / (errors**2 + between)
    return (mean, weights.sum() ** -0.5), (np.average(estimates, weights=wider), wider.sum() ** -0.5)


def differing(kind, sites, rows, seed):
    """Estimates of the mean intercept and their half widths, and the distance of five rounds from one fit."""
    rng = np.random.default_rng(seed)
    frames = unlike_sites(kind, sites, rows, rng)
    columns = {"x": "real", "y": kind.outcome.holds()}
    fixed, varying = kind("y", columns=columns), kind("y", columns=columns, varying=("intercept",))
    alone = [fixed.fit(frame, rng=rng).posterior for frame in frames]
    rows_of = [fixed.coefficients(posterior)[0] for posterior in alone]
    averaged = meta(*(np.array([row[part] for row in rows_of]) for part in ("mean", "deviation")))
    posteriors = [varying.fit(frame, rng=rng).posterior for frame in frames]
    refined = db.refine(varying, frames, posteriors, rounds=5, rng=rng, schedule="parallel")
    whole = kind("y", columns=columns, varying=("intercept",), by="site")
    exact = whole.coefficients(whole.fit(pd.concat(frames), rng=rng).posterior)
    found = varying.coefficients(refined.merged)
    told = {"merged as if alike": fixed.coefficients(db.merge(alone))[0], "varying, 5 rounds": found[0]}
    intervals = {name: (row["low"], row["high"]) for name, row in told.items()}
    for name, (mean, error) in zip(("fixed effects", "random effects"), averaged, strict=True):
        intervals[name] = (mean - 1.645 * error, mean + 1.645 * error)
    if kind is db.LinearRegression:
        intervals["MixedLM, all rows"] = mixed(pd.concat(frames))
    apart = max(abs(a["mean"] - b["mean"]) / b["deviation"] for a, b in zip(found, exact, strict=True))
    return intervals, apart


def mixed(frame):
    import statsmodels.formula.api as smf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = smf.mixedlm("y ~ x", frame, groups=frame["site"]).fit()
    low, high = found.conf_int(alpha=0.1).loc["Intercept"]
    return float(low), float(high)


def of_differing(kind, sites, rows, seeds):
    runs = [differing(kind, sites, rows, seed) for seed in range(seeds)]
    figures = {"apart": round(float(np.median([apart for _, apart in runs])), 5)}
    for name in runs[0][0]:
        ends = np.array([intervals[name] for intervals, _ in runs])
        held = (ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH)
        figures[name] = {
            "held": round(float(held.mean()), 3),
            "wide": round(float(np.nanmedian(np.ptp(ends, axis=1))), 3),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="a part of the name of what to measure, such as differ")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    figures = {}
    for kind, prior in itertools.product((db.LogisticRegression, db.PoissonRegression), (10.0,)):
        name = f"{kind.__name__}, merged, by rows per site"
        if arguments.only in name:
            sizes = (15, 30, 60, 120, 250, 500)
            seeds = range(1 if arguments.quick else arguments.seeds)
            runs = {rows: [by_size(kind, rows, prior, seed) for seed in seeds] for rows in sizes}
            figures[name] = {rows: round(float(np.median(found)), 3) for rows, found in runs.items()}
            print(name, figures[name], flush=True)
    for kind, sites in itertools.product((db.LinearRegression, db.LogisticRegression, db.PoissonRegression), (6, 20)):
        name = f"{kind.__name__}, {sites} sites that differ"
        if arguments.only in name:
            figures[name] = of_differing(kind, sites, 40, 5 if arguments.quick else 20 * arguments.seeds)
            print(f"{name}, 40 rows each: 90 % intervals of the mean intercept")
            for label, each in figures[name].items():
                print(f"  {label:26}", each, flush=True)
    print(json.dumps({"benchmark": "regression_sites", **figures}))


if __name__ == "__main__":
    main()
