"""Bounds and proofs against all alignments of small problems, one by one."""

from itertools import permutations, product

import numpy as np
import pytest

import decbayes as db
from decbayes.families import dense
from decbayes.merging.base.components import Components, bases
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.grouping.search import SlotSearch
from decbayes.merging.reading import _proofs


def clusters(rng, sites, components=3, spread=2.0, points=12):
    model = db.GaussianMixture(components, 1, variance=1.0, prior_variance=25.0, ascent=db.Ascent(restarts=1))
    centres = spread * np.arange(components)
    shards = [(centres[rng.integers(components, size=points)] + rng.normal(size=points))[:, None] for _ in range(sites)]
    return [model.fit(shard, rng=rng).posterior for shard in shards]


def counts(rng, sites, components=3):
    """Topics as plain counts: a family without a weight factor."""
    model = db.LatentDirichletAllocation(components, tuple("abcde"), 0.5, 0.5)
    return [db.Posterior(model.structure, {"topics": rng.gamma(0.5, 8.0, (components, 5))}) for _ in range(sites)]


def objectives(posteriors):
    """J of every relative labelling, with the permutations of all but the first posterior."""
    structure = posteriors[0].structure
    size = structure.components(structure.symmetry[0])
    for chosen in product(permutations(range(size)), repeat=len(posteriors) - 1):
        orders = [tuple(range(size)), *chosen]
        pairs = list(zip(posteriors, orders, strict=True))
        natural = {
            name: prior + sum(dense(posterior.contribution[name])[list(order)] for posterior, order in pairs)
            for name, prior in structure.prior.items()
        }
        yield orders, sum(structure.families[name].log_partition(part) for name, part in natural.items())


@pytest.mark.parametrize("draw", [clusters, counts])
@pytest.mark.parametrize("sites", [2, 3, 4])
def test_no_alignment_exceeds_the_bound_and_it_is_exact_for_two(draw, sites, rng):
    for _ in range(3):
        posteriors = draw(rng, sites)
        best = max(value for _, value in objectives(posteriors))
        bound = db.merging.upper_bound(db.align(posteriors, solver="matching"))
        assert bound >= best - 1e-9 * abs(best)
        if sites == 2:
            assert bound == pytest.approx(best, rel=1e-12)


def by_copies(posteriors):
    """The bound from N copies of each posterior alone, with its labels: they are all alike."""
    structure, count = posteriors[0].structure, len(posteriors)
    total = 0.0
    for name, prior in structure.prior.items():
        family, parts = structure.families[name], [np.asarray(p.contribution[name]) for p in posteriors]
        total += np.mean([family.row_terms(prior + count * part).sum() for part in parts])
        total += family.shared_term(prior + sum(parts))
    return total


def test_pairs_leave_at_most_half_the_gap_of_copies(rng):
    gaps = []
    for _ in range(6):
        posteriors = clusters(rng, 4, points=30)
        best = max(value for _, value in objectives(posteriors))
        bound = db.merging.upper_bound(db.align(posteriors, solver="matching"))
        gaps.append((bound - best, by_copies(posteriors) - best))
    pairs, copies = np.sum(gaps, axis=0)
    assert pairs <= 0.7 * copies


@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_what_is_proven_is_so_in_every_best_alignment(spread, rng):
    proofs = 0
    for _ in range(3):
        posteriors = clusters(rng, 3, spread=spread, points=25)
        found = db.align(posteriors, solver="matching")
        (coupled,) = found.structure.symmetry
        said = [site[coupled] for site in db.merging.proven(found)]
        reached = found.objective[-1]
        at_least = [orders for orders, value in objectives(posteriors) if value >= reached - 1e-9 * abs(reached)]
        slots = found.slots(coupled)
        for site, component in np.argwhere(np.array(said)):
            now = {(other, int(np.flatnonzero(slots[other] == slots[site][component])[0])) for other in range(3)}
            for orders in at_least:
                slot = orders[site].index(component)
                assert any((other, orders[other][slot]) in now for other in range(3) if other != site)
        proofs += int(np.sum(said))
    if spread > 5.0:
        assert proofs == 27


def test_nothing_is_proven_of_alignments_where_components_share_slots(rng):
    found = db.align(clusters(rng, 3), components=2)
    assert not any(site[coupled].any() for site in db.merging.proven(found) for coupled in site)


def groupings(found, coupled):
    """Σ F of every way to put all components into the slots."""
    problem = found.problem(coupled)
    components = Components.of(problem.factors, [*problem.contents])
    base = bases(components.factors, float(components.evidence.sum()), problem.components)
    for labels in product(range(problem.components), repeat=len(components)):
        yield SlotSearch(components, np.array(labels), base, problem.components).value()


@pytest.mark.parametrize("spread", [1.0, 10.0])
def test_no_grouping_exceeds_the_bound(spread, rng):
    posteriors = clusters(rng, 3, components=2, spread=spread, points=20)
    found = db.align(posteriors)
    (coupled,) = found.structure.symmetry
    value, bound = db.merging.grouping_bound(found)[coupled]
    best = max(groupings(found, coupled))
    assert value <= best + 1e-9 * abs(best)
    assert best <= bound + 1e-9 * abs(best)


def test_the_bound_of_fused_clusters_counts_what_one_slot_loses(rng):
    """Two clusters far apart in one slot: at least one of each pair of components is in the wrong place."""
    posteriors = clusters(rng, 3, components=2, spread=20.0, points=30)
    fused = db.align(posteriors, components=1)
    (coupled,) = fused.structure.symmetry
    (value, bound), (_, apart) = (db.merging.grouping_bound(each)[coupled] for each in (fused, db.align(posteriors)))
    assert value <= bound
    # Three disjoint pairs, one of each site's clusters: each join loses most of what the fused slot loses per pair.
    assert bound < apart - 500.0


def test_what_pairs_prove_does_not_depend_on_another_bound(rng, monkeypatch):
    """The gap is that of the smaller bound; what pairs would lose is counted from theirs."""
    alignment = db.align(clusters(rng, 4, spread=6.0), solver="matching")
    (coupled,) = alignment.structure.symmetry
    reached = alignment.objective[-1]
    of_pairs = _proofs.pair_bound(coupled_problem(alignment.posteriors, coupled, alignment.structure))
    proven = {}
    for lower in (0.0, -1e-3, 1e3):
        monkeypatch.setattr(_proofs, "problem_bound", lambda problem, lower=lower: of_pairs - lower)
        smallest = of_pairs - max(lower, 0.0)
        proven[lower] = np.array(_proofs.proven_in(alignment, coupled, smallest - reached))
    assert proven[0.0].any()
    np.testing.assert_array_equal(proven[-1e-3], proven[0.0])
    np.testing.assert_array_equal(proven[1e3], proven[0.0])
    assert not np.any(_proofs.proven_in(alignment, coupled, 1e6))
