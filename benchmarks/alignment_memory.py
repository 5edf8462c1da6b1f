"""Peak memory of a merge: posteriors in memory, and read from files one group at a time.

    python benchmarks/alignment_memory.py [--quick] [--only matching,hierarchical,grouping]

Each figure is the peak resident size of a process of its own, less that of one that merges ten posteriors: imports and
compiled code do not count. Synthetic topics, 20 × 10,000. The last line is one JSON object.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _workloads import synthetic_topics

import decbayes as db

SOLVERS = {
    "matching": db.solvers.Matching(restarts=0),
    "hierarchical": db.solvers.Hierarchical(fan_in=8),
    "grouping": db.solvers.Grouping(),  # what `merge` does by itself
}


def child(kind, solver, folder, agents):
    """Merge the first so many posteriors of a folder and print what that took."""
    paths = sorted(Path(folder).glob("*.posterior"))[:agents]
    posteriors = db.merging.Library(paths) if kind == "files" else [db.load(path) for path in paths]
    begin = time.perf_counter()
    db.merge(posteriors, solver=SOLVERS[solver])
    # The process's own peak; that of `resource` begins with the parent's.
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    print(json.dumps({"seconds": time.perf_counter() - begin, "peak_mebibytes": peak}))


def measured(kind, solver, folder, agents):
    command = [sys.executable, __file__, "--child", kind, solver, str(folder), str(agents)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="to 500 agents instead of 10,000")
    parser.add_argument("--only", default=",".join(SOLVERS), help="which solvers, with commas between them")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        kind, solver, folder, agents = arguments.child
        child(kind, solver, folder, int(agents))
        return
    sizes = (100, 500) if arguments.quick else (1000, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        for agent, posterior in enumerate(synthetic_topics(max(sizes))):
            db.save(posterior, Path(folder) / f"{agent:06d}.posterior")
        base = measured("memory", "hierarchical", folder, 10)["peak_mebibytes"]
        cases = [
            (kind, solver, size)
            for kind in ("memory", "files")
            for solver in arguments.only.split(",")
            for size in sizes
        ]
        cases = [case for case in cases if case[:2] != ("files", "matching")]
        results = {}
        for kind, solver, size in cases:
            result = measured(kind, solver, folder, size)
            result["above_base_mebibytes"] = result["peak_mebibytes"] - base
            results[f"{solver}, {kind}, {size} agents"] = result
            print(kind, solver, size, json.dumps(result), flush=True)
    print(json.dumps({"quick": arguments.quick, "base_mebibytes": base, "results": results}))


if __name__ == "__main__":
    main()
