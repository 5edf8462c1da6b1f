"""Who has what after a merge."""

import numpy as np
import pytest
from scipy.special import xlogy
from structures import topics

import decbayes as db
from decbayes.merging.grouping.shared import near_duplicates

SHARED, LEFT, RIGHT = np.array([[30.0, 20, 0, 0, 0, 0], [0, 0, 40.0, 10, 0, 0], [0, 0, 0, 0, 15.0, 25]])


def known(counts):
    return xlogy(counts, counts).sum() - xlogy(counts.sum(), counts.sum())


@pytest.fixture
def shared():
    """One topic that both sites have, with twice the evidence at the second; one of each alone; no more slots."""
    sites = [db.Posterior(topics(2, 6), {"topics": np.array(rows)}) for rows in ((SHARED, LEFT), (RIGHT, 2 * SHARED))]
    alignment = db.align(sites, components=3)
    (coupled,) = alignment.structure.symmetry
    return alignment, alignment.shared()[coupled], [each[coupled] for each in alignment.assignments]


def test_evidence_is_what_each_site_has_put_into_each_slot(shared):
    _, found, slots = shared
    (both, left), (right, _) = slots
    assert slots[1][1] == both
    expected = np.zeros((2, 3))
    expected[0, both], expected[0, left], expected[1, right], expected[1, both] = 50.0, 50.0, 40.0, 100.0
    np.testing.assert_allclose(found.evidence, expected)
    assert found.sites(int(both)) == [1, 0]
    assert found.sites(int(left)) == [0]
    assert sorted(found.private) == sorted([(int(left), 0), (int(right), 1)])
    assert found.unlike == ()
    assert found.duplicates == ()
    np.testing.assert_array_equal(np.isnan(found.apart), expected == 0.0)
    np.testing.assert_allclose(np.nan_to_num(found.apart), 0.0, atol=1e-9)


def test_a_version_loses_what_it_knows_alone_less_what_it_adds():
    first, second = np.array([30.0, 20, 0, 0, 0, 0]), np.array([20.0, 10, 25.0, 0, 0, 0])
    sites = [db.Posterior(topics(1, 6), {"topics": row[None]}) for row in (first, second)]
    alignment = db.align(sites, components=1, solver=db.solvers.Grouping(passes=0))
    (found,) = alignment.shared().values()
    lost = known(first) + known(second) - known(first + second)
    np.testing.assert_allclose(found.apart[:, 0], [lost / 50.0, lost / 55.0])


def test_an_alignment_says_which_slots_hold_unlike_things_and_what_to_do(rng):
    rows = [rng.poisson(4.0 * (SHARED if site % 2 else RIGHT)).astype(float) for site in range(12)]
    sites = [db.Posterior(topics(1, 6), {"topics": row[None]}) for row in rows]
    one, two = (db.align(sites, components=number) for number in (1, 2))
    strangers, said = db.merging.remarks(one)
    assert strangers.what.startswith("2 groups of sites share hardly any words")
    assert said.what == "Slot 0 holds components that differ: with more than 1 slot the merge would be finer."
    assert str(one) == f"12 posteriors in 1 slot, J = {one.objective[-1]:,.1f}\n{strangers}\n{said}"
    assert "components that differ" in one._repr_html_()
    assert [remark.kind for remark in db.merging.remarks(two)] == ["nothing shared"]
    assert str(two).startswith(f"12 posteriors in 2 slots, J = {two.objective[-1]:,.1f}\n2 groups of sites")


@pytest.mark.parametrize(("second", "unlike"), [(SHARED, ()), (RIGHT, (0,))])
def test_a_slot_that_holds_two_things_is_named(second, unlike, rng):
    """Twelve sites with one topic each, of one kind or of two, in a single slot."""
    rows = [rng.poisson(4.0 * (SHARED if site % 2 else second)).astype(float) for site in range(12)]
    sites = [db.Posterior(topics(1, 6), {"topics": row[None]}) for row in rows]
    (found,) = db.align(sites, components=1, solver=db.solvers.Grouping(passes=0)).shared().values()
    assert found.unlike == unlike


def test_slots_that_are_nearly_the_same_are_named_with_the_smaller_first():
    twin = np.array([3000.0, 2010, 0, 0, 0, 0])
    sites = [db.Posterior(topics(2, 6), {"topics": np.array([100 * SHARED, LEFT])})] * 2
    sites += [db.Posterior(topics(3, 6), {"topics": np.array([twin, LEFT, RIGHT])})]
    alignment = db.align(sites, components=3, solver=db.solvers.Matching())
    (coupled,) = alignment.structure.symmetry
    assert alignment.shared()[coupled].duplicates == ()
    losses, evidence = np.full((3, 3), 9.0), np.array([100.0, 10.0, 400.0])
    losses[0, 2] = losses[2, 0] = 4.9
    losses[0, 1] = losses[1, 0] = 0.51
    assert near_duplicates(losses, evidence) == ((0, 2),)
    losses[0, 1] = 0.49
    assert near_duplicates(losses, evidence) == ((0, 1), (0, 2))
    assert near_duplicates(np.zeros((2, 2)), np.array([5.0, 0.0])) == ()


def test_a_single_site_has_nothing_to_itself():
    (found,) = db.align([db.Posterior(topics(2, 6), {"topics": np.array([SHARED, LEFT])})]).shared().values()
    assert found.private == []


@pytest.mark.parametrize("variance", [0.04, 25.0])
def test_evidence_of_features_is_how_many_observations_have_them(variance, rng):
    """Whatever the noise, in units of which their precision is."""
    model = db.LatentFeatures(2, dimension=3, variance=variance)
    used, rows = np.array([[30.0, 10.0], [20.0, 40.0]]), np.array([[5.0, 0.0, 0.0], [0.0, 0.0, -5.0]])
    posteriors = [
        db.Posterior(
            model.structure,
            {
                "features": np.column_stack([own[:, None] * rows / variance, -0.5 * own / variance]),
                "inclusion": np.column_stack([own, 50.0 - own]),
            },
        )
        for own in used
    ]
    alignment = db.align(posteriors)
    (found,) = alignment.shared().values()
    (coupled,) = model.structure.symmetry
    placed = [own[order[coupled]] for own, order in zip(used, alignment.permutations, strict=True)]
    np.testing.assert_allclose(found.evidence, placed)
    np.testing.assert_allclose(db.merging.influence(alignment).evidence, placed)


def test_a_yes_or_no_of_several_questions_stands_for_all_who_were_asked():
    family = db.families.Beta()
    rows = family.rows(np.array([[3.0, 1.0, 2.0, 2.0], [0.0, 4.0, 1.0, 0.0]]))
    np.testing.assert_array_equal(family.observations(np.zeros((1, 4)), rows), [5.0, 4.0])
