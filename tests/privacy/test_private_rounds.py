"""What is made of the sums of private rounds: their units, the noise of estimates, and whether rounds fit together."""

import numpy as np
import pytest
from test_private_laws import MODELS

from decbayes.models.regressions.private.rounds import Combined, Round, combine, estimates, misfit_of, nearby
from decbayes.models.regressions.varying.climb import FACTOR
from decbayes.privacy.mechanism import Total

SIDE = 3


def usual_rows(model, size, rng):
    """Rows near the agreed centres but for some that are far away, with outcomes that the model can have."""
    drawn = model.table.made_up(size, rng)
    names = list(model.columns)
    column = model.columns[model.target]
    if getattr(model, "time", ""):
        drawn[:, names.index(model.time)] = rng.uniform(0.5, 12.0, size)
    place = names.index(model.target)
    if column.factor == "real":
        drawn[:, place] = rng.normal(10, 5, size)
    elif column.factor == "counts":
        drawn[:, place] = rng.poisson(3.0, size)
    else:
        drawn[:, place] = rng.integers(2, size=size)
    drawn[: size // 4, names.index("age")] += 400.0
    return drawn


@pytest.mark.parametrize("name", MODELS)
def test_sums_without_noise_are_those_of_slopes_and_weights(name, rng):
    """Σ h, Σ h ψ², Σ h ψ x and Σ h w x xᵀ over rows, h = min(1, p / ‖x‖²); persons count once, whatever their rows."""
    model = MODELS[name]
    mechanism, points = model.mechanism(), usual_rows(model, 40, rng)
    anchor = mechanism.start() + 0.05
    found = mechanism.unscaled(Total(mechanism.unshortened(anchor, points).sum(axis=0), 0.5, anchor, 1))
    rows, (size, zero) = model.table.rows(points), model.target_units
    side = rows.matrix.shape[1]
    h = np.minimum(1.0, side / np.sum(rows.matrix**2, axis=1))
    assert (h < 1).any()
    assert h.max() > 0.3
    deviation = anchor[-1] if mechanism.scores.estimates_noise else 1.0
    linear = rows.matrix @ anchor[:side] + rows.offset / size
    slope, weight, squares = mechanism.scores.slopes((rows.targets - zero) / size, linear, rows.observation, deviation)
    per_person = np.array([np.sum(rows.observation == person) for person in rows.observation])
    unit = 2.5 * deviation if mechanism.scores.estimates_noise else 1.0
    assert found.rows == pytest.approx(np.sum(h / per_person))
    assert found.squares == pytest.approx(0.0 if squares is None else np.sum(h * squares))
    np.testing.assert_allclose(found.slope, unit * (h * slope) @ rows.matrix, atol=1e-9)
    np.testing.assert_allclose(found.weight, rows.matrix.T @ ((h * weight)[:, None] * rows.matrix), atol=1e-9)
    # An entry of the statistic with noise of deviation 0.5 has this much in these units.
    base = Total(np.zeros(mechanism.size(0)), 0.5, anchor, 1)
    first = 1 + int(mechanism.scores.estimates_noise)
    moved = np.zeros(mechanism.size(0))
    moved[first] = moved[first + side] = 0.5
    ahead = mechanism.unscaled(Total(moved, 0.5, anchor, 1))
    np.testing.assert_allclose(ahead.slope[0] - mechanism.unscaled(base).slope[0], found.slope_noise)
    np.testing.assert_allclose(ahead.weight[0, 0], found.weight_noise)
    assert found.noise == 0.5


def made_round(rng, *, slope_noise, weight_noise, anchor=None):
    """A round around the truth 0: slopes −W(anchor), with noise."""
    weight = 400.0 * np.array([[1.0, 0.2, 0.1], [0.2, 1.5, 0.0], [0.1, 0.0, 0.8]])
    anchor = np.array([0.1, -0.2, 0.15]) if anchor is None else anchor
    symmetric = rng.normal(size=(SIDE, SIDE)) * weight_noise
    symmetric = (symmetric + symmetric.T) / 2
    slope = -weight @ anchor + slope_noise * rng.normal(size=SIDE)
    return Round(400.0, 0.0, slope, weight + symmetric, anchor, 1.0, slope_noise, weight_noise)


@pytest.mark.parametrize(("slope_noise", "weight_noise"), [(6.0, 0.0), (0.0, 20.0), (6.0, 20.0)])
def test_the_noise_of_an_estimate_is_what_repeated_releases_show(slope_noise, weight_noise, rng):
    """By the delta method, against 1,200 releases. Off the diagonal weights have half of the noise's variance."""
    prior = np.zeros(SIDE), 0.01 * np.eye(SIDE)
    noises = {"slope_noise": slope_noise, "weight_noise": weight_noise}
    found = [estimates([made_round(rng, **noises)], [1.0], *prior, 0.0) for _ in range(1200)]
    means = np.array([each.mean for each in found])
    said = np.mean([each.noise for each in found], axis=0)
    np.testing.assert_allclose(np.cov(means.T), said, atol=0.15 * np.trace(said) / SIDE)
    np.testing.assert_allclose(means.mean(axis=0), 0.0, atol=0.3 * np.sqrt(np.trace(said)))


def test_rounds_of_noise_alone_fit_together_and_others_do_not(rng):
    """A misfit of 1 on average; far more where one round has other rows."""
    prior, noise = (np.zeros(SIDE), 0.01 * np.eye(SIDE)), {"slope_noise": 6.0, "weight_noise": 0.0}
    rounds = [[made_round(rng, **noise) for _ in range(4)] for _ in range(400)]
    fits = [combine(each, *prior, 0.0) for each in rounds]
    assert np.mean([fit.misfit for fit in fits]) == pytest.approx(1.0, abs=0.12)
    assert combine(rounds[0][:1], *prior, 0.0).misfit == 1.0
    other = rounds[0][2]._replace(slope=rounds[0][2].slope + 60.0)
    assert combine([*rounds[0][:2], other, rounds[0][3]], *prior, 0.0).misfit > 5.0
    # Three equal rounds (the first is not used) have a third of the variance of one.
    single = np.trace(estimates(rounds[0][-1:], [1.0], *prior, 0.0).noise)
    assert np.trace(fits[0].noise) == pytest.approx(single / 3, rel=1e-6)
    spread = np.trace(np.cov(np.array([fit.mean for fit in fits]).T))
    assert spread == pytest.approx(np.trace(fits[0].noise), rel=0.15)


def test_a_prior_pulls_estimates_as_rows_would():
    """Without noise the step of a straight line ends at the mode of rows and prior, wherever it begins."""
    rng = np.random.default_rng(0)
    centre, precision = np.array([1.0, 2.0, -1.0]), np.diag([50.0, 10.0, 80.0])
    for anchor in (np.zeros(SIDE), np.array([0.5, -0.5, 1.0])):
        one = made_round(rng, slope_noise=1e-9, weight_noise=0.0, anchor=anchor)
        found = estimates([one], [1.0], centre, precision, 0.0)
        np.testing.assert_allclose(found.mean, np.linalg.solve(precision + one.weight, precision @ centre), atol=1e-8)
        np.testing.assert_allclose(found.precision, precision + one.weight, atol=1e-9)


def test_rounds_count_by_how_near_their_anchor_was():
    """A far anchor's estimate has an error of half its bend times the square of its step."""
    rng = np.random.default_rng(1)
    near, far = (made_round(rng, slope_noise=1.0, weight_noise=0.0, anchor=np.full(SIDE, side)) for side in (0.02, 0.6))
    far = far._replace(slope=far.slope + 150.0)
    prior = np.zeros(SIDE), 0.01 * np.eye(SIDE)
    straight, bent = (combine([near, far, near], *prior, bend) for bend in (0.0, 1.0))
    assert np.abs(bent.mean).max() < 0.1 * np.abs(straight.mean).max()
    # Errors of curvature are expected between rounds, so they are no misfit.
    means = [np.zeros(SIDE), np.full(SIDE, 0.5)]
    noises, none = [1e-4 * np.eye(SIDE)] * 2, misfit_of(means, [1e-4 * np.eye(SIDE)] * 2, [0.0, 0.0], means[0])
    assert misfit_of(means, noises, [0.0, 0.25], means[0]) == pytest.approx(1.0, rel=1e-3)
    assert none == pytest.approx(2500.0)


def test_the_variance_of_outcomes_is_an_average_by_how_exact_rounds_are(rng):
    model = MODELS["linear"]
    mechanism = model.mechanism()
    rows = 1000.0

    def of(deviation, anchor, noise):
        """A round in which outcomes vary by `deviation`."""
        draws = (deviation * rng.normal(size=200_000) / (2.5 * anchor)).clip(-1, 1)
        place = np.append(np.zeros(mechanism.side), anchor)
        return Round(rows, rows * np.mean(draws**2), None, None, place, noise, 0.0, 0.0)

    exact, rough = of(0.7, 1.0, 1e-6), of(1.4, 1.0, 1.0)
    assert mechanism.variance([exact], rows)[0] == pytest.approx(0.49, rel=0.02)
    assert mechanism.variance([exact, rough], rows)[0] == pytest.approx(0.49, rel=0.02)
    assert mechanism.variance([rough, of(0.7, 1.0, 1.0)], rows)[0] == pytest.approx((1.96 + 0.49) / 2, rel=0.05)
    # The noise of a mean of clipped squares, in squares of the clip.
    error = (2.5 * 0.8) ** 2 * 0.3 / (mechanism.parts[1] * rows)
    said = mechanism.variance([of(0.7, 0.8, 0.3)], rows)[1]
    assert said == pytest.approx(1 / np.sqrt(1.0 + 1.0 / error**2), rel=1e-6)
    assert MODELS["logistic"].mechanism().variance([], rows) == (1.0, 0.0)


@pytest.mark.parametrize(("far", "length"), [(0.3, 0.3), (1.0, 1.0), (5.0, 1.0), (0.0, 0.0)])
def test_no_step_is_longer_than_one(far, length):
    """In the direction of where the estimate is, before the last round."""
    here = np.array([0.5, -0.5, 2.0])
    way = np.array([2.0, -1.0, 2.0]) / 3.0
    np.testing.assert_allclose(nearby(here + far * way, here), here + length * way, atol=1e-12)


@pytest.mark.parametrize(("share", "clipped"), [(0.0, 0.001), (0.3, 0.3), (0.9, 0.9), (5.0, 0.9)])
def test_squares_that_no_noise_could_have_are_clipped(share, clipped):
    """Noise of releases makes sums of squares negative, or larger than clips allow."""
    mechanism = MODELS["linear"].mechanism()
    place = np.append(np.zeros(mechanism.side), 1.0)
    given, known = (Round(100.0, 100.0 * each, None, None, place, 1e-9, 0.0, 0.0) for each in (share, clipped))
    assert mechanism.variance([given], 100.0) == mechanism.variance([known], 100.0)


def test_earlier_rounds_count_by_noise_and_by_the_square_of_how_far_their_anchor_was():
    """Shares 1 / (s² tr(W⁻²) / p + (½ b |m − a|²)²), by hand, and the mean of steps that follows from them."""
    rng, bend = np.random.default_rng(4), 0.7
    anchors = [np.zeros(SIDE), np.array([0.3, -0.2, 0.1]), np.array([-0.1, 0.25, 0.0]), np.array([0.02, 0.01, 0.0])]
    rounds = [made_round(rng, slope_noise=noise, weight_noise=2.0, anchor=anchor)
              for noise, anchor in zip((9.0, 6.0, 5.0, 4.0), anchors, strict=True)]  # fmt: skip
    rounds = [each._replace(slope=each.slope + 40.0 * place) for place, each in enumerate(rounds)]
    prior = np.zeros(SIDE), 0.01 * np.eye(SIDE)
    newest = estimates(rounds[-1:], [1.0], *prior, bend)
    inverse = np.linalg.inv(newest.precision)
    shares = []
    for each in rounds[1:]:
        away = sum((newest.mean[k] - each.anchor[k]) ** 2 for k in range(SIDE))
        shares.append(1.0 / (each.slope_noise**2 * np.trace(inverse @ inverse) / SIDE + (0.5 * bend * away) ** 2))
    found, expected = combine(rounds, *prior, bend), estimates(rounds[1:], shares, *prior, bend)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.precision, expected.precision, rtol=1e-12)
    part = np.array(shares) / sum(shares)
    whole = prior[1] + sum(q * each.weight for q, each in zip(part, rounds[1:], strict=True))
    np.testing.assert_allclose(found.precision, whole, rtol=1e-9)
    exact = []
    for each in rounds[1:]:
        step = np.linalg.solve(whole, each.slope - prior[1] @ each.anchor)
        noise = sum(4.0 * q**2 for q in part)
        around = each.slope_noise**2 * np.eye(SIDE) + 0.5 * noise * (step @ step * np.eye(SIDE) + np.outer(step, step))
        covariance = np.linalg.solve(whole, np.linalg.solve(whole, around).T)
        exact.append((1.0 / (np.trace(covariance) / SIDE + (0.5 * bend * step @ step) ** 2), each.anchor + step))
    total = sum(weight for weight, _ in exact)
    np.testing.assert_allclose(found.mean, sum(weight * place for weight, place in exact) / total, rtol=1e-9)


def test_a_private_posterior_of_coefficients_and_noise_is_that_of_so_many_rows(rng):
    """τ ~ Gamma(a0 + n/2, b0 + n σ²/2), so that E[1/τ] and the deviations of coefficients follow by hand."""
    mechanism, rows, variance = MODELS["linear"].mechanism(), 70.0, 0.6
    family = mechanism.model.outcome.family
    spread = rng.normal(size=(mechanism.side, 2 * mechanism.side))
    sampling, noise = spread @ spread.T / 50.0, 0.02 * np.eye(mechanism.side)
    combined = Combined(rng.normal(size=mechanism.side), None, noise, 1.0)
    posterior = mechanism.posterior(family, combined, sampling, variance, rows)
    before, found = (
        family.parameters(natural[FACTOR]) for natural in (mechanism.model.structure.prior, posterior.natural)
    )
    shape, rate = before["shape"][0] + 35.0, before["rate"][0] + 21.0
    assert (found["shape"][0], found["rate"][0]) == (pytest.approx(shape), pytest.approx(rate))
    np.testing.assert_allclose(found["mean"][0], combined.mean)
    np.testing.assert_allclose(np.linalg.inv(found["scaled_precision"][0]), (sampling + noise) * shape / rate)
