"""Updates, forgetting and joins of slots by what they promise, number by number."""

from dataclasses import replace
from itertools import pairwise
from math import factorial, log

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.updates import Epoch, Update, joining
from decbayes.updates.forgetting import GRID, checked_forgetting, forget, kept_shares, learned_shares, spacing
from decbayes.updates.joining import best_number, cheapest_joins, doubled, joined, log_orders, narrowed, wide_start
from decbayes.updates.rounds import (
    Sent,
    check_joins,
    joinable,
    slots_of,
)
from decbayes.updates.update import shift, without

MEAN = db.models.GaussianMean(variance=2.0, prior_variance=9.0, dimension=1)
PRIOR = db.Posterior.of_prior(MEAN.structure)


def of(value, rows=4):
    return MEAN.fit(np.full((rows, 1), float(value))).posterior


def parts(posterior):
    return np.asarray(posterior.contribution["mean"]).ravel()


# ---- one site


@pytest.mark.parametrize("epoch", [None, Epoch(of(5.0, 3), {"a": ("x",)})])
def test_a_refit_is_the_data_whatever_the_others_have(epoch):
    """With one conjugate component: c = Σ T(x), of new data on top, and of all data against any cavity."""
    update = Update(MEAN, epoch)
    own, others = (db.Posterior(update.nothing.structure, {"mean": of(v).contribution["mean"]}) for v in (1.0, 7.0))
    merged = db.merging.product([own, others])
    again = update.relearn(np.full((6, 1), 2.0), own, merged, rng=None)
    np.testing.assert_allclose(parts(again), parts(of(2.0, 6)), atol=1e-9)
    more = update.learn(np.full((2, 1), 9.0), own, rng=None)
    np.testing.assert_allclose(parts(more), parts(own) + parts(of(9.0, 2)), atol=1e-9)
    assert again.structure == update.nothing.structure
    first = update.learn(np.full((2, 1), 9.0), update.nothing, rng=None)
    np.testing.assert_allclose(parts(first), parts(of(9.0, 2)), atol=1e-9)
    both = update.relearn_all([np.full((6, 1), 2.0), np.full((5, 1), 3.0)], [own, others], merged, rng=None)
    np.testing.assert_allclose([*map(parts, both)], [parts(of(2.0, 6)), parts(of(3.0, 5))], atol=1e-9)


@pytest.mark.parametrize("damping", [0.25, 0.5, 1.0])
def test_a_damped_update_goes_part_of_the_way(damping):
    update, own = Update(MEAN, damping=damping), of(1.0)
    merged = db.merging.product([own, of(7.0)])
    expected = (1 - damping) * parts(own) + damping * parts(of(2.0, 6))
    np.testing.assert_allclose(parts(update.relearn(np.full((6, 1), 2.0), own, merged, rng=None)), expected, atol=1e-9)
    (found,) = update.relearn_all([np.full((6, 1), 2.0)], [own], merged, rng=None)
    np.testing.assert_allclose(parts(found), expected, atol=1e-9)
    for wrong in (0.0, 1.01, -0.5, "1"):
        with pytest.raises(ValueError, match="damping must be above 0 and at most 1"):
            Update(MEAN, damping=wrong)
    assert Update(MEAN).damping == 1.0


def test_an_epoch_keeps_what_came_before_apart():
    epoch = Epoch(of(5.0, 3), {"b": ("y", "x", "y"), "a": ("z",)}, 3)
    assert [*epoch.counted.items()] == [("a", ("z",)), ("b", ("x", "y"))]
    added = db.Posterior(epoch.structure, {"mean": of(1.0).contribution["mean"]})
    whole = epoch.whole(added)
    np.testing.assert_allclose(parts(whole), parts(of(5.0, 3)) + parts(of(1.0)))
    assert whole.structure == MEAN.structure
    np.testing.assert_allclose(parts(epoch.part(whole)), parts(of(1.0)), atol=1e-12)
    np.testing.assert_allclose(epoch.structure.prior["mean"], of(5.0, 3).natural["mean"])
    assert (Epoch(PRIOR).counted, Epoch(PRIOR).observations) == ({}, 0)


def test_without_takes_away_and_a_shift_is_in_deviations():
    """KL of two Gaussians of one precision is half their squared distance in deviations, over two parameters."""
    np.testing.assert_allclose(parts(without(of(3.0, 6), of(1.0, 2))), parts(of(3.0, 6)) - parts(of(1.0, 2)))
    one = of(1.0)
    precision = 1 / 9 + 4 / 2
    moved = db.Posterior(MEAN.structure, {"mean": parts(one)[None] + [[0.7, 0.0]]})
    assert shift(one, moved) == pytest.approx(0.7 / precision * np.sqrt(precision) / np.sqrt(2), rel=1e-9)
    # Of other precisions: that of the later posterior from the earlier one.
    later = of(2.0, 9)
    ratio = precision / (1 / 9 + 9 / 2)
    away = later.mean("mean").item() - one.mean("mean").item()
    divergence = 0.5 * (ratio - 1.0 - log(ratio) + precision * away**2)
    assert shift(one, later) == pytest.approx(np.sqrt(2 * divergence / 2), rel=1e-9)
    assert shift(one, one) == pytest.approx(0.0, abs=1e-6)
    assert shift(PRIOR, PRIOR) == 0.0


# ---- forgetting


def test_a_learned_share_is_the_mean_under_its_posterior():
    """E[ρ] = ∫ ρ p(c′ | ρ) e^{5ρ} dρ / ∫ p(c′ | ρ) e^{5ρ} dρ, on a fine grid, for a Gaussian mean."""
    for value in (5.0, 6.0, 9.0):
        earlier, added = of(5.0, 30), of(value, 5)
        fine = np.linspace(0.0, 1.0, 1001)
        family, prior = MEAN.structure.families["mean"], MEAN.structure.prior["mean"]
        heights = []
        for share in fine:
            before = prior + share * parts(earlier)[None]
            heights.append(
                family.log_partition(before + parts(added)[None]) - family.log_partition(before) + 5.0 * share
            )
        weights = np.exp(np.array(heights) - max(heights))
        expected = (weights @ fine) / weights.sum()
        assert learned_shares(earlier, added)["mean"] == pytest.approx([expected], abs=0.01)
        left = forget(earlier, "learn", new=added)
        np.testing.assert_allclose(parts(left), learned_shares(earlier, added)["mean"] * parts(earlier))
    assert learned_shares(of(5.0), PRIOR)["mean"].tolist() == [1.0], "nothing new"


def test_rows_without_new_data_are_kept_and_weights_are_forgotten_together():
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    earlier = model.from_assignments(np.repeat([[-5.0], [5.0]], 20, axis=0), np.repeat([0, 1], 20))
    added = model.from_assignments(np.full((9, 1), 40.0), np.zeros(9, dtype=int))
    found = learned_shares(earlier, added)
    assert found["components"][1] == 1.0
    assert found["components"][0] < 0.2
    assert found["weights"][0] == found["weights"][1] < 1.0
    assert spacing().sum() == pytest.approx(1.0)
    middles = [0.0, *((a + b) / 2 for a, b in pairwise(GRID)), 1.0]
    np.testing.assert_allclose(spacing(), np.diff(middles))
    assert (GRID[0], GRID[-1], len(GRID)) == (0.0, 1.0, 41)
    assert GRID[20] == pytest.approx(0.5)
    assert GRID[10] == pytest.approx(np.sin(np.pi / 8) ** 2)
    family = model.structure.families["components"]
    assert kept_shares(
        family, model.structure.prior["components"], earlier.contribution["components"], np.zeros((2, 2))
    ).tolist() == [1.0, 1.0]


def test_a_share_is_forgotten_of_every_row():
    for share, kept in ((None, 1.0), (0, 1.0), (0.25, 0.75), (0.999, 0.001)):
        np.testing.assert_allclose(parts(forget(of(5.0), share)), kept * parts(of(5.0)))
    assert [checked_forgetting(each) for each in (None, "learn", 0, 0.5)] == [None, "learn", 0.0, 0.5]
    for wrong in (1.0, -0.1, "much", True, ""):
        with pytest.raises(ValueError, match="share from 0 to below 1"):
            checked_forgetting(wrong)
    with pytest.raises(StructureMismatch, match="The new data belong to"):
        forget(of(5.0), "learn", new=db.models.GaussianMean(variance=3.0, dimension=1).fit(np.ones((3, 1))).posterior)
    with pytest.raises(TypeError, match="new"):
        forget(of(5.0), "learn")


# ---- joins of slots

MIXTURE = db.GaussianMixture(4, 1, variance=1.0, prior_variance=400.0)
CENTRES = np.array([-30.0, -29.0, 0.0, 30.0])


def slots(counts, centres=CENTRES, model=MIXTURE):
    counts = np.array(counts, dtype=float)
    model = replace(model, components=len(counts))
    components = np.stack([counts * centres[: len(counts)], -counts / 2], axis=1)
    return db.Posterior(model.structure, {"weights": counts[:, None], "components": components})


def test_joins_are_those_that_lose_least_one_after_another():
    merged = slots([10, 12, 8, 9])
    joins = cheapest_joins(merged)
    assert joins[0] == (0, 1), "slots a unit apart"
    assert len(joins) == 3
    for made in range(4):
        found = joined(merged, joins[:made])
        assert slots_of(found) == 4 - made
        np.testing.assert_allclose(
            found.contribution["components"].sum(axis=0), merged.contribution["components"].sum(axis=0)
        )
    # The last slot takes the place of the one that was joined to another.
    two = joined(merged, ((0, 1),))
    np.testing.assert_allclose(two.contribution["weights"].ravel(), [22.0, 9.0, 8.0])
    three = joined(merged, ((0, 1), (1, 2)))
    np.testing.assert_allclose(three.contribution["weights"].ravel(), [22.0, 17.0])
    assert joined(merged, ()) is merged


def test_slots_are_joined_down_to_a_number_or_to_the_best_bound():
    rng = np.random.default_rng(0)
    shards = [np.repeat(CENTRES[[0, 2, 3]], 15)[:, None] + rng.normal(size=(45, 1)) for _ in range(2)]
    labels = np.repeat([0, 2, 3], 15)
    labels[:7] = 1
    own = [MIXTURE.from_assignments(shard, labels) for shard in shards]
    for target, left in ((2, 2), (4, 4), (9, 4), ("auto", 3)):
        assert {slots_of(each) for each in narrowed(MIXTURE, shards, own, target, rng)} == {left}
    joins = cheapest_joins(db.merging.product(own))
    heights = [joining.site_heights(MIXTURE, shard, db.merging.product(own), joins, 2, rng) for shard in shards]
    for made in range(4):
        after = joined(db.merging.product(own), joins[:made])
        whole = joining.height_of(MIXTURE, shards, after, rng)
        assert sum(each[made] for each in heights) == pytest.approx(whole)
        assert whole - joining.bound(MIXTURE, shards, after, rng) == pytest.approx(log_orders(after))
        families, prior = after.structure.families, after.structure.prior
        apart = sum(family.kl(after.natural[name], prior[name]) for name, family in families.items())
        assert joining.learned(after) == pytest.approx(apart)
    assert best_number([[1.0, 5.0, 2.0], [1.0, 1.0, 6.0]]) == 2


def test_a_model_is_made_anew_only_for_another_number_of_components():
    model = replace(MIXTURE, ascent=db.Ascent(7))
    assert joining.sized(model, slots([1, 1, 1, 1])) is model
    other = joining.sized(model, slots([1, 1, 1]))
    assert (other.components, other.ascent) == (3, db.Ascent(7))


def test_orders_of_slots_are_counted_but_for_empty_ones():
    assert log_orders(slots([10, 12, 8, 9])) == pytest.approx(log(factorial(4)))
    assert log_orders(slots([10, 0, 8, 0])) == pytest.approx(log(factorial(4) / factorial(2)))


@pytest.mark.parametrize(
    ("first", "most", "numbers"), [(8, 50, [8, 16, 32, 50]), (8, 16, [8, 16]), (8, 8, [8]), (9, 8, [8])]
)
def test_numbers_double_up_to_the_most(first, most, numbers):
    assert [*doubled(first, most)] == numbers


def test_sites_begin_wide_with_twice_the_slots_if_there_are_rows_for_them():
    """Ten rows for each component, and at least as many as a search begins with."""
    far = np.linspace(-90.0, 90.0, 6)
    one = slots([40] * 6, far)
    numbers = joining.wide_numbers([one, one])
    merged = slots_of(db.align([one, one]).merged())
    expected = [n for n in doubled(max(joining.FIRST, 2 * merged), 480 // 10) if n > 6]
    assert numbers == expected
    assert numbers[-1] == 48
    few = slots([2] * 6, far)
    assert joining.wide_numbers([few]) == [], "no rows for more"
    assert joining.wide_numbers([]) == []
    topics = db.LatentDirichletAllocation(2, tuple("abc"))
    assert joining.wide_numbers([db.Posterior.of_prior(topics.structure)]) == []
    sent = {"a": Sent(one), "b": Sent(one)}
    assert wide_start(sent) == numbers[0]
    assert wide_start({"a": Sent(one, auto=True), "b": Sent(one)}) == 0, "it has done so"
    assert wide_start({"a": Sent(one), "b": Sent(slots([40] * 3, far), auto=True)}) == 3, "as others have"
    begun = Sent(one, (one.digest,), 1, (one.digest,), "0" * 64)
    assert wide_start({"a": Sent(one), "b": begun}) == 0
    assert wide_start({"a": Sent(few)}) == 0
    assert [joinable(posterior) for posterior in (one, db.Posterior.of_prior(topics.structure))] == [True, False]
    assert slots_of(PRIOR) == 0


@pytest.mark.parametrize(
    ("joins", "heights", "fine"),
    [
        ((), (), True), (((0, 1),), (1.0, 2.0), True), (((0, 3), (1, 2), (0, 1)), (1.0, 2.0, 3.0, 4.0), True),
        (((0, 4),), (1.0, 2.0), False), (((1, 1),), (1.0, 2.0), False), (((2, 1),), (1.0, 2.0), False),
        (((-1, 1),), (1.0, 2.0), False), (((0, 3), (0, 3)), (1.0,) * 3, False), (((0, 1),), (1.0,), False),
        (((0, 1),), (1.0, 2), False), (((0, 1),), (1.0, float("inf")), False), ((), (1.0,), False),
        (((0.0, 1),), (1.0, 2.0), False), (((0, 1),) * 4, (1.0,) * 5, False),
    ],
)  # fmt: skip
def test_joins_name_slots_that_are_there(joins, heights, fine):
    if fine:
        check_joins(joins, heights, slots([1, 1, 1, 1]))
    else:
        with pytest.raises(ValueError):
            check_joins(joins, heights, slots([1, 1, 1, 1]))
