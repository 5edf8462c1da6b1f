"""How alignment grows with the agents, the components and the words: seconds and fitted exponents.

    python benchmarks/alignment_growth.py [--quick]

Synthetic topics with the sparsity of 20 Newsgroups among a thousand agents. Seconds are processor time of all threads.
An exponent of 1 means linear. The last line is one JSON object.
"""

import argparse
import json
import time

import numpy as np
from _workloads import synthetic_topics

import decbayes as db

FLAT, TREE = db.solvers.Matching(restarts=0), db.solvers.Hierarchical(fan_in=8)


def seconds(posteriors, solver):
    begin = time.process_time()
    db.align(posteriors, solver=solver)
    return time.process_time() - begin


def exponent(sizes, times):
    """The slope of log(time) over log(size)."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def in_agents(sizes, solver, limit=None):
    posteriors = synthetic_topics(max(sizes))
    kept = [size for size in sizes if limit is None or size <= limit]
    return curve(kept, [seconds(posteriors[:size], solver) for size in kept])


def in_components(sizes):
    return curve(sizes, [seconds(synthetic_topics(20, topics=size, tokens=20_000), TREE) for size in sizes])


def in_words(sizes):
    return curve(sizes, [seconds(synthetic_topics(20, words=size, tokens=20_000), TREE) for size in sizes])


def curve(sizes, times):
    result = {"sizes": list(sizes), "seconds": times, "exponent": exponent(sizes, times)}
    print(json.dumps(result), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="to 1,000 agents, 50 components and 30,000 words")
    quick = parser.parse_args().quick
    seconds(synthetic_topics(10), TREE)  # loads compiled code
    agents = (100, 300, 1000) if quick else (100, 300, 1000, 3000, 10_000)
    results = {
        "agents, hierarchical": in_agents(agents, TREE),
        "agents, matching": in_agents(agents, FLAT, limit=1000 if quick else 3000),
        "components": in_components((10, 20, 50) if quick else (10, 20, 50, 100, 200)),
        "words": in_words((1000, 10_000, 30_000) if quick else (1000, 3000, 10_000, 30_000, 100_000)),
    }
    print(json.dumps({"quick": quick, "results": results}))


if __name__ == "__main__":
    main()
