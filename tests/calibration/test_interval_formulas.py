"""Intervals and checks by what they state: jackknife, bootstrap, notes on convergence, tails, replicas."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from test_world_formulas import clusters

import decbayes as db
from decbayes.calibration import intervals
from decbayes.calibration.checks import Diagnosis, PredictiveCheck, contribution_terms, diagnose, predictive_check
from decbayes.calibration.intervals import (
    bootstrapped,
    check_sites,
    jackknife_deviation,
    jackknifed,
    regression_for,
    replica,
    resampled,
    site_count,
    unsettled,
    warn_if_unrefined,
    with_deviations,
)
from decbayes.calibration.linear_response import LinearResponse, response
from decbayes.calibration.sites import Information, one_more_pass
from decbayes.errors import InvalidData, NotCalibrated, StructureMismatch
from decbayes.updates.update import shift

MEAN = db.models.GaussianMean(variance=1.0, prior_variance=100.0, dimension=1)


def test_a_jackknife_is_the_spread_of_leaving_one_out(rng):
    values = rng.normal(size=(7, 3))
    expected = [np.sqrt(6 / 7 * sum((row[k] - values[:, k].mean()) ** 2 for row in values)) for k in range(3)]
    np.testing.assert_allclose(jackknife_deviation(values), expected)


def test_a_jackknife_is_never_surer_than_the_merge(rng):
    shards = [rng.normal(site, 1.0, size=(30, 1)) for site in range(6)]
    alignment = db.align([MEAN.fit(shard).posterior for shard in shards])
    found = jackknifed(alignment)
    without = [MEAN.fit(np.concatenate([s for n, s in enumerate(shards) if n != left])).posterior for left in range(6)]
    means = np.array([each.mean("mean").item() for each in without])
    assert found.deviation("mean").item() == pytest.approx(
        np.sqrt(5 / 6 * ((means - means.mean()) ** 2).sum()), rel=1e-9
    )
    assert "jackknife over 6 sites" in found.uncertainty
    same = jackknifed(db.align([MEAN.fit(np.zeros((30, 1))).posterior] * 5))
    assert same.deviation("mean").item() == pytest.approx(
        MEAN.fit(np.zeros((150, 1))).posterior.deviation("mean").item()
    )
    with pytest.raises(NotCalibrated, match="A jackknife needs 5 sites or more"):
        jackknifed(db.align(list(alignment.posteriors)[:4]))


def test_sites_that_are_too_small_for_a_jackknife_are_named(rng):
    check_sites(clusters(rng, sizes=((60, 60),) * 5)[1])
    with pytest.raises(NotCalibrated, match="observations per parameter of a component, fewer than the"):
        check_sites(clusters(rng, sizes=((3, 3),) * 5)[1])


def test_resampled_data_repeat_each_row_a_poisson_number_of_times():
    data = np.arange(4000.0)[:, None]
    drawn = resampled(MEAN, data, 1, 2, 3)
    counts = np.bincount(drawn.ravel().astype(int), minlength=4000)
    assert counts.mean() == pytest.approx(1.0, abs=0.07)
    assert counts.var() == pytest.approx(1.0, abs=0.12)
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert len(resampled(MEAN, data, *other)) != len(drawn) or (resampled(MEAN, data, *other) != drawn).any()
    np.testing.assert_array_equal(resampled(MEAN, data, 1, 2, 3), drawn)
    with pytest.raises(NotCalibrated, match="data in memory"):
        resampled(MEAN, 3.0, 1, 2, 3)


def test_replicas_go_on_until_they_have_converged(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    data = rng.choice([-1.5, 1.5], size=(60, 1)) + rng.normal(size=(60, 1))
    posterior = model.fit(data, rng=0).posterior
    found = replica(model, [data], posterior, 0, 1)
    drawn = [resampled(model, data, 0, 1, 0)]
    assert shift(found, one_more_pass(model, drawn, found)) <= 0.02
    reached, passes = posterior, 0
    while shift(reached, following := one_more_pass(model, drawn, reached)) > 0.02:
        reached, passes = following, passes + 1
    assert found == following, "the first pass that moved it by less ends it"
    assert 1 < passes < 40


def test_bootstrapped_deviations_are_those_of_replicas(rng):
    shards = [rng.normal(size=(25, 1)) for _ in range(2)]
    posterior = MEAN.fit(np.concatenate(shards)).posterior
    found = bootstrapped(MEAN, shards, posterior, replicas=6, seed=3)["mean"]["value"]
    means = [replica(MEAN, shards, posterior, 3, number).mean("mean").item() for number in range(6)]
    assert found.item() == pytest.approx(max(np.std(means, ddof=1), posterior.deviation("mean").item()))
    calibrated = db.calibrate(MEAN, shards, posterior, method="bootstrap", replicas=6, seed=3)
    assert calibrated.deviation("mean").item() == pytest.approx(found.item())
    assert "bootstrap, 6 replicas, 2 sites" in calibrated.uncertainty
    for wrong in ({"replicas": 1}, {"seed": -1}, {"method": "x"}):
        with pytest.raises(ValueError):
            db.calibrate(MEAN, shards, posterior, **wrong)


@pytest.mark.parametrize(("away", "told"), [(0.24, False), (0.26, True)])
def test_merges_that_would_still_move_are_said_to(away, told):
    posterior = MEAN.fit(np.zeros((3, 1))).posterior
    found = with_deviations(posterior, "method", {"mean": {"value": np.ones((1, 1))}}, away)
    assert ("about 0.3 deviations from where it would converge" in found.uncertainty) == told
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_unrefined(away)
    assert bool(caught) == told
    assert intervals.SETTLED == 0.25
    assert [site_count(number) for number in (1, 2)] == ["1 site", "2 sites"]


def test_how_far_one_more_pass_would_move_a_regression(rng):
    columns = {"x": db.columns.Gaussian(), "y": db.columns.Gaussian()}
    model = db.LinearRegression("y", columns=columns)
    data = {"x": rng.normal(size=50), "y": rng.normal(size=50)}
    posterior = model.fit(data).posterior
    part = Information.robust(model, data, posterior)
    assert unsettled(posterior, part) == pytest.approx(0.0, abs=1e-5)
    less = replace(part, contribution=0.5 * part.contribution)
    half = db.Posterior(posterior.structure, {name: 0.5 * np.asarray(c) for name, c in posterior.contribution.items()})
    assert unsettled(posterior, less) == pytest.approx(shift(posterior, half), rel=1e-6)
    assert regression_for(posterior).structure == model.structure
    with pytest.raises(NotCalibrated, match="posterior of a regression"):
        regression_for(MEAN.fit(np.zeros((3, 1))).posterior)


def test_linear_response_is_about_its_posterior(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0, ascent=db.Ascent(2000, 1e-13))
    data = rng.choice([-2.0, 2.0], size=(80, 1)) + rng.normal(size=(80, 1))
    posterior = model.fit(data, rng=0).posterior
    part = Information.of(model, data, posterior)
    found = LinearResponse(posterior, part)
    assert found.remaining() == pytest.approx(0.0, abs=1e-3)
    deviations = np.concatenate([each.ravel() for factor in found.deviations().values() for each in factor.values()])
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance())), deviations)
    for wrong, why in (
        (replace(part, at="x"), "another posterior"), (replace(part, matrix=np.eye(3)), "is about"),
        (replace(part, contribution=np.zeros(3)), "is about 3 parameters"),
        (replace(part, matrix=1e4 * np.eye(len(part.matrix))), "not at a maximum"),
        (replace(part, matrix=np.full_like(part.matrix, np.inf)), "too large"),
    ):  # fmt: skip
        with pytest.raises(NotCalibrated, match=why):
            LinearResponse(posterior, wrong)
    # A step of the contribution moves it by (I − V H)⁻¹ V g.
    moved = replace(part, contribution=part.contribution + 1.0)
    root = [family.covariance(posterior.natural[name]) for name, family in posterior.structure.families.items()]
    covariance = np.zeros_like(part.matrix)
    first = 0
    for block in root:
        covariance[first : first + len(block), first : first + len(block)] = block
        first += len(block)
    step = np.ones(len(covariance))
    total = np.linalg.solve(np.eye(len(step)) - covariance @ part.matrix, covariance @ step)
    parameters = sum(np.count_nonzero(np.asarray(c)) for c in posterior.contribution.values())
    # In deviations: gᵀ (I − V H)⁻¹ V g over the number of parameters.
    assert LinearResponse(posterior, moved).remaining() == pytest.approx(np.sqrt(step @ total / parameters), rel=0.02)


def test_the_response_of_means_is_their_covariance_with_statistics():
    family, posterior = MEAN.structure.families["mean"], MEAN.fit(np.full((5, 1), 2.0)).posterior
    natural = posterior.natural["mean"]
    found = response(family, natural, np.diag(family.covariance(natural)))
    precision = 5 + 0.01
    # Of T = (μ, μ²): Cov[μ, μ] = 1/Λ and Cov[μ, μ²] = 2 E[μ] / Λ.
    np.testing.assert_allclose(found, [[1 / precision, 2 * posterior.mean("mean").item() / precision]], rtol=1e-4)


# ---- checks


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (-np.inf, "exact"),
        (0.5, "is close"),
        (0.51, "will do"),
        (0.7, "will do"),
        (0.71, "misses part"),
        (np.inf, "misses"),
    ],
)
def test_shapes_of_tails_are_said_in_words(shape, said):
    assert said in str(Diagnosis(shape, 100))
    assert Diagnosis(shape, 100).close == (shape <= 0.5)


def test_ratios_are_likelihoods_over_contributions(rng):
    data = rng.normal(size=(6, 1))
    posterior = MEAN.fit(data).posterior
    draws = posterior.sample(200, rng)
    statistics = np.asarray(posterior.contribution["mean"]).ravel()
    values = np.asarray(draws["mean"]).reshape(200)
    np.testing.assert_allclose(contribution_terms(posterior, draws), statistics[0] * values + statistics[1] * values**2)
    single = db.GaussianMixture(1, 1, variance=1.0)
    found = diagnose(single, [data[:2], data[2:]], single.fit(data, rng=0).posterior, draws=100)
    assert (found.shape, found.draws) == (-np.inf, 100)
    assert diagnose(single, [data], single.fit(data, rng=0).posterior).draws == 1000
    for wrong in ({"draws": 99}, {"seed": -1}):
        with pytest.raises(ValueError, match=r"draws|seed"):
            diagnose(MEAN, [data], posterior, **wrong)


def test_checks_add_up_and_compare_means():
    one = PredictiveCheck("d", np.array([-4.0, -2.0, -9.0]), np.array([2.0, 1.0, 3.0]))
    assert one.probability == 1.0, "means of −2, −2 and −3: both replicas are as unlikely or more"
    both = one + PredictiveCheck("d", np.array([-4.0, -1.0, 0.0]), np.array([2.0, 9.0, 3.0]))
    assert both.scores.tolist() == [-8.0, -3.0, -9.0]
    assert both.units.tolist() == [4.0, 10.0, 6.0]
    assert both.probability == 1 / 3
    assert sum([one]) is one
    for other in (replace(one, posterior="e"), PredictiveCheck("d", np.zeros(2), np.ones(2))):
        with pytest.raises(StructureMismatch, match="do not add up"):
            one + other
    with pytest.raises(TypeError):
        one + 1
    with pytest.raises(TypeError):
        1 + one


def test_replicas_are_the_same_parameters_everywhere_and_other_data(rng, monkeypatch):
    data = rng.normal(size=(12, 1))
    posterior = MEAN.fit(data).posterior
    first, again, other = (predictive_check(MEAN, posterior, data, site=s, replicas=5, seed=2) for s in (0, 0, 1))
    assert len(first.scores) == 6
    np.testing.assert_array_equal(first.scores, again.scores)
    assert first.scores[0] == other.scores[0] == pytest.approx(np.sum(MEAN.log_predictive(posterior, data)))
    assert (first.scores[1:] != other.scores[1:]).all()
    assert first.units.tolist() == [12.0] * 6
    assert len(predictive_check(MEAN, posterior, data[:2]).scores) == 100
    streams, draw = [], type(MEAN).draw
    monkeypatch.setattr(type(MEAN), "draw", lambda *given: streams.append(given[3].bit_generator.state) or draw(*given))
    predictive_check(MEAN, posterior, data, replicas=1, seed=2)
    assert streams != [np.random.default_rng([2, 0]).bit_generator.state], "data do not follow from their parameters"
    with pytest.raises(InvalidData, match="no observations to check"):
        predictive_check(MEAN, posterior, data[:0])
    for wrong in ({"site": -1}, {"replicas": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match=r"site|replicas|seed"):
            predictive_check(MEAN, posterior, data, **wrong)
