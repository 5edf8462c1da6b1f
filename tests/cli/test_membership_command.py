"""Who belongs to which class, over two sites, as a user types it."""

import json

import numpy as np
import pandas as pd
import pytest

import decbayes as db


@pytest.fixture(scope="module")
def sites(tmp_path_factory, run_in):
    folder = tmp_path_factory.mktemp("membership")
    yes = np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9]])
    for site, name in enumerate("ab"):
        rng = np.random.default_rng(site)
        age = rng.normal(50, 10, 150).round(1)
        kind = (rng.random(150) < 1 / (1 + np.exp(-(age - 50) / 10))).astype(int)
        items = np.where(rng.random((150, 4)) < yes[kind], "yes", "no")
        frame = pd.DataFrame({"age": age, **{f"i{j}": items[:, j] for j in range(4)}})
        frame.loc[:4, "age"] = np.nan
        frame.to_csv(folder / f"{name}.csv", index=False)
    run_in(folder, "columns a.csv --columns age -o age.toml")
    run_in(folder, "fit classes a.csv --columns i0,i1,i2,i3 --components 2 -o ca.posterior")
    run_in(folder, "fit classes b.csv --like ca.posterior -o cb.posterior")
    run_in(folder, "merge ca.posterior cb.posterior -o classes.posterior")
    run_in(folder, "fit membership a.csv --classes classes.posterior --formula ~age -o a.posterior")
    run_in(folder, "fit membership b.csv --like a.posterior -o b.posterior")
    run_in(folder, "merge a.posterior b.posterior -o merged.posterior")
    return folder


def test_effects_are_shown_exported_and_predicted(sites, run):
    found = db.load(sites / "merged.posterior")
    model = db.model_for(found.structure)
    (row,) = model.ratios(found)
    assert 1.05 < max(row["ratio"], 1 / row["ratio"]) < 1.17, "e to the 0.1"
    status, shown, _ = run(f"show {sites}/merged.posterior")
    assert (status, "odds ratio" in shown, "evidence" in shown) == (0, True, False)
    assert f"models the {model.modelled}" in shown
    status, exported, _ = run(f"export {sites}/merged.posterior -o -")
    assert (status, f"{row['term']}" in exported) == (0, True)
    status, lines, _ = run(f"predict {sites}/merged.posterior age=30,70 --json")
    young, old = ([row["mean"] for row in rows] for rows in by_age(lines))
    assert abs(young[0] - old[0]) > 0.5
    assert sum(young) == pytest.approx(1.0)
    direct = model.fit_site(pd.read_csv(sites / "a.csv").dropna()).posterior
    np.testing.assert_allclose(direct.mean("coefficients"), db.load(sites / "a.posterior").mean("coefficients"))


def by_age(lines):
    rows = [json.loads(line) for line in lines.splitlines()]
    return ([row for row in rows if float(row["age"]) == age] for age in (30.0, 70.0))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--formula ~age", "--classes FILE"),
        ("--classes SITES/classes.posterior --formula ~i0", "Classes were found by 'i0'"),
        (
            "--classes SITES/classes.posterior --formula ~i0 --agreed-columns SITES/age.toml",
            "Classes were found by 'i0'",
        ),
        ("--classes SITES/a.posterior --formula ~age", "posterior of LatentClasses is needed"),
        ("--classes SITES/classes.posterior --formula ~age --varying intercept", "the same at all sites"),
    ],
)
def test_mistakes_are_told_in_a_line(sites, run, line, said):
    status, _, error = run(f"fit membership {sites}/a.csv {line.replace('SITES', str(sites))} -o x.posterior")
    assert status != 0
    assert said in " ".join(error.split())
