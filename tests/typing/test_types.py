"""What users write passes a type checker, and runs. Pyright agrees where it is installed."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import decbayes

HERE = Path(__file__).parent
SCRIPTS = sorted(path for path in HERE.glob("*.py") if path != Path(__file__))
SOURCE = Path(decbayes.__file__).parents[1]


def run(*command):
    environment = {**os.environ, "MYPYPATH": str(SOURCE), "PYTHONPATH": str(SOURCE)}
    return subprocess.run(command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, timeout=250)


def test_mypy_accepts_what_users_write():
    pytest.importorskip("mypy")
    checked = run(sys.executable, "-m", "mypy", *map(str, SCRIPTS))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_mypy_refuses_wrong_types(tmp_path):
    """Nothing passes for being unknown: results and arguments have types."""
    pytest.importorskip("mypy")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import decbayes as db\n"
        "mixture = db.GaussianMixture(2, 1, variance='large')\n"
        "text: str = mixture.fit([[0.0]], rng=0).posterior.mean('components')\n"
        "db.merge([mixture])\n"
        "db.LatentDirichletAllocation(2, [1, 2])\n"
        "db.families.Gama()\n"
    )
    checked = run(sys.executable, "-m", "mypy", str(wrong))
    refused = {int(line.split(":")[1]) for line in checked.stdout.splitlines() if ": error: " in line}
    assert refused == {2, 3, 4, 5, 6}, checked.stdout


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_accepts_what_users_write():
    checked = run("pyright", "--pythonpath", sys.executable, *map(str, SCRIPTS))
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_users_write_runs(script, tmp_path, monkeypatch):
    if script.stem == "estimators":
        pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name=script.stem)
