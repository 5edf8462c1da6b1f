"""Simulated sites are like the real ones, and whoever asks for too little is told so."""

import numpy as np
import pytest

import decbayes as db
from decbayes.calibration.checks import PredictiveCheck
from decbayes.calibration.matches import judged
from decbayes.calibration.validation import FORMAT, checked
from decbayes.calibration.worlds import RESTARTS, Setting, number_and_length
from decbayes.errors import NotCalibrated
from decbayes.merging.reading import Coefficients, Curve, Reliability
from decbayes.merging.reading._heterogeneity import Comparison

MODEL = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)


@pytest.fixture(scope="module")
def aligned():
    rng = np.random.default_rng(0)
    shards = [rng.choice([-9.0, 9.0], size=(20 + 10 * site, 1)) + rng.normal(size=(1, 1)) for site in range(4)]
    return db.align([MODEL.fit(shard, rng=rng).posterior for shard in shards])


def test_a_simulated_site_has_as_many_observations_or_sequences_of_the_same_length(aligned):
    setting = Setting(aligned)
    sizes = [20 + 10 * setting.chosen[place] for place in range(4)]
    assert [number_and_length(setting, place) for place in range(4)] == [(size, {}) for size in sizes]
    rng = np.random.default_rng(1)
    states = db.HiddenMarkov(2, columns={"pulse": db.columns.Gaussian(0, 1)})
    sequences = [[rng.normal(size=(12, 1)) for _ in range(count)] for count in (4, 7)]
    setting = Setting(db.align([states.fit(site, rng=rng).posterior for site in sequences]))
    counts = [len(sequences[setting.chosen[place]]) for place in range(2)]
    assert [number_and_length(setting, place) for place in range(2)] == [(count, {"length": 12}) for count in counts]


def test_simulated_fits_have_the_settings_that_were_asked_for_or_few_starts(aligned):
    asked = db.Ascent(7, restarts=5)
    assert Setting(aligned, asked).of_structure(MODEL.structure).ascent == asked
    assert Setting(aligned).of_structure(MODEL.structure).ascent.restarts <= RESTARTS


def test_a_few_matches_and_one_world_teach_nothing(aligned):
    """Three worlds of four sites with two components, most of which found both."""
    with pytest.raises(NotCalibrated, match=r"(1[5-9]|2\d) matches, too few"):
        db.checking.reliability(aligned, matches=1)
    with pytest.raises(ValueError, match="worlds"):
        db.checking.heterogeneity(aligned, worlds=1)


def test_one_posterior_differs_from_nothing(aligned):
    (found,) = db.checking.heterogeneity(db.align(aligned.posteriors[:1])).values()
    assert "One posterior alone" in found.reason


def test_half_of_a_component_is_not_enough_to_belong_to_a_slot():
    """The other site has the first true component in slot 0, and the second in slot 1."""
    there = np.array([[10.0, 0.0], [0.0, 10.0]])
    for share, right, nowhere in ((0.5, 0.0, 1.0), (0.51, 1.0, 0.0)):
        here = np.array([[10.0 * share, 10.0 * (1.0 - share)]])
        rights, none = judged([np.array([0]), np.array([0, 1])], [here, there], 2)
        assert (rights[0].tolist(), none[0].tolist()) == ([right], [nowhere])


def test_replicas_that_are_exactly_as_unlikely_as_the_data_count():
    check = PredictiveCheck("digest", np.array([1.0, 1.0, 2.0, 0.5]), np.ones(4))
    assert check.probability == 3 / 4


@pytest.mark.parametrize("names", [[True], [2.5], [None]])
def test_candidates_of_scores_are_named_by_texts_or_numbers(names):
    content = {
        "format": FORMAT,
        "names": names,
        "posteriors": ["a"],
        "sums": [1.0, 2.0],
        "products": np.eye(2).tolist(),
    }
    content |= {"observations": 3, "unit": "observation", "rule": "best"}
    assert checked(content | {"names": ["two"]}).names == ("two",)
    with pytest.raises(ValueError, match="do not match"):
        checked(content)


def test_what_is_known_exactly_or_not_at_all_is_no_part_of_a_comparison():
    found = Comparison(np.zeros(3), np.array([0.0, np.inf, 0.5]), np.ones(1))
    np.testing.assert_array_equal(found.precision, [0.0, 0.0, 4.0])


def test_each_row_of_coefficients_has_its_own_freedom(rng):
    """Five sites, three coefficients in each of two rows; in the second only two can be told."""
    precisions = np.tile(np.diag([4.0, 5.0, 6.0]), (5, 2, 1, 1))
    precisions[:, 1, 2, 2] = 0.0
    spread, _ = Coefficients(np.zeros((5, 2, 3)), precisions).compared(np.ones(2))
    np.testing.assert_array_equal(spread.freedom, [12.0, 8.0])


def test_next_to_no_evidence_has_no_probability_of_being_right():
    structure = db.LatentDirichletAllocation(2, ("a", "b", "c"), topic_prior=1.0).structure
    counts = [
        [[90.0, 9.0, 0.0], [0.0, 9.0, 90.0]],
        [[80.0, 9.0, 0.0], [0.0, 0.02, 0.2]],
        [[70.0, 9.0, 0.0], [0.0, 8.0, 70.0]],
    ]
    alignment = db.align([db.Posterior(structure, {"topics": rows}) for rows in counts])
    curve = Curve(2.0, (0.0, 0.0, 0.0))
    sure = db.merging.confidence(alignment, Reliability(curve, Curve(2.0, (0.0,) * 4), 100, 0.9, 0.0)).probabilities
    (coupled,) = structure.symmetry
    assert np.isnan(sure[1][coupled]).tolist() == [False, True]
    assert np.isfinite(np.concatenate([sure[0][coupled], sure[2][coupled]])).all()
