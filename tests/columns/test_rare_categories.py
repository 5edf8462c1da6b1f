"""Rare categories of a column: hidden, with as little change to the others as hiding them takes."""

import numpy as np
import pytest

import decbayes as db

LEAST = np.array([5.0])


def rows(*counts):
    return np.repeat(np.arange(len(counts), dtype=np.float64), counts)


def pooled(names, counts, *, agreed=False):
    column = db.columns.Categorical(*names)
    return column.pooled(rows(*counts), lambda chosen: np.array([chosen.sum()]), LEAST, agreed=agreed)


def test_fewer_than_the_least_in_all_count_as_the_most_common_and_leave_the_others_alone():
    column, numbers, told = pooled(["flu", "gout", "gulp", "zero"], [60, 30, 1, 2])
    assert column.categories == ("flu", "gout", "other")
    assert np.bincount(numbers.astype(int), minlength=3).tolist() == [63, 30, 0]
    assert told == "rare categories count as the most common one"


def test_enough_of_them_together_are_an_other_of_their_own():
    column, numbers, told = pooled(["flu", "gout", "gulp", "zero"], [60, 30, 3, 2])
    assert column.categories == ("flu", "gout", "other")
    assert np.bincount(numbers.astype(int)).tolist() == [60, 30, 5]
    assert "count as 'other'" in told


def test_a_few_rare_persons_need_no_agreed_other_and_many_do():
    column, numbers, _ = pooled(["a", "b", "c"], [60, 30, 4], agreed=True)
    assert column.categories == ("a", "b", "c")
    assert np.bincount(numbers.astype(int)).tolist() == [64, 30]
    with pytest.raises(db.errors.InvalidData, match="too few persons have 2 of its 3 categories here"):
        pooled(["a", "b", "c"], [60, 4, 4], agreed=True)


@pytest.mark.parametrize("seed", range(20))
def test_no_category_of_few_is_shown_and_nobody_is_lost(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 12, rng.integers(2, 8))
    counts[0] += 20
    column, numbers, _ = pooled([f"c{place}" for place in range(len(counts))], counts)
    shown = np.bincount(numbers.astype(int), minlength=len(column.categories))
    assert shown.sum() == counts.sum()
    assert not ((shown > 0) & (shown < 5)).any()
    # With or without a rare person the same categories are named.
    assert set(column.categories) <= {f"c{place}" for place in np.flatnonzero((counts >= 5) | (counts == 0))} | {
        "other"
    }


def test_predictors_keep_rare_categories_out_of_the_most_common_one_if_there_may_be_an_other():
    numbers, column = rows(60, 30, 4), db.columns.Categorical("a", "b", "c")

    def having(chosen):
        return np.array([chosen.sum()])

    pooled, changed, _ = column.pooled(numbers, having, LEAST, agreed=False, predictor=True)
    assert pooled.categories == ("a", "other")
    assert np.bincount(changed.astype(int)).tolist() == [60, 34]
    _, changed, _ = column.pooled(numbers, having, LEAST, agreed=True, predictor=True)
    assert np.bincount(changed.astype(int)).tolist() == [64, 30]


def test_the_most_common_category_is_not_used_if_it_would_single_out_an_outcome():
    numbers, outcome = rows(60, 30, 3), np.zeros(93, dtype=bool)
    outcome[60:80], outcome[90] = True, True

    def having(chosen):
        return np.array([chosen.sum(), (chosen & outcome).sum(), (chosen & ~outcome).sum()])

    least = np.array([5.0, 2.0, 2.0])
    column, changed, _ = db.columns.Categorical("a", "b", "c").pooled(numbers, having, least, agreed=False)
    for place in range(len(column.categories)):
        seen = having(changed == place)
        assert not ((seen > 0) & (seen < least)).any()


def test_it_is_said_whether_common_categories_hide_rare_ones_and_not_how_many_are_rare():
    def having(chosen):
        return np.array([chosen.sum()])

    for names, counts, told in (
        (("flu", "gout", "gulp", "other"), (60, 30, 1, 0), "rare categories count as 'other', with common ones"),
        (("flu", "gout", "gulp", "other"), (60, 30, 0, 1), "rare categories count as 'other', with common ones"),
        (("flu", "gout", "gulp", "zero"), (60, 30, 1, 1), "rare categories count as 'other', with common ones"),
        (("flu", "gout", "gulp", "zero"), (60, 30, 2, 0), "rare categories count as 'other', with common ones"),
        (("flu", "gulp", "other"), (60, 1, 30), "rare categories count as 'other'"),
    ):
        column = db.columns.Categorical(*names)
        said = column.pooled(rows(*counts), having, LEAST, agreed=False, predictor=True)[2]
        assert said.removesuffix(" to hide them: only other sites tell about these") == told


def with_events(events):
    """Counts of persons, and of those with and without the outcome, for 100 persons of each category."""
    numbers = np.repeat(np.arange(len(events), dtype=np.float64), 100)
    outcome = np.concatenate([np.arange(100) < number for number in events])
    return numbers, lambda chosen: np.array([chosen.sum(), (chosen & outcome).sum(), (chosen & ~outcome).sum()])


@pytest.mark.parametrize("names", [("f", "m"), ("f", "m", "other")])
@pytest.mark.parametrize("agreed", [True, False])
def test_no_site_has_all_rows_in_other_and_the_reason_is_too_few_of_an_outcome(names, agreed):
    numbers, having = with_events([1, 4])
    reason = f"too few persons of 1 of its {len(names)} categories differ in the outcome here"
    with pytest.raises(db.errors.InvalidData, match=f"{reason}; all rows would count as 'other'.* leave this site out"):
        db.columns.Categorical(*names).pooled(numbers, having, np.array([5, 2, 2]), agreed=agreed, predictor=True)


def test_a_handful_counts_as_the_only_other_category_of_a_site_and_not_all_rows_as_other():
    column = db.columns.Categorical("f", "m", "other")
    _, changed, told = column.pooled(
        rows(97, 3), lambda chosen: np.array([chosen.sum()]), LEAST, agreed=True, predictor=True
    )
    assert np.bincount(changed.astype(int), minlength=3).tolist() == [100, 0, 0]
    assert told == "rare categories count as the most common one"


def test_a_file_says_the_same_whether_persons_or_outcomes_are_few():
    column, least = db.columns.Categorical("a", "b", "c", "d", "other"), np.array([5, 2, 2])
    numbers, having = with_events([40, 30, 1, 20])
    three_left = np.where((numbers == 2) & (np.arange(400) > 202), 0.0, numbers)
    told = {column.pooled(some, having, least, agreed=True, predictor=True)[2] for some in (numbers, three_left)}
    (text,) = told
    assert text.startswith(
        "categories that few persons have, or in which few differ in the outcome, count as 'other', with"
    )
