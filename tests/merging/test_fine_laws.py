"""Laws of single functions that whole merges hide: limits on both sides, order of names, what is refused."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import cauchy, chi2, gamma, norm, poisson
from scipy.stats import f as f_distribution
from structures import topics

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.merging import remarking
from decbayes.merging.alignment import NOT_LOOKED_AT
from decbayes.merging.base import copies
from decbayes.merging.base.compatibility import difference
from decbayes.merging.base.components import bases
from decbayes.merging.base.problem import Factor, Problem
from decbayes.merging.base.products import check_assignments, scaled
from decbayes.merging.grouping.inherited_ids import home_slots
from decbayes.merging.grouping.shared import near_duplicates, predictive_gains
from decbayes.merging.placing import placed
from decbayes.merging.reading._coefficients import Chances, Coefficients, of_either, ranks, to_let_differ
from decbayes.merging.reading._heterogeneity import Chance, Comparison
from decbayes.remarks import Remark

MIXTURE = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
KNOWN = Chances(*(Chance(np.ones(shape), np.full(shape, 1e6), np.full(shape, 1e9)) for shape in ((1,), (1, 1))))


def mixture_of(*groups):
    """A posterior of rows whose components are known."""
    points = np.concatenate([np.full((size, 1), mean) for mean, size in groups])
    labels = np.concatenate([np.full(size, place) for place, (_, size) in enumerate(groups)])
    return MIXTURE.from_assignments(points, np.eye(2)[labels])


def texts(remarks):
    return [remark.what for remark in remarks]


def test_groups_of_sites_that_share_nothing_are_named_largest_first():
    evidence = np.array([[50.0, 0, 0], [0, 40.0, 9.0], [0, 30.0, 0], [0, 0, 0.4]])
    (found,) = remarking.separate(evidence, ("A", "B", "C", "D"))
    assert found.kind == "nothing shared"
    assert "2 groups" in found.what
    assert found.what.index("B, C") < found.what.index("A.")
    assert "D" not in found.what


@pytest.mark.parametrize(
    ("evidence", "named"),
    [
        ([[60.0, 40.0, 0], [50.0, 0, 0], [50.0, 0, 0]], ""),  # 40 % alone
        ([[50.0, 50.0, 0], [50.0, 0, 0], [50.0, 0, 0]], ""),  # exactly half
        ([[40.0, 60.0, 0], [50.0, 0, 0], [50.0, 0, 0]], "A (60% of its data)"),
        ([[40.0, 60.0, 0], [50.0, 0, 0], [0.4, 0, 0]], ""),  # of two sites each is alone with what the other lacks
        ([[40.0, 60.0, 0], [20.0, 0, 80.0], [50.0, 0, 0]], "A (60% of its data), B (80%)"),
    ],
)
def test_a_site_is_alone_with_more_than_half_of_its_data_among_three_or_more(evidence, named):
    found = texts(remarking.separate(np.array(evidence), ("A", "B", "C")))
    assert found == ([f"Most of what {named} found is unknown to all other sites."] if named else [])


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ([1234567.25] * 3, [1234567.25] * 3, True),
        ([1234567.25] * 3, [1234567.25, 1234567.25, 1234567.26], False),
        ([np.pi, np.e], [np.pi, np.e], True),  # no rounded data add up to these twice
        ([np.pi, 0.0], [np.pi, 0.0], True),
        ([3.0, 4.0], [3.0, 4.0], False),  # small counts are often the same
        ([3.0] * 30, [3.0] * 30, True),
        ([0.3, 0.4], [0.3, 0.4], False),
        ([1.0, 2.0], [1.0, 2.0, 0.0], False),
        ([1e6] * 4, [1e6] * 4, True),
        ([1e6] * 3, [1e6] * 3, False),
        ([1.000001e6] * 3, [1.000001e6] * 3, False),
        ([1e6 + 1e-5] * 3, [1e6 + 1e-5] * 3, True),
    ],
)
def test_equal_sums_are_no_chance_from_twice_a_million_to_one(first, second, same):
    """A sum n of rounded numbers is another's by chance with probability about 1 / √(4πn)."""
    assert copies.same_totals(np.array(first), np.array(second)) is same


@pytest.mark.parametrize("count", [20, 30, 800, 950])
@pytest.mark.parametrize("columns", [5, 6, 9, 10, 11])
def test_equal_counts_are_no_chance_as_poisson_numbers_have_it(count, columns):
    coincide = (poisson.pmf(np.arange(5 * count), count) ** 2).sum()
    totals = np.full(columns, float(count))
    assert copies.same_totals(totals, totals) == (coincide**columns <= np.exp(-28.0))


def test_what_sites_carry_is_said_once_with_its_advice_and_reason():
    said = Remark("few rows", "There are few rows.", "Collect more.", "They are 5.")
    posterior = mixture_of((0.0, 5))
    sites = [replace(posterior, remarks=(said,)), posterior, replace(posterior, remarks=(said,))]
    (remark,) = remarking.of_sites(sites, "ABC")
    assert (remark.kind, remark.advice, remark.rests_on) == ("few rows", "Collect more.", "They are 5.")
    assert remark.what == "A, C: There are few rows."


def test_only_neighbours_in_size_are_compared_for_the_same_data(rng):
    sites = [MIXTURE.fit(rng.normal(size=(30, 1)) * 3, rng=1).posterior for _ in range(4)]
    (found,) = copies.same_data([*sites, sites[2]], "ABCDE")
    assert "C, E" in found.what
    assert not list(copies.same_data(sites, "ABCD"))


@pytest.mark.parametrize(("apart", "same"), [(4e-10, True), (4e-9, False)])
def test_sums_of_large_sites_are_the_same_up_to_rounding(apart, same):
    """Relative to their size, which is a million."""
    site = mixture_of((1234.567, 700), (5.4321, 300))
    sites = [
        db.Posterior(MIXTURE.structure, {name: times * part for name, part in site.contribution.items()})
        for times in (np.pi, np.pi * (1.0 + apart))
    ]
    assert bool(list(copies.same_data(sites, "AB"))) == same


def test_shares_gain_what_they_explain_less_what_few_data_cost():
    evidence = np.array([[40.0, 10.0, 0.0], [5.0, 45.0, 6.0]])
    gains = remarking.share_gains(evidence, 2.0, np.eye(3), np.full(len(evidence), np.inf))
    for row, gain in zip(evidence, gains, strict=True):
        own = (row + 1.0) / (row.sum() + 3.0)
        everywhere = (evidence.sum(axis=0) + 1.0) / (evidence.sum() + 3.0)
        cost = remarking.COST * sum(row >= 5.0) * 3.0 / (2.0 * row.sum())
        assert gain == pytest.approx(sum(own * (np.log(own) - np.log(everywhere))) - cost)


def sites_with(effects, precision=100.0):
    """Sites whose coefficients are these, each known with one precision."""
    precisions = precision * np.tile(np.eye(effects.shape[1]) + 0.1, (len(effects), 1, 1))
    shifts = np.einsum("nij,nj->ni", precisions, effects)
    return Coefficients(shifts[:, None], precisions[:, None])


def test_coefficients_that_differ_are_let_vary_the_most_notable_first():
    """Deviations of the estimates are about 0.1; the second coefficient has ten times as much between sites."""
    effects = np.array(
        [[0.0, 1.0, 0.3, 0.5], [0.05, -1.0, -0.3, 0.45], [-0.05, 0.9, 0.35, 0.5], [0.0, -0.8, -0.3, 0.55]]
    )
    assert to_let_differ(sites_with(effects), KNOWN) == (1, 2)
    assert to_let_differ(sites_with(0.1 * effects), KNOWN) == ()
    assert to_let_differ(sites_with(np.tile(effects[:1], (4, 1))), KNOWN) == ()
    assert to_let_differ(sites_with(10.0 * effects[:, [1, 2]]), KNOWN) == (0, 1)


@pytest.mark.parametrize("times", [1.4, 1.6])
def test_differences_that_are_sure_but_less_than_half_as_much_again_as_chance_are_not_let_vary(times):
    """Half of forty sites lie so many deviations below their mean, half above, in each of two coefficients."""
    signs = np.column_stack([np.tile([1.0, -1.0], 20), np.tile([1.0, 1.0, -1.0, -1.0], 10)])
    effects = 0.1 * np.sqrt(39 / 40) * signs * [times, 1.3]
    known = Coefficients(100.0 * effects[:, None], 100.0 * np.tile(np.eye(2), (40, 1, 1, 1)))
    spread, entries = known.compared(np.ones(1))
    assert KNOWN.joint.probability(spread.relative)[0] < 1e-9
    np.testing.assert_allclose(entries.times[0], [times, 1.3])
    assert to_let_differ(known, KNOWN) == ((0,) if times > 1.5 else ())


def test_joint_comparison_is_that_of_the_precisions(rng):
    """Q = Σ (m_i − m)ᵀ P_i (m_i − m) with the weighted mean, and D (N − 1) degrees of freedom."""
    effects, precisions = rng.normal(size=(5, 3)), np.array([np.cov(rng.normal(size=(3, 9))) for _ in range(5)])
    known = Coefficients(np.einsum("nij,nj->ni", precisions, effects)[:, None], precisions[:, None])
    spread, entries = known.compared(np.ones(1))
    mean = np.linalg.solve(precisions.sum(axis=0), np.einsum("nij,nj->i", precisions, effects))
    q = sum((e - mean) @ p @ (e - mean) for e, p in zip(effects, precisions, strict=True))
    assert spread.statistic[0] == pytest.approx(q)
    assert spread.freedom[0] == 12
    assert spread.relative[0] == pytest.approx(q / 12)
    for entry in range(3):
        v = np.array([1.0 / p[entry, entry] for p in precisions])
        apart = np.array([(p @ (e - mean))[entry] for e, p in zip(effects, precisions, strict=True)]) * v
        alone = np.sum(apart**2 / v)
        room = np.sum(1 / v) - np.sum(1 / v**2) / np.sum(1 / v)
        assert entries.times[0, entry] == pytest.approx(np.sqrt(alone / 4))
        assert entries.between[0, entry] == pytest.approx(np.sqrt(max(alone - 4, 0.0) / room))


def test_each_coefficient_is_compared_with_its_own_freedom(rng):
    """Q_j of Gaussian r_i has the mean freedom_j exactly: the variance of r_i is P_i − P_i (Σ P)⁻¹ P_i."""
    precisions = np.array([np.cov(rng.normal(size=(3, 5))) for _ in range(4)])
    precisions[2, 1], precisions[2, :, 1] = 0.0, 0.0  # the third site does not know the second coefficient
    roots = [np.linalg.cholesky(p + 1e-12 * np.eye(3)) for p in precisions]
    draws = [np.array([root @ rng.normal(size=3) for root in roots]) for _ in range(4000)]
    spreads = [Coefficients(shifts[:, None], precisions[:, None]).each() for shifts in draws]
    freedom, lost = spreads[0].freedom[0], np.linalg.inv(precisions.sum(axis=0))
    by_hand = [sum(1 - (p @ lost @ p)[j, j] / p[j, j] for p in precisions if p[j, j] > 0) for j in range(3)]
    np.testing.assert_allclose(freedom, by_hand)
    # The standard error of the mean of a quadratic form is below √(2 · 4 / 4000) = 0.045.
    np.testing.assert_allclose(np.mean([spread.statistic[0] for spread in spreads], axis=0), freedom, atol=0.15)


def test_a_coefficient_of_one_site_alone_is_not_compared(rng):
    for _ in range(20):  # rounding leaves some freedom in about half of them
        precisions = np.array([np.cov(rng.normal(size=(3, 9))) for _ in range(2)])
        precisions[1, 2], precisions[1, :, 2] = 0.0, 0.0
        spread = Coefficients(rng.normal(size=(2, 1, 3)), precisions[:, None]).each()
        assert spread.freedom[0, 2] == 0.0
        assert (spread.freedom[0, :2] > 0.0).all()


def test_one_coefficient_that_differs_among_many_is_named():
    """Six sites with Q = 22 in one coefficient (p = 0.0005) and 4.5 in 19 others: p = 0.28 for all together."""
    squares = np.array([22.0, *np.full(19, 4.5)])
    effects = np.outer([1.0, -1.0] * 3, np.sqrt(squares / 600.0))
    known = Coefficients(100.0 * effects[:, None], 100.0 * np.tile(np.eye(20), (6, 1, 1, 1)))
    chances = Chances.of_noise(known, np.ones(1), np.full(1, 1e9))
    spread, _ = known.compared(np.ones(1))
    assert chances.joint.probability(spread.relative)[0] == pytest.approx(chi2(100).sf(107.5), rel=1e-3)
    assert chances.probability(spread, known.each())[0] < 0.03
    assert to_let_differ(known, chances) == (0,)


def test_p_values_of_all_coefficients_and_of_each_are_combined(rng):
    """As the tail of a Cauchy distribution, half of the weight on the joint one."""
    joint, each = np.array([0.04, 0.5, 0.5, 0.04, np.nan]), np.full((5, 3), 0.3)
    each[1, 2], each[2] = 0.001, [0.001, np.nan, 0.9]
    each[3], each[4] = np.nan, 0.2
    quantiles = [cauchy.isf([0.04, 0.5, 0.5]), [cauchy.isf(row[np.isfinite(row)]).mean() for row in each[:3]]]
    np.testing.assert_allclose(of_either(joint, each), [*cauchy.sf(np.mean(quantiles, axis=0)), 0.04, np.nan])
    small = np.array([1e-30, 1e-4])
    np.testing.assert_allclose(of_either(small, np.ones((2, 4))), 2.0 * small, rtol=0.02, err_msg="others are alike")
    np.testing.assert_allclose(of_either(small, small[:, None]), small, err_msg="one coefficient")
    assert of_either(np.zeros(1), np.zeros((1, 2))) < 1e-300


@pytest.mark.parametrize("coefficients", [2, 8])
def test_a_combined_p_value_of_equal_sites_is_below_a_level_as_often_as_it_says(coefficients, rng):
    """Joint and single statistics are far from independent: the one is the sum of the others."""
    squares = rng.chisquare(9, size=(40_000, coefficients))
    combined = of_either(chi2(9 * coefficients).sf(squares.sum(axis=1)), chi2(9).sf(squares))
    for level, most in ((0.01, 0.013), (0.05, 0.06), (0.5, 0.53)):  # the standard errors are at most 0.0025
        assert 0.9 * level < np.mean(combined < level) < most


def test_a_coefficient_integrated_out_leaves_the_marginal_of_the_others(rng):
    """By Schur's complement of the precision with 1 / between² added to the entry."""
    precision = np.cov(rng.normal(size=(3, 9)))
    shift = rng.normal(size=3)
    rest = Coefficients(shift[None, None], precision[None, None]).without(1, 0.7)
    wide = precision.copy()
    wide[1, 1] += 1.0 / 0.7**2
    kept = [0, 2]
    schur = precision[np.ix_(kept, kept)] - np.outer(precision[kept, 1], precision[1, kept]) / wide[1, 1]
    np.testing.assert_allclose(rest.precisions[0, 0][np.ix_(kept, kept)], schur)
    np.testing.assert_allclose(rest.shifts[0, 0, kept], shift[kept] - precision[kept, 1] * shift[1] / wide[1, 1])


def test_directions_with_a_billionth_of_the_information_do_not_count():
    matrices = np.array([np.diag([1.0, 1e-8, 1.0]), np.diag([1.0, 1e-10, 0.0]), np.zeros((3, 3))])
    assert ranks(matrices).tolist() == [3, 1, 0]


def test_entries_are_compared_by_dersimonian_and_laird():
    """Values and shares of three sites in one slot; the second entry is known exactly and is not compared."""
    comparison = Comparison(np.array([[2.0, 5.0]]), np.array([[0.5, 0.0]]), np.array([1.2]))
    values, shares = np.array([1.0, 2.5, 3.5]), np.array([0.2, 0.3, 0.5])
    for value, share in zip(values, shares, strict=True):
        comparison.add(np.array([[value, value]]), np.array([share]))
    w = shares / 0.5**2
    q = np.sum(w * (values - 2.0) ** 2)
    assert comparison.times[0, 0] == pytest.approx(np.sqrt(q / (1.2 * 2)))
    assert comparison.between[0, 0] == pytest.approx(np.sqrt((q - 1.2 * 2) / (w.sum() - np.sum(w**2) / w.sum())))
    assert np.isnan(comparison.times[0, 1])
    assert np.isnan(comparison.between[0, 1])


def test_halves_that_overlap_predict_hardly_better():
    """Two Gaussians d apart: between their bounds by Kolchinsky and Tracey lies the integral."""
    for d, p in ((0.5, 0.5), (2.0, 0.3), (6.0, 0.5)):
        n = 100.0
        grid = np.linspace(-12, 12 + d, 40001)
        mixed = p * norm.pdf(grid) + (1 - p) * norm.pdf(grid, d)
        whole = norm.pdf(grid, (1 - p) * d)
        exact = trapezoid(mixed * (np.log(mixed) - np.log(whole)), grid)
        gain = n * p * (1 - p) * d**2 / 2
        (found,) = predictive_gains(np.array([gain]), np.array([[p * n, (1 - p) * n]]))
        assert found == pytest.approx(exact, abs=0.12)
    both = predictive_gains(np.array([gain, gain]), np.array([[p * n, (1 - p) * n]] * 2))
    np.testing.assert_allclose(both, found / 2)


@pytest.mark.parametrize(("common", "known"), [(49.0, False), (51.0, True)])
def test_ids_decide_if_half_of_the_evidence_has_one_that_several_sites_use(common, known):
    ids, evidence = [("a", "b"), ("a", "c")], np.array([common / 2, 30.0, common / 2, 70.0 - common])
    found = home_slots(ids, [2, 2], evidence, 2)
    assert (found is not None) == known
    if known:
        assert found.tolist() == [0, -1, 0, -1]


def test_assignments_of_other_sites_are_refused():
    alignment = db.align([mixture_of((-5, 20), (5, 30)), mixture_of((-5, 25), (5, 10))])
    with pytest.raises(StructureMismatch):
        replace(alignment, assignments=alignment.assignments[:1])
    with pytest.raises(StructureMismatch, match="each of the 2"):
        replace(alignment, order=(0, 0))


def test_what_is_dropped_or_joined_is_recorded_as_such():
    posterior = db.merge([mixture_of((-5, 20), (5, 30)), mixture_of((-5, 10), (5, 40))])
    with pytest.raises(StructureMismatch, match="at least one must be left"):
        db.merging.drop(posterior, 0, 1)
    with pytest.raises(StructureMismatch, match="Name the components"):
        db.merging.drop(posterior)
    smaller = int(posterior.mean("weights").argmin())
    ids = db.merging.drop(posterior, 1 - smaller).events
    joined = db.merging.join(posterior, 0, 1).events
    (event,) = [event for event in joined if event.kind == "joined"]
    (kept,) = [event for event in joined if event.kind == "kept"]
    gone = {event.id for event in ids if event.kind == "gone"} | {event.id for event in ids if event.kind == "kept"}
    assert {event.id, event.other} == gone
    assert event.other == kept.id


def test_a_split_moves_the_part_with_less_evidence_behind_all_others():
    sites = [mixture_of((-5, 20), (5, 31)), mixture_of((-5, 22), (5, 33))]
    edited = db.merging.split(db.merge(sites, components=1), 0, sites)
    np.testing.assert_allclose(edited.posterior.mean("components")[:, 0], [5.0, -5.0], rtol=0.02)
    (event,) = [event for event in edited.events if event.kind == "split"]
    assert event.share == pytest.approx(42 / 106)


def test_a_solver_that_is_given_is_that_of_a_robust_merge():
    sites = [mixture_of((-5, 20 + n), (5, 30)) for n in range(4)]
    with pytest.raises(TypeError, match="nobody"):
        db.merge(sites, robust=True, solver="nobody")


def test_padding_is_advised_where_only_the_number_of_components_differs():
    two, three, other = (topics(count, words) for count, words in ((2, 6), (3, 6), (3, 7)))
    for pair in ((two, three), (three, two)):
        assert "`pad` completes the smaller one" in difference(*pair)
    for pair in ((two, other), (other, two), (three, other)):
        assert "`pad`" not in difference(*pair)


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0, 2.0])
def test_scaled_evidence_is_added_to_the_same_prior(scale):
    posterior = mixture_of((0.0, 5), (3.0, 7))
    for name, prior in MIXTURE.structure.prior.items():
        expected = prior + scale * posterior.contribution[name]
        np.testing.assert_allclose(scaled(posterior, scale).natural[name], expected)


def test_numbers_of_sites_are_counted_up_to_a_limit():
    family = MIXTURE.structure.families["components"]
    rows = [(family.rows(np.ones((2, 2))),) for _ in range(5)]
    problem = Problem((Factor(family, np.ones((2, 2))),), tuple(rows))
    assert problem.numbers(most=1000) == 20
    assert problem.numbers(most=9) == 12
    assert problem.numbers(most=8) == 12
    assert problem.numbers(most=7) == 8


def test_settings_that_only_one_of_two_models_has_are_named():
    structure = MIXTURE.structure
    other = replace(structure, model={**structure.model, "extra": 3})
    assert "extra is None in one and 3 in the other" in difference(structure, other)
    assert "extra is 3 in one and None in the other" in difference(other, structure)


def test_a_posterior_without_components_stays_as_it_is():
    model = db.models.GaussianMean(variance=1.0)
    posterior = model.fit(np.ones((3, 1))).posterior
    assert placed(posterior, posterior) is posterior


def test_all_pairs_of_equal_slots_are_near_duplicates():
    losses = np.full((3, 3), 0.001)
    assert set(near_duplicates(losses, np.array([50.0, 60.0, 70.0]))) == set(combinations(range(3), 2))
    assert near_duplicates(losses, np.array([50.0, 0.0, 70.0])) == ((0, 2),)
    assert near_duplicates(np.full((3, 3), 60.0), np.array([50.0, 60.0, 70.0])) == ()


def test_what_was_not_checked_is_a_note():
    assert not NOT_LOOKED_AT.is_warning


def test_a_simulated_mean_may_be_two_errors_larger():
    """Then the spread is a gamma variable with that mean; a mean that is known exactly leaves the probability."""
    spread, mean, shape = np.array([2.0, 9.0]), 3.0, 2.5
    known = Chance(np.full(2, mean), np.full(2, shape), np.full(2, 1e9))
    np.testing.assert_array_equal(known.at_most(spread), known.probability(spread))
    expected = gamma(shape, scale=1.2 * mean / shape).sf(spread)
    np.testing.assert_allclose(replace(known, error=0.1).at_most(spread), expected, rtol=1e-6)


def test_how_far_sites_differ_by_chance_has_the_f_distribution_of_scipy():
    chance = Chance(np.full(4, 1.3), np.full(4, 4.0), np.full(4, 12.0))
    relative = np.array([0.4, 1.3, 3.9, -0.2])
    expected = [*f_distribution.sf(relative[:3] / 1.3, 8.0, 12.0), 1.0]
    np.testing.assert_allclose(chance.probability(relative), expected)


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_the_assignment_that_names_no_slot_is_named(wrong):
    (coupled,) = MIXTURE.structure.symmetry
    assignments = [{coupled: np.array([1, 0])} for _ in range(3)]
    check_assignments(assignments, 3, MIXTURE.structure)
    assignments[wrong] = {coupled: np.array([0, 2])}
    with pytest.raises(StructureMismatch, match=f"Assignment {wrong} has .* from 0 to 1"):
        check_assignments(assignments, 3, MIXTURE.structure)


@pytest.mark.parametrize("observations", [0.0, 0.4, 1.0, 1.5, 60.0])
def test_slots_begin_with_the_prior_in_units_of_their_share_of_the_evidence(observations):
    """A prior of 0.3 + 1 pseudo-observations per category, three slots; less than one observation counts as one."""
    (base,) = bases([Factor(db.families.Dirichlet(), np.full((3, 4), 0.3 - 1.0))], observations, 3)
    np.testing.assert_allclose(base, np.full(4, 0.3) * 3 / max(observations, 1.0))
