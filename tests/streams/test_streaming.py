"""Streams and further broadcasts: what is counted, and where it converges to."""

from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.updates import without

MEAN = db.models.GaussianMean(variance=0.7, prior_mean=0.5, prior_variance=3.0, dimension=1)
MIXTURE = db.GaussianMixture(components=3, dimension=2, variance=0.25, prior_variance=9.0)


@pytest.fixture
def shards(rng):
    centres = np.array([[-3.0, 0.0], [0.0, 2.0], [3.0, -1.0]])
    return [centres[rng.integers(3, size=40)] + rng.normal(0, 0.5, size=(40, 2)) for _ in range(6)]


def total_count(posterior):
    return posterior.contribution["weights"].sum()


class TestConjugate:
    """Where variational Bayes is exact every way of streaming gives the batch posterior."""

    @pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
    def test_sda_bayes(self, schedule, rng):
        points = rng.normal(size=(4, 3, 5))
        streamed = db.streams.sda_bayes(MEAN, points, rng=rng, schedule=schedule)
        np.testing.assert_allclose(streamed.natural["mean"], MEAN.fit(points.ravel()).posterior.natural["mean"])

    def test_merged_batches(self, rng):
        points = rng.normal(size=(4, 3, 5))
        merged = db.streams.merge_batches(MEAN, points, rng=rng)
        np.testing.assert_allclose(merged.natural["mean"], MEAN.fit(points.ravel()).posterior.natural["mean"])

    def test_agents_and_epochs_without_data_say_nothing(self, rng):
        points = rng.normal(size=12)
        batch = MEAN.fit(points).posterior.natural["mean"]
        ragged = [[points[:5], points[5:7]], [], [points[7:]]]
        for schedule in ("synchronous", "asynchronous"):
            streamed = db.streams.sda_bayes(MEAN, ragged, rng=rng, schedule=schedule)
            np.testing.assert_allclose(streamed.natural["mean"], batch)
        np.testing.assert_allclose(db.streams.merge_batches(MEAN, ragged, rng=rng).natural["mean"], batch)
        first, second, third = db.streams.epochs(MEAN, ragged, rng=rng)
        assert second == first
        np.testing.assert_allclose(third.natural["mean"], batch)

    def test_epochs_hold_all_data_so_far(self, rng):
        points = rng.normal(size=(4, 3, 5))
        for epoch, posterior in enumerate(db.streams.epochs(MEAN, points, rng=rng)):
            batch = MEAN.fit(points[: epoch + 1].ravel()).posterior
            np.testing.assert_allclose(posterior.natural["mean"], batch.natural["mean"])

    @pytest.mark.parametrize("schedule", ["sequential", "parallel", "asynchronous"])
    def test_refinement_has_nothing_to_improve(self, schedule, rng):
        points = rng.normal(size=(4, 5))
        posteriors = [MEAN.fit(shard).posterior for shard in points]
        refined = db.refine(MEAN, points, posteriors, rounds=3, rng=rng, schedule=schedule)
        batch = MEAN.fit(points.ravel()).posterior
        for posterior in refined.rounds:
            np.testing.assert_allclose(posterior.natural["mean"], batch.natural["mean"])


class TestMixture:
    @pytest.mark.parametrize("schedule", ["synchronous", "asynchronous"])
    def test_every_observation_counts_once(self, schedule, shards, rng):
        batches = [np.array_split(shard, 4) for shard in shards]
        assert total_count(db.streams.sda_bayes(MIXTURE, batches, rng=rng, schedule=schedule)) == pytest.approx(240)
        assert total_count(db.streams.merge_batches(MIXTURE, batches, rng=rng)) == pytest.approx(240)
        *_, last = db.streams.epochs(MIXTURE, [shards[:3], shards[3:]], rng=rng)
        assert total_count(last) == pytest.approx(240)

    @pytest.mark.parametrize("schedule", ["sequential", "parallel", "asynchronous"])
    def test_refinement_counts_every_observation_once_in_every_round(self, schedule, shards, rng):
        posteriors = [MIXTURE.fit(shard, rng=rng).posterior for shard in shards]
        refined = db.refine(MIXTURE, shards, posteriors, rounds=3, rng=rng, schedule=schedule)
        for posterior in refined.rounds:
            assert total_count(posterior) == pytest.approx(240)
        assert db.merging.product(refined.posteriors) == refined.merged
        assert len(refined.rounds) == 4

    @pytest.mark.parametrize("schedule", ["sequential", "parallel", "asynchronous"])
    def test_refinement_converges_to_a_fixed_point_of_batch_inference(self, schedule, shards, rng):
        model = replace(MIXTURE, ascent=db.Ascent(tolerance=1e-13, passes=500))
        posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
        refined = db.refine(model, shards, posteriors, rounds=30, rng=rng, schedule=schedule).merged
        batch = model.fit(np.concatenate(shards), rng=rng, start=refined).posterior
        np.testing.assert_allclose(batch.natural["components"], refined.natural["components"], rtol=1e-5, atol=1e-5)

    def test_refinement_repairs_what_one_shot_merging_could_not(self, rng):
        """Sites that each see two of three clusters, four points a site."""
        centres = np.array([-3.0, 0.0, 3.0])
        model = db.GaussianMixture(components=3, dimension=1, variance=0.25, prior_variance=9.0)
        shards = [rng.normal(centres[np.array([i, i, j, j])], 0.5) for i in range(3) for j in range(3) if i != j] * 2
        held_out = rng.normal(np.repeat(centres, 200), 0.5)
        posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
        scores = [
            model.log_predictive(posterior, held_out).mean()
            for posterior in db.refine(model, shards, posteriors, rounds=4, rng=rng).rounds
        ]
        batch = model.log_predictive(model.fit(np.concatenate(shards), rng=rng).posterior, held_out).mean()
        assert scores[-1] >= scores[0] - 1e-3
        assert scores[-1] > batch - 0.02

    def test_labels_do_not_matter_for_merged_batches_but_do_for_sda_bayes(self, shards, rng):
        batches = [[shard] for shard in shards]
        held_out = np.concatenate(shards)
        amps = MIXTURE.log_predictive(db.streams.merge_batches(MIXTURE, batches, rng=rng), held_out).mean()
        naive = MIXTURE.log_predictive(db.streams.sda_bayes(MIXTURE, batches, rng=rng), held_out).mean()
        batch = MIXTURE.log_predictive(MIXTURE.fit(held_out, rng=rng).posterior, held_out).mean()
        assert amps > batch - 0.01
        assert naive < amps - 0.5


def test_a_cavity_has_everything_but_the_agent(rng):
    posteriors = [MIXTURE.fit(rng.normal(size=(9, 2)), rng=rng).posterior for _ in range(3)]
    cavity = without(db.merging.product(posteriors), posteriors[2])
    others = db.merging.product(posteriors[:2])
    for name in others.natural:
        np.testing.assert_allclose(cavity.natural[name], others.natural[name], rtol=1e-12, atol=1e-12)


def test_an_unknown_schedule_is_refused(rng):
    with pytest.raises(ValueError, match="'parallel'"):
        db.streams.sda_bayes(MEAN, [[[1.0]]], rng=rng, schedule="parallel")
    with pytest.raises(ValueError, match="'synchronous'"):
        db.refine(MEAN, [[1.0]], [MEAN.fit([1.0]).posterior], rounds=1, rng=rng, schedule="synchronous")


def test_shards_and_posteriors_must_pair_up(rng):
    with pytest.raises(StructureMismatch, match="2 shards but 1 posteriors"):
        db.refine(MEAN, [[0.0], [1.0]], [MEAN.fit([0.0]).posterior], rounds=1, rng=rng)
