"""Priors that outweigh the data: never silent, never on standardised columns, and the advice works as it is written."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

import decbayes as db

QUICK = db.Ascent(restarts=2)
WEATHER = np.array([[5.0, 1018.0, 0.85], [15.0, 1010.0, 0.6], [28.0, 1014.0, 0.35]])
SPREAD = np.array([[2.0, 2.0, 0.05], [2.0, 2.0, 0.08], [2.0, 2.0, 0.06]])
KIND = "prior outweighs data"


def two(centres, deviation, rng, size=150):
    return rng.normal(np.array(centres)[np.arange(size) % 2], deviation)[:, None]


def weather(rng, size=200):
    place = rng.choice(3, size=size)
    return WEATHER[place] + SPREAD[place] * rng.normal(size=(size, 3))


def said(posterior):
    return [remark for remark in posterior.remarks if remark.kind == KIND]


def filled(posterior):
    return int((posterior.mean("weights") > 0.05).sum())


def as_advised(remark):
    """The settings that the advice prints for Python."""
    (settings,) = re.findall(r"\(in Python (.*)\)", remark.advice)
    return eval(f"dict({settings})")


@pytest.mark.parametrize("covariance", ["full", "diagonal", "spherical"])
@pytest.mark.parametrize(
    ("centres", "deviation"),
    [((998.0, 1020.0), 4.0), ((3300.0, 3400.0), 15.0), ((2005.0, 2015.0), 2.0), ((0.001, 0.003), 0.0004)],
    ids=["hPa", "mV", "years", "metres"],
)
def test_clusters_that_the_prior_fuses_are_never_silent_and_the_advice_finds_them(centres, deviation, covariance, rng):
    """The oracle is the data: two clusters, 5 to 7 standard deviations apart."""
    points = two(centres, deviation, rng)
    model = db.GaussianMixture(2, 1, covariance=covariance, ascent=QUICK)
    fused = model.fit(points, rng=rng).posterior
    (remark,) = said(fused)
    assert (filled(fused), remark.is_warning) == (1, True)
    told = db.GaussianMixture(2, 1, covariance=covariance, ascent=QUICK, **as_advised(remark))
    found = told.fit(points, rng=rng).posterior
    assert (filled(found), said(found)) == (2, [])
    np.testing.assert_allclose(np.sort(found.mean("components").ravel()), centres, atol=deviation)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "spherical"])
def test_degrees_and_standardised_columns_are_fine(covariance, rng):
    celsius = two((7.0, 22.0), 2.0, rng)
    model = db.GaussianMixture(2, 1, covariance=covariance, ascent=QUICK)
    assert not model.fit(celsius, rng=rng).posterior.remarks
    for size, dimension, count in [(40, 1, 2), (60, 3, 3), (400, 2, 4), (1000, 5, 3)]:
        centres = 6.0 * rng.normal(size=(count, dimension))
        points = rng.normal(centres[rng.integers(count, size=size)])
        scaled = (points - points.mean(axis=0)) / points.std(axis=0)
        fit = db.GaussianMixture(count, dimension, covariance=covariance, ascent=QUICK).fit(scaled, rng=rng)
        assert not said(fit.posterior)
        # As rough as agreed figures are: half a spread off, and half or twice as wide.
        rough = scaled * rng.choice([0.7, 1.4], dimension) + rng.normal(0.0, 0.5, dimension)
        fit = db.GaussianMixture(count, dimension, covariance=covariance, ascent=QUICK).fit(rough, rng=rng)
        assert not said(fit.posterior)


def test_a_merge_says_it_once_for_all_sites_with_values_per_column_that_work(rng):
    columns = ("temperature", "pressure", "humidity")
    model = db.GaussianMixture(3, columns=columns, ascent=QUICK)
    sites = [weather(rng) for _ in range(4)]
    posteriors = [model.fit(site, rng=rng).posterior for site in sites]
    with pytest.warns(db.errors.MergeWarning, match="prior outweighs"):
        merged = db.merge(posteriors)
    (remark,) = said(merged)
    assert "site 0, site 1, site 2, site 3: The prior outweighs the data of humidity, pressure:" in remark.what
    settings = as_advised(remark)
    assert [len(values) for values in settings.values()] == [3, 3]
    told = db.GaussianMixture(3, columns=columns, ascent=QUICK, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", db.errors.MergeWarning)
        better = db.merge([told.fit(site, rng=rng).posterior for site in sites])
    means = better.mean("components")
    np.testing.assert_allclose(means[np.argsort(means[:, 0])], WEATHER, atol=0.6)


def test_where_sites_have_agreed_on_a_prior_units_are_asked_for_first(rng):
    """One site in other units: another prior at all sites would be the wrong remedy."""
    points = two((998.0, 1020.0), 4.0, rng)
    first = db.GaussianMixture(2, 1, ascent=QUICK)
    (unagreed,) = said(first.fit(points, rng=rng).posterior)
    agreed = db.GaussianMixture(2, 1, ascent=QUICK, **as_advised(unagreed))
    (remark,) = said(agreed.fit(points / 1000.0, rng=rng).posterior)
    assert "First check their units" in remark.advice
    assert "First check their units" not in unagreed.advice


def test_the_advice_tells_nothing_about_single_rows(rng):
    """Variances of one digit, and means to a power of ten above the spread."""
    points = weather(rng)
    (remark,) = said(db.GaussianMixture(3, 3, ascent=QUICK).fit(points, rng=rng).posterior)
    told = as_advised(remark)
    for mean, variance, column in zip(told["prior_mean"], told["prior_scale"], points.T, strict=True):
        unit = 10.0 ** np.ceil(np.log10(column.std()))
        assert mean % unit == 0.0
        assert abs(mean - column.mean()) <= unit / 2
        assert float(f"{variance:.0e}") == variance
        assert variance == pytest.approx(column.var() / 3.0, rel=0.5)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "spherical"])
def test_clusters_much_narrower_than_a_standard_prior_are_never_silent_and_the_advice_helps(covariance, rng):
    """The oracle is new data: columns are standardised, but clusters are far apart or columns correlated."""
    mixing = rng.normal(size=(4, 4)) if covariance == "full" else np.eye(4)
    centres = 8.0 * rng.normal(size=(3, 4))
    table = centres[rng.integers(3, size=2100)] + rng.normal(size=(2100, 4)) @ mixing
    fitted, new = np.split((table - table.mean(axis=0)) / table.std(axis=0), [100])
    model = db.GaussianMixture(3, 4, covariance=covariance, ascent=QUICK)
    posterior = model.fit(fitted, rng=rng).posterior
    (remark,) = [one for one in posterior.remarks if one.kind == "wide prior"]
    (times,) = re.findall(r"about (\d+) times smaller", remark.advice)
    told = replace(model, prior_scale=1.0 / float(times))
    better = told.fit(fitted, rng=rng).posterior
    assert not [one for one in better.remarks if one.kind == "wide prior"]
    assert told.score(better, new) > model.score(posterior, new) + 0.2


def test_one_cluster_as_wide_as_the_prior_expects_is_not_remarked_on(rng):
    for size in (40, 400):
        points = rng.normal(size=(size, 3))
        for covariance in ("full", "diagonal", "spherical"):
            for components in (1, "wide"):
                model = db.GaussianMixture(components, 3, covariance=covariance, ascent=QUICK)
                assert "wide prior" not in {remark.kind for remark in model.fit(points, rng=rng).posterior.remarks}


def test_a_column_of_lumps_is_no_reason_for_a_smaller_prior(rng):
    """A cluster that shrinks onto one value gains from any smaller scale, without end."""
    clusters = rng.normal(size=(300, 2)) + 3.0 * rng.integers(2, size=(300, 1))
    answers, zeros = rng.random(300) < 0.3, rng.normal(size=300) * (rng.random(300) < 0.2)
    for lumps in (answers, zeros, np.ones(300), clusters[:, 0]):
        table = np.column_stack([clusters, lumps])
        table = (table - table.mean(axis=0)) / np.maximum(table.std(axis=0), 1e-9)
        for covariance in ("full", "diagonal"):
            posterior = db.GaussianMixture(2, 3, covariance=covariance, ascent=QUICK).fit(table, rng=rng).posterior
            assert "wide prior" not in {remark.kind for remark in posterior.remarks}


def test_with_many_columns_the_advice_lists_no_values(rng):
    points = 1000.0 + rng.normal(size=(100, 20))
    (remark,) = said(db.GaussianMixture(1, 20, covariance="diagonal", ascent=QUICK).fit(points, rng=rng).posterior)
    assert ("prior-mean" in remark.advice, "divide by the same rough spread" in remark.advice) == (False, True)


@pytest.mark.parametrize("kind", [db.LatentClasses, db.HiddenMarkov])
@pytest.mark.parametrize(("centres", "deviation"), [((998.0, 1020.0), 4.0), ((0.001, 0.003), 0.0004)])
def test_columns_of_tables_whose_agreed_units_do_not_fit_are_named(kind, centres, deviation, rng):
    values = two(centres, deviation, rng).ravel()
    frame = {"pressure": values, "wind": rng.normal(size=150)}
    bare = {"pressure": db.columns.Gaussian(), "wind": db.columns.Gaussian()}
    (remark,) = said(kind(2, columns=bare).fit(frame, rng=rng).posterior)
    assert "scale of pressure does not fit" in remark.what
    agreed = {**bare, "pressure": db.columns.Gaussian.found_in(values)}
    assert not said(kind(2, columns=agreed).fit(frame, rng=rng).posterior)
