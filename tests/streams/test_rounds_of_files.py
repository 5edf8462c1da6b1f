"""Rounds by files, without files: what notes say, whose turn it is, which posteriors go together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import decbayes as db
from decbayes.cli.commands.everyday._shared_folder import RoundToMake
from decbayes.cli.shared.running import WrongArgument
from decbayes.errors import InvalidFile, NothingToMerge, StructureMismatch
from decbayes.streams.course import Ends
from decbayes.updates.exchange import Exchange, site_name
from decbayes.updates.rounds import Round, Sent, check_once, check_round, check_slots, together

MODEL = db.LogisticRegression("y", columns={"x": db.columns.Gaussian(0, 1), "y": db.columns.YesNo()})
ROWS = np.array([[0.5, 1], [-1, 0], [0.2, 0], [1, 1], [0.1, 1], [-0.7, 0], [1.5, 0], [-2, 1], [0.3, 1]], dtype=float)
SHARDS = {"a": ROWS[:3], "b": ROWS[3:5], "c": ROWS[5:]}
FIRST = {name: Sent(MODEL.fit(shard).posterior) for name, shard in SHARDS.items()}
IDS = {name: sent.site for name, sent in FIRST.items()}


def made(files, name, number):
    """A site's file of a round, from those that its turn names."""
    turn = Exchange(files).turn(name)
    assert (turn.due, turn.round, next(iter(turn.inputs)).split(".")[0]) == (True, number, name)
    return Round.of(turn.inputs).refined(SHARDS[name], rng=np.random.default_rng(0))


def after(rounds, names="abc"):
    """The files after so many whole rounds."""
    files = {f"{name}.posterior": FIRST[name] for name in names}
    for number in range(1, rounds + 1):
        files |= {f"{name}.{number}.posterior": made(files, name, number) for name in names}
    return files


def test_rounds_by_files_are_rounds_of_refinement():
    files = after(2)
    refined = db.refine(
        MODEL, [SHARDS[name] for name in "abc"], [FIRST[name].posterior for name in "abc"],
        rounds=2, schedule="parallel", rng=0,
    )  # fmt: skip
    newest = {f"{name}.2.posterior": files[f"{name}.2.posterior"] for name in "abc"}
    assert together(newest).merged == db.merging.product(refined.posteriors)
    sent = newest["b.2.posterior"]
    assert (sent.round, sent.sites) == (2, tuple(sorted(IDS.values())))
    assert sent.holds == (IDS["b"], files["b.1.posterior"].posterior.digest)
    assert sent.site == IDS["b"]
    assert sent.data == {*sent.holds, sent.posterior.digest}
    assert Sent.of(sent.posterior, sent.note()) == sent
    assert FIRST["a"].note() == {}
    assert together({"a": FIRST["a"], "b": FIRST["b"]}) is None


def test_a_round_knows_the_others_and_who_is_missing():
    files = after(1)
    names = [f"{name}.1.posterior" for name in "abc"]
    whole = Round.of({name: files[name] for name in names})
    assert (whole.missing, whole.number) == (0, 1)
    assert whole.exchange == files[names[0]].exchange
    some = Round.of({name: files[name] for name in names[:2]})
    assert some.missing == 1
    assert some.others == files[names[1]].posterior
    assert whole.others == db.merging.product([files[names[1]].posterior, files[names[2]].posterior])
    assert whole.after(files[names[2]]) == db.merging.product([files[names[2]].posterior, *whole.slots[1:]])
    assert whole.merged == db.merging.product([files[name].posterior for name in names])
    assert "round 1" in whole.alignment.reason
    first = Round.of({"a": FIRST["a"], "b": FIRST["b"]})
    assert first.exchange == Round.of({"b": FIRST["b"], "a": FIRST["a"]}).exchange != whole.exchange
    with pytest.raises(StructureMismatch, match="a is not the posterior of these data alone"):
        first.refined(ROWS[:1], rng=np.random.default_rng(0))


def test_whose_turn_it_is():
    files = after(1)
    second = made(files, "b", 2)
    begun = Exchange(files | {"b.2.posterior": second})
    assert begun.round == 2
    assert begun.members == ("a", "b", "c")
    assert begun.behind == ("a", "c")
    assert begun.turn("b").waiting == ("a", "c")
    assert not begun.turn("b").due
    turn = begun.turn("c")
    assert (turn.file, list(turn.inputs)) == ("c.2.posterior", ["c.1.posterior", "a.1.posterior", "b.1.posterior"])
    assert list(begun.inputs) == ["a.1.posterior", "b.1.posterior", "c.1.posterior"]
    assert list(Exchange(files).inputs) == ["a.1.posterior", "b.1.posterior", "c.1.posterior"]
    alone = Exchange({"a.posterior": FIRST["a"]})
    assert (alone.round, alone.turn("a").waiting) == (0, ("another site",))
    assert Exchange({}).round == 0
    with pytest.raises(NothingToMerge, match=r"z has sent nothing yet; the sites here are a\."):
        alone.turn("z")


def test_a_site_that_comes_late_is_not_waited_for_and_one_that_leaves_is_not_missed():
    files = after(1, "ab") | {"c.posterior": FIRST["c"]}
    exchange = Exchange(files)
    assert exchange.members == ("a", "b")
    assert exchange.turn("a").due
    files["a.2.posterior"] = made(files, "a", 2)
    joining = Exchange(files)
    assert joining.members == ("a", "b"), "c has not begun"
    files["c.2.posterior"] = made(files, "c", 2)
    assert files["c.2.posterior"].sites == tuple(sorted(IDS.values()))
    assert Exchange(files).behind == ("b",)
    left = {name: sent for name, sent in files.items() if not name.startswith("b")}
    assert Exchange(left).behind == ()
    assert Exchange(left).turn("a").round == 3
    missing = {name: sent for name, sent in after(2).items() if name != "b.1.posterior"}
    behind = {name: sent for name, sent in missing.items() if name != "a.2.posterior"}
    with pytest.raises(StructureMismatch, match=r"b\.1\.posterior is missing, which round 2 needs"):
        Exchange(behind).turn("a")


def test_two_files_of_one_round_are_refused_unless_one_goes_on_from_the_other():
    files = after(1)
    one = files["a.1.posterior"] = replace(files["a.1.posterior"], posterior=MODEL.fit(ROWS[:1]).posterior)
    other = replace(one, posterior=MODEL.fit(ROWS[1:2]).posterior)
    later = replace(other, holds=(*one.holds, one.posterior.digest))
    assert Exchange(files | {"a.x.1.posterior": later}).newest["a"] == later
    with pytest.raises(StructureMismatch, match="are both round 1 of one site"):
        Exchange(files | {"a.x.1.posterior": other}).sites  # noqa: B018
    with pytest.raises(StructureMismatch, match="Two sites use the name a"):
        Exchange({"a.posterior": FIRST["a"], "a.1.posterior": FIRST["b"]}).sites  # noqa: B018


@pytest.mark.parametrize(
    ("file", "name"),
    [("a.posterior", "a"), ("a.2.posterior", "a"), ("a.b.12.posterior", "a.b"), ("a.2.3.posterior", "a.2")],
)
def test_names_of_files_are_names_of_sites(file, name):
    assert site_name(file) == name


DIGEST = "0" * 64


@pytest.mark.parametrize(
    ("note", "right"),
    [
        ({}, True), ({"holds": [DIGEST]}, True), ({"holds": ["short"]}, False), ({"holds": 3}, False),
        ({"round": 1, "sites": [DIGEST], "exchange": DIGEST}, True), ({"round": 1, "sites": [DIGEST]}, False),
        ({"round": 1, "exchange": DIGEST}, False), ({"sites": [DIGEST], "exchange": DIGEST}, False),
        ({"round": -1, "sites": [DIGEST], "exchange": DIGEST}, False), ({"exchange": DIGEST}, False),
        ({"round": True, "sites": [DIGEST], "exchange": DIGEST}, False),
        ({"round": 1, "sites": [DIGEST, DIGEST], "exchange": DIGEST}, False),
        ({"round": 1, "sites": [DIGEST], "exchange": "short"}, False), ({"holds": [DIGEST] * 100_000}, True),
        ({"holds": [DIGEST] * 100_001}, False), ({"several": True}, True), ({"holds": [5]}, False),
    ],
)  # fmt: skip
def test_notes_are_checked(note, right):
    if right:
        sent = Sent.of(FIRST["a"].posterior, note)
        assert (list(sent.holds), sent.round, sent.several) == (
            note.get("holds", []), note.get("round", 0), note.get("several", False),
        )  # fmt: skip
    else:
        with pytest.raises(InvalidFile, match="note on data and rounds"):
            Sent.of(FIRST["a"].posterior, note)


CLUSTERS = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0)
WIDE = {
    name: Sent(CLUSTERS.fit(np.array([[-5.0], [0.0], [shift]]), rng=0).posterior, round=3, exchange=DIGEST)
    for name, shift in (("a", 5.0), ("b", 5.1), ("c", 5.2))
}
OF_THREE = {"round": 3, "sites": [DIGEST], "exchange": DIGEST}


@pytest.mark.parametrize(
    ("joins", "heights", "right"),
    [
        ([[0, 2], [0, 1]], [1.0, 2.0, 3.0], True), ([[1, 2]], [1.0, 2.0], True), ([], [], True),
        ([[0, 3]], [1.0, 2.0], False), ([[0, 2], [0, 2]], [1.0, 2.0, 3.0], False), ([[1, 1]], [1.0, 2.0], False),
        ([[2, 1]], [1.0, 2.0], False), ([[-1, 1]], [1.0, 2.0], False), ([[0, 1]], [1.0], False), ([], [1.0], False),
        ([[0, 1]], [1.0, float("nan")], False), ([[0, 1]], [1.0, "2"], False), ([[0, True]], [1.0, 2.0], False),
        ([[0, 1, 2]], [1.0, 2.0], False), ([[0, 2], [0, 1], [0, 0]], [1.0] * 4, False), (3, [1.0], False),
    ],
)  # fmt: skip
def test_joins_are_of_the_slots_that_there_are(joins, heights, right):
    note = OF_THREE | {"auto": True, "joins": joins, "heights": heights}
    if right:
        sent = Sent.of(WIDE["a"].posterior, note)
        assert (sent.auto, [*map(list, sent.joins)], list(sent.heights)) == (True, joins, heights)
        assert Sent.of(sent.posterior, sent.note()) == sent
    else:
        with pytest.raises(InvalidFile, match="note on data and rounds"):
            Sent.of(WIDE["a"].posterior, note)


def test_slots_are_joined_where_the_sites_together_gain_most():
    """One site would join once, the other not at all; a third has not said yet, is late, or asks for other joins."""
    joins = ((0, 2), (0, 1))
    sent = {
        "a": replace(WIDE["a"], joins=joins, heights=(0.0, 9.0, 1.0)),
        "b": replace(WIDE["b"], joins=joins, heights=(4.0, 3.0, -9.0)),
    }
    whole = Round.of(sent)
    assert whole.merged.contribution["weights"].ravel() == pytest.approx([4.0, 2.0], abs=1e-3)
    assert "3 were joined into 2" in whole.alignment.reason
    assert len(Round.of(sent | {"c": WIDE["c"]}).merged.natural["weights"]) == 3
    for behind in (replace(WIDE["c"], round=0, exchange=""), replace(WIDE["c"], round=2)):
        known = Round.of(sent | {"c": behind}, in_step=False)
        assert (len(known.slots[2].natural["weights"]), round(known.merged.contribution["weights"].sum(), 6)) == (
            2,
            9.0,
        )
    other = replace(WIDE["c"], joins=((0, 1),), heights=(0.0, 1.0))
    with pytest.raises(StructureMismatch, match="c and a would join different slots"):
        Round.of(sent | {"c": other})


def test_without_a_folder_too_all_sites_first_fit_more_components():
    """The first site asks for 'auto'; the others follow its file, and nobody begins before all have done so."""
    sites = {name: Sent(sent.posterior) for name, sent in WIDE.items()}
    first = RoundToMake(sites, Path("a"), Path("o")).with_components("auto")
    assert (first.auto, first.wide) == (True, 0)  # nine rows are too few for more than three
    wide = replace(sites["a"], auto=True)
    after = {"b": sites["b"], "a": wide, "c": sites["c"]}
    assert RoundToMake(after, Path("b"), Path("o")).with_components(None).wide == 3
    with pytest.raises(WrongArgument, match="b has not been fitted with more components yet"):
        RoundToMake({"a": wide, "b": sites["b"]}, Path("a"), Path("o")).with_components(None)
    with pytest.raises(WrongArgument, match="leave out --components"):
        RoundToMake(after, Path("b"), Path("o")).with_components(4)


def test_a_site_may_repeat_its_first_command_but_not_change_the_number():
    """--components is given in every round if sites repeat one command, as the documentation tells them to."""
    found = {name: replace(sent, auto=True) for name, sent in WIDE.items()}
    late = {"late": Sent(db.GaussianMixture(2, 1).fit(np.arange(6.0)[:, None], rng=0).posterior), **WIDE}
    for sent, same, others in ((found, "auto", (3, 2)), (WIDE, 3, ("auto", 2)), (late, 3, ("auto", 2))):
        step = RoundToMake(sent, Path("a"), Path("o"))
        assert step.with_components(same) == step.with_components(None)
        for other in others:
            with pytest.raises(WrongArgument, match="for the first round"):
                step.with_components(other)


def test_the_same_data_count_once_and_rounds_are_not_mixed():
    one, two = after(1), after(2)
    check_once({"a": FIRST["a"], "b": FIRST["b"]})
    with pytest.raises(StructureMismatch, match="b and a hold the same data"):
        check_once({"a": FIRST["a"], "b": one["a.1.posterior"]})
    late = {"a": one["a.1.posterior"], "b": one["b.1.posterior"], "new": FIRST["c"]}
    with pytest.raises(StructureMismatch, match="new is of round 0, a of round 1"):
        check_round(late)
    stranger = Sent(MODEL.fit(ROWS[2:3]).posterior)
    check_round({"a": one["a.1.posterior"], "new": stranger})
    with pytest.raises(StructureMismatch, match="a is of round 1, b of round 2"):
        check_round({"a": one["a.1.posterior"], "b": two["b.2.posterior"]})
    check_slots({"a": one["a.1.posterior"], "b": two["b.2.posterior"]})
    elsewhere = after(1, "ab")
    with pytest.raises(StructureMismatch, match="b and a are rounds of different exchanges"):
        check_slots({"a": one["a.1.posterior"], "b": elsewhere["b.1.posterior"]})
    check_slots({"a": FIRST["a"], "b": elsewhere["b.1.posterior"]})


def test_rounds_end_when_they_should():
    given, found = Ends(4, 0.1, 9), Ends(None, 0.1, 9)
    assert [given.over([1.0] * done) for done in (3, 4)] == [False, True]
    assert [found.over([1.0] * done) for done in (0, 8, 9)] == [False, False, True]
    assert [found.over([1.0, last]) for last in (0.11, 0.1)] == [False, True]
    assert [given.at_most(most).rounds for most in (3, 4, 5)] == [3, 4, 4]
    assert [found.at_most(most).rounds for most in (3, 20)] == [3, 9]


def test_words_that_join_stop_no_site_whose_rare_words_have_traded_places_with_them(rng):
    old, new = [f"a{word:02}" for word in range(30)], [f"b{word:02}" for word in range(30)]
    # Every document has three words of its own among those that are rare: of the old ones, or of the new ones.
    counts = np.zeros((30, 60), dtype=int)
    counts[:, :5] = rng.poisson(3.0, size=(30, 5))
    counts[np.arange(30), 5 + np.arange(30) % 25] = 2
    counts[np.arange(30), 30 + np.arange(30)] = 3
    narrow, wide = (db.LatentDirichletAllocation(2, words, topic_prior=0.1) for words in (old, old + new))
    own = narrow.fit(narrow.rare_unnamed(counts[:, :30], 5), rng=0).posterior
    other = wide.fit(counts[::-1], rng=1).posterior
    round_ = Round.of({"own": Sent(own), "other": Sent(other)})
    traded = round_.model.rare_unnamed(counts, 5)
    assert traded[:, :30].sum() != counts[:, :30].sum(), "an old word has the place of a new one, or the reverse"
    assert round_.refined(traded, rng=rng).posterior.contribution["topics"].sum() == pytest.approx(
        counts.sum(), rel=1e-3
    )
    with pytest.raises(StructureMismatch, match="not the posterior of these data alone"):
        round_.refined(traded[:10], rng=rng)
