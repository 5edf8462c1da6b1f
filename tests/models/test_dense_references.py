"""Inner sums of models against dense references: distances, probabilities one by one, groups that are large enough."""

from datetime import date, datetime

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import betaln
from scipy.stats import dirichlet_multinomial

import decbayes as db
from decbayes.models.core.information import ABSOLUTE, RELATIVE, Tally
from decbayes.models.core.persons import Persons
from decbayes.models.covariates.effect_messages import Message, Quadratic, as_years, clipped
from decbayes.models.likelihoods.likelihood import mahalanobis, seen, seen_distances, squared_distances
from decbayes.models.mixtures.empirical_prior import CENTRE, STRENGTHS, WIDTH, empirical_prior, log_probabilities
from decbayes.models.regressions.rows.rare_rows import larger_groups
from decbayes.models.regressions.varying.site_effects import SiteEffects


@pytest.mark.parametrize(("dimension", "count"), [(3, 4), (90, 4), (1, 300)])
def test_distances_are_those_of_scipy_whichever_way_they_are_summed(dimension, count, rng):
    points, centres = rng.normal(size=(7, dimension)), rng.normal(size=(count, dimension))
    expected = cdist(points, centres, "sqeuclidean")
    np.testing.assert_allclose(squared_distances(points, centres), expected, atol=1e-9)
    assert (squared_distances(centres, centres) >= 0.0).all()
    holes = np.where(rng.random(points.shape) < 0.3, np.nan, points)
    there = ~np.isnan(holes)
    by_hand = [
        [((point - centre)[some] ** 2).sum() for centre in centres] for point, some in zip(points, there, strict=True)
    ]
    np.testing.assert_allclose(seen_distances(holes, centres), by_hand, atol=1e-9)
    np.testing.assert_array_equal(seen(holes)[:, 0], there.sum(axis=1))


def test_mahalanobis_distances_are_those_of_scipy(rng):
    points, means, roots = rng.normal(size=(6, 3)), rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 5))
    scatter = roots @ np.swapaxes(roots, -1, -2)
    expected = [cdist(points, means[[k]], "mahalanobis", VI=np.linalg.inv(scatter[k]))[:, 0] ** 2 for k in range(2)]
    np.testing.assert_allclose(mahalanobis(points, means, scatter), np.transpose(expected))


def emissions_of(**columns):
    return db.LatentClasses(2, columns=columns).emissions


def test_counts_of_components_have_the_probabilities_of_scipy(rng):
    """Of each order of the values, so that the number of orders is taken off; two values are a beta distribution."""
    emissions = emissions_of(g=db.columns.Categorical(3), h=db.columns.YesNo())
    three, two = (part.likelihood for part in emissions.parts)
    alpha, counts = np.array([[0.7, 1.5, 2.2]]), np.array([[3.0, 0.0, 2.0], [1.0, 4.0, 0.0]])
    orders = [10.0, 5.0]
    expected = sum(
        dirichlet_multinomial.logpmf(row.astype(int), alpha[0], int(row.sum())) - np.log(number)
        for row, number in zip(counts, orders, strict=True)
    )
    np.testing.assert_allclose(log_probabilities(three, alpha, counts), [expected])
    beta, flips = np.array([[0.4, 1.1]]), np.array([[5.0, 2.0], [0.0, 3.0]])
    expected = (betaln(*(beta + flips).T) - betaln(*beta[0])).sum()
    np.testing.assert_allclose(log_probabilities(two, beta, flips), [expected])


def test_the_strength_of_a_columns_own_prior_is_the_most_probable_one(rng):
    """Its mean are the frequencies in all rows; a column that tells components apart is weak, another one strong."""
    emissions = emissions_of(g=db.columns.Categorical(2), h=db.columns.Categorical(2))
    (part,) = emissions.parts
    agreed = {part.name: part.prior[:1]}
    apex = part.likelihood.family.apex(part.prior.shape[1])
    counts = np.array([[40.0, 2.0, 21.0, 21.0], [1.0, 37.0, 19.0, 19.0]])
    found, height = empirical_prior(emissions, agreed, {part.name: counts})
    own, known = (found[part.name] - apex)[0], (agreed[part.name] - apex)[0] + counts.sum(axis=0)
    strengths = own[0] + own[1], own[2] + own[3]
    assert strengths[0] < strengths[1]
    np.testing.assert_allclose(own[:2] / strengths[0], known[:2] / known[:2].sum())
    np.testing.assert_allclose(own[2:] / strengths[1], known[2:] / known[2:].sum())
    density = lambda strength: -0.5 * (np.log(strength / CENTRE) / WIDTH) ** 2  # noqa: E731
    np.testing.assert_allclose(height, density(strengths[0]) + density(strengths[1]))
    for place, strength in ((slice(0, 2), strengths[0]), (slice(2, 4), strengths[1])):
        shares = known[place] / known[place].sum()
        worth = [
            density(each) + sum(betaln(*(each * shares + row[place])) - betaln(*(each * shares)) for row in counts)
            for each in STRENGTHS
        ]
        np.testing.assert_allclose(strength, STRENGTHS[int(np.argmax(worth))])


@pytest.mark.parametrize("least", [1, 3, 6, 50])
def test_small_groups_count_as_one_that_has_enough_and_large_ones_stay(least, rng):
    groups, numbers = rng.integers(5, size=40) * 1.0, rng.integers(18, size=40)
    groups[:2], among = np.nan, rng.random(40) < 0.9
    for persons in (Persons(), Persons(numbers)):
        found = larger_groups(groups, among, least, persons)
        name = lambda values: [str(value) for value in values]  # noqa: E731  NaN is a name as others are

        def people(which, persons=persons):
            return which.sum() if persons.numbers is None else len(set(persons.numbers[which].tolist()))

        before, after = np.array(name(groups)), np.array(name(found))
        sizes = {one: people(among & (before == one)) for one in set(before[among].tolist())}
        left = set(after[among].tolist())
        assert len(left) == 1 or all(people(among & (after == one)) >= least for one in left)
        np.testing.assert_array_equal(after[~among], before[~among])
        if min(sizes.values()) >= least:
            np.testing.assert_array_equal(after, before)


TALLY = {"totals": np.array([100.0, 100.0]), "parts": np.array([60.0, 40.0])}
ROOM = ABSOLUTE + 100.0 * RELATIVE


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, None),
        ({"totals": np.array([100.0, 100.0 + 0.9 * ROOM])}, None),
        ({"totals": np.array([100.0, 100.0 + 1.1 * ROOM])}, "not the 100 that it states"),
        ({"totals": np.array([100.0, 99.0])}, "its numbers hold 99, not the 100 that it states"),
        ({"totals": np.array([100.0, 99.0]), "slack": 1.0}, None),
        ({"totals": np.array([100.0, np.nan])}, "its numbers hold nan"),
        ({"observed": np.array([20.0])}, None),
        ({"observed": np.array([20.0, 24.0])}, "its numbers are of 24 observations, not the 20 that it states"),
        ({"observed": np.array([21.0]), "slack": 5.0}, "its numbers are of 21 observations"),
        ({"parts": np.array([100.5, -0.5])}, "a part of it holds -0.5"),
        ({"parts": np.array([100.0, -0.9 * ROOM])}, None),
        ({"differences": {"a": np.array([0.9 * ROOM, -0.9 * ROOM])}}, None),
        ({"differences": {"a": np.array([0.1, -0.3])}}, "'a' holds -0.3 in a component"),
        ({"within": {"a": np.array([[60.0, 0.0], [40.0, 40.0]])}}, None),
        ({"within": {"a": np.array([[60.0, 0.0], [40.0, 40.2]])}}, "'a' holds 0.2 more in a component"),
        ({"within": {"a": np.array([[60.0, 0.0], [40.0, 40.2]])}, "loose": 0.02}, None),
        ({"within": {"a": np.array([[60.0, 0.0], [-0.2, 40.0]])}}, "'a' holds -0.2 in a component"),
        ({"parts": np.zeros(0), "within": {"a": np.array([[100.0, 99.0]])}}, None),
        ({"parts": np.zeros(0), "within": {"a": np.array([[100.5, 99.0]])}}, "'a' holds 0.5 more"),
    ],
)
def test_a_contribution_that_contradicts_itself_is_told_in_what(fields, said):
    found = Tally(**{**TALLY, **fields}).contradiction(100.0, 20.0)
    assert found is None if said is None else said in found


def test_a_chain_is_kept_every_so_many_sweeps_after_the_first_ones(rng):
    model, points = db.GaussianMixture(2, 1, variance=1.0, prior_variance=9.0), rng.normal(size=(6, 1))
    every = db.checking.gibbs(model, points, rng=4, draws=9, burn_in=0)
    for burn_in, thinning in ((3, 1), (0, 2), (1, 4), (5, 3)):
        draws = (9 - burn_in) // thinning
        found = db.checking.gibbs(model, points, rng=4, draws=draws, burn_in=burn_in, thinning=thinning)
        places = burn_in + thinning * np.arange(1, draws + 1) - 1
        for name in ("weights", "components"):
            np.testing.assert_array_equal(found[name], every[name][places])


def test_half_way_between_two_sites_effects_are_the_means_of_their_numbers(rng):
    one, other = (
        SiteEffects(rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2)), (), (rng.normal(size=(2, 2)),), np.arange(3))
        for _ in range(2)
    )
    found = one.half_way(other)
    for name in ("shift", "precision"):
        np.testing.assert_allclose(getattr(found, name), np.mean([getattr(one, name), getattr(other, name)], axis=0))
    np.testing.assert_allclose(found.priors[0], np.mean([one.priors[0], other.priors[0]], axis=0))
    np.testing.assert_array_equal(found.parents, one.parents)


def test_dates_are_years_with_the_days_before_them_and_other_values_stay():
    dates = [date(2023, 12, 31), datetime(2023, 2, 1, 5), np.datetime64("2024-12-31")]
    expected = [2024.0, 2024 + 182 / 366, 2023 + 364 / 365, 2023 + 31 / 365, 2024 + 365 / 366]
    *found, missing = as_years(["2024-01-01", "2024-07-01", *dates, ""])
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert missing is None
    assert [*as_years(["2024-01-01", "spring", ""])] == ["2024-01-01", "spring", None]
    assert [*as_years([None, ""])] == [None, None]
    assert [*as_years([3, 4.5])] == [3, 4.5]
    with pytest.raises(db.errors.InvalidData, match="calendar"):
        list(as_years(["2024-02-30"]))


def message(rng):
    shift, root = rng.normal(size=4), rng.normal(size=(4, 6))
    return Message(7, 0, Quadratic(shift, root @ root.T), np.outer(shift, shift))


def test_messages_come_back_from_their_numbers(rng):
    told = message(rng)
    again = Message.of_plain(told.plain(), 2)
    assert (again.documents, again.round) == (7, 0)
    np.testing.assert_allclose(again.likelihood.shift, told.likelihood.shift)
    np.testing.assert_allclose(again.likelihood.precision, told.likelihood.precision)
    np.testing.assert_allclose(again.spread, told.spread, atol=1e-8)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("documents", 0), ("documents", 2.0), ("documents", True), ("round", -1), ("round", 1.5), ("shift", []),
        ("shift", [1.0, 2.0, 3.0]), ("shift", [1.0, 2.0, 3.0, np.nan]), ("spread", [1.0] * 9),
        ("precision", [np.inf] + [0.0] * 9), ("precision", [-1.0] + [0.0] * 9), ("spread", [0.0] * 9 + [-1.0]),
        ("precision", [0.0, 1.0] + [0.0] * 8),
    ],
)  # fmt: skip
def test_messages_that_make_no_sense_are_refused(field, value, rng):
    with pytest.raises(ValueError, match=r"^$"):  # no error of NumPy
        Message.of_plain(message(rng).plain() | {field: value}, 2)


def test_messages_of_another_number_of_coefficients_are_refused(rng):
    assert Message.of_plain(message(rng).plain(), 4).documents == 7
    with pytest.raises(ValueError, match=r"^$"):
        Message.of_plain(message(rng).plain(), 3)


def test_a_precision_without_negative_directions_is_the_nearest_one(rng):
    """Nearest in squares of entries: the rest is orthogonal to it, and has no positive direction."""
    matrix = rng.normal(size=(5, 5))
    matrix = matrix + matrix.T
    matrix[2], matrix[:, 2] = 0.0, 0.0
    found = clipped(matrix)
    assert np.linalg.eigvalsh(found).min() > -1e-12
    assert np.linalg.eigvalsh(matrix - found).max() < 1e-12
    np.testing.assert_allclose(((matrix - found) * found).sum(), 0.0, atol=1e-9)
    np.testing.assert_array_equal(found[2], 0.0)
