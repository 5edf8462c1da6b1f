"""What models do not have in common: formulas, topics, streams, solvers, edits, plans."""

from dataclasses import replace

import numpy as np
import pandas as pd

import decbayes as db
from decbayes.calibration import topic_shares

WORDS = tuple("abcdefghijkl")
FORMULAS = (
    "y ~ x * g + I(z**2)",
    "y ~ log(w) + x:g + h - 1",
    "y ~ ns(x, df=3) + g:h",
    "y ~ bs(z, df=4) + offset(w)",
    "y ~ poly(x, 2) + (g + h)^2",
    "y ~ x + (1 + x | site)",
    "y ~ z + (1 | g)",
)


def frame(rows=60):
    rng = np.random.default_rng(23)
    levels = {"g": rng.choice(["a", "b", "c"], rows), "h": rng.choice(["u", "v"], rows)}
    values = {"x": rng.normal(5, 2, rows), "z": rng.normal(-1, 0.5, rows), "w": rng.gamma(3.0, 1.0, rows)}
    linear = 0.4 * values["x"] - values["z"] + (levels["g"] == "b") + rng.normal(size=rows)
    events = {"y": linear, "n": rng.poisson(np.exp(0.3 * linear)), "yes": linear > 2.0}
    return pd.DataFrame(events | values | levels)


def formulas():
    data = frame()
    result = {}
    for formula in FORMULAS:
        model = db.LinearRegression.from_frame(data, formula)
        posterior = model.fit(data, rng=1).posterior
        result[formula] = {
            "posterior": posterior,
            "described": model.describe(posterior),
            "predicted": model.log_predictive(posterior, data),
        }
    return result


def outcomes():
    data = frame(50)
    kinds = (db.LogisticRegression, "yes"), (db.PoissonRegression, "n"), (db.NegativeBinomialRegression, "n")
    result = {}
    for kind, outcome in kinds:
        model = kind.from_frame(data, f"{outcome} ~ x + g")
        fits = [model.fit_site(data[first : first + 25], rng=1).posterior for first in (0, 25)]
        result[outcome] = {"sites": fits, "merged": db.merge(fits), "recentred": model.recentred(fits)}
    return result


def documents(rng, size=40):
    topics = rng.dirichlet(np.full(len(WORDS), 0.3), 3)
    shares = rng.dirichlet(np.full(3, 0.4), size)
    return np.array([rng.multinomial(25, share @ topics) for share in shares])


def texts():
    rng = np.random.default_rng(4)
    counts = documents(rng)
    model = db.LatentDirichletAllocation(3, WORDS, ascent=db.Ascent(passes=8, tolerance=1e-9, warm_up=2))
    fits = [model.fit(counts[first : first + 20], rng=3).posterior for first in (0, 20)]
    merged = db.merge(fits)
    quality = db.texts.Quality(merged, top=4)
    periods = ["2024-01", "2024-02"] * 20
    covariates = pd.DataFrame({"year": np.arange(40) / 10.0, "kind": ["p", "q"] * 20})
    effects = db.texts.effects(merged, counts, covariates, "year + kind")
    prevalence = db.texts.prevalence(merged, counts, site="s", periods=periods, least=2)
    return {
        "merged": merged,
        "coherence": quality.co_occurrence([counts]).coherence(),
        "diversity": quality.diversity,
        "prevalence": prevalence.plain(),
        "quality": [
            getattr(quality, name) for name in ("used", "shares", "words", "said", "affinity", "telling", "names")
        ],
        "finest": (quality.duplicates, quality.co_occurrence([counts]).plain()),
        "effects": (effects, effects.estimate(merged), effects.rows(merged), effects.rows(merged, level=0.6)),
        "prevalence of each": prevalence.rows(merged),
        "shares": topic_shares(model, [counts[:20], counts[20:]], merged),
        "priors": db.texts.with_priors(fits, topic_prior=0.2, document_prior=0.3),
        "found": db.texts.find(merged, "a b c"),
    }


def mixtures():
    """Five sites of overlapping clusters, not all at all sites."""
    rng = np.random.default_rng(15)
    centres = np.array([[0.0, 0.0], [2.5, 0.5], [0.5, 3.0], [4.0, 4.0]])
    model = db.GaussianMixture(3, 2, variance=0.5, prior_variance=8.0, ascent=db.Ascent(passes=15, restarts=0))
    shards = [
        centres[rng.choice(rng.permutation(4)[:3], 60)] + 0.7 * rng.normal(size=(60, 2)) + 0.1 * site
        for site in range(5)
    ]
    return model, shards, [model.fit(shard, rng=7).posterior for shard in shards]


def solved():
    _, _, sites = mixtures()
    solvers = [db.solvers.Matching(), db.solvers.Hierarchical(), db.solvers.Swaps(), db.solvers.Grouping()]
    alignment = db.align(sites, components=3)
    wide = db.align(sites)
    return {
        "merges": [db.merge(sites, solver=solver, components=4) for solver in solvers],
        "exact": db.merge(sites[:3], solver=db.solvers.Exhaustive()),
        "alignment": wide.assignments,
        "cuts": db.merging.tree(sites).cuts(range(1, 6)),
        "dropped": db.merging.drop(wide.merged(), 1).posterior,
        "joined": db.merging.join(wide.merged(), 0, 1).posterior,
        "split": db.merging.split(alignment.merged(), 0, sites).posterior,
        "robust": db.merging.robust_merge(sites, db.merging.Robust(cap=1.2)).weights,
        "influence": db.merging.influence(wide),
        "parties": db.merging.parties(wide),
        "jackknifed": db.calibration.jackknifed(wide),
    }


def streamed():
    model, shards, sites = mixtures()
    halves = [[shard[:30], shard[30:]] for shard in shards[:3]]
    chunks = [np.tile(shard, (7, 1)) + 0.3 * np.random.default_rng(5).normal(size=(420, 2)) for shard in shards[:3]]
    days = [[shard[first : first + 20] for shard in shards[:2]] for first in (0, 20, 40)]
    return {
        "sda": db.streams.sda_bayes(model, halves, rng=2),
        "asynchronous": db.streams.sda_bayes(model, halves, rng=2, schedule="asynchronous"),
        "batches": db.streams.merge_batches(model, halves, rng=2),
        "epochs": list(db.streams.epochs(model, days, rng=2)),
        "forgetting": list(db.streams.epochs(model, days, rng=2, forgetting=0.3)),
        "learned": list(db.streams.epochs(model, days, rng=2, forgetting="learn")),
        "one pass": list(db.streams.sequential(replace(model, components="auto"), chunks, rng=2)),
        "fewer": db.refine(model, shards, sites, rounds=2, rng=3, components=2).merged,
        "late": db.refine(model, shards, sites, rounds=2, rng=3, schedule="asynchronous").merged,
    }


def planned():
    plan = db.checking.Plan(db.models.GaussianMean(variance=2.0, dimension=2), sites=3, observations=8)
    mixed = db.checking.Plan(mixtures()[0], sites=2, observations=25, rounds=1)
    estimates = np.array([[0.2, 1.0], [0.5, 1.3], [0.1, 0.8]])
    return {
        "mean": db.checking.try_plan(plan, data_sets=4),
        "mixture": db.checking.try_plan(mixed, data_sets=2),
        "pooled": db.checking.pool(estimates, 0.1 + 0.1 * estimates, degrees=40.0),
    }


FURTHER = {
    "formulas": formulas, "outcomes": outcomes, "texts": texts, "solved": solved, "streamed": streamed,
    "planned": planned,
}  # fmt: skip
