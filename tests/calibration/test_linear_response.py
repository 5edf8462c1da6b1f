"""Linear response against refits of nudged priors, and what sites add up."""

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.linalg import block_diag

import decbayes as db
from decbayes.calibration import calibrated, covariance
from decbayes.calibration.linear_response import LinearResponse
from decbayes.calibration.sites import informations, one_more_pass, total
from decbayes.errors import InvalidFile, NotCalibrated
from decbayes.models.core.model import Model

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from zoo import ZOO

# Seeds of data that leave much doubt about what is hidden.
HIDDEN = {
    "known variance": 1,
    "spherical": 9,
    "diagonal": 1,
    "full": 1,
    "yes or no": 6,
    "counts": 14,
    "categories": 2,
    "classes": 7,
    "features": 2,
    "states": 5,
}
# Noise that lets components overlap where the zoo's do not.
DOUBT = {"known variance": {"variance": 0.4}, "features": {"variance": 0.6}}
from_natural = db.Posterior.from_natural
CONVERGED = db.Ascent(passes=20_000, tolerance=1e-14)


def fitted(name):
    """A model with hidden variables, data that leave some doubt about these, and the converged posterior."""
    rng = np.random.default_rng(HIDDEN[name])
    model, size = ZOO[name]
    model = replace(model, ascent=CONVERGED, **DOUBT.get(name, {}))
    data = db.simulate(model, size, rng=rng).data
    if name == "classes":
        data = np.where(rng.random(data.shape) < 0.15, np.nan, data)
    start = replace(model, ascent=db.Ascent(passes=300, tolerance=1e-9)).fit(data, rng=rng).posterior
    return model, data, model.fit(data, rng=rng, start=start).posterior


def flat(structure, parts):
    return np.concatenate([np.ravel(parts[name]) for name in structure.families])


def means(posterior):
    families = posterior.structure.families
    return np.concatenate(
        [np.ravel(family.expected_statistics(posterior.natural[name])) for name, family in families.items()]
    )


def shaped(structure, numbers):
    sizes = np.cumsum([prior.size for prior in structure.prior.values()])[:-1]
    parts = zip(structure.prior.items(), np.split(numbers, sizes), strict=True)
    return {name: part.reshape(prior.shape) for (name, prior), part in parts}


def nudged(numbers, place, step):
    return numbers + step * (np.arange(len(numbers)) == place)


def inside(structure, numbers, place, step):
    parts = shaped(structure, nudged(numbers, place, step))
    return all(family.contains(parts[name]) for name, family in structure.families.items())


def test_information_by_differences_is_that_of_the_formula():
    for name in ("known variance", "diagonal", "classes"):
        model, data, posterior = fitted(name)
        formula, found = model.information(posterior, data), Model.information(model, posterior, data)
        spread = block_diag(*(f.covariance(posterior.natural[n]) for n, f in model.structure.families.items()))
        scale = np.sqrt(np.outer(np.diag(spread), np.diag(spread)))
        # Differences of steps of 1e-4 have an error of their square, and what is left of 16 digits.
        np.testing.assert_allclose(found * scale, formula * scale, atol=1e-4 * np.abs(formula * scale).max())


@pytest.mark.parametrize("name", sorted(ZOO))
def test_every_model_is_calibrated_or_refuses_in_one_line(name):
    rng = np.random.default_rng(4)
    model, size = ZOO[name]
    data = db.simulate(model, size, rng=rng).data
    merged = model.fit(data, rng=rng).posterior
    told = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = db.calibrate(model, [data], merged, replicas=3)
    except NotCalibrated as error:
        told = str(error)
    assert "\n" not in told
    assert "Refine it" in told or "take a round" in told or found.uncertainty.startswith("calibrated by")


@pytest.mark.parametrize("name", sorted(HIDDEN))
def test_means_respond_to_the_prior_as_the_information_says(name, rng):
    """∂E[T]/∂λ0 of whole refits is (I − V H)⁻¹ V, whatever the model."""
    model, data, posterior = fitted(name)
    structure = model.structure
    spread = block_diag(*(family.covariance(posterior.natural[f]) for f, family in structure.families.items()))
    expected = np.linalg.solve(np.eye(len(spread)) - spread @ model.information(posterior, data), spread)
    scale = np.sqrt(np.diag(spread))
    # Else hardly anything is hidden, and there is nothing to test.
    assert (np.diag(expected) > 1.2 * scale**2).any()
    before = flat(structure, structure.prior)
    for place in rng.choice(len(before), size=min(4, len(before)), replace=False):
        step = 0.01 / scale[place]
        while not all(inside(structure, before, place, sign * step) for sign in (2.0, -2.0)):
            step /= 2
        priors = [shaped(structure, nudged(before, place, sign * step)) for sign in (1.0, -1.0)]
        refits = [model.fit(data, rng=rng, prior=from_natural(structure, prior), start=posterior) for prior in priors]
        moved = [means(refit.posterior) for refit in refits]
        numeric = (moved[0] - moved[1]) / (2 * step)
        # In deviations of both; steps of 0.01 of them leave an error of their square, and climbs end a little early.
        difference = (numeric - expected[:, place]) / (scale * scale[place])
        size = np.abs(expected[:, place] / (scale * scale[place])).max()
        assert np.abs(difference).max() < 0.02 * size


def test_what_is_not_a_statistic_responds_as_an_exact_mean_field_does(rng):
    """The weight of one of two known components: its mean field, nudged by t · π, by numerical integration."""
    centres, noise, alpha = np.array([-0.6, 0.8]), 0.5, np.array([2.0, 1.0])
    points = np.where(rng.random(60) < 0.4, *centres) + noise * rng.standard_normal(60)
    model = db.GaussianMixture(2, 1, variance=noise**2, ascent=CONVERGED)
    # A prior so sharp that the means are known.
    known = db.families.IsotropicGaussian().natural(mean=centres[:, None], variance=1e-10)
    structure = model.structure.with_prior({"components": known, "weights": alpha[:, None] - 1.0})
    model = replace(model, agreed=structure)
    posterior = model.fit(points[:, None], rng=rng, start=db.Posterior.of_prior(structure)).posterior
    likelihood = np.exp(-0.5 * (points[:, None] - centres) ** 2 / noise**2)
    grid = np.linspace(1e-9, 1 - 1e-9, 20_001)

    def mean_share(nudge):
        counts = np.array([30.0, 30.0])
        for _ in range(500):
            log_density = (alpha + counts - 1) @ np.log([grid, 1 - grid]) + nudge * grid
            density = np.exp(log_density - log_density.max())
            density /= trapezoid(density, grid)
            logs = trapezoid(density * np.log([grid, 1 - grid]), grid)
            shares = likelihood * np.exp(logs)
            counts = (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0)
        return trapezoid(density * grid, grid)

    numeric = (mean_share(0.5) - mean_share(-0.5)) / 1.0
    found = db.calibrate(model, [points[:, None]], posterior).deviation("weights")
    np.testing.assert_allclose(found**2, numeric, rtol=2e-3)
    assert (found > 1.1 * posterior.deviation("weights")).all()


def test_the_deviation_of_a_statistic_is_its_own_response(rng):
    model, data, posterior = fitted("known variance")
    spread = block_diag(*(f.covariance(posterior.natural[name]) for name, f in model.structure.families.items()))
    response = np.linalg.solve(np.eye(len(spread)) - spread @ model.information(posterior, data), spread)
    places = np.arange(9).reshape(3, 3)[:, :2].ravel()
    found = db.calibrate(model, [data], posterior).deviation("components").ravel()
    np.testing.assert_allclose(found**2, np.diag(response)[places], rtol=1e-5)
    whole = covariance(posterior, informations(model, [data[:9], data[9:]], posterior))
    np.testing.assert_allclose(whole[:6, :6], response[np.ix_(places, places)], atol=1e-5 * np.abs(response).max())
    weights = whole[6:, 6:]
    shares = db.calibrate(model, [data], posterior).deviation("weights")
    np.testing.assert_allclose(np.diag(whole), np.concatenate([found, shares]) ** 2, rtol=1e-9)
    # Shares add up to one: their sum does not vary, nearly so by what T tells of them.
    assert weights.sum() < 0.05 * np.trace(weights)


@pytest.mark.parametrize("name", ["full", "classes", "features"])
def test_information_adds_up_over_sites(name, rng):
    model, data, posterior = fitted(name)
    parts = [data[:1], data[1:30], data[30:30], data[30:]]
    sites = informations(model, parts, posterior)
    whole = model.information(posterior, data)
    np.testing.assert_allclose(sum(site.matrix for site in sites), whole, atol=1e-9 * np.abs(whole).max())
    found = calibrated(posterior, [db.checking.Information.from_bytes(site.to_bytes()) for site in sites])
    assert found.uncertainty == "calibrated by linear response, 4 sites"
    alone = calibrated(posterior, informations(model, [data], posterior))
    for factor in model.structure.families:
        np.testing.assert_allclose(
            np.hstack([np.ravel(part) for part in found.deviation(factor)]),
            np.hstack([np.ravel(part) for part in alone.deviation(factor)]),
            rtol=1e-6,
        )


def test_a_converged_posterior_is_what_one_more_pass_finds(rng):
    for name in ("full", "classes", "features"):
        model, data, posterior = fitted(name)
        again = one_more_pass(model, [data[:20], data[20:]], posterior)
        for factor in model.structure.families:
            np.testing.assert_allclose(again.natural[factor], posterior.natural[factor], rtol=1e-4, atol=1e-3)


def test_how_far_it_is_from_convergence_is_known_beforehand():
    """The predicted way, in calibrated deviations, against the way that a long climb goes."""
    model, data, posterior = fitted("full")
    response = LinearResponse(posterior, total(informations(model, [data], posterior)))
    assert response.remaining() < 1e-3
    # Off by a little more of the weights' prior: where the posterior would be with other data.
    prior = dict(model.structure.prior)
    prior["weights"] = prior["weights"] + [[0.4], [-0.2]]
    rng = np.random.default_rng(0)
    away = model.fit(data, rng=rng, prior=from_natural(model.structure, prior), start=posterior).posterior
    near = LinearResponse(away, total(informations(model, [data[:9], data[9:]], away)))
    moved = means(posterior) - means(away)
    spread = block_diag(*(f.covariance(away.natural[name]) for name, f in model.structure.families.items()))
    whole = np.linalg.solve(np.eye(len(spread)) - spread @ model.information(away, data), spread)
    # Sums over a symmetric matrix' entries twice are no obstacle to a pseudo-inverse.
    expected = np.sqrt(moved @ np.linalg.pinv(whole, rcond=1e-10) @ moved / len(moved))
    assert near.remaining() == pytest.approx(expected, rel=0.15)


def test_a_merge_that_is_not_refined_says_so(rng):
    model = db.GaussianMixture(2, 1, variance=0.25, prior_variance=4.0, ascent=db.Ascent(restarts=1))
    points = np.where(rng.random((160, 1)) < 0.5, -0.7, 0.7) + 0.5 * rng.standard_normal((160, 1))
    shards = np.array_split(points, 20)
    local = [model.fit(shard, rng=rng).posterior for shard in shards]
    merged = db.merge(local, components=2)
    with pytest.warns(RuntimeWarning, match="Refine it first"):
        found = db.calibrate(model, shards, merged)
    assert "not refined" in found.uncertainty
    refined = db.refine(model, shards, local, rng=rng).merged
    assert db.calibrate(model, shards, refined).uncertainty == "calibrated by linear response, 20 sites"


@pytest.mark.parametrize("name", ["mean", "linear regression", "logistic regression", "Poisson regression"])
def test_models_that_hide_nothing_have_nothing_to_calibrate(name, rng):
    """Their intervals would stay as they are, and must not be called calibrated."""
    model, size = ZOO[name]
    data = db.simulate(model, size, rng=rng).data
    posterior = replace(model, ascent=CONVERGED).fit(data, rng=rng).posterior
    with pytest.raises(NotCalibrated, match="nothing to calibrate"):
        db.calibrate(model, [data[:11], data[11:]], posterior)


def test_a_fit_that_found_its_number_of_components_is_calibrated_like_any_other(rng):
    points = rng.normal(np.repeat([-4.0, 0.0, 4.0], 30), 0.6)[:, None]
    model = db.GaussianMixture("auto", 1, covariance="diagonal", ascent=CONVERGED)
    posterior = model.fit(points, rng=rng).posterior
    found = db.calibrate(model, [points[:40], points[40:]], posterior)
    assert (found.deviation("weights") >= posterior.deviation("weights")).all()


def test_a_posterior_between_two_maxima_is_refused(rng):
    """Both components alike: a fixed point of the updates, but the data would part them."""
    model = db.GaussianMixture(2, 1, variance=0.01, ascent=CONVERGED)
    points = np.repeat([[-1.0], [1.0]], 20, axis=0)
    alike = model.from_assignments(points, np.full((40, 2), 0.5))
    with pytest.raises(NotCalibrated, match="Refine it"):
        db.calibrate(model, [points], alike)


def test_information_of_another_posterior_or_of_nobody_is_refused(rng):
    model, data, posterior = fitted("known variance")
    other = model.fit(data + 1.0, rng=rng).posterior
    here, there = (informations(model, [data], place)[0] for place in (posterior, other))
    with pytest.raises(NotCalibrated, match="different posteriors"):
        here + there
    with pytest.raises(NotCalibrated, match="belongs to another posterior"):
        calibrated(posterior, [there])
    with pytest.raises(NotCalibrated, match="no information to add up"):
        calibrated(posterior, [])
    for content in (b"", b"nonsense", model.fit(data, rng=rng).posterior.digest.encode()):
        with pytest.raises(InvalidFile):
            db.checking.Information.from_bytes(content)
    short = replace(here, contribution=here.contribution[:-1])
    with pytest.raises(InvalidFile, match="symmetric"):
        db.checking.Information.from_bytes(short.to_bytes())
    skew = replace(here, matrix=here.matrix + np.triu(np.ones(here.matrix.shape), 1) * 9.0)
    with pytest.raises(InvalidFile, match="symmetric"):
        db.checking.Information.from_bytes(skew.to_bytes())


def test_a_single_component_has_a_certain_weight_and_an_exact_mean(rng):
    model, points = db.GaussianMixture(1, 1, variance=1.0), rng.normal(size=(20, 1))
    found = db.calibrate(model, [points], model.fit(points, rng=rng).posterior)
    assert found.deviation("weights") == pytest.approx([0.0])
    assert found.deviation("components").item() == pytest.approx((20 + 1.0) ** -0.5)


def test_what_cannot_be_calibrated_is_refused_before_sites_compute(rng):
    """A site of which a part counts, and data that the posterior cannot hold."""
    model = db.GaussianMixture(2, 1, covariance="diagonal")
    shards = [rng.choice([-5.0, 5.0], size=(size, 1)) + rng.normal(size=(size, 1)) for size in (60, 50, 70, 1200)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    robust = db.merge(posteriors, robust=True)
    with pytest.raises(NotCalibrated, match="count only in part in this robust merge"):
        db.checking.Information.of(model, shards[0], robust)
    without = db.merge(posteriors[:3], robust=True)
    db.checking.Information.of(model, shards[0], without)
    with pytest.raises(NotCalibrated, match="1,200 observations, and the posterior holds 180"):
        db.checking.Information.of(model, shards[3], without)
