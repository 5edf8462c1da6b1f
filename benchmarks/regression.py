"""Regressions of several sites: one broadcast and three rounds, against one fit of all rows and against averages.

    python benchmarks/regression.py [--quick] [--seeds N]

Diabetes (linear), breast cancer (logistic) and RAND (Poisson), ten sites at random, or rows sorted by the target and
then cut into ten: sites that hardly vary in what is to be predicted, and fits of single sites that are separable. A
third of the rows is held out. `apart` is the largest distance of a coefficient from that of one fit of all rows, in its
posterior standard deviations; `score` the mean log predictive density of held-out rows. The last line is JSON.

Averages are over the sites' own fits: plain, ridge (the same prior as here), and weighted by inverse variances, which
is what a meta-analysis with fixed effects does. scikit-learn fits all rows with the same penalty.
"""

import argparse
import json
import os
import time
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np
from scipy.special import expit, gammaln, log_expit
from sklearn import linear_model
from sklearn.datasets import load_breast_cancer, load_diabetes

import decbayes as db

SITES, ROUNDS = 10, 3


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


DATA = {"diabetes": diabetes, "breast cancer": cancer, "RAND": visits}


def log_likelihood(model, design, targets, beta):
    """At a point estimate, for methods that have nothing else; noise as large as the training residuals."""
    if isinstance(model, db.LogisticRegression):
        return log_expit((2 * targets - 1) * (design @ beta)).mean()
    if isinstance(model, db.PoissonRegression):
        return (targets * (design @ beta) - np.exp(design @ beta) - gammaln(targets + 1)).mean()
    residual = model.in_units(targets) - design @ beta
    variance = residual.var()
    return -0.5 * np.log(2 * np.pi * variance) - 0.5 - np.log(model.target_units()[0])


def maximum(model, design, targets, penalty):
    """Coefficients of largest penalised likelihood and their inverse variances, by Newton's method."""
    if isinstance(model, db.LinearRegression):
        y = model.in_units(targets)
        hessian = design.T @ design + penalty * np.eye(design.shape[1])
        beta = np.linalg.lstsq(hessian, design.T @ y, rcond=None)[0]
        noise = np.sum((y - design @ beta) ** 2) / max(len(y) - len(beta), 1)
        return beta, hessian / max(noise, 1e-9)
    beta = np.zeros(design.shape[1])
    if isinstance(model, db.PoissonRegression):
        beta[0] = np.log(targets.mean() + 0.1)
    for _ in range(30):
        f = np.clip(design @ beta, -30, 30)
        rate = expit(f) if isinstance(model, db.LogisticRegression) else np.exp(f)
        weight = rate * (1 - rate) if isinstance(model, db.LogisticRegression) else rate
        hessian = design.T @ (weight[:, None] * design) + (penalty + 1e-9) * np.eye(len(beta))
        step = np.linalg.lstsq(hessian, design.T @ (targets - rate) - penalty * beta, rcond=None)[0]
        beta = beta + step / max(1.0, np.abs(step).max() / 5.0)
    return beta, hessian


def pooled(model, design, targets, penalty):
    """scikit-learn's own fit of all rows, and its seconds."""
    begin = time.process_time()
    if isinstance(model, db.LinearRegression):
        beta = linear_model.Ridge(alpha=penalty, fit_intercept=False).fit(design, model.in_units(targets)).coef_
    elif isinstance(model, db.LogisticRegression):
        found = linear_model.LogisticRegression(C=1 / penalty, fit_intercept=False, max_iter=5000, tol=1e-8)
        beta = found.fit(design, targets).coef_[0]
    else:
        found = linear_model.PoissonRegressor(
            alpha=penalty / len(design), fit_intercept=False, solver="newton-cholesky", max_iter=5000
        )
        beta = found.fit(design, targets).coef_
    return beta, time.process_time() - begin


def one_run(name, split, seed):
    rng = np.random.default_rng(seed)
    model, data = DATA[name]()
    points = model.points(data)
    held = rng.random(len(points)) < 1 / 3
    train, test = points[~held], points[held]
    order = rng.permutation(len(train))
    if split == "by target":
        order = order[np.argsort(train[order, list(model.columns).index(model.target)], kind="stable")]
    shards = [train[part] for part in np.array_split(order, SITES)]
    begin = time.process_time()
    batch = model.fit(train, rng=rng).posterior
    ours = time.process_time() - begin
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    refined = db.refine(model, shards, posteriors, rounds=ROUNDS, rng=rng)
    mean, spread, _, _ = model.interval(batch, 0.9)
    design, targets = model.parts(test)
    figures = {"batch": {"score": model.score(batch, test), "seconds": ours}}

    def apart(beta):
        return float(np.abs((beta - mean) / spread).max())

    for label, posterior in {"merged": refined.rounds[0], f"{ROUNDS} rounds": refined.merged}.items():
        figures[label] = {"score": model.score(posterior, test), "apart": apart(model.interval(posterior, 0.9)[0])}
    penalty = 1 / model.prior_variance
    all_rows = model.parts(train)
    beta, seconds = pooled(model, *all_rows, penalty)
    own = [model.parts(shard) for shard in shards]
    plain = [maximum(model, *part, 0.0)[0] for part in own]
    ridge = [maximum(model, *part, penalty) for part in own]
    weights = [hessian for _, hessian in ridge]
    meta = np.linalg.solve(sum(weights), sum(h @ b for b, h in ridge))
    others = {"scikit-learn, all rows": beta, "mean of sites": np.mean(plain, axis=0)}
    others |= {"mean of ridge": np.mean([b for b, _ in ridge], axis=0), "inverse variance": meta}
    for label, found in others.items():
        figures[label] = {"score": float(log_likelihood(model, design, targets, found)), "apart": apart(found)}
    figures["scikit-learn, all rows"]["seconds"] = seconds
    return figures


def medians(runs):
    return {
        label: {key: float(np.median([run[label][key] for run in runs])) for key in runs[0][label]} for label in runs[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    figures = {}
    for name in DATA:
        for split in ("random", "by target"):
            found = medians([one_run(name, split, seed) for seed in range(1 if arguments.quick else arguments.seeds)])
            figures[f"{name}, {split}"] = found
            print(f"{name}, {split}")
            for label, each in found.items():
                print(f"  {label:26}", {key: round(value, 4) for key, value in each.items()}, flush=True)
    print(json.dumps({"benchmark": "regression", **figures}))


if __name__ == "__main__":
    main()
