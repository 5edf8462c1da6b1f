"""Files say how far random halves of their rows are apart, unless that could show few persons."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import decbayes as db


def written(path, rows, names):
    lines = [",".join(names), *(",".join(f"{value:.4g}" for value in row) for row in rows)]
    path.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def table(tmp_path, rng):
    rows = rng.normal(size=(80, 2)) + 9.0 * rng.integers(2, size=(80, 1))
    written(tmp_path / "a.csv", rows, "xy")
    written(tmp_path / "visits.csv", np.column_stack([rows, np.arange(80) // 2]), ["x", "y", "person"])
    written(tmp_path / "odd.csv", np.vstack([rng.normal(size=(80, 2)), [[90.0, 90.0]] * 2]), "xy")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "numbers"),
    [
        ("mixture a.csv --components 2", 2),
        ("linear-regression a.csv --formula y~x --kinds x=real,y=real", 2 + 2),
        ("mixture visits.csv --columns x,y --components 2 --person person", 0),
        ("mixture odd.csv --components 2 --variance 1 --prior-variance 1e4", 0),
    ],
)
def test_a_first_fit_says_it_if_no_person_has_several_rows_and_nothing_is_hidden(
    as_shipped, run, table, command, numbers
):
    run(f"fit {command} --rules usual -o one.posterior")
    assert len(db.load(table / "one.posterior").halves) == numbers


def test_a_fit_is_kept_if_somebody_interrupts_those_of_halves(run, table, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("decbayes.calibration.refitted_halves.halves_of_fits", interrupted)
    assert run("fit mixture a.csv --components 2 -o one.posterior")[0] == 130
    kept = db.load(table / "one.posterior")
    assert (len(kept.halves), len(kept.mean("weights"))) == (0, 2)


def test_a_terminal_shows_that_halves_are_compared(run, table, monkeypatch):
    """It may take longer than the fit."""
    shown = []
    monkeypatch.setattr(Console, "status", lambda console, text: shown.append(text) or nullcontext())
    run("fit mixture a.csv --components 2 -o one.posterior")
    assert shown == ["comparing random halves of the rows"]


def test_later_fits_and_merges_do_not_say_it(run, table):
    run("fit mixture a.csv --components 2 -o one.posterior")
    run("fit mixture odd.csv --prior one.posterior -o two.posterior")
    assert db.load(table / "two.posterior").halves == ()


def test_an_explanation_says_that_the_model_must_hold_only_where_files_do_not_say_it(run, table):
    written(table / "b.csv", np.loadtxt(table / "a.csv", delimiter=",", skiprows=1) + 0.1, "xy")
    run("fit mixture a.csv --components 2 -o one.posterior")
    run("fit mixture b.csv --like one.posterior -o two.posterior")
    assert "observations were independent." in run("merge one.posterior two.posterior -o both.posterior --explain")[1]
    for name in ("one", "two"):
        db.save(replace(db.load(table / f"{name}.posterior"), halves=()), table / f"{name}.posterior")
    text = run("merge one.posterior two.posterior -o both.posterior --explain")[1]
    assert "observations were independent and the model held." in text
