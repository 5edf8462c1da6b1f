"""Every method of a model that is asked about posteriors and data, found by the names of its arguments."""

import inspect
from functools import partial

import draws
import numpy as np

from decbayes.errors import DecbayesError
from decbayes.models.core.simulation import drawn_parameters
from decbayes.models.regressions.robust_errors import RobustErrors
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.models.regressions.varying.half_cauchy import HalfCauchy

# Fits and files are elsewhere; the rest return models, or what `draw` of another test covers.
LEFT_OUT = {"draw", "fit", "fit_many", "fit_site", "for_data", "sized_for", "for_posterior", "structure_for", "score",
            "decoded", "imputations", "pooled", "sized", "with_words"}  # fmt: skip


def arguments_for(model, shards, fits):
    posteriors = [fit.posterior for fit in fits]
    drawn = posteriors[0].sample(2, np.random.default_rng(6))
    return {
        "posterior": posteriors[0], "posteriors": posteriors, "data": shards[1], "shards": shards, "points": shards[1],
        "parameters": drawn, "size": 6, "rng": np.random.default_rng(2),
        "level": 0.7, "top": 3, "least": 4, "least_outcome": 2, "value": 3.0, "most": 2.5, "agreed": None,
        "rows": np.arange(0, model.count(shards[1]), 3), "draws": 30, "replicas": 3,
    }  # fmt: skip


def answers(thing, given, attempted, left_out=()):
    """What each public method of a thing says, of those whose arguments are given, with and without options."""
    found = {}
    for name, method in inspect.getmembers(type(thing), inspect.isfunction):
        parameters = [each for each in inspect.signature(method).parameters.values() if each.name != "self"]
        needed = {each.name for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD}
        if name.startswith("_") or name in left_out or not needed or not needed <= given.keys():
            continue
        chosen = {each.name: given[each.name] for each in parameters if each.name in given}
        found[name] = attempted(partial(method, thing, **chosen))
        if needed < chosen.keys():
            usual = {one: chosen[one] for one in needed}
            found[f"{name} as usual"] = attempted(partial(method, thing, **usual))
    return found


def methods_of(model, shards, fits, attempted):
    given = arguments_for(model, shards, fits)
    tipped = {"information"} if hasattr(model, "dwell_times") else set()  # by rounding
    found = answers(model, given, attempted, LEFT_OUT | tipped)
    parameters = drawn_parameters(given["posterior"], np.random.default_rng(6))
    found["draw"] = attempted(partial(model.draw, parameters, 6, np.random.default_rng(2)))
    if isinstance(robust := found.get("robust_errors"), RobustErrors):
        found["robust_errors"] = sums = robust.sums(shards[1])
        found["robust_deviations"] = robust.deviations(*sums)
    if isinstance(deviations := found.get("half_cauchy"), HalfCauchy):
        found["half_cauchy"] = sums = deviations.sums(shards[1])
        found["half_cauchy_quantiles"] = deviations.quantiles(sums)
    return found


def of_family(name):
    """A family at parameters that are drawn."""
    family, rng = draws.family(name), np.random.default_rng(21)
    natural, contribution = draws.natural(name, rng, 3, 3), draws.contribution(name, rng, 3, 3)
    prior, value = draws.prior(name, 3, 3), family.one_of(family.sample(natural, 2, rng), 0)
    given = {
        "natural": natural, "other": draws.natural(name, rng, 3, 3), "contribution": contribution, "prior": prior,
        "rows": family.rows(contribution), "rest": natural, "own": contribution, "value": value, "probability": 0.2,
        "stretch": 1.7, "size": 3, "rng": rng, "width": natural.shape[1], "count": 4, "order": np.array([2, 0, 1]),
        "evidence": np.array([5.0, 9.0, 2.0]), "base": 0.01 * contribution.mean(axis=0), "otherwise": -3.0,
        "contributions": [contribution, 0.5 * contribution], "values": family.sample(natural, 2, rng), "number": 1,
    }  # fmt: skip
    found = answers(family, given, attempted_of_family, {"groups", "rows", "joins"})
    groups = family.groups(given["base"], 2)
    for component, slot in enumerate((0, 1, 0)):
        groups.move(given["rows"], component, -1, slot, float(given["evidence"][component]))
    groups.update()
    found["groups"] = groups.values(), groups.freedom(np.arange(2)), groups.join_losses()
    total = np.zeros_like(prior)
    family.added(total, contribution, np.array([1, 1, 0]), np.array([2, 0, 1]))
    joins = family.joins(given["base"], given["rows"], given["evidence"])
    found["added"], found["joins"] = total, attempted_of_family(lambda: joins.losses(0, np.array([1, 2])))
    return found


def attempted_of_family(action):
    try:
        return action()
    except (DecbayesError, NotImplementedError, AttributeError, ValueError) as error:
        return type(error).__name__


def of_outcome(model, data, posterior, attempted):
    """What an outcome says of rows, some of them far away, and of the numbers that bound them."""
    outcome, table, rng = model.outcome, model.table, np.random.default_rng(11)
    rows = table.rows(model.points(data))
    mean = rng.normal(scale=2.0, size=len(rows.targets))
    variance, natural, weights = 0.1 + rng.random(len(mean)), posterior.natural[FACTOR], rng.integers(0, 3, len(mean))
    side, column = len(table.design.labels), model.columns.get(model.target)
    calls = {
        "log_density": (natural, mean, variance, rows.targets), "log_given": (rows.targets, mean, 0.7),
        "slopes": (natural, rows.targets, mean, variance), "predicted": (natural, mean, variance, 0.7),
        "draw": (mean, 0.7, rng), "tally": (posterior.contribution[FACTOR], table.design, True),
        "largest_contribution": (rows.matrix[0], 3.0, 4.0), "prior": (side, model), "reach": (natural, 0.7),
        "settings": (model.structure.prior[FACTOR],), "interval": (natural, 0.7), "moments": (natural,),
        "deviation": (natural, 1.0 + variance[:side]), "expectations": (rows.targets, mean, variance),
        "most_of_one": (3.0,), "beginning": (rows.targets, mean), "noise": (natural,),
        "observed": (rows.targets, rows.observation), "units": (column,),
        "modelled": (model.target, column),
    }  # fmt: skip
    found = {
        name: attempted(partial(getattr(outcome, name), *given))
        for name, given in calls.items()
        if hasattr(outcome, name)
    }
    for columns in (1, 8):
        parts, design = (rows.targets, mean, weights.astype(float)), np.resize(rows.matrix, (len(mean), columns))
        said = {
            "remarks": outcome.remarks(*parts, columns),
            "broadcast_remarks": outcome.broadcast_remarks(*parts, design),
        }
        found |= {f"{name} {columns}": [(each.kind, each.what) for each in remarks] for name, remarks in said.items()}
    found["heaviest"], found["assumed"] = outcome.heaviest if hasattr(outcome, "heaviest") else None, outcome.assumed
    return found
