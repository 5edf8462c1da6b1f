"""How much a site has to do with a merge, and how far it disagrees."""

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import decbayes as db
from decbayes.merging.reading import DISAGREES
from decbayes.remarks import DISSENT

VARIANCE, PRIOR_VARIANCE = 2.0, 9.0
MEAN = db.models.GaussianMean(variance=VARIANCE, prior_mean=0.5, prior_variance=PRIOR_VARIANCE, dimension=1)
CENTRES = np.array([[-9.0, 0.0], [0.0, 9.0], [9.0, 0.0]])
MIXTURE = db.GaussianMixture(3, 2, variance=1.0, prior_variance=100.0)


def log_evidence(points):
    """log p(points) of the Gaussian mean model, by its joint normal distribution."""
    covariance = VARIANCE * np.eye(len(points)) + PRIOR_VARIANCE
    return multivariate_normal(np.full(len(points), 0.5), covariance).logpdf(points)


def sites(rng, count=12, *, points=60, move=0.0, faulty=0):
    posteriors = []
    for site in range(count):
        labels = rng.integers(3, size=points)
        data = CENTRES[labels] + rng.normal(size=(points, 2))
        if site < faulty:
            data[labels == 0] += move
        posteriors.append(MIXTURE.fit(data, rng=rng).posterior)
    return posteriors


def test_the_log_bayes_factor_is_that_of_the_data_themselves(rng):
    shards = [rng.normal(mean, 1.4, size=5) for mean in (0.0, 0.2, 6.0)]
    influence = db.merging.influence(db.align([MEAN.fit(shard[:, None]).posterior for shard in shards]))
    for site, own in enumerate(shards):
        # The third disagrees: the first two are compared with each other.
        others = [other for other in range(3) if other != site and (other < 2 or site == 2)]
        rest = np.concatenate([shards[other] for other in others])
        expected = log_evidence(np.concatenate([own, rest])) - log_evidence(own) - log_evidence(rest)
        np.testing.assert_allclose(influence.log_bayes_factor[site].sum(), expected, rtol=1e-9)
    np.testing.assert_allclose(influence.share, 1 / 3)
    assert influence.against[2] == influence.against.max()


def test_a_displaced_site_is_flagged_and_honest_ones_are_not(rng):
    influence = db.merging.influence(db.align(sites(rng, faulty=1, move=4.0), components="largest"))
    assert [bool(influence.flags(site)) for site in range(12)] == [True] + 11 * [False]
    assert "disagrees" in influence.flags(0)[0]


def test_a_site_with_most_of_the_evidence_is_flagged(rng):
    posteriors = [*sites(rng, 5), *sites(rng, 1, points=900)]
    influence = db.merging.influence(db.align(posteriors))
    np.testing.assert_allclose(influence.share[5], 900 / 1200, rtol=1e-6)
    assert "75%" in influence.flags(5)[0]
    assert not any(influence.flags(site) for site in range(5))


@pytest.mark.parametrize(("count", "told"), [(3, False), (4, True)])
def test_what_is_usual_among_sites_can_be_told_from_four_on(count, told):
    """One of a few has most evidence, and all disagree alike; an empty site is no site to compare with."""
    evidence, factors = np.full((count + 1, 1), 100.0), np.full((count + 1, 1), -50.0)
    evidence[0], evidence[-1], factors[0], factors[-1] = 10_000.0, 0.0, -5_000.0, 0.0
    influence = db.merging.Influence(evidence, factors)
    np.testing.assert_array_equal(influence.large, [told] + [False] * count)
    np.testing.assert_array_equal(influence.disagreeing, [not told] * count + [False])


@pytest.mark.parametrize("size", [20, 400])
def test_one_bad_site_does_not_mark_honest_ones(size):
    """However large it is: each honest site is compared with those that agree."""
    model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    rng = np.random.default_rng(0)
    honest = [model.fit(rng.normal(0.0, 1.0, (40, 1))).posterior for _ in range(4)]
    bad = model.fit(rng.normal(6.0, 1.0, (size, 1))).posterior
    factors = db.merging.influence(db.align([*honest, bad])).log_bayes_factor[:, 0]
    assert (factors[:4] > 0.0).all()
    assert factors[4] < DISAGREES
    alone = db.merging.influence(db.align(honest)).log_bayes_factor[:, 0]
    np.testing.assert_allclose(factors[:4], alone, rtol=1e-9)


def test_two_sites_that_disagree_are_both_marked():
    """Nobody can say which of them is wrong."""
    model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    sites = [model.fit(np.full((40, 1), mean)).posterior for mean in (0.0, 6.0)]
    assert (db.merging.influence(db.align(sites)).log_bayes_factor < DISAGREES).all()


FAULTS = {
    "units": lambda points, labels: 100.0 * points,
    "other units": lambda points, labels: 10.0 * points,
    "shift": lambda points, labels: points + 30.0,
    "displaced": lambda points, labels: points + np.where(labels == 0, 4.0, 0.0)[:, None],
}


@pytest.mark.parametrize(
    ("first", "second"), [("units", "displaced"), ("shift", "displaced"), ("units", "other units")]
)
def test_two_sites_with_different_faults_are_both_named_and_honest_ones_are_not(first, second):
    """The first fills slots that the others then lack. Two of seven are fewer than a third, two of six are not.
    Their flags agree with the remarks of the merge.
    """
    rng, posteriors = np.random.default_rng(3), []
    for fault in (first, second, *5 * [None]):
        labels = rng.integers(3, size=60)
        points = CENTRES[labels] + rng.normal(size=(60, 2))
        points = FAULTS[fault](points, labels) if fault else points
        posteriors.append(MIXTURE.fit(points, rng=rng).posterior)
    alignment = db.align(posteriors, components="largest")
    found, said = db.merging.influence(alignment), db.merging.remarks(alignment)
    assert all("disagrees" in found.flags(site)[0] for site in range(2))
    assert "in common" in " ".join(found.flags(0, said))
    assert [len(found.flags(site, said)) > 0 for site in range(7)] == [True, True, *5 * [False]]


def test_sites_that_all_have_slots_of_their_own_are_not_flagged():
    found = db.merging.Influence(np.diag([9.0, 8.0, 7.0]), np.zeros((3, 3)))
    assert not any(found.flags(site) for site in range(3))


def test_flags_are_those_of_a_robust_merge_where_it_can_judge():
    """Bayes factors alone would flag the first, too: it is small and far from the slot that it was put into."""
    standings = tuple(db.merging.Standing(against=share, alone=share) for share in (0.0, 0.05, 0.2, 0.95))
    evidence, factors = np.full((4, 1), 50.0), np.array([[-300.0], [0.0], [0.0], [-20.0]])
    voted, plain = db.merging.Influence(evidence, factors, standings), db.merging.Influence(evidence, factors)
    assert plain.disagreeing.tolist() == [True, False, False, False]
    assert voted.disagreeing.tolist() == [False, False, True, True]
    np.testing.assert_array_equal(voted.apart, [0.0, 0.05, 0.2, 0.95])
    assert voted.flags(2) == ("disagrees with the others in 20% of its evidence",)
    left_out = (db.merging.Standing(left_out=True), *standings[1:])
    assert db.merging.Influence(evidence, factors, left_out).disagreeing.tolist() == [True, False, True, True]


def columns_swapped(seed, swapped=1, count=8):
    """Sites of three clusters; in the first few, two columns are in another order: their clusters lie elsewhere."""
    rng, posteriors = np.random.default_rng(seed), []
    centres = np.array([[0.0, 0.0, 4.0], [6.0, 0.0, 0.0], [6.0, 6.0, -4.0]])
    model = db.GaussianMixture(3, 3, covariance="diagonal")
    for site in range(count):
        points = centres[rng.integers(3, size=80)] + rng.normal(size=(80, 3))
        posteriors.append(model.fit(points[:, [1, 0, 2]] if site < swapped else points, rng=rng).posterior)
    return posteriors


def names_of(remarks):
    return {name for remark in remarks if remark.kind == DISSENT for name in re.findall(r"site \d+", remark.what)}


def test_a_plain_merge_names_the_sites_that_a_robust_one_leaves_out():
    """Exactly those; each is named by one remark only."""
    for seed in range(6):
        posteriors = columns_swapped(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", db.errors.MergeWarning)
            remarks = db.merge(posteriors).remarks
        out = {f"site {site}" for site, one in enumerate(db.merging.robust_merge(posteriors).sites) if one.is_out}
        others = " ".join(remark.what for remark in remarks if remark.kind in ("site alone", "nothing shared"))
        assert out == {"site 0"}
        assert names_of(remarks) == {name for name in out if name not in others}
        assert "site 0" in others or names_of(remarks)


def test_a_site_that_was_left_out_disagrees_as_a_whole(monkeypatch):
    """Its standing has no share that disagrees: nobody else knows what it found."""
    posteriors = columns_swapped(0)
    left_out = [db.merging.Standing(0.0, left_out=True), *(db.merging.Standing() for _ in posteriors[1:])]
    monkeypatch.setattr("decbayes.merging.robust.standings", lambda given: tuple(left_out))
    monkeypatch.setattr("decbayes.merging.reading._influence.separate", lambda *given: ())
    (said,) = [remark.what for remark in db.merging.remarks(db.align(posteriors)) if remark.kind == DISSENT]
    assert said.startswith("site 0 (100% of its evidence) clearly disagrees")


NOISES = {
    "one site's is larger": lambda rng, site: rng.normal(size=400) * (1.5 if site == 0 else 1.0),
    "one site's is smaller": lambda rng, site: rng.normal(size=400) * (0.5 if site == 0 else 1.0),
    "tails are heavy": lambda rng, site: rng.lognormal(0.0, 1.0, size=400),
}


def with_noise(rng, noise, count=4, fault=lambda shard: shard):
    """Sites of a linear regression with the same coefficients; the first site's data may have a fault."""
    columns = {"x": db.columns.Gaussian(0.0, 1.0), "y": db.columns.Gaussian(3.0, 2.0)}
    model, posteriors = db.LinearRegression("y", columns=columns), []
    for site in range(count):
        x = rng.normal(size=400)
        shard = {"x": x, "y": 3.0 + x + noise(rng, site)}
        posteriors.append(model.fit(fault(shard) if site == 0 else shard).posterior)
    return posteriors


@pytest.mark.parametrize("noise", NOISES)
def test_sites_of_a_regression_do_not_disagree_in_the_size_of_noise(noise, rng):
    """With a factor of coefficients and noise together, nearly all of these 10 worlds had a site left out."""
    worlds = [with_noise(rng, NOISES[noise]) for _ in range(10)]
    assert not any(one.disagrees for world in worlds for one in db.merging.standings(world))
    pairs = [db.merging.influence(db.align(world[:2])) for world in worlds]
    assert not any(pair.disagreeing.any() for pair in pairs)
    for world in worlds[:3]:
        robust, plain = db.merging.robust_merge(world).posterior, db.merge(world)
        apart = np.abs(robust.mean("coefficients") - plain.mean("coefficients")) / plain.deviation("coefficients")
        assert apart.max() < 1.0


WRONG = {
    "a column is 10 times as large": lambda shard: shard | {"x": 10.0 * shard["x"]},
    "the outcome is 2.5 times as large": lambda shard: shard | {"y": 2.5 * shard["y"]},
    "the outcome is 10 times as large": lambda shard: shard | {"y": 10.0 * shard["y"]},
    "the outcome is around zero in another unit": lambda shard: {"x": shard["x"], "y": 10.0 * (shard["y"] - 3.0) + 3.0},
}


@pytest.mark.parametrize("fault", WRONG)
@pytest.mark.parametrize("noise", NOISES)
def test_sites_of_a_regression_in_other_units_disagree_whatever_the_noise(noise, fault, rng):
    for _ in range(3):
        found = db.merging.standings(with_noise(rng, NOISES[noise], fault=WRONG[fault]))
        assert [one.is_out for one in found] == [True, False, False, False]


def test_noise_far_larger_than_that_of_others_is_another_unit(rng):
    """Without any effect and around zero, nothing but the noise can show it."""
    model = db.LinearRegression("y", columns={"x": db.columns.Gaussian(0.0, 1.0), "y": db.columns.Gaussian(0.0, 1.0)})
    sizes = [10.0, *4 * [1.0]]
    posteriors = [model.fit(size * rng.normal(size=(300, 2)) / [size, 1.0]).posterior for size in sizes]
    assert [one.disagrees for one in db.merging.standings(posteriors)] == [True, *4 * [False]]


def test_honest_sites_two_sites_rounds_and_robust_merges_have_no_such_remark():
    posteriors = columns_swapped(0)
    assert not names_of(db.merging.remarks(db.align(posteriors[1:])))
    assert not names_of(db.merging.remarks(db.align(posteriors[:2])))
    assert not names_of(db.merging.remarks(replace(db.align(posteriors), decided="rounds")))
    assert not names_of(db.merging.robust_merge(posteriors).remarks())
