"""One copy of the project in which mutants are tried, one at a time."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from catalogue import ROOT, Mutant, Patched

COPIED = ("src", "tests", "paper", "pyproject.toml")
PYTEST = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header")
SURVIVED, DIED, TIMED_OUT, BROKEN = "survived", "died", "timed out", "broken"
NOTICED = (DIED, TIMED_OUT)
# What pytest's exit status says: passed, failed, or the interpreter itself has crashed, as kernels can make it. All
# others mean that no test was run, which proves nothing.
VERDICTS = {0: SURVIVED, 1: DIED, -signal.SIGSEGV: DIED, -signal.SIGABRT: DIED}


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: noticed if a test failed or did not end, not if all passed or none could be run."""

    area: str
    name: str
    verdict: str
    seconds: float
    detail: str = ""


class Trial:
    """A copy of the source and the tests; kernels are compiled once for all mutants that leave them alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            part = ROOT / name
            if part.is_dir():
                shutil.copytree(part, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif part.exists():
                shutil.copy(part, folder / name)

    def baseline(self, tests: Sequence[str], limit: float) -> tuple[bool, str]:
        """Whether the tests pass as things are, and what they say; else whatever they say of mutants is worthless."""
        status, output = self._pytest(tests, limit, self.folder / "kernels")
        return status == 0, output

    def of(self, mutant: Mutant, limit: float) -> Outcome:
        """Run a mutant's tests on the changed copy, and undo the change."""
        path, begun = self.folder / mutant.path, time.monotonic()
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.applied(original), encoding="utf-8")
        try:
            with TemporaryDirectory(dir=self.folder) as own:
                kernels = Path(own) if mutant.file.startswith("kernels/") else self.folder / "kernels"
                status, output = self._pytest(mutant.tests, limit, kernels)
        finally:
            path.write_text(original, encoding="utf-8")
        verdict = TIMED_OUT if status is None else VERDICTS.get(status, BROKEN)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        detail = failed[1] if failed else output.strip()[-600:]
        return Outcome(mutant.area, mutant.name, verdict, time.monotonic() - begun, detail)

    def of_patched(self, test: Patched, limit: float) -> list[Outcome]:
        """Each case of a test that makes mutants by itself: where it passes, the mutant was noticed."""
        begun = time.monotonic()
        status, output = self._pytest([test.test], limit, self.folder / "kernels", "-rA", "--maxfail=1000")
        cases = re.findall(r"^(PASSED|FAILED) \S+\[([^\]]+)\]", output, re.MULTILINE)
        if status not in VERDICTS or not cases:
            return [Outcome(test.area, test.test, BROKEN, time.monotonic() - begun, output.strip()[-600:])]
        share = (time.monotonic() - begun) / len(cases)
        return [Outcome(test.area, name, DIED if word == "PASSED" else SURVIVED, share) for word, name in cases]

    def _pytest(self, tests: Sequence[str], limit: float, kernels: Path, *options: str) -> tuple[int | None, str]:
        """The exit status, None after the time limit, and what was printed."""
        environment = os.environ | {
            "PYTHONPATH": str(self.folder / "src"),
            # A changed file may have the length and the second of the original, and pass for it.
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": str(kernels),
        }
        command = [*PYTEST, *options, *(f"tests/{test}" for test in tests)]
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, f"no end after {limit:.0f} s"
        finally:
            # Tests may have started processes of their own.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
