"""Rare answers of yes/no columns: their number is rough, and nothing shows who gave them."""

import numpy as np
import pytest

import decbayes as db
from decbayes.disclosure import Ledger, Persons, Rules, prepared
from decbayes.disclosure.releasing import difference, person_digests

LEAST = np.array([5.0])
MODEL = db.LatentClasses(columns={"rare": db.columns.YesNo(), "common": db.columns.YesNo()}, components=2)


def counted(chosen):
    return np.array([chosen.sum()])


def answers(yes, no, missing=0):
    return np.array([1.0] * yes + [0.0] * no + [np.nan] * missing)


def table(yes, rows, rng):
    return np.column_stack([rng.permutation(answers(yes, rows - yes)), rng.random(rows) < 0.4]).astype(np.float64)


@pytest.mark.parametrize("rare", range(1, 5))
def test_rare_answers_leave_the_same_values_however_many_there_are(rare):
    column = db.columns.YesNo()
    _, few_yes, change = column.pooled(answers(rare, 60 - rare, 3), counted, LEAST, agreed=True)
    np.testing.assert_array_equal(few_yes, [2.5 / 60] * 60 + [np.nan] * 3)
    assert change == "fewer than 5 persons are 'yes'; 2.5 are assumed, spread over all rows"
    _, few_no, _ = column.pooled(answers(60 - rare, rare, 3), counted, LEAST, agreed=True)
    np.testing.assert_allclose(few_no, 1.0 - few_yes)
    _, again, change = column.pooled(few_yes, counted, LEAST, agreed=True)
    assert again is few_yes
    assert not change


@pytest.mark.parametrize("rare", range(1, 5))
@pytest.mark.parametrize("agreed", [True, False])
def test_the_rarer_of_two_categories_gets_a_share_as_a_rare_answer_does(rare, agreed):
    column = db.columns.Categorical("absent", "present")
    found, few_present, change = column.pooled(answers(rare, 60 - rare, 3), counted, LEAST, agreed=agreed)
    assert found.categories == ("absent", "present" if agreed else "other")
    np.testing.assert_array_equal(few_present, [2.5 / 60] * 60 + [np.nan] * 3)
    assert change == "fewer than 5 persons have the rarer category; 2.5 are assumed, spread over all rows"
    _, few_absent, _ = column.pooled(answers(60 - rare, rare, 3), counted, LEAST, agreed=True)
    np.testing.assert_allclose(few_absent, 1.0 - few_present)
    _, again, change = found.pooled(few_present, counted, LEAST, agreed=True)
    assert again is few_present
    assert not change
    predictor = column.pooled(answers(rare, 60 - rare), counted, LEAST, agreed=True, predictor=True)[1]
    assert not predictor.any()


def test_a_share_of_two_categories_counts_as_that_of_yes(rng):
    rows = prepared(MODEL, table(3, 60, rng), Rules(), agreed=True).data
    sums = []
    for kind in (db.columns.YesNo(), db.columns.Categorical("no", "yes")):
        model = db.LatentClasses(columns=dict.fromkeys(MODEL.columns, kind), components=1)
        posterior = model.fit(rows, rng=rng).posterior
        (name,) = set(posterior.contribution) - {"weights"}
        sums.append(np.sort(posterior.contribution[name], axis=None))
    np.testing.assert_allclose(sums[0], sums[1])
    assert sums[0][0] == pytest.approx(2.5)


@pytest.mark.parametrize("yes", [0, 5, 60])
def test_other_numbers_of_answers_stay_as_they_are(yes):
    numbers = answers(yes, 60 - yes)
    assert db.columns.YesNo().pooled(numbers, counted, LEAST, agreed=True)[1] is numbers


def test_as_many_are_assumed_as_there_can_be():
    """Of six known answers three are each."""
    _, numbers, _ = db.columns.YesNo().pooled(answers(3, 3), counted, LEAST, agreed=True)
    np.testing.assert_allclose(numbers, 2.5 / 6)
    _, numbers, _ = db.columns.YesNo().pooled(answers(3, 3), counted, 2 * LEAST, agreed=True)
    np.testing.assert_allclose(numbers, 0.5)


def test_rare_answers_of_predictors_count_as_the_common_one():
    _, numbers, change = db.columns.YesNo().pooled(answers(3, 57), counted, LEAST, agreed=True, predictor=True)
    assert not numbers.any()
    assert change == "too few persons are 'yes', and count as 'no'"


def test_persons_are_assumed_not_rows(rng):
    visits = Persons(np.repeat(np.arange(30), 4))
    safe = prepared(MODEL, np.repeat(table(2, 30, rng), 4, axis=0), Rules(), agreed=True, persons=visits)
    np.testing.assert_allclose(safe.data[:, 0], 2.5 / 30)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.075])
def test_a_prevalence_of_a_few_persons_per_site_is_not_lost(share, rng):
    """Counting rare answers as the common one would leave less than half of it."""
    sites = [(rng.random((60, 2)) < [share, 0.4]).astype(np.float64) for _ in range(40)]
    one = db.LatentClasses(columns=MODEL.columns, components=1)
    safe = [prepared(one, site, Rules(), agreed=True) for site in sites]
    merged = db.merge([site.model.fit(site.data, rng=rng).posterior for site in safe], duplicates="allow")
    ((found, _),) = np.asarray(merged.mean("yes_no")).reshape(1, -1)[:, :2]
    true = np.mean([site[:, 0] for site in sites])
    # At most 1.5 persons per site are missing or too many.
    assert 0.7 * true < found < min(1.6 * true, true + 1.5 / 60)


def test_a_release_that_differs_by_one_person_is_still_noticed(rng, tmp_path):
    """The share of rare answers depends on the number of rows, so it differs in all of them."""
    ledger, rows = Ledger(tmp_path / "a.ledger"), table(3, 61, rng)
    first, second = (
        person_digests(MODEL, prepared(MODEL, some, Rules(), agreed=True).data, ledger) for some in (rows[:-1], rows)
    )
    assert difference(first, second) == 1
    named = db.LatentClasses(columns=dict.fromkeys(MODEL.columns, db.columns.Categorical("no", "yes")), components=2)
    first, second = (
        person_digests(named, prepared(named, some, Rules(), agreed=True).data, ledger) for some in (rows[:-1], rows)
    )
    assert difference(first, second) == 1
    mixture, pixels = db.BernoulliMixture(2, 2), rows
    first, second = (
        person_digests(mixture, prepared(mixture, some, Rules()).data, ledger) for some in (pixels[:-1], pixels)
    )
    assert difference(first, second) == 1


def test_shares_that_differ_between_rows_are_refused(rng):
    rows = table(20, 60, rng)
    rows[3, 0] = 0.3
    with pytest.raises(db.errors.InvalidData, match="must hold 0 or 1; 1 of 60 values do not"):
        MODEL.fit(rows, rng=rng)
    rows[:, 0] = 1.5
    with pytest.raises(db.errors.InvalidData, match="must hold 0 or 1; 60 of 60"):
        MODEL.fit(rows, rng=rng)
