"""Simulated sites miss as many values as the real ones: within each column and component, and no row is empty."""

from functools import partial

import numpy as np
import pytest

import decbayes as db
from decbayes.calibration.worlds import Setting, redivide, simulated_shard, simulated_shards
from decbayes.models.core.simulation import drawn_parameters
from decbayes.models.likelihoods.gaps import observed_shares, observed_somewhere

COLUMNS = {"age": "real", "visits": "count", "smoker": "yes/no", "ward": db.columns.Categorical("a", "b", "c")}
# The share of values that are there, by class and column; class 1 is 100 years older.
THERE = np.array([[1.0, 0.4, 0.7, 0.0], [1.0, 0.9, 0.2, 0.5]])
CLASSES = db.LatentClasses(2, columns=COLUMNS)


def table(rng, size=400):
    label = np.arange(size) % 2
    columns = [100.0 * label + rng.normal(size=size), rng.poisson(3.0, size), label, rng.integers(3, size=size)]
    points = np.column_stack(columns).astype(float)
    order = np.argsort(rng.random((size // 2, 4)), axis=0)
    for k in range(2):
        points[label == k] = np.where(order < size // 2 * THERE[k], points[label == k], np.nan)
    return points, label


@pytest.fixture(scope="module")
def aligned():
    rng = np.random.default_rng(0)
    return db.align([CLASSES.from_assignments(*table(rng)) for _ in range(2)], components=2)


def test_a_simulated_table_has_the_gaps_of_its_site_by_class_and_column(aligned):
    for shard in simulated_shards(Setting(aligned), np.random.default_rng(1)):
        seen = ~np.isnan(shard)
        for k, rows in enumerate((shard[:, 0] < 50.0, shard[:, 0] > 50.0)):
            # About 200 rows; four deviations.
            np.testing.assert_allclose(seen[rows].mean(axis=0), THERE[k], atol=4 * 0.5 / np.sqrt(200))


def test_as_many_values_as_were_sent_are_redivided(aligned):
    redivided = redivide(Setting(aligned))
    for site in range(2):
        sent, again = (CLASSES.tally(each.in_slots(site)).within for each in (aligned, redivided))
        for name in sent:
            # Of five times as many rows as a site has.
            np.testing.assert_allclose(again[name], sent[name], atol=4 * 0.5 * np.sqrt(200 / 5))
    (coupled,) = redivided.structure.symmetry
    np.testing.assert_allclose(db.merging.support(redivided, coupled).sum(axis=1), 400.0, rtol=1e-9)


def test_sites_without_gaps_are_simulated_without_them_whatever_rounding_did(rng):
    model = db.LatentClasses(2, columns={"a": "real", "b": "yes/no"})
    tables = [np.column_stack([rng.normal(size=60), rng.random(60) < 0.5]) for _ in range(2)]
    setting = Setting(db.align([model.fit(each, rng=rng).posterior for each in tables]))
    parameters = drawn_parameters(setting.truth, rng)
    shard = simulated_shard(setting, parameters, 0, np.random.default_rng(2))
    assert not np.isnan(shard).any()


@pytest.mark.parametrize(("first", "second"), [(0.6, 0.5), (0.9, 0.7), (0.3, 0.75), (1.0, 0.2)])
def test_of_two_columns_both_are_there_as_often_as_rows_without_values_allow(first, second):
    """No row is empty, so that P(both) = P(first) + P(second) − 1."""
    rows = 20_000
    seen = observed_somewhere(np.tile([first, second], (rows, 1)), np.random.default_rng(0))
    assert seen.any(axis=1).all()
    expected = [first, second, first + second - 1.0]
    found = [*seen.mean(axis=0), seen.all(axis=1).mean()]
    np.testing.assert_allclose(found, expected, atol=4 * 0.5 / np.sqrt(rows))


def test_values_of_three_columns_are_independent_but_for_empty_rows():
    """Given that a row has a value, patterns are as likely as without that condition, relative to each other."""
    seen = observed_somewhere(np.tile([0.5, 0.6, 0.4], (40_000, 1)), np.random.default_rng(0))
    count = np.bincount(seen @ [1, 2, 4], minlength=8) / len(seen)
    # Odds of each column are the same whatever the others are, as long as these are not empty.
    np.testing.assert_allclose(count[7] / count[6], count[3] / count[2], rtol=0.1)
    np.testing.assert_allclose(count[7] / count[5], count[6] / count[4], rtol=0.1)
    assert count[0] == 0.0


def test_a_component_without_rows_has_the_gaps_of_the_others():
    shares = observed_shares(np.array([[30.0, 60.0], [0.0, 0.0]]), np.array([60.0, 0.0]))
    np.testing.assert_allclose(shares, [[0.5, 1.0], [0.5, 1.0]])


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_simulated_sequences_have_empty_steps_and_correlated_columns_miss_together(covariance, rng):
    model = db.HiddenMarkov(1, columns={"a": "real", "b": "real", "c": "count"}, covariance=covariance)
    sequences = rng.normal(size=(40, 30, 3))
    sequences[..., 2] = rng.poisson(2.0, size=(40, 30))
    lost = rng.random((40, 30)) < 0.3
    sequences[lost, :2] = np.nan
    sequences[rng.random((40, 30)) < 0.6, 2] = np.nan
    setting = Setting(db.align([model.fit(list(half), rng=rng).posterior for half in np.split(sequences, 2)]))
    gaps = np.isnan(np.concatenate(simulated_shards(setting, rng)[0]))
    # 600 steps, at the site and simulated.
    close = partial(pytest.approx, abs=4 * 0.5 * np.sqrt(2 / 600))
    assert gaps.mean(axis=0) == close([0.3, 0.3, 0.6])
    assert gaps.all(axis=1).mean() == close(0.18 if covariance == "full" else 0.054)
    assert (gaps[:, 0] == gaps[:, 1]).all() == (covariance == "full")


def test_like_sites_with_missing_values_are_not_said_to_differ():
    """Against complete tables, whose rows are easier to divide, they differ: p is below 1e-4."""
    rng, shares = np.random.default_rng(2), np.array([[0.15] * 6, [0.85] * 6])
    model = db.LatentClasses(2, columns=dict.fromkeys("abcdef", "yes/no"), ascent=db.Ascent(restarts=1))
    tables = [(rng.random((100, 6)) < shares[rng.integers(2, size=100)]).astype(float) for _ in range(6)]
    with_gaps = [np.where(rng.random(each.shape) < 0.5, np.nan, each) for each in tables]
    alignment = db.align([fit.posterior for fit in model.fit_many(with_gaps, rng=rng)])
    (found,) = db.checking.heterogeneity(alignment, worlds=4).values()
    assert (found.probability > 0.05).all()
    assert found.ratio.mean() == pytest.approx(1.0, abs=0.3)
