"""Categories that sites have not agreed on: refused if there are no others, and otherwise part of what a fit says."""

import numpy as np
import pytest

import decbayes as db
from decbayes.columns import Categorical
from decbayes.errors import InvalidData

RACES = np.array(["asian", "black", "other", "white"])
FORMULA = "ill ~ race"
UNAGREED = "values not agreed on"


def site(rng, rows=200):
    return {"race": RACES[np.arange(rows) % 4].astype(object), "ill": rng.random(rows) < 0.4}


def written_otherwise(frame, rows):
    """The same site with the first rows' categories in capital letters, apart from "other"."""
    race = frame["race"].copy()
    race[:rows] = [name if name == "other" else name.upper() for name in race[:rows]]
    return {**frame, "race": race}


@pytest.fixture
def model(rng):
    return db.LogisticRegression.from_frame(site(rng), FORMULA)


@pytest.mark.parametrize("fit", ["fit", "fit_site"])
def test_a_site_without_any_agreed_category_is_refused_and_told_what_it_probably_means(model, rng, fit):
    capitals = written_otherwise(site(rng), 200)
    with pytest.raises(InvalidData, match="asian, black, white") as refused:
        getattr(model, fit)(capitals)
    assert not any(name.upper() in str(refused.value) for name in RACES), "no value of a person is quoted"
    nobody = {**capitals, "race": np.array(["x", "other"] * 100, dtype=object)}
    with pytest.raises(InvalidData, match="leave the column out"):
        getattr(model, fit)(nobody)


def test_categories_that_nobody_shares_are_refused_in_classes_too_but_not_in_a_few_rows(rng):
    classes = db.LatentClasses.from_frame(site(rng), components=2)
    capitals = {"race": np.array(["A", "B"] * 10, dtype=object), "ill": np.ones(20, dtype=bool)}
    with pytest.raises(InvalidData, match="no row has one of the agreed categories"):
        classes.fit(capitals, rng=0)
    few = {name: values[:3] for name, values in capitals.items()}
    assert (classes.points(few)[:, 0] == classes.columns["race"].categories.index("other")).all()


@pytest.mark.filterwarnings("ignore::decbayes.errors.MergeWarning")
@pytest.mark.parametrize(("rows", "share"), [(0, ""), (8, "Some rows"), (80, "About 30%"), (199, "About 70%")])
def test_a_fit_says_roughly_how_many_rows_are_not_agreed_and_a_merge_carries_it(model, rng, rows, share):
    sites = [site(rng) for _ in range(3)]
    sent = [model.fit_site(frame).posterior for frame in (*sites[:2], written_otherwise(sites[2], rows))]
    said = [remark for remark in sent[2].remarks if remark.kind == UNAGREED]
    merged = [remark for remark in db.merge(sent).remarks if remark.kind == UNAGREED]
    assert not any(remark.kind == UNAGREED for remark in (*sent[0].remarks, *sent[1].remarks))
    assert len(said) == len(merged) == bool(rows)
    for remark in said:
        assert remark.what.startswith(share)
        assert remark.is_warning == (rows > 20), "a site's rare categories are usual"
    assert all("site 2: " in remark.what for remark in merged)


def test_outcomes_that_are_not_agreed_are_said_too(rng):
    columns = {"end": db.columns.YesNo("relapse", "alive", "other"), "age": "real"}
    frame = {"end": np.array(["relapse", "alive", "Relapse"] * 20, dtype=object), "age": rng.normal(size=60)}
    (remark,) = db.LogisticRegression("end", columns=columns).fit(frame).posterior.remarks
    assert remark.kind == UNAGREED


def test_one_line_asks_about_all_categories_that_differ_in_capitals_or_spaces():
    lower, upper = Categorical("asian", "black", "white"), Categorical("ASIAN", "Black", " white")
    for columns in ([lower, upper], [lower, lower, upper], [lower, lower, upper, upper]):
        sites = {name: {"race": column} for name, column in zip("abcd", columns, strict=False)}
        (line,) = db.columns.unlike(sites)
        assert "'asian'" in line
        assert "'ASIAN'" in line
        assert "capital letters or spaces" in line
    assert db.columns.unlike({"a": {"race": lower}, "b": {"race": Categorical("asian", "black")}}) == []
