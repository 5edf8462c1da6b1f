"""Real agents are killed again and again, at random moments: is anything lost, or counted twice?

Five agents on loopback, each linked with two others, estimate one mean. Again and again one of them is killed with
`kill -9` between nothing and two seconds after it was started, and is started again with its store; every tenth time
it has new data. After every fifty kills all must hold the same records, and the merge must be the fit of all points at
once, each counted once. Run as

    python benchmarks/network_kills.py [--kills 1000] [--seed 0] [--quick]

The last line is one JSON object. `lost` and `doubled` are observations.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from parties import Means

AGENTS = 5
BETWEEN_CHECKS = 50
LATEST = 2.0
"""Seconds after its start at which an agent is killed at the latest."""
PATIENCE = 300.0


def neighbours(party: Means, name: str) -> tuple[str, ...]:
    """The two agents before it in the ring that have been started."""
    names = sorted(party.charter.members)
    at = names.index(name)
    return tuple(other for other in (names[at - 1], names[at - 2]) if other in party.agents and other != name)


def kill(party: Means, name: str, rng: np.random.Generator) -> None:
    """Kill an agent at a random moment after its start, and start it again."""
    time.sleep(float(rng.uniform(0, LATEST)) ** 2 / LATEST)
    process = party.agents[name].process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    party.join(name, shards=int(rng.random() < 0.1), neighbours=neighbours(party, name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="20 kills")
    chosen = parser.parse_args()
    kills = 20 if chosen.quick else chosen.kills
    rng, start, slowest = np.random.default_rng(chosen.seed), time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as folder, Means(Path(folder), AGENTS) as party:
        names = sorted(party.charter.members)
        for name in names:
            party.join(name, neighbours=neighbours(party, name))
        for number in range(1, kills + 1):
            kill(party, names[int(rng.integers(AGENTS))], rng)
            if number % BETWEEN_CHECKS == 0 or number == kills:
                slowest = max(slowest, party.agreement(names, set(names), timeout=PATIENCE))
                print(f"{number} kills: all agree", flush=True)
        observations = party.stored(names[0]).description["observations"]
        difference = observations - len(party.points_of(set(names)))
    result = {
        "benchmark": "network_kills",
        "kills": kills,
        "observations": observations,
        "lost": max(0, -difference),
        "doubled": max(0, difference),
        "slowest_agreement_s": round(slowest, 1),
        "seconds": round(time.monotonic() - start),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
