"""Statements about fits and first broadcasts, for `statements.py`: each yields how often it is made, and is true."""

from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

import decbayes as db
from decbayes.updates.sketches import Sketch, overlap
from decbayes.views import view_of
from decbayes.views.coefficient_view import AT_LEAST, TIMES_EXPECTED

VARIANCE = 10.0  # of coefficients, the default
CLOSE = 0.5  # posterior deviations from one fit of all rows, beyond which one broadcast is rough


def outcomes_of(kind, mean, rng):
    if kind == "logistic":
        return (rng.random(len(mean)) < 1.0 / (1.0 + np.exp(-mean))).astype(float)
    if kind == "overdispersed":
        mean = mean + np.log(rng.gamma(1.5, 1.0 / 1.5, size=len(mean)))
    return rng.poisson(np.exp(mean)).astype(float)


def shard(kind, rows, rng, slope=0.5):
    table = np.column_stack([rng.normal(size=(rows, 2)), rng.random(rows) < 0.3])
    return np.column_stack([table, outcomes_of(kind, table @ [slope, -0.3, 0.4] - 0.2, rng)])


def model_of(kind):
    columns = {"x": "real", "z": "real", "b": "yes/no"}
    if kind == "logistic":
        return db.LogisticRegression("y", columns=columns | {"y": "yes/no"})
    return db.PoissonRegression("y", columns=columns | {"y": "count"})


def kinds(posterior):
    return {remark.kind for remark in posterior.remarks}


def separable(rows):
    """Whether some plane has all outcomes of one kind on one side, some strictly: a linear programme."""
    signs = 2.0 * rows[:, -1] - 1.0
    sides = signs[:, None] * np.column_stack([np.ones(len(rows)), rows[:, :-1]])
    found = linprog(-sides.sum(axis=0), A_ub=-sides, b_ub=np.zeros(len(rows)), bounds=[(-1, 1)] * sides.shape[1])
    return bool(-found.fun > 1e-9) and 0.0 < rows[:, -1].mean() < 1.0


def separation(rng):
    """Sites of 6 to 40 rows with slopes up to 3: is "the predictors separate the outcomes" said where it is so?"""
    rows = shard("logistic", int(rng.integers(6, 41)), rng, slope=rng.choice([0.5, 3.0]))
    posterior = model_of("logistic").fit_site(rows).posterior
    where = "where outcomes are separated" if separable(rows) else "where they are not"
    yield f"the predictors separate the outcomes, {where}", "separated outcomes" in kinds(posterior)
    yield f"one broadcast is rough here, {where}", any(remark.is_warning for remark in posterior.remarks)


def overdispersion(rng):
    """Sites of 30 to 300 counts that are, or are not, Poisson counts given the predictors."""
    for kind in ("poisson", "overdispersed"):
        rows = shard(kind, int(rng.choice([30, 100, 300])), rng)
        said = "overdispersion" in kinds(model_of(kind).fit_site(rows).posterior)
        yield f"counts vary more than Poisson counts, {kind}, {len(rows)} rows", said


NOISE = {
    "normal": lambda rng, x: rng.normal(size=len(x)),
    "t with 3 df": lambda rng, x: rng.standard_t(3, size=len(x)),
    "growing with x": lambda rng, x: np.abs(x) * rng.normal(size=len(x)),
}


def noise(rng):
    """Linear regressions: noise as assumed, with heavy tails, which coefficients hardly feel, or growing with x."""
    model = db.LinearRegression("y", columns={"x": "real", "y": "real"})
    for name, drawn in NOISE.items():
        for rows in (100, 300, 1000):
            x = rng.normal(size=rows)
            table = {"x": x, "y": x + drawn(rng, x)}
            stated = db.checking.with_halves(model, model.fit(table).posterior, table)
            yield f"the noise is not what the model assumes, {name}, {rows} rows", "uneven noise" in kinds(stated)


def gaussian_clusters(rng, rows):
    centres, widths = rng.uniform(3.0, 33.0, 4), np.exp(0.5 * rng.normal(size=4))
    labels = rng.choice(4, size=rows, p=rng.dirichlet(np.ones(4)))
    return np.abs(centres[labels] + widths[labels] * rng.normal(size=rows))


SKEWED = {
    "lognormal, deviation of logarithms 0.7 to 2": lambda rng, n: np.exp(rng.uniform(0.7, 2.0) * rng.normal(size=n)),
    "clusters of logarithms": lambda rng, n: np.exp(
        rng.normal(size=3)[rng.integers(3, size=n)] + 0.6 * rng.normal(size=n)
    ),
    "Weibull, shape 0.5": lambda rng, n: rng.weibull(0.5, n),
    "Pareto, exponent 2": lambda rng, n: 1.0 + rng.pareto(2.0, n),
    "lognormal costs, 60 % zeros": lambda rng, n: np.exp(1.3 * rng.normal(size=n)) * (rng.random(n) < 0.4),
}
OTHERS = {
    "normal": lambda rng, n: rng.normal(10.0, 3.0, n),
    "uniform": lambda rng, n: rng.uniform(1.0, 9.0, n),
    "Gamma, shape 4": lambda rng, n: rng.gamma(4.0, size=n),
    "clusters": gaussian_clusters,
    "2 to 10 % in a cluster 10 to 90 deviations away": lambda rng, n: np.abs(
        np.where(rng.random(n) < rng.uniform(0.02, 0.1), rng.uniform(20.0, 100.0), 10.0) + rng.normal(size=n)
    ),
}  # fmt: skip


def skewed(rng):
    """One column of 40 to 1,000 values, fitted with one to three components."""
    rows, components = int(rng.choice([40, 100, 300, 1000])), int(rng.integers(1, 4))
    for name, drawn in (SKEWED | OTHERS).items():
        model = db.GaussianMixture(components, 1, covariance="diagonal", ascent=db.Ascent(passes=5, restarts=0))
        said = "skewed columns" in kinds(model.fit(drawn(rng, rows)[:, None], rng=rng).posterior)
        yield f"a column would be less skewed on a logarithmic scale, {name}", said


def logarithms(rng):
    """Three equal sites of 150 rows from two lognormal clusters, as they are and as logarithms."""
    centres = rng.normal(size=(2, 2))
    sites = [np.exp(centres[rng.integers(2, size=150)] + rng.normal(size=(150, 2))) for _ in range(3)]
    for name, shards in (("as they are", sites), ("logarithms", [np.log(site) for site in sites])):
        model = db.GaussianMixture(2, 2, covariance="diagonal")
        posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
        stated = [db.checking.with_halves(model, *each) for each in zip(posteriors, shards, strict=True)]
        for halves, fits in (("no", posteriors), ("yes", stated)):
            (found,) = db.checking.heterogeneity(db.align(fits), worlds=8).values()
            share = np.mean(found.probability[~np.isnan(found.probability)] < 0.05)
            yield f"equal sites differ (p < 0.05), {name}, halves stated: {halves}", share


def prior(rng):
    """One to four clusters in standardised columns: does a prior scale that is ten times smaller predict better?"""
    count, columns, rows = int(rng.integers(1, 5)), int(rng.integers(2, 9)), int(rng.choice([40, 100, 300, 1000]))
    covariance = str(rng.choice(["full", "diagonal", "spherical"]))
    centres = rng.choice([0.0, 1.0, 2.0, 4.0, 8.0]) * rng.normal(size=(count, columns))
    mixing = np.linalg.qr(rng.normal(size=(columns, columns)))[0] * np.exp(
        rng.choice([0.0, 0.5, 1.5]) * rng.normal(size=columns)
    )
    table = centres[rng.integers(count, size=rows + 2000)] + rng.normal(size=(rows + 2000, columns)) @ mixing.T
    fitted, new = np.split((table - table[:rows].mean(axis=0)) / table[:rows].std(axis=0), [rows])
    model = db.GaussianMixture(count, columns, covariance=covariance)
    posterior = model.fit(fitted, rng=rng).posterior
    smaller = replace(model, prior_scale=0.1)
    gained = smaller.score(smaller.fit(fitted, rng=rng).posterior, new) - model.score(posterior, new)
    where = "over 0.1 nat" if gained > 0.1 else "less" if gained > 0.0 else "nothing"
    yield (
        f"clusters are much narrower than the prior expects, a tenth of its scale gains {where}",
        "wide prior" in kinds(posterior),
    )


def majority(rng):
    """Robust merges of three sites, of which the third may be ten times as large, or have x in another unit."""
    for kind in ("logistic", "poisson"):
        for rows in (100, 1000):
            shards = [shard(kind, size, rng) for size in (100, 100, rows)]
            for times in (1.0, 10.0):
                shards[-1][:, 0] *= times
                posteriors = [model_of(kind).fit_site(each).posterior for each in shards]
                named = [site.flagged for site in db.merging.robust_merge(posteriors).sites]
                setting = f"{kind}, 100, 100 and {rows} rows, units × {times:g}"
                if times > 1.0:
                    yield f"a robust merge leaves out the site in another unit, {setting}", named[2]
                yield f"a robust merge leaves out an honest site, {setting}", any(named[:2] if times > 1.0 else named)


def broadcast(rng):
    """Ten sites: how far a merge says it is from one fit of all rows, and how far it is."""
    for kind in ("logistic", "poisson"):
        for rows in (20, 60, 200):
            model, shards = model_of(kind), [shard(kind, rows, rng) for _ in range(10)]
            posteriors = [model.fit_site(each).posterior for each in shards]
            forecast = float(np.max(model.forecast(posteriors)))
            merged, whole = db.merge(posteriors), model.fit(np.concatenate(shards)).posterior
            pairs = zip(*(view_of(each.structure).estimates(each) for each in (merged, whole)), strict=True)
            distance = max(abs(one.mean - other.mean) / other.deviation for one, other in pairs)
            setting = f"{kind}, 10 × {rows}"
            rough = any(remark.is_warning for remark in view_of(merged.structure).expected(posteriors))
            within = max(TIMES_EXPECTED * forecast, AT_LEAST)
            yield f"one broadcast is within the stated distance of one fit, {setting}", distance < within
            where = "which it is" if distance > CLOSE else "which it is not"
            yield f"one broadcast is rough, {where}, {setting}", rough


def documents(rng):
    """Four topics in 120 documents; in every other corpus a long list of words of its own is one document more."""
    words = rng.dirichlet(np.full(80, 0.1), size=4)
    mixes = rng.dirichlet(np.full(4, 0.3), size=120)
    counts = np.array([rng.multinomial(60, mix @ words) for mix in mixes])
    odd = np.zeros((1, 40), dtype=counts.dtype)
    odd[0] = rng.multinomial(1500, np.full(40, 1 / 40))
    for there in (False, True):
        table = np.hstack([counts, np.zeros((120, 40), dtype=counts.dtype)])
        if there:
            table = np.vstack([table, np.hstack([np.zeros((1, 80), dtype=counts.dtype), odd])])
        model = db.LatentDirichletAllocation(5, tuple(f"w{word}" for word in range(120)))
        said = "few documents" in kinds(model.fit(table, rng=rng).posterior)
        yield (
            f"half of a topic's words from fewer than five documents, {'one odd document' if there else 'none odd'}",
            said,
        )


def twice(rng):
    """Three sites of 2,000 texts, by their sketches; a tenth of the first site's are, or are not, at the second."""
    for shared in (0, 200):
        texts = [[f"{rng.integers(1 << 60)}" for _ in range(2000)] for _ in range(3)]
        texts[1][:shared] = texts[0][:shared]
        found = overlap([Sketch.of(each, b"0123456789abcdef0123456789abcdef") for each in texts])
        said = bool(found.remarks(["a", "b", "c"]))
        yield f"documents count more than once, {shared} of 6,000 do", said
        if shared:
            yield "documents count more than once: the share is right to a fifth", 0.8 < found.twice * 30 < 1.2


def tails(rng):
    """One slope and an intercept, exactly by a grid: are "close" approximations so, and others not?"""
    rows = int(rng.choice([5, 10, 20, 60, 200]))
    predictor = rng.normal(size=rows)
    table = np.column_stack([predictor, outcomes_of("logistic", rng.choice([0.5, 3.0]) * predictor, rng)])
    model = db.LogisticRegression("y", columns={"x": "real", "y": "yes/no"})
    posterior = model.fit(table).posterior
    found = db.checking.diagnose(model, [table], posterior, seed=int(rng.integers(1 << 30)))
    off, beyond = apart_from_exact(table, posterior)
    said = "close" if found.close else "will do" if "will do" in str(found) else "misses part"
    yield f"k̂ says {said}: means within 0.2 deviations, deviations within a fifth", off < 0.2
    yield f"k̂ says {said}: 99 % intervals hold 98 to 99.7 %", 0.003 < beyond < 0.02


def apart_from_exact(table, posterior):
    """The largest difference of means, in deviations, and of deviations, as a share, from those of a fine grid.

    And the probability beyond 99 % intervals that is farthest from 1 %.
    """
    draws = posterior.sample(4000, np.random.default_rng(0))["coefficients"].reshape(4000, 2)
    centre, width = draws.mean(axis=0), draws.std(axis=0)
    axes = [np.linspace(place - 12 * size, place + 12 * size, 161) for place, size in zip(centre, width, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    linear = grid @ np.stack([np.ones(len(table)), table[:, 0]])
    height = -np.logaddexp(0.0, (1.0 - 2.0 * table[:, 1]) * linear).sum(axis=1) - (grid**2).sum(axis=1) / (2 * VARIANCE)
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    mean = weight @ grid
    deviation = np.sqrt(weight @ (grid - mean) ** 2)
    off = max(np.max(np.abs(centre - mean) / deviation), np.max(np.abs(np.log(width / deviation))))
    outside = weight @ (np.abs(grid - centre) > 2.5758 * width)
    return float(off), float(outside[np.argmax(np.abs(np.log(np.maximum(outside, 1e-9) / 0.01)))])


STATEMENTS = {
    "separation": separation,
    "overdispersion": overdispersion,
    "noise": noise,
    "majority": majority,
    "prior": prior,
    "skewed": skewed,
    "logarithms": logarithms,
    "broadcast": broadcast,
    "documents": documents,
    "twice": twice,
    "tails": tails,
}


def judged(name, sets, skip, only, rate):
    """One row for each statement of a part, over so many data sets."""
    found = {}
    for seed in range(skip, skip + sets):
        for statement, made in STATEMENTS[name](np.random.default_rng([seed, 41])):
            found.setdefault(statement, []).append(float(made))
    for statement, made in sorted(pair for pair in found.items() if only in pair[0]):
        yield {"statement": statement, **rate(made)}
