"""Break the source on purpose, one small change at a time, and see whether tests notice."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections import Counter, defaultdict
from importlib import import_module
from itertools import chain
from pathlib import Path

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
sys.path.insert(0, str(Path(__file__).parent))

import pytest
from children import heed_signals, in_parallel
from equivalents import equivalents
from generator import AREAS, ROOT, SOURCE, Mutant, files, mutants, sample
from passed import Passed, module_name, watched_modules
from trial import (
    DIED,
    EQUIVALENT,
    OPTIONS,
    SURVIVED,
    TIMED_OUT,
    UNREACHED,
    Reach,
    Trials,
    append,
    entries,
    processed,
    stamp,
    trace,
    without_shrinking,
)

TESTS = (
    "families", "kernels", "columns", "merging", "models", "calibration", "streams", "network", "privacy", "secure",
    "disclosure", "interop", "estimators", "extension", "cli", "study", "reporting", "test_posterior.py",
    "test_files.py", "test_bad_input.py", "test_examples.py", "test_package.py", "test_strangers_files.py",
    "test_random_numbers.py", "recorded",
)  # fmt: skip
HERE = Path(__file__).parent
REQUIRED = 0.9
KEPT = Path(tempfile.gettempdir()) / f"decbayes-mutants-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]}"


class Driver:
    """Takes over where pytest has collected all tests and would run them."""

    def __init__(self, arguments: argparse.Namespace, chosen: list[Mutant]) -> None:
        self._arguments, self._chosen, self._passed = arguments, chosen, Passed()
        state()  # as it is now, whatever is edited meanwhile
        self._map = KEPT / "reach.jsonl"
        self._results = KEPT / "results.jsonl"
        if arguments.anew:
            self._results.unlink(missing_ok=True)
        if arguments.map:
            self._map.unlink(missing_ok=True)
        sys.meta_path.insert(0, watched_modules(self._passed, files()))
        for file in files():
            import_module(module_name(file))
        self._imports = self._passed.reach(self._passed.seen)

    @pytest.hookimpl
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise pytest.UsageError("tests cannot be collected; see `python -m pytest --collect-only`")
        self._trace(session)
        results = self.results()
        waiting = [mutant for mutant in self._chosen if mutant.key not in results]
        reach = Reach.read(self._map, tests := {item.nodeid for item in session.items})
        for entry in entries(self._results):
            if entry["detail"] in tests and entry["detail"] in reach.seconds:
                reach.noticed(*entry["key"].split("|")[:2], entry["detail"])
        trials = Trials(session, reach, seconds=self._arguments.seconds)
        in_parallel([lambda part=part: self._try(trials, part) for part in _parts(waiting, self._arguments.jobs)])
        return True

    def _trace(self, session: pytest.Session) -> None:
        """Of tests that are new or have changed since they were last traced."""
        old = self._arguments.old_map
        known = {(entry["test"], "" if old else entry["stamp"]) for entry in entries(self._map)}
        by_file = defaultdict(list)
        for item in session.items:
            if (item.nodeid, "" if old else stamp(item)) not in known:
                by_file[item.path].append(item)
        if not by_file:
            return
        print(f"Tracing {sum(map(len, by_file.values())):,} tests of {len(session.items):,}…", flush=True)
        parts = [[*chain(*part)] for part in _parts(list(by_file.values()), self._arguments.jobs)]
        append(self._map, {"test": "", "passed": True, "seconds": 0.0, "stamp": "", "reach": self._imports})
        limits = {"longest": self._arguments.longest, "cases": self._arguments.cases}
        in_parallel(
            [lambda items=items: trace(items, self._passed, self._map, **limits) for items in parts],
            silent=True,
        )

    def _try(self, trials: Trials, part: list[Mutant]) -> None:
        for mutant in part:
            begun = processed()
            verdict, detail = trials.of(mutant)
            entry = {"key": mutant.key, "verdict": verdict, "detail": detail, "state": state()}
            append(self._results, entry | {"seconds": round(processed() - begun, 2)})
            if verdict in (SURVIVED, UNREACHED):
                print(described(mutant, verdict, detail), flush=True)

    def results(self) -> dict[str, dict[str, str]]:
        """Of those that have been tried. One that survived is tried again if sources or tests have changed."""
        return {
            entry["key"]: entry
            for entry in entries(self._results)
            if entry["verdict"] in (DIED, TIMED_OUT) or entry["state"] == state()
        }


_STATE: list[str] = []


def state() -> str:
    """A digest of sources and tests."""
    if not _STATE:
        folders = (SOURCE, ROOT / "tests")
        paths = sorted(path for folder in folders for path in folder.rglob("*.py") if path.parent != HERE)
        _STATE.append(hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16])
    return _STATE[0]


def _parts(everything: list, jobs: int) -> list[list]:  # type: ignore[type-arg]
    return [part for number in range(jobs) if (part := everything[number::jobs])]


def described(mutant: Mutant, verdict: str, detail: str) -> str:
    place = f"{(SOURCE / mutant.file).relative_to(ROOT)}:{mutant.line}"
    return f"{verdict} ({detail}): {place} {mutant.function} [{mutant.kind}]\n    - {mutant.old}\n    + {mutant.new}"


def summary(chosen: list[Mutant], results: dict[str, dict[str, str]]) -> float:
    """Print figures by area and by kind; the share that died."""
    known = [mutant for mutant in chosen if mutant.key in results]
    tried = [mutant for mutant in known if results[mutant.key]["verdict"] != EQUIVALENT]
    alive = [mutant for mutant in tried if results[mutant.key]["verdict"] in (SURVIVED, UNREACHED)]
    for mutant in alive:
        print(described(mutant, results[mutant.key]["verdict"], results[mutant.key]["detail"]))
    for name, of in (("area", lambda mutant: mutant.area), ("kind", lambda mutant: mutant.kind)):
        totals, left = Counter(map(of, tried)), Counter(map(of, alive))
        print(f"\n{name:20} tried  died   share")
        for group, total in sorted(totals.items()):
            print(f"{group:20} {total:5} {total - left[group]:5} {(total - left[group]) / total:7.1%}")
    late = sum(results[mutant.key]["verdict"] == TIMED_OUT for mutant in tried)
    dead = len(tried) - len(alive)
    share = dead / max(len(tried), 1)
    print(f"\n{len(known)} of {len(chosen)} tried, {len(known) - len(tried)} of them on no boundary of real numbers.")
    error = (share * (1.0 - share) / max(len(tried), 1)) ** 0.5
    print(f"{dead} of {len(tried)} died ({late} by their time limit): {share:.1%} ± {error:.1%}")
    return share


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--sample", type=int, default=440, help="how many mutants, known equivalents among them")
    parser.add_argument("--only", default="", help=f"files with this in their path, such as {', '.join(AREAS)}")
    parser.add_argument("--part", nargs="+", default=[""], help="of that sample, files with one of these in their path")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests for each mutant, as they take without it")
    parser.add_argument("--jobs", "-j", type=int, default=1, help="processes")
    parser.add_argument(
        "--tests", nargs="+", default=[f"tests/{name}" for name in TESTS], help="folders or files of tests"
    )
    parser.add_argument("--without", nargs="+", default=[], help="tests with one of these in their path are left out")
    parser.add_argument("--longest", type=float, default=10.0, help="processor time of a test that is used, in seconds")
    parser.add_argument("--cases", type=float, default=60.0, help="processor time of all cases of a test, in seconds")
    parser.add_argument("--map", action="store_true", help="find out again which tests pass which lines")
    parser.add_argument("--old-map", action="store_true", help="do not trace tests again whose files have changed")
    parser.add_argument("--anew", action="store_true", help="forget what earlier runs have found")
    parser.add_argument("--list", action="store_true", help="print the sample and stop")
    arguments = parser.parse_args()
    KEPT.mkdir(exist_ok=True)
    everything = {file: mutants(file) for file in files(arguments.only)}
    drawn, known = sample(everything, arguments.sample, arguments.seed), equivalents(everything)
    parts = [mutant for mutant in drawn if any(part in mutant.file for part in arguments.part)]
    chosen = [mutant for mutant in parts if mutant.key not in known]
    if arguments.list:
        for mutant in chosen:
            print(described(mutant, "listed", ""))
        return 0
    os.chdir(ROOT)
    sys.path.insert(0, str(SOURCE.parent))
    heed_signals()
    driver = Driver(arguments, chosen)
    without_shrinking()
    try:
        left_out = [f"--ignore-glob=*{name}*" for name in arguments.without]
        pytest.main([*OPTIONS, "-s", *left_out, *arguments.tests], plugins=[driver])
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on from here.")
    share = summary(chosen, driver.results())
    return int(share < REQUIRED)


if __name__ == "__main__":
    sys.exit(main())
