"""Orders that depend on contents alone, and what an alignment says of itself."""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from structures import draw, everything, mixture, relabel, topics

import decbayes as db
from decbayes.families import Dirichlet, NormalGamma, Transitions, Weights
from decbayes.merging.base.canonical import canonical_readings


def in_canonical_order(posterior):
    """Each set's rows as the merge reads them."""
    reading = canonical_readings([posterior])[0]
    return [
        [db.families.dense(posterior.contribution[name])[order].tobytes() for name in coupled.factors]
        for coupled, order in reading.components.items()
    ]


@pytest.mark.parametrize("seed", range(3))
def test_labels_change_neither_the_rank_nor_the_order_of_components(seed):
    rng = np.random.default_rng(seed)
    posterior = draw(everything(), rng)
    other = relabel(posterior, rng)
    assert canonical_readings([other])[0].rank[:2] == canonical_readings([posterior])[0].rank[:2]
    assert canonical_readings([other])[0].rank[2] != canonical_readings([posterior])[0].rank[2]
    assert in_canonical_order(other) == in_canonical_order(posterior)


def test_ranks_hold_no_digits_in_which_processors_differ(rng):
    posterior = draw(topics(3, 8), rng)
    evidence = -canonical_readings([posterior])[0].rank[0]
    prior = topics(3, 8).prior["topics"]
    exact = Dirichlet().kl(prior + posterior.contribution["topics"].toarray(), prior)
    assert evidence == pytest.approx(exact, rel=1e-6)
    assert evidence == float(f"{evidence:.6e}")


@pytest.mark.parametrize("solver", [db.solvers.Matching(), db.solvers.Swaps(), db.solvers.Exhaustive()], ids=repr)
def test_the_objective_is_that_of_all_factors_of_the_merge(solver, rng):
    posteriors = [draw(everything(), rng) for _ in range(3)]
    alignment = db.align(posteriors, solver=solver)
    assert alignment.objective[-1] == pytest.approx(alignment.merged().log_partition(), rel=1e-10)


@dataclass(frozen=True)
class Uneven:
    """A solver that proves much about three components and less about four."""

    def solve(self, problem):
        return (db.solvers.Exhaustive() if problem.components == 3 else db.solvers.Swaps()).solve(problem)


def test_of_several_sets_the_weakest_proof_is_stated(rng):
    posteriors = [draw(everything(), rng) for _ in range(3)]
    assert db.align(posteriors, solver=Uneven()).optimality == "swap"


@pytest.mark.parametrize("seed", range(10))
def test_matching_goes_on_until_no_site_would_change(seed):
    rng = np.random.default_rng(seed)
    posteriors = [draw(mixture(5), rng) for _ in range(6)]
    assert db.align(posteriors, solver=db.solvers.Matching(restarts=0)).optimality == "site"


@pytest.mark.parametrize("solver", [db.solvers.Matching(), db.solvers.Swaps(), db.solvers.Exhaustive()], ids=repr)
def test_matched_components_go_where_evidence_outweighs_their_doubt(solver):
    """Words of the second site go together with the wrong topic's, because only there its doubt is outweighed."""
    structure = topics(2, 3)
    doubtful = db.Posterior(structure, {"topics": np.array([[9.0, -0.04, 0.0], [0.0, 0.0, 0.0]])})
    sure = db.Posterior(structure, {"topics": np.array([[30.0, 0.0, 0.0], [0.0, 0.05, 30.0]])})
    for order in permutations([doubtful, doubtful, sure]):
        merged = db.merge(order, solver=solver, duplicates="allow")
        assert (merged.parameters("topics")["alpha"] > 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_components_that_share_a_slot_are_added_in_an_order_of_their_own(seed):
    rng = np.random.default_rng(seed)
    structure = mixture(6)
    posteriors = [draw(structure, rng) for _ in range(2)]
    posteriors = [
        db.Posterior(structure, {name: part * np.pi ** rng.uniform(-9, 9) for name, part in p.contribution.items()})
        for p in posteriors
    ]
    relabelled = [relabel(posterior, rng) for posterior in posteriors]
    assert db.merge(posteriors, components=1) == db.merge(relabelled, components=1)


@pytest.mark.parametrize("seed", range(6))
def test_shares_of_divided_components_belong_to_the_slots_as_they_are_named(seed):
    """Four topics of four words; two sites have them, in orders of their own, and one has two of them in one."""
    rng = np.random.default_rng(seed)
    truth = np.kron(np.eye(4), np.full(4, 100.0))
    orders = [rng.permutation(4) for _ in range(3)]
    sites = [db.Posterior(topics(4, 16), {"topics": rng.poisson(truth[order]).astype(float)}) for order in orders]
    both = rng.poisson(0.2 * (truth[0] + truth[1])).astype(float)
    sites.append(db.Posterior(topics(1, 16), {"topics": both[None]}))
    alignment = db.align(sites)
    (coupled,) = alignment.structure.symmetry
    division = alignment.divisions[coupled]
    for assignment, shares in list(zip(alignment.assignments, division.shares, strict=True))[:3]:
        np.testing.assert_array_equal(division.names[shares.argmax(axis=1)], assignment[coupled])
    merged = alignment.merged().contribution["topics"].toarray()
    slots = alignment.assignments[0][coupled]
    for topic, slot in zip(orders[0], slots, strict=True):
        assert merged[slot, 4 * topic : 4 * topic + 4].sum() > 0.98 * merged[slot].sum()


def test_posteriors_are_read_together_as_they_are_read_alone(rng):
    """Some of them have another number of components."""
    posteriors = [draw(mixture(components), rng) for components in (2, 3, 3, 2)]
    again = [db.Posterior(posterior.structure, posterior.contribution) for posterior in posteriors]
    alone = [canonical_readings([posterior])[0].rank for posterior in again]
    assert [reading.rank for reading in canonical_readings(posteriors)] == alone


def sticky_sites(rng, count=4, states=4):
    """Contributions of sites with chains that stay where they are."""
    for _ in range(count):
        amounts, means = rng.uniform(50, 60, states), 3.0 * np.arange(states) + rng.normal(0, 0.2, states)
        emissions = np.column_stack([0.5 * amounts, -0.5 * amounts * (1 + means**2), amounts * means, -0.5 * amounts])
        yield {"start": rng.random((states, 1)), "moves": rng.gamma(1, 10, (states, states)), "states": emissions}


def test_labels_of_states_change_no_rank_where_chains_are_sticky(rng):
    """A prior whose diagonal differs: rows and columns of a chain's moves have one order."""
    states = 4
    one = np.ones((states, 1))
    prior = {
        "start": Weights().natural(alpha=np.ones(states)),
        "moves": Transitions().natural(alpha=1.0 + 20 * np.eye(states)),
        "states": NormalGamma().natural(mean=0 * one, strength=one, shape=one, rate=one),
    }
    families = {"start": Weights(), "moves": Transitions(), "states": NormalGamma()}
    structure = db.extending.Structure(families, prior, (db.extending.CoupledSet(("start", "moves", "states")),))
    for own in sticky_sites(rng):
        order = rng.permutation(states)
        other = {name: part[order] for name, part in own.items()} | {"moves": own["moves"][np.ix_(order, order)]}
        known, relabelled = canonical_readings([db.Posterior(structure, each) for each in (own, other)])
        assert known.rank[:2] == relabelled.rank[:2]
