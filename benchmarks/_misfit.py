"""Equal sites whose data the model does not describe: what a robust merge loses, and whom it names."""

from functools import partial
from itertools import product

import numpy as np

import decbayes as db

CLUSTERS, SHARES, HELD_OUT = 3, (0.5, 0.3, 0.2), 2000
WORSE = 0.1
NOISE = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "uniform": lambda rng, shape: rng.uniform(-2.0, 2.0, size=shape),
    "t with 3 df": lambda rng, shape: rng.standard_t(3, size=shape),
    "lognormal": lambda rng, shape: np.exp(rng.normal(size=shape)),
    "2 % outliers": lambda rng, shape: rng.normal(size=shape) * np.where(rng.random((shape[0], 1)) < 0.02, 20.0, 1.0),
}
KNOWN = "2 % outliers, known variance"
NOISE[KNOWN] = NOISE["2 % outliers"]


def measured(noise: str, seed: int) -> list[float]:
    """One world, with nobody faulty and with one site in units ten times smaller."""
    rng = np.random.default_rng([seed, *map(ord, noise)])
    sites, count, dimension = int(rng.integers(4, 10)), int(rng.choice([30, 100, 200])), int(rng.integers(1, 4))
    given = {"covariance": str(rng.choice(["full", "diagonal"]))}
    given = given if noise != KNOWN else {"variance": 1.0, "prior_variance": 100.0}
    model = db.GaussianMixture(CLUSTERS, dimension, **given)
    places = 8.0 * rng.normal(size=(CLUSTERS, dimension))

    def drawn(number: int) -> np.ndarray:
        return places[rng.choice(CLUSTERS, size=number, p=SHARES)] + NOISE[noise](rng, (number, dimension))

    shards = [drawn(count) for _ in range(sites)]
    fits = [model.fit(shard, rng=rng).posterior for shard in shards]
    wrong = [model.fit(10.0 * shards[0], rng=rng).posterior, *fits[1:]]
    held_out = drawn(HELD_OUT)

    def score(posterior: db.Posterior) -> float:
        return float(db.model_for(posterior.structure).score(posterior, held_out))

    honest, attacked = (db.merging.robust_merge(posteriors) for posteriors in (fits, wrong))
    flags, named = ([site.flagged for site in merge.sites] for merge in (honest, attacked))
    best, plain, robust = score(db.merge(fits[1:])), score(db.merge(wrong)), score(attacked.posterior)
    lost = score(db.merge(fits)) - score(honest.posterior)
    return [any(flags), lost, named[0], any(named[1:]), best - plain, best - robust, robust < plain - WORSE]


def misfit(seeds: range) -> None:
    """Print a row per kind of data: runs with an honest site flagged, losses as mean (worst), faulty sites named."""
    print(
        "| data | honest site flagged | loss | ×10 named | honest flagged | plain loss | robust loss | worse by 0.1 |"
    )
    print("|---" * 8 + "|")
    for noise in NOISE:
        flagged, lost, named, wrongly, plain, robust, worse = np.array([measured(noise, seed) for seed in seeds]).T
        losses = [f"{one.mean():.3f} ({one.max():.3f})" for one in (lost, plain, robust)]
        cells = [f"{one.sum():.0f}/{len(seeds)}" for one in (flagged, named, wrongly, worse)]
        row = (cells[0], losses[0], cells[1], cells[2], losses[1], losses[2], cells[3])
        print(f"| {noise} | {' | '.join(row)} |", flush=True)


# Noise of linear regressions: how it is drawn, and its deviation by site and by x.
OF_REGRESSIONS = {
    "normal": ("normal", lambda site, x: 1.0),
    "t with 3 df": ("t with 3 df", lambda site, x: 1.0),
    "lognormal": ("lognormal", lambda site, x: 1.0),
    "one site 1.5 times": ("normal", lambda site, x: 1.5 if site == 0 else 1.0),
    "one site 0.5 times": ("normal", lambda site, x: 0.5 if site == 0 else 1.0),
    "0.5 to 2 times": ("normal", lambda site, x: (0.5, 0.8, 1.25, 2.0)[site % 4]),
    "grows with x": ("normal", lambda site, x: np.abs(x)),
    "grows with x²": ("normal", lambda site, x: x**2),
}


def regressions(noise: str, count: int, seed: int, halves: bool) -> list[float]:
    """Four equal sites of a linear regression with this noise; then with a column of one site ten times smaller.

    With `halves`, sites state how far halves of their rows are apart.
    """
    rng = np.random.default_rng([seed, count, *map(ord, noise)])
    drawn, deviation = OF_REGRESSIONS[noise]
    shards = []
    for site in range(4):
        x, group = rng.normal(size=count), rng.random(count) < 0.5
        y = 10.0 + 2.0 * x + group + 2.0 * deviation(site, x) * NOISE[drawn](rng, (count, 1))[:, 0]
        shards.append({"x": x, "group": group, "y": y})
    columns = {"x": db.columns.Gaussian(0.0, 1.0), "group": db.columns.YesNo(), "y": db.columns.Gaussian(10.0, 4.0)}
    model = db.LinearRegression("y", columns=columns)
    shards.append(shards[0] | {"x": 10.0 * shards[0]["x"]})
    *fits, units = [model.fit(shard).posterior for shard in shards]
    if halves:
        *fits, units = map(partial(db.checking.with_halves, model), (*fits, units), shards)
    wrong = [units, *fits[1:]]
    plain, robust = db.merge(fits), db.merging.robust_merge(fits)
    apart = (robust.posterior.mean("coefficients") - plain.mean("coefficients")) / plain.deviation("coefficients")
    (spread,) = db.checking.heterogeneity(db.align(fits)).values()
    named = [site.disagrees for site in db.merging.standings(wrong)]
    flags = [site.disagrees for site in robust.sites]
    return [any(flags), sum(flags), np.abs(apart).max() > 1.0, spread.differ(0), named[0], any(named[1:])]


def misfit_of_regressions(seeds: range) -> None:
    """Print a row per kind of noise and size: the shares of runs with an honest site flagged, and so on."""
    print(
        "| noise | rows per site | halves stated | runs with an honest site flagged | sites flagged "
        "| merge moved by 1 deviation | sites differ, p < 0.05 | ×10 named | honest flagged beside it |"
    )
    print("|---" * 9 + "|")
    for noise in OF_REGRESSIONS:
        for count, halves in product((200, 1000), (False, True)):
            rates = np.mean([regressions(noise, count, seed, halves) for seed in seeds], axis=0)
            stated = "yes" if halves else "no"
            runs, sites, *others = [f"{rate:.0%}" for rate in rates / [1, 4, 1, 1, 1, 1]]
            print(f"| {noise} | {count} | {stated} | {runs} | {sites} | {' | '.join(others)} |", flush=True)
