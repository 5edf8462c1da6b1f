"""A model of a file is that of its frame: every option that `from_file` takes has reached the model."""

import csv
import inspect
from dataclasses import fields

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidData
from decbayes.models.tables.tabular import columns_file

RNG = np.random.default_rng(3)
SIZE = 60
FRAME = {
    "a": RNG.normal(5.0, 2.0, SIZE).round(3),
    "b": RNG.choice(["p", "q"], SIZE),
    "y": RNG.normal(size=SIZE).round(3),
    "n": RNG.poisson(3.0, SIZE),
    "s": RNG.choice(["no", "yes"], SIZE),
    "g": RNG.choice(["low", "mid", "top"], SIZE),
    "t": RNG.gamma(2.0, size=SIZE).round(3) + 0.01,
    "e": RNG.choice([True, False], SIZE),
    "w": RNG.integers(1, 4, SIZE),
    "site": RNG.choice(["one", "two"], SIZE),
}
VARYING = {"varying": "a", "by": "site", "weights": "w", "prior_variance": 3.0, "between_degrees": 7.0}
REGRESSIONS = {
    db.LinearRegression: ("y ~ a + b", VARYING | {"prior_noise": 0.7, "prior_degrees": 2.0}),
    db.LogisticRegression: ("s ~ a + b", VARYING | {"yes": "no"}),
    db.PoissonRegression: ("n ~ a + b", VARYING),
    db.NegativeBinomialRegression: ("n ~ a + b", VARYING | {"dispersion": 2.0}),
    db.SurvivalRegression: ("Surv(t, e) ~ a + b", VARYING | {"cuts": "1,2.5", "rate": 0.3}),
    db.OrderedRegression: ("g ~ a + b", VARYING | {"levels": "top,mid,low"}),
    db.MultinomialRegression: ("g ~ a + b", {"reference": "mid", "prior_variance": 3.0}),
    db.RegressionMixture: ("y ~ a", {"components": 3, "prior_variance": 3.0}),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(FRAME)
        writer.writerows(zip(*FRAME.values(), strict=True))
    return path


def in_python(options):
    """As `from_frame` takes what `from_file` takes as text."""
    split = {name: options[name].split(",") for name in ("varying", "levels", "cuts") if name in options}
    return options | {
        name: tuple(float(part) if name == "cuts" else part for part in parts) for name, parts in split.items()
    }


@pytest.mark.parametrize("kind", REGRESSIONS, ids=lambda kind: kind.__name__)
def test_regressions_of_files_are_those_of_frames(kind, table):
    formula, options = REGRESSIONS[kind]
    known = {field.name for field in fields(kind)} | inspect.signature(kind.from_file).parameters.keys()
    options = {name: value for name, value in options.items() if name in known}
    model, rows = kind.from_file(table, formula=formula, **options)
    expected = kind.from_frame(FRAME, formula, **in_python(options))
    assert model.structure == expected.structure
    np.testing.assert_allclose(rows, expected.points(FRAME))
    plain, _ = kind.from_file(table, formula=formula)
    for name in options.keys() - {"dispersion"}:
        assert getattr(model, name) != getattr(plain, name), name
        assert getattr(model, name) == getattr(expected, name), name
    survival = {"time": "t"} if kind is db.SurvivalRegression else {}
    narrow, _ = kind.from_file(table, target=model.target, columns=f"a,t,{model.target}", **survival)
    assert set(narrow.columns) <= {"a", "t", model.target}
    with pytest.raises(ValueError, match="Say what to fit, for example: decbayes fit"):
        kind.from_file(table)


@pytest.mark.parametrize(
    ("kind", "columns", "options"),
    [
        (db.GaussianMixture, "a,y", {"components": 2, "covariance": "diagonal", "prior_strength": 0.3}),
        (db.GaussianMixture, "a,y", {"components": 2, "variance": 0.5}),
        (db.CategoricalMixture, "n,w", {"components": 2}),
        (db.PoissonMixture, "n,w", {"components": 2}),
        (db.BernoulliMixture, "", {"components": 2}),
        (db.LatentClasses, "a,b,n", {"components": 4, "kinds": "n=real"}),
        (db.HiddenMarkov, "a,b", {"states": 3, "sequences": "site", "kinds": "a=real"}),
        (db.LatentFeatures, "a,y", {"features": 2}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)  # fmt: skip
def test_models_of_files_have_their_columns_and_options(kind, columns, options, table, tmp_path):
    if kind is db.BernoulliMixture:
        table, columns = tmp_path / "flags.csv", "one,two"
        table.write_text("one,two,three\n0,1,1\n1,1,0\n0,0,1\n")
    model, data = kind.from_file(table, columns=columns, **options)
    for name in options.keys() - {"kinds"}:
        assert getattr(model, name) == options[name], name
    assert set(getattr(model, "columns", columns.split(","))) == set(columns.split(","))
    if kind is db.GaussianMixture:
        assert kind.from_file(table, columns="a")[0].covariance == "full"
        assert kind.without_data().covariance == "full"
        assert kind.without_data(variance=2.0).covariance is None
        np.testing.assert_array_equal(data, np.column_stack([FRAME["a"], FRAME["y"]]))
    if kind is db.HiddenMarkov:
        assert sorted(map(len, data)) == sorted(np.unique(FRAME["site"], return_counts=True)[1])
    if kind is db.LatentClasses:
        assert model.columns["n"].kind == "real"


@pytest.mark.parametrize("kind", [*REGRESSIONS, db.LatentClasses, db.HiddenMarkov], ids=lambda kind: kind.__name__)
def test_models_of_agreed_columns_are_the_same_at_every_site(kind, table, tmp_path):
    """The list of columns that one site has written, with the rows of another: the first site's model."""
    if kind in REGRESSIONS:
        formula, options = REGRESSIONS[kind]
        known = {field.name for field in fields(kind)} | inspect.signature(kind.from_file).parameters.keys()
        options = {"formula": formula} | {name: value for name, value in options.items() if name in known}
    else:
        options = {"columns": "a,b,n"} | (
            {"sequences": "site", "states": 3} if kind is db.HiddenMarkov else {"components": 4}
        )
    model, _ = kind.from_file(table, **options)
    agreed, other = tmp_path / "columns.json", tmp_path / "other.csv"
    agreed.write_text(columns_file(model.columns))
    lines = table.read_text().splitlines()
    other.write_text("\n".join([lines[0], *lines[20:50]]) + "\n")
    options.pop("columns", None)
    same, rows = kind.from_file(other, agreed_columns=agreed, **options)
    assert same.structure == model.structure
    assert model.count(rows) == (2 if kind is db.HiddenMarkov else 30)
    if kind is db.HiddenMarkov:
        assert same.sequences == "site"
    with pytest.raises(InvalidData, match="does not list columns"):
        kind.from_file(other, agreed_columns=other, **options)
