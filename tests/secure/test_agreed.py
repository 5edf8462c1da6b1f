"""What members agree on and add: limits, amounts of data, doubts, and what lies in a folder."""

import json
import re
from dataclasses import replace
from itertools import permutations
from stat import S_IMODE

import numpy as np
import pytest
from masked_sums import NAMES, public, signing
from scipy.sparse import csr_array
from secure_sites import ANCHOR, MODEL, Sites, agreed, opened_total, share_of

import decbayes as db
from decbayes.disclosure.guarding import distinguishing_factors, joining_gain
from decbayes.errors import InvalidFile, SumRefused
from decbayes.secure import Agreement, Folder, PrivateAgreement, Share, audit, contribution
from decbayes.secure.agreement import FORMAT, doubts_about_scores
from decbayes.secure.anchored import evened_slots, length_of, matched, slots_of
from decbayes.secure.folder import AGREEMENT, AROUND, MOST_BYTES, Opened
from decbayes.secure.noise import made_id, private_terms
from decbayes.secure.private_rounds import PendingSpending, merge_in, private_share, releases_in, spent_bytes, spent_in
from decbayes.secure.site import proposals, whose_turn

MEMBERS = {name: public(name) for name in NAMES}


def test_an_agreement_is_what_people_compare():
    usual = Agreement("means", dict(reversed(MEMBERS.items())), ANCHOR)
    rules = db.disclosure.Rules()
    assert usual.plain() == {
        "format": FORMAT, "name": "means", "members": {name: key.hex() for name, key in MEMBERS.items()},
        "anchor": ANCHOR.digest, "rounds": 3, "colluders": 1, "most_rows": 1e6, "step": 2.0**-20,
        "rules": rules.plain(),
    }  # fmt: skip
    assert usual.complete
    text = json.dumps(usual.plain()).encode()
    assert Agreement.of(text, ANCHOR) == usual
    ruleless = agreed()
    assert Agreement.of(json.dumps(ruleless.plain()).encode(), ANCHOR) == ruleless
    for changed in ({"format": "decbayes secure sums 2"}, {"members": 3}, {"rules": 3}, {"members": {"a": "x"}}):
        with pytest.raises(SumRefused, match="damaged, or of another version"):
            Agreement.of(json.dumps(usual.plain() | changed).encode(), ANCHOR)
    for changed in ({"further": 1}, {"anchor": "0" * 64}):
        with pytest.raises(SumRefused, match="not the one that was agreed on, or the agreement was changed"):
            Agreement.of(json.dumps(usual.plain() | changed).encode(), ANCHOR)
    with pytest.raises(SumRefused, match="damaged"):
        Agreement.of(b"{", ANCHOR)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"rounds": 0}, "from 1 to 1000"), ({"rounds": 1001}, "from 1 to 1000"), ({"rounds": True}, "from 1 to 1000"),
        ({"most_rows": 0.9}, "from 1 to 1e9"), ({"most_rows": 1.1e9}, "from 1 to 1e9"),
        ({"most_rows": "9"}, "from 1 to 1e9"), ({"colluders": 3}, "could together learn"), ({"step": 0.3}, "step"),
        ({"names": ("a b", "c", "d")}, "letters, digits and _"), ({"names": ("a" * 41, "c", "d")}, "up to 40 letters"),
    ],
)  # fmt: skip
def test_agreements_that_no_sum_can_keep_are_refused(changed, why):
    with pytest.raises(SumRefused, match=why):
        agreed(**changed)


def test_agreements_at_their_limits():
    assert agreed(rounds=1000, most_rows=1e9, names=("a" * 40, "b", "c")).rounds == 1000
    assert agreed(rounds=1, most_rows=1.0).most_rows == 1.0
    with pytest.raises(TypeError, match="anchor"):
        Agreement("means", MEMBERS, MODEL)
    with pytest.raises(SumRefused, match="There is no member 'x'; there are east, north, south, west"):
        agreed().next_terms([], without=["x", "east"])


def test_the_terms_of_a_round_are_those_of_the_merge_before_it():
    """A part may be missing where nobody has left: neither before the first sum, nor since the last one."""
    study = agreed(step=2.0**-10, colluders=2)
    first = study.next_terms()
    assert (first.round, first.anchor, first.length, first.absent) == (1, ANCHOR.digest, 2 + 7, 1)
    assert (first.group, first.step, first.colluders) == (study.fingerprint, 2.0**-10, 2)
    assert {*first.seats} == {*NAMES}
    one = agreed(step=2.0**-10)
    assert one.next_terms([], ["south"]).absent == 0
    assert [*one.next_terms([], ["south"]).seats] == ["east", "north", "west"]
    assert replace(one, complete=False).next_terms().absent == 0
    result = one.result(share_of(2.0).steps(one.step), [], one.next_terms([], ["south"]))
    assert result.members == 3
    later = [one.next_terms([result, result], left_out) for left_out in ([], ["south"])]
    assert [each.absent for each in later] == [0, 1]
    assert {(each.round, each.anchor) for each in later} == {(3, result.posterior.digest)}


def test_members_add_what_has_changed_and_results_add_it_up():
    study = agreed(most_rows=10)
    before, now = share_of(1.0, rows=4).steps(study.step), share_of(3.0, rows=6)
    np.testing.assert_array_equal(study.added(now, before) + before, now.steps(study.step))
    np.testing.assert_array_equal(study.added(now, None), now.steps(study.step))
    first = study.result(before, [], study.next_terms())
    second = study.result(study.added(now, before), [first], study.next_terms([first]))
    assert second.share.rows == 6
    assert second.posterior == now.posterior
    third = study.result(-study.added(now, before), [first, second], study.next_terms([first, second]))
    assert third.posterior == share_of(1.0, rows=4).posterior
    (lost,) = first.posterior.remarks
    assert (lost.kind, lost.severity) == ("only sums", "note")


def test_sums_of_words_are_compared_with_words_and_not_with_documents(rng):
    model = db.LatentDirichletAllocation(2, tuple("abcd"), topic_prior=0.1)
    data = csr_array(rng.multinomial(30, np.full(4, 0.25), size=20))
    posterior = model.fit(data, rng=0).posterior
    study = agreed(anchor=posterior)
    for units, kinds in ((600, ["only sums"]), (20, ["sum contradicts itself", "only sums"])):
        steps = Share(posterior, 20, 20, units).steps(study.step)
        remarks = study.result(steps, [], study.next_terms()).posterior.remarks
        assert [remark.kind for remark in remarks] == kinds


@pytest.mark.parametrize(("gain", "doubts"), [(0.0, 0), (-0.29, 0), (-0.31, 1), (0.31, 0)])
def test_merges_are_doubted_if_they_are_three_errors_behind_members_own_fits(gain, doubts):
    """A hundred units, whose differences have a sum of squares of 100: a standard error of 0.1."""
    share = Share(share_of(1.0).posterior, 5, 5, 5, held=100.0, score=-150.0, alone=-150.0 - 100 * gain, squares=100.0)
    assert share.held_back == pytest.approx((100.0, -1.5, gain, 0.1))
    assert len(doubts_about_scores(share)) == doubts
    assert not doubts_about_scores(share_of(1.0))


def test_shares_of_nothing_held_back_say_nothing():
    share = share_of(1.0)
    assert (share.held, share.score, share.alone, share.squares) == (0.0, 0.0, 0.0, 0.0)
    assert share.held_back is None
    little = replace(share, held=0.5, squares=-1e-9).held_back
    assert little == (0.5, 0.0, 0.0, 0.0), "rounding makes no square negative"


@pytest.mark.parametrize(("most", "scale"), [(3, 0.3), (10, 1.0), (1e6, 1.0)])
def test_a_member_with_more_rows_weighs_no_more(most, scale):
    share = replace(share_of(2.0, rows=10), persons=8.0, units=7.0, held=6.0, score=-5.0, alone=-4.0, squares=3.0)
    found = share.bounded(most)
    np.testing.assert_allclose(found.posterior.contribution["mean"], scale * share.posterior.contribution["mean"])
    told = ("rows", "persons", "units", "held", "score", "alone", "squares")
    assert [getattr(found, name) for name in told] == pytest.approx([scale * getattr(share, name) for name in told])


def test_shares_are_numbers_in_one_order():
    model = db.GaussianMixture(2, 3, variance=1.0, prior_variance=10.0)
    posterior = model.fit(np.arange(12.0).reshape(4, 3), rng=0).posterior
    share = Share(posterior, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    steps = share.steps(0.25)
    flat = [float(x) for part in posterior.contribution.values() for x in np.asarray(part).ravel()]
    assert steps.tolist() == [round(4 * x) for x in [*flat, 1, 2, 3, 4, 5, 6, 7]]
    assert len(steps) == length_of(posterior.structure) == 2 + 2 * 4 + 7
    back = Share.of_steps(posterior.structure, steps, 0.25)
    assert back.squares == 7.0
    np.testing.assert_allclose(
        back.posterior.contribution["components"], posterior.contribution["components"], atol=0.125
    )


MIXTURE = db.GaussianMixture(3, 1, variance=1.0, prior_variance=400.0)


def posterior_of(means, counts, model=MIXTURE):
    """Components at these means, each with so many observations."""
    counts = np.array(counts, dtype=float)
    model = replace(model, components=len(counts))
    components = np.stack([counts * means, -counts / 2], axis=1)
    return db.Posterior(model.structure, {"weights": counts[:, None], "components": components})


def test_slots_are_compared_with_the_same_evidence():
    """λ0 + (mean n / n_j) c_j; a spare slot is the prior and is not counted."""
    anchor = posterior_of([-9.0, 0.0, 9.0], [0.2, 0.0, 0.6])
    (coupled,) = anchor.structure.symmetry
    prior = anchor.structure.prior["components"]
    assert distinguishing_factors(anchor.structure, coupled.factors) == ["components"]
    found = evened_slots(anchor, coupled)["components"]
    np.testing.assert_allclose(found - prior, [[0.4 * -9.0, -0.2], [0.0, 0.0], [0.4 * 9.0, -0.2]], atol=1e-12)
    nothing = evened_slots(db.Posterior.of_prior(anchor.structure), coupled)["components"]
    np.testing.assert_array_equal(nothing, prior)


def test_slots_that_would_leave_the_domain_stay_as_they_are():
    """Less a part of what is there: more evidence of it would make a negative precision."""
    anchor = posterior_of([0.0, 0.0], [1.0, 9.0])
    (coupled,) = anchor.structure.symmetry
    prior = anchor.structure.prior["components"]
    parts = {**anchor.contribution, "components": np.array([[0.0, -0.5 * prior[0, 1]], [1.0, -4.5]])}
    odd = db.Posterior(anchor.structure, parts)
    found = evened_slots(odd, coupled)["components"]
    np.testing.assert_allclose(found[0], odd.natural["components"][0])
    np.testing.assert_allclose(found[1] - prior[1], [5 / 9, -2.5])


def test_a_slot_in_which_a_component_cannot_be_is_never_chosen():
    anchor = posterior_of([0.0, 0.0], [4.0, 400.0])
    slots = {"components": anchor.natural["components"]}
    rows = {"components": np.array([[0.0, 100.0]])}  # takes more precision away than the first slot has
    gains = joining_gain(anchor.structure, slots, rows, 0)
    assert gains[0] == -np.inf
    assert np.isfinite(gains[1])


def test_the_largest_component_has_the_first_choice_of_a_spare_and_equal_ones_by_their_place():
    """Twenty-four novelties on two sides of one spare slot: the first one takes it, and those of its side follow."""
    anchor = posterior_of([0.0, 0.0], [100.0, 0.0])
    (coupled,) = anchor.structure.symmetry
    sides = np.where(np.arange(24) % 2, 25.0, -25.0)
    site = posterior_of(sides, np.full(24, 50.0))
    assert slots_of(site, anchor, coupled).tolist() == [1, 0] * 12
    larger = posterior_of(sides, [50.0, 60.0] * 12)
    assert slots_of(larger, anchor, coupled).tolist() == [0, 1] * 12


@pytest.mark.parametrize(("components", "slots"), [(2, 2), (2, 4), (3, 4)])
def test_one_slot_for_each_is_the_best_of_all_assignments(components, slots, rng):
    gains = rng.normal(size=(components, slots))
    best = max(permutations(range(slots), components), key=lambda p: gains[range(components), p].sum())
    assert matched(gains).tolist() == list(best)


def test_contributions_count_persons_and_are_damped(rng):
    points = rng.normal(size=(40, 1))
    anchor = db.models.GaussianMean(variance=1.0, dimension=1).fit(np.ones((3, 1))).posterior
    people = np.arange(40) // 2
    share, manifest = contribution(points, anchor, rng=0, persons=people, rules=None)
    assert (share.rows, share.persons, share.units) == (40.0, 20.0, 40.0)
    assert manifest.persons == 20
    assert share.held_back is None
    # From the second round on, half of the way to a refit.
    merged, own = share.posterior, MODEL.fit(np.zeros((4, 1))).posterior
    whole, half = (contribution(points, merged, own, rng=0, rules=None, damping=d)[0] for d in (1.0, 0.5))
    for name, part in own.contribution.items():
        expected = 0.5 * (np.asarray(part) + np.asarray(whole.posterior.contribution[name]))
        np.testing.assert_allclose(half.posterior.contribution[name], expected)
    usual = contribution(points, merged, own, rng=0, rules=None)[0]
    assert usual.posterior == whole.posterior
    kept = contribution(points, merged, own, rng=0, rules=None, held_back=np.zeros((0, 1)))[0]
    assert kept.held_back is None, "nothing was held back"
    assert contribution(points, merged, rng=0, rules=None, held_back=points)[0].held_back is None, "in the first round"


# ---- folders


def test_a_folder_is_begun_once_anywhere(tmp_path):
    shared = Folder.begin(tmp_path / "a" / "b", agreed(), note={"for": "members"})
    assert db.files.load_note(shared.path / "anchor.posterior")["for"] == "members"
    assert (shared.path / AGREEMENT).read_bytes().endswith(b"}\n")
    with pytest.raises(SumRefused, match="holds an agreement already"):
        Folder.begin(tmp_path / "a" / "b", agreed())
    Folder.begin(tmp_path / "a", agreed())
    with pytest.raises(InvalidFile, match=r"holds no agreement\.json"):
        _ = Folder(tmp_path).agreement


@pytest.mark.parametrize(("extra", "refused"), [(0, False), (1, True)])
def test_an_agreement_is_read_up_to_its_most_bytes(tmp_path, extra, refused):
    shared = Folder.begin(tmp_path / "shared", agreed())
    file = shared.path / AGREEMENT
    assert MOST_BYTES == 4 * 2**20
    file.write_bytes(file.read_bytes().ljust(MOST_BYTES + extra))
    if refused:
        with pytest.raises(InvalidFile, match="too long for an agreement"):
            _ = Folder(shared.path).agreement
    else:
        assert Folder(shared.path).agreement == agreed()


def test_only_messages_of_a_sum_are_read(tmp_path):
    """Each thing that lies there beside them is named, with the reason; hidden files of other programs are not."""
    sites = Sites(tmp_path).turns("east", "north")
    place = sites.folder.path / "round_1"
    (place / ".sync").write_bytes(b"")
    (place / "south.key").mkdir()
    (place / "nobody.key").write_bytes((place / "east.key").read_bytes())
    (place / "east.notes").write_bytes(b"")
    assert AROUND == 4096
    limit = 8 * sites.folder.next().terms.length + 4096
    (place / "west.masked").write_bytes(bytes(limit + 1))
    (place / "west.opening").write_bytes(bytes(limit))
    (place / "west.key").write_bytes((place / "north.key").read_bytes())
    (place / "north.masked").write_bytes((place / "north.key").read_bytes())
    looked = sites.folder.next()
    problems = {re.match(r".*/(\S+): (.*)", each)[1]: each.split(": ", 1)[1] for each in looked.problems}
    assert problems == {
        "south.key": "not a file of this sum; it is left alone.",
        "nobody.key": "not a file of this sum; it is left alone.",
        "east.notes": "not a file of this sum; it is left alone.",
        "west.masked": "too long for a message of this sum; it is left alone.",
        "west.opening": "it is damaged, or not a message of a secure sum.",
        "west.key": "it is a message of 'north', under another name.",
        "north.masked": "a key message is not a masked message.",
    }
    assert looked.waiting_for() == ("key", ["south", "west"])
    assert looked.begun


def test_rounds_over_several_sets_are_found_by_their_names(tmp_path):
    """That over the most members first; sets that no sum may be over are passed by."""
    sites = Sites(tmp_path)
    path = sites.folder.path
    history = Opened(sites.folder.agreement.members)
    names = ("round_1-without-south", "round_2", "round_1-without-south-west", "round_1-without-x", "round_01", "other")
    for name in names:
        (path / name).mkdir()
    (path / "round_1-without-east").write_text("no folder")
    tried = sites.folder.tried(history)
    assert [sorted(set(NAMES) - each.terms.seats.keys()) for each in tried] == [[], ["south"]]
    assert tried[1].place == path / "round_1-without-south"
    assert history.left_out == frozenset()
    assert sites.folder.next().place == path / "round_1", "nobody has begun any"
    sites.visit("east", without=("south",))
    assert sites.folder.next().place == path / "round_1-without-south"
    sites.turns("north")
    assert len(sites.folder.next().terms.seats) == 3, "the smaller one of two that were begun"


def test_lines_say_whose_turn_it_is_and_what_others_propose(tmp_path):
    sites = Sites(tmp_path, rounds=1).turns("east", "north")
    shared = sites.folder
    assert whose_turn(shared, shared.next()) == "round 1 of 1: waiting for the key of south, west"
    assert proposals(shared, sites.site("north").current()) == []
    sites.visit("east", without=("west",))
    line = "east wants to continue without west: add --without west to agree"
    assert proposals(shared, sites.site("north").current()) == [line]
    assert proposals(shared, sites.site("east").current()) == []
    rest = ("east", "north", "south")
    sites.turns(*rest, times=3, without=("west",))
    assert whose_turn(shared, shared.next()) == "the only round is open"
    assert proposals(shared, shared.next()) == []
    assert opened_total(shared) == sites.total(rest)
    with pytest.raises(SumRefused, match="have opened a sum without west"):
        sites.visit("west")
    with pytest.raises(SumRefused, match="A sum over 3 members was opened, and it was the last one"):
        sites.visit("north", without=("east",))
    assert sites.visit("north", without=("west",)) == []
    assert sites.visit("north") == []


def test_nobody_goes_on_without_itself_nor_without_its_secrets(tmp_path):
    sites = Sites(tmp_path).turns()
    with pytest.raises(SumRefused, match="north cannot continue without itself"):
        sites.visit("north", without=("north",))
    for file in (tmp_path / "north only").iterdir():
        file.unlink()
    with pytest.raises(SumRefused, match=r"secrets of north for this sum are not in .*Restore that folder"):
        sites.visit("north")
    with pytest.raises(SumRefused, match="stranger is not a member; there are east, north"):
        db.secure.Site(sites.folder, "stranger", signing("north").sign, tmp_path / "x")
    with pytest.raises(SumRefused, match="No sum is open yet"):
        sites.site("east").show()


def test_what_a_site_keeps_is_for_its_owner_alone(tmp_path):
    sites = Sites(tmp_path / "deep", rounds=1)
    sites.path = tmp_path / "not yet made"
    done = [step for _ in range(3) for name in NAMES for step in sites.visit(name)]
    said = ("key sent", "contribution masked and sent", "part of the opening sent")
    assert sorted(done) == sorted(f"round 1: {each}" for each in said for _ in NAMES)
    for name in NAMES:
        own = sites.path / f"{name} only"
        assert S_IMODE(own.stat().st_mode) == 0o700
        files = sorted(own.iterdir())
        assert [S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
        assert json.loads((own / "opened.json").read_text()) == {
            MODEL.structure.fingerprint: sorted(key.hex() for key in MEMBERS.values())
        }
        assert sites.site(name).own_share() == share_of(sites.values[name])


def test_members_take_part_in_another_sum_of_the_same_members(tmp_path):
    """The same members may open another sum of the same model; and go on to any further round."""
    Sites(tmp_path, rounds=1).turns(times=3)
    again = Sites(tmp_path, folder="again", rounds=2).turns(times=8)
    assert len(again.folder.results()) == 2


def test_sums_that_were_begun_side_by_side_are_not_both_opened(tmp_path):
    """What was opened meanwhile counts when a part is opened, not only when a sum begins."""
    every, fewer = Sites(tmp_path, rounds=1), Sites(tmp_path, names=NAMES[:3], folder="fewer", rounds=1)
    fewer.turns().turns("east")
    every.turns(times=3)
    assert len(every.folder.results()) == 1
    with pytest.raises(SumRefused, match="north has opened a sum of this model over other members"):
        fewer.visit("north")
    assert len(fewer.folder.next().messages["masked"]) == 3
    assert not fewer.folder.next().messages["opening"]


def test_a_site_is_asked_with_the_merge_before_and_its_own_part_in_it(tmp_path):
    sites, asked = Sites(tmp_path), []
    for name in NAMES * 6:
        sites.site(name).advance(lambda *given, name=name: asked.append((name, *given)) or share_of(sites.values[name]))
    rounds = {number: (before, own) for name, number, before, own in asked if name == "west"}
    assert {*rounds} == {1, 2}
    assert rounds[1] == (ANCHOR, None)
    merged = sites.folder.results()[0].posterior
    assert rounds[2] == (merged, share_of(sites.values["west"]).posterior)


def test_mixtures_of_any_number_of_components_are_one_model(tmp_path):
    """Sums over other members are refused whatever number of slots the anchor has."""
    model = db.GaussianMixture(1, 1, variance=1.0, prior_variance=100.0)
    for number, names in ((2, NAMES), (3, NAMES[:3])):
        anchor = db.Posterior.of_prior(replace(model, components=number).structure)
        sites = Sites(tmp_path, names=names, folder=f"{number}", rounds=1, anchor=anchor)
        share = Share(anchor, rows=0, persons=0, units=0)

        def turns(sites=sites, names=names, share=share):
            for name in names * 3:
                sites.site(name).advance(lambda *_: share)

        if number == 2:
            turns()
        else:
            with pytest.raises(SumRefused, match="has opened a sum of this model over other members"):
                turns()
            assert not sites.folder.next().begun, "not even a key is sent"


def test_findings_are_lines_and_plain_values(tmp_path):
    fine, unknown = audit.Finding("a", share_of(1.0, rows=1234)), audit.Finding("b", None, "it has not shown.")
    assert [str(fine), str(unknown)] == ["a: 1,234 rows; consistent with data", "b: it has not shown."]
    assert fine.plain() == {"member": "a", "rows": 1234, "problem": ""}
    assert unknown.plain() == {"member": "b", "rows": None, "problem": "it has not shown."}


@pytest.mark.parametrize("members", range(3, 9))
def test_two_majorities_share_an_honest_member(members):
    """The smallest number of which any two sets have more in common than may collude."""
    for colluders in range(1, members - 1):
        terms = db.secure.Terms("g", 1, {str(n): bytes([n]) * 32 for n in range(members)}, "0", 1, colluders=colluders)
        found = audit.majority(terms)
        assert 2 * found - members > colluders
        assert 2 * (found - 1) - members <= colluders


# ---- private rounds

LOGISTIC = db.LogisticRegression("ill", columns={"x": db.columns.Gaussian(), "ill": db.columns.YesNo()})
SHARED = db.Privacy(3.0, 1e-6, "shared", sites=4)
ROWS = {"x": np.zeros(6), "ill": np.array([True, False] * 3)}


def private(privacy=SHARED, **changed):
    prior = db.Posterior.of_prior(LOGISTIC.structure)
    return PrivateAgreement("ill", MEMBERS, prior, rounds=5, rules=None, privacy=privacy, **changed)


def test_promises_of_fewer_sites_are_kept_by_larger_shares():
    study = private()
    assert study.promise(4) is SHARED
    assert study.promise(3) == replace(SHARED, sites=3)
    with pytest.raises(SumRefused, match="2 members cannot share the noise if 1 of them may collude"):
        study.promise(2)
    each = db.Privacy(3.0, 1e-6)
    assert private(each).promise(3) is each
    assert study.plain()["privacy"] == SHARED.plain()
    assert PrivateAgreement.of(json.dumps(study.plain()).encode(), study.anchor) == study


def test_private_terms_name_all_that_was_opened_before():
    study, mechanism = private(), LOGISTIC.mechanism()
    terms = study.next_terms()
    assert (terms.round, terms.length, terms.step, terms.colluders, terms.absent) == (
        1,
        mechanism.size(0),
        2.0**-22,
        1,
        0,
    )
    share = private_share(LOGISTIC, ROWS, SHARED, None, frozenset(), site="east")
    first = study.result(4 * share.release.values, [], terms)
    assert (first.members, first.share.rows, first.share.persons, first.share.units) == (4, 0.0, 0.0, 0.0)
    assert first.release.variance == 4 * share.release.variance
    assert first.release.ids == tuple(sorted(made_id(terms, name) for name in NAMES))
    assert (first.release.round, first.release.site) == (0, "")
    assert {len(name) for name in first.release.ids} == {32}
    assert [remark.kind for remark in first.posterior.remarks].count("only sums") == 1
    later = study.next_terms([first])
    assert later.round == 2
    other = study.result(4 * share.release.values + 1, [], terms)
    assert len({terms.anchor, later.anchor, study.next_terms([other]).anchor}) == 3
    assert releases_in([first, other]) == [first.release, other.release]
    assert merge_in([first, other]) is other.merge
    assert merge_in([]) is None
    assert study.next_terms([first] * 5).length == mechanism.size(4), "nobody takes part in it"
    assert study.next_terms([], ["south"]).anchor != terms.anchor


def test_private_terms_count_at_least_one_colluder():
    share = private_share(LOGISTIC, ROWS, replace(SHARED, colluders=0), None, frozenset())
    terms = private_terms(share.release, MEMBERS, group="g")
    assert (terms.colluders, terms.round, terms.step, terms.group) == (1, 1, 2.0**-22, "g")
    more = private_share(LOGISTIC, ROWS, replace(SHARED, colluders=2), None, frozenset())
    assert private_terms(more.release, MEMBERS, group="g").colluders == 2


def test_what_a_part_will_have_spent_is_stored_whole():
    share = private_share(
        LOGISTIC, ROWS, replace(SHARED, rows_per_person=3), None, frozenset({"a"}), site="east",
        persons=["a", "a", "b", "b", "c", "c"], data_set="patients",
    )  # fmt: skip
    assert spent_in(spent_bytes(share.spending)) == share.spending
    assert (share.spending.site, share.spending.data_set, share.spending.known) == ("east", "patients", {"a"})
    assert share.spending.release == share.release.ids[0]
    usual = private_share(LOGISTIC, ROWS, SHARED, None, frozenset())
    assert (usual.spending.site, usual.spending.data_set) == ("", "data")
    with pytest.raises(db.errors.InvalidData, match="A person has 3 rows"):
        private_share(LOGISTIC, ROWS, SHARED, None, frozenset(), persons=list("aaabcd"))
    assert PendingSpending().spending == []
