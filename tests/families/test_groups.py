"""What a group of components knows: the log-likelihood of its data at the best parameters."""

import numpy as np
import pytest
from draws import ALL, contribution, over_seeds
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import xlogy

from decbayes.families import FAMILIES, Dirichlet
from decbayes.families.moments import root_and_inverse
from decbayes.models.likelihoods.likelihood import FullCovariance, KnownVariance, SphericalCovariance
from decbayes.models.likelihoods.real import DiagonalCovariance

COMPONENTS, SLOTS = 7, 3
# Nats: a slot that all components have left holds rounding, of which a peak makes a little more.
ROUNDING = 1e-3


class Grouped:
    """Components of one family in slots, as the family keeps them and as plain sums."""

    def __init__(self, name, seed):
        self.rng = np.random.default_rng(seed)
        self.family = FAMILIES[name]
        self.matrix = contribution(name, self.rng, COMPONENTS, 2)
        self.evidence = self.rng.uniform(0.5, 4.0, COMPONENTS)
        self.base = 0.02 * contribution(name, self.rng, 1, 2)[0]
        self.rows = self.family.rows(self.matrix)
        self.labels = self.rng.integers(-1, SLOTS, COMPONENTS)
        self.groups = self.family.groups(self.base, SLOTS)
        self.groups.fill(self.rows, self.labels, self.evidence)
        self.groups.update()

    def value(self, members):
        """F of some components, from their plain sum."""
        total, evidence = self.matrix[members].sum(axis=0), self.evidence[members].sum()
        if isinstance(self.family, Dirichlet):
            return xlogy(total, total).sum() - xlogy(total.sum(), total.sum())
        return self.family.peak(total[None], np.array([evidence]), self.base)[0]

    def members(self, slot):
        return np.flatnonzero(self.labels == slot)

    def values(self):
        return [self.value(self.members(slot)) for slot in range(len(self.groups.values()))]

    def move(self, component, slot):
        evidence = float(self.evidence[component])
        self.groups.move(self.rows, component, int(self.labels[component]), slot, evidence)
        self.labels[component] = slot


@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_slots_know_what_their_components_do_wherever_these_have_been(name, seed):
    grouped = Grouped(name, seed)
    np.testing.assert_allclose(grouped.groups.values(), grouped.values(), rtol=1e-8, atol=ROUNDING)
    for _ in range(8):
        grouped.move(int(grouped.rng.integers(COMPONENTS)), int(grouped.rng.integers(SLOTS)))
        np.testing.assert_allclose(grouped.groups.values(), grouped.values(), rtol=1e-8, atol=ROUNDING)
    grouped.groups.clear()
    grouped.groups.fill(grouped.rows, grouped.labels, grouped.evidence)
    grouped.groups.update()
    np.testing.assert_allclose(grouped.groups.values(), grouped.values(), rtol=1e-8, atol=ROUNDING)


@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_a_gain_is_what_a_slot_knows_with_a_component_less_what_it_knows_without(name, seed):
    grouped = Grouped(name, seed)
    chosen = np.array([3, 0, 5])
    everywhere = np.ones((3, SLOTS), dtype=bool)
    held = grouped.labels[chosen]
    gains = grouped.groups.gains(grouped.rows, chosen, held, grouped.evidence, everywhere)
    for row, component in enumerate(chosen):
        for slot in range(SLOTS):
            others = np.setdiff1d(grouped.members(slot), [component])
            expected = grouped.value(np.append(others, component)) - grouped.value(others)
            assert gains[row, slot] == pytest.approx(expected, rel=1e-7, abs=ROUNDING)
    alone = grouped.groups.alone(grouped.rows, grouped.evidence)
    np.testing.assert_allclose(alone, [grouped.value([i]) for i in range(COMPONENTS)], rtol=1e-8, atol=ROUNDING)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("kept", "absorbed"), [(0, 1), (0, 2), (1, 2)])
@over_seeds()
def test_joining_slots_loses_what_they_know_apart(name, kept, absorbed, seed):
    grouped = Grouped(name, seed)
    members = [grouped.members(slot) for slot in range(SLOTS)]
    losses = grouped.groups.join_losses()
    together = np.append(members[kept], members[absorbed])
    expected = grouped.value(members[kept]) + grouped.value(members[absorbed]) - grouped.value(together)
    assert losses[kept, absorbed] == losses[absorbed, kept] == pytest.approx(expected, rel=1e-7, abs=ROUNDING)
    grouped.groups.join(kept, absorbed)
    # The last slot takes the place of the one that is gone.
    members[kept], members[absorbed] = together, members[-1]
    expected = [grouped.value(members[slot]) for slot in range(SLOTS - 1)]
    np.testing.assert_allclose(grouped.groups.values(), expected, rtol=1e-8, atol=ROUNDING)


@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_groups_that_grow_by_joins_lose_what_they_know_apart(name, seed):
    grouped = Grouped(name, seed)
    joins = grouped.family.joins(grouped.base, grouped.rows, grouped.evidence)
    members = {component: [component] for component in range(COMPONENTS)}
    while len(members) > 2:
        group, *others = grouped.rng.permutation(sorted(members)).tolist()
        losses = joins.losses(group, np.array(others))
        for other, loss in zip(others, losses, strict=True):
            together = grouped.value(members[group] + members[other])
            apart = grouped.value(members[group]) + grouped.value(members[other])
            assert loss == pytest.approx(apart - together, rel=1e-7, abs=ROUNDING)
        joins.join(group, others[0])
        members[group] += members.pop(others[0])


LIKELIHOODS = [KnownVariance(0.7), SphericalCovariance(), DiagonalCovariance(), FullCovariance()]


def best_log_likelihood(likelihood, points):
    """Of points at their maximum, by SciPy, up to the constants that no grouping changes."""
    mean, count, side = points.mean(axis=0), len(points), points.shape[1]
    constant = 0.5 * count * side * np.log(2 * np.pi)
    if isinstance(likelihood, KnownVariance):
        # What does not depend on the mean is no part of the contribution.
        seen = stats.norm(mean, np.sqrt(0.7)).logpdf(points).sum()
        return seen - stats.norm(0.0, np.sqrt(0.7)).logpdf(points).sum()
    if isinstance(likelihood, SphericalCovariance):
        return stats.norm(mean, np.sqrt(points.var(axis=0).mean())).logpdf(points).sum() + constant
    if isinstance(likelihood, DiagonalCovariance):
        return stats.norm(mean, points.std(axis=0)).logpdf(points).sum() + constant
    return stats.multivariate_normal(mean, np.cov(points.T, bias=True)).logpdf(points).sum() + constant


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda each: type(each).__name__)
def test_the_peak_is_the_best_log_likelihood_and_evidence_is_the_number_of_points(likelihood, rng):
    points = rng.normal([1.0, -2.0], [0.5, 2.0], size=(25, 2)) @ [[1.0, 0.4], [0.0, 1.0]]
    added = likelihood.contribution(likelihood.features(points).sum(axis=0, keepdims=True))
    nothing, family = np.zeros(added.shape[1]), likelihood.family
    peak = family.peak(added, np.array([25.0]), nothing)[0]
    assert peak == pytest.approx(best_log_likelihood(likelihood, points), rel=1e-4, abs=1e-3)
    prior = family.example(1, 2, rng)
    prior = prior if isinstance(likelihood, KnownVariance) else np.repeat(prior, 1, axis=0)
    if not isinstance(likelihood, KnownVariance):
        assert family.observations(prior, family.rows(added))[0] == pytest.approx(25.0)
    brought = 0.1 * (prior[0] - family.apex(added.shape[1]))
    again = family.peak(added + 25.0 * brought, np.array([25.0]), nothing)
    np.testing.assert_allclose(family.peak(added, np.array([25.0]), brought), again)


def test_without_evidence_there_is_nothing_to_know_and_outside_the_domain_is_worst():
    family = FAMILIES["Gamma"]
    rows, base = np.array([[2.0, -1.0], [2.0, 1.0], [3.0, -1.0]]), np.zeros(2)
    known = family.peak(rows, np.array([2.0, 2.0, 0.0]), base)
    assert known[0] == pytest.approx(2.0 * np.log(2.0) - 2.0, abs=1e-4)
    assert known[1] == -2e6
    assert known[2] == 0.0


def test_parameters_are_counted_by_hand():
    for name, dimension, expected in (
        ("IsotropicGaussian", 3, 3),
        ("DiagonalGaussian", 3, 3),
        ("IsotropicNormalGamma", 3, 4),
        ("NormalGamma", 3, 6),
        ("NormalWishart", 3, 3 + 6),
        ("Wishart", 3, 6),
    ):
        family = FAMILIES[name]
        rows = family.example(2, dimension, np.random.default_rng(0))
        np.testing.assert_array_equal(family.freedom(rows), [expected] * 2)
        np.testing.assert_array_equal(family.effective_freedom(family.rows(rows)), [expected] * 2)


def test_topics_are_about_as_many_words_as_their_perplexity_says():
    counts = np.array([[5.0, 5.0, 5.0, 0.0], [0.3, 0.0, 0.0, 9.0], [0.0] * 4])
    rows = Dirichlet().rows(counts)
    groups = Dirichlet().groups(np.zeros(4), 3)
    groups.fill(rows, np.arange(3), rows.sums)
    groups.update()
    entropy = stats.entropy([0.3 / 9.3, 9.0 / 9.3])
    np.testing.assert_allclose(groups.freedom(np.arange(2)), [3.0 - 1.0, np.exp(entropy) - 1.0])
    np.testing.assert_allclose(Dirichlet().effective_freedom(rows), [2.0, 0.3, 0.0], atol=1e-12)
    np.testing.assert_array_equal(Dirichlet().observations(np.zeros((1, 4)), rows), [15.0, 9.3, 0.0])
    np.testing.assert_array_equal(rows.shortened(1).written_out(), [[5.0, 0, 0, 0], [0, 0, 0, 9.0], [0] * 4])


def test_what_joins_lose_does_not_depend_on_what_was_asked_before():
    counts = np.array([[5.0, 1.0, 6.0, 0.0], [0.0, 3.0, 4.0, 0.0], [0.0, 2.0, 0.0, 7.0]])

    def asked(*groups):
        joins = Dirichlet().joins(np.zeros(4), Dirichlet().rows(counts), counts.sum(axis=1))
        return [joins.losses(group, np.array([1]))[0] for group in groups][-1]

    assert asked(0, 2) == asked(2)


def test_empty_rows_hold_no_observations_wherever_they_stand():
    counts = np.array([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [3.0, 4.0], [0.0, 0.0]])
    rows = Dirichlet().rows(counts, np.array([4, 3, 2, 1, 0]))
    np.testing.assert_array_equal(rows.sums, [0.0, 7.0, 0.0, 3.0, 0.0])


@pytest.mark.parametrize("name", ["Dirichlet", "NormalGamma"])
def test_rows_are_taken_joined_and_put_together_as_matrices_are(name, rng):
    family = FAMILIES[name]
    matrix = contribution(name, rng, 5, 2) * rng.integers(0, 2, (5, 1))
    rows, order, labels = family.rows(matrix, np.array([4, 2, 0, 1, 3])), np.array([4, 2, 0, 1, 3]), [1, 0, 1, 1, 3]
    shuffled = matrix[order]
    np.testing.assert_array_equal(rows.taken(np.array([2, 2, 0])).written_out(), shuffled[[2, 2, 0]])
    members = np.eye(4)[labels]
    np.testing.assert_allclose(rows.joined(np.array(labels), 4).written_out(), members.T @ shuffled)
    following = rows.taken(np.array([1])).followed_by([rows, family.rows(matrix)])
    np.testing.assert_array_equal(following.written_out(), np.concatenate([shuffled[[1]], shuffled, matrix]))


def test_a_multiple_of_sparse_rows_is_that_multiple_of_the_matrix_and_of_its_sums():
    matrix = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]])
    rows = FAMILIES["Dirichlet"].rows(csr_array(matrix)).times(3.0)
    np.testing.assert_array_equal(rows.written_out(), 3.0 * matrix)
    np.testing.assert_array_equal(rows.sums, 3.0 * matrix.sum(axis=1))


def test_roots_of_a_covariance_are_found_whatever_the_units_of_its_coordinates(rng):
    """Of coordinates twelve digits apart, one of which does not vary, and of which two say the same."""
    factor = rng.normal(size=(5, 3))
    factor[3], factor[4] = 0.0, 2.0 * factor[1]
    units = np.array([1e-6, 1.0, 1e6, 1.0, 1e3])
    covariance = (factor @ factor.T) * np.outer(units, units)
    root, inverse = root_and_inverse(covariance)
    assert root.shape == (5, 3)
    np.testing.assert_allclose(root @ root.T / np.outer(units, units), factor @ factor.T, atol=1e-9)
    np.testing.assert_allclose(inverse @ root, np.eye(3), atol=1e-9)
