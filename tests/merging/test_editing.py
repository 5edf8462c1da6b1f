"""What is changed by hand: components of all sites are divided, joined and dropped, and nothing is lost."""

from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.merging.base.lineage import ids_of
from decbayes.remarks import Remark

MODEL = db.GaussianMixture(1, 1, variance=1.0, prior_variance=100.0)


def sites(*places):
    return [MODEL.fit(np.full((count, 1), place), rng=0).posterior for place, count in places]


def test_the_smaller_half_of_a_slot_leaves_it():
    """Components near −9 hold 12 observations, those near 9 hold 30: these stay, and both sums are what they were."""
    merged = sites((-9.0, 4), (9.0, 10), (-8.5, 8), (9.5, 20))
    before = db.merge(merged, components=1)
    lineage = db.merging.split(before, 0, merged)
    after = lineage.posterior
    assert after.mean("components")[:, 0] == pytest.approx([9.33, -8.67], abs=0.1)
    np.testing.assert_allclose(after.contribution["weights"][:, 0], [30.0, 12.0])
    for factor in ("components", "weights"):
        np.testing.assert_allclose(after.contribution[factor].sum(axis=0), before.contribution[factor][0])
    (event,) = [event for event in lineage.events if event.kind == "split"]
    assert event.share == pytest.approx(12 / 42)
    assert (event.id, event.other) == (after.ids[1], after.ids[0])
    assert [event.id for event in lineage.events if event.kind == "kept"] == [after.ids[0]]
    assert any("Changed by hand" in str(remark) for remark in after.remarks)


def test_a_slot_with_one_component_cannot_be_split():
    with pytest.raises(StructureMismatch, match="nothing to divide"):
        db.merging.split(db.merge(sites((1.0, 5)), components=1), 0, sites((1.0, 5)))


def split_off(before, after, slot):
    """All that a split must leave as it is."""
    for factor, part in before.contribution.items():
        rows, now = db.families.dense(part), db.families.dense(after.contribution[factor])
        others = np.delete(np.arange(len(rows)), slot)
        np.testing.assert_array_equal(now[others], rows[others])
        np.testing.assert_allclose(now[slot] + now[-1], rows[slot], rtol=1e-6, atol=1e-6)
    assert after.ids[:-1] == ids_of(before)
    assert after.names[:-1] == before.names
    assert [*after.remarks[:-1]] == [*before.remarks]
    assert after.merged_from == before.merged_from


def test_a_robust_merge_is_divided_as_it_is():
    """The site that was left out stays out: a split that merged anew would count it."""
    given = sites(*[(place, 40) for place in (-1.0, -1.1, -0.9, 1.0, 1.1, 0.9)], (60.0, 40))
    merged = db.merging.name(db.merge(given, robust=True, components=1), {0: "all"})
    after = db.merging.split(merged, 0, given).posterior
    split_off(merged, after, 0)
    assert np.sort(after.mean("components")[:, 0]) == pytest.approx([-1.0, 1.0], abs=0.1)


def texts(rng, topics, seed):
    shares = rng.dirichlet(np.full(len(topics), 0.3), 60)
    counts = np.array([rng.multinomial(40, share @ topics) for share in shares])
    return (
        db.LatentDirichletAllocation(3, [f"w{n}" for n in range(30)], topic_prior=0.1).fit(counts, rng=seed).posterior
    )


def test_topics_are_divided_as_they_are_even_after_an_earlier_merge(rng):
    topics = rng.dirichlet(np.full(30, 0.1), 4)
    monday, tuesday = ([texts(rng, topics, seed) for seed in range(3)] for _ in range(2))
    merged = db.merge(tuesday, since=db.merge(monday, components=3))
    slot = int(np.argmax(merged.contribution["topics"].sum(axis=1)))
    split_off(merged, db.merging.split(merged, slot, tuesday).posterior, slot)


def test_a_merge_of_other_posteriors_is_not_divided():
    given = sites((-9.0, 4), (9.0, 10))
    with pytest.raises(StructureMismatch, match="do not add up to slot 0"):
        db.merging.split(db.merge(given, components=1), 0, sites((-9.0, 4), (9.0, 11)))


def test_joined_and_dropped_components_take_their_counts_along():
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    merged = db.merge([model.fit(np.repeat([[-9.0], [0.0], [9.0]], [5, 7, 11], axis=0), rng=1).posterior])
    order = np.argsort(merged.mean("components")[:, 0]).tolist()
    one = db.merging.join(merged, order[0], order[1]).posterior
    np.testing.assert_allclose(np.sort(one.contribution["weights"][:, 0]), [11.0, 12.0], atol=1e-3)
    two = db.merging.drop(merged, order[2]).posterior
    np.testing.assert_allclose(np.sort(two.contribution["weights"][:, 0]), [5.0, 7.0], atol=1e-3)
    assert two.structure.prior["components"].shape[0] == 2


@pytest.mark.parametrize("edit", [db.merging.drop, db.merging.join])
def test_remarks_on_sites_stay_and_those_that_number_components_go_with_their_numbers(edit):
    about_site = Remark("copies", "b: At least 20 of 90 documents have the same words as others.", "Leave copies out.")
    numbered = [Remark("x", what, "Look.") for what in ("Worth a look: topics 1 (a); 2 (b).", "Slot 1 holds two.")]
    merged = replace(db.merge(sites((-9.0, 4), (0.0, 9), (9.0, 10)), components=3), remarks=(*numbered, about_site))
    kept, by_hand = edit(merged, 1, *((2,) if edit is db.merging.join else ())).posterior.remarks
    assert kept == about_site
    assert "Changed by hand" in by_hand.what


@pytest.mark.parametrize("components", [(), (0, 1, 2)])
def test_some_component_is_dropped_and_some_stays(components):
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    posterior = model.fit(np.array([[-9.0], [0.0], [9.0]]), rng=1).posterior
    with pytest.raises(StructureMismatch, match="at least one must be left"):
        db.merging.drop(posterior, *components)


def test_topics_are_divided_only_if_all_posteriors_are_there(rng):
    topics = rng.dirichlet(np.full(30, 0.1), 4)
    given = [texts(rng, topics, seed) for seed in range(10)]
    merged = db.merge(given, components=3)
    with pytest.raises(StructureMismatch, match="do not add up to slot 0"):
        db.merging.split(merged, 0, given[:-1])
    split_off(merged, db.merging.split(merged, 0, given).posterior, 0)
