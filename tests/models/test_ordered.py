"""Ordered outcomes are steps from level to level: by maximum likelihood, by enumeration of levels, over sites."""

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit

import decbayes as db
from decbayes.errors import InvalidStructure, NotDisclosed

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
