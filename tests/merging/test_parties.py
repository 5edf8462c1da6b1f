"""Groups of sites that decide a merge together are found by leaving them out."""

from itertools import combinations

import numpy as np
import pytest

import decbayes as db
from decbayes.merging.base.products import scaled
from decbayes.merging.reading import _parties

MEAN = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
CLUSTERS = np.array([[-8.0, 0.0], [0.0, 6.0], [8.0, 0.0]])
LIE = np.array([20.0, 20.0])


def mean_sites(means, sizes=None):
    sizes = sizes or [50] * len(means)
    return [MEAN.fit(np.full((size, 1), mean)).posterior for mean, size in zip(means, sizes, strict=True)]


def cluster_sites(rng, *, liars=0, claim=1.0):
    """Ten sites that have seen three clusters; liars have all seen one of them elsewhere, and claim more data."""
    model = db.GaussianMixture(3, 2, variance=1.0, prior_variance=100.0)
    sites = []
    for site in range(10):
        places = CLUSTERS.copy()
        if site < liars:
            places[0] = LIE
        points = np.concatenate([place + rng.normal(size=(40, 2)) for place in places])
        sites.append(scaled(model.fit(points, rng=rng).posterior, claim if site < liars else 1.0))
    return sites


def test_a_change_is_the_distance_between_the_merges_with_and_without_the_group():
    """By hand: the mean of all against the mean without the group, in the larger deviation, that of the latter."""
    means = [0.0, 0.1, -0.1, 0.05, 0.0, 0.1, 0.0, 6.0, 6.1]
    found = db.merging.parties(db.align(mean_sites(means)))
    group = found.groups[0]
    assert group.sites == (7, 8)
    everybody, rest = 50 * np.array(means), 50 * np.array(means[:7])
    precision, without = 9 * 50 + 0.01, 7 * 50 + 0.01
    change = abs(everybody.sum() / precision - rest.sum() / without) * np.sqrt(without)
    assert group.change == pytest.approx(change, rel=1e-9)
    assert group.share == pytest.approx(2 / 9)
    assert group.stands_out


@pytest.mark.parametrize("claim", [3.0, 4.0, 5.0])
def test_colluders_who_claim_more_data_are_named_together(claim, rng):
    """Three of ten who claim three to five times the data moved a merge by 193 deviations, and nobody was flagged."""
    alignment = db.align(cluster_sites(rng, liars=3, claim=claim), components="largest")
    found = db.merging.parties(alignment)
    assert found.outstanding[0].sites == (0, 1, 2)
    assert found.change > 20.0
    assert found.share == pytest.approx(3 * claim / (3 * claim + 7), abs=0.01)
    (remark,) = found.remarks([f"site-{number}" for number in range(10)])
    assert "site-0, site-1, site-2 (3 of 10 sites)" in str(remark)
    assert "robust" in remark.advice


def change_by_hand(means, sizes, group):
    """Of the mean of all against the mean without the group, in the larger deviation."""
    means, sizes = np.array(means), np.array(sizes)
    rest = np.delete(np.arange(len(means)), group)
    whole, left = sizes.sum() + 0.01, sizes[rest].sum() + 0.01
    return abs(sizes @ means / whole - sizes[rest] @ means[rest] / left) * np.sqrt(left)


def test_a_group_is_not_named_if_one_of_its_sites_explains_the_change():
    """The two largest of six sites: without both the mean moves by a little more than without the one that is off."""
    means, sizes = [0.0, 0.0, 0.0, 0.0, 1.0, 9.0], [50, 50, 50, 50, 60, 60]
    alone, both = (change_by_hand(means, sizes, group) for group in ([5], [4, 5]))
    assert 1.0 < both / alone < 4.0 / 3.0
    found = db.merging.parties(db.align(mean_sites(means, sizes)))
    assert found.change == found.groups[0].change == pytest.approx(both, rel=1e-9)
    assert found.groups[0].stands_out
    assert [group.sites for group in found.outstanding] == [(5,)]
    (remark,) = found.remarks()
    assert str(remark).startswith(f"Without site 5 (1 of 6 sites) the merge changes by {alone:.0f} ")


@pytest.mark.parametrize(("off", "named"), [([9.0, 9.0, 9.0], (7, 8, 9)), ([9.0, 9.0, 0.0], (7, 8))])
def test_sites_of_a_group_that_are_needed_for_its_change_are_named(off, named):
    means, sizes = [0.0] * 7 + off, [50] * 7 + [60] * 3
    found = db.merging.parties(db.align(mean_sites(means, sizes)))
    assert found.outstanding[0].sites == named
    assert found.outstanding[0].change == pytest.approx(change_by_hand(means, sizes, [*named]), rel=1e-9)


def test_other_groups_are_those_that_were_tried_with_the_sites_that_change_the_merge_most():
    """Sites 0 and 4 change it most beside the group, by hand more than any other pair that has no site of it."""
    means, sizes = [0.6, 0.0, 0.05, 0.0, 0.6, 0.1, 0.0, 6.0, 6.1], [50] * 9
    group = db.merging.parties(db.align(mean_sites(means))).outstanding[0]
    assert group.sites == (7, 8)
    others = {pair: change_by_hand(means, sizes, [*pair]) for pair in combinations(range(7), 2)}
    assert group.usual == pytest.approx(max(others.values()), rel=1e-9)
    (remark,) = db.merging.Parties(np.ones(9), 3, 0.4, (group,)).remarks()
    tried = f"None of {group.tried} other groups of this size that were tried changes it by more than"
    assert f"{tried} {group.usual:.1f}." in str(remark)


def test_candidates_are_who_alone_support_a_slot_and_the_largest(monkeypatch):
    """At most a third of nine sites, and not one alone; two slots at most, those with more evidence first."""
    monkeypatch.setattr(_parties, "neighbours", lambda alignment, by_slot, most: iter([(1, 2), (4,)]))
    by_slot = np.zeros((9, 6))
    by_slot[:, 0] = 100.0 + np.arange(9)
    for slot, sites in enumerate([(8,), (0, 2), (1, 2, 3, 4), (3, 5, 7), (4, 6)], 1):
        by_slot[[*sites], slot] = 20.0 - slot
    by_slot[:, 4] += 1.9  # under a fiftieth of a site's data supports nothing
    assert [*_parties.candidates(None, by_slot)] == [(3, 5, 7), (0, 2), (1, 2), (2, 3, 4)]


@pytest.mark.parametrize(("change", "usual", "out"), [(5.1, 2.5, True), (5.1, 2.6, False), (4.9, 0.0, False)])
def test_a_group_stands_out_with_over_five_deviations_and_twice_what_others_move(change, usual, out):
    assert db.merging.Party((0, 1), 0.5, 100.0, usual, clear=change, tried=3).stands_out == out


def test_groups_are_left_out_where_all_sites_have_few_numbers(monkeypatch):
    """Two numbers each: the mean, and how sure it is."""
    alignment = db.align(mean_sites([0.0] * 6))
    assert not _parties.is_small(db.align(mean_sites([0.0] * 4)))
    for most, small in ((12, True), (11, False)):
        monkeypatch.setattr(_parties, "MOST_NUMBERS", most)
        assert _parties.is_small(alignment) == small


def test_honest_sites_give_no_warning(rng):
    found = db.merging.parties(db.align(cluster_sites(rng), components="largest"))
    assert found.remarks() == ()
    assert found.change < 3.0
    assert found.share == pytest.approx(0.3, abs=0.01)


def test_a_lie_with_a_slot_of_its_own_moves_nothing_and_is_no_warning(rng):
    """Where a merge may have more slots than a site has components, what liars claim takes no slot from others."""
    alignment = db.align(cluster_sites(rng, liars=3, claim=4.0), components=4)
    found = db.merging.parties(alignment)
    assert found.change < 5.0
    assert found.remarks() == ()


def test_numbers_of_sites_follow_their_order(rng):
    sites = cluster_sites(rng, liars=2, claim=4.0)
    there = db.merging.parties(db.align(sites[::-1], components="largest")).outstanding[0]
    assert there.sites == (8, 9)


def test_a_merge_that_depends_on_everybody_is_unsteady_and_names_nobody():
    found = db.merging.parties(db.align(mean_sites([0.0, 20.0, 40.0, 60.0, 80.0, 100.0])))
    (remark,) = found.remarks()
    assert (remark.kind, found.outstanding) == ("unsteady", ())


def coefficients_of(model, posterior):
    return np.array([(row["mean"], row["deviation"]) for row in model.coefficients(posterior)]).T


def test_a_change_is_the_largest_movement_of_any_shown_coefficient_without_any_site(rng):
    """A sixth hospital with the opposite slope: one coefficient of three moves, and no other site goes with it."""
    columns = {"ill": "yes/no", "age": db.columns.Gaussian(60.0, 10.0), "dose": "real"}
    model = db.LogisticRegression("ill", columns=columns)
    sites = []
    for slope in [0.05] * 5 + [-0.08]:
        age, dose = rng.normal(60, 10, 600), rng.normal(size=600)
        ill = rng.random(600) < 1 / (1 + np.exp(0.5 - slope * (age - 60) - 0.5 * dose))
        sites.append(model.fit_site({"ill": ill, "age": age, "dose": dose}).posterior)
    found = db.merging.parties(db.align(sites))
    means, deviations = coefficients_of(model, db.align(sites).merged())
    without, _ = coefficients_of(model, db.align(sites[:5]).merged())
    assert found.groups[0].sites == (5,)
    assert found.change == pytest.approx(np.max(np.abs(means - without) / deviations), rel=1e-9)
    assert found.change > 5.0
    assert {(site,) for site in range(6)} <= {group.sites for group in found.groups}
    (remark,) = found.remarks([f"s{site}" for site in range(6)])
    assert str(remark).startswith("Without s5 (1 of 6 sites) the merge changes by")


def test_a_site_with_nearly_all_data_moves_the_merge_far_by_chance_which_is_no_warning(rng):
    model = db.LinearRegression("y", columns={"y": "real", "x": "real"})
    sites = []
    for rows in [20_000, *[20] * 7]:
        x = rng.normal(size=rows)
        sites.append(model.fit_site({"x": x, "y": x + rng.normal(size=rows)}).posterior)
    found = db.merging.parties(db.align(sites))
    assert found.change > 5.0
    assert found.remarks() == ()


def test_few_sites_have_no_groups():
    found = db.merging.parties(db.align(mean_sites([0.0, 0.0, 9.0, 9.0])))
    assert found.groups == ()
    assert found.remarks() == ()


def test_evidence_is_told_in_units_of_the_median_site():
    found = db.merging.parties(db.align(mean_sites([0.0] * 5, [10, 10, 20, 30, 80])))
    np.testing.assert_allclose(found.evidence, [0.5, 0.5, 1.0, 1.5, 4.0])
    assert found.share == pytest.approx(80 / 150)


def topic_sites(rng, topics, *, fitted, sites, liars=0, documents=80):
    """Fits of documents about some topics; liars have another last topic, and four times as many documents."""
    model = db.LatentDirichletAllocation(fitted, [f"w{n}" for n in range(topics.shape[1])], topic_prior=0.05)
    lie, fits = np.vstack([topics[:-1], rng.dirichlet(np.full(topics.shape[1], 0.05))]), []
    for site in range(sites):
        shares = rng.dirichlet(np.full(len(topics), 0.3), documents * (4 if site < liars else 1))
        held = lie if site < liars else topics
        fits.append(model.fit(np.array([rng.multinomial(60, share @ held) for share in shares]), rng=site).posterior)
    return fits


def test_parts_of_one_archive_do_not_decide_its_topics(rng):
    """With fewer topics than there are, the merge without any site divides counts in another way."""
    sites = topic_sites(rng, rng.dirichlet(np.full(100, 0.1), 12), fitted=5, sites=6)
    assert db.merging.parties(db.align(sites)).remarks() == ()


def test_sites_with_the_same_wrong_topic_are_named_together():
    rng = np.random.default_rng(0)
    sites = topic_sites(rng, rng.dirichlet(np.full(100, 0.05), 4), fitted=4, sites=9, liars=3, documents=40)
    (group,) = db.merging.parties(db.align(sites)).groups
    assert set(group.sites) <= {0, 1, 2}
