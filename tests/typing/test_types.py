"""What users write passes two type checkers, and runs."""

import os
import re
import runpy
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


WRONG = """\
import decbayes as db
mixture = db.GaussianMixture(2, 1, variance='large')
text: str = mixture.fit([[0.0]], rng=0).posterior.mean('components')
db.merge([mixture])
db.LatentDirichletAllocation(2, [1, 2])
db.families.Gama()
db.mergee([])
"""


@pytest.fixture
def wrong(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(WRONG)
    return path


def refused_lines(output):
    """The lines in which a checker has found an error."""
    return {int(line) for line in re.findall(r"wrong\.py:(\d+):.*error: ", output)}


def test_mypy_refuses_wrong_types(wrong):
    """Nothing passes for being unknown: results and arguments have types."""
    pytest.importorskip("mypy")
    checked = run(sys.executable, "-m", "mypy", str(wrong))
    assert refused_lines(checked.stdout) == set(range(2, 8)), checked.stdout


@pytest.mark.slow
def test_pyright_agrees_with_mypy(wrong):
    """`basedpyright` is pyright with a Node.js of its own, so that nothing is downloaded when it runs."""
    pytest.importorskip("basedpyright")
    options = ("--pythonpath", sys.executable, "--level", "error")
    checked = run(sys.executable, "-m", "basedpyright", *options, str(wrong), *map(str, SCRIPTS))
    assert refused_lines(checked.stdout) == set(range(2, 8)), checked.stdout
    assert checked.stdout.count("error: ") == 6, checked.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_users_write_runs(script, tmp_path, monkeypatch):
    if script.stem == "estimators":
        pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name=script.stem)
