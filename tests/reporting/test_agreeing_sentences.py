"""A report's first sentences, its count of sites that stand out and its table agree with the warnings of the merge."""

import re

import numpy as np
import pytest

import decbayes as db
from decbayes.reporting.reports import figures, merged_sites
from decbayes.views import Findings
from decbayes.views.answers import NOTHING, answer

NAMES = ["alder", "birch", "cedar", "elm"]  # the last is faulty, if any is
ONE_START = db.Ascent(restarts=0)
UNIT = db.columns.Gaussian(0.0, 5.0)
COLUMNS = {"x": UNIT, "y": UNIT, "kind": db.columns.Categorical("a", "b")}


def clusters(rng, size, fault):
    points = rng.choice([-8.0, 8.0], (size, 1)) + rng.normal(size=(size, 2))
    return {"units": 100.0 * points, "alone": points + 60.0}.get(fault, points)


def classes(rng, size, fault):
    rows = np.column_stack([clusters(rng, size, ""), np.zeros(size)])
    rows[:, 2] = rows[:, 0] > 0.0
    change = {"units": lambda: rows[:, 0].__imul__(100.0), "alone": lambda: rows[:, :2].__iadd__([60.0, -60.0])}
    change.get(fault, lambda: None)()
    return rows


def sequences(rng, size, fault):
    states = np.repeat(rng.choice([-8.0, 8.0], size // 5), 5)
    points = states[:, None] + rng.normal(size=(len(states), 1))
    return [{"units": 100.0 * points, "alone": points + 60.0}.get(fault, points)]


def outcomes(rng, size, fault):
    x = rng.normal(size=size)
    y = (-4.0 if fault == "alone" else 1.0) * x + rng.normal(size=size)
    return np.column_stack([x * (100.0 if fault == "units" else 1.0), y])


def words(rng, size, fault):
    topics = np.array([[8, 8, 8, 1, 1, 1, 0, 0], [1, 1, 1, 8, 8, 8, 0, 0]]) / 27.0
    if fault == "alone":
        topics = topics[:, ::-1]
    return np.array([rng.multinomial(30, topics[rng.integers(2)]) for _ in range(size)])


MODELS = {
    "mixture": (db.GaussianMixture(2, 2, covariance="diagonal", ascent=ONE_START), clusters),
    "classes": (db.LatentClasses(2, columns=COLUMNS, ascent=ONE_START), classes),
    "states": (db.HiddenMarkov(2, columns={"x": UNIT}, ascent=ONE_START), sequences),
    "regression": (db.LinearRegression("y", columns={"x": UNIT, "y": UNIT}), outcomes),
    "topics": (db.LatentDirichletAllocation(2, [*"abcdefgh"], ascent=ONE_START), words),
}
FAULTS = ["none", "units", "alone", "empty", "copied", "small"]


def sites_with(fault, count, model, draw, rng):
    sites = [model.fit(draw(rng, 60, ""), rng=rng).posterior for _ in range(count - 1)]
    if fault == "empty":
        return [*sites, db.Posterior.of_prior(model.structure)]
    if fault == "copied":
        return [*sites, sites[0]]
    return [*sites, model.fit(draw(rng, 10 if fault == "small" else 60, fault), rng=rng).posterior]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", MODELS)
def test_no_site_stands_out_only_if_no_warning_names_one(name, fault, count, rng, monkeypatch):
    """Read from the texts, as a reader does."""
    monkeypatch.setattr(Findings, "heterogeneity", {})
    found = Findings.by_name(db.align(sites_with(fault, count, *MODELS[name], rng)), NAMES[-count:])
    said = [remark.what for remark in db.merging.remarks(found.alignment, found.names) if remark.is_warning]
    named = {site for text in said for site in found.names if site in text}
    sentence = answer(found)[2]
    out = {site for site in found.names if site in sentence.split("; sites differ")[0]}
    assert out or not named
    assert bool(out) != bool(re.search("[Nn]o (single )?site stands out", sentence))
    assert f"<b>{len(out)}</b><span>site{'' if len(out) == 1 else 's'} that stand" in figures(found, NOTHING)
    assert {
        site for site in out if re.search(rf'"row">{site}</th>((?!</tr>).)*"flags"', str(merged_sites(found)))
    } == out
    assert ("elm" in out) >= (fault in ("empty", "copied"))
    assert fault != "none" or not out


@pytest.mark.filterwarnings("ignore")
def test_without_a_site_that_stands_out_differences_that_warnings_are_about_are_said(rng, monkeypatch):
    monkeypatch.setattr(Findings, "heterogeneity", {})
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    shards = [
        rng.choice([-8.0, 8.0], (150, 1), p=[share, 1 - share]) + rng.normal(size=(150, 1)) for share in (0.1, 0.9)
    ]
    found = Findings.by_name(db.align([model.fit(shard, rng=rng).posterior for shard in shards]), ["alder", "elm"])
    assert [remark.kind for remark in db.merging.remarks(found.alignment)] == ["unlike shares"]
    assert answer(found)[2] == "No site stands out, but sites have the clusters in different shares."


@pytest.mark.filterwarnings("ignore")
def test_differences_of_components_are_said_only_with_the_condition_that_the_model_holds(as_shipped, rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    shards = [np.repeat([-8.0, 8.0 + move], 80)[:, None] + rng.normal(size=(160, 1)) for move in (0.0, 1.0, 2.0)]
    alone = [model.fit(shard, rng=rng).posterior for shard in shards]
    stated = [db.checking.with_halves(model, *fitted) for fitted in zip(alone, shards, strict=True)]
    for posteriors, holds in ((alone, True), (stated, False)):  # files that say how far halves are apart need no model
        found = Findings.by_name(db.align(posteriors), NAMES[:3])
        sentence = answer(found)[2].lower()
        assert re.search(r"sites differ by more than chance in cluster [01]\b", sentence)
        assert ("if the model holds, sites" in sentence) == holds


def test_a_single_broadcast_that_a_site_calls_rough_is_called_rough_in_the_second_sentence(rng):
    model = db.LogisticRegression("y", columns={"x": UNIT, "y": db.columns.Categorical("no", "yes")})
    x = rng.normal(size=(3, 200))
    posteriors = [model.fit(np.column_stack([row, row + rng.logistic(size=200) > 0.0])).posterior for row in x]
    alone = model.fit(np.column_stack([x[0], np.ones(200)])).posterior
    rough = "one broadcast is rough here"
    assert rough in answer(Findings.by_name(db.align([*posteriors, alone]), NAMES))[1]
    assert rough not in answer(Findings.by_name(db.align(posteriors), NAMES[:3]))[1]
