"""Hidden Markov models: what they compute along chains is what enumeration of all paths gives."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import decbayes as db
from decbayes.errors import InvalidData, StructureMismatch
from decbayes.families import MeanAndPrecision
from decbayes.merging.base.problem import Solution
from decbayes.models.sequences import chains

COLUMNS = {"x": db.columns.Gaussian(1, 2), "c": db.columns.Categorical("a", "b", "c")}


@pytest.fixture
def model():
    return db.HiddenMarkov(states=3, columns=COLUMNS, stickiness=2.0)


@pytest.fixture
def drawn(model, rng):
    """Sequences of different lengths, a posterior of other ones."""
    fitted = model.fit(db.simulate(model, 4, rng=rng, length=30).data, rng=rng).posterior
    sequences = [db.simulate(model, 1, rng=rng, length=length).data[0] for length in (4, 1, 5)]
    return fitted, sequences


def all_paths(scores, start, moves):
    """Every path of a sequence and its log weight."""
    paths = np.array(list(product(range(len(start)), repeat=len(scores))))
    weights = [
        np.log(start[path[0]]) + np.log(moves[path[:-1], path[1:]]).sum() + scores[np.arange(len(path)), path].sum()
        for path in paths
    ]
    return paths, np.array(weights)


def expected_weights(model, posterior, sequence):
    """E[log p] of each step and state, and exp E[log π], exp E[log A], straight from the families."""
    structure = posterior.structure
    logs = {
        name: structure.families[name].expected_statistics(posterior.natural[name]) for name in ("start", "transitions")
    }
    points = model.points(sequence)
    emissions = model.emissions.seeing(points)
    scores = emissions.features(points) @ emissions.coefficients(posterior.natural)
    return scores, np.exp(logs["start"][:, 0]), np.exp(logs["transitions"])


def test_states_are_those_of_all_paths_together(model, drawn):
    posterior, sequences = drawn
    smoothed, filtered = model.assign(posterior, sequences), model.filter(posterior, sequences)
    first = 0
    for sequence, path in zip(sequences, model.path(posterior, sequences), strict=True):
        scores, start, moves = expected_weights(model, posterior, sequence)
        paths, weights = all_paths(scores, start, moves)
        assert paths[weights.argmax()].tolist() == path.tolist()
        for step in range(len(sequence)):
            for weigh, found in ((len(sequence), smoothed), (step + 1, filtered)):
                paths, weights = all_paths(scores[:weigh], start, moves)
                shares = np.exp(weights - logsumexp(weights))
                expected = [shares[paths[:, step] == state].sum() for state in range(3)]
                np.testing.assert_allclose(found[first + step], expected, rtol=1e-9, atol=1e-12)
        first += len(sequence)


def test_a_pass_adds_the_expected_counts_and_its_bound_is_that_of_all_paths(model, drawn, rng):
    posterior, sequences = drawn
    one = db.HiddenMarkov(states=3, columns=COLUMNS, stickiness=2.0, ascent=db.Ascent(passes=1))
    fit = one.fit(sequences, rng=rng, start=posterior)
    moved, begun, total = np.zeros((3, 3)), np.zeros(3), 0.0
    for sequence in sequences:
        paths, weights = all_paths(*expected_weights(model, posterior, sequence))
        total += logsumexp(weights)
        for path, share in zip(paths, np.exp(weights - logsumexp(weights)), strict=True):
            np.add.at(moved, (path[:-1], path[1:]), share)
            begun[path[0]] += share
    np.testing.assert_allclose(fit.posterior.contribution["transitions"], moved, atol=1e-9)
    np.testing.assert_allclose(fit.posterior.contribution["start"][:, 0], begun, atol=1e-9)
    apart = sum(
        family.kl(posterior.natural[name], model.structure.prior[name])
        for name, family in model.structure.families.items()
    )
    assert fit.bound[0] == pytest.approx(total - apart)


def test_scores_are_sums_over_paths_at_the_mean_transitions(model, drawn):
    posterior, sequences = drawn
    for sequence, found in zip(sequences, model.log_predictive(posterior, sequences), strict=True):
        scores = model.emissions.log_predictive(posterior.natural, model.points(sequence))
        _, weights = all_paths(scores, posterior.mean("start"), posterior.mean("transitions"))
        assert found == pytest.approx(logsumexp(weights))
    assert model.score(posterior, sequences) == pytest.approx(model.log_predictive(posterior, sequences).sum() / 10)


def test_a_missing_step_is_summed_over(model, drawn):
    """What a categorical step may be, each with its own density, adds up to the step being missing."""
    posterior, sequences = drawn
    gap = sequences[0].copy()
    gap[2] = np.nan
    known = gap.copy()
    densities = []
    for category in range(3):
        known[2] = [np.nan, category]
        densities.append(model.log_predictive(posterior, [known])[0])
    assert model.log_predictive(posterior, [gap])[0] == pytest.approx(logsumexp(densities))
    assert np.isfinite(model.fit([gap], rng=np.random.default_rng(0)).bound[-1])


def test_a_step_that_no_state_has_for_the_most_part_is_fitted():
    columns = {"x": db.columns.Gaussian(0.0, 1.0), "there": db.columns.YesNo()}
    model = db.HiddenMarkov(columns=columns, states=3)
    posterior = model.fit([[[np.nan, np.nan]]], rng=0).posterior
    np.testing.assert_allclose(posterior.mean("start"), 1 / 3, atol=1e-3)


def test_one_state_is_one_class(rng):
    one = db.HiddenMarkov(states=1, columns=COLUMNS)
    classes = db.LatentClasses(components=1, columns=COLUMNS)
    data = db.simulate(one, 3, rng=rng, length=20).data
    chain, plain = one.fit(data, rng=rng), classes.fit(np.concatenate(data), rng=rng)
    assert chain.bound[-1] == pytest.approx(plain.bound[-1])
    np.testing.assert_allclose(chain.posterior.natural["real"], plain.posterior.natural["real"])


def test_what_comes_next_and_how_long_it_lasts(model, drawn):
    posterior, sequences = drawn
    moves = posterior.mean("transitions")
    last = model.filter(posterior, sequences)[[3, 4, 9]]
    np.testing.assert_allclose(model.next_states(posterior, sequences), last @ moves)
    np.testing.assert_allclose(model.dwell_times(posterior), 1 / (1 - np.diag(moves)))
    np.testing.assert_allclose(model.occupancy(posterior), np.linalg.matrix_power(moves, 5000)[0], rtol=1e-6)


def test_sites_merged_and_refined_are_near_one_fit(rng):
    """Three states in a circle, seen by five sites: merging needs the right labels, and keeps who follows whom."""
    model = db.HiddenMarkov(states=3, columns={"x": db.columns.Gaussian(5, 4)}, ascent=db.Ascent(restarts=3))
    truth = db.Posterior.of_prior(model.structure).sample(1, rng)
    moves = 0.85 * np.eye(3) + 0.15 * np.roll(np.eye(3), 1, axis=1)
    real = truth["real"]._replace(mean=np.array([[-1.0], [0.0], [1.0]]), precision=np.full((3, 1), 16.0))
    parameters = {"start": np.full(3, 1 / 3), "transitions": moves, "real": real}
    data, _ = model.draw(parameters, 30, rng)
    shards, held = [data[site::6] for site in range(5)], data[5::6]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    refined = db.refine(model, shards, posteriors, rounds=4, rng=rng)
    batch = model.score(model.fit(model.joined(shards), rng=rng).posterior, held)
    assert model.score(refined.rounds[0], held) == pytest.approx(batch, abs=0.02)
    assert model.score(refined.merged, held) == pytest.approx(batch, abs=0.001)
    order = np.argsort(refined.merged.mean("real")[:, 0])
    np.testing.assert_allclose(refined.merged.mean("transitions")[np.ix_(order, order)], moves, atol=0.06)


def test_files_have_sequences_in_a_column(tmp_path, rng):
    walks = pd.DataFrame({"walk": list("bbaab"), "x": [1.5, 2.5, 3.5, 4.5, None], "n": [1, 0, 2, 7, 3]})
    walks.to_csv(tmp_path / "walks.csv", index=False)
    model, data = db.HiddenMarkov.from_file(tmp_path / "walks.csv", sequences="walk", states=2)
    assert list(model.columns) == ["x", "n"]
    np.testing.assert_array_equal(data[0][:, 0], [1.5, 2.5, np.nan])
    np.testing.assert_array_equal(data[1], [[3.5, 2], [4.5, 7]])
    for again in (model.read(tmp_path / "walks.csv"), model.separate(walks)):
        for one, other in zip(data, again, strict=True):
            np.testing.assert_array_equal(one, other)
    assert db.model_for(model.structure).sequences == "walk"
    assert model.count(walks[["x", "n"]]) == 1
    whole = db.HiddenMarkov.from_file(tmp_path / "walks.csv", columns="x,n", states=2)
    assert whole[0].count(whole[1]) == 1
    with pytest.raises(InvalidData, match="1 of 5 rows lack 'walk'"):
        model.count(walks.assign(walk=[None, *"baab"]))


def test_nothing_of_a_sequence_can_be_held_out(model, drawn):
    posterior, sequences = drawn
    with pytest.raises(InvalidData, match="whole sequences"):
        model.log_predictive(posterior, sequences, sequences)


@pytest.mark.parametrize("data", [None, "walks.csv", 3])
def test_what_is_no_sequences_is_refused(model, data, rng):
    with pytest.raises(InvalidData, match="a list of data frames or matrices"):
        model.fit(data, rng=rng)


def test_arrays_that_are_no_plain_numbers_are_refused_also_among_others(rng):
    model = db.HiddenMarkov(states=1, columns={"u": "real"})
    masked, days = np.ma.masked_array(np.ones((2, 1)), mask=[[True], [False]]), np.zeros((2, 1), dtype="M8[D]")
    for array, problem in ((masked, "masked"), (days, "convert them to real numbers")):
        with pytest.raises(InvalidData, match=problem):
            model.steps([rng.normal(size=(3, 1)), array])


class Backwards:
    """A solver that turns the labels of every other site round."""

    one_to_one, two_sided = True, True

    def solve(self, problem):
        orders = [np.arange(problem.components)[:: -1 if site % 2 else 1] for site in range(problem.sites)]
        return Solution(tuple(orders), (0.0,), "none")


def test_of_several_starts_the_one_of_the_largest_bound_is_kept_and_fresh_ones_end_where_batch_stays(rng):
    model = db.HiddenMarkov(states=3, columns={"x": db.columns.Gaussian(0, 5)}, ascent=db.Ascent(restarts=2))
    states = np.arange(90) // 10 % 3
    shards = [[rng.normal(np.array([-6.0, 0.0, 6.0])[states], 1.0)[:, None]] for _ in range(4)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    alone, worse, both = (
        db.refine(model, shards, posteriors, rounds=2, rng=rng, solver=solver).merged
        for solver in (db.solvers.Quadratic(), Backwards(), (Backwards(), db.solvers.Quadratic()))
    )
    np.testing.assert_allclose(both.mean("transitions"), alone.mean("transitions"), atol=1e-6)
    fresh = db.refine(
        model, shards, posteriors, rounds=6, rng=rng, solver=[Backwards(), db.solvers.Quadratic()], afresh=True
    )
    batch = model.fit(model.joined(shards), start=fresh.merged, rng=rng).posterior
    np.testing.assert_allclose(batch.mean("real"), fresh.merged.mean("real"), atol=1e-3)
    assert model.score(fresh.merged, shards[0]) >= model.score(worse, shards[0]) - 1e-9


def test_the_first_round_afresh_is_each_site_alone_from_the_common_start(rng):
    model = db.HiddenMarkov(states=2, columns={"x": db.columns.Gaussian(0, 2)}, ascent=db.Ascent(restarts=1))
    shards = [db.simulate(model, 2, rng=rng, length=40).data for _ in range(3)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    found = db.refine(model, shards, posteriors, rounds=1, rng=rng, afresh=True)
    for shard, posterior in zip(shards, found.posteriors, strict=True):
        alone = model.fit(shard, start=found.rounds[0], rng=rng).posterior
        np.testing.assert_allclose(posterior.contribution["real"], alone.contribution["real"])


def test_blocks_of_sequences_add_up_to_all_of_them(model, drawn, monkeypatch):
    posterior, sequences = drawn
    once = replace(model, ascent=db.Ascent(passes=1))
    fits = []
    for size in (1, 5, 1 << 12):
        monkeypatch.setattr(chains, "BLOCK", size)
        fits.append(once.fit(sequences, start=posterior, rng=np.random.default_rng(0)))
    for fit in fits[:2]:
        assert fit.bound[0] == pytest.approx(fits[2].bound[0])
        for name, part in fits[2].posterior.contribution.items():
            np.testing.assert_allclose(fit.posterior.contribution[name], part, atol=1e-9)


@pytest.mark.parametrize("slots", [4, "auto"])
def test_sites_with_other_numbers_of_states_merge_into_fewer_slots(slots, rng):
    """A state that a site has found twice goes into one slot, with its moves; no step is lost."""
    model = db.HiddenMarkov(states=4, columns=dict.fromkeys("xy", db.columns.Gaussian(0, 4)), stickiness=3.0)
    centres, moves = np.array([[-4, -4], [-4, 4], [4, -4], [4, 4]]) / 4.0, 0.8 * np.eye(4) + 0.05
    chain = {"start": np.full(4, 0.25), "transitions": moves, "real": MeanAndPrecision(centres, np.full((4, 2), 16.0))}
    shards = [model.draw(chain, 5, rng, length=60)[0] for _ in range(3)]
    posteriors = [
        replace(model, states=states).fit(shard, rng=rng).posterior
        for states, shard in zip((4, 5, 6), shards, strict=True)
    ]
    merged = db.merge(posteriors, components=slots)
    moved = sum(posterior.contribution["transitions"].sum() for posterior in posteriors)
    assert merged.contribution["transitions"].sum() == pytest.approx(moved) == pytest.approx(3 * 5 * 59)
    batch = model.fit(model.joined(shards), rng=rng).posterior
    held = model.draw(chain, 20, rng, length=60)[0]
    fitting = replace(model, states=len(merged.contribution["start"]))
    assert fitting.score(merged, held) > model.score(batch, held) - 0.05


def test_a_model_reads_posteriors_with_any_number_of_states(model, drawn):
    """A merge may have changed it, as that of a mixture's components."""
    posterior, sequences = drawn
    other = replace(model, states=5)
    for name in ("score", "assign", "filter", "next_states"):
        read, expected = (getattr(one, name)(posterior, sequences) for one in (other, model))
        np.testing.assert_array_equal(read, expected)
    assert other.describe(posterior) == model.describe(posterior)
    assert other.profiles(posterior) == model.profiles(posterior)
    with pytest.raises(StructureMismatch):
        replace(model, columns=COLUMNS | {"x": db.columns.Gaussian(1, 3)}).score(posterior, sequences)
