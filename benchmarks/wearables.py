"""States of a smart watch's recordings at four sites, against what people did: BasicMotions, from the package aeon.

    python benchmarks/wearables.py [--seeds N] [--picture FILE]

80 recordings of ten seconds (standing, walking, running, badminton) become 20 sessions of one recording of each, in
random order; every half second is one step. Four sites have four sessions each, four sessions are held out. Figures are
log predictive densities per step, and adjusted Rand indices of the most likely states against what was done. Labels are
not used otherwise. `pip install aeon` or `sktime` beforehand: their wheels hold the data. The last line is JSON.
"""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import decbayes as db

SITES, STATES = 4, 4
COLUMNS = {"arm": db.columns.Gaussian(0.5, 0.5), "turn": db.columns.Gaussian(0.0, 0.5)}


def recordings():
    """(steps, 2) of each recording, by activity."""
    found = [spec for spec in map(find_spec, ("aeon", "sktime")) if spec]
    if not found:
        raise SystemExit("The recordings come with aeon or sktime; install one of them.")
    kept = {}
    for file in sorted(Path(found[0].origin).parent.glob("datasets/data/BasicMotions/*.ts")):
        for line in file.read_text().split("@data")[1].split():
            *channels, activity = line.split(":")
            values = np.array([np.fromstring(channel, sep=",") for channel in channels]).T
            squares = (values**2).reshape(-1, 5, 2, 3).sum(axis=3).mean(axis=1)
            kept.setdefault(activity.lower(), []).append(np.log10(np.sqrt(squares) + 0.01))
    return kept


def sessions(kept, rng):
    """Recordings of all activities one after another, and what was done at each step."""
    shuffled = {activity: [each[place] for place in rng.permutation(len(each))] for activity, each in kept.items()}
    for parts in zip(*shuffled.values(), strict=True):
        order = rng.permutation(len(parts))
        done = [activity for place in order for activity in [list(shuffled)[place]] * len(parts[place])]
        yield np.concatenate([parts[place] for place in order]), np.array(done)


def one_run(kept, seed, covariance):
    rng = np.random.default_rng(seed)
    drawn = [*sessions(kept, rng)]
    model = db.HiddenMarkov(states=STATES, columns=COLUMNS, covariance=covariance, stickiness=10.0)
    shards = [[rows for rows, _ in drawn[site : 4 * SITES : SITES]] for site in range(SITES)]
    held = drawn[4 * SITES :]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    refined = db.refine(model, shards, posteriors, rounds=5, rng=rng)
    known = {
        "one site": posteriors[0],
        "naive": db.merging.product(posteriors),
        "merged": refined.rounds[0],
        "5 rounds": refined.merged,
        "all in one place": model.fit(model.joined(shards), rng=rng).posterior,
    }
    rows, done = [rows for rows, _ in held], np.concatenate([done for _, done in held])
    scores = {name: model.score(posterior, rows) for name, posterior in known.items()}
    found = {
        name: db.checking.adjusted_rand(done, np.concatenate(model.path(posterior, rows)))
        for name, posterior in known.items()
    }
    return scores, found, (refined.merged, held[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="one split only")
    parser.add_argument("--picture")
    arguments = parser.parse_args()
    seeds = 1 if arguments.quick else arguments.seeds
    kept, figures = recordings(), {}
    for covariance in ("full", "diagonal"):
        runs = [one_run(kept, seed, covariance) for seed in range(seeds)]
        for part, name in enumerate(("score", "Rand index")):
            means = {key: float(np.mean([run[part][key] for run in runs])) for key in runs[0][part]}
            figures[f"{name}, {covariance}"] = means
            print(f"{name}, {covariance}", {key: round(value, 3) for key, value in means.items()}, flush=True)
        if arguments.picture and covariance == "full":
            posterior, (rows, done) = runs[0][2]
            path = db.model_for(posterior.structure).path(posterior, [rows])[0]
            names = [max(done[path == state], key=list(done[path == state]).count, default="") for state in range(4)]
            db.plot.states(posterior, rows, names=names, truth=done, seconds=0.5).savefig(arguments.picture)
    print(json.dumps({"benchmark": "wearables", **figures}))


if __name__ == "__main__":
    main()
