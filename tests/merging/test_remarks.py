"""What merges say about themselves: each remark where it is true, silence where nothing is wrong."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import norm
from structures import relabel

import decbayes as db
from decbayes.errors import InvalidFile, MergeWarning
from decbayes.files import from_bytes, load_note, to_bytes
from decbayes.merging import _merge, robust_merge
from decbayes.merging import alignment as aligning
from decbayes.merging.base.copies import data_totals, same_totals
from decbayes.merging.base.division import Division
from decbayes.merging.grouping.shared import predictive_gains
from decbayes.merging.placing import as_labelled
from decbayes.merging.remarking import COST, remarks_on, separate, share_gains
from decbayes.remarks import Remark, from_plain, lines, ordered, sites_first

MODEL = db.GaussianMixture(2, 1, variance=1.0, prior_variance=400.0)


def fitted(centres, rng, count=60, model=MODEL):
    return model.fit(rng.normal(np.resize(centres, count))[:, None], rng=rng).posterior


def kinds(posteriors, **options):
    """The kinds of remarks of a merge, which are also its warning's."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MergeWarning)
        merged = db.merge(posteriors, **options)
    said = [remark for remark in merged.remarks if remark.is_warning]
    assert len(caught) == bool(said)
    assert all(str(remark) in str(caught[0].message) for remark in said[:3])
    return {remark.kind for remark in merged.remarks}


def test_another_unit_comes_first_and_is_not_said_twice_before_other_warnings():
    noise, far = (Remark(kind, kind, "", sites=(site,)) for kind, site in (("uneven noise", 2), ("other values", 3)))
    elsewhere, unit = replace(far, sites=(1,), what="far"), Remark("units", "units", "", sites=(3,))
    note = Remark("units", "a note", "", severity="note")
    given = [far, elsewhere, noise, note, unit]
    assert ordered(given) == (unit, elsewhere, noise, far, note)
    assert ordered(given[:3]) == (far, elsewhere, noise)


def test_a_sound_merge_says_nothing(rng):
    assert kinds([fitted([-10.0, 10.0], rng) for _ in range(5)]) == set()


def test_too_few_slots_are_a_warning(rng):
    sites = [fitted(centres, rng) for centres in ([-10.0, 10.0], [10.0, 30.0], [-10.0, 30.0])]
    assert "few slots" in kinds(sites, components=2)
    assert "few slots" not in kinds(sites, components=3)
    (remark,) = [remark for remark in db.merge(sites, components=2).remarks if remark.kind == "few slots"]
    assert remark.is_warning
    assert "probably predict better" in remark.what


def test_the_advice_on_few_slots_fits_how_their_number_was_chosen(rng):
    """Nobody who has used "auto" is sent to it, and a number that sites' predictions chose is not called too small."""
    sites = [fitted(centres, rng) for centres in ([-10.0, 10.0], [10.0, 30.0], [-10.0, 30.0])]
    alignment = db.align(sites, components=2)
    said = {}
    for decided in ("given", "largest", "auto", "predictions"):
        (remark,) = [r for r in db.merging.remarks(replace(alignment, decided=decided)) if r.kind == "few slots"]
        said[decided] = str(remark)
        assert remark.is_warning
    assert [decided for decided in said if '"auto" looks' in said[decided]] == ["largest"]
    assert "may predict new data better, although the sites predict each other's data no better" in said["predictions"]
    assert "probably" not in said["predictions"]


@pytest.mark.parametrize("components", [None, "auto", "largest", 2])
def test_an_alignment_says_what_decided_on_its_number_of_slots(components, rng):
    sites = [fitted([-10.0, 10.0], rng) for _ in range(4)]
    alignment = db.align(sites, components=components)
    assert alignment.decided == {None: "predictions", "auto": "auto", "largest": "largest", 2: "given"}[components]
    assert bool(alignment.reason) == (components != 2)


@pytest.mark.parametrize("seed", [2, 3, 7])
def test_auto_does_not_call_one_slot_enough_where_it_holds_components_that_differ(seed):
    """Small sites: no join costs surely more than noise, yet the best split of a single slot gains clearly."""
    rng = np.random.default_rng(seed)
    chances = np.clip(rng.beta(0.6, 0.6, size=(4, 15)), 0.03, 0.97)
    model = db.BernoulliMixture(4, 15)
    shards = [(rng.random((12, 15)) < chances[rng.integers(4, size=12)]).astype(float) for _ in range(4)]
    alignment = db.align([model.fit(shard, rng=rng).posterior for shard in shards], components="auto")
    assert alignment.structure.components(alignment.structure.symmetry[0]) == 4
    assert alignment.reason.startswith("4 slots: no number stands out; ")
    assert "few slots" not in {remark.kind for remark in db.merging.remarks(alignment)}


def test_one_slot_is_not_explained_by_any_two_of_them(rng):
    one = db.GaussianMixture(1, 1, variance=1.0, prior_variance=400.0)
    alignment = db.align([fitted([0.0], rng, 40, one) for _ in range(4)], components="auto")
    assert alignment.reason == "1 slot: components that share a slot differ by no more than noise may explain."


@pytest.mark.parametrize(("apart", "share"), [(1.0, 0.5), (2.0, 0.5), (3.0, 0.3), (6.0, 0.5), (4.0, 0.1)])
def test_the_gain_of_a_split_in_predictions_is_that_of_two_normal_halves(apart, share):
    """Against numerical integration: a mixture of two, and one normal distribution of the same variance each."""
    line, places = np.linspace(-30.0, 30.0, 60001), apart * np.array([-(1.0 - share), share])
    two = share * norm.pdf(line, places[0]) + (1.0 - share) * norm.pdf(line, places[1])
    better = np.sum(two * (np.log(two) - norm.logpdf(line))) * (line[1] - line[0])
    known = share * (1.0 - share) * apart**2 / 2.0  # if the half of each observation were known
    (estimate,) = predictive_gains(np.array([100.0 * known]), 100.0 * np.array([[share, 1.0 - share]]))
    assert estimate == pytest.approx(better, abs=0.06)
    assert estimate < known


def test_clusters_that_overlap_are_no_warning_of_too_few_slots(rng):
    """Sites see different pairs of overlapping clusters: components differ, and more slots would predict no better."""
    centres, model = (
        2.5 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
        db.GaussianMixture(2, 2, covariance="diagonal"),
    )
    shards = [centres[rng.choice(seen, size=80)] + rng.normal(size=(80, 2)) for seen in ([0, 1], [1, 2], [0, 2]) * 2]
    alignment = db.align([fit.posterior for fit in model.fit_many(shards, rng=rng)], components=2)
    (shared,) = alignment.shared().values()
    assert shared.unlike
    assert not [remark for remark in db.merging.remarks(alignment) if remark.kind == "few slots" and remark.is_warning]


def test_components_that_differ_by_little_are_a_note(rng):
    """Ten sites of a thousand points: a difference of 0.2 deviations is certain, and hardly changes predictions."""
    one = db.GaussianMixture(1, 1, variance=1.0, prior_variance=400.0)
    sites = [fitted([0.2 * (site % 2)], rng, 1000, one) for site in range(10)]
    (remark,) = [remark for remark in db.merge(sites).remarks if remark.kind == "few slots"]
    assert not remark.is_warning
    assert "may or may not predict better" in remark.what
    assert "compare both on held-out data" in remark.advice


def test_one_site_alone_is_not_said_to_be_too_small_beside_others(rng):
    few = [fitted([-10.0, 10.0], rng, 6) for _ in range(3)]
    assert "small sites" in kinds(few)
    assert "small sites" not in kinds(few[:1])
    refined = as_labelled(few)  # as rounds leave them
    assert "small sites" not in {remark.kind for remark in db.merging.remarks(refined)}


def test_a_warning_of_many_remarks_says_where_the_others_are(rng, monkeypatch):
    many = tuple(db.checking.Remark("odd", f"{number}.", "Look.") for number in range(5))
    monkeypatch.setattr(_merge, "remarks_in_time", lambda alignment: (many, many))
    with pytest.warns(MergeWarning, match="2 further remarks: see `remarks` of the result"):
        db.merge([fitted([-10.0, 10.0], rng) for _ in range(2)])


def test_every_site_has_a_name(rng):
    alignment = db.align([fitted([-10.0, 10.0], rng) for _ in range(2)])
    with pytest.raises(ValueError, match="one for each of the 2"):
        db.merging.remarks(alignment, ["a", "b", "c"])


def test_a_site_in_other_units_is_alone_and_groups_that_share_nothing_are_named(rng):
    sites = [fitted([-10.0, 10.0], rng) for _ in range(3)]
    far = fitted([-90.0, 90.0], rng)
    merged = db.merge([*sites, far], components=4)
    (remark,) = [remark for remark in merged.remarks if remark.kind == "nothing shared"]
    assert "site 3" in remark.what
    near = fitted([10.0, 10.0, 90.0, 90.0, 90.0], rng)
    assert "site alone" in kinds([*sites, near], components=3)


@pytest.mark.parametrize(("slots", "apart"), [(2, False), (4, True)])
def test_sites_that_share_nothing_are_side_by_side_only_where_there_are_slots_for_all(slots, apart, rng):
    sites = [fitted([-10.0, 10.0], rng) for _ in range(3)] + [fitted([-400.0, 700.0], rng)]
    merged = db.merge(sites, components=slots)
    true = [-400.0, -10.0, 10.0, 700.0]
    assert all(np.isclose(true, mean, rtol=0.1).any() for mean in merged.mean("components").ravel()) == apart
    (remark,) = [remark for remark in merged.remarks if remark.kind == "nothing shared"]
    assert ("side by side" in remark.advice, "averages them" in remark.advice) == (apart, not apart)


@pytest.mark.parametrize("slots", [4, 8])
def test_features_that_share_nothing_are_averaged_in_as_many_slots_as_there_are(slots, rng):
    """They are matched one to one, and their fits cannot be wide."""
    features = (rng.random((4, 12)) < 0.4) * 1.0
    model = db.LatentFeatures(4, 12, variance=0.04)
    sites = []
    for unit in (1.0, 1.0, 10.0):
        shown = rng.random((60, 4)) < 0.4
        sites.append(model.fit(unit * (shown @ features + rng.normal(0, 0.2, (60, 12))), rng=rng).posterior)
    alignment = db.align(sites, components=slots)
    remarks = db.merging.remarks(alignment)
    (remark,) = [remark for remark in remarks if remark.kind == "nothing shared"]
    (coupled,) = alignment.structure.symmetry
    shared = {*alignment.slots(coupled)[2]} & {*alignment.slots(coupled)[0], *alignment.slots(coupled)[1]}
    assert ("averages them" in remark.advice) == bool(shared)
    assert '"wide"' not in " ".join(map(str, remarks))


def test_unlike_shares_are_those_that_enumeration_finds():
    """Two sites with all data in one slot each: KL is log 2 less smoothing, and few data take it back."""
    many, few, apart = np.array([[1e6, 0.0], [0.0, 1e6]]), np.array([[3.0, 0.0], [0.0, 3.0]]), np.eye(2)
    far = np.full(2, np.inf)
    np.testing.assert_allclose(share_gains(many, 2.0, apart, far), np.log(2.0), atol=1e-4)
    own, everywhere = np.array([0.8, 0.2]), np.array([0.5, 0.5])
    expected = float((own * np.log(own / everywhere)).sum()) - COST * 3.0 / 6.0
    np.testing.assert_allclose(share_gains(few, 2.0, apart, far), expected)
    np.testing.assert_allclose(share_gains(many, 2.0, np.ones((2, 2)), far), 0.0, atol=1e-4)
    # Data that are the same as a whole have no other shares, whatever the slots.
    np.testing.assert_allclose(share_gains(many, 2.0, apart, np.zeros(2)), 0.0, atol=1e-4)


def overlapping(rng, apart, shares, size=60):
    """Points of three round clusters, as far apart as given in standard deviations."""
    centres = apart * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    return centres[rng.choice(3, size=size, p=shares)] + rng.normal(size=(size, 2))


@pytest.mark.parametrize("apart", [2.0, 2.5, 3.0])
def test_equal_sites_with_overlapping_clusters_have_no_unlike_shares(apart):
    """Fits divide overlapping clusters differently at each site; the sites are the same nevertheless."""
    model = db.GaussianMixture(3, 2, covariance="full", ascent=db.Ascent(restarts=3))
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        shards = [overlapping(rng, apart, [0.5, 0.3, 0.2]) for _ in range(5)]
        assert "unlike shares" not in kinds([model.fit(shard, rng=rng).posterior for shard in shards])


def test_parts_of_one_table_that_fits_divide_in_two_ways_have_no_unlike_shares():
    """A square of four clusters: two sites cut it into left and right, two into top and bottom."""
    rng, square = np.random.default_rng(0), 3.0 * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]]).repeat(30, axis=0)
    model, posteriors = db.GaussianMixture(2, 2, covariance="diagonal"), []
    for site in range(4):
        points = square + rng.normal(size=square.shape)
        across = points * np.roll([1.0, 0.1], site // 2)  # the start sees hardly anything of the other column
        start = model.fit(across, rng=rng).posterior
        posteriors.append(model.fit(points, rng=rng, start=start).posterior)
    (shared,) = db.align(posteriors, components=4).shared().values()
    assert [{*shared.sites(slot)} for slot in range(4)] == 2 * [{0, 1}] + 2 * [{2, 3}]
    assert "unlike shares" not in kinds(posteriors, components=4)


def test_the_weights_of_one_site_predict_better_there_if_shares_differ(rng):
    shares = [[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]]
    model = db.GaussianMixture(3, 2, covariance="full")
    alignment = db.align([model.fit(overlapping(rng, 8.0, part, 200), rng=rng).posterior for part in shares])
    (remark,) = [remark for remark in db.merging.remarks(alignment) if remark.kind == "unlike shares"]
    assert "--weights-of" in remark.advice
    assert "at_site" in remark.advice
    for site, part in enumerate(shares):
        new, merged, there = overlapping(rng, 8.0, part, 1000), alignment.merged(), alignment.at_site(site)
        assert model.score(there, new) > model.score(merged, new) + 0.3
        np.testing.assert_array_equal(there.mean("components"), merged.mean("components"))
    states = db.HiddenMarkov(states=2, columns={"x": db.columns.Gaussian(0, 1)})
    moved = db.align([states.fit([rng.normal(size=(30, 1))], rng=rng).posterior for _ in range(2)])
    with pytest.raises(db.errors.StructureMismatch, match="no weights"):
        moved.at_site(0)


@pytest.mark.parametrize("seed", [17001, 17002, 17004])
def test_outliers_do_not_hide_which_site_has_other_units(seed):
    """The only site named is the one whose data are ten times as large; without it, nobody is."""
    model = db.GaussianMixture(3, 2)
    for factor, named in ((10.0, {0}), (1.0, set())):
        rng = np.random.default_rng(seed)
        shards = []
        for _ in range(int(rng.integers(4, 9))):
            outliers = np.where(rng.random((120, 1)) < 0.02, 20.0, 1.0)
            centres = overlapping(rng, 8.0, [0.5, 0.3, 0.2], 120)
            shards.append(centres + (outliers - 1.0) * rng.normal(size=(120, 2)))
        shards[0] = factor * shards[0]
        alignment = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
        (shared,) = alignment.shared().values()
        assert sites_alone(shared, len(shards)) == named


def sites_alone(shared, count):
    """The sites that a merge names because of other units."""
    texts = [
        remark.what for remark in separate(shared.parts.evidence, list(map(str, range(count))), shared.parts.alike)
    ]
    return {site for site in range(count) for text in texts if f" {site} (" in text or f" {site}." in text}


def test_a_site_in_other_units_is_named_among_states_that_share_slots(rng):
    """There are as many slots as states, so its states have to share slots with others."""
    model = db.HiddenMarkov(states=3, columns={"x": db.columns.Gaussian(0, 10)})

    def sequences():
        states = np.repeat(rng.integers(3, size=(25, 6)), 5, axis=1)
        return [6.0 * (states_of_one[:, None] - 1) + rng.normal(size=(30, 1)) for states_of_one in states]

    shards = [sequences() for _ in range(4)]
    shards[3] = [10.0 * sequence for sequence in shards[3]]
    alignment = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    first = db.merging.remarks(alignment, list("abcd"))[0]
    assert first.kind in ("nothing shared", "site alone")
    assert "; d." in first.what or "what d (" in first.what


def test_sites_that_searched_for_the_number_are_told_of_rounds_that_find_it_together():
    """Each of six sites finds two or three of four clusters; rounds with these numbers hardly help."""
    rng, centres = np.random.default_rng(1), np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [3.0, 3.0]])
    *shards, held_out = (centres[rng.integers(4, size=n)] + 0.8 * rng.normal(size=(n, 2)) for n in (*6 * [60], 2000))
    model = db.GaussianMixture("auto", 2, covariance="diagonal")
    fits = [model.fit(shard, rng=rng).posterior for shard in shards]
    alignment = db.align(fits)
    (shared,) = alignment.shared().values()
    assert shared.per_parameter > 5.0
    (said,) = [remark for remark in db.merging.remarks(alignment) if remark.kind == "small sites"]
    assert said.severity == "note"
    assert "all data together may support more" in said.what
    assert 'components="auto"' in said.advice
    as_found, together = (
        db.refine(model, shards, fits, rng=rng, rounds=3, components=number).merged for number in (None, "auto")
    )
    assert len(together.mean("weights")) == 4
    assert model.score(together, held_out) > model.score(as_found, held_out) + 0.05
    given = db.merging.remarks(db.align(fits, components=3))
    assert "small sites" not in {remark.kind for remark in given}


def test_what_more_slots_gain_is_said_in_the_unit_of_evidence(rng):
    states = db.HiddenMarkov(states=2, columns={"x": db.columns.Gaussian(0, 10)})
    moved = [[np.append(rng.normal(low, 1, 30), rng.normal(low + 9, 1, 30))[:, None]] for low in (-30.0, 20.0)]
    sequences = db.align([states.fit(site, rng=rng).posterior for site in moved], components=2)
    points = db.align([fitted([low, low + 40.0], rng, 30) for low in (-30.0, -10.0)], components=2)
    for alignment, unit in ((sequences, "step"), (points, "observation")):
        (remark,) = [remark for remark in db.merging.remarks(alignment) if remark.kind == "few slots"]
        assert remark.rests_on.endswith(f" nats per {unit}.")


def test_the_unit_of_few_data_is_said(rng):
    vocabulary = tuple("abcdefghijkl")
    model = db.LatentDirichletAllocation(2, vocabulary)
    topics = [model.fit(rng.poisson(0.2, size=(4, 12)), rng=rng).posterior for _ in range(2)]
    for sites, unit in (
        (topics, "occurrences of words"),
        ([fitted([-10.0, 10.0], rng, 6) for _ in range(3)], "observations"),
    ):
        (remark,) = [remark for remark in db.merging.remarks(db.align(sites)) if remark.kind == "small sites"]
        assert f" {unit} per parameter" in remark.rests_on


def test_one_site_s_data_at_two_sites_are_noticed_whatever_the_start(rng):
    points = rng.normal(np.resize([-10.0, 10.0], 80))[:, None]
    copies = [MODEL.fit(part, rng=seed).posterior for seed, part in enumerate((points, points[::-1]))]
    assert copies[0] != copies[1]
    assert "counted twice" in kinds([*copies, fitted([-10.0, 10.0], rng)])
    words = rng.integers(0, 5, size=(30, 40)).astype(float)
    topics = db.LatentDirichletAllocation(3, tuple(f"w{word}" for word in range(40)))
    assert "counted twice" in kinds([topics.fit(words, rng=seed).posterior for seed in range(2)])
    classes = db.BernoulliMixture(2, 12)
    answers = (rng.random((50, 12)) < 0.4).astype(float)
    others = [classes.fit((rng.random((50, 12)) < 0.4).astype(float), rng=rng).posterior for _ in range(6)]
    assert "counted twice" in kinds(
        [classes.fit(answers, rng=0).posterior, *others, classes.fit(answers, rng=1).posterior]
    )


@pytest.mark.parametrize(
    ("totals", "no_chance"),
    [
        ([20.0, 3.0, 17.0], False),  # twenty answers to one question
        ([20.0, 12.3], False),  # twenty readings with one decimal
        ([20.0, 12.3456789123], True),
        ([50.0, *([20.0, 30.0] * 12)], True),
        ([0.0], False),
    ],
)
def test_equal_sums_of_a_few_round_numbers_may_be_chance(totals, no_chance):
    assert same_totals(np.array(totals), np.array(totals)) == no_chance
    assert not same_totals(np.array(totals), np.array(totals) + 0.1)


@pytest.mark.slow
def test_equal_sums_by_chance_are_rare_among_sites_of_their_own_data(rng):
    """Sites of two yes/no columns and ten rows often have equal sums; none is called a copy."""
    model = db.BernoulliMixture(2, 2)
    sites = [model.fit((rng.random((10, 2)) < 0.5).astype(float), rng=rng).posterior for _ in range(25)]
    assert len({tuple(data_totals(site).round(6)) for site in sites}) < len(set(sites))
    assert "counted twice" not in kinds(set(sites))


def test_topics_are_never_warned_about_their_number(rng):
    shares = rng.dirichlet(np.full(50, 0.05), size=8)
    model = db.LatentDirichletAllocation(4, tuple(f"w{word}" for word in range(50)))
    shards = [
        np.array([rng.multinomial(60, rng.dirichlet(np.full(4, 0.2)) @ shares[first : first + 4]) for _ in range(40)])
        for first in (0, 4, 2)
    ]
    merged = db.merge([model.fit(shard, rng=rng).posterior for shard in shards])
    assert not [remark for remark in merged.remarks if remark.kind == "few slots" and remark.is_warning]


def test_a_merge_of_files_or_of_many_says_that_it_was_not_checked(rng, tmp_path):
    sites = [fitted([-10.0, 10.0], rng, 10) for _ in range(3)]
    for number, site in enumerate(sites):
        db.save(site, tmp_path / f"{number}.posterior")
    merged = db.merge(db.merging.Library(sorted(tmp_path.glob("*.posterior"))))
    assert [remark.kind for remark in merged.remarks] == ["not checked"]


def test_remarks_of_sites_are_repeated_with_their_names(rng):
    remark = db.checking.Remark("odd", "Something is odd.", "Look.")
    sites = [fitted([-10.0, 10.0], rng) for _ in range(4)]
    sites[1:3] = [replace(site, remarks=[remark]) for site in sites[1:3]]
    assert [str(said) for said in db.merge(sites).remarks] == ["site 1, site 2: Something is odd. Look."]
    assert db.merging.remarks(db.align(sites), ["b", "d", "c", "a"])[0].what == "c, d: Something is odd."


def test_remarks_travel_with_a_posterior_and_are_not_part_of_its_value(rng, tmp_path):
    site = fitted([-10.0, 10.0], rng)
    remark = db.checking.Remark("odd", "Something is odd.", "Look.", "By 3 nats.", "note")
    marked = replace(site, remarks=[remark])
    assert marked == site
    assert marked.digest == site.digest
    db.save(marked, tmp_path / "marked.posterior", note={"more": 1})
    assert db.load(tmp_path / "marked.posterior").remarks == (remark,)
    assert load_note(tmp_path / "marked.posterior")["more"] == 1
    assert pickle.loads(pickle.dumps(marked)).remarks == (remark,)
    assert to_bytes(site) != to_bytes(marked)
    assert from_bytes(to_bytes(site)).remarks == ()
    assert repr(marked) == f"{site!r}\nSomething is odd. By 3 nats. Look."
    assert "Something is odd" in marked._repr_html_()


def test_three_remarks_are_shown_and_the_rest_is_counted():
    remarks = [db.checking.Remark("odd", f"{number}.", "Look.") for number in range(5)]
    assert lines(remarks, rest="ask") == ["0. Look.", "1. Look.", "2. Look.", "2 further remarks: ask."]
    assert len(lines(remarks, None)) == 5
    assert lines(remarks[:3]) == ["0. Look.", "1. Look.", "2. Look."]
    assert lines(remarks[:4])[-1] == "1 further remark."


@pytest.mark.parametrize(
    "values",
    [
        "text",
        [{}] * 51,
        ["text"],
        [{"kind": "a", "what": "b", "advice": "c", "rests_on": "", "severity": "fatal"}],
        [{"kind": "a", "what": "b\x1b[2J", "advice": "c", "rests_on": "", "severity": "note"}],
        [{"kind": "a", "what": "b" * 3000, "advice": "c", "rests_on": "", "severity": "note"}],
        [{"kind": "a", "what": 3, "advice": "c", "rests_on": "", "severity": "note"}],
    ],
)
def test_remarks_that_somebody_else_has_written_are_checked(values):
    with pytest.raises(InvalidFile, match=r"remark"):
        from_plain(values)


def test_sites_with_a_single_outcome_are_named(rng, tmp_path):
    frame = {"x": rng.normal(size=60), "ill": rng.random(60) < 0.5}
    model = db.LogisticRegression.from_frame(frame, "ill ~ x")
    sites = [model.fit({name: values[part::3] for name, values in frame.items()}).posterior for part in range(3)]
    assert db.merge(sites).remarks == ()
    single = model.fit({"x": rng.normal(size=20), "ill": np.ones(20, dtype=bool)}).posterior
    db.save(single, tmp_path / "single.posterior")
    (remark,) = db.merge([*sites, db.load(tmp_path / "single.posterior")]).remarks
    assert remark.kind == "single outcome"
    assert remark.what.startswith("site 3: All rows have the same outcome")


@pytest.mark.parametrize("model", [MODEL, db.PoissonMixture(3, 2), db.LatentDirichletAllocation(3, tuple("abcdef"))])
def test_what_components_add_up_to_depends_on_data_and_not_on_labels_or_starts(model):
    data = db.simulate(model, 40, rng=np.random.default_rng(5)).data
    one, other = (model.fit(data, rng=seed).posterior for seed in (1, 2))
    relabelled = relabel(other, np.random.default_rng(3))
    np.testing.assert_allclose(data_totals(one), data_totals(relabelled), rtol=1e-6, atol=1e-3)


def planted_topics(rng, themes, words=30):
    """Counts of three topics of ten words each, as a site that has seen some of them would send."""
    model = db.LatentDirichletAllocation(3, [f"w{n}" for n in range(words)], topic_prior=0.1)
    counts = np.zeros((3, words))
    for topic, theme in enumerate(themes):
        counts[topic, 10 * theme : 10 * theme + 10] = rng.poisson(60, 10)
    return db.Posterior(model.structure, {"topics": counts})


def test_warnings_of_topics_are_found_at_once_and_notes_when_somebody_reads_them(rng, monkeypatch):
    usual = [planted_topics(rng, (0, 1)) for _ in range(3)]
    again = db.Posterior(usual[0].structure, {"topics": usual[0].contribution["topics"][[1, 0, 2]]})
    scenes = {
        "counted twice": [*usual, again],
        "nothing shared": [*usual, planted_topics(rng, (2,))],
        "no data": [*usual, db.Posterior.of_prior(usual[0].structure)],
        "": usual,
    }
    asked = []
    monkeypatch.setattr(aligning, "remarks_on", lambda *given: asked.append(1) or remarks_on(*given))
    for kind, sites in scenes.items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            merged = db.merge(sites, components=3)
        assert not asked
        expected = [remark for remark in db.merging.remarks(db.align(sites, components=3)) if remark.is_warning]
        asked.clear()
        assert [str(warning.message) for warning in told] == ["\n".join(map(str, expected))] * bool(expected)
        assert {remark.kind for remark in expected} == ({kind} if kind else set())
        assert merged.remarks == db.merging.remarks(db.align(sites, components=3))
        assert len(asked) == 2
        assert pickle.loads(pickle.dumps(merged)).remarks == merged.remarks[:]
        assert len(asked) == 2, "read once, found once"
        asked.clear()


def test_a_topic_that_mixes_those_of_others_is_known_to_them():
    """The last site has two topics of the others fused in one, which its merge divides, and 30% foreign words.

    Whole or divided, its words tell. A site with foreign words only is not known.
    """
    words = np.repeat(np.eye(4)[:, :3], 10, axis=1) * (1.0 + 0.01 * np.arange(30))
    structure = db.LatentDirichletAllocation(4, tuple(f"w{n}" for n in range(30))).structure
    counts = [[600.0 * words[0], 400.0 * words[1]]] * 3 + [[300.0 * words[0] + 400.0 * words[1], 300.0 * words[2]]]
    sites = [db.Posterior(structure, {"topics": csr_array(np.vstack([*rows, 0.0 * words[2:]]))}) for rows in counts]
    (coupled,), names = structure.symmetry, np.array([2, 0, 3, 1])
    shares = [np.eye(4)[[0, 1, 3, 3]]] * 3 + [np.array([[3 / 7, 4 / 7, 0, 0], [0, 0, 1, 0], *np.eye(4)[[3, 3]]])]
    slots = [names[[0, 1, 3, 3]]] * 3 + [names[[3, 2, 3, 3]]]
    whole = replace(as_labelled(sites), assignments=tuple({coupled: labels} for labels in slots))
    divided = replace(whole, divisions={coupled: Division(tuple(shares), words.T / 10.0, names)})
    rows = [0.0 * words[0], 900.0 * words[2], *0.0 * words[2:]]
    foreign = replace(whole, posteriors=[*sites[:3], db.Posterior(structure, {"topics": csr_array(np.array(rows))})])
    for alignment, said in ((whole, []), (divided, []), (foreign, ["nothing shared"])):
        for remarks in (db.merging.remarks(alignment), aligning.remarks_in_time(alignment)[1]):
            assert [remark.kind for remark in remarks if "groups of sites" in remark.what] == said


def test_a_column_that_is_constant_at_one_site_is_named_before_slots(rng):
    """Its components are flat there, so that none of the others is like them."""
    centres = np.array([[0.0, 0.0], [6.0, 2.0], [0.0, 8.0]])
    model = db.GaussianMixture(3, 2, covariance="full", columns=("glucose", "crp"))
    tables = [centres[rng.integers(3, size=150)] + rng.normal(size=(150, 2)) for _ in range(4)]
    flat = np.column_stack([tables[3][:, 0], np.ones(150)])
    usual, constant = [model.fit(table, rng=rng).posterior for table in tables], model.fit(flat, rng=rng).posterior
    remarks = db.merging.remarks(db.align([*usual, constant], components=3), list("abcde"))
    kinds_in_order = [remark.kind for remark in remarks if remark.is_warning]
    assert kinds_in_order.index("constant columns") < kinds_in_order.index("few slots")
    said = {remark.kind: remark for remark in remarks}
    assert said["constant columns"].what == "e: Columns with one value in all rows: crp."
    assert said["few slots"].advice.startswith("First check the sites that are named. Merge with more")
    everywhere = db.merging.remarks(db.align([constant, constant], components=3))
    assert "constant columns" not in {remark.kind for remark in everywhere}


def test_a_constant_column_that_changes_nothing_is_a_note(rng):
    columns = {"x": db.columns.Gaussian(0, 10), "falls": db.columns.Poisson(0.05)}
    model = db.LatentClasses(components=2, columns=columns)
    tables = [{"x": rng.normal(np.resize([-10.0, 10.0], 80)), "falls": np.resize([0] * 19 + [1], 80)} for _ in range(4)]
    tables[3]["falls"][:] = 0
    remarks = db.merge([model.fit(table, rng=rng).posterior for table in tables], components=2).remarks
    assert [(remark.kind, remark.severity) for remark in remarks] == [("constant columns", "note")]


def test_sites_are_checked_before_slots_are_added(rng):
    """A hidden Markov model has as many slots as states: those of a site that drifts make all slots differ."""
    model = db.HiddenMarkov(states=2, columns={"x": db.columns.Gaussian(0, 10)})

    def sequences(drift):
        states = np.repeat(rng.integers(2, size=(20, 6)), 5, axis=1)
        return [(12.0 * one - 6.0 + drift * np.arange(30) + rng.normal(size=30))[:, None] for one in states]

    sites = [model.fit(sequences(drift), rng=rng).posterior for drift in (0.0, 0.0, 0.0, 0.2)]
    remarks = [remark for remark in db.merge(sites).remarks if remark.is_warning]
    assert [remark.kind for remark in remarks][-2:] == ["site disagrees", "few slots"]
    assert "site 3" in remarks[-2].what
    assert remarks[-1].advice.startswith("First check the sites that are named.")
    (alone,) = [remark for remark in db.merge(sites[:3], components=1).remarks if remark.kind == "few slots"]
    assert "named" not in alone.advice


def test_the_sites_of_a_remark_are_those_in_its_text_and_stay_out_of_files(rng, tmp_path):
    """Numbers of sites belong to one merge: a file has the text only."""
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1e4)
    shards = [rng.choice([0.0, 20.0], (60, 1)) + rng.normal(size=(60, 1)) for _ in range(3)]
    posteriors = [model.fit(shard, rng=rng).posterior for shard in [*shards, 10.0 * shards[0] + 60.0]]
    merged = db.merge([posteriors[3], *posteriors[:3], posteriors[0], db.Posterior.of_prior(model.structure)],
                      duplicates="allow")  # fmt: skip
    sites = {remark.kind: remark.sites for remark in merged.remarks if remark.sites}
    assert sites == {"counted twice": (1, 4), "no data": (5,), "nothing shared": (0,)}
    db.save(merged, tmp_path / "merged.posterior")
    read = db.load(tmp_path / "merged.posterior").remarks
    assert read == tuple(merged.remarks)
    assert not any(remark.sites for remark in read)


@pytest.mark.parametrize(
    ("groups", "named"), [([[0, 2, 3], [1]], (1,)), ([[0, 3], [1, 2]], (0, 1, 2, 3)), ([[1, 2], [0], [3]], (0, 3))]
)
def test_of_groups_that_share_nothing_the_smaller_ones_stand_out(groups, named):
    evidence = np.zeros((4, len(groups)))
    for slot, group in enumerate(groups):
        evidence[group, slot] = 50.0
    (remark,) = separate(evidence, list("abcd"))
    assert remark.sites == named


def test_a_plain_merge_says_that_a_table_is_at_two_sites_with_a_few_rows_changed():
    """Four sites, and one of them again with 3 of 2,000 rows replaced."""
    rng = np.random.default_rng(3)
    tables = [{name: rng.normal(size=2000) for name in "abcd"} for _ in range(4)]
    again = {name: np.append(values[3:], rng.normal(size=3)) for name, values in tables[1].items()}
    model = db.LinearRegression("a", columns=dict.fromkeys("abcd", "real"))
    fits = [model.fit(table).posterior for table in (*tables, again)]
    said = {count: [r for r in db.merge(fits[:count]).remarks if r.kind == "counted twice"] for count in (4, 5)}
    assert [{*remark.sites} for remark in said[5]] == [{1, 4}]
    assert not said[4]


def test_nobody_is_sent_to_sites_that_no_remark_names():
    """A robust merge drops remarks on sites that are not true of it, after others have referred to them."""
    alone = db.checking.Remark("site alone", "Most of what a found is unknown to all other sites.", "", sites=(0,))
    slots = db.checking.Remark("few slots", "Slot 4 holds components that differ.", "Merge with more components.")
    both = sites_first([slots, alone])
    assert both[1].advice == "First check the sites that are named. Merge with more components."
    assert sites_first(both) == both
    assert sites_first(both[1:]) == (slots,)
    named = db.checking.Remark("sites differ", "Sites differ.", "First check units, columns and coding at a.")
    assert sites_first([named, alone])[0] == named, "advice that names the site is not preceded by a vaguer one"


def test_sites_of_a_few_whole_numbers_are_no_copies_in_robust_merges():
    """Two yes/no columns of ten rows: some of ten sites have equal sums."""
    rows, model = np.random.default_rng(1).random((10, 10, 2)) < 0.5, db.BernoulliMixture(2, 2)
    sites = [model.fit(shard.astype(float), rng=1).posterior for shard in rows]
    assert len({tuple(data_totals(site).round(6)) for site in sites}) < 10
    assert all(site.copy_of is None for site in robust_merge(sites).sites)
