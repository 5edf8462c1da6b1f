"""Fits name columns that say the same, and constant ones; other columns, however they go together, are not named."""

import numpy as np
import pytest

import decbayes as db
from decbayes.models.mixtures.column_remarks import correlations

QUICK = db.Ascent(restarts=0, passes=20)


def remarks_on(columns, kind="diagonal", components=2):
    points = np.column_stack(list(columns.values()))
    model = db.GaussianMixture(components, columns=tuple(columns), covariance=kind, ascent=QUICK)
    return {remark.kind: remark for remark in model.fit(points, rng=0).posterior.remarks}


def ages(rng, rows=400):
    age = rng.normal(52, 9, rows).round(1)
    return {"age": age, "months": (12 * age).round(), "z": rng.normal(size=rows)}


@pytest.mark.parametrize("rows", [30, 400, 8000])
def test_a_column_in_two_units_is_named_by_mixtures_and_classes(rows, rng):
    table = ages(rng, rows)
    remark = remarks_on(table)["repeated columns"]
    assert remark.what == "Columns that say the same: age, months."
    assert remark.is_warning, "merges repeat it"
    model = db.LatentClasses.from_frame({**table, "ward": rng.choice(["a", "b"], rows)}, components=2, ascent=QUICK)
    assert remark in model.fit(table | {"ward": ["a"] * rows}, rng=0).posterior.remarks
    counts = {"a": rng.poisson(5, rows), "b": rng.poisson(5, rows)}
    posterior = (
        db.PoissonMixture(1, ascent=QUICK).fit(np.column_stack([*counts.values(), counts["a"]]), rng=0).posterior
    )
    assert [remark.what for remark in posterior.remarks] == ["Columns that say the same: x0, x2."]


def test_it_is_named_where_values_are_missing(rng):
    table = {name: np.where(rng.random(400) < 0.3, np.nan, column) for name, column in ages(rng).items()}
    model = db.LatentClasses.from_frame(table, components=2, ascent=QUICK)
    assert [remark.what for remark in model.fit(table, rng=0).posterior.remarks] == [
        "Columns that say the same: age, months."
    ]


def test_correlations_are_those_over_the_rows_where_both_are_known(rng):
    points = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 3)) + 1e4
    points[rng.random(points.shape) < 0.2] = np.nan
    found = correlations(points)
    for first, second in ((0, 1), (0, 2), (1, 2)):
        both = points[~np.isnan(points[:, [first, second]]).any(axis=1)]
        assert found[first, second] == pytest.approx(np.corrcoef(both[:, first], both[:, second])[0, 1], abs=1e-9)


def test_full_covariances_mind_copies_only(rng):
    table = ages(rng)
    assert "repeated columns" not in remarks_on(table, "full")
    copied = remarks_on({**table, "copy": -3 * table["z"] + 1}, "full")["repeated columns"]
    assert copied.what == "Columns that are copies, up to their unit: copy, z."
    assert "singular" in copied.advice


@pytest.mark.parametrize("rows", [30, 100, 400])
@pytest.mark.parametrize("clusters", [2, 3, 5])
def test_clusters_far_apart_are_no_repetition(rows, clusters, rng):
    """Their columns are correlated by more than 0.999, and independent inside each."""
    place = rng.integers(clusters, size=rows) * 200.0
    table = {name: place + rng.normal(size=rows) for name in "xy"}
    assert np.corrcoef(*table.values())[0, 1] > 0.999
    assert not remarks_on(table, components=clusters)


def test_columns_that_merely_go_together_are_not_named(rng):
    common = rng.normal(size=400)
    assert not remarks_on({name: common + 0.1 * rng.normal(size=400) for name in "xyz"})


def test_constant_columns_are_named_and_no_value_is_quoted(rng):
    rest = rng.normal(size=6000)
    remark = remarks_on({"x": rest, "dose": np.full(6000, 3.25)})["constant columns"]
    assert remark.what == "Columns with one value in all rows: dose."
    assert "3.25" not in str(remark)
    assert not remark.is_warning
    nearly = np.full(6000, 3.25)
    nearly[-1] = 4.0
    assert "constant columns" not in remarks_on({"x": rest, "dose": nearly}), "the last row of many differs"


def test_very_wide_tables_and_very_few_rows_are_not_checked(rng):
    column = rng.normal(size=29)
    assert not remarks_on({"x": column, "y": column})
    wide = rng.normal(size=(40, 501))
    wide[:, 1] = wide[:, 0]
    assert not db.GaussianMixture(1, covariance="diagonal", ascent=QUICK).fit(wide, rng=0).posterior.remarks


def test_files_with_odd_names_of_columns_can_be_read(rng, tmp_path):
    column = rng.normal(size=50)
    model = db.GaussianMixture(2, columns=("a\u202eb\n", "c" * 3000), covariance="diagonal", ascent=QUICK)
    posterior = model.fit(np.column_stack([column, column]), rng=0).posterior
    db.save(posterior, tmp_path / "a.posterior")
    assert db.load(tmp_path / "a.posterior").remarks == posterior.remarks


def skewed(columns, kind="diagonal"):
    said = remarks_on(columns, kind).get("skewed columns")
    return said.what if said else ""


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_columns_that_logarithms_make_less_skewed_are_named(kind, rng):
    """Costs are mostly 0; what is on one scale only a cluster far away is not skewed on the other."""
    rows = 400
    table = {
        "protein": np.exp(rng.normal(size=rows)),
        "cost": np.exp(rng.normal(size=rows)) * (rng.random(rows) < 0.4),
        "age": rng.normal(60.0, 10.0, rows),
        "far": np.where(np.arange(rows) < 20, 60.0, 10.0) + rng.normal(size=rows),
        "change": np.exp(rng.normal(size=rows)) - 1.0,
        "code": np.where(np.arange(rows) < 9, 999.0, rng.normal(50.0, 9.0, rows)),
    }
    assert remarks_on(table, kind)["skewed columns"].is_warning, "merges repeat it"
    assert skewed(table, kind) == "Columns that would be much less skewed on a logarithmic scale: cost, protein."
    assert skewed({name: np.log1p(table[name]) for name in ("protein", "cost")}, kind) == ""


def test_counts_are_not_said_to_be_skewed_and_missing_values_do_not_matter(rng):
    protein = np.where(rng.random(400) < 0.3, np.nan, np.exp(rng.normal(size=400)))
    table = {"visits": rng.negative_binomial(0.5, 0.05, 400), "protein": protein, "sex": rng.choice(["f", "m"], 400)}
    model = db.LatentClasses.from_frame(table, kinds={"visits": "count"}, components=1, ascent=QUICK)
    (said,) = [remark for remark in model.fit(table, rng=0).posterior.remarks if remark.kind == "skewed columns"]
    assert said.what == "Columns that would be much less skewed on a logarithmic scale: protein."


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_table_that_was_exported_twice_is_remarked_on(missing, rng):
    table = {"age": rng.normal(60, 10, 100).round(1), "score": rng.normal(size=100), "sex": rng.choice(["f", "m"], 100)}
    table |= {name: np.where(rng.random(100) < missing, np.nan, table[name]) for name in ("age", "score")}
    model = db.LatentClasses.from_frame(table, components=1, ascent=QUICK)
    twice = {name: np.tile(column, 2) for name, column in table.items()}
    for rows, said in ((table, False), (twice, True)):
        kinds = {remark.kind for remark in model.fit(rows, rng=0).posterior.remarks}
        assert ("repeated rows" in kinds) == said
    if not missing:
        assert "repeated rows" in remarks_on({name: twice[name] for name in ("age", "score")})
    rounded = {name: rng.normal(0, 1, 2000).round() for name in "ab"}
    assert "repeated rows" not in remarks_on(rounded), "few different values repeat by chance"
    ages = rng.normal(50, 12, 300).round()
    for others in ({}, {"constant": np.ones(300)}, {"retired": 1.0 * (ages > 65)}):
        assert "repeated rows" not in remarks_on({"age": ages, **others}), "so do those of one column"


def test_columns_of_sequences_are_remarked_on_as_those_of_rows(rng):
    speed = np.exp(rng.normal(size=200))
    table = {"speed": speed, "twice": 2.0 * speed, "heat": np.where(np.arange(200) < 6, -9.0, rng.normal(37, 1, 200))}
    model = db.HiddenMarkov(1, columns=dict.fromkeys(table, "real"), ascent=QUICK)
    points = np.column_stack(list(table.values()))
    kinds = {remark.kind for remark in model.fit([points], rng=0).posterior.remarks}
    assert {"missing-value codes", "repeated columns", "skewed columns"} <= kinds
    calm = model.fit([rng.normal(size=(200, 3))], rng=0).posterior.remarks
    assert {remark.kind for remark in calm} <= {"prior outweighs data"}
