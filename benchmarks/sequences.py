"""Hidden Markov models of ten sites: merged and refined, against one fit of all sequences, and hmmlearn.

    python benchmarks/sequences.py [--quick] [--seeds N] [--first-seed N] [--only KIND,…] [--states K,…]
                                   [--site-starts N] [--batch-starts N] [--speed] [--jobs N]

Ten sites with four sequences of sixty steps each, of a chain with four or eight states that emit points in the plane:
well apart, overlapping, or aliased (two states emit the same, and differ in what follows them). Figures are nats per
step that a held-out score falls short of the truth's own, so that lower is better. Sites agree on the units of columns
by what each finds in its own data, and priors are the model's own in these units, but for states that last and for
means about as far from the centre as the unit says: nothing in them comes from the truth.

"rounds" go on from the most promising of four beginnings (two alignments, sites afresh or not) and follow where three
earlier rounds lead; "plain rounds" do neither. "bound" is what all data say of the refined posterior less what they say
of that of all sequences, in nats: where it is positive, the sites have found a better optimum of the same bound.
`hmmlearn` is its best of ten starts by likelihood, fitted to all sequences.

First come seconds of one pass over 30,000 steps with eight states, in one thread, against hmmlearn's two
implementations; with --speed, nothing else. The last line is JSON.
"""

import argparse
import json
import logging
import os
import time
import warnings
from dataclasses import replace

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import joblib
import numpy as np
from hmmlearn.hmm import GaussianHMM

import decbayes as db
from decbayes.families import MeanAndPrecision
from decbayes.updates.joining import bound

SITES, SEQUENCES, LENGTH, STARTS = 10, 4, 60, 10
# Where the chain's states lie, and the units in which it is told.
CENTRE, SCALE = 3.0, 3.0
# States last, and their means are about as far from the centre as the unit of a column.
PRIOR = {"stickiness": 3.0, "prior_strength": 0.3}


def truth(kind, states, rng):
    """Parameters of a chain: centres on a grid, some moves more probable than others."""
    side = int(np.ceil(np.sqrt(states)))
    grid = np.array([[place % side, place // side] for place in range(states)], dtype=float)
    if kind == "aliased":
        grid[states // 2 :] = grid[: states - states // 2]
    moves = 0.6 * np.eye(states) + 0.4 * rng.dirichlet(np.full(states, 0.5), size=states)
    apart = {"separated": 4.0, "overlapping": 2.0, "aliased": 4.0}[kind]
    # In agreed units, as the model draws; the noise has the variance 1.
    real = MeanAndPrecision((apart * grid - CENTRE) / SCALE, np.full((states, 2), SCALE**2))
    return {"start": np.full(states, 1 / states), "transitions": moves, "real": real}


def agreed(shards):
    """Columns in units that sites agree on, each by what it finds in its own sequences."""
    found = [dict(zip("xy", map(db.columns.Gaussian.found_in, np.concatenate(own).T), strict=True)) for own in shards]
    return db.columns.agree(*found)


def one_run(kind, states, seed, starts):
    quiet()
    rng = np.random.default_rng([seed, states])
    parameters = truth(kind, states, rng)
    chain = db.HiddenMarkov(states=states, columns=dict.fromkeys("xy", db.columns.Gaussian(CENTRE, SCALE)))
    data, _ = chain.draw(parameters, SITES * SEQUENCES, rng, length=LENGTH)
    held, _ = chain.draw(parameters, 100, rng, length=LENGTH)
    shards = [data[site * SEQUENCES : (site + 1) * SEQUENCES] for site in range(SITES)]
    model = db.HiddenMarkov(states=states, columns=agreed(shards), **PRIOR)
    batch = replace(model, ascent=db.Ascent(restarts=starts["batch"] - 1)).fit(data, rng=rng).posterior
    alone = replace(model, ascent=db.Ascent(restarts=starts["site"] - 1))
    posteriors = [alone.fit(shard, rng=rng).posterior for shard in shards]
    both = {"solver": (db.solvers.Quadratic(), db.solvers.Grouping()), "afresh": (False, True), "extrapolate": 3}
    refined = db.refine(model, shards, posteriors, rounds=8, rng=rng, **both)
    plain = db.refine(model, shards, posteriors, rounds=8, rng=rng)
    known = hmmlearn_with(parameters).score(np.concatenate(held), [LENGTH] * 100) / (100 * LENGTH)
    figures = {
        "batch": batch,
        "one site": posteriors[0],
        "naive": db.merging.product(posteriors),
        "merged": plain.rounds[0],
        "merged many to one": db.merge(posteriors, solver=db.solvers.Grouping()),
        "4 plain rounds": plain.rounds[4],
        "8 plain rounds": plain.merged,
        "4 rounds": refined.rounds[4],
        "8 rounds": refined.merged,
    }
    short = {label: known - model.score(posterior, held) for label, posterior in figures.items()}
    gained = bound(model, shards, refined.merged, rng) - bound(model, shards, batch, rng)
    return short | {"hmmlearn": known - hmmlearn_score(data, held, states, seed), "bound": gained}


def hmmlearn_with(parameters):
    states = len(parameters["start"])
    model = GaussianHMM(states, "diag")
    model.startprob_, model.transmat_ = parameters["start"], parameters["transitions"]
    model.means_, model.covars_ = parameters["real"].mean * SCALE + CENTRE, np.ones((states, 2))
    return model


def hmmlearn_score(data, held, states, seed):
    """The fit of largest likelihood from so many starts."""
    together, best = np.concatenate(data), None
    for start in range(STARTS):
        random = 100 * seed + start
        model = GaussianHMM(states, "diag", n_iter=200, tol=1e-3, random_state=random, implementation="scaling")
        model.fit(together, [LENGTH] * len(data))
        reached = model.score(together, [LENGTH] * len(data))
        best = (reached, model) if best is None or reached > best[0] else best
    return best[1].score(np.concatenate(held), [LENGTH] * len(held)) / (len(held) * LENGTH)


def quiet():
    """hmmlearn says at each start whether it has converged."""
    warnings.simplefilter("ignore")
    logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)


def means(runs):
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}


def seconds_per_pass(passes):
    """One pass over 30,000 steps: processor seconds of ours and of hmmlearn's implementations."""
    rng = np.random.default_rng(0)
    parameters = truth("overlapping", 8, rng)
    columns = dict.fromkeys("xy", db.columns.Gaussian(CENTRE, SCALE))
    model = db.HiddenMarkov(states=8, columns=columns, ascent=db.Ascent(passes=passes, tolerance=0.0))
    data, _ = model.draw(parameters, 500, rng, length=LENGTH)
    start = model.fit(data[:40], rng=rng).posterior
    figures = {}
    times = []
    for _ in range(3):
        begin = time.process_time()
        model.fit(data, rng=rng, start=start)
        times.append((time.process_time() - begin) / passes)
    figures["decbayes"] = min(times)
    for implementation in ("scaling", "log"):
        times = []
        for _ in range(3):
            other = GaussianHMM(
                8, "diag", n_iter=passes, tol=-np.inf, implementation=implementation, init_params="", random_state=0
            )
            known = hmmlearn_with(parameters)
            other.startprob_, other.transmat_ = known.startprob_, known.transmat_
            other.means_, other.covars_ = known.means_, np.ones((8, 2))
            begin = time.process_time()
            other.fit(np.concatenate(data), [LENGTH] * 500)
            times.append((time.process_time() - begin) / passes)
        figures[f"hmmlearn, {implementation}"] = min(times)
        figures[f"times as fast as {implementation}"] = figures[f"hmmlearn, {implementation}"] / figures["decbayes"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four states, one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="separated,overlapping,aliased")
    parser.add_argument("--states", default="4,8")
    parser.add_argument("--site-starts", type=int, default=30, help="starts of which a site keeps the best")
    parser.add_argument("--batch-starts", type=int, default=50, help="starts of the fit to all sequences")
    parser.add_argument("--speed", action="store_true", help="nothing but the time of a pass")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time, after the pass was timed")
    arguments = parser.parse_args()
    quiet()
    with joblib.parallel_config("threading", n_jobs=1):
        speed = seconds_per_pass(3 if arguments.quick else 10)
    print({key: round(value, 4) for key, value in speed.items()}, flush=True)
    figures, starts = {"pass": speed}, {"site": arguments.site_starts, "batch": arguments.batch_starts}
    seeds = range(arguments.first_seed, arguments.first_seed + (1 if arguments.quick else arguments.seeds))
    sizes = (4,) if arguments.quick else tuple(map(int, arguments.states.split(",")))
    cases = [] if arguments.speed else [(kind, size) for kind in arguments.only.split(",") for size in sizes]
    work = (joblib.delayed(one_run)(*case, seed, starts) for case in cases for seed in seeds)
    runs = joblib.Parallel(arguments.jobs, return_as="generator")(work)
    for kind, size in cases:
        found = means([next(runs) for _ in seeds])
        figures[f"{kind}, {size} states"] = found
        print(f"{kind}, {size}", {key: round(value, 4) for key, value in found.items()}, flush=True)
    print(json.dumps({"benchmark": "sequences", **figures}))


if __name__ == "__main__":
    main()
