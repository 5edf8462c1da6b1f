"""Multiple imputation over sites, as a user types it: tables, a regression of each, one pooled result."""

import json
from shutil import copytree

import numpy as np
import pandas as pd
import pytest

import decbayes as db


@pytest.fixture(scope="module")
def sites(tmp_path_factory, run_in):
    folder, rng = tmp_path_factory.mktemp("impute"), np.random.default_rng(0)
    for name in "ab":
        x = rng.normal(50, 10, 90)
        frame = pd.DataFrame(
            {"id": np.arange(90), "x": x, "y": 2 * x + rng.normal(0, 8, 90), "g": rng.choice(["u", "v"], 90)}
        )
        frame.loc[rng.random(90) < 0.3, "x"] = np.nan
        frame.loc[rng.random(90) < 0.2, "g"] = None
        frame.to_csv(folder / f"{name}.csv", index=False)
        run_in(folder, f"columns {name}.csv --columns x,y,g -o {name}.columns")
    run_in(folder, "columns a.columns b.columns -o agreed.columns")
    for name in "ab":
        run_in(folder, f"fit classes {name}.csv --components 4 --agreed-columns agreed.columns -o {name}.posterior")
    run_in(folder, "merge a.posterior b.posterior -o merged.posterior")
    return folder


@pytest.fixture
def files(tmp_path, sites):
    return copytree(sites, tmp_path, dirs_exist_ok=True)


def test_tables_are_imputed_fitted_merged_and_pooled(files, run):
    for name in "ab":
        run(f"impute {name}.csv merged.posterior -o {name}.csv --draws 3")
    for number in (1, 2, 3):
        for name in "ab":
            options = "--formula y~x+g --agreed-columns agreed.columns"
            run(f"fit linear-regression {name}-{number}.csv {options} -o {name}-{number}.posterior")
        run(f"merge a-{number}.posterior b-{number}.posterior -o m-{number}.posterior")
    before, after = pd.read_csv(files / "a.csv"), [pd.read_csv(files / f"a-{number}.csv") for number in (1, 2, 3)]
    for table in after:
        assert not table.isna().any().any()
        assert list(table.columns) == list(before.columns)
        pd.testing.assert_frame_equal(table.where(before.notna()), before, check_dtype=False)
    assert not after[0].equals(after[1])
    status, shown, _ = run("pool m-1.posterior m-2.posterior m-3.posterior --rows 180 --json")
    rows = {row["term"]: row for row in map(json.loads, shown.splitlines())}
    merges = [db.load(files / f"m-{number}.posterior") for number in (1, 2, 3)]
    model = db.model_for(merges[0].structure)
    slopes = [model.coefficients(merged)[1] for merged in merges]
    pooled = db.checking.pool([row["mean"] for row in slopes], [row["deviation"] ** 2 for row in slopes], degrees=177)
    assert status == 0
    assert rows["x"]["mean"] == pytest.approx(float(pooled.estimate))
    assert rows["x"]["high"] == pytest.approx(float(pooled.interval(0.9)[1]))
    assert rows["x"]["degrees"] == pytest.approx(float(pooled.degrees))
    assert "share of the information" in " ".join(run("pool m-1.posterior m-2.posterior")[2].split())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("impute a.csv merged.posterior -o -", "give a name after -o"),
        ("impute a.csv merged.posterior -o a.txt", "choose one of these endings"),
        ("pool merged.posterior merged.posterior", "no coefficients to pool. Give regressions"),
    ],
)
def test_mistakes_are_told_in_a_line(files, run, line, said):
    status, _, error = run(line)
    assert status != 0
    assert said in " ".join(error.split())
