"""Every observation predicted from all others, of all sites: as exact refits do, additive, and doubted where due."""

import json

import numpy as np
import pytest

import decbayes as db
from decbayes.calibration.tails import left_out
from decbayes.calibration.validation import left_out_scores
from decbayes.disclosure import Persons
from decbayes.errors import InvalidData, InvalidFile, NotCalibrated, StructureMismatch


# arviz_stats 0.8.0: weights, shape = array_stats.psislw(likelihoods); logsumexp(weights + likelihoods)
@pytest.mark.parametrize(
    ("seed", "scale", "score", "shape"),
    [
        (0, 0.3, -1.0731025040901958, 0.20143835681578953),
        (1, 1.0, -2.1839231944806743, 1.136782189405765),
        (2, 2.0, -6.313044020886402, 1.6762812102788218),
    ],
)
def test_smoothed_weights_are_those_of_arviz(seed, scale, score, shape):
    likelihoods = -1.0 + scale * np.random.default_rng(seed).standard_t(5, size=1000)
    assert left_out(likelihoods) == pytest.approx((score, shape), rel=1e-12)


def test_observations_that_say_nothing_or_are_impossible():
    assert left_out(np.full(1000, -2.0)) == (pytest.approx(-2.0), -np.inf)
    assert left_out(np.r_[-np.inf, np.zeros(999)]) == (-np.inf, np.inf)


def lines(rng, count, slope=1.0):
    x = rng.normal(size=count)
    return {"x": x, "z": rng.normal(size=count), "y": slope * x + rng.normal(0, 0.5, count)}


COLUMNS = {"x": db.columns.Gaussian(0, 1), "z": db.columns.Gaussian(0, 1), "y": db.columns.Gaussian(0, 1)}


def test_a_conjugate_regression_over_sites_has_the_score_of_refits_without_each_row(rng):
    model = db.LinearRegression("y", columns=COLUMNS)
    sites = [model.points(lines(rng, count)) for count in (20, 25)]
    merged = db.merge([model.fit(site).posterior for site in sites])
    scores = sum(db.validate(model, {"m": merged}, site, leave_one_out=True) for site in sites)
    rows = np.concatenate(sites)
    exact = [
        model.log_predictive(model.fit(np.delete(rows, row, axis=0)).posterior, rows[row : row + 1])[0]
        for row in range(len(rows))
    ]
    # A thousand draws: of seeds 100 to 129 the worst was 0.0045 off.
    assert scores.score("m") == pytest.approx(np.mean(exact), abs=0.006)
    assert scores.error("m") == pytest.approx(np.std(exact, ddof=1) / np.sqrt(len(rows)), rel=0.05)
    assert (scores.observations, scores.unreliable) == (45, (0,))
    assert np.mean(exact) + 0.02 < np.mean(model.log_predictive(merged, rows)), "rows that were fitted fit better"


def test_scores_of_sites_add_up_and_come_back_from_files(rng, tmp_path):
    model = db.LinearRegression("y", columns=COLUMNS)
    first, second = (model.points(lines(rng, count)) for count in (12, 9))
    far = second.copy()
    far[0] = [9.0, 9.0, 60.0]
    merged = db.merge([model.fit(site).posterior for site in (first, far)])
    parts = [db.validate(model, [merged], site, leave_one_out=True) for site in (first, far)]
    for part, path in zip(parts, ("a", "b"), strict=True):
        part.save(tmp_path / path)
    total = sum(db.checking.Scores.load(tmp_path / path) for path in ("a", "b"))
    assert total.unreliable == (1,), "one row decides where the line is"
    assert total.sums == pytest.approx(parts[0].sums + parts[1].sums)
    with pytest.raises(StructureMismatch, match="held-back data"):
        total + db.validate(model, [merged], first)
    content = json.loads((tmp_path / "a").read_text())
    for wrong in ([-1], [0, 0], [13], [True], 1):
        (tmp_path / "c").write_text(json.dumps(content | {"unreliable": wrong}))
        with pytest.raises(InvalidFile):
            db.checking.Scores.load(tmp_path / "c")


def test_all_rows_of_a_person_are_left_out_together(rng):
    """Two equal rows per person: leaving out one would predict it from its twin."""
    model = db.LinearRegression("y", columns=COLUMNS)
    rows = np.repeat(model.points(lines(rng, 40)), 2, axis=0)
    posterior, persons = model.fit(rows).posterior, Persons.of(np.repeat(np.arange(40), 2))
    scores, _ = left_out_scores(model, posterior, rows, persons, 0)
    pairs = [
        log_joint(model, np.delete(rows, [2 * person, 2 * person + 1], axis=0), rows[2 * person : 2 * person + 2])
        for person in range(40)
    ]
    assert np.mean(scores) == pytest.approx(np.mean(pairs), abs=0.02)
    summed = db.validate(model, [posterior], rows, leave_one_out=True, persons=persons)
    assert (summed.observations, summed.sums[0]) == (40, 80)


def log_joint(model, known, both):
    """log p(first, second | known), one after the other."""
    first = model.log_predictive(model.fit(known).posterior, both[:1])[0]
    return first + model.log_predictive(model.fit(np.concatenate([known, both[:1]])).posterior, both[1:])[0]


def test_models_with_other_terms_or_families_are_compared_on_the_same_rows(rng):
    frame = lines(rng, 60, slope=0.5)
    frame["n"] = rng.negative_binomial(1.0, 1.0 / (1.0 + np.exp(1.0 + frame["x"])))
    known = {**COLUMNS, "n": db.columns.Poisson(3)}
    few = {name: known[name] for name in ("z", "n")}
    without, plain = (db.PoissonRegression("n", columns=few), db.PoissonRegression("n", columns=known, terms=("x",)))
    wider = db.NegativeBinomialRegression("n", columns=known, terms=("x",), dispersion=1.0)
    fits = {str(place): each.fit(frame).posterior for place, each in enumerate((without, plain, wider))}
    scores = db.validate(plain, fits, frame, leave_one_out=True)
    assert scores.best == "2"
    assert scores.score("0") < scores.score("1") < scores.score("2")
    with pytest.raises(InvalidData, match="as a data frame"):
        db.validate(plain, fits, plain.points(frame), leave_one_out=True)
    other = db.LinearRegression("y", columns=COLUMNS)
    with pytest.raises(StructureMismatch, match="predict different columns"):
        db.validate(plain, [other.fit(frame).posterior], frame, leave_one_out=True)


def test_models_without_a_likelihood_refuse(rng):
    model = db.LinearRegression("y", columns=COLUMNS, varying=("intercept",))
    data = lines(rng, 12)
    with pytest.raises(NotCalibrated, match="no draws of coefficients that vary"):
        db.validate(model, [model.fit(data).posterior], data, leave_one_out=True)
