"""Files of rounds, whose turn it is in a folder, and sketches of documents: every rule by itself."""

import hashlib
import hmac
from dataclasses import replace
from itertools import product as every

import numpy as np
import pytest

import decbayes as db
from decbayes.errors import InvalidData, InvalidFile, NotDisclosed, NothingToMerge, StructureMismatch
from decbayes.updates.exchange import Exchange, Turn, site_name
from decbayes.updates.rounds import (
    Round,
    Sent,
    check_once,
    check_round,
    check_slots,
    slots_of,
    together,
)
from decbayes.updates.sketches import SIZE, Overlap, Sketch, different, hashed, overlap, shared_by

MEAN = db.models.GaussianMean(variance=2.0, prior_variance=9.0, dimension=1)
PRIOR = db.Posterior.of_prior(MEAN.structure)


def of(value, rows=4):
    return MEAN.fit(np.full((rows, 1), float(value))).posterior


def parts(posterior):
    return np.asarray(posterior.contribution["mean"]).ravel()


MIXTURE = db.GaussianMixture(4, 1, variance=1.0, prior_variance=400.0)
CENTRES = np.array([-30.0, -29.0, 0.0, 30.0])


def slots(counts, centres=CENTRES, model=MIXTURE):
    counts = np.array(counts, dtype=float)
    model = replace(model, components=len(counts))
    components = np.stack([counts * centres[: len(counts)], -counts / 2], axis=1)
    return db.Posterior(model.structure, {"weights": counts[:, None], "components": components})


# ---- files of rounds

A, B, C = of(1.0), of(2.0), of(3.0)
HEX = "0" * 64


def later(posterior, first, number=1, sites=None, exchange=HEX, **more):
    return Sent(posterior, (first.digest,), number, tuple(sorted(s.digest for s in sites or (A, B))), exchange, **more)


def test_a_note_comes_back_and_others_are_refused():
    full = Sent(slots([3, 3]), ("a" * 64,), 2, ("a" * 64, "b" * 64), "c" * 64, True, True, ((0, 1),), (1.0, 2.5))
    assert Sent.of(full.posterior, full.note()) == full
    assert Sent(A).note() == {}
    assert Sent.of(A, {}) == Sent(A)
    assert (Sent(A).site, Sent(A).data) == (A.digest, {A.digest})
    assert full.site == "a" * 64
    assert full.data == {full.posterior.digest, "a" * 64}
    note = full.note()
    for change in (
        {"round": 0}, {"round": -1}, {"round": 1.0}, {"round": True}, {"sites": []}, {"exchange": ""},
        {"holds": ["short"]}, {"exchange": "c" * 63},
        {"sites": ["a" * 64] * 2}, {"holds": 3}, {"exchange": 3}, {"heights": [1.0]}, {"joins": [[0, 9]]},
        {"sites": [3]},
    ):  # fmt: skip
        with pytest.raises(InvalidFile, match="note on data and rounds"):
            Sent.of(full.posterior, note | change)
    with pytest.raises(InvalidFile):
        Sent.of(A, {"sites": ["a" * 64], "exchange": "c" * 64})


def test_a_note_is_no_longer_than_any_exchange_makes_it(monkeypatch):
    monkeypatch.setattr("decbayes.updates.rounds.LONGEST_NOTE", 3)
    note = {"holds": ["a" * 64], "sites": ["a" * 64, "b" * 64], "round": 1, "exchange": "c" * 64}
    assert len(Sent.of(A, note).sites) == 2
    with pytest.raises(InvalidFile):
        Sent.of(A, note | {"holds": ["a" * 64, "d" * 64]})


def test_the_same_data_are_not_given_twice():
    check_once({"a": Sent(A), "b": Sent(B)})
    with pytest.raises(StructureMismatch, match=r"^c and b hold the same data"):
        check_once({"a": Sent(A), "b": Sent(B), "c": Sent(C, (B.digest,))})
    for twice in (
        {"a": Sent(A), "x": Sent(A)},
        {"a": Sent(A), "a.1": later(C, A)},
        {"m": Sent(C, (A.digest, B.digest)), "b": Sent(B)},
    ):
        with pytest.raises(StructureMismatch, match="hold the same data"):
            check_once(twice)


def test_rounds_of_one_exchange_go_together():
    ones = {"a": later(of(4.0), A), "b": later(of(5.0), B)}
    check_round(ones)
    check_round({**ones, "c": Sent(C)})
    with pytest.raises(StructureMismatch, match="different exchanges"):
        check_slots({**ones, "b": later(of(5.0), B, exchange="1" * 64)})
    with pytest.raises(StructureMismatch, match="b is of round 0, a of round 1"):
        check_round({"a": ones["a"], "b": Sent(B)})
    with pytest.raises(StructureMismatch, match="of round 1, b of round 2"):
        check_round({"a": ones["a"], "b": later(of(5.0), B, 2)})
    check_slots({"a": ones["a"], "b": later(of(5.0), B, 2)})
    assert together({"a": Sent(A), "b": Sent(B)}) is None
    assert together(ones).number == 1


def test_a_round_says_who_is_missing_and_which_exchange_it_is():
    first = Round.of({"a": Sent(A), "b": Sent(B)})
    expected = hashlib.sha256("\n".join(sorted((A.digest, B.digest))).encode()).hexdigest()
    assert (first.number, first.exchange, first.missing) == (0, expected, 0)
    assert not Round(first.sent, first.slots).auto
    np.testing.assert_allclose(parts(first.merged), parts(A) + parts(B))
    np.testing.assert_allclose(parts(first.others), parts(B))
    sent = first.refined(np.full((4, 1), 1.0), rng=np.random.default_rng(0))
    np.testing.assert_allclose(parts(sent.posterior), parts(A), atol=1e-9)
    assert (sent.holds, sent.round, sent.exchange) == ((A.digest,), 1, expected)
    assert sent.sites == tuple(sorted((A.digest, B.digest)))
    assert (sent.several, sent.auto, sent.joins, sent.heights) == (False, False, (), ())
    np.testing.assert_allclose(parts(first.after(Sent(C))), parts(C) + parts(B))
    half = first.refined(np.full((4, 1), 1.0), rng=np.random.default_rng(0), damping=0.5)
    np.testing.assert_allclose(parts(half.posterior), parts(A), atol=1e-9)
    alone = Round.of({"a": later(of(4.0), A, sites=(A, B, C)), "b": later(of(5.0), B, sites=(A, B, C))})
    assert (alone.missing, alone.number, alone.exchange) == (1, 1, HEX)
    assert alone.alignment.reason == "Posteriors of round 1."
    with pytest.raises(StructureMismatch, match="is not the posterior of these data alone"):
        first.refined(np.full((9, 1), 1.0), rng=np.random.default_rng(0))


def test_rounds_of_auto_say_from_the_third_on_what_joins_are_worth():
    own, other = slots([30, 30, 30]), slots([20, 20, 20])
    labels = np.repeat(np.arange(3), 30)
    data = CENTRES[labels][:, None]
    ids = tuple(sorted((own.digest, other.digest)))
    for number, told in ((1, False), (2, True)):
        sent = {
            "a": Sent(own, ("a" * 64,), number, ids, HEX, auto=True),
            "b": Sent(other, ("b" * 64,), number, ids, HEX, auto=True),
        }  # fmt: skip
        found = Round.of(sent).refined(data, rng=np.random.default_rng(0))
        assert (found.round, found.auto) == (number + 1, True)
        assert (len(found.joins), len(found.heights)) == ((2, 3) if told else (0, 0))
    plain = {name: replace(each, auto=False) for name, each in sent.items()}
    assert Round.of(plain).refined(data, rng=np.random.default_rng(0)).joins == ()
    assert Round.of(plain, auto=True).auto


def test_slots_are_joined_as_all_sites_say():
    own, other = slots([30, 30, 30]), slots([20, 20, 20])
    ids = ("a" * 64, "b" * 64)

    def sent(*heights, joins=((0, 1), (0, 1))):
        return {
            name: Sent(posterior, (name * 64,), 3, ids, HEX, auto=True, joins=joins, heights=each)
            for name, posterior, each in zip("ab", (own, other), heights, strict=True)
        }

    found = Round.of(sent((0.0, 3.0, 1.0), (0.0, 1.0, 2.0)))
    assert slots_of(found.merged) == 2
    assert "3 were joined into 2: the bound of all sites' data is highest there" in found.alignment.reason
    assert slots_of(Round.of(sent((9.0, 3.0, 1.0), (0.0, 1.0, 2.0))).merged) == 3
    unlike = sent((0.0, 3.0, 1.0), (0.0, 1.0, 2.0))
    unlike["b"] = replace(unlike["b"], joins=((0, 2), (0, 1)))
    with pytest.raises(StructureMismatch, match="b and a would join different slots"):
        Round.of(unlike)
    silent = sent((0.0, 3.0, 1.0), (0.0, 1.0, 2.0))
    silent["b"] = replace(silent["b"], joins=(), heights=())
    assert slots_of(Round.of(silent).merged) == 3, "one has not said it"


# ---- a shared folder


def folder(**files):
    return Exchange({f"{name.replace('_', '.')}.posterior": sent for name, sent in files.items()})


def test_files_are_a_sites_by_what_they_hold():
    named = {"a.posterior": "a", "a.2.posterior": "a", "a.b.12.posterior": "a.b", "a2.posterior": "a2"}
    assert {file: site_name(file) for file in named} == named
    shared = folder(b=Sent(B), a=Sent(A), a_1=later(of(4.0), A))
    assert shared.sites == {"a": {0: "a.posterior", 1: "a.1.posterior"}, "b": {0: "b.posterior"}}
    assert shared.newest == {"a": shared.files["a.1.posterior"], "b": shared.files["b.posterior"]}
    assert (shared.round, shared.members, shared.behind) == (1, ("a", "b"), ("b",))
    assert [*shared.inputs] == ["a.posterior", "b.posterior"]
    assert (folder().round, folder().auto) == (0, False)
    with pytest.raises(StructureMismatch, match=r"z\.posterior and a\.1\.posterior are both round 1 of one"):
        _ = folder(a=Sent(A), a_1=later(of(4.0), A), z=later(of(5.0), A)).sites
    with pytest.raises(StructureMismatch, match="Two sites use the name a"):
        _ = folder(a=Sent(A), a_3=Sent(B)).sites
    again = Sent(C, (A.digest,))
    assert folder(a=Sent(A), b=Sent(B), x=again).sites["x"] == {0: "x.posterior"}, "fitted again before any round"


def test_turns_follow_rounds():
    start = folder(a=Sent(A), b=Sent(B))
    assert start.turn("a") == Turn("a", 1, {"a.posterior": Sent(A), "b.posterior": Sent(B)})
    assert start.turn("b").file == "b.1.posterior"
    assert [*start.turn("b").inputs] == ["b.posterior", "a.posterior"]
    assert folder(a=Sent(A)).turn("a") == Turn("a", 1, {}, ("another site",))
    with pytest.raises(NothingToMerge, match="x has sent nothing yet; the sites here are a, b"):
        start.turn("x")
    one = later(of(4.0), A)
    half = folder(a=Sent(A), b=Sent(B), a_1=one)
    assert (half.turn("a").waiting, half.turn("a").due, half.turn("a").round) == (("b",), False, 2)
    assert (half.turn("b").round, [*half.turn("b").inputs]) == (1, ["b.posterior", "a.posterior"])
    whole = folder(a=Sent(A), b=Sent(B), a_1=one, b_1=later(of(5.0), B))
    assert (whole.turn("a").round, [*whole.turn("a").inputs]) == (2, ["a.1.posterior", "b.1.posterior"])
    late = folder(a=Sent(A), b=Sent(B), c=Sent(C), a_1=one, b_1=later(of(5.0), B))
    assert late.members == ("a", "b")
    assert (late.turn("c").round, [*late.turn("c").inputs]) == (1, ["c.posterior", "a.posterior", "b.posterior"])
    assert [*late.turn("a").inputs] == ["a.1.posterior", "b.1.posterior", "c.posterior"]
    gone = folder(b=Sent(B), a_1=one, b_1=later(of(5.0), B), a_2=Sent(of(6.0), (A.digest, "9" * 64), 2, one.sites, HEX))
    with pytest.raises(StructureMismatch, match=r"is missing, which round 2 needs"):
        gone.turn("b")


def test_sites_that_look_for_a_number_fit_wide_first():
    wide, narrow = Sent(slots([9] * 4), auto=True), Sent(slots([8] * 3))
    shared = folder(a=wide, b=narrow)
    assert shared.auto
    assert (shared.turn("b").round, shared.turn("b").due, shared.turn("b").auto) == (0, True, True)
    assert (shared.turn("a").round, shared.turn("a").waiting) == (1, ("b",))
    both = folder(a=wide, b=Sent(slots([7] * 4), auto=True))
    assert (both.turn("a").round, both.turn("a").due) == (1, True)
    begun = Sent(slots([5] * 3), (wide.posterior.digest,), 1, ("a" * 64,), HEX)
    assert folder(a=wide, b=narrow, a_1=begun).turn("b").slots == 3
    assert both.turn("a").slots is None


# ---- sketches

KEY = b"sixteen bytes ok"


def test_a_sketch_has_the_smallest_hashes_of_different_documents(monkeypatch):
    texts = [f"letter {n}" for n in range(9)] + ["letter 3", "  LETTER\n\t3 "]
    hashes = sorted({int.from_bytes(hmac.digest(KEY, f"letter {n}".encode(), "sha256")[:8], "big") for n in range(9)})
    sketch = Sketch.of(texts, KEY)
    assert (sketch.documents, sketch.hashes, sketch.whole) == (11, tuple(hashes), True)
    assert sketch.group == hmac.digest(KEY, b"decbayes group", "sha256").hex()[:16]
    assert Sketch.of_plain(sketch.plain()) == sketch
    assert hashed("a  B", KEY) == hashed(" A b ", KEY) != hashed("ab", KEY)
    assert SIZE == 1024
    monkeypatch.setattr("decbayes.updates.sketches.SIZE", 9)
    assert not Sketch.of(texts, KEY).whole
    monkeypatch.setattr("decbayes.updates.sketches.SIZE", 4)
    assert Sketch.of(texts, KEY).hashes == tuple(hashes[:4])
    with pytest.raises(InvalidData, match="15 bytes; it needs 16"):
        Sketch.of(texts, KEY[:15])
    assert Sketch.of(["x"], KEY).documents == 1
    assert Sketch.of(["x"] * 3, KEY, least=3).documents == 3
    for few, least in (([], 0), (["x"] * 2, 3)):
        with pytest.raises(NotDisclosed, match="would reveal too much"):
            Sketch.of(few, KEY, least=least)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"}, {"documents": 1}, {"documents": 2.0}, {"group": 3}, {"hashes": []}, {"hashes": ["2", "1"]},
        {"hashes": ["1", "1"]}, {"hashes": ["x"]}, {"hashes": ["1", f"{1 << 64:x}"]}, {"hashes": ["-1", "1"]},
        {"hashes": 3},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_sketch_is_refused(change):
    fine = {"format": "decbayes sketch 1", "documents": 2, "group": "g", "hashes": ["0", f"{(1 << 64) - 1:x}"]}
    assert Sketch.of_plain(fine).documents == 2
    assert Sketch.of_plain(fine | {"hashes": ["7"]}).hashes == (7,)
    with pytest.raises(InvalidData, match="not a sketch"):
        Sketch.of_plain(fine | change)


def test_documents_of_several_sites_are_counted_once():
    north, south = (Sketch.of([f"letter {n}" for n in some], KEY) for some in (range(10), range(6, 20)))
    found = overlap([north, south])
    assert (found.documents, found.different, found.shared) == (24, 20.0, {(0, 1): 4.0})
    assert found.twice == pytest.approx(1 - 20 / 24)
    (remark,) = found.remarks(["north", "south"])
    assert "17% of the 24 documents in sketches count more" in str(remark)
    assert "north and south 4" in str(remark)
    with pytest.raises(InvalidData, match="different keys"):
        overlap([north, Sketch.of(["x"], KEY[::-1])])
    for share, told in ((0.0199, 0), (0.02, 1)):
        assert len(Overlap(10_000, 10_000 * (1 - share), {}).remarks([])) == told
    assert Overlap(10, 11.0, {}).twice == 0.0
    many = Overlap(100, 50.0, {(i, i + 1): float(i) for i in range(5)}).remarks("abcdef")
    assert "e and f 4; d and e 3; c and d 2." in str(many[0])
    assert "By the sites' sketches." in str(Overlap(100, 50.0, {(0, 1): 0.5}).remarks("ab")[0])


def test_large_sites_are_estimated_from_their_smallest_hashes():
    """Of the smallest hashes of all sites, the share that two sites have is that of a sample."""
    sites = [Sketch.of([f"{n}" for n in some], KEY) for some in (range(6000), range(4000, 9000))]
    union = sorted({*sites[0].hashes, *sites[1].hashes})[:1024]
    both = sum(value in sites[0].hashes and value in sites[1].hashes for value in union)
    assert different(sites) == pytest.approx(11_000 / (1 + both / 1024))
    assert different(sites) == pytest.approx(9000, rel=0.05)
    assert shared_by(*sites) == pytest.approx(11_000 - different(sites))
    # Sites that share nothing are said to share nothing, however large they are.
    apart = Sketch.of([f"{n}" for n in range(6000, 9000)], KEY)
    assert different([sites[0], apart]) == 9000.0
    assert shared_by(sites[0], apart) == 0.0
    # Documents that one site has many times are not different ones.
    assert different([Sketch.of([f"{n // 2}" for n in range(6000)], KEY)]) == pytest.approx(3000, rel=0.12)
    assert len({hashed(text, KEY) for text, _ in every("abc", "x")}) == 3
