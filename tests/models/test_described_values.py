"""What models say about themselves and their results, at values where it can be worked out by hand."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.errors import InvalidStructure
from decbayes.models.core.counts import LARGEST, as_counts


def test_a_known_variance_is_shown_as_its_root(rng):
    model = db.GaussianMixture(2, 1, variance=9.0)
    shown = model.profile(model.fit(rng.normal(size=(20, 1)), rng=rng).posterior)
    np.testing.assert_array_equal(shown["standard deviation"], [[3.0], [3.0]])


@pytest.mark.parametrize(
    "name", ["category_prior", "yes_no_prior", "count_prior", "prior_strength", "prior_degrees", "prior_scale"]
)
def test_priors_of_tables_are_positive(name):
    with pytest.raises((InvalidStructure, ValueError), match=name):
        db.LatentClasses(2, columns={"age": db.columns.Gaussian(0, 1)}, **{name: 0.0})


def test_levels_of_an_outcome_are_between_those_that_are_just_probable_enough():
    """P(no) = 1/2 and 1/4 each for the others: half of all outcomes are at most 'some', exactly."""
    columns = {"pain": db.columns.Categorical("no", "some", "much"), "age": "real"}
    model = db.OrderedRegression("pain", columns=columns)
    shown = model.predict(db.Posterior.of_prior(model.structure), {"age": [0.0]}, level=0.5)
    assert (shown["low"].item(), shown["high"].item()) == (0.0, 1.0)


def test_the_largest_count_is_a_count():
    assert as_counts(csr_array([[LARGEST, 0.0]]), 2) is not None
    with pytest.raises(db.errors.InvalidData):
        as_counts(csr_array([[2.0 * LARGEST, 0.0]]), 2)


def test_effects_of_sites_have_intervals_around_their_mean(rng):
    frame = {"y": rng.normal(size=60), "x": rng.normal(size=60), "site": np.repeat(["a", "b", "c"], 20)}
    model = db.LinearRegression.from_frame(frame, "y ~ x + (1 | site)")
    rows = model.effects(model.fit(frame, rng=rng).posterior, frame)
    for row in rows:
        assert row["low"] < row["mean"] < row["high"]
        assert row["high"] - row["mean"] == pytest.approx(row["mean"] - row["low"])


def test_what_nobody_asked_for_is_not_in_a_prior():
    """States stay no longer than they do by chance; the covariance that is expected beforehand is the scale given."""
    states = db.HiddenMarkov(3, columns={"pulse": db.columns.Gaussian(0, 1)}).structure.prior["transitions"]
    assert np.ptp(states) == 0.0
    structure = db.GaussianMixture(1, 3, covariance="full", prior_scale=2.0).structure
    shown = structure.families["components"].parameters(structure.prior["components"])
    assert shown["degrees"].item() == 5.0


def test_columns_of_points_keep_their_names():
    structure = db.GaussianMixture(2, 2, variance=1.0, columns=("height", "weight")).structure
    assert structure.labels["components"] == ("height", "weight")
