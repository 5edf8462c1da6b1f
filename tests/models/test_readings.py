"""Rows behind messages of first broadcasts: where no number says what they would contribute."""

import numpy as np
import pytest
from scipy.integrate import quad

import decbayes as db
from decbayes.models.regressions.messages.one_broadcast import Cloud, Quadratic, Reading, marked, recentred

MODEL = db.PoissonRegression("y", columns={"a": "real", "b": "real", "y": "count"}, prior_variance=0.5)
LEVELS = np.array([0])


@pytest.fixture(scope="module")
def message():
    data = db.simulate(MODEL, 60, rng=3).data
    return Quadratic.of(MODEL.fit(data, rng=1).posterior.contribution["coefficients"])


@pytest.fixture(scope="module")
def prior():
    return Quadratic.of(MODEL.structure.prior["coefficients"])


@pytest.mark.parametrize("tilt", [0.5, 1.9, 2.1, 5.0])
def test_tilted_rows_have_a_total_as_long_as_the_normal_falls_faster(tilt):
    """∫ N(x; 0.4, ½) exp(½ t x²) dx is finite for t below 2."""
    cloud = Cloud(np.array([3.0]), np.array([[1.0, 0.4]]), np.diag([0.0, 0.5]))
    found = cloud.tilted(np.diag([0.0, tilt]))
    assert (found is None) == (tilt > 2.0)
    if found is not None:
        total = quad(lambda x: np.exp(-((x - 0.4) ** 2) + 0.5 * tilt * x**2) / np.sqrt(np.pi), -200, 200, points=[0.0])
        assert found.counts[0] == pytest.approx(3.0 * total[0], rel=1e-6)


def test_a_message_without_rows_is_not_read(message, prior):
    nothing = Quadratic(np.zeros(3), np.zeros((3, 3)))
    assert Reading.of(nothing, prior, LEVELS, MODEL.outcome) is None
    assert Reading.of(message, prior, LEVELS, MODEL.outcome) is not None


def test_rows_contribute_nothing_where_the_posterior_is_wider_than_they_are_narrow(message, prior):
    read = Reading.of(message, prior, LEVELS, MODEL.outcome)
    mean, covariance = (message + prior).moments()
    assert read.at(mean, covariance) is not None
    assert read.at(mean, 1e4 * np.eye(3)) is None


def test_first_broadcasts_without_rows_stay_as_they_are(message, prior):
    sent = marked(message, 0)
    empty = Quadratic(np.zeros(3), np.zeros((3, 3)))
    for given in ([empty, empty], [message, empty]):
        assert recentred(given, prior, [prior], LEVELS, MODEL.outcome) == given
    moved = recentred([sent, empty], prior, [prior], LEVELS, MODEL.outcome)
    np.testing.assert_allclose(moved[0].precision, message.precision, rtol=0.05)
    np.testing.assert_array_equal(moved[1].precision, empty.precision)
