"""Persons with several rows: nothing is tested as if rows were independent, and everything that is shown says so."""

import numpy as np
import pytest

import decbayes as db

SEVERAL = "Persons have several rows, which the model takes as independent"
WHY = "rows of one person depend on each other"


def readings(rng, persons=30, times=4):
    """Clusters of persons, each with several readings around a level of their own."""
    kind = rng.integers(2, size=persons)
    level = np.array([[0.0, 0.0], [8.0, 8.0]])[kind] + rng.normal(0.0, 0.9, (persons, 2))
    values = np.repeat(level, times, axis=0) + rng.normal(0.0, 0.45, (persons * times, 2))
    return np.repeat(np.arange(persons), times), values


@pytest.fixture
def sites(tmp_path, rng):
    for name in "abc":
        person, values = readings(rng)
        rows = [f"{who},{x:.4f},{y:.4f}" for who, (x, y) in zip(person, values, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["person,x,y", *rows]), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("command", ["mixture", "classes"])
def test_equal_sites_are_not_compared_as_if_rows_were_independent(run, sites, command):
    like = "--columns x,y --components 2"
    for name in "abc":
        told = run(f"fit {command} {name}.csv {like} --person person -o {name}.posterior")[2]
        assert (SEVERAL in told, "one row per person" in told, "robust" in told) == (True, True, False)
        like = "--like a.posterior"
    _, shown, told = run("merge a.posterior b.posterior c.posterior -o m.posterior --explain --no-confidence")
    assert f"whether sites differ by more than chance. {WHY[:1].upper()}{WHY[1:]}" in " ".join(shown.split())
    assert ("p-value" in shown, f"a, b, c: {SEVERAL}" in told) == (False, True)
    assert f"probably too narrow, as {WHY}" in run("show m.posterior")[1]
    run("report a.posterior b.posterior c.posterior -o r.html --no-confidence")
    page = (sites / "r.html").read_text(encoding="utf-8")
    assert (SEVERAL in page, WHY in page, "by more than chance in" in page) == (True, True, False)


def saved(model, data, persons, path):
    db.save(model.fit(data, rng=0).posterior, path, data=data, persons=persons)
    return db.load(path)


def test_files_know_their_persons_and_sequences_are_not_steps(tmp_path, rng):
    mixture = db.GaussianMixture(2, 2, ascent=db.Ascent(restarts=0))
    named, unnamed = [], []
    for _ in range(3):
        person, values = readings(rng)
        named.append(saved(mixture, values, person, tmp_path / "p"))
        unnamed.append(saved(mixture, values, None, tmp_path / "p"))
    (several,), (single,) = (db.checking.heterogeneity(db.align(all_), worlds=4).values() for all_ in (named, unnamed))
    assert (np.isnan(several.probability).all(), WHY in several.reason) == (True, True)
    assert (np.isfinite(single.probability).all(), single.reason) == (True, "")
    sequences = [readings(rng, persons=10, times=3)[1] for _ in range(24)]
    states = db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(4, 4), "y": db.columns.Gaussian(4, 4)})
    once = saved(states, sequences, np.arange(24), tmp_path / "s")
    twice = saved(states, sequences, np.arange(24) % 20, tmp_path / "s")
    kinds = [[remark.kind for remark in posterior.remarks] for posterior in (once, twice)]
    assert ["repeated persons" in kind for kind in kinds] == [False, True]
    (remark,) = (remark for remark in twice.remarks if remark.kind == "repeated persons")
    assert "Persons have several sequences" in remark.what
