"""Robust merges of sites whose data the model does not describe: honest sites disagree, and none is left out."""

import numpy as np
import pytest

import decbayes as db
from decbayes.merging import robust_merge
from decbayes.merging.robust._disagreement import GAP, usual_among
from decbayes.merging.robust._result import RobustMerge

CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
MODEL = db.GaussianMixture(3, 2)
NOISE = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "lognormal": lambda rng, shape: np.exp(rng.normal(size=shape)),
    "outliers": lambda rng, shape: rng.normal(size=shape) * np.where(rng.random((shape[0], 1)) < 0.02, 20.0, 1.0),
}


def drawn(rng, noise, count=120):
    return CENTRES[rng.choice(3, size=count, p=[0.5, 0.3, 0.2])] + NOISE[noise](rng, (count, 2))


def world(noise, seed, sites=7):
    """Shards of equal sites, their fits, the first fit in other units, and held-out data."""
    rng = np.random.default_rng([seed, sites])
    shards = [drawn(rng, noise) for _ in range(sites)]
    fits = [MODEL.fit(shard, rng=rng).posterior for shard in shards]
    return fits, MODEL.fit(10.0 * shards[0], rng=rng).posterior, drawn(rng, noise, 2000)


def score(posterior, data):
    return db.model_for(posterior.structure).score(posterior, data)


def flagged(merge: RobustMerge):
    return [site for site, standing in enumerate(merge.sites) if standing.flagged]


@pytest.mark.parametrize("seed", range(3))
def test_three_honest_sites_in_two_slots_all_count(seed):
    fits, _, _ = world("normal", seed, sites=3)
    merged = robust_merge(fits, components=2)
    assert (flagged(merged), sorted(merged.merged), merged.misfit) == ([], [0, 1, 2], True)
    assert any(remark.kind == "many sites disagree" and "nobody" in remark.what for remark in merged.remarks())


@pytest.mark.parametrize(("noise", "seed"), [("lognormal", 1), ("lognormal", 2), ("outliers", 2), ("outliers", 7)])
def test_honest_sites_of_data_unlike_the_model_lose_nothing_by_a_robust_merge(noise, seed):
    fits, _, held_out = world(noise, seed)
    merged = robust_merge(fits)
    assert flagged(merged) == []
    assert score(db.merge(fits), held_out) - score(merged.posterior, held_out) < 0.02


@pytest.mark.parametrize(("noise", "seed"), [("lognormal", 1), ("lognormal", 7), ("outliers", 6), ("outliers", 7)])
def test_a_site_in_other_units_is_named_among_sites_that_disagree_and_no_other(noise, seed):
    fits, wrong, held_out = world(noise, seed)
    merged = robust_merge([wrong, *fits[1:]])
    assert (flagged(merged), sorted(merged.merged)) == ([0], list(range(1, 7)))
    assert score(db.merge(fits[1:]), held_out) - score(merged.posterior, held_out) < 0.02
    assert not {remark.kind for remark in merged.remarks()} & {"no data", "nothing shared"}
    assert "many sites disagree" in {remark.kind for remark in merged.warnings()}


@pytest.mark.parametrize(("faulty", "who"), [(False, "all sites except site 6"), (True, "the others except site 6")])
def test_sites_that_disagree_are_not_said_to_count_in_full_if_one_counts_for_less(faulty, who):
    rng = np.random.default_rng([0, 7])
    shards = [drawn(rng, "lognormal", 600 if site == 6 else 120) for site in range(7)]
    shards[0] = shards[0] * (10.0 if faulty else 1.0)
    merged = robust_merge([MODEL.fit(shard, rng=rng).posterior for shard in shards])
    assert (merged.misfit, merged.sites[6].counts < 0.5) == (True, True)
    (remark,) = [remark for remark in merged.remarks() if remark.kind == "many sites disagree"]
    assert remark.what.endswith(f"{who} count in full.")
    assert not any("plain merge" in str(remark) for remark in merged.remarks())


def test_missing_values_of_equal_sites_are_no_reason_for_a_warning():
    """The model is true, but over half of the rows have two values or fewer: sites divide them differently."""
    rng, shares = np.random.default_rng(2), np.array([[0.15] * 6, [0.85] * 6])
    model = db.LatentClasses(2, columns=dict.fromkeys("abcdef", "yes/no"), ascent=db.Ascent(restarts=1))
    tables = [(rng.random((150, 6)) < shares[rng.integers(2, size=150)]).astype(float) for _ in range(6)]
    with_gaps = [np.where(rng.random(each.shape) < 0.6, np.nan, each) for each in tables]
    merged = robust_merge([fit.posterior for fit in model.fit_many(with_gaps, rng=rng)])
    (remark,) = merged.remarks()
    assert (merged.misfit, flagged(merged), remark.kind) == (True, [], "many sites disagree")
    assert "many values may be missing" in remark.advice
    assert not merged.warnings()


def test_what_is_usual_is_the_most_that_sites_disagree_that_may_not_be_faulty():
    assert usual_among(np.array([0.3, 9.0, 0.5, 8.0])) == 8.0
    assert usual_among(np.array([0.3, 0.2, 0.5, 0.4, 0.6, 7.0, 8.0])) == 0.6
    # More than a third are set aside only if they are far beyond all others.
    far = GAP * 0.7
    assert usual_among(np.array([0.3, 0.2, 0.5, 1.1 * far, 1.2 * far])) == 0.5
    assert usual_among(np.array([0.3, 0.2, 0.5, 0.9 * far, 1.2 * far])) == 0.9 * far


def overdispersed(rng, scale=1.0):
    """Counts with five times the variance of Poisson counts."""
    frame = {name: rng.normal(size=300) for name in "abcd"}
    mean = np.exp(1.0 + 0.2 * frame["a"])
    return frame | {"y": np.rint(scale * rng.poisson(rng.gamma(mean / 4.0, 4.0)))}


@pytest.mark.parametrize("sites", [3, 5])
def test_sites_whose_counts_vary_more_than_chance_are_not_accused_and_a_faulty_one_is(sites):
    model = db.PoissonRegression("y", columns={"y": "count"} | dict.fromkeys("abcd", "real"))
    named = {"honest": [], "faulty": []}
    for seed in range(6):
        rng = np.random.default_rng([seed, sites])
        honest = [model.fit_site(overdispersed(rng)).posterior for _ in range(sites)]
        wrong = model.fit_site(overdispersed(rng, 4.0)).posterior
        named["honest"] += flagged(robust_merge(honest))
        named["faulty"].append(flagged(robust_merge([wrong, *honest[1:]])))
    assert named == {"honest": [], "faulty": 6 * [[0]]}


def with_others(rng, effect, slope=1.0):
    """Rows of two wards and of others, which differ from them by an effect of the site's own."""
    x, ward = rng.normal(size=200), rng.integers(3, size=200)
    y = slope * x + np.array([0.0, 1.0, effect])[ward] + rng.normal(size=200)
    return {"x": x, "ward": np.array(["a", "b", "other"])[ward], "y": y}


@pytest.mark.parametrize("model", [db.LinearRegression, db.PoissonRegression])
def test_categories_that_count_as_other_are_not_the_same_ones_at_all_sites(model):
    """Effects of "other" differ; a slope that differs is still said, and its site named."""
    counts = model is db.PoissonRegression
    columns = {"x": "real", "ward": db.columns.Categorical("a", "b", "other"), "y": "count" if counts else "real"}
    said = {}
    for slope in (1.0, 3.0):
        rng = np.random.default_rng(3)
        frames = [
            with_others(rng, effect, slope if site == 4 else 1.0) for site, effect in enumerate([-3, 3, 0, 2, -2])
        ]
        if counts:
            frames = [frame | {"y": rng.poisson(np.exp(0.3 * frame["y"]))} for frame in frames]
        fits = [model("y", columns=columns).fit(frame).posterior for frame in frames]
        (found,) = db.checking.heterogeneity(db.align(fits)).values()
        said[slope] = bool(found.differ(0)), flagged(robust_merge(fits))
    assert said == {1.0: (False, []), 3.0: (True, [4])}


def test_sites_are_compared_at_how_far_halves_of_their_rows_are_apart():
    """The noise grows with a column, so that slopes of honest sites are far apart; one with other units is farther."""
    model = db.LinearRegression("y", columns=dict.fromkeys("xy", "real"))
    named = {"honest": 0, "halves": 0, "units": 0}
    for seed in range(8):
        rng, fits = np.random.default_rng(seed), []
        for _ in range(6):
            x = rng.normal(size=150)
            fits.append((frame := {"x": x, "y": x + rng.normal(size=150) * x**2}, model.fit(frame).posterior))
        stated = [db.checking.with_halves(model, posterior, frame) for frame, posterior in fits]
        frame = fits[0][0] | {"y": 10.0 * fits[0][0]["y"]}
        units = db.checking.with_halves(model, model.fit(frame).posterior, frame)
        named["honest"] += bool(flagged(robust_merge([posterior for _, posterior in fits])))
        named["halves"] += bool(flagged(robust_merge(stated)))
        named["units"] += flagged(robust_merge([units, *stated[1:]])) == [0]
    assert named == {"honest": 5, "halves": 0, "units": 8}
