"""Every method of a model that is asked about posteriors and data, found by the names of its arguments."""

import inspect
from functools import partial

import numpy as np

from decbayes.models.core.simulation import drawn_parameters
from decbayes.models.regressions.outcome import FACTOR
from decbayes.models.regressions.robust_errors import RobustErrors

# Fits and files are elsewhere; the rest return models, or what `draw` of another test covers.
LEFT_OUT = {"fit", "fit_many", "fit_site", "for_data", "sized_for", "for_posterior", "structure_for", "score",
            "decoded", "imputations"}  # fmt: skip


def arguments_for(model, shards, fits):
    posteriors = [fit.posterior for fit in fits]
    drawn = posteriors[0].sample(2, np.random.default_rng(6))
    return {
        "posterior": posteriors[0], "posteriors": posteriors, "data": shards[1], "shards": shards, "points": shards[1],
        "parameters": drawn, "size": 6, "rng": np.random.default_rng(2),
        "level": 0.7, "top": 3, "least": 4, "least_outcome": 2, "value": 3.0, "most": 2.5, "agreed": None,
        "rows": np.arange(0, model.count(shards[1]), 3), "draws": 30, "replicas": 3,
    }  # fmt: skip


def methods_of(model, shards, fits, attempted):
    given, found = arguments_for(model, shards, fits), {}
    for name, method in inspect.getmembers(type(model), inspect.isfunction):
        parameters = [each for each in inspect.signature(method).parameters.values() if each.name != "self"]
        needed = {each.name for each in parameters if each.default is each.empty and each.kind != each.VAR_KEYWORD}
        tipped = name == "information" and hasattr(model, "dwell_times")  # by rounding
        if name.startswith("_") or name in LEFT_OUT or tipped or not needed or not needed <= given.keys():
            continue
        chosen = {each.name: given[each.name] for each in parameters if each.name in given}
        if name == "draw":
            chosen["parameters"] = drawn_parameters(given["posterior"], np.random.default_rng(6))
        found[name] = attempted(partial(method, model, **chosen))
    if isinstance(robust := found.get("robust_errors"), RobustErrors):
        found["robust_errors"] = sums = robust.sums(shards[1])
        found["robust_deviations"] = robust.deviations(*sums)
    return found


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
        "most_of_one": (3.0,), "bend": (0.4,), "beginning": (rows.targets, mean), "noise": (natural,),
        "observed": (rows.targets, rows.observation), "units": (column,),
        "modelled": (model.target, column),
    }  # fmt: skip
    found = {
        name: attempted(partial(getattr(outcome, name), *given))
        for name, given in calls.items()
        if hasattr(outcome, name)
    }
    for name, amount in (("remarks", weights), ("broadcast_remarks", weights)):
        for side in (1, 8):
            remarks = getattr(outcome, name)(rows.targets, mean, amount.astype(float), side)
            found[f"{name} {side}"] = [(remark.kind, remark.what) for remark in remarks]
    found["heaviest"], found["assumed"] = outcome.heaviest if hasattr(outcome, "heaviest") else None, outcome.assumed
    return found
