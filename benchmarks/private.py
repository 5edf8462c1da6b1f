"""What differential privacy costs: errors and intervals of private merges beside the fit of all rows, and membership.

    python benchmarks/private.py [--quick] [--sets N] [--jobs N] [--only price,pooled,classes,clusters,membership]
                                 [--models NAME,…] [--epsilons E,…] [--sizes SITESxROWS,…] [--picture FILE]

*Price*: regressions of five predictors (two of them bounded, one without effect) and an intercept, δ = 1e-5. Each data
set is released in five rounds, by every site with all of the noise ("each"), or with one noise for the sum ("shared",
nobody colludes). Printed are the root mean square error in units of that of the ordinary fit of all rows, and the share
of 90 % intervals that hold. Noise is drawn as in releases, from the operating system: figures differ from run to run
within their standard errors. *Pooled* is a private logistic regression of all rows in one place by objective
perturbation: in our own code, and diffprivlib's where it is installed (it needs scikit-learn before 1.6).

*Classes*: four classes over eight columns of three categories. Printed is how much of what the ordinary fit of all rows
gains over one class, in held-out score, the private merge keeps.

*Clusters*: five in a plane, the same share; and the number of clusters that the noisy histograms say.

*Membership*: how often the best linear test ranks a record that was used above one that was not, given all releases of
one site, with noise and without. The last line is a JSON object.
"""

import argparse
import json
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import decbayes as db
from decbayes.privacy import summed
from decbayes.privacy.releasing import GRID

try:
    import diffprivlib.models
except ImportError:  # not installed, or for another scikit-learn
    diffprivlib = None

DELTA, LEVEL = 1e-5, 0.9
LONGEST = np.sqrt(1.0 + 6.0**2)  # rows of five predictors are rarely longer; those that are count less
REALS = {f"x{place}": db.columns.Gaussian(0, 1) for place in range(5)}
KINDS = {
    "linear": (db.LinearRegression, db.columns.Gaussian(0, 1.5), (1.0, 0.8, -0.5, 0.3, 0.0, 0.6)),
    "logistic": (db.LogisticRegression, db.columns.YesNo(), (-0.5, 0.8, -0.5, 0.3, 0.0, 0.4)),
    "poisson": (db.PoissonRegression, db.columns.Poisson(mean=2.0), (0.5, 0.4, -0.3, 0.2, 0.0, 0.3)),
    "negative binomial": (
        partial(db.NegativeBinomialRegression, dispersion=2.0),
        db.columns.Poisson(mean=2.0),
        (0.5, 0.4, -0.3, 0.2, 0.0, 0.3),
    ),
}


class NoLedger:
    """Budgets are not what is measured."""

    def spend(self, spending):
        pass


def data_set(kind, rows, rng):
    """The model, rows, and the coefficients behind them."""
    build, target, truth = KINDS[kind]
    model, truth = build("y", columns={**REALS, "y": target}), np.array(truth)
    x = rng.standard_normal((rows, 5)).clip(-3, 3)
    x[:, 0], x[:, 1] = (rng.random(rows) < 0.4) - 0.5, rng.uniform(-1.73, 1.73, rows)
    line = truth[0] + x @ truth[1:]
    outcome = {
        "linear": lambda: line + rng.standard_normal(rows),
        "logistic": lambda: rng.random(rows) < 1 / (1 + np.exp(-line)),
        "poisson": lambda: rng.poisson(np.exp(line)),
        "negative binomial": lambda: rng.poisson(np.exp(line) * rng.gamma(2.0, 0.5, rows)),
    }[kind]()
    return model, np.column_stack([x, np.asarray(outcome, dtype=np.float64)]), truth


def privacy_of(epsilon, noise, sites):
    shared = {"noise": "shared", "sites": sites, "colluders": 0} if noise == "shared" else {}
    return db.Privacy(epsilon, DELTA, **shared)


def released(model, shards, privacy):
    """All rounds: the merge, and the releases."""
    anchor, releases = db.Posterior.of_prior(model.structure), []
    for _ in range(model.mechanism().rounds):
        sent = [model.release(anchor, rows, privacy, ledger=NoLedger(), site=str(n)) for n, rows in enumerate(shards)]
        releases += [summed(sent)] if privacy.noise == "shared" else sent
        anchor = db.private_merge(model.structure, releases)
    return anchor, releases


def judged(model, posterior, truth):
    """The mean squared error, and the share of intervals that hold."""
    rows = model.coefficients(posterior, level=LEVEL)
    errors = [row["mean"] - value for row, value in zip(rows, truth, strict=True)]
    hold = [row["low"] < value < row["high"] for row, value in zip(rows, truth, strict=True)]
    return float(np.mean(np.square(errors))), float(np.mean(hold))


def one_price(setting, seed):
    kind, (sites, rows), epsilon, noise = setting
    model, points, truth = data_set(kind, sites * rows, np.random.default_rng([7, seed]))
    merged, _ = released(model, np.split(points, sites), privacy_of(epsilon, noise, sites))
    plain = judged(model, model.fit(points).posterior, truth)
    together = pooled(points, epsilon, seed) if kind == "logistic" else {}
    errors = (np.mean((together.get(name, np.nan) - truth) ** 2) for name in ("own", "diffprivlib"))
    return *judged(model, merged.posterior, truth), *plain, merged.price, *errors


def pooled(points, epsilon, seed):
    """Coefficients of private logistic regressions of all rows in one place, by whose code it is."""
    rows = np.column_stack([np.ones(len(points)), points[:, :-1]])
    found = {"own": perturbed(rows, points[:, -1], epsilon, seed)}
    if diffprivlib is not None:
        model = diffprivlib.models.LogisticRegression(
            epsilon=epsilon, data_norm=LONGEST, C=1e4, fit_intercept=False, max_iter=1000, random_state=seed
        )
        found["diffprivlib"] = model.fit(rows, points[:, -1]).coef_[0]
    return found


def perturbed(rows, outcomes, epsilon, seed):
    """Objective perturbation (Chaudhuri, Monteleoni and Sarwate, 2011), which promises ε with δ = 0.

    A random slope is added to the mean loss.
    """
    rng = np.random.default_rng([17, seed])
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1), LONGEST)[:, None]
    signs, count, width = 2.0 * outcomes - 1.0, *rows.shape
    ridge = 1.0 / (1e4 * count)
    rest = epsilon - 2.0 * np.log1p(0.25 / (count * ridge))
    if rest <= 0.0:
        ridge, rest = 0.25 / (count * np.expm1(epsilon / 4.0)), epsilon / 2.0
    direction = rng.standard_normal(width)
    slope = rng.gamma(width, 2.0 / rest) * direction / np.linalg.norm(direction) / count

    def loss(line):
        margins = signs * (rows @ line)
        gradient = -(rows * (signs * expit(-margins))[:, None]).mean(axis=0)
        value = np.logaddexp(0.0, -margins).mean() + 0.5 * ridge * line @ line + slope @ line
        return value, gradient + ridge * line + slope

    return minimize(loss, np.zeros(width), jac=True, method="BFGS").x / LONGEST


def one_place(size, epsilon, seed):
    """Mean squared errors of both pooled regressions, and of the ordinary fit."""
    model, points, truth = data_set("logistic", size[0] * size[1], np.random.default_rng([7, 100 + seed]))
    lines = pooled(points, epsilon, seed)
    errors = [np.mean((lines.get(name, np.nan) - truth) ** 2) for name in ("own", "diffprivlib")]
    return *errors, judged(model, model.fit(points).posterior, truth)[0]


def in_one_place(sets, pool, sizes, epsilons):
    """Other data sets than those of prices, since nothing but the pooled regressions is compared."""
    print("\n| sites × rows | ε | pooled, own code | diffprivlib |")
    print("|---" * 4 + "|")
    found = {}
    for (sites, rows), epsilon in product(sizes, epsilons):
        errors = np.array([*pool.map(partial(one_place, (sites, rows), epsilon), range(sets))]).mean(axis=0)
        own, theirs = np.sqrt(errors[:2] / errors[2])
        print(f"| {sites} × {rows:,} | {epsilon:g} | {own:.2f} | {theirs:.2f} |", flush=True)
        found[f"{sites} × {rows}, ε = {epsilon:g}"] = [float(own), float(theirs)]
    return found


def price(setting, sets, pool):
    results = np.array([*pool.map(partial(one_price, setting), range(sets))])
    error, hold, plain_error, plain_hold, stated, *others = results.mean(axis=0)
    kind, (sites, rows), epsilon, noise = setting
    plan = "useless"
    try:
        model = data_set(kind, 2, np.random.default_rng(0))[0]
        found = db.private_plan(model, sites=sites, rows=rows, privacy=privacy_of(epsilon, noise, sites))
        plan = f"{found.price:.2f}"
    except db.errors.NotPrivate:
        pass
    ratio = np.sqrt(error / plain_error)
    print(
        f"| {kind} | {sites} × {rows:,} | {epsilon:g} | {noise} | {ratio:.2f} | {stated:.2f} | {plan} | {hold:.3f} "
        f"± {results[:, 1].std() / sets**0.5:.3f} | {plain_hold:.3f} | {np.sqrt(plain_error):.4f} |"
        + "".join(f" {np.sqrt(other / plain_error):.2f} |" if other == other else " – |" for other in others),
        flush=True,
    )
    return float(ratio), float(hold)


def one_kept(setting, seed):
    """The share of the gain that a private merge of classes keeps."""
    (sites, rows), epsilon, noise = setting
    rng = np.random.default_rng([11, seed])
    weights, shares = rng.dirichlet(np.full(4, 8.0)), rng.dirichlet(np.ones(3), (4, 8))

    def drawn(size):
        member = rng.choice(4, size, p=weights)
        return (rng.random((size, 8, 1)) > np.cumsum(shares[member], axis=-1)[:, :, :2]).sum(axis=-1).astype(float)

    points, held_out = drawn(sites * rows), drawn(3000)
    model, alone = (db.CategoricalMixture(classes, dimension=8, categories=3) for classes in (4, 1))
    merged, _ = released(model, np.split(points, sites), privacy_of(epsilon, noise, sites))
    worst = alone.score(alone.fit(points, rng=0).posterior, held_out)
    best = model.score(model.fit(points, rng=0).posterior, held_out)
    return (model.score(merged.posterior, held_out) - worst) / (best - worst)


def classes(sets, pool, sizes, epsilons):
    print("\n| sites × rows | ε | noise | Q | kept, mean | median | worst |")
    print("|---" * 7 + "|")
    model, means = db.CategoricalMixture(4, dimension=8, categories=3), {}
    for setting in product(sizes, epsilons, ("each", "shared")):
        (sites, rows), epsilon, noise = setting
        privacy = privacy_of(epsilon, noise, sites)
        quality = rows * privacy.honest * privacy.mu**2 / model.mechanism().parameters
        kept = np.array([*pool.map(partial(one_kept, setting), range(sets))])
        figures = f"{kept.mean():.3f} | {np.median(kept):.3f} | {kept.min():.2f}"
        print(f"| {sites} × {rows:,} | {epsilon:g} | {noise} | {quality:.3g} | {figures} |", flush=True)
        means[str(setting)] = float(kept.mean())
    return means


def one_plane(setting, seed):
    """The share of the gain that noisy histograms keep, and how many clusters they say."""
    (sites, rows), epsilon, noise = setting
    rng = np.random.default_rng([13, seed])
    middles = np.empty((0, 2))
    while len(middles) < 5:
        place = rng.uniform(-0.75, 0.75, 2)
        if (np.linalg.norm(middles - place, axis=1) > 0.45).all():
            middles = np.vstack([middles, place])
    weights, narrow = rng.dirichlet(np.full(5, 8.0)), rng.uniform(0.06, 0.15, (5, 2))
    turns = np.linalg.qr(rng.normal(size=(5, 2, 2)))[0]

    def drawn(size):
        member = rng.choice(5, size, p=weights)
        away = np.einsum("nij,nj->ni", turns[member], narrow[member] * rng.standard_normal((size, 2)))
        return (middles[member] + away).clip(-0.999, 0.999)

    points, held_out = drawn(sites * rows), drawn(4000)
    model, alone = map(plane, (5, 1))
    merged, releases = released(model, np.split(points, sites), privacy_of(epsilon, noise, sites))
    worst = alone.score(alone.fit(points, rng=0).posterior, held_out)
    best = model.score(model.fit(points, rng=0).posterior, held_out)
    found = db.private_merge(model.structure, releases, components="auto").posterior.mean("weights")
    return (model.score(merged.posterior, held_out) - worst) / (best - worst), len(found)


def plane(clusters):
    """Clusters with an expected deviation of 0.1, in a box from -1 to 1."""
    return db.GaussianMixture(clusters, 2, covariance="full", prior_scale=0.01, prior_strength=0.09)


def clusters(sets, pool, sizes, epsilons):
    print("\n| sites × rows | ε | noise | Q | kept, mean | worst | clusters found |")
    print("|---" * 7 + "|")
    means = {}
    for setting in product(sizes, epsilons, ("each", "shared")):
        (sites, rows), epsilon, noise = setting
        privacy = privacy_of(epsilon, noise, sites)
        quality = rows * privacy.honest * privacy.mu**2 / plane(5).mechanism().parameters
        kept, found = np.array([*pool.map(partial(one_plane, setting), range(sets))]).T
        numbers = ", ".join(f"{number:.0f}" for number in np.sort(found))
        figures = f"{kept.mean():.3f} | {kept.min():.2f} | {numbers}"
        print(f"| {sites} × {rows:,} | {epsilon:g} | {noise} | {quality:.2g} | {figures} |", flush=True)
        means[str(setting)] = float(kept.mean())
    return means


def one_membership(rows, epsilon, seed):
    """The AUC of the best linear test, for one site: the likelihood ratio if all other records are unknown."""
    rng = np.random.default_rng([9, seed])
    model, points, _ = data_set("logistic", 2 * rows, rng)
    inside, _ = np.split(points, 2)
    _, releases = released(model, [inside], db.Privacy(epsilon, DELTA))
    mechanism, scores = model.mechanism(), np.zeros(2 * rows)
    for release in releases:
        statistics = mechanism.record_statistics(release.anchor, points, release.round)
        centred = statistics - statistics.mean(axis=0)
        covariance = rows * np.cov(centred.T) + release.variance * GRID.step**2 * np.eye(len(release.values))
        noticed = GRID.values(release.values) - rows * statistics.mean(axis=0)
        scores += centred @ np.linalg.solve(covariance, noticed)
    ranks = scores.argsort().argsort()
    return (ranks[:rows].mean() - ranks[rows:].mean()) / (2 * rows) + 0.5


def membership(sets, pool, epsilons):
    print("\n| records | " + " | ".join(f"ε = {epsilon:g}" for epsilon in epsilons) + " | hardly any noise |")
    print("|---" * (len(epsilons) + 2) + "|")
    found = {}
    for rows in (50, 500, 5000):
        columns = [np.mean([*pool.map(partial(one_membership, rows, e), range(sets))]) for e in (*epsilons, 100.0)]
        print(f"| {rows:,} | " + " | ".join(f"{auc:.3f}" for auc in columns) + " |", flush=True)
        found[str(rows)] = [float(auc) for auc in columns]
    return found


def draw(found, path):
    """Price against ε, one line per size and kind of noise."""
    from decbayes.plot.style import bare, canvas, colour, styled

    with styled():
        figure = canvas(6.0, 3.0)
        panels = figure.subplots(1, 2, sharey=True)
        for panel, kind in zip(panels, dict.fromkeys(setting[0] for setting in found), strict=False):
            sizes = list(dict.fromkeys(setting[1] for setting in found))
            for number, (size, noise) in enumerate(product(sizes, ("each", "shared"))):
                line = [(s[2], ratio) for s, (ratio, _) in found.items() if (s[0], s[1], s[3]) == (kind, size, noise)]
                style = {"color": colour(number // 2), "ls": "-" if noise == "each" else ":", "marker": "o", "ms": 3}
                panel.plot(*zip(*sorted(line), strict=True), label=f"{size[0]} × {size[1]:,}, {noise}", **style)
            panel.set(xscale="log", yscale="log", title=kind, xlabel="ε")
            panel.set_xticks(sorted({s[2] for s in found}), [f"{e:g}" for e in sorted({s[2] for s in found})])
            panel.set_yticks([1, 2, 5], ["1", "2", "5"])
            panel.minorticks_off()
            bare(panel)
        panels[0].set_ylabel("error, in units of that without noise")
        panels[-1].legend(frameon=False, fontsize=7)
        figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two data sets of two sizes, ε = 3")
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="price,pooled,classes,clusters,membership")
    parser.add_argument("--models", default="logistic,poisson")
    parser.add_argument("--epsilons", default="0.5,1,3,8")
    parser.add_argument("--sizes", default="5x200,10x1000,20x2000")
    parser.add_argument("--picture", default="")
    given = parser.parse_args()
    if given.quick:
        given.sets, given.sizes, given.epsilons = 2, "5x200,10x1000", "3"
    measured = {}
    epsilons = [float(epsilon) for epsilon in given.epsilons.split(",")]
    sizes = [tuple(map(int, size.split("x"))) for size in given.sizes.split(",")]
    warnings.simplefilter("ignore")
    if diffprivlib is None and {"price", "pooled"} & {*given.only.split(",")}:
        print("diffprivlib is not installed, or does not go with this scikit-learn: its column is empty.\n")
    with ProcessPoolExecutor(given.jobs) as pool:
        if "price" in given.only:
            print(
                "| model | sites × rows | ε | noise | rmse | stated | planned | 90 % hold | no noise | rmse without "
                "| pooled | diffprivlib |"
            )
            print("|---" * 12 + "|")
            found = {
                setting: price(setting, given.sets, pool)
                for setting in product(given.models.split(","), sizes, epsilons, ("each", "shared"))
            }
            measured["price"] = {str(setting): figures for setting, figures in found.items()}
            if given.picture:
                draw(found, given.picture)
        if "pooled" in given.only:
            measured["pooled"] = in_one_place(given.sets, pool, sizes, epsilons)
        if "classes" in given.only:
            measured["classes"] = classes(given.sets, pool, sizes, epsilons)
        if "clusters" in given.only:
            measured["clusters"] = clusters(given.sets, pool, sizes, epsilons)
        if "membership" in given.only:
            measured["membership"] = membership(given.sets, pool, epsilons[:2])
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
