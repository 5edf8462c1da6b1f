"""Rounds that follow where earlier rounds lead: exact where rounds are linear, never worse, sooner at the same end."""

import numpy as np
import pytest

import decbayes as db
from decbayes.posterior import Posterior
from decbayes.streams import extrapolation
from decbayes.streams.extrapolation import Extrapolation
from decbayes.updates.joining import bound

STRUCTURE = db.models.GaussianMean(variance=1.0, dimension=2).structure


def site(first, second, precision=3.0):
    """A contribution whose first two natural parameters move, and whose precision stays."""
    return Posterior(STRUCTURE, {"mean": np.array([[first, second, -0.5 * precision]])})


def told(sites):
    return sum(posterior.contribution["mean"][0, :2] for posterior in sites)


def linear_round(sites, target, slope):
    """Every site goes to its target plus a slope times how far the sum of all is from the sum of targets."""
    away = slope @ (told(sites) - sum(target)) / len(sites)
    return [site(*(own + away)) for own in target]


def test_linear_rounds_are_followed_to_their_fixed_point(rng):
    """Two dimensions: three rounds say all about a linear map, whose fixed point is known."""
    target, slope = rng.normal(size=(3, 2)), np.array([[0.9, 0.2], [-0.1, 0.7]])
    sites = [site(*rng.normal(size=2)) for _ in range(3)]
    memory = Extrapolation(most=3)
    for _ in range(3):
        sites = memory.followed(sites, linear_round(sites, target, slope), lambda merged: 0.0)
    np.testing.assert_allclose(told(sites), target.sum(axis=0), atol=1e-5)
    assert np.abs(told(linear_round(sites, target, slope)) - target.sum(axis=0)).max() < 1e-5


def test_a_mix_is_refused_where_all_sites_but_one_say_what_no_data_say():
    """Each site is proper with the prior, and so are all together; those without the first are not."""
    large, negative = site(0.0, 0.0, 5.0), site(0.0, 0.0, -0.6)
    after = [large, negative, negative]
    assert db.merging.product(after).natural["mean"][0, 2] < 0.0
    assert Extrapolation(1, [(after, after)]).mixed(np.ones(1)) is None
    assert Extrapolation(1, [(after[:2], after[:2])]).mixed(np.ones(1)) is not None


@pytest.mark.parametrize(("reach", "part"), [(1.2, 1.0), (0.7, 0.5), (0.3, 0.25), (0.1, 0.0)])
def test_of_steps_that_are_half_as_long_the_first_that_loses_nothing_is_taken(reach, part, monkeypatch):
    """From the last of two rounds towards a mix of them that has the bound of that round as far as `reach`."""
    monkeypatch.setattr(extrapolation, "product", np.sum)
    history = Extrapolation(1, [((), ())])
    history.weights = lambda: np.array([2.0, -1.0])
    history.mixed = lambda weights: 1.0 - weights[1]
    after = np.zeros(1)
    found = history.followed((), after, lambda moved: -float(moved > 2.0 * reach))
    assert np.ravel(found) == pytest.approx(2.0 * part)


def test_a_lower_bound_or_an_impossible_site_keeps_what_the_round_has_found(rng):
    target, slope = rng.normal(size=(3, 2)), 0.9 * np.eye(2)
    sites, heights = [site(*rng.normal(size=2)) for _ in range(3)], iter(range(100, 0, -1))
    memory = Extrapolation(most=3)
    for _ in range(3):
        after = linear_round(sites, target, slope)
        sites = memory.followed(sites, after, lambda merged: next(heights))
        assert sites == after
    shrinking = Extrapolation(most=1)
    for precision in (8.0, 3.0, 1.0):  # where this leads no precision is left
        before, after = [site(0.0, 0.0, precision)] * 2, [site(0.0, 0.0, 0.3 * precision)] * 2
        found = shrinking.followed(before, after, lambda merged: 0.0)
        assert all(posterior.natural["mean"][0, 2] < 0 for posterior in found)


def overlapping(rng):
    model = db.GaussianMixture(2, dimension=1, variance=1.0, prior_variance=9.0, ascent=db.Ascent(tolerance=1e-8))
    shards = [rng.normal(rng.choice([-0.8, 0.8], size=40), 1.0) for _ in range(5)]
    return model, shards, [model.fit(shard, rng=rng).posterior for shard in shards]


@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_rounds_end_sooner_at_a_fixed_point_of_batch_inference_and_the_bound_never_falls(schedule, rng):
    model, shards, posteriors = overlapping(rng)
    told = {"tolerance": 1e-3, "most": 200, "schedule": schedule, "rng": rng}
    plain = db.refine(model, shards, posteriors, **told)
    ahead = db.refine(model, shards, posteriors, extrapolate=3, **told)
    assert plain.converged
    assert ahead.converged
    assert len(ahead.shifts) <= 0.6 * len(plain.shifts)
    bounds = [bound(model, shards, merged, rng) for merged in ahead.rounds]
    if schedule == "sequential":  # after the first round, before which sites had not seen each other
        assert (np.diff(bounds[1:]) > -1e-6).all()
    assert bounds[-1] >= bound(model, shards, plain.merged, rng) - 1e-3
    batch = model.fit(np.concatenate(shards), start=ahead.merged, rng=rng).posterior
    np.testing.assert_allclose(batch.mean("components"), ahead.merged.mean("components"), atol=0.02)


def test_both_ways_to_begin_are_tried(rng):
    model, shards, posteriors = overlapping(rng)
    ways = [db.refine(model, shards, posteriors, rounds=3, rng=rng, afresh=fresh) for fresh in (False, True)]
    heights = [bound(model, shards, way.merged, rng) for way in ways]
    for order in ((False, True), (True, False)):
        both = db.refine(model, shards, posteriors, rounds=3, rng=rng, afresh=order)
        assert both.merged == ways[int(np.argmax(heights))].merged
    with pytest.raises(ValueError, match="extrapolate"):
        db.refine(model, shards, posteriors, rng=rng, extrapolate=-1)
