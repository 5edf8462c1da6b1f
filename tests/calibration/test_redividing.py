"""What sites' fits say of common slots, against integrals over a grid."""

import numpy as np
import pytest
from scipy.stats import norm

import decbayes as db
from decbayes.calibration.worlds import ROUNDS, Setting, redivide

GRID = np.linspace(-8.0, 8.0, 1601)
# Means and counts of two clusters of deviation 1 that overlap, at three sites that divide them differently.
FITS = [((-0.9, 1.1), (400, 400)), ((-0.4, 1.8), (560, 240)), ((-1.4, 0.7), (280, 520))]


def fitted(model, means, counts):
    """A posterior with these means, from points that are all known to be of one cluster."""
    points = np.concatenate([np.full(count, mean) for mean, count in zip(means, counts, strict=True)])
    return model.from_assignments(points[:, None], np.repeat([0, 1], counts))


def by_integration():
    """Each site's mean and count in two common clusters, after as many rounds of expectation and maximization."""
    sent = [(np.array(means), np.array(counts, dtype=float)) for means, counts in FITS]
    densities = [norm.pdf(GRID[:, None], means, 1.0) @ (counts / counts.sum()) for means, counts in sent]
    weights = [counts / counts.sum() for _, counts in sent]
    totals = sum(counts for _, counts in sent)
    centres = sum(means * counts for means, counts in sent) / totals
    for _ in range(ROUNDS):
        redivided = []
        for site, density in enumerate(densities):
            joint = weights[site] * norm.pdf(GRID[:, None], centres, 1.0)
            shares = 800 * (GRID[1] - GRID[0]) * density[:, None] * joint / joint.sum(axis=1, keepdims=True)
            weights[site] = shares.sum(axis=0) / 800
            redivided.append((GRID @ shares / shares.sum(axis=0), shares.sum(axis=0)))
        centres = sum(means * counts for means, counts in redivided) / sum(counts for _, counts in redivided)
    return centres, redivided


@pytest.fixture(scope="module")
def common():
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1e4)
    alignment = db.align([fitted(model, *fit) for fit in FITS], components=2)
    return redivide(Setting(alignment)), np.argsort(alignment.merged().mean("components")[:, 0])


def test_data_that_fits_describe_are_divided_by_what_all_sites_say(common):
    redivided, order = common
    centres, expected = by_integration()
    # 4,000 points are drawn for each site: means of half of them are right to 0.05 or so, where clusters overlap.
    np.testing.assert_allclose(redivided.merged().mean("components")[order, 0], centres, atol=0.1)
    (coupled,) = redivided.structure.symmetry
    counts = db.merging.support(redivided, coupled)[:, order]
    for site, (means, evidence) in enumerate(expected):
        np.testing.assert_allclose(redivided.in_slots(site).mean("components")[order, 0], means, atol=0.15)
        np.testing.assert_allclose(counts[site], evidence, atol=60)


def test_what_is_redivided_is_as_much_as_was_sent(common):
    (coupled,) = common[0].structure.symmetry
    np.testing.assert_allclose(db.merging.support(common[0], coupled).sum(axis=1), 800.0, rtol=1e-9)


def test_clusters_that_are_apart_stay_as_they_were_sent(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1e4)
    sites = [fitted(model, (-20.0 + shift, 20.0), (50, 30)) for shift in (0.0, 0.4, 0.8)]
    alignment = db.align(sites, components=2)
    redivided = redivide(Setting(alignment))
    for site in range(3):
        sent, again = (each.in_slots(site).mean("components") for each in (alignment, redivided))
        # Of 250 and 150 points.
        np.testing.assert_allclose(again, sent, atol=4.0 / np.sqrt(150))
