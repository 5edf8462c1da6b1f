"""What first broadcasts and site effects are computed from, against dense formulas and finite differences."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import decbayes as db
from decbayes.families import dense
from decbayes.models.regressions.messages.first_broadcasts import FirstBroadcasts
from decbayes.models.regressions.messages.one_broadcast import (
    Cloud,
    Counted,
    Quadratic,
    climbed,
    divergence,
    forecast,
    quadratic_value,
    recentred,
    total,
)
from decbayes.models.regressions.messages.redrawn import on_design
from decbayes.models.regressions.poisson import PoissonOutcome
from decbayes.models.regressions.varying.site_effects import Moments, SiteEffects
from decbayes.models.regressions.varying.variation import BETWEEN, Grouping

SIDE = 3


def gaussian(rng, centre=0.0, size=1.0):
    root = rng.normal(size=(SIDE, SIDE))
    precision = size * (root @ root.T + np.eye(SIDE))
    return Quadratic(precision @ (centre + rng.normal(size=SIDE)), precision)


def kl(one, two):
    """Of Gaussians, from their moments."""
    (m, s), (n, t) = one.moments(), two.moments()
    inverse = np.linalg.inv(t)
    logs = np.log(np.linalg.det(t) / np.linalg.det(s))
    return 0.5 * (np.trace(inverse @ s) + (n - m) @ inverse @ (n - m) - SIDE + logs)


def test_divergences_differ_as_those_of_gaussians_do(rng):
    prior, one, two = (gaussian(rng) for _ in range(3))
    assert divergence(one, prior) - divergence(two, prior) == pytest.approx(kl(one, prior) - kl(two, prior))


def test_the_value_of_a_quadratic_is_its_expectation(rng):
    message, about = gaussian(rng), gaussian(rng)
    mean, covariance = about.moments()
    draws = rng.multivariate_normal(mean, covariance, size=200_000)
    values = draws @ message.shift - 0.5 * np.einsum("nd,de,ne->n", draws, message.precision, draws)
    assert quadratic_value(message, mean, covariance) == pytest.approx(values.mean(), abs=6 * values.std() / 400)


def sites(rng, count=3):
    """Messages of sites with counts, as `fit_site` sends them: likelihoods at fits with the anchor."""
    model = db.PoissonRegression(
        "y", columns={"a": db.columns.Gaussian(0, 1), "b": db.columns.Gaussian(0, 1), "y": "count"}
    )
    messages = []
    for _ in range(count):
        x = rng.normal(size=(60, 2))
        y = rng.poisson(np.exp(0.5 + x @ [0.6, -0.4]))
        fit = model.fit_site(np.column_stack([x, y]), rng=rng)
        messages.append(Quadratic.of(dense(fit.posterior.contribution["coefficients"])))
    return model, messages


def test_recentred_messages_are_what_sites_contribute_at_their_joint_posterior(rng):
    model, messages = sites(rng)
    prior, anchor = Quadratic.of(model.structure.prior["coefficients"]), FirstBroadcasts(model).anchors[0]
    ones = np.array([1.0, 0.0, 0.0])
    moved = recentred(messages, prior, anchor, ones)
    joint = total([prior, *moved]).moments()
    for message, there in zip(messages, moved, strict=True):
        again, _ = Counted.read(message, anchor).at(*joint)
        np.testing.assert_allclose(again.natural, there.natural, rtol=1e-4, atol=1e-4)
        assert np.abs(there.natural - message.natural).max() > 0.1, "they did move"
    # A message that is no first broadcast, with half an event, stays.
    strange = Quadratic(messages[0].shift + 0.5 * np.eye(SIDE)[0], messages[0].precision)
    np.testing.assert_allclose(recentred([strange, messages[1]], prior, anchor, ones)[0].natural, strange.natural)


def test_a_site_read_from_its_message_contributes_that_message_where_it_was_made(rng):
    model, (message, *_) = sites(rng)
    anchor = FirstBroadcasts(model).anchors[0]
    found, _ = Counted.read(message, anchor).at(*(message + anchor).moments())
    np.testing.assert_allclose(found.natural, message.natural, atol=1e-6)


def test_the_value_of_counts_has_the_slope_of_their_contribution(rng):
    """d E[log p] / dm = shift − P m, by finite differences."""
    model, (message, *_) = sites(rng)
    site = Counted.read(message, FirstBroadcasts(model).anchors[0])
    mean, covariance = (message + FirstBroadcasts(model).anchors[0]).moments()
    here, _ = site.at(mean + 0.1, covariance)
    for step in 1e-5 * np.eye(SIDE):
        high, low = (site.at(mean + 0.1 + side * step, covariance)[1] for side in (1, -1))
        assert (high - low) / 2e-5 == pytest.approx(
            (here.shift - here.precision @ (mean + 0.1)) @ step / 1e-5, rel=1e-5
        )


def test_a_climb_without_a_start_leads_nowhere_and_rates_stay_finite(rng):
    prior = gaussian(rng)
    assert climbed(lambda mean, covariance: None, prior, [gaussian(rng)], []) is None
    cloud = Cloud(10.0, np.zeros(2), np.eye(2)).tilted(np.array([1e4, 0.0, 0.0]), np.zeros((3, 3)))
    assert np.isfinite(cloud.total)


@pytest.mark.parametrize("bend", [1.0, 0.4])
def test_a_forecast_is_the_next_term_of_the_likelihood(bend, rng):
    """−½ Σ w b x (xδ)² over rows, b being 1 of counts: against that sum over the rows themselves."""
    x = np.column_stack([np.ones(20_000), rng.normal(0.3, 1.2, size=(20_000, 2)) @ [[1.0, 0.4], [0.0, 0.8]]])
    estimate, prior = np.array([0.2, 0.1, -0.1]), Quadratic(np.zeros(SIDE), 1e-3 * np.eye(SIDE))
    anchor = Quadratic(np.zeros(SIDE), 1e-9 * np.eye(SIDE))
    precision = x.T @ x / 100
    one = Quadratic(precision @ estimate, precision)
    other = Quadratic(precision @ (estimate + 0.3), precision)
    joint, covariance = total([prior, one, other]).moments()
    slope = np.zeros(SIDE)
    for centre in (estimate, estimate + 0.3):
        slope -= 0.5 * bend * np.mean(x * (x @ (joint - centre))[:, None] ** 2, axis=0) * len(x) / 100
    expected = np.abs(covariance @ slope) / np.sqrt(np.diag(covariance))
    assert PoissonOutcome().bend(0.3) == 1.0
    found = forecast([one, other], prior, anchor, np.array([1.0, 0.0, 0.0]), lambda f: bend)
    np.testing.assert_allclose(found, expected, rtol=0.05)


@pytest.mark.parametrize("kind", [db.LinearRegression, db.LogisticRegression, db.PoissonRegression])
def test_a_regression_on_its_design_is_the_same_regression(kind, rng):
    columns = {"a": db.columns.Gaussian(5, 2), "w": db.columns.Categorical("p", "q"), "y": kind.outcome.holds()}
    model = kind("y", columns=columns, terms=("a", "w", "a:w"))
    points = np.column_stack([rng.normal(5, 2, 50), rng.integers(2, size=50), rng.integers(2, size=50)])
    rows = model.table.rows(points)
    direct = on_design(model)
    one, two = model.fit(points).posterior, direct.fit(np.column_stack([rows.matrix[:, 1:], points[:, 2]])).posterior
    np.testing.assert_allclose(one.natural["coefficients"], two.natural["coefficients"], rtol=1e-6, atol=1e-8)


def effects_of(rng, prior):
    shift, root = rng.normal(size=(4, SIDE)), rng.normal(size=(4, SIDE, SIDE))
    grouping = Grouping(BETWEEN, np.array([0, 2]), correlated=False)
    precision = root @ np.swapaxes(root, 1, 2) + np.eye(SIDE)
    return SiteEffects(shift, precision, (grouping,), (np.diag(prior),), np.arange(4))


def test_the_response_of_site_effects_is_a_derivative(rng):
    """Of −½ Σ E[τu²] by E[τ], E[τβ], E[τββᵀ] and the precisions between sites."""
    prior, step = np.array([1.3, 0.7]), 1e-5
    made = effects_of(rng, prior)
    moments = Moments(1.4, rng.normal(size=SIDE), np.eye(SIDE) + 0.1)

    def value(effects, moments):
        return -0.5 * np.diag(effects.squares(moments)[0].sum(axis=0))

    (crossed,), (between,) = made.response(moments)
    flat = np.concatenate([[moments.weight], moments.first, moments.second.ravel()])
    for place in range(len(flat)):
        ends = []
        for side in (step, -step):
            at = flat.copy()
            at[place] += side
            second = at[1 + SIDE :].reshape(SIDE, SIDE)
            ends.append(value(made, Moments(at[0], at[1 : 1 + SIDE], 0.5 * (second + second.T))))
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), crossed[:, place], atol=1e-6)
    for place in range(2):
        ends = [value(made.at(0, np.diag(prior + side * np.eye(2)[place])), moments) for side in (step, -step)]
        np.testing.assert_allclose((ends[0] - ends[1]) / (2 * step), between[:, place], rtol=1e-4, atol=1e-6)


def test_the_entropy_of_site_effects_is_that_of_gaussians(rng):
    made = effects_of(rng, np.array([1.3, 0.7]))
    expected = sum(multivariate_normal(np.zeros(2), spread).entropy() for spread in made.outer.spread)
    assert made.entropy() == pytest.approx(expected - 0.5 * 8 * np.log(2 * np.pi))
