"""What slots hold in total, against sums written down plainly; families with a faster way obey the same laws."""

from itertools import permutations

import numpy as np
import pytest
from draws import ALL, contribution, natural, over_seeds

from decbayes.families import FAMILIES

SITES, SLOTS = 3, 3


class Sums:
    """λ0 + Σ_i P_i c_i as dense matrices, and the totals that must agree with it; a site below zero is nowhere."""

    def __init__(self, name, seed, *, doubt):
        self.rng = np.random.default_rng(seed)
        self.family, self.prior = FAMILIES[name], natural(name, self.rng, SLOTS)
        self.sites = [contribution(name, self.rng, SLOTS, 2) for _ in range(SITES)]
        if doubt:
            # Some entries vanish and some leave the domain unless others outweigh them.
            self.sites = [c * self.rng.choice([0.0, 1.0, -0.7], c.shape, p=[0.3, 0.5, 0.2]) for c in self.sites]
        self.places = np.full((SITES, SLOTS), -1)
        self.totals = self.family.totals(self.prior)

    def rows(self, site):
        return self.family.rows(self.sites[site])

    def move(self, site, places):
        slots = np.flatnonzero(self.places[site] != places)
        self.totals.move(self.rows(site), slots, self.places[site][slots], places[slots])
        self.places[site] = places

    def natural(self, without=None):
        total = np.array(self.prior)
        for site, rows in enumerate(self.sites):
            for slot, component in enumerate(self.places[site]):
                if component >= 0 and site != without:
                    total[slot] += rows[component]
        return total

    def objective(self):
        natural = self.natural()
        return self.family.log_partition(natural) if self.family.contains(natural) else -np.inf

    def wander(self):
        """Any site to anywhere, or out of everything, a few times."""
        for _ in range(8):
            site = int(self.rng.integers(SITES))
            gone = self.rng.random() < 0.2
            self.move(site, np.full(SLOTS, -1) if gone else self.rng.permutation(SLOTS))
            yield


@pytest.mark.parametrize("doubt", [False, True], ids=["evidence", "doubt"])
@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_the_objective_is_the_log_partition_of_all_that_is_placed(name, doubt, seed):
    sums = Sums(name, seed, doubt=doubt)
    for _ in sums.wander():
        assert sums.totals.objective() == pytest.approx(sums.objective(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_cleared_slots_are_summed_anew(name, seed):
    sums = Sums(name, seed, doubt=True)
    list(sums.wander())
    slots = np.flatnonzero(sums.rng.random(SLOTS) < 0.7)
    sums.totals.clear(slots)
    for site in range(SITES):
        sums.places[site, slots] = sums.rng.integers(-1, SLOTS, len(slots))
        sums.totals.add(sums.rows(site), slots, sums.places[site, slots])
    sums.totals.update(slots)
    assert sums.totals.objective() == pytest.approx(sums.objective(), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_gains_rank_the_places_of_a_site_as_the_objective_does(name, seed):
    sums = Sums(name, seed, doubt=False)
    list(sums.wander())
    site, slots = 0, np.arange(SLOTS)
    gains = sums.totals.gains(sums.rows(site), slots, sums.places[site])
    assert np.isfinite(gains).all(), "evidence never leaves the domain"
    rest = sums.natural(without=site)
    slack = [
        gains[slots, order].sum() - sums.family.log_partition(rest + sums.sites[site][list(order)])
        for order in permutations(slots)
    ]
    np.testing.assert_allclose(slack, slack[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_a_gain_is_undefined_exactly_where_the_sum_leaves_the_domain(name, seed):
    sums = Sums(name, seed, doubt=True)
    for _ in sums.wander():
        for site in range(SITES):
            gains = sums.totals.gains(sums.rows(site), np.arange(SLOTS), sums.places[site])
            rest = sums.natural(without=site)
            inside = [sums.family.contains_rows(row + sums.sites[site]) for row in rest]
            np.testing.assert_array_equal(~np.isnan(gains), inside)


@pytest.mark.parametrize("name", ["Dirichlet", "Gamma", "NormalWishart"])
def test_doubt_does_leave_the_domain_and_come_back(name):
    """That the two laws above speak of something: their instances lie on both sides."""
    walks = [Sums(name, seed, doubt=True) for seed in range(10)]
    inside = [np.isfinite(sums.objective()) for sums in walks for _ in sums.wander()]
    assert 0.02 < np.mean(inside) < 0.98


@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_rows_are_the_matrix_in_the_order_asked_for(name, seed):
    generator = np.random.default_rng(seed)
    matrix = contribution(name, generator, 4, 2) * generator.integers(0, 2, (4, 1))
    order = generator.permutation(4)
    rows = FAMILIES[name].rows(matrix, order)
    np.testing.assert_array_equal(rows.written_out(), matrix[order])
    np.testing.assert_array_equal(rows.times(3.0).written_out(), 3.0 * matrix[order])
    total = np.ones((2, matrix.shape[1]))
    rows.add_to(total, np.array([1, 0]), np.array([2, -1]), -1.0)
    np.testing.assert_array_equal(total, np.stack([np.ones(matrix.shape[1]), 1.0 - matrix[order][2]]))


@pytest.mark.parametrize("name", ALL)
@over_seeds()
def test_sums_inside_the_domain_are_told_from_those_outside(name, seed):
    sums = Sums(name, seed, doubt=True)
    for rows in sums.sites:
        inside = sums.family.contains_sum(sums.prior, sums.family.rows(rows))
        np.testing.assert_array_equal(inside, sums.family.contains_rows(sums.prior + rows))
