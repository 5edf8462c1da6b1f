"""Commands that other packages bring, and the door to all commands: groups, their order, ways to begin, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import decbayes as db
from decbayes.cli import app

MODULE = '''
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import decbayes as db


def digest(posterior: Annotated[Path, Parameter(help="A posterior file.")], /) -> None:
    """Print the digest of a posterior."""
    print(db.load(posterior).digest)
'''


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package from outside, as pip installs it: a module, and what its metadata says of its commands."""
    folder = tmp_path / "site-packages"
    metadata = folder / "greeting-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "greeting.py").write_text(MODULE, encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n", encoding="utf-8")
    entries = "[decbayes.commands]\ndigest = greeting:digest\nbroken = greeting:nothing\nmerge = greeting:digest\n"
    (metadata / "entry_points.txt").write_text(entries, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    yield folder
    del app["digest"]


def test_a_package_adds_a_command_with_an_entry_point(run, tmp_path, package):
    posterior = db.Posterior.of_prior(db.models.GaussianMean(dimension=1).structure)
    db.save(posterior, tmp_path / "a.posterior")
    status, shown, errors = run("digest a.posterior")
    assert (status, shown.strip()) == (0, posterior.digest)
    assert errors.startswith("The command broken cannot be loaded:")
    assert "Print the digest of a posterior." in run("--help")[1]
    assert "The posterior files of all sites," in run("merge --help")[1], "its own commands stay as they are"
    assert run("digest nothing.posterior")[::2] == (1, "decbayes: nothing.posterior: No such file or directory")


def test_groups_and_their_commands_are_in_the_order_of_use(run):
    shown = run("--help")[1]
    places = [shown.index(f" {group} ─") for group in ("Everyday", "Checking", "Planning", "Network")]
    assert places == sorted(places)
    commands = re.findall(r"^│ ([a-z][a-z-]+) ", shown, re.MULTILINE)
    assert commands[:6] == ["study", "columns", "words", "fit", "merge", "refine"]
    assert commands[-1] == "page"


def test_called_alone_it_says_how_to_begin(run):
    status, shown, errors = run("")
    lines = [line.split()[1] for line in shown.splitlines() if line.startswith("    decbayes ")]
    assert (status, errors, lines) == (0, "", ["fit", "merge", "study", "demo"])
    assert max(map(len, shown.splitlines())) <= 80


INTERRUPTED = """
import os, signal, sys
from decbayes.__main__ import main

signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, {seconds})
sys.argv[1:] = ["simulate", "--steps", "5000"]
main()
"""


@pytest.mark.parametrize("seconds", [0.01, 0.1, 0.4])
def test_ctrl_c_while_python_imports_ends_quietly(seconds, tmp_path):
    """Stopped before the first line of a command, whatever is loading then."""
    environment = os.environ | {"PYTHONPATH": str(Path(db.__file__).parents[1])}
    run = [sys.executable, "-c", INTERRUPTED.format(seconds=seconds)]
    ended = subprocess.run(run, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.returncode == 128 + signal.SIGINT
    assert "Traceback" not in ended.stderr


def test_nothing_slow_is_imported_before_ctrl_c_is_handled():
    """Until then Python shows a traceback; its own start is not ours to mend."""
    source = str(Path(db.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {source!r}); import decbayes.__main__; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    imported = set(run.stdout.split())
    assert not imported & {"enum", "re", "signal", "typing"}
    ours = {"decbayes.__main__", "decbayes.errors", "decbayes.base", "decbayes.base.lazily"}
    assert {name for name in imported if name.startswith("decbayes.")} == ours


def test_priors_of_columns_are_given_by_commas_as_in_python(run, tmp_path, rng):
    rows = rng.normal([-20.0, 1010.0], [3.0, 5.0], size=(60, 2)).round(2)
    text = "\n".join(["cold,pressure", *(",".join(map(str, row)) for row in rows.tolist())])
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    columns = {"components": 1, "columns": ("cold", "pressure")}
    for options, settings in [
        ("--prior-mean=-20,1010 --prior-scale 9,25", {"prior_mean": (-20, 1010), "prior_scale": (9, 25)}),
        ("--prior-mean 1010 --prior-scale 25", {"prior_mean": 1010, "prior_scale": 25}),
    ]:
        assert run(f"fit mixture a.csv --components 1 {options} -o a.posterior")[0] == 0
        assert db.load("a.posterior").structure == db.GaussianMixture(**columns, **settings).structure
    for wrong in ("--prior-scale 9,-25", "--prior-scale 9,x", "--prior-mean=1,2,3"):
        assert run(f"fit mixture a.csv --components 1 {wrong} -o a.posterior")[0] in (1, 2)
