"""Transitions among components: rows and columns move together, and alignments are the best of all relabellings."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln
from structures import relabel

import decbayes as db
from decbayes.errors import TooManyRelabellings
from decbayes.families import Dirichlet, Transitions, Weights
from decbayes.merging.matching.quadratic import Match

FACTORS = ("emission", "start", "transitions")


def chains(states, letters=4, *, stickiness=1.0):
    """The structure of a hidden Markov model that emits letters."""
    alpha = 0.5 + stickiness * np.eye(states)
    return db.extending.Structure(
        families={"emission": Dirichlet(), "start": Weights(), "transitions": Transitions()},
        prior={
            "emission": Dirichlet().natural(alpha=np.full((states, letters), 0.5)),
            "start": Weights().natural(alpha=np.ones(states)),
            "transitions": Transitions().natural(alpha=alpha),
        },
        symmetry=(db.extending.CoupledSet(FACTORS),),
    )


def sites(states, count, rng, *, alike=0.5):
    """Sites that have seen one chain, each with labels of its own. Emissions tell states apart more or less."""
    structure = chains(states)
    letters = alike + (1 - alike) * rng.dirichlet(np.full(4, 0.3), size=states)
    moves = rng.dirichlet(np.full(states, 0.4), size=states)
    posteriors = []
    for _ in range(count):
        seen = rng.poisson(40 * moves * rng.uniform(0.5, 1.5, size=(states, 1))).astype(float)
        emitted = np.array([rng.multinomial(n, p / p.sum()) for n, p in zip(seen.sum(axis=1), letters, strict=True)])
        parts = {"emission": emitted.astype(float), "start": rng.poisson(2.0, (states, 1)) * 1.0, "transitions": seen}
        posteriors.append(relabel(db.Posterior(structure, parts), rng))
    return posteriors


def log_normaliser(emission, start, moves):
    """J of sums of counts, with the priors of `chains`."""

    def dirichlets(alpha):
        return gammaln(alpha).sum() - gammaln(alpha.sum(axis=1)).sum()

    sticky = 0.5 + np.eye(len(moves))
    return dirichlets(emission + 0.5) + dirichlets(start.T + 1.0) + dirichlets(moves + sticky)


def best_of_all(posteriors):
    """J of the best relabelling, by trying all."""
    first, *others = [[posterior.contribution[name] for name in FACTORS] for posterior in posteriors]
    orders = [np.array(order) for order in permutations(range(len(first[1])))]
    best = -np.inf
    for choice in product(orders, repeat=len(others)):
        emission, start, moves = (part.copy() for part in first)
        for order, parts in zip(choice, others, strict=True):
            emission, start = emission + parts[0][order], start + parts[1][order]
            moves = moves + parts[2][np.ix_(order, order)]
        best = max(best, log_normaliser(emission, start, moves))
    return best


@pytest.mark.parametrize(("states", "count", "alike"), [(3, 3, 0.0), (3, 3, 1.0), (5, 2, 0.9), (5, 2, 1.0)])
def test_alignments_are_the_best_of_all_relabellings(states, count, alike, rng):
    """Also where emissions say nothing (1.0), and transitions alone tell states apart."""
    reached = []
    for _ in range(12):
        posteriors = sites(states, count, rng, alike=alike)
        best, found = best_of_all(posteriors), db.align(posteriors)
        assert found.objective[-1] == pytest.approx(found.merged().log_partition(), rel=1e-10)
        assert (np.diff(found.objective) >= 0).all()
        assert found.objective[-1] <= best + 1e-9 * abs(best) <= db.merging.upper_bound(found) + 2e-9 * abs(best)
        assert found.optimality == ("global" if count == 2 else "site")
        reached.append(found.objective[-1] >= best - 1e-9 * abs(best))
    assert np.mean(reached) >= 0.9


@pytest.mark.parametrize("sticky", [True, False])
def test_no_alignment_of_chains_exceeds_the_bound_and_copies_reach_it(sticky, rng):
    """Also where the prior tells states apart, and the bound is that of Gilmore and Lawler."""
    structure = chains(3)
    if not sticky:
        prior = {**structure.prior, "transitions": rng.uniform(0.2, 2.0, size=(3, 3)) - 1.0}
        structure = replace(structure, prior=prior)
    for _ in range(5):
        posteriors = [db.Posterior(structure, dict(each.contribution)) for each in sites(3, 2, rng)]
        orders = [np.array(order) for order in permutations(range(3))]
        values = [
            db.merging.product(
                [relabelled(each, order) for each, order in zip(posteriors, choice, strict=True)]
            ).log_partition()
            for choice in product(orders, repeat=2)
        ]
        found = db.align(posteriors)
        assert found.objective[-1] <= max(values) + 1e-9 * abs(max(values))
        assert max(values) <= db.merging.upper_bound(found) + 1e-9 * abs(max(values)) < np.inf
    alike = db.align([posteriors[0]] * 3)
    assert db.merging.upper_bound(alike) >= alike.objective[-1] - 1e-9
    if sticky:
        assert db.merging.upper_bound(alike) == pytest.approx(alike.objective[-1], rel=1e-10)


def relabelled(posterior, order):
    parts = posterior.contribution
    moved = {"emission": parts["emission"][order], "start": parts["start"][order]}
    return db.Posterior(posterior.structure, {**moved, "transitions": parts["transitions"][np.ix_(order, order)]})


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_a_search_finds_the_best_permutation_and_none_exceeds_its_bound(alike, rng):
    """What larger chains rely on, where all permutations cannot be tried."""
    reached = []
    for _ in range(40):
        first, second = sites(5, 2, rng, alike=alike)
        parts = [posterior.contribution for posterior in (first, second)]
        linear = np.array([[log_gain(parts, k, c) for c in range(5)] for k in range(5)])
        match = Match(linear, [parts[0]["transitions"] + 0.5 + np.eye(5)], [parts[1]["transitions"]])
        values = match.values(np.array(list(permutations(range(5)))))
        assert values.max() <= match.bound() + 1e-9 * abs(match.bound())
        reached.append(match.value(match.searched(None, rng)) >= values.max() - 1e-9)
    assert np.mean(reached) >= 0.97


def log_gain(parts, slot, component):
    """What the emissions of a component add to a slot."""

    def height(alpha):
        return gammaln(alpha).sum() - gammaln(alpha.sum())

    before = parts[0]["emission"][slot] + 0.5
    return height(before + parts[1]["emission"][component]) - height(before)


def test_relabelling_moves_rows_and_columns(rng):
    """Copies that differ in labels alone add up to three times one of them."""
    (posterior,) = sites(4, 1, rng)
    merged = db.merge([posterior, relabel(posterior, rng), relabel(posterior, rng)])
    order = [
        int(np.abs(merged.contribution["emission"] - 3 * row).sum(axis=1).argmin())
        for row in posterior.contribution["emission"]
    ]
    moves = merged.contribution["transitions"][np.ix_(order, order)]
    np.testing.assert_allclose(moves, 3 * posterior.contribution["transitions"])


def test_order_and_labels_change_nothing(rng):
    posteriors = sites(4, 4, rng)
    merged = db.merge(posteriors)
    assert db.merge(posteriors[::-1]) == merged
    again = db.merge([relabel(posterior, rng) for posterior in posteriors])
    assert again.log_partition() == pytest.approx(merged.log_partition(), rel=1e-12)


def test_states_of_one_site_that_share_a_slot_have_their_moves_among_them_added_up():
    structure = chains(3)
    moves = np.array([[5.0, 1.0, 2.0], [3.0, 4.0, 6.0], [7.0, 8.0, 9.0]])
    parts = {"emission": np.eye(3, 4) * 9, "start": np.ones((3, 1)), "transitions": moves}
    coupled = db.extending.CoupledSet(FACTORS)
    alignment = db.align([db.Posterior(structure, parts)])
    together = db.merging.Alignment(
        ({coupled: np.array([0, 0, 2])},), (), alignment.posteriors, (0,), structure
    ).merged()
    expected = np.zeros((3, 3))
    expected[0, 0], expected[0, 2] = 5 + 1 + 3 + 4, 2 + 6
    expected[2, 0], expected[2, 2] = 7 + 8, 9
    np.testing.assert_allclose(together.contribution["transitions"], expected)


def test_sites_with_fewer_states_are_padded_on_both_sides(rng):
    wide, narrow = sites(4, 1, rng)[0], sites(3, 1, rng)[0]
    merged = db.merge([wide, narrow])
    assert merged.contribution["transitions"].shape == (4, 4)
    total = wide.contribution["transitions"].sum() + narrow.contribution["transitions"].sum()
    assert merged.contribution["transitions"].sum() == pytest.approx(total)
    assert db.merging.pad(narrow, 4).structure == wide.structure
    few = db.merge([wide, wide], components=2, duplicates="allow")
    assert few.contribution["transitions"].shape == (2, 2)
    assert few.contribution["transitions"].sum() == pytest.approx(2 * wide.contribution["transitions"].sum())


def test_a_prior_is_exchangeable_if_staying_is_all_that_it_tells_apart():
    family = Transitions()
    sticky = 0.5 + 3.0 * np.eye(3)
    assert family.exchangeable(sticky)
    np.testing.assert_array_equal(family.resized(sticky, 4), 0.5 + 3.0 * np.eye(4))
    sticky[0, 1] = 1.0
    assert not family.exchangeable(sticky)


def test_other_solvers_leave_transitions_out_and_say_what_the_merge_is_worth(rng):
    posteriors = sites(4, 3, rng, alike=0.0)
    for solver in (db.solvers.Matching(), db.solvers.Swaps(), db.solvers.Grouping()):
        found = db.align(posteriors, solver=solver)
        assert found.objective[-1] == pytest.approx(found.merged().log_partition(), rel=1e-10)
    assert all(
        np.isfinite(each[db.extending.CoupledSet(FACTORS)]).all() for each in db.merging.margins(db.align(posteriors))
    )


@pytest.mark.parametrize("states", [4, 7])
def test_margins_are_what_j_loses_by_the_next_best_relabelling_of_one_site(states, rng):
    posteriors = sites(states, 3, rng, alike=0.9)
    found = db.align(posteriors)
    assert found.optimality == ("site" if states == 4 else "swap"), "all relabellings of seven states are not tried"
    coupled = db.extending.CoupledSet(FACTORS)
    placed = [each[coupled] for each in found.assignments]
    parts = [[posterior.contribution[name] for name in FACTORS] for posterior in posteriors]

    def objective(site, slots):
        sums = [0.0, 0.0, 0.0]
        for own, place in zip(parts, [*placed[:site], slots, *placed[site + 1 :]], strict=True):
            order = np.argsort(place)
            emission, start, moves = own
            sums = [a + b for a, b in zip(sums, (emission[order], start[order], moves[order][:, order]), strict=True)]
        return log_normaliser(*sums)

    for site, margins in enumerate(db.merging.margins(found)):
        others = [np.array(order) for order in permutations(range(states))] if states == 4 else swapped(placed[site])
        reached = [(other, objective(site, other)) for other in others]
        best = [max(value for other, value in reached if other[k] != placed[site][k]) for k in range(states)]
        np.testing.assert_allclose(margins[coupled], objective(site, placed[site]) - np.array(best), atol=1e-8)
        assert (margins[coupled] > -1e-8).all()


def test_a_site_alone_has_no_other_slot_for_its_states(rng):
    (margins,) = db.merging.margins(db.align(sites(3, 1, rng)))
    assert np.isposinf(margins[db.extending.CoupledSet(FACTORS)]).all()


def swapped(slots):
    """All ways to exchange two entries."""
    for one, other in product(range(len(slots)), repeat=2):
        if one < other:
            found = slots.copy()
            found[[one, other]] = slots[[other, one]]
            yield found


def test_a_symmetrised_density_of_chains_is_refused_and_draws_move_rows_and_columns(rng):
    (posterior,) = sites(3, 1, rng)
    symmetrised = db.merging.symmetrize(posterior)
    draws = symmetrised.sample(4000, rng)
    stays = np.diagonal(draws["transitions"], axis1=1, axis2=2)
    expected = np.diag(posterior.mean("transitions")).mean()
    assert stays.mean() == pytest.approx(expected, abs=0.02)
    with pytest.raises(TooManyRelabellings, match="transitions"):
        symmetrised.log_density(draws)


def test_a_permutation_is_proven_best_where_it_reaches_the_bound_and_nowhere_else(rng):
    """Chains of a single kind of move are alike in any order: the bound is exact. Others stay below it."""
    states = 9
    gain = rng.normal(size=(states, states))
    alike = Match(gain, [np.full((states, states), 0.5)], [np.full((states, states), 3.0)])
    best = np.array(linear_sum_assignment(gain, maximize=True)[1])
    assert alike.value(best) == pytest.approx(alike.bound(), rel=1e-12)
    assert alike.proves(best)
    assert not alike.proves(best[::-1])
    unlike = Match(gain, [rng.uniform(0.5, 9.0, (states, states))], [rng.uniform(0.0, 9.0, (states, states))])
    assert not any(unlike.proves(rng.permutation(states)) for _ in range(20))
