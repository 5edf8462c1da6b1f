"""Mutants are tried in forks of a process that has collected all tests: a trial costs a fork and a few tests."""

from __future__ import annotations

import gc
import hashlib
import itertools
import json
import multiprocessing
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import boundaries
import pytest
from children import forked
from generator import ROOT, SOURCE, Mutant
from hypothesis import HealthCheck, Phase, settings
from numba.core.dispatcher import Dispatcher
from passed import Passed, Rewritten

DIED, TIMED_OUT, SURVIVED, UNREACHED = "died", "timed out", "survived", "unreached"
EQUIVALENT = "equivalent"  # a boundary between real numbers on which no test ever is
# A test may take so many seconds of processor time, or so many times as long as without the change. The clock on the
# wall is no measure where other programs use the processors: it only ends tests that wait for what never comes.
LEAST_LIMIT, TIMES, WALL = 10.0, 8.0, 12.0
FAVOURITES = 4
STARTING = 300.0  # a fresh process may take so many seconds on the wall until its first test has ended
MEMORY = 12 << 30
OPTIONS = (
    "-q",
    "-p",
    "no:xdist",
    "-p",
    "no:cacheprovider",
    "-o",
    "timeout=0",
    "--no-header",
    "--tb=native",
    "--assert=plain",
)
PRELOADED = ["numpy", "scipy.stats", "scipy.optimize", "scipy.sparse", "numba", "pytest", "hypothesis", "msgspec"]


@dataclass
class Reach:
    """Which tests pass which lines, and how long they take."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, set[int]]] = field(default_factory=lambda: defaultdict(dict))
    """By file: of a test the lines it passes."""
    functions: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """By file and outermost function: tests."""
    imported: set[tuple[str, str]] = field(default_factory=set)
    """Functions that are called by imports: a change must be there from the start."""
    killers: dict[tuple[str, ...], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By file, and by file and function: how many mutants each test has noticed there."""

    @classmethod
    def read(cls, path: Path, tests: Container[str]) -> Reach:
        """Of these tests, and of imports."""
        reach, latest = cls(), {entry["test"]: entry for entry in entries(path)}
        for entry in latest.values():
            if not entry["passed"] or (entry["test"] and entry["test"] not in tests):
                continue
            reach.seconds[entry["test"]] = entry["seconds"]
            for file, functions in entry["reach"].items():
                for function, mask in functions.items():
                    if not entry["test"]:
                        reach.imported.add((file, function))
                        continue
                    reach.functions[file, function].add(entry["test"])
                    places = (place for place, digit in enumerate(bin(int(mask, 16))[:1:-1]) if digit == "1")
                    reach.lines[file].setdefault(entry["test"], set()).update(places)
        return reach

    def tests(self, mutant: Mutant, seconds: float) -> list[str]:
        """Those that can notice a mutant: first those that have noticed others of its function or file, then the
        quick ones.

        Of a test with several cases no second one comes before all tests have had their turn. Scenarios whose results
        are recorded are tests of their own.
        """
        by_file, function = self.lines.get(mutant.file, {}), self.functions.get((mutant.file, mutant.function), set())
        if not function:  # its file, or the class that it is in, may have moved since
            method = mutant.function.split(".")[-1]
            function = {
                t for (_, name), tests in self.functions.items() if name.split(".")[-1] == method for t in tests
            }
        at_line = {test for test in function if not by_file.get(test, set()).isdisjoint(mutant.lines)}
        if not mutant.function:
            at_line, function = self._mentioning(mutant), set(by_file) or self._of_folder(mutant)
        chosen, spent = [], 0.0
        for test in dict.fromkeys(
            [*self._killers(mutant, at_line), *self._in_turns(at_line), *self._in_turns(function)]
        ):
            if not chosen or spent + self.seconds[test] <= seconds:
                chosen.append(test)
                spent += self.seconds[test]
        return chosen

    def _mentioning(self, mutant: Mutant) -> set[str]:
        """Tests that pass a line with the name that a statement of import time defines."""
        if not (named := re.match(r"def (\w+)|(\w+)(?:, \w+)* ?[:=]", mutant.old)):
            return set()
        mentioned, result = re.compile(rf"\b{named[1] or named[2]}\b"), set()
        for file, passed in self.lines.items():
            text = (SOURCE / file).read_text() if (SOURCE / file).exists() else ""
            places = {place for place, line in enumerate(text.splitlines(), 1) if mentioned.search(line)}
            result |= {test for test, lines in passed.items() if not lines.isdisjoint(places - {mutant.line})}
        return result

    def _of_folder(self, mutant: Mutant) -> set[str]:
        folder = mutant.file.rpartition("/")[0]
        return {test for file, tests in self.lines.items() if file.rpartition("/")[0] == folder for test in tests}

    def noticed(self, file: str, function: str, test: str) -> None:
        self.killers[file,][test] += 1
        self.killers[file, function][test] += 1

    def _killers(self, mutant: Mutant, tests: Container[str]) -> list[str]:
        """The few that have noticed most there for what they cost."""
        result: list[str] = []
        for place in ((mutant.file, mutant.function), (mutant.file,)):
            known = [
                (noticed / (0.05 + self.seconds[t]), t) for t, noticed in self.killers[place].items() if t in tests
            ]
            result += [test for _, test in sorted(known, reverse=True)[:FAVOURITES]]
        return result

    def _in_turns(self, tests: Iterable[str]) -> list[str]:
        turns: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            turns[test if test.startswith("tests/recorded/") else test.split("[")[0]].append(test)
        return [test for turn in itertools.zip_longest(*turns.values()) for test in turn if test is not None]

    def must_be_fresh(self, mutant: Mutant) -> bool:
        return not mutant.function or (mutant.file, mutant.function) in self.imported


def entries(path: Path) -> list[dict[str, Any]]:
    """Of a file with one entry per line."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, entry: dict[str, Any]) -> None:
    """In one write, since several processes append."""
    with path.open("ab", buffering=0) as file:
        file.write(json.dumps(entry).encode() + b"\n")


def stamp(item: pytest.Item) -> str:
    """Of the file in which a test stands."""
    return hashlib.sha256(item.path.read_bytes()).hexdigest()[:16]


class Reporter:
    """Says through a pipe how each test ended, and kills this process if one takes too much processor time."""

    def __init__(self, pipe: int, limits: Mapping[str, float]) -> None:
        self._pipe, self._limits = pipe, limits

    @pytest.hookimpl
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._limits.get(nodeid, LEAST_LIMIT))

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed or report.when == "teardown":
            os.write(self._pipe, json.dumps([report.nodeid, report.failed]).encode() + b"\n")

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            os.write(self._pipe, json.dumps([report.nodeid, True]).encode() + b"\n")


def without_shrinking() -> None:
    """A failure is enough: its smallest example is of no use, nor is the time that looking for it takes."""
    settings.register_profile(
        "mutants", phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck), deadline=None
    )
    settings.load_profile("mutants")  # on which that of conftest.py builds


def run(session: pytest.Session, items: Sequence[pytest.Item]) -> None:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


class TooSlow(BaseException):
    """A test that takes too long to be run for many mutants."""


def trace(items: Sequence[pytest.Item], passed: Passed, path: Path, *, longest: float, cases: float) -> None:
    """Write of each test how long it takes and which lines it passes, one line a test."""
    failed = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal failed
        failed = True
        raise TooSlow

    class Watch:
        @pytest.hookimpl
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            nonlocal failed
            failed = failed or not report.passed

    shared = SharedFixtures(passed)
    for plugin in (shared, Watch()):
        items[0].config.pluginmanager.register(plugin)
    signal.signal(signal.SIGVTALRM, stop)
    spent: dict[str, float] = defaultdict(float)
    known: dict[str, set[int]] = defaultdict(set)
    for item, following in zip(items, [*items[1:], None], strict=True):
        function = item.nodeid.split("[")[0]
        if spent[function] > cases:
            continue
        passed.clear()
        failed, begun = False, processed()
        signal.setitimer(signal.ITIMER_VIRTUAL, longest)
        with suppress(TooSlow):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        seen, seconds = passed.seen | shared.of(item), round(processed() - begun, 4)
        if seen <= known[function]:  # a case that goes where no earlier one went is worth its time
            spent[function] += seconds
        known[function] |= seen
        entry = {"test": item.nodeid, "passed": not failed, "seconds": seconds, "stamp": stamp(item)}
        append(path, entry | {"reach": passed.reach(seen)})


def processed() -> float:
    """Seconds of processor time of this process and of the children that have ended."""
    return sum(os.times()[:4])


class SharedFixtures:
    """What fixtures pass that are made once for several tests: all tests that use them pass it, not the first alone."""

    def __init__(self, passed: Passed) -> None:
        self._passed = passed
        self._seen: dict[Any, set[int]] = defaultdict(set)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Any:
        if fixturedef.scope == "function":
            return (yield)
        before = self._passed.clear()
        try:
            return (yield)
        finally:
            self._seen[fixturedef] |= self._passed.seen
            self._passed.add(before)

    def of(self, item: pytest.Item) -> set[int]:
        """By all fixtures that a test uses."""
        definitions = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
        return set().union(*(self._seen.get(each, set()) for each in itertools.chain(*definitions)))


def living() -> dict[str, list[FunctionType]]:
    """Our functions that exist by now, by the file of their code."""
    gc.unfreeze()  # what is frozen is not among the objects
    ours: dict[str, list[FunctionType]] = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(str(SOURCE)):
            ours[each.__code__.co_filename].append(each)
    return ours


def load_kernels() -> None:
    """Machine code that tests have left on disk: loaded once here, and not by each of the children."""
    for kernel in [each for each in gc.get_objects() if isinstance(each, Dispatcher)]:
        file = getattr(getattr(kernel, "_cache", None), "_cache_file", None)
        for signature, *_ in file._load_index() if file is not None else ():
            kernel.compile(signature)


def swapped(mutant: Mutant, functions: Iterable[FunctionType], *, watched: bool = False) -> int:
    """Give the living functions the changed code, or code that is watched; how many there were."""
    codes = {
        (code.co_qualname, code.co_firstlineno): code
        for code in _codes(compile(mutant.tree(watched=watched), str(mutant.path), "exec", dont_inherit=True))
    }
    changed = 0
    for function in functions:
        name = function.__code__.co_qualname
        if name == mutant.function or name.startswith(mutant.function + ".<locals>"):
            function.__code__ = codes[name, function.__code__.co_firstlineno]
            changed += 1
    return changed


def _codes(code: CodeType) -> Iterable[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _codes(part)


def fresh(mutant: Mutant, limits: Mapping[str, float], pipe: Any, folder: str) -> None:
    """A trial in a process that has not imported anything of ours."""
    os.setpgid(0, 0)
    os.chdir(ROOT)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    assert "decbayes" not in sys.modules
    sys.path.insert(0, str(SOURCE.parent))
    sys.meta_path.insert(0, Rewritten({mutant.file: mutant.tree}))
    without_shrinking()
    status = pytest.main([*OPTIONS, "-x", *limits], plugins=[Reporter(pipe.fileno(), limits)])
    os.write(pipe.fileno(), json.dumps(["import", status not in (0, 1)]).encode() + b"\n")
    os._exit(0)


class Trials:
    """Tries mutants one after the other in children of this process."""

    def __init__(self, session: pytest.Session, reach: Reach, *, seconds: float) -> None:
        self._session, self._reach, self._seconds = session, reach, seconds
        self._items = {item.nodeid: item for item in session.items}
        self._passing: dict[str, bool] = {}
        self._functions = living()
        load_kernels()
        boundaries.watch()
        gc.freeze()  # memory that no collection touches stays shared with the children
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(PRELOADED)

    def of(self, mutant: Mutant) -> tuple[str, str]:
        """What became of a mutant, and the test that noticed it or how many did not."""
        while True:
            tests = [test for test in self._reach.tests(mutant, self._seconds) if self._passing.get(test, True)]
            verdict, detail = self._of(mutant, tests)
            if verdict == SURVIVED and mutant.boundary and self._never_on_it(mutant, tests):
                return EQUIVALENT, "real numbers that are never equal"
            if verdict in (SURVIVED, UNREACHED) or detail not in self._items or self._passes(detail):
                if detail in self._items:
                    self._reach.noticed(mutant.file, mutant.function, detail)
                return verdict, detail

    def _never_on_it(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        return not self._reach.must_be_fresh(mutant) and self._of(mutant, tests, watched=True)[0] == SURVIVED

    def _passes(self, test: str) -> bool:
        """Whether it does in a child with the source as it is: one that fails there, too, notices nothing."""
        if test not in self._passing:
            self._passing[test] = self._of(None, [test])[0] == SURVIVED
        return self._passing[test]

    def _of(self, mutant: Mutant | None, tests: Sequence[str], *, watched: bool = False) -> tuple[str, str]:
        if not tests:
            return UNREACHED, "no test passes there"
        folder = tempfile.mkdtemp(prefix="mutant-")
        limits = {test: max(LEAST_LIMIT, TIMES * self._reach.seconds[test]) for test in tests}
        try:
            if mutant and self._reach.must_be_fresh(mutant):
                return self._fresh(mutant, limits, folder)
            verdict = self._forked(mutant, limits, folder, watched=watched)
            return verdict or self._fresh(mutant, limits, folder)  # type: ignore[arg-type]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _forked(
        self, mutant: Mutant | None, limits: Mapping[str, float], folder: str, *, watched: bool = False
    ) -> tuple[str, str] | None:
        """None if the functions that live cannot be given the change."""
        reading, writing = os.pipe()

        def trial() -> None:
            os.close(reading)
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            try:
                changed = swapped(mutant, self._functions[str(mutant.path)], watched=watched) if mutant else 1
            except (ValueError, KeyError):  # another number of free variables
                changed = 0
            os.write(writing, json.dumps(["changed", False] if changed else ["unchanged", True]).encode() + b"\n")
            if changed:
                self._session.config.pluginmanager.register(Reporter(writing, limits))
                run(self._session, [self._items[test] for test in limits])

        child = forked(trial)
        os.close(writing)
        verdict = _awaited(child, reading, limits, 0.0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return None if verdict == (DIED, "unchanged") else _known_cause(verdict, status)

    def _fresh(self, mutant: Mutant, limits: Mapping[str, float], folder: str) -> tuple[str, str]:
        reading, writing = self._processes.Pipe(duplex=False)
        process = self._processes.Process(target=fresh, args=(mutant, limits, writing, folder))
        process.start()
        writing.close()
        verdict = _awaited(process.pid or 0, os.dup(reading.fileno()), limits, STARTING)
        process.join()
        reading.close()
        return _known_cause(verdict, process.exitcode)


def _awaited(child: int, pipe: int, limits: Mapping[str, float], starting: float) -> tuple[str, str]:
    """Read how tests end until one fails, all have passed, or one takes too long."""
    tests, ended, rest = [*limits], 0, b""
    begun, limit = time.monotonic(), max(starting, WALL * limits[tests[0]])
    try:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, begun + limit - time.monotonic()))
            if not ready:
                return TIMED_OUT, tests[min(ended, len(tests) - 1)]
            if not (part := os.read(pipe, 1 << 16)):
                # The child has ended: of itself after the last test, or killed by what the change did to it.
                return (SURVIVED, f"{ended} tests") if ended >= len(tests) else (DIED, tests[ended])
            *lines, rest = (rest + part).split(b"\n")
            for name, failed in map(json.loads, lines):
                if failed:
                    return DIED, name
                ended += name in limits
            begun, limit = time.monotonic(), WALL * limits[tests[min(ended, len(tests) - 1)]]
    finally:
        os.close(pipe)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)


def _known_cause(verdict: tuple[str, str], status: int | None) -> tuple[str, str]:
    """A child that was killed by its own timer has not crashed."""
    return (TIMED_OUT, verdict[1]) if status == -signal.SIGPROF else verdict
