"""Small computations through most of the library, on data that its models have drawn themselves.

Fits are brief, so that rounding has no time to grow.
"""

import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from further import FURTHER
from grouped import GROUPED
from methods import methods_of, of_family, of_outcome
from parts import OVERLAPPING, elected_of, votes_of
from pieces import PIECES
from private import MODELS, rounds_of
from zoo import ZOO

import decbayes as db
from decbayes.errors import DecbayesError
from decbayes.families import FAMILIES
from decbayes.merging import reading
from decbayes.models.regressions.regression import Regression

SITES = 4


def attempted(action):
    """Its result, or the kind of error it ends with."""
    try:
        return action()
    except (DecbayesError, NotImplementedError, KeyError) as error:
        return type(error).__name__


@cache
def fitted(name):
    """A model, the data of some sites and their brief fits."""
    model, size = ZOO[name]
    if hasattr(model, "ascent"):
        model = replace(model, ascent=replace(model.ascent, passes=12, restarts=0), **OVERLAPPING.get(name, {}))
    rng = np.random.default_rng(37)
    data = db.simulate(model, SITES * size, rng=rng).data
    shards = [data[first : first + size] for first in range(0, SITES * size, size)]
    return model, shards, [model.fit(shard, rng=rng) for shard in shards]


def intervals(posterior):
    return {
        (factor, quantity): posterior.interval(factor, 0.8, quantity)
        for factor in posterior.structure.families
        for quantity in posterior.quantities(factor)
    }


def fit(name):
    model, shards, fits = fitted(name)
    posterior = fits[0].posterior
    return {
        "fits": [(each.posterior, each.bound[-1]) for each in fits],
        "remarks": [remark.kind for remark in posterior.remarks],
        "methods": methods_of(model, shards, fits, attempted),
        "score": attempted(lambda: model.score(posterior, shards[2])),
        "site": attempted(lambda: model.fit_site(shards[3], rng=5).posterior),
        "intervals": intervals(posterior),
        "log partition": posterior.log_partition(),
        "drawn": attempted(lambda: posterior.sample(2, np.random.default_rng(3))),
    }


def outcome(name):
    model, shards, fits = fitted(name)
    return of_outcome(model, shards[0], fits[0].posterior, attempted)


def merged(name):
    _, _, fits = fitted(name)
    posteriors = [each.posterior for each in fits]
    alignment = db.align(posteriors)
    sets = alignment.structure.symmetry
    return {
        "merged": db.merge(posteriors),
        "fewer": attempted(lambda: db.merge(posteriors[1:], components=2)),
        "assignments": alignment.assignments,
        "objective": db.merging.objective(posteriors, alignment.assignments),
        "margins": reading.margins(alignment),
        "losses": reading.losses(alignment),
        "support": [reading.support(alignment, coupled) for coupled in sets],
        "observations": [reading.observations(alignment, coupled) for coupled in sets],
        "fillings": [reading.fillings(alignment, coupled) for coupled in sets],
        "thin": [reading.thin(alignment, coupled) for coupled in sets],
        "influence": attempted(lambda: reading.influence(alignment)),
        "parties": attempted(lambda: reading.parties(alignment)),
        "upper bound": attempted(lambda: reading.upper_bound(alignment)),
        "grouping bound": attempted(lambda: reading.grouping_bound(alignment)),
        "proven": attempted(lambda: reading.proven(alignment)),
        "shared": attempted(lambda: [shared.evidence for shared in alignment.shared().values()]),
        "remarks": [remark.kind for remark in db.merging.remarks(alignment)],
    }


def robust(name):
    """One of six sites has other data, and far more of them."""
    model, shards, fits = fitted(name)
    other = db.simulate(model, 2 * model.count(shards[0]), rng=8).data
    posteriors = [*(each.posterior for each in fits), model.fit(shards[1][::2], rng=6).posterior]
    result = db.merging.robust_merge([*posteriors, model.fit(other, rng=9).posterior])
    return {
        "merged": result.posterior,
        "weights": result.weights,
        "sites": result.sites,
        "merged sites": result.merged,
        "spare": result.spare,
        "reasons": sorted(result.reasons()),
        "remarks": [remark.kind for remark in result.remarks()],
    }


def refined(name):
    model, shards, fits = fitted(name)
    posteriors = [each.posterior for each in fits]
    result = db.refine(model, shards, posteriors, rounds=2, rng=7, extrapolate=1)
    kept, held = db.checking.hold_back(model, shards[1], share=0.3)
    return {
        "refined": result.merged,
        "held": model.fit(kept, rng=4).posterior,
        "forgotten": db.streams.forget(posteriors[0], 0.8),
        "learned": attempted(lambda: db.streams.forget(posteriors[0], "learn", new=posteriors[1])),
        "calibrated": attempted(lambda: intervals(db.calibrate(model, shards, result.merged, replicas=3))),
        "validated": attempted(lambda: db.validate(model, [result.merged, *posteriors], held)),
        "checked": attempted(lambda: db.checking.predictive_check(model, result.merged, held, replicas=3)),
        "diagnosed": attempted(lambda: db.checking.diagnose(model, shards, result.merged, draws=100)),
    }


def between_sites(name):
    model, shards, fits = fitted(name)
    posteriors = [each.posterior for each in fits]
    return {
        "heterogeneity": attempted(lambda: db.checking.heterogeneity(db.align(posteriors), worlds=2)),
        "parallel": db.refine(model, shards, posteriors, rounds=1, rng=7, schedule="parallel", damping=0.7).merged,
    }


ENGINES = ("mean", "full", "counts", "classes", "states", "linear regression", "logistic regression",
           "groups of regressions", "Poisson, varying", "survival", "topics", "features")  # fmt: skip
REGRESSED = [name for name, (model, _) in ZOO.items() if isinstance(model, Regression)]
SLOTTED = ("known variance", "counts", "classes", "topics")
SHIPPED = [name for name in sorted(FAMILIES) if type(FAMILIES[name]).__module__.startswith("decbayes.")]
VOTING = ("mean", "known variance", "full", "classes", "linear regression", "topics")
KINDS = {"fit": (fit, ZOO), "merged": (merged, ZOO), "robust": (robust, ZOO), "refined": (refined, ENGINES),
         "votes": (votes_of, VOTING), "election": (elected_of, VOTING),
         **{kind: (action, SLOTTED) for kind, action in GROUPED.items()}, "family": (of_family, SHIPPED),
         "outcome": (outcome, REGRESSED), "private": (rounds_of, MODELS),
         "between sites": (between_sites, ("linear regression",))}  # fmt: skip
SCENARIOS = {f"{kind}: {name}": (action, (name,)) for kind, (action, names) in KINDS.items() for name in names}
SCENARIOS |= {name: (action, ()) for name, action in (FURTHER | PIECES).items()}


def result_of(scenario):
    action, names = SCENARIOS[scenario]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return action(*names)
