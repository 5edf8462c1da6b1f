"""How many slots a merge of mixtures or classes has if nobody gives a number."""

import numpy as np
import pytest
from scipy.special import expit, gammaln

import decbayes as db
from decbayes.merging.base.components import Components
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.grouping import default_number as rule
from decbayes.merging.grouping.default_number import DefaultNumber, OtherSites, searched

CENTRES = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0], [4.5, 18.0], [20.0, 5.0]])
KNOWN = db.GaussianMixture(3, 2, variance=1.0, prior_variance=150.0, ascent=db.Ascent(restarts=2))


def number(posterior):
    return len(posterior.natural["weights"])


def sites_that_see(rng, *seen, rows=40, model=KNOWN, shift=0.0):
    """Sites that each see some of the centres, all of them a little elsewhere."""
    shards = [
        (CENTRES + shift * rng.normal(size=CENTRES.shape))[rng.choice(clusters, rows)] + rng.normal(size=(rows, 2))
        for clusters in seen
    ]
    return [model.fit(shard, rng=rng).posterior for shard in shards]


def relabelled(posterior, rng):
    """The same posterior with its components in another order."""
    order = rng.permutation(number(posterior))
    return db.Posterior(posterior.structure, {name: part[order] for name, part in posterior.contribution.items()})


def test_clusters_that_no_site_has_all_of_get_slots_of_their_own(rng):
    posteriors = sites_that_see(rng, [0, 1, 2], [1, 2, 3], [3, 4, 5], [0, 4, 5])
    alignment = db.align(posteriors)
    means = alignment.merged().mean("components")
    assert number(alignment.merged()) == 6
    assert np.linalg.norm(means[:, None] - CENTRES, axis=2).min(axis=0).max() < 1.0
    assert number(db.merge(posteriors, components="largest")) == 3


def test_the_number_depends_on_the_set_of_posteriors_alone(rng):
    posteriors = sites_that_see(rng, [0, 1, 2], [1, 2, 3], [0, 2, 3])
    expected = db.merge(posteriors)
    assert db.merge(posteriors[::-1]) == expected
    others = db.align([relabelled(posterior, rng) for posterior in posteriors])
    assert others.reason == db.align(posteriors).reason
    np.testing.assert_allclose(
        np.sort(others.merged().natural["components"], axis=0), np.sort(expected.natural["components"], axis=0)
    )


def test_sites_that_see_the_same_have_as_many_slots_as_components(rng):
    alignment = db.align(sites_that_see(rng, *[[0, 1, 2]] * 5))
    assert number(alignment.merged()) == 3
    assert alignment.reason.startswith("3 slots: as many as the largest site has components;")
    assert alignment.reason in str(alignment)


def test_sites_that_differ_a_little_in_the_same_clusters_share_slots(rng):
    posteriors = sites_that_see(rng, *[[0, 1, 2]] * 6, rows=600, shift=0.4)
    assert number(db.merge(posteriors)) == 3


def test_unlike_sites_of_many_yes_or_no_columns_do_not_collapse(rng):
    chances = np.clip(rng.beta(0.5, 0.5, size=(10, 60)), 0.05, 0.95)
    model = db.BernoulliMixture(2, 60, ascent=db.Ascent(restarts=2))
    shards = [rng.random((60, 60)) < chances[rng.choice([2 * pair, 2 * pair + 1], 60)] for pair in range(5)]
    posteriors = [model.fit(1.0 * shard, rng=rng).posterior for shard in shards]
    for components in (None, "auto"):
        assert number(db.merge(posteriors, components=components)) == 10


def test_classes_within_groups_of_classes_are_told_apart_by_many_columns(rng):
    """Noise of a hundred parameters hardly varies: a join that costs twice as much is one of different classes, however
    much more groups of classes differ."""
    groups = np.repeat(rng.normal(size=(3, 100)), 3, axis=0)
    chances = expit(groups + 0.4 * rng.normal(size=(9, 100)))
    model, posteriors = db.BernoulliMixture(9, 100), []
    for _ in range(8):
        classes = rng.integers(9, size=180)
        posteriors.append(model.from_assignments(1.0 * (rng.random((180, 100)) < chances[classes]), classes))
    alignment = db.align(posteriors, components="auto")
    assert number(alignment.merged()) == 9
    assert alignment.reason.startswith("9 slots: joining any two of them would lose")


@pytest.mark.parametrize(
    ("scores", "clearly", "slots"),
    [
        ([0.0, 1.0, 2.0, 1.5, 9.0], [False] * 4, 5),  # a rise, until the first fall
        ([0.0, -1.0, 9.0], [False] * 2, 3),
        ([0.0, -1.0, -2.0, -3.0], [True, True, False], 5),  # components that differ, and a small fall
        ([0.0, -1e4, 9.0], [True, True], 3),  # they differ, but a large fall
    ],
)
def test_slots_are_divided_until_the_first_fall(scores, clearly, slots, rng, monkeypatch):
    posteriors = sites_that_see(rng, [0, 1, 2], [3, 4, 5])

    class Counted:
        def __init__(self, count):
            self.count = count

    steps = [(Counted(3 + step), scores[step]) for step in range(len(scores))]
    found = {id(search): score for search, score in steps}
    monkeypatch.setattr(rule, "searched", lambda *_: steps[0][0])
    monkeypatch.setattr(
        rule, "divisions", lambda *_: ((search, flag) for (search, _), flag in zip(steps[1:], clearly, strict=True))
    )
    monkeypatch.setattr(OtherSites, "score", lambda self, search: found[id(search)])
    monkeypatch.setattr(OtherSites, "scattered", lambda self, search: "")
    assert number(db.merge(posteriors)) == slots


@pytest.mark.parametrize(
    ("seen", "slots", "filled"),
    [
        (([0, 1, 2], [3, 4, 5]), 7, 6),  # each slot rests on one site
        (([0, 1, 2], [2, 3, 4], [2, 5, 0]), 7, 6),  # four of six do
        (([0, 1, 2], [1, 2, 3], [0, 2, 3]), 4, 4),  # none does
        (([0, 1], [0, 1, 2], [0, 1, 3], [2, 3]), 4, 4),
    ],
)
def test_one_slot_stays_empty_if_most_rest_on_a_single_site(seen, slots, filled, rng):
    """Of a given variance only: a variance that is fitted follows what the data are like."""
    alignment = db.align(sites_that_see(rng, *seen))
    merged = alignment.merged()
    assert (number(merged), (merged.contribution["weights"] > 0.5).sum()) == (slots, filled)
    assert ("one stays empty, for data that fit none: most slots rest" in alignment.reason) == (slots > filled)
    model = db.GaussianMixture(3, 2, covariance="diagonal")
    points = [CENTRES[each].repeat(30, axis=0) + rng.normal(size=(90, 2)) for each in ([0, 1, 2], [3, 4, 5])]
    assert number(db.merge([model.fit(each, rng=rng).posterior for each in points])) == 6


@pytest.mark.parametrize(
    ("stretch", "outlier", "why"),
    [
        (1.0, False, ""),
        (1.0, True, "a slot rests on a single observation"),
        (2.5, False, "sites differ in others by more than the given variance explains"),
    ],
)
def test_one_slot_stays_empty_if_data_spread_farther_than_the_given_variance(stretch, outlier, why, rng):
    seen = ([0, 1, 2], [1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 3])
    shards = [CENTRES[rng.choice(clusters, 60)] + stretch * rng.normal(size=(60, 2)) for clusters in seen]
    shards[0][0] = (60.0, 60.0) if outlier else CENTRES[0]
    model = db.GaussianMixture(4 if outlier else 3, 2, variance=1.0, prior_variance=150.0, ascent=KNOWN.ascent)
    alignment = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    filled = (alignment.merged().contribution["weights"] > 0.5).sum()
    assert number(alignment.merged()) == filled + bool(why)
    assert alignment.reason.endswith(f"; one stays empty, for data that fit none: {why}." if why else "components.")


def test_dispersion_is_chi_squared_per_degree_of_freedom(rng):
    """Means of groups of normal points, some of them in slots of their own; twice as far apart, four times as much."""
    slots, sizes = rng.integers(0, 700, 2000), rng.integers(1, 30, 2000)
    noise = rng.normal(size=(2000, 3)) / np.sqrt(sizes)[:, None]
    mean = np.arange(700.0)[slots, None] + noise
    assert rule.dispersion(mean, 1.0 / sizes, slots) == pytest.approx(1.0, abs=0.08)  # five standard errors
    assert rule.dispersion(mean + noise, 1.0 / sizes, slots) == pytest.approx(
        4.0 * rule.dispersion(mean, 1.0 / sizes, slots), rel=1e-9
    )
    assert rule.dispersion(mean[:1], 1.0 / sizes[:1], slots[:1]) == 0.0


def log_partition(natural):
    """A(λ) of Gaussian means with known variance, and of a Dirichlet, written out."""
    alpha = natural["weights"][:, 0] + 1.0
    first, second = natural["components"][:, :-1], natural["components"][:, -1]
    precision = -2.0 * second
    means = 0.5 * (first**2).sum(axis=1) / precision - 0.5 * first.shape[1] * np.log(precision / (2.0 * np.pi))
    return means.sum() + gammaln(alpha).sum() - gammaln(alpha.sum())


def test_the_score_is_that_of_each_site_given_all_others(rng):
    posteriors = sites_that_see(rng, [0, 1, 2], [1, 2, 3], [0, 3])
    alignment = db.align(posteriors, components=4)
    (coupled,) = alignment.structure.symmetry
    problem = coupled_problem(posteriors, coupled, alignment.structure)
    labels = np.concatenate([assignment[coupled] for assignment in alignment.assignments])
    search = searched(Components.of(problem.factors, problem.contents), labels, 4)
    search.restart(labels)
    found = OtherSites.of(problem, np.arange(len(labels))).score(search)
    whole = alignment.merged().log_partition()
    expected = sum(whole - alignment.without(site).log_partition() for site in range(3))
    assert found == pytest.approx(expected, rel=1e-9)
    differences = [log_partition(alignment.merged().natural) - log_partition(alignment.without(0).natural)]
    assert differences[0] == pytest.approx(whole - alignment.without(0).log_partition(), rel=1e-9)


def test_topics_and_matches_one_to_one_keep_the_number_of_the_largest_site(rng):
    posteriors = sites_that_see(rng, [0, 1, 2], [3, 4, 5])
    assert number(db.merge(posteriors, solver="matching")) == 3
    assert number(db.merge(posteriors)) > 3
    earlier = db.merge(posteriors, components=4)
    assert number(db.merge(posteriors, since=earlier)) == 4


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (DefaultNumber(3, 3), "as many as the largest site has components"),
        (DefaultNumber(3, 3, tried=4), "has components; with 4, the sites would predict each other's data no better"),
        (
            DefaultNumber(5, 3, unlike=True),
            "components that differ by more than chance would share one; the largest site has 3 components",
        ),
        (
            DefaultNumber(5, 1, predicted=True),
            "the sites predict each other's data better than with 1; the largest site has 1 component",
        ),
    ],
)
def test_the_reason_says_what_spoke_for_more_slots(found, expected):
    assert str(found).endswith(expected)


def test_models_of_another_number_predict_with_the_merge(rng):
    posteriors = sites_that_see(rng, [0, 1, 2], [3, 4, 5])
    merged, points = db.merge(posteriors), CENTRES[[0, 5]]
    assert number(merged) != KNOWN.components
    np.testing.assert_allclose(
        KNOWN.log_predictive(merged, points), db.model_for(merged.structure).log_predictive(merged, points)
    )
