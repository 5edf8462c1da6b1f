"""Concordance and calibration: by enumeration of pairs, over sites, and in files."""

from itertools import combinations

import numpy as np
import pytest

import decbayes as db
from decbayes.calibration.accuracy import EDGES, Accuracy, joined_groups
from decbayes.errors import InvalidFile, NotCalibrated


def patients(rng, size=60):
    old = rng.normal(size=size)
    died, lost = rng.exponential(4.0 * np.exp(-0.7 * old)), rng.uniform(1, 6, size)
    return {"years": np.minimum(died, lost).round(1) + 0.1, "dead": died < lost, "old": old}


def survival(frame, formula="Surv(years, dead) ~ old", **settings):
    return db.SurvivalRegression.from_frame(frame, formula, cuts=(1.0, 2.0), rate=0.3, **settings)


def by_enumeration(risk, time, event, entry):
    concordant = comparable = 0.0
    for i, j in combinations(range(len(time)), 2):
        early, late = (i, j) if time[i] < time[j] else (j, i)
        if time[i] != time[j] and event[early] and entry[late] < time[early]:
            comparable += 1
            concordant += 1.0 if risk[early] > risk[late] else 0.5 * (risk[early] == risk[late])
    return concordant, comparable


@pytest.mark.parametrize("late", [False, True])
def test_concordance_counts_pairs_whose_order_is_known(rng, late):
    frame = patients(rng)
    begin = 0.5 * frame["years"] if late else np.zeros(60)
    model = survival(frame | {"begin": begin}, "Surv(begin, years, dead) ~ old") if late else survival(frame)
    frame |= {"begin": begin} if late else {}
    posterior = model.fit(frame).posterior
    found = Accuracy.of(model, frame, posterior)
    expected = by_enumeration(
        frame["old"] * posterior.mean("coefficients")[0, -1], frame["years"], frame["dead"], begin
    )
    assert (found.concordant, found.comparable) == expected
    assert found.concordance > 0.55


def test_of_yes_or_no_it_is_the_area_under_the_curve(rng):
    x = rng.normal(size=200)
    frame = {"x": x, "y": rng.random(200) < 1 / (1 + np.exp(-x))}
    model = db.LogisticRegression.from_frame(frame, "y ~ x")
    found = Accuracy.of(model, frame, model.fit(frame).posterior)
    area = np.mean(x[frame["y"]][:, None] > x[~frame["y"]][None, :])
    assert found.concordance == pytest.approx(area)


def test_expected_events_are_those_of_the_cumulative_hazard_and_add_up(rng):
    frames = [patients(rng, 80) for _ in range(3)]
    model = survival(frames[0])
    whole = {name: np.concatenate([frame[name] for frame in frames]) for name in frames[0]}
    posterior = model.fit(whole).posterior
    sums = [Accuracy.of(model, frame, posterior) for frame in frames]
    total = sums[0] + sums[1] + sums[2]
    together = Accuracy.of(model, whole, posterior)
    assert sum(total.observed) == whole["dead"].sum() == sum(together.observed)
    assert sum(total.expected) == pytest.approx(sum(together.expected))
    # At the fit as many events are expected as there were, but for the prior.
    assert sum(total.expected) == pytest.approx(whole["dead"].sum(), rel=0.02)
    curve = model.survival(posterior, {"old": whole["old"][:1]}, times=whole["years"][:1])["mean"][0, 0]
    risks = model.risks(posterior, whole)
    assert risks.expected[0] == pytest.approx(-np.log(curve), rel=0.05)  # which has the mean of the hazard, not its log
    assert total.comparable < together.comparable  # pairs of two sites are nobody's


def test_small_groups_are_joined_to_their_neighbours(rng):
    sizes = [0, 3, 9, 2, 7, 1]
    joined = joined_groups(np.repeat(np.arange(6), sizes), lambda rows: rows.sum(keepdims=True), [5])
    assert joined.tolist() == np.repeat([0, 2, 2, 4, 4, 4], sizes).tolist()
    assert joined_groups(np.arange(3), lambda rows: rows.sum(keepdims=True), [5]).tolist() == [2, 2, 2]
    frame = patients(rng)
    model = survival(frame)
    found = Accuracy.of(model, frame, model.fit(frame).posterior, least=20)
    assert all(persons == 0 or persons >= 20 for persons in found.persons)
    assert sum(found.persons) == 60


def test_groups_in_which_one_person_has_an_outcome_are_joined():
    """One event in the last group, and none in the one before: both together would still single it out."""
    x = np.repeat([-1.2, -0.7, -0.2, 0.2, 0.7, 1.2], 10)
    events = np.concatenate([np.arange(10) < number for number in (0, 1, 3, 5, 0, 1)])
    model = db.LogisticRegression("y", columns={"x": db.columns.Gaussian(0, 1), "y": db.columns.YesNo()})
    slope_one = np.array([[0.0, 1e4, -5e3, 0.0, 0.0, -5e3]])  # Σ⁻¹m and −½Σ⁻¹, so that risks are x
    known = db.Posterior(model.structure, {"coefficients": slope_one})
    for flipped in (events, ~events):
        found = Accuracy.of(model, {"x": x, "y": flipped}, known)
        assert found.persons == (10, 0, 20, 30, 0, 0)
        assert Accuracy.of(model, {"x": x, "y": flipped}, known, least_outcome=1).persons == (10,) * 6


def test_the_names_of_groups_say_whoever_counts_in_them():
    """By a model whose risks are x: every person lies within the bounds that its row has."""
    x = np.repeat([-1.2, -0.7, -0.2, 0.2, 0.7, 1.2], [3, 9, 7, 2, 8, 1])
    y = np.arange(len(x)) % 2 == 0
    model = db.LogisticRegression("y", columns={"x": db.columns.Gaussian(0, 1), "y": db.columns.YesNo()})
    slope_one = np.array([[0.0, 1e4, -5e3, 0.0, 0.0, -5e3]])  # Σ⁻¹m and −½Σ⁻¹, so that risks are x
    known = db.Posterior(model.structure, {"coefficients": slope_one})
    small = Accuracy.of(model, {"x": x, "y": y}, known, least_outcome=1)
    assert [(row["risk"], row["persons"]) for row in small.groups] == [
        ("below -0.5", 12),
        ("-0.5 to 0", 7),
        ("from 0", 11),
    ]
    large = Accuracy.of(model, {"x": np.repeat(x, 6), "y": np.repeat(y, 6)}, known)
    assert [row["risk"] for row in large.groups][:2] == ["below -1", "-1 to -0.5"]
    both = [(row["risk"], row["persons"]) for row in (small + large).groups]
    assert both == [("below -0.5", 84), ("-0.5 to 0", 49), ("from 0", 77)]  # what one site joins, no other keeps apart
    few = Accuracy.of(model, {"x": x[:4], "y": y[:4]}, known)
    assert [row["risk"] for row in few.groups] == ["all"]


def test_files_are_read_again_and_others_are_refused(rng):
    frame = patients(rng)
    model = survival(frame)
    found = Accuracy.of(model, frame, model.fit(frame).posterior)
    assert Accuracy.from_json(found.to_json()) == found
    wrong = [found.to_json().replace('"covers": [[0', f'"covers": [[{first}') for first in (-1, 1, 9)]
    for text in (*wrong, "", "[]", "{}", found.to_json().replace("0.", "1e999,0.", 1), '{"at": 3}', "[" * 100_000):
        with pytest.raises(InvalidFile):
            Accuracy.from_json(text)
    assert len(found.observed) == len(EDGES) + 1


def test_other_models_and_other_posteriors_are_refused(rng):
    frame = patients(rng)
    model = survival(frame)
    posterior = model.fit(frame).posterior
    prior = db.Posterior.of_prior(model.structure)
    with pytest.raises(NotCalibrated, match="different posteriors"):
        _ = Accuracy.of(model, frame, posterior) + Accuracy.of(model, frame, prior)
    mixture = db.PoissonMixture(2, 1)
    with pytest.raises(NotCalibrated, match="regressions"):
        Accuracy.of(mixture, np.ones((3, 1)), db.Posterior.of_prior(mixture.structure))
