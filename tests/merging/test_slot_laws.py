"""What slots of Gaussian means are said to hold, against sums over their members, split by split."""

from itertools import product

import numpy as np
import pytest

import decbayes as db
from decbayes.merging.grouping.default_number import alike_in
from decbayes.merging.grouping.shared import shared_components
from decbayes.merging.reading._confidence import kept_together

VARIANCE = 2.0
MODEL = db.GaussianMixture(2, 2, variance=VARIANCE, prior_variance=1e7)
FAR = np.array([[0.0, 0.0], [400.0, 0.0], [0.0, 400.0]])


def site(*components):
    """A posterior with so many observations at each mean, without any doubt whose they are."""
    model = db.GaussianMixture(len(components), 2, variance=VARIANCE, prior_variance=1e7)
    points = np.concatenate([np.tile(mean, (count, 1)) for count, mean in components])
    return model.from_assignments(points, np.repeat(np.arange(len(components)), [count for count, _ in components]))


def lost(members):
    """What (count, mean) lose in one slot: half their squares around the common mean, in units of the variance."""
    counts, means = (np.array(part, dtype=float) for part in zip(*members, strict=True))
    centre = counts @ means / counts.sum()
    return 0.5 * float(counts @ ((means - centre) ** 2).sum(axis=1)) / VARIANCE


def best_split(members):
    """Over all ways of making two halves: the gain, and the half of each member."""
    ways = [half for half in product((0, 1), repeat=len(members)) if half[0] == 0 and any(half)]

    def left(half):
        return sum(lost([m for m, side in zip(members, half, strict=True) if side == k]) for k in (0, 1))

    half = min(ways, key=left)
    return lost(members) - left(half), half


def sites_of(counts, spread, rng):
    """Sites with a component in each of three slots; in the second every other site has one elsewhere."""
    sites = []
    for number in range(6):
        means = FAR + spread * rng.normal(size=FAR.shape)
        means[1] += [0.0, 9.0 * (number % 2)]
        sites.append([(int(rng.integers(*counts)), mean) for mean in means])
    return sites


def aligned(sites):
    alignment = db.align([site(*components) for components in sites], components=3)
    (coupled,) = alignment.structure.symmetry
    return alignment, coupled, alignment.slots(coupled)


@pytest.mark.parametrize(
    ("counts", "spread", "limit"), [((20, 60), 0.5, 1.8), ((4, 10), 1.0, 1.0), ((10, 11), 0.5, 1.8)]
)
def test_slots_hold_what_their_members_say(counts, spread, limit, rng):
    sites = sites_of(counts, spread, rng)
    alignment, coupled, slots = aligned(sites)
    found = shared_components(alignment.problem(coupled), slots)
    members = [[components[labels.tolist().index(slot)] for components, labels in zip(sites, slots, strict=True)]
               for slot in range(3)]  # fmt: skip
    np.testing.assert_allclose(found.evidence, np.array([[count for count, _ in slot] for slot in members]).T)
    splits = [best_split(slot) for slot in members]
    alone = []
    for slot, (_, halves) in zip(members, splits, strict=True):
        for place, half in enumerate(halves):
            same = [m for m, side in zip(slot, halves, strict=True) if side == half]
            rest = [m for m, other in zip(slot, range(6), strict=True) if halves[other] == half and other != place]
            alone += [lost(same) - lost(rest)] if rest else []
    noise = np.clip(np.median(alone), 1.0, 5.0)  # of two parameters: half a nat each, and five times that at most
    crowd = (1.0 + np.sqrt(6 / 2)) ** 2
    gains = np.array([gain for gain, _ in splits])
    np.testing.assert_allclose(found.split, gains / (crowd * noise), rtol=2e-3)
    assert found.limit == limit
    assert found.unlike == tuple(np.flatnonzero(gains / (crowd * noise) > limit))
    assert len(found.unlike) in (1, 2)
    assert found.parameters == pytest.approx(2.0)
    everything = [count for components in sites for count, _ in components]
    assert found.per_parameter == pytest.approx(np.median(everything) / 2)
    for place, components in enumerate(sites):
        for slot in range(3):
            rest = [m for other, m in enumerate(members[slot]) if other != place]
            expected = (lost(members[slot]) - lost(rest)) / components[slots[place].tolist().index(slot)][0]
            assert found.apart[place, slot] == pytest.approx(expected, rel=1e-3)
    # How much better halves would predict: the gain beyond noise, less what an observation says of its half.
    sizes, predicted = found.evidence.sum(axis=0), []
    for slot, (gain, halves) in enumerate(splits):
        p = sum(count for (count, _), half in zip(members[slot], halves, strict=True) if half) / sizes[slot]
        g, bounds = max(gain - crowd * noise, 0.0) / sizes[slot], []
        for times in (1.0, 4.0):
            close = np.exp(-times * g / (4.0 * p * (1 - p)))
            bounds.append(-p * np.log(p + (1 - p) * close) - (1 - p) * np.log(1 - p + p * close))
        predicted.append(max(g - np.mean(bounds), 0.0) * sizes[slot] / sizes.sum())
    np.testing.assert_allclose(found.predictive, predicted, rtol=0.02, atol=1e-4)


def test_matches_are_doubted_where_their_slot_holds_unlike_things(rng):
    """1 − u (1 − s): u from the gain of the best split over that of noise, s the share of others on the same side."""
    sites = sites_of((20, 60), 0.5, rng)
    alignment, coupled, slots = aligned(sites)
    shared, found = alignment.shared()[coupled], kept_together(alignment, coupled)
    doubted = []
    for place, labels in enumerate(slots):
        for slot, sure in zip(labels, found[place], strict=True):
            members = [site[order.tolist().index(slot)] for site, order in zip(sites, slots, strict=True)]
            _, halves = best_split(members)
            others = [other for other in range(6) if other != place]
            same = sum(members[other][0] for other in others if halves[other] == halves[place])
            share = same / sum(members[other][0] for other in others)
            real = max(0.0, 1.0 - 1.0 / shared.split[slot])
            assert sure == pytest.approx(1.0 - real * (1.0 - share), rel=1e-6)
            doubted.append(sure < 0.9)
    assert sum(doubted) == 6, "those of the second slot"


def test_slots_that_hold_one_thing_each_are_alike():
    sites = [[(30, mean + 0.01 * number) for mean in FAR] for number in range(5)]
    alignment, coupled, _ = aligned(sites)
    problem = alignment.problem(coupled)
    assert [alike_in(problem, slots) for slots in (1, 2, 3, 15, 20)] == [False, False, True, True, True]
