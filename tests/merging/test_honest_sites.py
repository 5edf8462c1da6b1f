"""Robust merges of honest sites that look odd, and of faulty ones that look alike."""

import warnings

import numpy as np
import pytest

import decbayes as db
from decbayes.merging import robust_merge

NEAR = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 20.0]])
KNOWN = db.GaussianMixture(3, 2, variance=1.0, prior_variance=100.0)
FAR = np.array([[70.0, -60.0]])
WORDS_FOR_ALONE = "is the only one to have found"


def flagged(merge):
    return [site for site, standing in enumerate(merge.sites) if standing.flagged]


def with_outliers(outliers, seed, sites=6):
    """Fits of sites with given variance, and their merge; the first sites have an outlier, which takes a component."""
    rng, fits = np.random.default_rng(seed), []
    for site in range(sites):
        points = NEAR[np.arange(90) % 3] + rng.normal(size=(90, 2))
        points[:1] = FAR + rng.normal(0.0, 5.0, 2) if site < outliers else points[:1]
        fits.append(KNOWN.fit(points, rng=rng).posterior)
    return fits, robust_merge(fits)


@pytest.mark.parametrize("outliers", [1, 5])
@pytest.mark.parametrize("seed", range(2))
def test_an_outlier_that_takes_a_component_accuses_nobody(outliers, seed):
    """The site joins two clusters that the others have, or the others join two that it has."""
    fits, merged = with_outliers(outliers, seed)
    assert flagged(merged) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", db.errors.MergeWarning)
        plain = db.merge(fits)
    assert not any("disagree" in remark.what and "most sites" in remark.what for remark in plain.remarks)
    near = NEAR[np.arange(300) % 3] + np.random.default_rng(9).normal(size=(300, 2))
    for points in (near, FAR, -FAR):
        assert score(merged.posterior, points) > score(plain, points) - 0.1


def score(posterior, points):
    return db.model_for(posterior.structure).score(posterior, points)


def test_a_false_cluster_between_two_others_is_no_join_of_them():
    """The site has no outlier, and so no reason to have joined them."""
    fits, _ = with_outliers(0, 3)
    rng = np.random.default_rng(4)
    points = np.array([[2.0, 0.0], [0.0, 20.0], [20.0, 20.0]])[np.arange(90) % 3] + rng.normal(size=(90, 2))
    assert flagged(robust_merge([KNOWN.fit(points, rng=rng).posterior, *fits[1:]])) == [0]


def tables(faulty, shuffled, seed):
    """Three classes of ten columns with four codes at ten sites; the first ones send noise."""
    rng = np.random.default_rng([15, seed])
    chances = rng.dirichlet(0.5 * np.ones(4), (3, 10)).cumsum(axis=2)
    model, fits = db.CategoricalMixture(3, 10, categories=4, ascent=db.Ascent(restarts=2)), []
    for site in range(10):
        rows = (rng.random((200, 10, 1)) > chances[rng.integers(3, size=200)]).sum(axis=2).clip(0, 3)
        if site < faulty:
            rows = rng.permuted(rows, axis=0) if shuffled else rng.integers(4, size=rows.shape)
        fits.append(model.fit(rows, rng=rng).posterior)
    return fits


@pytest.mark.parametrize(("faulty", "shuffled", "seed"), [
    (0, False, 5), (2, False, 5), (3, False, 5), (1, True, 5), (2, True, 5), (3, True, 12)
])  # fmt: skip
def test_sites_that_send_noise_do_not_vouch_for_each_other(faulty, shuffled, seed):
    """All others know the same classes, and these sites none of them; shuffled rows are a mixture of all classes."""
    assert flagged(robust_merge(tables(faulty, shuffled, seed))) == list(range(faulty))


@pytest.mark.parametrize(("flipped", "named"), [(True, [0, 1, 2]), (False, [])])
def test_sites_that_share_little_are_left_out_only_if_they_share_less_than_half(flipped, named):
    """Three of ten have a flipped column, and one cluster where it was; or each of ten lacks one of three clusters."""
    centres, rng = np.array([[0.0, 0.0], [9.0, 3.0], [6.0, -8.0], [-5.0, 7.0]]), np.random.default_rng(0)
    model, fits = db.GaussianMixture(4 if flipped else 2, 2, variance=1.0, prior_variance=100.0), []
    for site in range(10):
        mine = centres if flipped else centres[[0, 1 if site < 3 else 2]]
        points = mine[np.arange(80) % len(mine)] + rng.normal(size=(80, 2))
        fits.append(model.fit(points * [-1.0, 1.0] if flipped and site < 3 else points, rng=rng).posterior)
    merged = robust_merge(fits)
    assert flagged(merged) == named
    assert merged.posterior.structure.components(merged.posterior.structure.symmetry[0]) == (4 if flipped else 3)


def unlike():
    """Three sites with two clusters, and one with one of them and another, which is larger."""
    rng, model = np.random.default_rng(5), db.GaussianMixture(2, 2)
    centres = np.array([[7.0, 0.0], [1.0, -7.0], [-7.0, 7.0]])
    seen = [(1, 2), (1, 2), (1, 2), (0, 2)]
    labels = [rng.permutation(np.repeat(two, (80, 60))) for two in seen]
    return [model.fit(centres[mine] + rng.normal(size=(140, 2)), rng=rng).posterior for mine in labels]


def test_a_site_that_found_something_alone_and_otherwise_agrees_counts():
    fits = unlike()
    merged = robust_merge(fits)
    assert merged.sites[3].counts == 1.0
    assert merged.reasons()[3].startswith(WORDS_FOR_ALONE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", db.errors.MergeWarning)
        remarks = [*db.merge(fits).remarks, *merged.remarks()]
    assert not any("clearly disagree" in remark.what for remark in remarks)


def test_what_nobody_else_knows_is_not_called_a_disagreement():
    alone = db.merging.Standing(counts=0.0, against=0.5, alone=0.5, agrees=0.5)
    assert alone.reason() == f"{WORDS_FOR_ALONE} 50% of what it reports, and is left out"
    assert db.merging.Standing(counts=0.0, against=0.5, alone=0.2, agrees=0.5).reason().startswith("disagrees clearly")
    for counts, verdict in ((0.0, ", and is left out"), (0.6, "; the rest agrees and counts")):
        alike = db.merging.Standing(counts=counts, against=0.5, alone=0.5, agrees=0.5, alike=True)
        assert alike.reason() == f"finds other components in 50% of data that as a whole are like the others'{verdict}"


def test_a_site_that_divides_the_same_data_more_finely_is_not_the_only_one_to_have_found_anything():
    rng, halves = np.random.default_rng(26), np.where(np.arange(40) < 13, -0.9, 0.5)[:, None]
    one, two = db.GaussianMixture(1, 1), db.GaussianMixture(2, 1)
    others = [one.fit(rng.normal(size=(40, 1)), rng=rng).posterior for _ in range(4)]
    shard = halves + np.where(halves < 0.0, 0.5, 0.9) * rng.normal(size=(40, 1))
    merged = robust_merge([*others, two.fit(shard, rng=rng).posterior])
    assert merged.sites[4].alone > 0.5
    assert merged.sites[4].alike
    assert (flagged(merged), merged.reasons()) == ([], {})
    (said,) = [remark for remark in merged.remarks() if remark.kind == "few sites"]
    assert (said.severity, "made them up" in said.what, "As a whole" in said.advice) == ("note", False, True)
    merged = robust_merge([*others, two.fit(9.0 + shard, rng=rng).posterior])
    assert not merged.sites[4].alike
    assert flagged(merged) == [4]


@pytest.mark.parametrize("faulty", [False, True])
def test_a_fit_that_divides_the_same_data_in_another_way_is_to_be_fitted_again(faulty):
    """A square of four clusters: five sites cut it into left and right, one into top and bottom, or it is shifted."""
    rng, square = np.random.default_rng(0), 3.0 * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]]).repeat(30, axis=0)
    model, posteriors = db.GaussianMixture(2, 2, covariance="diagonal"), []
    for site in range(6):
        points = square + rng.normal(size=square.shape) + float(site == 5 and faulty) * np.array([4.0, 0.0])
        start = model.fit(points * ([0.1, 1.0] if site == 5 and not faulty else [1.0, 0.1]), rng=rng).posterior
        posteriors.append(model.fit(points, rng=rng, start=start).posterior)
    merged = robust_merge(posteriors)
    assert (flagged(merged), 5 in merged.merged, merged.sites[5].alike) == ([5], False, not faulty)
    assert ("as a whole are like the others'" in merged.reasons()[5]) == (not faulty)
    (said,) = [remark for remark in db.merging.remarks(db.align(posteriors)) if remark.kind == "site disagrees"]
    assert said.sites == (5,)
    assert ("clearly disagrees" in said.what, "units" in said.advice, "more restarts" in said.advice) == (
        (True, True, False) if faulty else (False, True, True)
    )
