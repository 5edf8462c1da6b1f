"""Alignment against the paper's method (SciPy, dense) on the same posteriors: seconds and J side by side, one thread.

    python benchmarks/alignment_speed.py [--quick] [--cache FOLDER]

Topics are fitted to 20 Newsgroups; mixtures and latent features are synthetic. Seconds are processor time of one
thread, so that other work on the machine does not count. `ratio` is the reference's seconds by ours. The reference
stops after forty sweeps where it would take longer. The last line is one JSON object.
"""

import argparse
import json
import time

import joblib
from _reference import paper_matching
from _workloads import news_posteriors, synthetic_features, synthetic_mixtures

import decbayes as db

SOLVERS = {"matching": db.Matching(restarts=0), "hierarchical": db.Hierarchical(fan_in=8)}


def workloads(quick, cache):
    for agents in (5, 10) if quick else (5, 10, 50, 200):
        yield f"LDA, {agents} agents", lambda agents=agents: news_posteriors(agents, cache=cache)
    for components in (10,) if quick else (10, 100):
        name = f"mixture, {components} components, 50 agents"
        yield name, lambda components=components: synthetic_mixtures(50, components=components)
    for components in (10,) if quick else (10, 50):
        name = f"features, {components} features, 50 agents"
        yield name, lambda components=components: synthetic_features(50, components=components)


def timed(work):
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def compare(posteriors):
    """Our seconds are the best of three: the first call also loads compiled code."""
    row = {}
    for name, solver in SOLVERS.items():
        runs = [timed(lambda solver=solver: db.align(posteriors, solver=solver)) for _ in range(3)]
        row[name] = {"seconds": min(seconds for seconds, _ in runs), "J": runs[0][1].objective[-1]}
    seconds, (_, objective, matchings) = timed(lambda: paper_matching(posteriors, most_sweeps=40))
    row["reference"] = {"seconds": seconds, "J": float(objective[-1]), "matchings": matchings}
    for name in SOLVERS:
        row[name]["ratio"] = seconds / row[name]["seconds"]
        row[name]["J_gain"] = row[name]["J"] - row["reference"]["J"]
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smaller half")
    parser.add_argument("--cache", help="folder that keeps the fitted posteriors")
    parser.add_argument("--only", default="", help="run the workloads whose name contains this")
    arguments = parser.parse_args()
    results = {}
    with joblib.parallel_config(n_jobs=1):
        for name, make in workloads(arguments.quick, arguments.cache):
            if arguments.only in name:
                results[name] = compare(make())
                print(name, json.dumps(results[name]), flush=True)
    print(json.dumps({"quick": arguments.quick, "results": results}))


if __name__ == "__main__":
    main()
