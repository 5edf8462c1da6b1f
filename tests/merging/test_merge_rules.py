"""Rules of merges, each with cases on both sides of it: options, who is compared, who is alone, what is told."""

import numpy as np
import pytest
from test_grouping import posterior
from test_votes import group_of, means_of, slot_weights

import decbayes as db
from decbayes.extending import CoupledSet, Structure
from decbayes.families import IsotropicGaussian
from decbayes.merging.base.compatibility import difference
from decbayes.merging.grouping.shared import Shared, likeness, near_duplicates
from decbayes.merging.reading._confidence import kept_together
from decbayes.merging.reading._parties import LITTLE, SlotValues
from decbayes.merging.remarking import separate, small_sites
from decbayes.merging.robust import _likeness
from decbayes.merging.robust._confirmation import main_party
from decbayes.merging.robust._large_sites import uncapped


class Counting:
    """A solver that says how often it was asked."""

    one_to_one = True

    def __init__(self):
        self.asked = 0

    def solve(self, problem):
        self.asked += 1
        problem.announce()
        return db.solvers.Matching().solve(problem)


@pytest.mark.parametrize("robust", [False, True])
def test_merges_use_the_solver_and_report_to_whom_they_are_told(robust):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1e4)
    rows = np.array([[-9.0], [-8.0], [9.0]])
    sites = [model.fit(0.1 * site + rows, rng=0).posterior for site in range(4)]
    solver, matched = Counting(), []
    db.merge(sites, solver=solver, robust=robust, components=2, progress=lambda: matched.append(1))
    assert solver.asked >= 1
    assert len(matched) >= solver.asked


def anchored(means, places, counts):
    """Sites with one component each, for slots whose priors differ."""
    family = IsotropicGaussian()
    structure = Structure(
        {"means": family},
        {"means": family.natural(mean=np.array(means)[:, None], variance=1.0)},
        (CoupledSet(("means",)),),
    )
    return structure, [
        db.Posterior(structure, {"means": np.array([[count * place, -0.5 * count]] + [[0.0, 0.0]] * (len(means) - 1))})
        for place, count in zip(places, counts, strict=True)
    ]


def test_slots_with_priors_of_their_own_end_where_no_move_gains():
    """Components begin where their prior is nearest, and follow others: Σ A of all slots rises with no single move."""
    structure, sites = anchored([0.0, 10.0], [4.9, 7.0, 7.2, 6.8, 0.1], [3, 40, 40, 40, 30])
    (coupled,) = structure.symmetry
    alignment = db.align(sites, solver=db.solvers.Grouping())
    labels = [int(slots[0]) for slots in alignment.slots(coupled)]

    def height(labels):
        total = structure.prior["means"].copy()
        for label, site in zip(labels, sites, strict=True):
            total[label] += site.contribution["means"][0]
        return sum(0.5 * first**2 / (-2 * second) for first, second in total)

    for place in range(len(sites)):
        other = [1 - label if site == place else label for site, label in enumerate(labels)]
        assert height(other) <= height(labels) + 1e-9
    assert labels[1] == labels[2] == labels[3] == labels[0] != labels[4]


@pytest.mark.parametrize(("pairs", "every"), [(10**6, 1), (60 * 30, 2), (60 * 20, 3), (60, 9)])
def test_of_many_sites_some_are_compared_with_all_and_seven_at_least(pairs, every, monkeypatch):
    group = group_of(means_of(*((0.01 * site, 20) for site in range(60))))
    monkeypatch.setattr(_likeness, "MOST_PAIRS", pairs)
    np.testing.assert_array_equal(_likeness.chosen_candidates(group), np.arange(0, 60, every))
    monkeypatch.setattr(_likeness, "MOST_PAIRS", 10**6)
    monkeypatch.setattr(_likeness, "MOST_NUMBERS", pairs * group.rows[0].shape[1])
    np.testing.assert_array_equal(_likeness.chosen_candidates(group), np.arange(0, 60, every))


def test_what_a_site_hardly_knows_does_not_hold_it_back():
    """A large site has two observations in another cluster, where others disagree: all else moves nobody."""
    rows = [[[40.0, 60.0, 0.0, 0.0]] for _ in range(5)] + [[[4000.0, 6000.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]]
    group = group_of([posterior(site) for site in rows], cap=1.5)
    large = np.flatnonzero(group.site == 5)
    assert group.known[large].sum() == 1
    labels = np.zeros(len(group.site), dtype=np.intp)
    labels[large[~group.known[large]]] = 1
    found = uncapped(slot_weights(group, labels, [1.0] * len(labels), 2))
    assert found[5] == pytest.approx(1.0)
    crowded = slot_weights(group, np.zeros(len(labels), dtype=np.intp), [1.0] * len(labels), 1)
    assert uncapped(crowded)[5] == pytest.approx(1.0), "though it shares a slot with what is nothing like it"


def test_a_party_is_whoever_shares_most_of_its_evidence_with_another_of_it():
    """Three sites know slots 0 and 1, a fourth shares a tenth with them, a fifth nothing."""
    both, rest, tenth = [[50.0, 0, 0, 0], [0, 50.0, 0, 0]], [[0, 0, 90.0, 0]], [[10.0, 0, 0, 0], [0, 0, 0, 90.0]]
    group = group_of([*map(posterior, [both, both, both, tenth, rest])])
    labels = np.array([int(row.argmax()) for row in group.rows[0]])
    found = main_party(slot_weights(group, labels, [1.0] * len(labels), 4))
    np.testing.assert_array_equal(found, [True, True, True, False, False])


def test_sites_of_regressions_lose_what_each_claims_beside_the_other(rng):
    """Site by site: what is compared at once is what is compared alone, in both directions."""
    columns = {"a": db.columns.Gaussian(0, 1), "y": db.columns.YesNo()}
    model = db.LogisticRegression("y", columns=columns)
    sites = []
    for size in (40, 80, 160):
        a = rng.normal(size=size)
        sites.append(model.fit(np.column_stack([a, rng.random(size) < 1 / (1 + np.exp(-a * size / 50))])).posterior)
    group = group_of(sites)
    middle = np.median(group.evidence)
    for one in range(3):
        for other in range(3):
            louder = max(1.0, middle / group.evidence[other])
            mine = [group.rows[0][[one]]], group.evidence[[one]]
            theirs = [louder * group.rows[0][[other]]], louder * group.evidence[[other]]
            assert group.likeness.lost[one, other] == pytest.approx(group.losses(mine, theirs)[0], rel=1e-9)


def shared(evidence, per_parameter=50.0):
    evidence = np.array(evidence, dtype=float)
    nothing = np.zeros(evidence.shape[1])
    return Shared(evidence, nothing, 1.8, nothing, 2.0, per_parameter, None, (), None, None)


@pytest.mark.parametrize(
    ("evidence", "kinds"),
    [
        ([[9, 0], [9, 0], [4, 6]], ["site alone"]), ([[9, 0], [9, 0], [6, 4]], []), ([[9, 0], [4, 6]], []),
        ([[9, 0], [9, 0], [5, 5]], []), ([[9, 0], [0, 9]], ["nothing shared"]), ([[9, 0], [0, 0]], []),
        ([[9, 0], [9, 0], [0, 9]], ["nothing shared"]), ([[9, 0.4], [0.4, 9]], ["nothing shared"]),
    ],
)  # fmt: skip
def test_sites_with_most_of_their_evidence_to_themselves_are_named(evidence, kinds):
    found = list(separate(np.array(evidence, dtype=float), ["one", "two", "three"]))
    assert [remark.kind for remark in found] == kinds
    if kinds == ["site alone"]:
        assert "three (60% of its data)" in found[0].what


@pytest.mark.parametrize(
    ("evidence", "kinds"),
    [
        ([[90, 0], [88, 2], [0, 90]], ["nothing shared"]), ([[60, 30], [88, 2], [0, 90]], []),
        ([[90, 1], [90, 0], [9, 81]], ["site alone"]), ([[90, 30], [90, 0], [9, 81]], []),
        ([[99, 1], [97, 3], [1, 99]], ["site alone"]), ([[90, 10], [99, 1], [1, 99]], []),
        ([[700] + [1] * 20, [700] + [1] * 20, [100] * 21], ["site alone"]),
        ([[700] + [15] * 20, [700] + [15] * 20, [100] * 21], []),
    ],
)  # fmt: skip
def test_a_few_outliers_of_another_site_support_no_slot(evidence, kinds):
    """Sites share something from 3 % of their data on. Another site supports a slot with 7 % of its own data, or with
    a fifth of the share, where components are many and small."""
    assert [remark.kind for remark in separate(np.array(evidence, dtype=float), ["one", "two", "three"])] == kinds


def test_slots_that_are_alike_support_each_other():
    """A site that divides the same data in another way is not alone."""
    evidence, alike = np.array([[50.0, 50, 0], [50, 50, 0], [20, 0, 80]]), np.eye(3)
    assert [remark.kind for remark in separate(evidence, list("abc"), alike)] == ["site alone"]
    alike[1, 2] = alike[2, 1] = 0.5
    assert list(separate(evidence, list("abc"), alike)) == []


@pytest.mark.parametrize("distance", [0.5, 2.0, 4.0])
def test_the_likeness_of_slots_is_that_of_normals_at_their_distance(distance):
    """Joining n and m observations loses the spread of their means around the common one, half its square each."""
    n, m = 30.0, 70.0
    common = m * distance / (n + m)
    loss = 0.5 * (n * common**2 + m * (distance - common) ** 2)
    losses = np.array([[np.inf, loss, 1.0], [loss, np.inf, 1.0], [1.0, 1.0, np.inf]])
    alike = likeness(losses, np.array([n, m, 0.2]))
    np.testing.assert_allclose(alike[0, 1], np.exp(-(distance**2) / 4))
    np.testing.assert_array_equal(alike, alike.T)
    np.testing.assert_array_equal(alike[2], [0.0, 0.0, 1.0])


def test_empty_slots_are_nobody_s_duplicates():
    losses, evidence = np.zeros((3, 3)), np.array([50.0, 50.0, 1e-30])
    assert near_duplicates(losses, evidence) == ((0, 1),)


def test_of_groups_that_share_nothing_the_largest_is_named_first():
    evidence = np.zeros((6, 3))
    evidence[[0, 1], 0], evidence[[2, 3, 4], 1], evidence[5, 2] = 9.0, 9.0, 9.0
    (remark,) = separate(evidence, list("abcdef"))
    assert remark.what.endswith("in common: c, d, e; a, b; f.")


def test_whom_nothing_is_said_of_counts_in_full():
    standing = db.merging.Standing()
    assert (standing.counts, standing.against, standing.alone) == (1.0, 0.0, 0.0)
    assert (standing.copy_of, standing.left_out, standing.flagged, standing.reason()) == (None, False, False, "")
    assert db.merging.Standing(counts=0.99).reason() == "has more evidence than most sites and counts for 99% of it"
    assert db.merging.Standing(alone=0.6).reason() == "is the only one to have found 60% of what it reports"
    assert db.merging.Standing(left_out=True).reason().startswith("was left out")
    assert db.merging.Standing(copy_of=2).reason() == "repeats site 2 and is not counted again"
    assert db.merging.Standing(copy_of=1).reason(["a", "b"]) == "repeats b and is not counted again"


def test_few_data_per_parameter_are_named_if_there_are_several_sites():
    """It is a warning if a fifth of the sites found one component where another found more."""
    alone, some, nobody = np.array([1, 2, 2, 2, 2]), np.array([1, 2, 2, 2, 2, 2]), np.array([1, 1])
    for per_parameter, found, severities in (
        (4.9, np.array([2, 2]), ["note"]), (5.0, alone, []), (4.9, np.array([2]), []),
        (4.9, alone, ["warning"]), (4.9, some, ["note"]), (4.9, nobody, ["note"]),
    ):  # fmt: skip
        remarks = small_sites(shared([[9.0, 9.0]] * len(found), per_parameter), found, True, "observations")
        assert [remark.severity for remark in remarks] == severities


def test_sites_of_classes_that_find_only_one_are_asked_for_pieces_unless_some_were_sent():
    """Pieces: at least 1.5 times as many components as slots, here of two. Sites of 99 rows are too small, and sites
    that find several classes merge better as they are.
    """
    cases = (50.0, [1, 2], True, True), (50.0, [1, 2], False, False), (50.0, [1, 3], True, False)
    for rows, found, classes, wide in (*cases, (49.5, [1, 2], True, False), (50.0, [2, 2], True, False)):
        (remark,) = small_sites(shared([[rows, rows]] * 2, 4.9), np.array(found), classes, "observations")
        assert ('fit "wide" at all sites' in remark.advice) == wide
        assert remark.advice.startswith("Take rounds (refine)")


def test_structures_differ_in_what_either_model_states():
    """Also in what only one of them states."""
    family, prior = IsotropicGaussian(), {"means": IsotropicGaussian().natural(mean=np.zeros((1, 1)), variance=1.0)}
    plain, named, other = (
        Structure({"means": family}, prior, (), model=model) for model in ({}, {"kind": "a"}, {"kind": "b"})
    )
    assert difference(named, other) == "the model's kind is a in one and b in the other."
    assert difference(plain, named) == "the model's kind is None in one and a in the other."
    assert difference(named, plain) == "the model's kind is a in one and None in the other."


def test_what_one_site_alone_has_found_is_not_doubted():
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1e6)
    far, near = (
        model.from_assignments(np.array(rows)[:, None], [0, 0, 1]) for rows in ([0.0, 0.1, 99], [0.0, 0.2, -99])
    )
    alignment = db.align([far, near], components=3)
    for found in kept_together(alignment, alignment.structure.symmetry[0]):
        np.testing.assert_array_equal(found, 1.0)


def test_joined_components_are_told_with_what_they_bring():
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=1e4)
    merged = db.merge([model.fit(np.repeat([[-9.0], [0.0], [9.0]], [5, 7, 11], axis=0), rng=1).posterior])
    order = np.argsort(merged.mean("components")[:, 0]).tolist()
    lineage = db.merging.join(merged, order[2], order[0])
    (event,) = [event for event in lineage.events if event.kind == "joined"]
    kept = [event.id for event in lineage.events if event.kind == "kept"]
    assert event.other in kept
    assert event.id not in kept
    assert event.share == pytest.approx(5 / 16, abs=1e-3)
    assert len(kept) == 2


def test_slots_are_known_that_hold_more_than_a_little():
    """Of a thousand observations; and distances are in a slot's own deviations."""
    model = db.GaussianMixture(3, 1, variance=4.0, prior_variance=1e6)
    counts = [600, 399, 1]
    rows = np.repeat([[-50.0], [0.0], [50.0]], counts, axis=0)
    posterior = model.from_assignments(rows, np.repeat([0, 1, 2], counts))
    slots = SlotValues(posterior)
    assert slots.known == [count > LITTLE * 1000 for count in counts]
    for slot, count in enumerate(counts):
        assert slots.moved(slot, slots) == (0.0, 0.0)
        assert slots.distance(slot, slots.means[slot] + 3.0) == pytest.approx(3.0 / np.sqrt(4.0 / count), rel=1e-3)
