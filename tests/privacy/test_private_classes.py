"""Private releases of classes: bounds, what is found again, and what is refused."""

import itertools

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import NotPrivate
from decbayes.models.mixtures.private import fit_pairs, nearest_shares
from decbayes.privacy import releasing
from decbayes.privacy.mechanism import Total
from decbayes.privacy.releasing import largest_norm, summed_records

MIXED = {
    "a": db.columns.Categorical(3),
    "b": db.columns.YesNo(),
    "c": db.columns.Categorical(2),
    "d": db.columns.YesNo(),
}
MODELS = {
    "classes": db.LatentClasses(2, columns=MIXED),
    "yes/no": db.BernoulliMixture(3, dimension=4),
    "categories": db.CategoricalMixture(2, dimension=3, categories=[2, 3, 4]),
}


class Open:
    def spend(self, spending):
        pass


def all_rows(mechanism):
    """Every row that there can be, in the order of the data's columns."""
    rows = np.array(list(itertools.product(*(range(size) for size in mechanism.sizes))), dtype=float)
    return rows[:, np.argsort(mechanism.places)]


def some_anchor(mechanism, rng):
    counts = rng.gamma(0.3, 100.0, (mechanism.classes, mechanism.width))
    return mechanism.nearest_counts(np.column_stack([rng.gamma(0.5, 200.0, mechanism.classes), counts]))


@pytest.mark.parametrize("name", MODELS)
def test_no_row_of_all_that_there_can_be_is_larger_than_its_bound(name, rng):
    """By enumeration, at the tables and at sharp and even anchors; and the bound is attained."""
    mechanism = MODELS[name].mechanism()
    rows = all_rows(mechanism)
    largest = []
    for number, anchor in [(0, mechanism.start())] + [(number, some_anchor(mechanism, rng)) for number in range(1, 9)]:
        found = mechanism.record_statistics(anchor, rows, number)
        assert found.shape == (len(rows), mechanism.size(number))
        largest.append(np.linalg.norm(found, axis=1).max())
        whole = summed_records(mechanism, anchor, rows, number)
        rest = summed_records(mechanism, anchor, rows[1:], number)
        alone = summed_records(mechanism, anchor, rows[:1], number)
        assert (whole - rest == alone).all()
        assert sum(int(step) ** 2 for step in alone) <= largest_norm(mechanism.size(number)) ** 2
    assert max(largest) <= 1.0 + 1e-12
    assert largest[0] == pytest.approx(1.0)
    assert max(largest[1:]) > 0.95


@pytest.mark.parametrize("name", MODELS)
def test_sums_without_noise_are_the_counts_of_a_fit(name, rng):
    """One round without noise is one step of expectation maximisation, with the shares that the anchor implies."""
    model = MODELS[name]
    mechanism = model.mechanism()
    rows = rng.permutation(np.repeat(all_rows(mechanism), 3, axis=0))[:60]
    anchor = some_anchor(mechanism, rng)
    sums = mechanism.record_statistics(anchor, rows, 1).sum(axis=0)
    found = mechanism.nearest_counts(mechanism.from_sums(Total(sums, 1.0, anchor, 1)))
    shares = mechanism.shares_at(anchor, mechanism.indicators(rows))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    if (mechanism.rows_and_counts(found)[0] > 1.0).all():
        expected = model.from_assignments(rows, shares)
        posterior = mechanism.posterior(found)
        for factor, contribution in expected.contribution.items():
            np.testing.assert_allclose(posterior.contribution[factor], contribution, atol=1e-8)


def test_pairs_of_columns_tell_classes_apart(rng):
    """Exact tables of three classes over five columns: the best of a few starts finds weights and shares."""
    weights, blocks = np.array([0.5, 0.3, 0.2]), [slice(2 * column, 2 * column + 2) for column in range(5)]
    yes = rng.uniform(0.05, 0.95, (3, 5))
    within = np.stack([1 - yes, yes], axis=2).reshape(3, 10)
    tables = 1000 * (within.T * weights) @ within
    for block in blocks:
        tables[block, block] = 0.0
    fits = [fit_pairs(tables, blocks, 3, np.random.default_rng(seed)) for seed in range(8)]
    _, found, shares = max(fits, key=lambda fit: fit[0])
    again = 1000 * (shares.T * found) @ shares
    for block in blocks:
        again[block, block] = 0.0
    assert np.abs(again - tables).max() < 5.0


def test_the_nearest_counts_are_nearest(rng):
    values = rng.normal(2.0, 5.0, 6)
    found = nearest_shares(values, 10.0)
    assert found.sum() == pytest.approx(10.0)
    assert (found >= 0).all()
    for other in 10.0 * rng.dirichlet(np.ones(6), 200):
        assert np.sum((found - values) ** 2) <= np.sum((other - values) ** 2) + 1e-9


def test_rounds_find_classes_and_say_that_there_are_no_intervals(monkeypatch, rng):
    random = np.random.default_rng(5)
    monkeypatch.setattr(
        releasing,
        "discrete_gaussian",
        lambda variance, size: np.rint(random.normal(0, variance**0.5, size)).astype(int),
    )
    model, member = db.BernoulliMixture(2, dimension=6), rng.random(4000) < 0.4
    yes = np.where(member[:, None], [0.9, 0.8, 0.9, 0.2, 0.1, 0.5], [0.2, 0.1, 0.3, 0.8, 0.9, 0.5])
    points = (rng.random((4000, 6)) < yes).astype(float)
    anchor, releases, privacy = db.Posterior.of_prior(model.structure), [], db.Privacy(3.0, 1e-6)
    for _ in range(model.mechanism().rounds):
        for site, rows in enumerate(np.split(points, 2)):
            releases.append(model.release(anchor, rows, privacy, ledger=Open(), site=str(site)))
        anchor = db.private_merge(model.structure, releases)
    exact, alone = model.fit(points, rng=0).posterior, db.BernoulliMixture(1, dimension=6)
    worst = alone.score(alone.fit(points, rng=0).posterior, points)
    kept = (model.score(anchor.posterior, points) - worst) / (model.score(exact, points) - worst)
    assert kept > 0.97
    kinds = [remark.kind for remark in anchor.posterior.remarks]
    assert kinds == ["differential privacy", "no intervals"]
    assert "no interval contains the noise" in str(anchor.posterior.remarks[0])


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (db.LatentClasses(2, columns={**MIXED, "e": db.columns.Gaussian(0, 1)}), "which have no bound"),
        (db.PoissonMixture(2, dimension=3), "which have no bound"),
        (db.BernoulliMixture("auto", dimension=4), "'auto' finds it in the data"),
        (db.BernoulliMixture(2, dimension=2), "three columns or more"),
    ],
)
def test_what_has_no_bound_is_refused(model, reason):
    with pytest.raises(NotPrivate, match=reason):
        model.mechanism()


def test_rows_with_missing_values_are_refused():
    model = MODELS["yes/no"]
    points = np.array([[0.0, 1.0, np.nan, 1.0]])
    with pytest.raises(db.errors.InvalidData, match="complete rows"):
        model.release(db.Posterior.of_prior(model.structure), points, db.Privacy(1.0, 1e-6), ledger=Open())


def test_a_plan_of_classes_promises_no_intervals():
    plan = db.private_plan(MODELS["yes/no"], sites=4, rows=20_000, privacy=db.Privacy(1.0, 1e-6))
    assert str(plan).startswith("Means would be released, without intervals (Q = ")


def test_counts_that_rows_could_have_are_none_below_zero_and_at_least_one_row(rng):
    """Whatever noise has made of them: each column has all rows of its class, and a class has one row or more."""
    mechanism = MODELS["classes"].mechanism()
    found = rng.normal(0.0, 20.0, (mechanism.classes, 1 + mechanism.width))
    found[:, 0] = [-3.0, 7.5]
    rows, counts = mechanism.rows_and_counts(mechanism.nearest_counts(found))
    np.testing.assert_array_equal(rows, [1.0, 7.5])
    assert (counts >= 0.0).all()
    for block in mechanism.blocks:
        np.testing.assert_allclose(counts[:, block].sum(axis=1), rows)


def test_rounds_of_noise_alone_fit_together(rng):
    """Averaged sums that differ by their noise have a misfit of 1; `noise` is that of their mean."""
    mechanism = MODELS["categories"].mechanism()
    deviation, found = 3.0, []
    for _ in range(300):
        size = mechanism.size(1)
        late = [mechanism.from_sums(Total(deviation * rng.normal(size=size), 1.0, None, 1)) for _ in range(3)]
        found.append(mechanism.misfit(late, deviation * mechanism.norm / 3**0.5))
    assert np.mean(found) == pytest.approx(1.0, abs=0.05)
    assert mechanism.misfit(late[:1], 1.0) == 1.0


@pytest.mark.parametrize("name", MODELS)
def test_the_quality_of_a_release_is_rows_times_budget_over_copies_and_parameters(name, rng):
    """Of the tables alone, and of two averaged rounds more; noise of counts is that of sums over rows of a class."""
    mechanism, rate, copies = MODELS[name].mechanism(), 0.3, 4
    rows = rng.permutation(np.repeat(all_rows(mechanism), 20, axis=0))
    sums = mechanism.record_statistics(mechanism.start(), rows, 0).sum(axis=0)
    totals = [Total(sums, 2.0, mechanism.start(), copies)]
    first = mechanism.estimate(totals, rate)
    assert first.quality == pytest.approx(len(rows) / copies * rate / mechanism.parameters, rel=0.01)
    anchor = first.anchor
    for number in range(1, mechanism.rounds):
        sums = mechanism.record_statistics(anchor, rows, number).sum(axis=0)
        totals.append(Total(sums, 2.0, anchor, copies))
        found = mechanism.estimate(totals, rate)
        anchor = found.anchor
    assert found.quality == pytest.approx(first.quality, rel=0.01)
    late, counts = 3, np.maximum(mechanism.rows_and_counts(anchor)[0], 1.0)
    np.testing.assert_allclose(found.noise[:, 0], 2.0 * mechanism.norm / np.sqrt(late) / counts, rtol=1e-9)
    assert [remark.kind for remark in found.remarks] == ["no intervals"]
