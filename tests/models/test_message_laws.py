"""What first broadcasts and site effects are computed from, against dense formulas and finite differences."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal

import decbayes as db
from decbayes.models.regressions.logistic import Logistic
from decbayes.models.regressions.messages.first_broadcasts import FirstBroadcasts, message_of
from decbayes.models.regressions.messages.one_broadcast import (
    Cloud,
    Quadratic,
    Reading,
    anchor_of,
    climb_to_joint,
    divergence,
    marked,
    quadratic_value,
    total,
)
from decbayes.models.regressions.messages.redrawn import on_design
from decbayes.models.regressions.varying.site_effects import Moments, SiteEffects
from decbayes.models.regressions.varying.variation import BETWEEN, Grouping
from decbayes.posterior import Posterior

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


COLUMNS = {"a": db.columns.Gaussian(0, 1), "b": db.columns.Gaussian(0, 1)}
KINDS = {
    "Poisson": db.PoissonRegression("y", columns=COLUMNS | {"y": "count"}),
    "logistic": db.LogisticRegression("y", columns=COLUMNS | {"y": "yes/no"}),
    "negative binomial": db.NegativeBinomialRegression("y", columns=COLUMNS | {"y": "count"}, dispersion=0.8),
    "ordered": db.OrderedRegression("y", columns=COLUMNS | {"y": db.columns.Categorical(3)}),
    "cumulative": db.OrderedRegression("y", columns=COLUMNS | {"y": db.columns.Categorical(3)}, link="cumulative"),
    "multinomial": db.MultinomialRegression("y", columns=COLUMNS | {"y": db.columns.Categorical(*"uvw")}),
}


@pytest.fixture(params=KINDS)
def sites(request, rng):
    """A regression, the messages of some sites, as `fit_site` sends them, and how to read one."""
    model, x = KINDS[request.param], rng.normal(size=(180, 2))
    y = rng.poisson(np.exp(0.3 + x @ [0.6, -0.4]))
    most = {"logistic": 1, "ordered": 2, "cumulative": 2, "multinomial": 2}.get(request.param, 99)
    shards = np.array_split(np.column_stack([x, np.minimum(y, most)]), 3)
    messages = [message_of(model.fit_site(shard).posterior) for shard in shards]
    known = FirstBroadcasts(model)

    def read(message):
        anchor = known.anchors[int(anchor_of(message))]
        return model.outcome.reading(message, anchor, known.levels, 1.0), anchor

    return model, messages, read


def test_recentred_messages_are_what_sites_contribute_at_their_joint_posterior(sites):
    model, messages, read = sites
    sent = [Posterior(model.structure, {"coefficients": message.natural}) for message in messages]
    moved = [message_of(posterior) for posterior in model.recentred(sent)]
    joint = total([Quadratic.of(model.structure.prior["coefficients"]), *moved]).moments()
    for message, there in zip(messages, moved, strict=True):
        again, _ = read(message)[0].at(*joint)
        np.testing.assert_allclose(again.natural, there.natural, rtol=1e-3, atol=1e-3)
        assert np.abs(there.natural - message.natural).max() > 0.03, "they did move"
    # A message that is no first broadcast stays.
    strange = replace(sent[0], contribution={"coefficients": (1.0 + 1e-6) * np.asarray(messages[0].natural)})
    assert model.recentred([strange, sent[1]])[0] == strange


def test_a_site_read_from_its_message_contributes_that_message_where_it_was_made(sites):
    _, (message, *_), read = sites
    site, anchor = read(message)
    found, _ = site.at(*(message + anchor).moments())
    np.testing.assert_allclose(found.natural, message.natural, atol=1e-6)


def test_the_value_of_rows_has_the_slope_of_their_contribution(sites):
    """d E[log p] / dm = shift − P m, by finite differences; but for counts, variances of f are means over rows."""
    _, (message, *_), read = sites
    site, anchor = read(message)
    mean, covariance = (message + anchor).moments()
    here, _ = site.at(mean + 0.1, 0.1 * covariance)
    expected = here.shift - here.precision @ (mean + 0.1)
    for place, step in enumerate(1e-5 * np.eye(len(mean))):
        high, low = (site.at(mean + 0.1 + side * step, 0.1 * covariance)[1] for side in (1, -1))
        assert (high - low) / 2e-5 == pytest.approx(expected[place], rel=1e-4, abs=0.01)


def test_first_broadcasts_are_known_by_their_shifts_and_sums_of_them_are_not(rng):
    one, two = gaussian(rng), gaussian(rng)
    assert [anchor_of(marked(one, place)) for place in range(3)] == [0, 1, 2]
    np.testing.assert_allclose(marked(one, 1).shift, one.shift, atol=1e-4)
    assert anchor_of(one) < 0
    for count in (2, 3, 7, 60):
        assert not 0 <= anchor_of(total([marked(one, 0)] * count)) < 10
    assert not 0 <= anchor_of(marked(one, 0) + marked(two, 1)) < 10


def test_tilted_clouds_are_integrals_over_their_rows():
    cloud = Cloud(np.array([3.0]), np.array([[1.0, 0.4]]), np.diag([0.0, 0.7]))
    square = np.array([[0.1, 0.05], [0.05, -0.3]])
    tilted = cloud.tilted(square)

    def rate(u, power):
        x = np.array([1.0, u])
        return u**power * 3.0 * stats.norm.pdf(u, 0.4, 0.7**0.5) * np.exp(0.5 * x @ square @ x)

    moments = [integrate.quad(rate, -12, 12, args=(power,))[0] for power in range(3)]
    second = (tilted.points.T * tilted.counts) @ tilted.points + tilted.counts.sum() * tilted.scatter
    np.testing.assert_allclose(second, [[moments[0], moments[1]], [moments[1], moments[2]]], rtol=1e-8)
    assert cloud.tilted(np.diag([0.0, 1.5])) is None, "no finite total"


def test_readings_of_yes_and_no_are_sums_over_rows(rng):
    """Rows that are normal where they count by σ′ at the site's estimate, drawn a million times: at another place their
    Σ(y − σ) x and Σ σ′ x xᵀ are those of the reading.
    """
    estimate, elsewhere, size = np.array([0.3, 0.8, -0.5]), np.array([-0.9, 0.4, 0.6]), 1_000_000
    x = np.column_stack([np.ones(size), rng.multivariate_normal([0.2, -0.4], [[1.0, 0.3], [0.3, 0.6]], size=size)])
    counts = 1e-4 / (expit(x @ estimate) * expit(-x @ estimate))

    def sums(at):
        chance = expit(x @ at)
        return (counts * (0.4 - chance)) @ x, (x.T * (counts * chance * (1 - chance))) @ x

    slope, precision = sums(estimate)
    tight = 1e8 * np.eye(3)  # an anchor around the estimate, whose covariance is nearly nothing
    anchor = Quadratic(tight @ estimate - slope, tight)
    site = Reading.of(Quadratic(slope + precision @ estimate, precision), anchor, np.array([0]), Logistic())
    found, _ = site.at(elsewhere, 1e-8 * np.eye(3))
    slope, precision = sums(elsewhere)
    np.testing.assert_allclose(found.precision, precision, rtol=0.01, atol=0.2)
    np.testing.assert_allclose(found.shift - found.precision @ elsewhere, slope, rtol=0.01, atol=0.5)


def test_readings_of_levels_without_an_order_are_sums_over_rows(rng):
    """The same with softmax, which counts rows by what their pairs of levels weigh together.

    128 points stand for the rows, which are 200,000 here: within a twentieth.
    """
    estimate, size = np.array([[0.3, 0.8, -0.5], [-0.2, 0.1, 0.6]]), 200_000
    elsewhere = np.array([[-0.4, 0.5, -0.1], [0.3, 0.5, 0.4]])
    x = np.column_stack([np.ones(size), rng.multivariate_normal([0.2, -0.4], [[1.0, 0.3], [0.3, 0.6]], size=size)])

    def chances(at):
        return softmax(np.column_stack([np.zeros(size), x @ at.T]), axis=1)

    counts = 5e-4 / (1 - np.sum(chances(estimate) ** 2, axis=1))

    def sums(at):
        chance = chances(at)[:, 1:]
        slope = ((counts[:, None] * ([0.3, 0.4] - chance)).T @ x).ravel()
        blocks = [[(x.T * (counts * chance[:, i] * ((i == j) - chance[:, j]))) @ x for j in (0, 1)] for i in (0, 1)]
        return slope, np.block(blocks)

    slope, precision = sums(estimate)
    tight = 1e8 * np.eye(6)
    anchor = Quadratic(tight @ estimate.ravel() - slope, tight)
    message = Quadratic(slope + precision @ estimate.ravel(), precision)
    site = db.MultinomialRegression.outcome.reading(message, anchor, np.array([0, 3]), 1.0)
    np.testing.assert_allclose(site.rest.precision, 0.0, atol=0.4)
    found, _ = site.at(elsewhere.ravel(), 1e-8 * np.eye(6))
    slope, moved = sums(elsewhere)
    assert np.abs(moved - precision).max() > 4.0
    np.testing.assert_allclose(found.precision, moved, rtol=0.05, atol=0.4)
    np.testing.assert_allclose(found.shift - found.precision @ elsewhere.ravel(), slope, rtol=0.05, atol=0.4)


def test_rows_of_each_level_have_their_own_mean(rng):
    """Σ w x xᵀ of rows with one of two levels: as many as there are, where they are, and one scatter for both."""
    level = rng.random(5000) < 0.3
    u = rng.normal(np.where(level, 2.0, -1.0), 0.5)
    x = np.column_stack([level, ~level, u])
    cloud = Cloud.weighted(x.T @ x.astype(float), np.array([0, 1]))
    np.testing.assert_allclose(cloud.counts, [level.sum(), (~level).sum()])
    np.testing.assert_allclose(cloud.points, [[1, 0, u[level].mean()], [0, 1, u[~level].mean()]], atol=1e-12)
    within = np.mean((u - np.where(level, u[level].mean(), u[~level].mean())) ** 2)
    np.testing.assert_allclose(cloud.scatter, np.diag([0.0, 0.0, within]), atol=1e-10)


def test_differences_of_levels_do_not_hide_where_rows_are(rng):
    """Σ w x xᵀ of rows with one of three levels, and of differences of neighbouring ones, is taken apart again."""
    level, u, weights = rng.integers(3, size=5000), rng.normal(size=5000), rng.random(5000)
    x = np.column_stack([np.eye(3)[level], u])
    gaps = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 1.0, -1.0, 0.0]])
    precision = (x.T * weights) @ x + (gaps.T * [70.0, 30.0]) @ gaps
    rows, between = Cloud.weighted(precision, np.arange(3)), Cloud.between(precision, np.arange(3))
    np.testing.assert_allclose(rows.counts, np.bincount(level, weights), rtol=1e-9)
    np.testing.assert_allclose(rows.points[:, 3], np.bincount(level, weights * u) / rows.counts, rtol=1e-9)
    np.testing.assert_allclose(between.counts, [70.0, 30.0], rtol=1e-9)
    np.testing.assert_array_equal(between.points, gaps)


def test_a_climb_without_a_start_leads_nowhere(rng):
    prior = gaussian(rng)
    assert climb_to_joint(lambda mean, covariance: None, prior, [gaussian(rng)], [np.zeros(SIDE)]) is None


@pytest.mark.parametrize("kind", [db.LinearRegression, db.LogisticRegression, db.PoissonRegression])
def test_a_regression_on_its_design_is_the_same_regression(kind, rng):
    columns = {"a": db.columns.Gaussian(5, 2), "w": db.columns.Categorical("p", "q"), "y": kind.outcome.holds()}
    model = kind("y", columns=columns, terms=("a", "w", "a:w"))
    points = np.column_stack([rng.normal(5, 2, 50), rng.integers(2, size=50), rng.integers(2, size=50)])
    rows = model.table.rows(points)
    direct, offset = on_design(model), np.zeros(len(points))
    again = np.column_stack([rows.matrix[:, 1:], offset, points[:, 2]])
    one, two = model.fit(points).posterior, direct.fit(again).posterior
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
