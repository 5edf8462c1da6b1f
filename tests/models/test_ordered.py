"""Ordered outcomes are steps from level to level: by maximum likelihood, by enumeration of levels, over sites."""

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit

import decbayes as db
from decbayes.errors import InvalidStructure, NotDisclosed
from decbayes.models.regressions.ordered import gap_derivatives, thresholds_to_levels

LEVELS = ("none", "mild", "severe", "fatal")


def trial(rng, count=400):
    dose = rng.normal(size=count)
    beyond = rng.random((count, 3)) < expit(np.array([0.5, 0.0, -0.5]) + 0.8 * dose[:, None])
    return {"dose": dose, "effect": np.array(LEVELS)[np.cumprod(beyond, axis=1).sum(axis=1)]}


def test_the_fit_maximises_the_likelihood_of_steps(rng):
    frame = trial(rng)
    settings = {"levels": LEVELS, "prior_variance": 1e6, "approximation": "laplace"}
    model = db.OrderedRegression.from_frame(frame, "effect ~ dose", **settings)
    zero, unit = model.columns["dose"].zero_and_unit
    x, level = (frame["dose"] - zero) / unit, np.array([LEVELS.index(effect) for effect in frame["effect"]])

    def surprise(beta):
        further = expit(beta[:3] + beta[3] * x[:, None])
        stays = np.column_stack([1.0 - further, np.ones(len(x))])
        chance = np.cumprod(np.column_stack([np.ones(len(x)), further]), axis=1) * stays
        return -np.log(chance[np.arange(len(x)), level]).sum()

    best = optimize.minimize(surprise, np.zeros(4), method="BFGS").x
    posterior = model.fit(frame).posterior
    np.testing.assert_allclose(model.outcome.moments(posterior.natural["coefficients"])[0], best, atol=2e-3)
    assert model.structure.labels["coefficients"][0] == "threshold=beyond none"


def test_probabilities_of_all_levels_add_up_and_are_those_that_are_scored(rng):
    frame = trial(rng)
    model = db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=LEVELS)
    posterior = model.fit(frame).posterior
    people = {"dose": np.array([-1.0, 0.3, 2.0])}
    probable = model.probabilities(posterior, people)
    np.testing.assert_allclose(probable.sum(axis=1), 1.0)
    scored = [np.exp(model.log_predictive(posterior, people | {"effect": [level] * 3})) for level in LEVELS]
    np.testing.assert_allclose(probable.T, scored)
    predicted = model.predict(posterior, people)
    np.testing.assert_allclose(predicted["mean"], probable @ np.arange(4))
    assert (predicted["low"] <= predicted["high"]).all()


def test_the_order_is_part_of_what_sites_agree_on(rng):
    frame = trial(rng)
    one, other = (
        db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=each) for each in (LEVELS, LEVELS[::-1])
    )
    assert one.structure.fingerprint != other.structure.fingerprint
    assert db.model_for(one.structure).levels == LEVELS
    upward, downward = (model.coefficients(model.fit(frame).posterior)[-1]["mean"] for model in (one, other))
    assert upward > 0 > downward


def test_sites_merge_to_nearly_one_fit(rng):
    frame = trial(rng, 800)
    model = db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=LEVELS)
    points = model.points(frame)
    merged = db.merge([model.fit(part).posterior for part in np.array_split(points, 4)])
    for row, best in zip(*(model.coefficients(each) for each in (merged, model.fit(points).posterior)), strict=True):
        assert abs(row["mean"] - best["mean"]) < 0.5 * best["deviation"]


def test_few_with_a_level_do_not_leave_the_site(rng, tmp_path):
    frame = trial(rng)
    frame["effect"] = np.where(
        (frame["effect"] == "fatal") & (np.cumsum(frame["effect"] == "fatal") > 2), "severe", frame["effect"]
    )
    model = db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=LEVELS)
    with pytest.raises(NotDisclosed, match="Join levels"):
        db.save(model.fit(frame).posterior, tmp_path / "few.posterior", data=frame)


def test_levels_and_columns_must_fit(rng):
    frame = trial(rng)
    with pytest.raises(InvalidStructure, match="are not those of"):
        db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=("none", "mild"))
    with pytest.raises(InvalidStructure, match="three or more levels"):
        db.OrderedRegression.from_frame(
            frame | {"effect": frame["effect"] == "none"}, "effect ~ dose", kinds={"effect": "yes/no"}
        )


def test_steps_with_coefficients_of_their_own_are_separate_logistic_regressions(rng):
    """Outcomes without an order as nested dichotomies."""
    x = rng.normal(size=300)
    place = np.array(["home", "clinic", "hospice"])[rng.integers(3, size=300)]
    frame, order = {"x": x, "place": place}, ["home", "clinic", "hospice"]
    model = db.OrderedRegression.from_frame(frame, "place ~ x + x:threshold", levels=order)
    rows = {row["term"]: row["mean"] for row in model.coefficients(model.fit(frame).posterior)}
    beyond = place != "home"
    first = db.LogisticRegression.from_frame({"x": x, "y": beyond}, "y ~ x")
    slope = first.coefficients(first.fit({"x": x, "y": beyond}).posterior)[1]["mean"]
    assert rows["x"] == pytest.approx(slope, abs=0.02)


def test_a_level_that_is_hardly_possible_still_has_a_score(rng):
    """Probabilities are rounded to zero there, their logarithms are not."""
    frame = trial(rng, 3000)
    model = db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=LEVELS)
    posterior = model.fit(frame).posterior
    near, far, _, _ = model.log_predictive(posterior, {"dose": [300.0, 600.0, -300.0, -600.0], "effect": 4 * ["none"]})
    assert -np.inf < far < near < -40


def proportional(rng, count=400):
    dose = rng.normal(size=count)
    return {
        "dose": dose,
        "effect": np.array(LEVELS)[np.digitize(0.8 * dose + rng.logistic(size=count), [-1, 0.2, 1.5])],
    }


def cumulative(frame, **settings):
    return db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=LEVELS, link="cumulative", **settings)


def test_cumulative_logits_with_hardly_any_prior_are_statsmodels(rng):
    miscmodels = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    frame = proportional(rng)
    model = cumulative(frame, prior_variance=1e6, approximation="laplace")
    rows = model.coefficients(model.fit(frame).posterior)
    zero, _ = model.columns["dose"].zero_and_unit
    code = np.array([LEVELS.index(effect) for effect in frame["effect"]])
    found = miscmodels.OrderedModel(code, (frame["dose"] - zero)[:, None], distr="logit").fit(method="bfgs", disp=0)
    cuts = found.model.transform_threshold_params(found.params)[1:-1]
    np.testing.assert_allclose([row["mean"] for row in rows], [*-cuts, found.params[0]], atol=2e-3)
    assert rows[-1]["deviation"] == pytest.approx(found.bse[0], rel=1e-2)
    assert [row["term"] for row in model.ratios(model.fit(frame).posterior)] == ["dose"]


def test_variational_cumulative_logits_are_near_the_most_likely_ones(rng):
    frame = proportional(rng)
    near, best = (cumulative(frame, approximation=each) for each in ("variational", "laplace"))
    rows = zip(*(model.coefficients(model.fit(frame).posterior) for model in (near, best)), strict=True)
    for row, laplace in rows:
        assert abs(row["mean"] - laplace["mean"]) < 0.1 * laplace["deviation"]
        assert row["deviation"] == pytest.approx(laplace["deviation"], rel=0.03)


def test_rows_of_cumulative_logits_add_up_to_the_logarithm_of_a_difference(rng):
    """log(σ(a) − σ(b)) of each level, at coefficients that are known exactly."""
    frame = proportional(rng, 50)
    model = cumulative(frame)
    beta = np.array([1.1, -0.2, -1.4, 0.7])
    zero, unit = model.columns["dose"].zero_and_unit
    beyond = expit(beta[:3] + beta[3] * ((frame["dose"] - zero) / unit)[:, None])
    ends = np.column_stack([np.ones(50), beyond, np.zeros(50)])
    code = np.array([LEVELS.index(effect) for effect in frame["effect"]])
    exact = np.log(ends[np.arange(50), code] - ends[np.arange(50), code + 1]).sum()
    (found,) = model.log_likelihoods({"coefficients": beta[None, None, :]}, frame)
    assert found.sum() == pytest.approx(exact, abs=1e-5)


def test_the_likelihood_of_a_gap_has_the_slopes_it_says():
    f, step = np.array([-0.5, 5e-4, 2e-3, 0.1, 1.0, 5.0]), 1e-6
    value, slope, weight, change = gap_derivatives(f)
    up, down = gap_derivatives(f + step), gap_derivatives(f - step)
    np.testing.assert_allclose((up[0] - down[0]) / (2 * step), slope, rtol=1e-5)
    np.testing.assert_allclose((down[1] - up[1]) / (2 * step), weight, rtol=1e-4)
    np.testing.assert_allclose((down[2] - up[2]) / (2 * step), change, rtol=1e-4)
    np.testing.assert_allclose(value[3:], np.log(1 - np.exp(-f[3:])))


def test_cumulative_probabilities_are_those_that_are_scored_and_drawn(rng):
    frame = proportional(rng)
    model = cumulative(frame)
    posterior = model.fit(frame).posterior
    people = {"dose": np.array([-1.0, 0.3, 2.0])}
    probable = model.probabilities(posterior, people)
    np.testing.assert_allclose(probable.sum(axis=1), 1.0)
    scored = [np.exp(model.log_predictive(posterior, people | {"effect": [level] * 3})) for level in LEVELS]
    np.testing.assert_allclose(probable.T, scored)
    exact = {"coefficients": posterior.mean("coefficients")}
    drawn, _ = model.draw(exact, 4000, rng, data={"dose": np.zeros(4000)})
    codes = drawn[:, model.table.target_place].astype(int)
    share = np.bincount(np.array(model.stack.places)[codes], minlength=4) / 4000
    np.testing.assert_allclose(share, model.probabilities(posterior, {"dose": [0.0]})[0], atol=0.03)


def test_cumulative_logits_of_sites_reach_one_fit_and_a_site_may_lack_a_level(rng):
    frame = proportional(rng, 600)
    model = cumulative(frame)
    points = model.points(frame)
    levels = np.array(model.stack.places)[points[:, model.table.target_place].astype(int)]
    sites = [*np.array_split(points[levels != 1], 4), points[levels == 1][:20], points[levels == 1][20:]]
    refined = db.refine(model, sites, [model.fit_site(site).posterior for site in sites], rounds=6, rng=rng)
    best = model.coefficients(model.fit(points).posterior)
    distances = [
        max(
            abs(row["mean"] - one["mean"]) / one["deviation"]
            for row, one in zip(model.coefficients(each), best, strict=True)
        )
        for each in refined.rounds
    ]
    assert distances[-1] < 0.01
    assert np.isfinite(model.log_predictive(refined.rounds[0], points)).all()


def test_thresholds_out_of_order_leave_nearly_nothing_between_them():
    np.testing.assert_allclose(thresholds_to_levels(np.array([[0.5, 0.6, 0.1]])), [[0.5, 0.0, 0.4, 0.1]], atol=1e-11)


def test_links_are_part_of_what_sites_agree_on_and_differ_where_they_should(rng):
    frame = proportional(rng, 2000)
    near, other = cumulative(frame), db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=LEVELS)
    assert near.structure.fingerprint != other.structure.fingerprint
    assert db.model_for(near.structure).link == "cumulative"
    assert "odds of a higher level" in near.modelled
    joined = frame | {"effect": np.where(frame["effect"] == "fatal", "severe", frame["effect"])}

    def changed(link):
        """How far the effect moves if two levels are joined: not at all, were data without end and the link right."""
        slopes = [
            db.OrderedRegression.from_frame(each, "effect ~ dose", levels=LEVELS[:size], link=link)
            for each, size in ((frame, 4), (joined, 3))
        ]
        first, second = (
            model.coefficients(model.fit(each).posterior)[-1]["mean"]
            for model, each in zip(slopes, (frame, joined), strict=True)
        )
        return abs(first - second)

    assert changed("cumulative") < 0.5 * changed("continuation")
    with pytest.raises(InvalidStructure, match="link is"):
        db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=LEVELS, link="probit")


def test_accuracy_of_cumulative_logits_counts_levels(rng):
    frame = proportional(rng, 500)
    model = cumulative(frame)
    posterior = model.fit(frame).posterior
    risks = model.risks(posterior, frame)
    code = np.array([LEVELS.index(effect) for effect in frame["effect"]])
    np.testing.assert_array_equal(risks.observed, code)
    assert risks.expected.sum() == pytest.approx(code.sum(), rel=0.02)
    assert np.corrcoef(risks.risk, frame["dose"])[0, 1] == pytest.approx(1.0)


def test_few_between_two_thresholds_do_not_leave_the_site(rng, tmp_path):
    frame = proportional(rng)
    mild = frame["effect"] == "mild"
    frame["effect"] = np.where(mild & (np.cumsum(mild) > 3), "none", frame["effect"])
    model = cumulative(frame)
    with pytest.raises(NotDisclosed, match="Join levels"):
        db.save(model.fit(frame).posterior, tmp_path / "few.posterior", data=frame)


def test_an_order_that_nobody_gave_is_refused_and_any_that_somebody_gave_is_used(rng):
    """Tables are read in the order of the alphabet, in which high < low < medium."""
    effect = np.array(["low", "medium", "high"])[np.arange(90) % 3]
    frame = {"effect": effect, "dose": rng.normal(size=90)}
    with pytest.raises(InvalidStructure, match="order of the alphabet: high, low, medium"):
        db.OrderedRegression.from_frame(frame, "effect ~ dose").fit(frame)
    order = ("low", "medium", "high")
    pandas = pytest.importorskip("pandas")
    listed = pandas.DataFrame(frame).assign(effect=pandas.Categorical(effect, categories=order, ordered=True))
    columns = {"effect": db.columns.Categorical(*order), "dose": "real"}
    for model in (
        db.OrderedRegression.from_frame(frame, "effect ~ dose", levels=order),
        db.OrderedRegression.from_frame(listed, "effect ~ dose"),
        db.OrderedRegression("effect", columns=columns),
    ):
        assert db.model_for(model.structure).levels == order
    numbers = {**frame, "effect": np.array(["9", "10", "11"])[np.arange(90) % 3]}
    model = db.OrderedRegression.from_frame(numbers, "effect ~ dose")
    assert db.model_for(model.structure).levels == ("9", "10", "11")
