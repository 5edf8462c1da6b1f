"""Ten thousand random histories of a group with the real protocol, and what becomes of broken ones.

Every history is checked after every event; with `--mutants` each broken protocol of `tests/broken_*.py` runs through
histories until the checkers catch it. Run as

    python benchmarks/network_histories.py [--histories 10000] [--first 0] [--mutants] [--varied] [--jobs N] [--quick]

`--first` is the seed of the first history, so that many can be run in pieces. `--varied` takes the histories of the
tests: of three to eight sites and 80 to 200 steps. The last line is one JSON object. Needs NumPy, SciPy, msgspec,
safetensors and cryptography, and no link to anything.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from decbayes.network.simulation.guarantees import Violation
from decbayes.network.simulation.schedule import History, run_history, run_varied

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
BLOCK = 50


class Patch:
    """Replaces names until it is undone."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def setattr(self, target: Any, name: str, value: Any) -> None:
        self._before.append((target, name, getattr(target, name)))
        setattr(target, name, value)

    def undo(self) -> None:
        for target, name, value in reversed(self._before):
            setattr(target, name, value)


@contextmanager
def broken(name: str) -> Iterator[range]:
    """The protocol with one rule broken, and the seeds of histories that may show it."""
    import broken_decisions  # noqa: F401
    import broken_pools  # noqa: F401
    from broken_agents import MUTANTS

    breaks, seeds = MUTANTS[name]
    patch = Patch()
    breaks(patch)
    try:
        yield seeds
    finally:
        patch.undo()


def happened(history: History) -> Counter[str]:
    """What a history consisted of."""
    simulation = history.simulation
    told = Counter(histories=1, steps=history.plan.steps, messages=simulation.traffic.messages)
    told += Counter(lost=simulation.traffic.lost, starts=sum(site.starts for site in simulation.sites))
    for site in simulation.running:
        assert site.agent is not None
        told += Counter(excluded=len(site.agent.pool.proofs), refused=site.agent.refused.total())
    motions = {m: ballot for s in simulation.running if s.agent for m, ballot in s.agent.pool.decisions.settled.items()}
    told += Counter(f"settled_{type(ballot.question).__name__.lower()}" for ballot in motions.values())
    return told


def honest(block: tuple[range, bool]) -> tuple[Counter[str], list[str]]:
    seeds, varied = block
    told, violations = Counter[str](), []
    for seed in seeds:
        try:
            told += happened((run_varied if varied else run_history)(seed))
        except Violation as violation:
            violations.append(str(violation))
    return told, violations


def caught(task: tuple[str, bool]) -> tuple[str, int, float, str | None]:
    """How many histories a broken protocol survives, the time they take, and what the checkers say."""
    name, varied = task
    begin = time.process_time()
    with broken(name) as seeds:
        for number, seed in enumerate(seeds, 1):
            try:
                (run_varied if varied else run_history)(seed)
            except Violation as violation:
                return name, number, time.process_time() - begin, str(violation)
    return name, len(seeds), time.process_time() - begin, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--varied", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    count = 20 if options.quick else options.histories
    begin, told, violations = time.perf_counter(), Counter[str](), []
    seeds = range(options.first, options.first + count)
    blocks = [(seeds[first : first + BLOCK], options.varied) for first in range(0, count, BLOCK)]
    with get_context("spawn").Pool(options.jobs) as pool:
        for block, found in pool.imap_unordered(honest, blocks):
            told += block
            violations += found
            print(f"\r{told['histories']:,} of {count:,}, {len(violations)} violations", end="", file=sys.stderr)
        figures: dict[str, Any] = {**told, "violations": violations, "seconds": round(time.perf_counter() - begin, 1)}
        print(f"\n{dict(told)}, {len(violations)} violations, {figures['seconds']} s")
        if options.mutants:
            figures["mutants"] = {}
            import broken_decisions  # noqa: F401
            import broken_pools  # noqa: F401
            from broken_agents import MUTANTS

            tasks = [(name, options.varied) for name in ([*MUTANTS][:3] if options.quick else MUTANTS)]
            for name, histories, seconds, violation in pool.imap_unordered(caught, tasks):
                print(f"{histories:4d} histories, {seconds:6.1f} s  {name}: {violation or 'NOT CAUGHT'}", flush=True)
                figures["mutants"][name] = {"histories": histories, "seconds": seconds, "caught": violation is not None}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
