"""Audits: what members have added is shown if all agree, as they have added it, and never otherwise."""

from dataclasses import replace

import pytest
from masked_sums import NAMES, Sum, drawn, public, signing, terms_of, whole
from secure_sites import Sites, share_of

import decbayes as db
from decbayes.errors import SumRefused
from decbayes.secure import Message, audit
from decbayes.secure.audit import consent_message, key_message, shown_numbers

NUMBERS = {name: [place, 7, -place, 0] for place, name in enumerate(NAMES)}


def opened_sum():
    made = Sum(terms_of(length=4), NUMBERS).begin().mask()
    packets = made.sent("masked")
    made.seats = {name: seat.opening(packets, signing(name).sign, keep=True) for name, seat in made.seats.items()}
    return made


def messages(made):
    return {kind: {name: seat.sent[kind] for name, seat in made.seats.items()} for kind in ("key", "masked", "opening")}


def consents(made, names=NAMES, shown=NAMES):
    return [consent_message(made.seats[name], made.sent("masked"), signing(name).sign, shown) for name in names]


def shown_by(made, name, agreed=None, shown=NAMES):
    sign = signing(name).sign
    return key_message(made.seats[name], made.sent("masked"), consents(made) if agreed is None else agreed, sign, shown)


def test_what_is_shown_is_what_was_masked():
    made = opened_sum()
    for name, numbers in NUMBERS.items():
        assert shown_numbers(made.terms, messages(made), shown_by(made, name)).tolist() == numbers


def test_nobody_shows_anything_before_all_have_agreed():
    made = opened_sum()
    with pytest.raises(SumRefused, match="before all named members have agreed: west has not"):
        shown_by(made, "north", consents(made, NAMES[:-1]))
    other = consents(made, ["west"])[0]
    stale = Message(other.kind, other.terms, other.seat, b"", drawn(1)).signed(signing("west").sign)
    with pytest.raises(SumRefused, match="west has not"):
        shown_by(made, "north", [*consents(made, NAMES[:-1]), stale])
    forged = replace_signature(other)
    with pytest.raises(SumRefused, match="not signed by west"):
        shown_by(made, "north", [*consents(made, NAMES[:-1]), forged])


def replace_signature(message):
    return Message(message.kind, message.terms, message.seat, message.body, message.about, b"", bytes(64))


def test_a_member_cannot_show_other_numbers_than_it_has_added():
    made = opened_sum()
    true = shown_by(made, "west")
    false = Message("shown", true.terms, "west", drawn("another key"), true.about).signed(signing("west").sign)
    with pytest.raises(SumRefused, match="not the one it has signed"):
        shown_numbers(made.terms, messages(made), false)
    with pytest.raises(SumRefused, match="not signed by west"):
        shown_numbers(made.terms, messages(made), replace_signature(true))


def test_a_key_that_is_gone_is_not_shown():
    made = whole(NUMBERS)
    assert all(seat.secrets is None for seat in made.seats.values()), "unless somebody asks to keep it"
    with pytest.raises(SumRefused, match="is gone"):
        shown_by(made, "north")


def test_a_folder_says_who_has_added_what_no_data_have(tmp_path):
    """West counts a hundred times the rows that its numbers have, in the second round."""
    sites = Sites(tmp_path)

    def added(name, number):
        share = share_of(sites.values[name])
        return replace(share, rows=500, units=500) if (name, number) == ("west", 2) else share

    for name in NAMES * 6:
        sites.site(name).advance(lambda number, *_, name=name: added(name, number))
    merged = sites.folder.results()[-1]
    assert "sum contradicts itself" in {remark.kind for remark in merged.posterior.remarks}, "but not who"
    for name in NAMES:
        assert sites.site(name).show() == [f"round {n}: agreed to show what {name} has added" for n in (1, 2)]
        assert all("has not shown" in each.problem for each in sites.folder.audited())
    for name in NAMES:
        assert sites.site(name).show() == ["round 1: shown to all", "round 2: shown to all"]
        assert sites.site(name).show() == []
    found = {each.member: each for each in sites.folder.audited()}
    assert {name for name, each in found.items() if each.problem} == {"west"}
    for name in NAMES:
        expected = share_of(sites.values[name]).posterior
        assert found[name].share.posterior == expected
    assert sum(each.share.rows for each in found.values()) == merged.share.rows


def test_numbers_outside_of_the_domain_and_too_many_rows_are_named(tmp_path):
    agreed = Sites(tmp_path, most_rows=10).folder.agreement
    steps = share_of(1.0).steps(agreed.step)
    assert not audit.finding(agreed, "west", [steps]).problem
    assert "no data give such numbers" in audit.finding(agreed, "west", [-steps]).problem
    heavy = share_of(1.0, rows=11).steps(agreed.step)
    assert "it counts 11 rows; at most 10 were agreed" in audit.finding(agreed, "west", [heavy]).problem
    assert not audit.finding(agreed, "west", [heavy, steps - heavy]).problem, "rounds add up"


def test_private_sums_are_never_shown(tmp_path):
    model = db.GaussianMixture(2, 1, covariance="full", prior_strength=0.05)
    privacy = db.Privacy(1.0, 1e-6, noise="shared", sites=4)
    members = {name: public(name) for name in NAMES}
    prior = db.Posterior.of_prior(model.structure)
    agreed = db.secure.PrivateAgreement("private", members, prior, rounds=1, rules=None, privacy=privacy)
    folder = db.secure.Folder.begin(tmp_path / "sums", agreed)
    assert db.secure.Folder(tmp_path / "sums").agreement == agreed
    site = db.secure.Site(folder, "north", signing("north").sign, tmp_path / "north only")
    with pytest.raises(SumRefused, match="never shown"):
        site.show()


FIVE = tuple("abcde")


def test_some_are_shown_if_they_and_most_others_agree_and_enough_are_left():
    numbers = {name: [place, 7] for place, name in enumerate(FIVE)}
    made = Sum(terms_of(FIVE, length=2), numbers).begin().mask()
    packets = made.sent("masked")
    made.seats = {name: seat.opening(packets, signing(name).sign, keep=True) for name, seat in made.seats.items()}
    assert audit.majority(made.terms) == 4, "two majorities of four have three in common, and one may collude"
    agreed = consents(made, "bcde", shown="b")
    assert shown_numbers(made.terms, messages(made), shown_by(made, "b", agreed, "b")).tolist() == [1, 7]
    for others, why in (
        (consents(made, "bcd", "b"), "3 members have agreed, and 4 of 5"),
        (agreed, "all named members"),
    ):
        with pytest.raises(SumRefused, match=why):
            shown_by(made, "b" if len(others) == 3 else "c", others, "b")
    with pytest.raises(SumRefused, match="b has not"):
        shown_by(made, "b", consents(made, "acde", "b"), "b")
    with pytest.raises(SumRefused, match="b has not"):
        shown_by(made, "b", consents(made, FIVE, "ab"), "b")
    for some in ("abc", "abcd"):
        with pytest.raises(SumRefused, match="would not be shown, and their sum would be known"):
            consents(made, "a", some)
    for nobody in ("", "x"):
        with pytest.raises(SumRefused, match="Name members"):
            consents(made, "a", nobody)
