"""How often 90 % intervals of regressions hold the truth, after one broadcast and after three rounds.

    python benchmarks/coverage_regression.py [--quick] [--worlds N] [--only NAME] [--one-fit]

Data are drawn from each model with known coefficients (an intercept and two slopes), at 5 sites of 100 and at 30 sites
of 30 rows. Coverage is over all coefficients but the baseline, with its standard error (worlds are independent,
coefficients of a world are not). "robust" are clustered Poisson counts with plain and with robust errors. "between" is
the standard deviation of an intercept between sites, 0.5: intervals of mean field, of linear response, and with a
half-Cauchy prior (`db.calibrate`'s default). "correlated" are an intercept and a slope that vary together (deviations
0.8 and 0.5, correlation 0.5), "wards" three groups inside each site (deviations 0.8 and 0.5), both linear. These three
and "robust, one fit" are one fit of all rows, which rounds come to; that takes a twentieth of the time. The last line
is JSON.
"""

import argparse
import json
import os
import warnings
from functools import partial

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from scipy.special import expit

import decbayes as db

SLOPES = np.array([0.5, -0.3])
SIZES = {5: 100, 30: 30}
REALS = {"x": "real", "z": "real"}


def predictors(rng, size):
    return {"x": rng.normal(size=size), "z": rng.normal(size=size)}


def line(frame):
    return SLOPES @ np.array([frame["x"], frame["z"]])


def linear(rng, size):
    frame = predictors(rng, size)
    return frame | {"y": 1.0 + line(frame) + rng.normal(size=size)}


def logistic(rng, size):
    frame = predictors(rng, size)
    return frame | {"y": rng.random(size) < expit(-0.5 + line(frame))}


def counts(rng, size):
    frame = predictors(rng, size)
    return frame | {"y": rng.poisson(np.exp(0.3 + line(frame)))}


def dispersed(rng, size):
    frame = predictors(rng, size)
    return frame | {"y": rng.poisson(np.exp(0.3 + line(frame)) * rng.gamma(2.0, 0.5, size))}


def times(rng, size):
    frame = predictors(rng, size)
    died, lost = rng.exponential(3.0 * np.exp(-line(frame))), rng.uniform(1, 6, size)
    return frame | {"t": np.minimum(died, lost), "y": died < lost}


def ordered(rng, size):
    frame = predictors(rng, size)
    further = rng.random((size, 2)) < expit(0.3 + line(frame))[:, None]
    return frame | {"y": np.array(["low", "middle", "high"])[np.cumprod(further, axis=1).sum(axis=1)]}


def proportional(rng, size):
    frame = predictors(rng, size)
    return frame | {
        "y": np.array(["low", "middle", "high"])[np.digitize(line(frame) + rng.logistic(size=size), [-0.7, 1])]
    }


def unordered(rng, size):
    """Two levels against "a"; the slopes of "c" are the others' with the other sign."""
    frame = predictors(rng, size)
    heights = np.column_stack([np.zeros(size), 0.3 + line(frame), -0.2 - line(frame)])
    return frame | {"y": np.array(["a", "b", "c"])[(heights + rng.gumbel(size=(size, 3))).argmax(axis=1)]}


def survival_model():
    columns = {"y": "yes/no", "t": "real", **REALS}
    return db.SurvivalRegression("y", columns=columns, time="t", cuts=(0.7, 1.5, 3.0), rate=0.3)


MODELS = {
    "linear": (linear, lambda: db.LinearRegression("y", columns={"y": "real", **REALS})),
    "logistic": (logistic, lambda: db.LogisticRegression("y", columns={"y": "yes/no", **REALS})),
    "Poisson": (counts, lambda: db.PoissonRegression("y", columns={"y": "count", **REALS})),
    "negative binomial": (
        dispersed,
        lambda: db.NegativeBinomialRegression("y", columns={"y": "count", **REALS}, dispersion=2.0),
    ),
    "survival": (times, survival_model),
    "ordered": (
        ordered,
        lambda: db.OrderedRegression("y", columns={"y": db.columns.Categorical("low", "middle", "high"), **REALS}),
    ),
    "cumulative": (
        proportional,
        lambda: db.OrderedRegression(
            "y", columns={"y": db.columns.Categorical("low", "middle", "high"), **REALS}, link="cumulative"
        ),
    ),
    "multinomial": (
        unordered,
        lambda: db.MultinomialRegression("y", columns={"y": db.columns.Categorical("a", "b", "c"), **REALS}),
    ),
}
# What coefficients of terms are called, and their truth, where that is not the term and its slope.
NAMED = {
    "multinomial": {
        f"{level}: {term}": sign * slope
        for level, sign in (("b", 1), ("c", -1))
        for term, slope in zip(("x", "z"), SLOPES, strict=True)
    }
}


def held(model, posterior, truth=None):
    rows = {row["term"]: row for row in model.coefficients(posterior)}
    truth = truth or dict(zip(("x", "z"), SLOPES, strict=True))
    return float(np.mean([rows[name]["low"] <= slope <= rows[name]["high"] for name, slope in truth.items()]))


def of_model(name, sites, seed, one_fit=False):
    draw, made = MODELS[name]
    rng, model = np.random.default_rng(seed), made()
    shards = [draw(rng, SIZES[sites]) for _ in range(sites)]
    if one_fit:
        return {"one fit": held(model, model.fit(together(shards)).posterior, NAMED.get(name))}
    sent = [model.fit_site(shard).posterior for shard in shards]
    merged, refined = db.merge(sent), db.refine(model, shards, sent, rounds=3).merged
    posteriors = {"one broadcast": merged, "refined": refined}
    return {label: held(model, posterior, NAMED.get(name)) for label, posterior in posteriors.items()}


def clustered(sites, seed):
    """Clusters of five rows with a rate of their own each."""
    rng, shards, clusters = np.random.default_rng(seed), [], []
    for _ in range(sites):
        cluster = np.repeat(np.arange(SIZES[sites] // 5), 5)
        frame = {name: values[cluster] for name, values in predictors(rng, len(cluster) // 5).items()}
        rate = np.exp(0.3 + line(frame)) * rng.gamma(2.0, 0.5, len(cluster) // 5)[cluster]
        shards.append(frame | {"y": rng.poisson(rate)})
        clusters.append(cluster)
    return shards, clusters


def robust(sites, seed):
    model, (shards, clusters) = MODELS["Poisson"][1](), clustered(sites, seed)
    merged = db.merge([model.fit_site(shard).posterior for shard in shards])
    wide = db.calibrate(model, shards, merged, method="robust", clusters=clusters)
    return {"plain": held(model, merged), "robust": held(model, wide)}


def one_fit(sites, seed):
    model, (shards, clusters) = MODELS["Poisson"][1](), clustered(sites, seed)
    rows = together(shards)
    fitted = model.fit(rows).posterior
    labels = [f"{site} {label}" for site, each in enumerate(clusters) for label in each]
    wide = db.calibrate(model, [rows], fitted, method="robust", clusters=[labels])
    return {"plain": held(model, fitted), "robust": held(model, wide)}


def between(sites, seed, deviation=0.5):
    rng = np.random.default_rng(seed)
    model = db.LogisticRegression("y", columns={"y": "yes/no", **REALS}, varying=("intercept",), by="site")
    shards = []
    for _ in range(sites):
        frame = predictors(rng, SIZES[sites])
        drawn = rng.random(SIZES[sites]) < expit(-0.5 + line(frame) + deviation * rng.normal())
        shards.append(frame | {"y": drawn})
    return of_deviations(model, all_rows(shards), [deviation])


def all_rows(shards):
    named = [shard | {"site": np.repeat(str(site), len(shard["y"]))} for site, shard in enumerate(shards)]
    return together(named)


def together(shards):
    return {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0]}


def of_deviations(model, rows, truth, correlation=None):
    """The share of slopes, deviations between groups and correlations that intervals of each kind hold."""
    fitted, shares = model.fit(rows).posterior, {}
    methods = ("linear response", "half-Cauchy")
    posteriors = {name: db.calibrate(model, [rows], fitted, method=name) for name in methods}
    for name, each in {"mean field": fitted, **posteriors}.items():
        shares[name] = held_by(model.between(each), truth)
        if correlation is not None:
            shares[f"correlation, {name}"] = held_by(model.correlations(each), [correlation])
    return {"slopes": held(model, fitted), **shares}


def held_by(rows, truth):
    return float(np.mean([row["low"] <= true <= row["high"] for row, true in zip(rows, truth, strict=True)]))


def correlated(sites, seed, deviations=(0.8, 0.5), correlation=0.5):
    rng = np.random.default_rng(seed)
    names = {"varying": ("intercept", "x"), "correlated": True, "by": "site"}
    model = db.LinearRegression("y", columns={"y": "real", **REALS}, **names)
    between = np.outer(deviations, deviations) * np.array([[1.0, correlation], [correlation, 1.0]])
    shards = []
    for _ in range(sites):
        frame, own = linear(rng, SIZES[sites]), rng.multivariate_normal([0.0, 0.0], between)
        shards.append(frame | {"y": frame["y"] + own[0] + own[1] * frame["x"]})
    return of_deviations(model, all_rows(shards), deviations, correlation)


def wards(sites, seed, deviations=(0.8, 0.5), inside=3):
    rng = np.random.default_rng(seed)
    names = {"varying": ("intercept",), "varying_within": ("intercept",), "within": "ward", "by": "site"}
    model = db.LinearRegression("y", columns={"y": "real", **REALS}, **names)
    shards = []
    for _ in range(sites):
        frame, ward = linear(rng, SIZES[sites]), np.arange(SIZES[sites]) % inside
        own = deviations[0] * rng.normal() + deviations[1] * rng.normal(size=inside)[ward]
        shards.append(frame | {"y": frame["y"] + own, "ward": ward.astype(str)})
    return of_deviations(model, all_rows(shards), deviations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ten data sets")
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--sites", type=int, choices=[*SIZES], help="only with so many sites")
    parser.add_argument("--one-fit", action="store_true", help="one fit of all rows instead of a merge and rounds")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    measured = {name: partial(of_model, name, one_fit=arguments.one_fit) for name in MODELS}
    measured |= {
        "robust": robust,
        "robust, one fit": one_fit,
        "between": between,
        "correlated": correlated,
        "wards": wards,
    }
    table = {}
    for name, measure in ((name, measure) for name, measure in measured.items() if arguments.only in name):
        for sites in [arguments.sites] if arguments.sites else SIZES:
            worlds = 10 if arguments.quick else arguments.worlds
            runs = [measure(sites, arguments.first + seed) for seed in range(worlds)]
            for label in runs[0]:
                values = np.array([run[label] for run in runs])
                error = float(values.std(ddof=1) / np.sqrt(len(values)))
                table[f"{name}, {sites} sites of {SIZES[sites]}, {label}"] = (
                    round(float(values.mean()), 3),
                    round(error, 3),
                )
                print(
                    f"{name}, {sites} sites of {SIZES[sites]}, {label}: {values.mean():.3f} ± {error:.3f}", flush=True
                )
    print(json.dumps({"benchmark": "coverage_regression", **table}))


if __name__ == "__main__":
    main()
