"""What only some systems have is not needed to work with files, nor to lock a store."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from groups import gaussian_charter, identities

import decbayes as db
from decbayes.errors import StoreFailed
from decbayes.network import SqliteStore

# Python takes a module that is None for one that is not there.
CODE = """
import sys

sys.modules.update(dict.fromkeys(["fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix_ipc"]))
from importlib import import_module
from pkgutil import walk_packages

import decbayes
from decbayes.calibration import differences
from decbayes.cli import main

differences.WORLDS = 2

for module in walk_packages(decbayes.__path__, "decbayes."):
    if not module.name.endswith("__main__"):
        import_module(module.name)
for line in (
    "fit mixture a.csv --components 2 --restarts 0 -o a.posterior",
    "fit mixture b.csv --like a.posterior --restarts 0 -o b.posterior",
    "merge a.posterior b.posterior -o m.posterior",
    "show m.posterior",
    "agent --help",
):
    try:
        main(line.split())
    except SystemExit as end:
        assert end.code == 0, (line, end.code)
"""


def test_the_file_workflow_runs_without_what_windows_lacks(tmp_path):
    for place, name in enumerate("ab"):
        np.savetxt(tmp_path / f"{name}.csv", place + np.arange(40.0).reshape(20, 2), delimiter=",")
    environment = os.environ | {"PYTHONPATH": str(Path(db.__file__).parents[1])}
    run = [sys.executable, "-c", CODE]
    ended = subprocess.run(run, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "m.posterior").exists()
    assert "2 of 2" in ended.stdout
    assert "--connect" in ended.stdout


def test_a_store_is_locked_in_the_way_of_the_system(tmp_path, monkeypatch):
    """Where there is no fcntl, with msvcrt, which fails if another process has the file."""
    taken = []

    def locking(descriptor, mode, size):
        if taken:
            raise PermissionError(13, "Permission denied")
        taken.append((mode, size))

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    charter = gaussian_charter(identities(1))
    with SqliteStore(tmp_path / "a.store", charter):
        assert taken == [(2, 1)]
        with pytest.raises(StoreFailed, match="in use by another agent"):
            SqliteStore(tmp_path / "a.store", charter)
