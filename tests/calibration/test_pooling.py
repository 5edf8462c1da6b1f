"""Rubin's rules: what pooling must give where the answer is known, and drawn tables that make it right."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom, binom
from scipy.stats import t as student

import decbayes as db
from decbayes.errors import InvalidData


def test_many_tables_give_back_the_posterior_of_what_was_seen(rng):
    """y ~ N(μ, 1), flat prior, 30 of 50 seen: μ has the variance 1/30 whatever is filled in properly."""
    seen, tables = rng.normal(2.0, 1.0, 30), 20_000
    mu = seen.mean() + rng.normal(size=tables) / np.sqrt(30)
    filled = mu[:, None] + rng.normal(size=(tables, 20))
    means = (seen.sum() + filled.sum(axis=1)) / 50
    pooled = db.checking.pool(means, np.full(tables, 1 / 50))
    assert pooled.estimate == pytest.approx(seen.mean(), abs=0.005)
    assert pooled.error == pytest.approx(np.sqrt(1 / 30), rel=0.01)
    assert pooled.missing == pytest.approx(20 / 50, abs=0.01)
    low, high = pooled.interval(0.8)
    assert (high - low) / 2 == pytest.approx(student.ppf(0.9, pooled.degrees) * pooled.error)


def test_degrees_of_freedom_are_barnards_and_rubins():
    """Their formulas, as written in the paper, at arbitrary numbers and at both ends."""
    estimates, variances = np.array([[1.0, 0.0], [1.4, 0.0], [0.9, 0.0]]), np.full((3, 2), 0.09)
    between, m, complete = estimates[:, 0].var(ddof=1), 3, 40
    gamma = (1 + 1 / m) * between / (0.09 + (1 + 1 / m) * between)
    old, observed = (m - 1) / gamma**2, (complete + 1) / (complete + 3) * complete * (1 - gamma)
    small, large = (db.checking.pool(estimates, variances, degrees=degrees) for degrees in (complete, np.inf))
    np.testing.assert_allclose(small.degrees, [old * observed / (old + observed), 41 / 43 * 40])
    assert large.degrees[0] == pytest.approx(old)
    np.testing.assert_allclose(small.error**2, [0.09 + 4 / 3 * between, 0.09])
    assert small.missing[1] < 0.05 < small.missing[0]


@pytest.mark.parametrize(
    ("estimates", "variances", "degrees"),
    [
        ([1.0], [1.0], 9),
        ([1.0, 2.0], [1.0], 9),
        (1.0, 1.0, 9),
        ([1, 2], [0, 1], 9),
        ([1, np.nan], [1, 1], 9),
        ([1, 2], [1, 1], 0),
    ],
)
def test_what_cannot_be_pooled_is_refused(estimates, variances, degrees):
    with pytest.raises(InvalidData, match=r"Pooling needs|must be finite"):
        db.checking.pool(estimates, variances, degrees=degrees)


def one_class(rng):
    """12 of 40 seen; the posterior is Beta(½ + yes, ½ + no)."""
    values = np.array([1.0] * 8 + [0.0] * 4 + [np.nan] * 28)[:, None]
    model = db.LatentClasses(components=1, columns={"ill": db.columns.YesNo(), "n": db.columns.Poisson(1)})
    rows = np.column_stack([values, np.ones(40)])
    return model, rows, model.fit(rows, rng=rng).posterior


def test_drawn_values_have_the_spread_of_the_posterior_predictive(rng):
    """Beta-binomial, not binomial: parameters are drawn, too."""
    model, rows, posterior = one_class(rng)
    drawn = [np.sum(table["ill"]) - 8 for table in model.imputations(posterior, rows, draws=800)]
    exact = betabinom(28, 8.5, 4.5)
    assert np.mean(drawn) == pytest.approx(exact.mean(), abs=4 * exact.std() / np.sqrt(800))
    assert np.std(drawn) == pytest.approx(exact.std(), rel=0.1)
    assert exact.std() > 1.5 * binom(28, 8.5 / 13).std()


def test_sites_draw_the_same_parameters_and_different_values(rng):
    """Else the spread between tables would be that of single sites, divided by their number."""
    model, rows, posterior = one_class(rng)
    other = np.concatenate([rows[:3], rows[12:]])
    first, second = (
        np.array([np.sum(table["ill"][-28:]) for table in model.imputations(posterior, site, draws=300)])
        for site in (rows, other)
    )
    alpha, beta = 8.5, 4.5
    shared = 28 / (28 + alpha + beta)  # var(E[sum | θ]) / var(sum)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(shared, abs=0.1)
    again = model.imputations(posterior, rows, draws=2)
    assert [list(table["ill"]) for table in again] == [
        list(table["ill"]) for table in model.imputations(posterior, rows, draws=2)
    ]
    assert (first[:20] != second[:20]).any()
    assert list(model.imputations(posterior, rows, draws=1, seed=1)[0]["ill"]) != list(again[0]["ill"])


def test_drawn_values_follow_the_row_and_what_was_there_stays(rng):
    old = rng.random(300) < 0.5
    frame = pd.DataFrame(
        {
            "age": np.where(old, 80.0, 30.0) + rng.normal(0, 5, 300),
            "ward": np.where(old, "heart", "bone"),
            "ill": rng.random(300) < np.where(old, 0.9, 0.1),
            "frail": rng.random(300) < np.where(old, 0.9, 0.1),
        }
    )
    hidden = frame.mask(rng.random(frame.shape) < 0.3)
    model = db.LatentClasses.from_frame(hidden, components=2)
    (table,) = model.imputations(model.fit(hidden, rng=rng).posterior, hidden, draws=1)
    table = pd.DataFrame(table)
    assert not table.isna().any().any()
    there = hidden.notna()
    for name in hidden:
        assert (table[name] == frame[name])[there[name]].all()
    known = there["ward"] & ~there["age"]
    right = (table["age"] > 55) == old
    assert right[known].mean() > 0.9
    # Draws of some thirty rows, from parameters that are not known exactly; classes are 50 years apart.
    assert 4.0 < table["age"][known & old & right].std() < 9.0
    answers = there["ward"] & ~there["frail"]
    assert (table["frail"].astype(bool) == old)[answers].mean() == pytest.approx(0.9, abs=0.08)
