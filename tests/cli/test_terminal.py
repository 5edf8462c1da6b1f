"""What a terminal shows: help that can be pasted, tables that fit, and quiet ends."""

import importlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

import decbayes as db
from decbayes.cli import app
from decbayes.cli.shared.terminal import fit_progress
from decbayes.models.core.ascent import Pass

COMMANDS = (
    *("fit", "fit mixture", "fit mean", "fit topics", "fit features", "merge", "show", "score", "keygen", "charter"),
    *(
        "charter new",
        "charter add",
        "charter export",
        "charter remove",
        "charter show",
        "agent",
        "posterior",
        "demo",
        "simulate",
        "simulate topics",
    ),
    *("words", "certificate", "certificate authority", "certificate issue", "certificate request"),
    *("certificate sign", "certificate show", "warm-up"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example_that_can_be_pasted(command, run, monkeypatch):
    """In a terminal 80 characters wide, perhaps with a backslash, and without a word that the command does not know."""
    monkeypatch.setenv("COLUMNS", "80")
    status, shown, _ = run(f"{command} --help")
    whole = re.sub(r"\\\s*\n\s*", "", shown)
    lines = [line.strip() for line in whole.splitlines() if line.startswith(f" decbayes {command}")]
    assert (status, bool(lines)) == (0, True), shown
    for line in lines:
        words = shlex.split(re.sub(r"\$\(.*\)", "KEY", line))[1:]
        called, *_ = app.parse_args(words, exit_on_error=False, print_error=False)
        assert callable(called)


def test_the_explanation_of_many_sites_fits_the_terminal(run, tmp_path, rng, monkeypatch):
    """Every match of every site is printed whole, however many sites there are."""
    monkeypatch.setenv("COLUMNS", "80")
    model = db.GaussianMixture(components=3, dimension=1, variance=0.09, prior_variance=2.0)
    names = [f"hospital-{number}" for number in range(12)]
    for name in names:
        data = rng.normal(np.array([1.0, -1.0, 3.0])[rng.integers(3, size=20)], 0.3)
        db.save(model.fit(data, rng=rng).posterior, tmp_path / f"{name}.posterior")
    files = " ".join(f"{name}.posterior" for name in names)
    status, shown, _ = run(f"merge {files} -o merged.posterior --explain --no-confidence")
    tables = shown.splitlines()
    assert (status, max(map(len, tables)) <= 80, "…" in shown) == (0, True, False)
    assert all(name in shown for name in names)
    found = db.align([db.load(tmp_path / f"{name}.posterior") for name in names])
    matches = re.findall(r"([\d+]+) \([\d.,]+\)", shown)
    seen = db.merging.reading.seen(found, found.structure.symmetry[0])
    assert len("".join(matches).replace("+", "")) == sum(map(np.sum, seen))


def test_a_posterior_that_is_given_twice_is_refused_unless_that_is_meant(run, tmp_path):
    structure = db.models.GaussianMean(dimension=1).structure
    for name, value in (("a", 1.0), ("b", 2.0), ("copy", 1.0)):
        db.save(db.models.GaussianMean(dimension=1).fit([value]).posterior, tmp_path / f"{name}.posterior")
    assert db.load(tmp_path / "a.posterior").structure == structure
    status, _, errors = run("merge a.posterior b.posterior copy.posterior -o m.posterior")
    assert status == 1
    assert "copy.posterior is the same posterior as a.posterior" in errors
    assert run("merge a.posterior b.posterior copy.posterior -o m.posterior --duplicates allow")[0] == 0
    assert "twice" not in run("merge a.posterior b.posterior -o m.posterior")[2]


def test_a_merge_made_in_python_is_refused_beside_a_file_that_is_in_it(run, tmp_path):
    model = db.models.GaussianMean(dimension=1)
    first, second = (model.fit([value]).posterior for value in (1.0, 2.0))
    db.save(first, tmp_path / "a.posterior")
    db.save(db.merge([first, second]), tmp_path / "both.posterior")
    status, _, errors = run("merge a.posterior both.posterior -o m.posterior")
    assert status == 1
    assert "a.posterior and both.posterior hold the same data: one was merged from the other, or built on it" in errors
    assert run("merge a.posterior both.posterior -o m.posterior --duplicates allow")[0] == 0


KERNEL = """
from decbayes.kernels.compiled import compiled


@compiled
def doubled(x):
    return x + x
"""


def test_a_bar_says_that_kernels_are_compiled_once(tmp_path, monkeypatch):
    """Of a kernel that was compiled before nothing is said, and the next pass takes the words away."""
    (tmp_path / "own_kernel.py").write_text(KERNEL, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("decbayes.cli.shared.terminal.progress_bar", lambda *columns: Progress(console=quiet))
    quiet = Console(quiet=True)
    for words in ("compiling, once", "fitting"):
        with fit_progress(1, 10) as bar:
            module = importlib.import_module("own_kernel")
            assert module.doubled(2) == 4
            (task,) = bar._bar.tasks
            assert task.description == words
            bar(Pass(0, 1, -2.5))
            assert "compiling" not in task.description
        del sys.modules["own_kernel"]
    module.doubled(2.0)  # nobody listens any more


def run_process(arguments, tmp_path, **keywords):
    source = str(Path(db.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "decbayes", *arguments]
    return subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, **keywords)


@pytest.mark.parametrize("options", [("--json", "--top", "4000"), ("--top", "4000")], ids=["lines", "table"])
def test_a_reader_who_has_had_enough_hears_no_complaint(options, tmp_path):
    words = tuple(f"word{number}" for number in range(4_000))
    model = db.LatentDirichletAllocation(4, words)
    db.save(db.Posterior.of_prior(model.structure), tmp_path / "a.posterior")
    with run_process(("show", "a.posterior", *options), tmp_path, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_help_is_printed_on_a_terminal_that_knows_ascii_alone(tmp_path):
    with run_process(("fit", "mixture", "--help"), tmp_path, stdout=subprocess.PIPE) as process:
        shown, errors = process.communicate(timeout=60)
    assert (process.returncode, errors, b"of the cluster weights" in shown) == (0, b"", True)
