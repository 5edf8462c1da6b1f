"""Alignment against the paper's method (SciPy, dense) on the same posteriors: seconds and J side by side, one thread.

    python benchmarks/alignment_speed.py [--quick] [--cache FOLDER]

Topics are fitted to 20 Newsgroups; mixtures and latent features are synthetic. Seconds are processor time of one
thread, so that other work on the machine does not count, each the best of some runs in turn. `ratio` is the reference's
seconds by ours. `again` is that of posteriors that were merged before: what was read of them is kept. The reference
stops after forty sweeps where it would take longer. The last line is one JSON object.
"""

import argparse
import json
import time

import joblib
from _reference import paper_matching
from _workloads import news_posteriors, synthetic_features, synthetic_mixtures

import decbayes as db

SOLVERS = {"matching": db.solvers.Matching(restarts=0), "hierarchical": db.solvers.Hierarchical(fan_in=8)}


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
    """Short runs are repeated more often; the first also loads compiled code."""
    row, reference = {}, [timed(lambda: paper_matching(posteriors, most_sweeps=40))]
    repeats = 15 if reference[0][0] < 1.0 else 3
    for _ in range(repeats if repeats > 3 else 0):
        reference.append(timed(lambda: paper_matching(posteriors, most_sweeps=40)))
    seconds, (_, objective, matchings) = min(seconds for seconds, _ in reference), reference[0][1]
    row["reference"] = {"seconds": seconds, "J": float(objective[-1]), "matchings": matchings}
    for name, solver in SOLVERS.items():
        first, again, found = align_seconds(posteriors, solver, repeats)
        row[name] = {"seconds": first, "ratio": seconds / first, "again": seconds / again, "J": found}
        row[name]["J_gain"] = found - row["reference"]["J"]
    return row


def align_seconds(posteriors, solver, repeats):
    """The least seconds of posteriors that are met for the first time, and of the same ones again; and J."""
    first, again = [], []
    for _ in range(repeats):
        unread = [db.Posterior(posterior.structure, posterior.contribution) for posterior in posteriors]
        for seconds in (first, again):
            took, found = timed(lambda unread=unread: db.align(unread, solver=solver))
            seconds.append(took)
    return min(first), min(again), found.objective[-1]


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
