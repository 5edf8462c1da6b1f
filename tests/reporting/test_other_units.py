"""Columns that a site has in another unit: named with the factor, and nobody else is."""

import numpy as np
import pytest
from scipy.special import expit

import decbayes as db
from decbayes.views import view_of

pytestmark = pytest.mark.filterwarnings("ignore")

COLUMNS = {
    "age": db.columns.Gaussian(60.0, 14.0),
    "weight": db.columns.Gaussian(80.0, 15.0),
    "height": db.columns.Gaussian(170.0, 9.0),
    "heat": db.columns.Gaussian(37.2, 0.7),
    "ward": db.columns.Categorical(*"abcdefgh"),
}
OUTCOMES = {
    db.LinearRegression: (db.columns.Gaussian(0.0, 1.0), lambda linear, rng: linear + rng.normal(size=len(linear))),
    db.LogisticRegression: (db.columns.YesNo(), lambda linear, rng: rng.random(len(linear)) < expit(linear)),
    db.PoissonRegression: (db.columns.Poisson(1.0), lambda linear, rng: rng.poisson(np.exp(linear))),
}


def patients(rng, size=80, *, wards=8, children=False):
    age = rng.uniform(0.0, 18.0, size) if children else rng.normal(60.0 + 5.0 * rng.normal(), 14.0, size)
    weight = 10.0 + 3.0 * age + rng.normal(0.0, 4.0, size) if children else rng.normal(80.0, 15.0, size)
    height = 60.0 + 6.0 * age + rng.normal(0.0, 6.0, size) if children else rng.normal(170.0, 9.0, size)
    return {
        "age": age, "weight": weight, "height": height, "heat": rng.normal(37.2, 0.7, size),
        "ward": np.array(list("abcdefgh"))[rng.integers(wards, size=size)],
    }  # fmt: skip


def named(kind, sites, rng, changed=lambda last: last):
    """What a merge names, if the last site writes its numbers in another way."""
    column, outcome = OUTCOMES[kind]
    model = kind("y", columns={**COLUMNS, "y": column})
    linear = [
        0.02 * (site["age"] - 60.0) + 0.01 * (site["weight"] - 80.0) + 0.4 * (site["heat"] - 37.2) for site in sites
    ]
    rows = [{**site, "y": outcome(f, rng)} for site, f in zip(sites, linear, strict=True)]
    alignment = db.align([model.fit_site(site).posterior for site in [*rows[:-1], changed(rows[-1])]])
    return view_of(alignment.structure).other_units(alignment), alignment


@pytest.mark.parametrize("kind", OUTCOMES)
@pytest.mark.parametrize(
    ("column", "times", "shift"),
    [("weight", 2.2046, 0.0), ("height", 1 / 2.54, 0.0), ("heat", 1.8, 32.0), ("height", 0.01, 0.0), ("age", 12, 0.0)],
)
def test_usual_units_are_named_with_their_factor_and_no_other_site_is(kind, column, times, shift, rng):
    sites = [patients(rng, size) for size in (60, 150, 50, 90, 120, 80)]
    ((site, name, factor),), _ = named(kind, sites, rng, lambda last: {**last, column: shift + times * last[column]})
    assert (site, name) == (5, column)
    # Centres of sites differ by about a tenth.
    assert factor == pytest.approx(times, rel=0.15)


def test_a_merge_names_the_site_and_advises_to_compare_units_before_letting_terms_vary(rng):
    sites = [patients(rng, 300) for _ in range(5)]
    _, alignment = named(db.LinearRegression, sites, rng, lambda last: {**last, "weight": 2.2046 * last["weight"]})
    remarks = {remark.kind: remark for remark in db.merging.remarks(alignment)}
    assert "site 4 seems to have weight in another unit (values about 2.2 times as large)" in remarks["units"].what
    assert remarks["sites differ"].advice == "Compare the units first."


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_robust_merge_leaves_the_site_out_although_no_slope_contradicts_it(kind):
    """In grams its slope is near 0 and seems to be known far better, which each of the others tolerates."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        sites = [patients(rng, 100) for _ in range(5)]
        _, alignment = named(kind, sites, rng, lambda last: {**last, "weight": 1000.0 * last["weight"]})
        sent = [*(alignment.sent or alignment.posteriors)]
        robust = db.merging.robust_merge(sent)
        assert robust.reasons()[4] == "seems to have weight in another unit and is left out"
        assert 4 not in robust.merged
        assert robust.posterior == db.merging.robust_merge(sent[:4]).posterior


def test_with_three_sites_a_column_in_another_unit_does_not_decide_who_is_left_out(rng):
    sites = [patients(rng, 100) for _ in range(3)]
    _, alignment = named(db.LogisticRegression, sites, rng, lambda last: {**last, "weight": 1000.0 * last["weight"]})
    reasons = db.merging.robust_merge(alignment.sent or alignment.posteriors).reasons()
    assert "another unit" not in "".join(reasons.values())


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_small_site_without_most_categories_has_no_other_units(kind, rng):
    """It knows as little about absent categories as the prior does, and more about all else."""
    sites = [*(patients(rng, 150) for _ in range(6)), patients(rng, 25, wards=2)]
    assert named(kind, sites, rng)[0] == []


@pytest.mark.parametrize("kind", OUTCOMES)
def test_a_clinic_for_children_has_no_other_units(kind, rng):
    sites = [*(patients(rng, 80) for _ in range(5)), patients(rng, 80, children=True)]
    assert named(kind, sites, rng)[0] == []


@pytest.mark.parametrize("kind", OUTCOMES)
def test_ages_of_small_children_are_in_no_other_unit(kind):
    """Their centre is a seventh of the others', as of kPa among mmHg, but they differ by more than a seventh."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sites = [patients(rng, 200) for _ in range(5)]
        small = {**sites[-1], "age": rng.normal(9.0, 4.0, 200).clip(0.0, 17.0)}
        assert named(kind, [*sites[:-1], small], rng)[0] == []


def test_a_slope_that_is_that_of_others_speaks_against_another_unit(rng):
    """One site has animals about 2.2 times as heavy. If its numbers were in pounds, its slope would be smaller."""
    model = db.LinearRegression("y", columns={"weight": db.columns.Gaussian(80.0, 10.0), "y": "real"})
    found = []
    for pounds in (False, True):
        sites = []
        for times in (1.0, 1.0, 1.0, 1.0, 2.2046):
            weight = times * rng.normal(80.0, 10.0, 100)
            y = 0.1 * weight / (times if pounds else 1.0) + rng.normal(0.0, 1.0, 100)
            sites.append(model.fit(np.column_stack([weight, y])).posterior)
        alignment = db.align(sites)
        found.append([site for site, *_ in view_of(alignment.structure).other_units(alignment)])
    assert found == [[], [4]]
