"""Whether sites differ by more than chance: against the textbook's formulas, and where there is nothing to find."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import chi2

import decbayes as db

MODEL = db.GaussianMixture(2, 1, variance=0.25, prior_variance=1e4, ascent=db.Ascent(restarts=0))


def sites(rng, between, count=10, size=40):
    offsets = between * rng.standard_normal((count, 2))
    labels = [rng.integers(2, size=size) for _ in range(count)]
    # So far apart that every point's cluster is known.
    centres = np.array([-20.0, 20.0])
    points = [(centres + offsets[site])[labels[site]] + 0.5 * rng.standard_normal(size) for site in range(count)]
    return points, labels


def found_of(points, rng):
    (found,) = db.merging.heterogeneity(
        db.align([MODEL.fit(part[:, None], rng=rng).posterior for part in points])
    ).values()
    return found


@pytest.mark.parametrize("between", [0.0, 0.6])
def test_the_estimates_are_those_of_dersimonian_and_laird(between, rng):
    points, _ = sites(rng, between)
    found = found_of(points, rng)
    for slot, side in enumerate(
        np.sign(db.merge([MODEL.fit(p[:, None], rng=rng).posterior for p in points]).mean("components")[:, 0])
    ):
        own = [part[np.sign(part) == side] for part in points]
        counts, means = np.array([len(part) for part in own]), np.array([part.mean() for part in own])
        weights = counts / 0.25
        pooled = np.average(means, weights=weights)
        q = float((weights * (means - pooled) ** 2).sum())
        tau = np.sqrt(max(0.0, (q - 9) / (weights.sum() - (weights**2).sum() / weights.sum())))
        assert found.ratio[slot] == pytest.approx(np.sqrt(q / 9), rel=1e-3)
        assert found.probability[slot] == pytest.approx(chi2(9).sf(q), rel=1e-2, abs=1e-12)
        assert found.between["components"]["value"][slot, 0] == pytest.approx(tau, rel=1e-3, abs=1e-4)


def test_chance_alone_is_found_as_often_as_it_says(rng):
    rejected = [found_of(sites(rng, 0.0, size=30)[0], rng).probability < 0.1 for _ in range(40)]
    # 80 tests at 10 %: 8 ± 2.7.
    assert 1 <= np.sum(rejected) <= 17


def test_a_slot_of_one_site_says_nothing(rng):
    left, right = (
        MODEL.fit(np.full((20, 1), place) + rng.normal(size=(20, 1)), rng=rng).posterior for place in (-90, 90)
    )
    (found,) = db.merging.heterogeneity(db.align([left, right], components=4)).values()
    assert np.isnan(found.ratio).all()
    assert np.isnan(found.probability).all()


def test_topics_of_like_sites_differ_by_little_more_than_chance_and_those_of_unlike_sites_by_more(rng):
    model = db.LatentDirichletAllocation(2, tuple("abcdefgh"), 0.1, 0.5)
    themes = np.kron(np.eye(2), np.full(4, 0.25))

    def site(themes):
        return model.fit(rng.multinomial(30, rng.dirichlet([0.1, 0.1], size=80) @ themes), rng=rng).posterior

    (alike,) = db.merging.heterogeneity(db.align([site(themes) for _ in range(4)])).values()
    tilted = np.kron(np.eye(2), [0.55, 0.25, 0.15, 0.05])
    (unlike,) = db.merging.heterogeneity(
        db.align([*(site(themes) for _ in range(2)), *(site(tilted) for _ in range(2))])
    ).values()
    assert (alike.ratio < 1.8).all()
    assert (unlike.ratio > 3.0).all()
    assert (unlike.probability < 1e-6).all()


def regressions(rng, between, *, slopes=0.0, count=8, size=30):
    """A linear regression with noise that is known to all practical purposes, and each site's rows."""
    columns = {"x": "real", "z": "real", "y": "real"}
    model = db.LinearRegression("y", columns=columns, prior_variance=1e6, prior_degrees=1e7, prior_noise=1.0)
    rows = []
    for _ in range(count):
        x, z = rng.normal(size=(2, size)) + 0.5
        y = between * rng.standard_normal() + slopes * rng.standard_normal() * x + z + rng.standard_normal(size)
        rows.append(np.column_stack([x, z, y]))
    return model, rows


def test_coefficients_are_compared_as_a_meta_analysis_of_several_does(rng):
    model, rows = regressions(rng, 0.5)
    (found,) = db.merging.heterogeneity(db.align([model.fit(part).posterior for part in rows])).values()
    designs = [np.column_stack([np.ones(len(part)), part[:, :2]]) for part in rows]
    own = [np.linalg.lstsq(design, part[:, 2])[0] for design, part in zip(designs, rows, strict=True)]
    weights = [design.T @ design for design in designs]
    pooled = np.linalg.solve(sum(weights), sum(weight @ beta for weight, beta in zip(weights, own, strict=True)))
    q = sum((beta - pooled) @ weight @ (beta - pooled) for weight, beta in zip(weights, own, strict=True))
    assert found.ratio[0] == pytest.approx(np.sqrt(q / 21), rel=1e-4)
    assert found.probability[0] == pytest.approx(chi2(21).sf(q), rel=1e-2)


@pytest.mark.parametrize(("between", "slopes", "terms"), [(0.0, 0.0, ()), (1.0, 0.0, (0,)), (1.5, 0.8, (0, 1))])
def test_only_the_terms_that_differ_are_named(between, slopes, terms, rng):
    model, rows = regressions(rng, between, slopes=slopes, size=60)
    (found,) = db.merging.heterogeneity(db.align([model.fit(part).posterior for part in rows])).values()
    assert sorted(found.terms) == list(terms)
    if terms == (0,):
        assert found.between["coefficients"]["mean"][0, 0] == pytest.approx(1.0, rel=0.6)


def test_coefficients_that_vary_differ_by_chance(rng):
    """What sites say with their own parts integrated out is as far apart as it should be."""
    model, rows = regressions(rng, 1.0, size=60)
    varying = db.LinearRegression("y", columns=model.columns, varying=("intercept",))
    posteriors = [varying.fit(part).posterior for part in rows]
    refined = db.refine(varying, rows, posteriors, rounds=5, rng=rng)
    (found,) = db.merging.heterogeneity(db.align(refined.posteriors)).values()
    assert found.terms == ()
    assert found.ratio[0] < 1.5


def outcomes(kind, rows, between, rng, count=8):
    """Posteriors of sites that differ in their intercept, if at all."""
    outcome = "yes/no" if kind is db.LogisticRegression else "count"
    model, posteriors = kind("y", columns={"x": "real", "y": outcome}), []
    for _ in range(count):
        x = rng.normal(size=rows)
        f = 0.3 + 0.5 * x + between * rng.standard_normal()
        y = rng.random(rows) < expit(f) if kind is db.LogisticRegression else rng.poisson(np.exp(f))
        posteriors.append(model.fit(np.column_stack([x, y]), rng=rng).posterior)
    return posteriors


@pytest.mark.parametrize("rows", [2, 10])
@pytest.mark.parametrize("kind", [db.LogisticRegression, db.PoissonRegression])
def test_tiny_sites_of_yes_and_no_or_counts_are_not_said_to_differ(kind, rows, rng):
    """A site that has seen one outcome only is far off, and says with how little weight, but not as a Gaussian."""
    found = [next(iter(db.merging.heterogeneity(db.align(outcomes(kind, rows, 0.0, rng))).values())) for _ in range(5)]
    assert np.mean([each.probability[0] < 0.05 for each in found]) <= 0.2
    assert not any(each.terms for each in found)


@pytest.mark.parametrize("kind", [db.LogisticRegression, db.PoissonRegression])
def test_intercepts_of_yes_and_no_or_counts_that_differ_are_named(kind, rng):
    (found,) = db.merging.heterogeneity(db.align(outcomes(kind, 60, 1.0, rng))).values()
    assert found.terms == (0,)
