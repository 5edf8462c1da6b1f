"""What is changed by hand: components of all sites are divided, joined and dropped, and nothing is lost."""

import numpy as np
import pytest

import decbayes as db

MODEL = db.GaussianMixture(1, 1, variance=1.0, prior_variance=100.0)


def sites(*places):
    return [MODEL.fit(np.full((count, 1), place), rng=0).posterior for place, count in places]


def test_the_smaller_half_of_a_slot_leaves_it():
    """Components near −9 hold 12 observations, those near 9 hold 30: these stay, and both sums are what they were."""
    alignment = db.align(sites((-9.0, 4), (9.0, 10), (-8.5, 8), (9.5, 20)), components=1)
    before, lineage = alignment.merged(), db.merging.split(alignment, 0)
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
    with pytest.raises(db.errors.StructureMismatch, match="nothing to divide"):
        db.merging.split(db.align(sites((1.0, 5)), components=1), 0)


def test_joined_and_dropped_components_take_their_counts_along():
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    merged = db.merge([model.fit(np.repeat([[-9.0], [0.0], [9.0]], [5, 7, 11], axis=0), rng=1).posterior])
    order = np.argsort(merged.mean("components")[:, 0]).tolist()
    one = db.merging.join(merged, order[0], order[1]).posterior
    np.testing.assert_allclose(np.sort(one.contribution["weights"][:, 0]), [11.0, 12.0], atol=1e-3)
    two = db.merging.drop(merged, order[2]).posterior
    np.testing.assert_allclose(np.sort(two.contribution["weights"][:, 0]), [5.0, 7.0], atol=1e-3)
    assert two.structure.prior["components"].shape[0] == 2


@pytest.mark.parametrize("components", [(), (0, 1, 2)])
def test_some_component_is_dropped_and_some_stays(components):
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
    posterior = model.fit(np.array([[-9.0], [0.0], [9.0]]), rng=1).posterior
    with pytest.raises(db.errors.StructureMismatch, match="at least one must be left"):
        db.merging.drop(posterior, *components)
