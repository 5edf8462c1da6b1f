"""Hidden Markov models of ten sites: merged and refined, against one fit of all sequences, and hmmlearn.

    python benchmarks/sequences.py [--quick] [--seeds N] [--only KIND,…] [--states K,…] [--vague]

Ten sites with four sequences of sixty steps each, of a chain with four or eight states that emit points in the plane:
well apart, overlapping, or aliased (two states emit the same, and differ in what follows them). Figures are nats per
step that a held-out score falls short of the truth's own, so that lower is better; `hmmlearn` is its best of ten starts
by likelihood, fitted to all sequences. Rounds begin `afresh` and with two solvers, of which the sites' summed bound
chooses one; "4 plain rounds" and "8 plain rounds" do neither. Priors say how far apart states are, that they last and
how wide they are; with --vague they do not say the last, whose weight was chosen on seeds from 100 on.
Then seconds of one pass over 30,000 steps with eight states, in one thread, against hmmlearn's two
implementations. The last line is JSON.
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

SITES, SEQUENCES, LENGTH, STARTS = 10, 4, 60, 10
# A site's fit takes no time, and its best of ten starts is not always the best of more.
SITE_STARTS = 30
CENTRE, SCALE = 3.0, 3.0
# States last, and their means are about as far from the centre as the scale says.
PRIOR = {"stickiness": 3.0, "prior_strength": 0.3}
# Their own variance is about 1, with the weight of ten observations of each.
WIDTH = {"prior_scale": 1 / SCALE**2, "prior_degrees": 10.0}


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


def one_run(kind, states, seed, prior):
    rng = np.random.default_rng([seed, states])
    parameters = truth(kind, states, rng)
    columns = dict.fromkeys("xy", db.columns.Gaussian(CENTRE, SCALE))
    model = db.HiddenMarkov(states=states, columns=columns, **prior, ascent=db.Ascent(restarts=STARTS - 1))
    site = replace(model, ascent=db.Ascent(restarts=SITE_STARTS - 1))
    data, _ = model.draw(parameters, SITES * SEQUENCES, rng, length=LENGTH)
    held, _ = model.draw(parameters, 100, rng, length=LENGTH)
    shards = [data[site * SEQUENCES : (site + 1) * SEQUENCES] for site in range(SITES)]
    batch = model.fit(data, rng=rng).posterior
    posteriors = [site.fit(shard, rng=rng).posterior for shard in shards]
    both = (db.Quadratic(), db.Grouping())
    refined = db.refine(model, shards, posteriors, rounds=8, rng=rng, solver=both, afresh=True)
    plain = db.refine(model, shards, posteriors, rounds=8, rng=rng)
    known = hmmlearn_with(parameters).score(np.concatenate(held), [LENGTH] * 100) / (100 * LENGTH)
    figures = {
        "batch": batch,
        "one site": posteriors[0],
        "naive": db.product(posteriors),
        "merged": plain.rounds[0],
        "4 plain rounds": plain.rounds[4],
        "8 plain rounds": plain.merged,
        "4 rounds": refined.rounds[4],
        "8 rounds": refined.merged,
    }
    short = {label: known - model.score(posterior, held) for label, posterior in figures.items()}
    return short | {"hmmlearn": known - hmmlearn_score(data, held, states, seed)}


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
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="separated,overlapping,aliased")
    parser.add_argument("--states", default="4,8")
    parser.add_argument("--vague", action="store_true", help="priors that do not say how wide states are")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("hmmlearn").setLevel(logging.CRITICAL)
    with joblib.parallel_config("threading", n_jobs=1):
        speed = seconds_per_pass(3 if arguments.quick else 10)
    print({key: round(value, 4) for key, value in speed.items()}, flush=True)
    figures, prior = {"pass": speed}, PRIOR if arguments.vague else PRIOR | WIDTH
    for kind in arguments.only.split(","):
        for states in (4,) if arguments.quick else map(int, arguments.states.split(",")):
            runs = [one_run(kind, states, seed, prior) for seed in range(1 if arguments.quick else arguments.seeds)]
            found = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
            figures[f"{kind}, {states} states"] = found
            print(f"{kind}, {states}", {key: round(value, 4) for key, value in found.items()}, flush=True)
    print(json.dumps({"benchmark": "sequences", **figures}))


if __name__ == "__main__":
    main()
