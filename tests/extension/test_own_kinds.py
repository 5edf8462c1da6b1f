"""Kinds of columns from outside the package: one class and one registration, and they work wherever columns do."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import lomax

import decbayes as db
from decbayes.cli import main
from decbayes.columns import KINDS
from decbayes.errors import InvalidData, InvalidStructure

HERE = Path(__file__).parent
CHOSEN = {"stay": "duration", "delay": "wait"}


@pytest.fixture
def outside(monkeypatch):
    """The file can be imported, and what it registers is forgotten in the end."""
    monkeypatch.syspath_prepend(HERE)
    shipped = dict(KINDS)
    yield
    KINDS.clear()
    KINDS.update(shipped)


@pytest.fixture
def own(outside):
    import own_kinds

    for kind in (own_kinds.Duration, own_kinds.Wait):
        db.columns.register(kind)
    return own_kinds


def patients(size=300, seed=0):
    """Two groups: long stays after short delays, and the other way round; how long a stay is doubles with each risk."""
    rng = np.random.default_rng(seed)
    group, risk = rng.integers(2, size=size), rng.integers(3, size=size)
    stay = np.exp(rng.normal(np.array([0.0, 4.0])[group], 0.3))
    delay = rng.exponential(np.array([50.0, 1.0])[group])
    cost = 10.0 * np.log(stay) + rng.normal(size=size)
    frame = pd.DataFrame({"stay": stay.round(4), "delay": delay.round(4), "risk": risk, "cost": cost.round(3)})
    return frame, group


def with_gaps(frame):
    gaps = frame.copy()
    gaps.loc[::7, "stay"] = np.nan
    gaps.loc[3::7, "delay"] = np.nan
    return gaps


def test_it_is_found_declared_and_agreed_upon_by_its_name(own):
    frame, _ = patients()
    columns = db.columns.columns_of(frame, CHOSEN)
    assert (type(columns["stay"]), type(columns["delay"])) == (own.Duration, own.Wait)
    assert columns["stay"].centre == pytest.approx(np.log(frame["stay"]).mean(), abs=0.1)
    listed = json.loads(json.dumps(db.columns.plain(columns)))
    assert db.columns.declared(listed) == columns
    assert db.columns.agree(columns, columns)["delay"] == columns["delay"]
    matrix = db.columns.coded(frame, columns)
    np.testing.assert_allclose(matrix[:, 0], np.log(frame["stay"]))
    np.testing.assert_allclose(db.columns.decoded(matrix, columns)["stay"], frame["stay"])
    with pytest.raises(InvalidData, match=r"Column 'stay' \(duration\): 1 of 2 values are not positive"):
        db.columns.coded({"stay": [0.0, 1.0]}, {"stay": columns["stay"]})


def test_classes_have_it_with_a_likelihood_of_their_own(own):
    frame, group = patients()
    model = db.LatentClasses.from_frame(frame, kinds=CHOSEN, components=2)
    sites = [model.fit(part, rng=np.random.default_rng(0)).posterior for part in (frame[:150], frame[150:])]
    merged = db.merge(sites)
    assert set(merged.structure.families) == {"counts", "real", "waits", "weights"}
    shares = model.assign(merged, frame)
    assert abs((shares.argmax(axis=1) == group).mean() - 0.5) > 0.49
    rows = {(row["column"], row["component"]): row for row in model.profiles(merged)}
    long = int(np.argmax([rows["stay", k]["mean"] for k in range(2)]))
    for name, centre in (("stay", np.exp(4.0)), ("delay", 1.0)):
        row = rows[name, long]
        assert row["low"] < row["mean"] < row["high"]
        assert row["mean"] == pytest.approx(centre, rel=0.2)
    described = model.describe(merged)[long]
    assert described["stay"] == rows["stay", long]["mean"]
    assert any(text == f"stay {described['stay']:.3g}" for text in described["stands out by"])
    assert db.model_for(merged.structure).structure == model.structure


def test_its_predictive_density_is_that_of_scipy_and_missing_values_are_filled(own):
    frame, _ = patients()
    model = db.LatentClasses(1, columns={"delay": own.Wait(20.0)})
    posterior = model.fit(frame[["delay"]], rng=np.random.default_rng(0)).posterior
    shape, rate = 1.0 + len(frame), 20.0 + frame["delay"].sum()
    expected = lomax(shape, scale=rate)
    np.testing.assert_allclose(model.log_predictive(posterior, frame), expected.logpdf(frame["delay"]))
    (row,) = model.fill(posterior, {"delay": [np.nan]}).rows
    np.testing.assert_allclose([row["low"], row["high"]], expected.ppf([0.05, 0.95]))

    both = db.LatentClasses.from_frame(frame, kinds=CHOSEN, components=2)
    merged = both.fit(frame, rng=np.random.default_rng(0)).posterior
    filled = both.fill(merged, with_gaps(frame))
    assert not np.isnan(filled.columns["stay"].astype(float)).any()
    stays = {row["row"]: row for row in filled.rows if row["column"] == "stay"}
    inside = [row["low"] < frame["stay"][place] < row["high"] for place, row in stays.items()]
    assert np.mean(inside) > 0.75
    assert all(row["low"] < row["value"] < row["high"] for row in stays.values())


def test_states_emit_it(own):
    frame, _ = patients()
    model = db.HiddenMarkov(2, columns=db.columns.columns_of(frame, CHOSEN), ascent=db.Ascent(restarts=1))
    posterior = model.fit([frame[:150], with_gaps(frame[150:])], rng=np.random.default_rng(0)).posterior
    assert {"real", "waits"} <= set(posterior.structure.families)
    means = sorted(row["mean"] for row in model.profiles(posterior) if row["column"] == "stay")
    np.testing.assert_allclose(means, np.exp([0.0, 4.0]), rtol=0.2)
    drawn = db.simulate(model, 3, posterior=posterior, rng=np.random.default_rng(0)).data
    assert (drawn[0][:, 1] > 0).all()


def test_regressions_use_it_in_its_own_units(own):
    frame, _ = patients()
    model = db.LinearRegression.from_frame(frame, "cost ~ stay + delay", kinds=CHOSEN)
    posterior = model.fit(frame).posterior
    stay = {row["term"]: row for row in model.coefficients(posterior)}["stay"]
    assert stay["low"] < 10.0 < stay["high"], "the cost rises by 10 with one unit of the logarithm"
    assert db.model_for(posterior.structure).structure == model.structure
    drawn = db.simulate(model, 20, rng=np.random.default_rng(0)).data
    assert np.isfinite(drawn).all()


def test_a_report_and_a_drawing_show_it(own, tmp_path):
    frame, _ = patients()
    model = db.LatentClasses.from_frame(frame, kinds=CHOSEN, components=2)
    sites = [model.fit(part, rng=np.random.default_rng(0)).posterior for part in (frame[:150], frame[150:])]
    db.report(db.align(sites), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "stay" in text
    assert "delay" in text
    titles = [axes.get_title() for axes in db.plot.classes(db.merge(sites)).axes]
    assert {"stay", "delay"} <= set(titles)


def test_a_kind_needs_a_name():
    with pytest.raises(TypeError, match="Nameless needs a name"):
        db.columns.register(type("Nameless", (db.columns.Column,), {}))


def test_names_must_be_new_and_kinds_must_be_columns():
    class Gaussian(db.columns.Gaussian):
        pass

    with pytest.raises(ValueError, match="ships a kind of column 'real'"):
        db.columns.register(Gaussian)
    with pytest.raises(TypeError, match="register takes a class"):
        db.columns.register("duration")
    with pytest.raises(InvalidStructure, match="There is no kind of column 'nonsense'; there are categorical"):
        db.columns.declared({"a": "nonsense"})


def test_where_nobody_registered_them_classes_merge_and_regressions_are_refused(own, tmp_path):
    frame, _ = patients()
    columns = db.columns.columns_of(frame, CHOSEN)
    models = db.LatentClasses(2, columns=columns), db.LinearRegression("cost", columns=columns)
    classes, lines = ([model.fit(half, rng=0).posterior for half in (frame[:150], frame[150:])] for model in models)
    for kind in CHOSEN.values():
        del KINDS[kind]
    alignment = db.align(classes)
    db.report(alignment, tmp_path / "report.html")
    assert "parameters as stored" in alignment.merged()._repr_html_()
    assert "Posterior(" in str(lines[0])
    # Only the model knows how to add its first broadcasts.
    with pytest.raises(InvalidStructure, match=r"Register your own with `decbayes\.columns\.register`"):
        db.merge(lines)


def test_an_entry_point_brings_it_to_the_command_line(outside, tmp_path, monkeypatch, capsys):
    information = tmp_path / "hospital-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: hospital\nVersion: 1.0\n")
    entries = "duration = own_kinds:Duration\nwait = own_kinds:Wait"
    (information / "entry_points.txt").write_text(f"[decbayes.columns]\n{entries}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    frame, _ = patients(120)
    for name, part in (("a", frame[:60]), ("b", frame[60:])):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    chosen = "--kinds stay=duration,delay=wait"
    lines = [
        f"columns a.csv {chosen} -o a.columns",
        f"columns b.csv {chosen} -o b.columns",
        "columns a.columns b.columns -o all.columns",
        "fit classes a.csv --agreed-columns all.columns --components 2 -o a.posterior",
        "fit classes b.csv --like a.posterior -o b.posterior",
        "fit linear-regression a.csv --agreed-columns all.columns --formula cost~stay -o c.posterior",
        "merge a.posterior b.posterior -o m.posterior",
        "show m.posterior",
    ]
    for line in lines:
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        assert not ended.value.code, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "duration" in shown
    assert "delay" in shown
