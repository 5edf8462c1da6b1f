"""Compiled code is kept where that is possible, is never stale, and is never what stops a fit."""

import errno
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import decbayes
from decbayes.kernels import compiled as compiling

PACKAGE = Path(decbayes.__file__).parent
TABULATE = """
import numpy as np
from decbayes.kernels.gain import tabulate

table = np.empty((1, 1))
tabulate(np.full((1, 1), 3.0), table)
print(table[0, 0])
"""


def run_copy(folder: Path, code: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run code with a copy of the package in `folder`; its kernels are kept in `cache`, if anywhere."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"NUMBA_CACHE_DIR": str(cache), "HOME": "/dev/null"}
    run = [sys.executable, "-c", code]
    return subprocess.run(run, capture_output=True, text=True, check=True, env=environment, cwd=folder)


def copy_package(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "decbayes", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_kernels_run_where_nothing_can_be_written_and_say_so_once(tmp_path):
    # Tests may run as root, whom no permission stops: files where folders should be stop everybody.
    folder = copy_package(tmp_path)
    (folder / "decbayes" / "kernels" / "__pycache__").touch()
    (folder / "cache").touch()
    done = run_copy(folder, TABULATE, folder / "cache")
    assert done.stderr.count("Warning") == 1
    assert "Set NUMBA_CACHE_DIR to a folder that can be written to" in done.stderr
    assert float(done.stdout) == pytest.approx(np.log(2.0))


@pytest.mark.slow
def test_a_kernel_is_compiled_again_when_one_that_it_has_inlined_changes(tmp_path):
    folder, cache = copy_package(tmp_path), tmp_path / "cache"
    before = float(run_copy(folder, TABULATE, cache).stdout)
    kept = sorted(cache.rglob("gain.tabulate*.nbc"))
    assert before == pytest.approx(np.log(2.0))
    assert kept
    special = folder / "decbayes" / "kernels" / "special.py"
    changed = re.sub(r"(?m)^HALF_LOG_2_PI = .*", "HALF_LOG_2_PI = 100.0", special.read_text(encoding="utf-8"))
    special.write_text(changed, encoding="utf-8")
    assert float(run_copy(folder, TABULATE, cache).stdout) > 50.0
    assert sorted(cache.rglob("gain.tabulate*.nbc")) == kept  # the stale one is overwritten


def test_a_disk_that_fails_costs_time_and_nothing_else(monkeypatch):
    def full(locator):
        raise OSError(errno.ENOSPC, "No space left on device")

    @compiling.compiled
    def double(x):
        return 2.0 * x

    @compiling.compiled
    def treble(x):
        return 3.0 * x

    monkeypatch.setattr("numba.core.caching._CacheLocator.ensure_cache_path", full)
    compiling.warn_uncached.cache_clear()
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        assert double(2.0) == 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert treble(2.0) == 6.0


def test_all_kernels_are_compiled_in_one_way():
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name != "compiled.py":
            assert not re.search(r"\bn?jit\b", path.read_text(encoding="utf-8")), path
