"""What agents say to each other and how much of it is heard: sizes, listings, what is told to whom."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from groups import gaussian_charter, identities
from test_small_rules import record

from decbayes.errors import Refused
from decbayes.network import Ballot, Proof
from decbayes.network.protocol.group.motions import Remove, SignedBytes, motion_on, sign_vote
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.talk import messages
from decbayes.network.protocol.talk.gossip import Gossip
from decbayes.network.protocol.talk.messages import (
    Batch,
    Digest,
    Listing,
    Packets,
    Pull,
    batches,
    decode,
    encode,
    message_bytes,
    packed,
)
from decbayes.network.protocol.talk.revisions import REVISION, SINCE, difference, other_release
from decbayes.network.protocol.talk.sum_gossip import SumGossip

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS[:2])
H = [bytes([number]) * 32 for number in range(12)]


def refused(action, *arguments):
    with pytest.raises(Refused) as error:
        action(*arguments)
    return error.value.reason


# ---- messages


def test_messages_come_back_and_their_fields_have_sizes():
    for fine in (
        Digest(H[0], H[1], "x" * 64, bytes(32), bytes(64), (1 << 31) - 1), Listing(((H[0], 3, H[1]),), (H[2],), True),
        Pull((H[0],), (H[1],)), Batch((b"r",), (), (b"b",)), Packets((H[0],), True, (H[1],), (b"p",)),
    ):  # fmt: skip
        assert decode(encode(fine), CHARTER) == fine
    assert Digest(H[0], H[1]).revision == 1
    for wrong in (
        Digest(bytes(31), H[1]), Digest(H[0], bytes(33)), Digest(H[0], H[1], "x" * 65),
        Digest(H[0], H[1], "", bytes(33)),
        Digest(H[0], H[1], "", b"", bytes(65)), Digest(H[0], H[1], revision=0), Digest(H[0], H[1], revision=1 << 31),
        Digest(H[0], H[1], "a\nb"), Listing(((bytes(31), 3, H[1]),), (), True), Pull((bytes(33),)),
    ):  # fmt: skip
        assert refused(decode, encode(wrong), CHARTER) == "envelope"
    assert refused(decode, b"junk", CHARTER) == "envelope"


def test_only_messages_with_bodies_may_be_long():
    """A listing of all members under two keys and of 8,192 decisions, 128 bytes each; a record and some more."""
    charter = gaussian_charter(MEMBERS[:2], members=10, record_bytes=5_000_000)
    notice = (2 * 10 + 8192) * 128 + 4096
    assert message_bytes(charter) == 5_000_000 + 4096
    assert message_bytes(gaussian_charter(MEMBERS[:2], members=10, record_bytes=1000)) == notice
    for most, made in (
        (notice, lambda size: encode(Pull((H[0],) * (size // 34)))),
        (5_004_096, lambda size: encode(Batch((bytes(size),)))),
        (5_004_096, lambda size: encode(Packets(packets=(bytes(size),)))),
    ):  # fmt: skip
        content = made(most - 100)
        padded = content + bytes(most - len(content))
        assert refused(decode, padded + b"\0", charter) == "size"
        assert refused(decode, padded, charter) == "envelope", "it is read, and is no message"


def test_so_many_things_are_checked_at_once_and_no_more():
    charter = gaussian_charter(MEMBERS[:2], members=1000)
    for fine in (Batch((b"r",) * 512), Batch((b"r",) * 200, (), (b"b",) * 312), Packets(packets=(b"p",) * 512)):
        assert decode(encode(fine), charter) == fine
    for many in (Batch((b"r",) * 513), Batch((b"r",) * 200, (), (b"b",) * 313), Packets(packets=(b"p",) * 513)):
        assert refused(decode, encode(many), charter) == "size"
    half = SignedBytes(b"h", bytes(64))
    for count, fine in ((312, True), (313, False)):
        mixed = encode(Batch((b"r",) * 200, ((half, half),) * count))
        assert decode(mixed, charter).records if fine else refused(decode, mixed, charter) == "size"
    few = gaussian_charter(MEMBERS[:2], members=3)
    assert decode(encode(Batch((b"r",) * 6)), few)
    assert refused(decode, encode(Batch((b"r",) * 7)), few) == "size", "two of each member"
    assert decode(encode(Batch((), (), (b"b",) * 7)), few)


def test_no_message_lists_more_than_memory_can_hold():
    charter = gaussian_charter(MEMBERS[:2], members=100_000)
    assert len(decode(encode(Pull((H[0],) * (1 << 17))), charter).origins) == 1 << 17
    assert refused(decode, encode(Pull((H[0],) * ((1 << 17) + 1))), charter) == "envelope"


def test_bodies_are_packed_in_their_order_as_many_as_fit(monkeypatch):
    contents = [bytes([n]) * size for n, size in enumerate((10, 20, 30, 5, 60, 1))]
    for most in (20, 40, 47, 48, 49, 200):
        parts = packed(contents, most)
        assert [content for part in parts for content in part] == contents
        for part in parts:
            assert len(part) == 1 or sum(len(each) + 8 for each in part[:-1]) + len(part[-1]) <= most
        for one, following in pairwise(parts):
            assert sum(len(each) + 8 for each in one) + len(following[0]) > most, "as many as fit"
    assert packed([], 10) == []
    monkeypatch.setattr(messages, "MOST_BODIES", 2)
    assert [len(part) for part in packed(contents, 1000)] == [2, 2, 2]


def test_proofs_go_before_ballots_and_ballots_before_records():
    proof = Proof(record(5).signed, record(5, 2.0).signed)
    ballot = SimpleNamespace(content=b"ballot")
    sent = [decode(each, CHARTER) for each in batches([record(5), record(6)], [proof, proof], CHARTER, [ballot])]
    assert [(len(each.proofs), len(each.ballots), len(each.records)) for each in sent] == [
        (1, 0, 0),
        (1, 0, 0),
        (0, 1, 0),
        (0, 0, 2),
    ]
    first, second = sent[0].proofs[0]
    assert (first.header, second.signature) == (proof.first.header_bytes, proof.second.signature)


def test_neighbours_of_other_revisions_are_told_who_has_to_update():
    assert difference(REVISION) == ""
    assert difference(REVISION + 1).endswith("update this agent")
    older = difference(REVISION - 2)
    assert older.endswith("update that agent")
    assert all(SINCE[number] in older for number in (REVISION - 1, REVISION))
    assert SINCE[REVISION - 2] not in older
    assert [*SINCE] == [*range(2, REVISION + 1)]
    for theirs, ours, other in (
        ("1.2.3", "1.2.9", False), ("1.2.3", "1.3.3", True), ("2.2.3", "1.2.3", True), ("", "1.2.3", False),
        ("1.2", "", False),
    ):  # fmt: skip
        assert other_release(theirs, ours) == other


# ---- gossip


def gossip_of(pool, peers=()):
    gossip = Gossip(pool, np.random.default_rng(0), "db 1", lambda peer: (b"m" * 32, peer.encode()))
    for peer in peers:
        gossip.connect(peer)
    return gossip


def listed(sends):
    return [decode(send.message, CHARTER) for send in sends]


def test_a_greeting_says_who_we_are_and_what_we_hold():
    pool = Pool(CHARTER)
    gossip = gossip_of(pool)
    sent = gossip.connect("two")
    assert sent.peer == "two"
    expected = Digest(pool.root, bytes.fromhex(CHARTER.fingerprint), "db 1", b"m" * 32, b"two", REVISION)
    assert decode(sent.message, CHARTER) == expected
    assert gossip.peers == {"two": None}
    gossip.disconnect("two")
    gossip.disconnect("nobody")
    assert gossip.peers == {}
    assert gossip.tick() == []


def test_a_neighbours_charter_or_revision_is_news_when_it_changes():
    gossip = gossip_of(Pool(CHARTER), ["two"])
    assert gossip.revision("two") == gossip.revision("nobody") == REVISION
    for digest, news in (
        (Digest(H[0], H[1]), True), (Digest(H[5], H[1]), False), (Digest(H[0], H[2]), True),
        (Digest(H[0], H[2], revision=2), True),
    ):  # fmt: skip
        assert gossip.hear("two", digest) == news
    assert gossip.revision("two") == 2
    assert gossip.alike == []
    assert not gossip.hear("nobody", Digest(H[0], H[1]))
    gossip.hear("two", Digest(H[0], H[2], revision=REVISION))
    assert gossip.alike == ["two"]
    gossip.tick()
    gossip.hear("two", Digest(H[0], H[2], revision=REVISION))
    assert gossip.peers["two"].tick == 1


def test_news_goes_once_to_a_few_who_understand_it():
    pool = Pool(CHARTER)
    pool.add(record(5))
    peers = [f"peer {n}" for n in range(12)]
    gossip = gossip_of(pool, peers)
    gossip.hear(peers[0], Digest(H[0], H[1], revision=1))
    assert gossip.tell_news() == []
    gossip.news.add(MEMBERS[0].id)
    told = gossip.tell_news()
    assert len(told) == 8
    assert len({send.peer for send in told}) == 8
    assert peers[0] not in {send.peer for send in told}
    assert {*listed(told)} == {Listing((record(5).signed.entry,), (), False)}
    assert gossip.tell_news() == [], "once"
    ballot = SimpleNamespace(digest=H[3])
    gossip.decided.add(ballot.digest)
    assert len(gossip.tick()) == 9, "news to eight, and a comparison with one"
    assert len(gossip.tick()) == 1
    gossip.news.add(MEMBERS[1].id)
    assert {*listed(gossip.tell_news())} == {Listing((), (), False)}, "what is not held any more is not listed"


def test_news_of_votes_and_of_exclusions_is_listed():
    pool = Pool(CHARTER)
    motion = motion_on(Remove("agent 1"), CHARTER.id, ())
    pool.vote(Ballot(motion, {"agent 0": sign_vote(motion, "agent 0", MEMBERS[0], 1)}))
    pool.exclude(Proof(record(5).signed, record(5, 2.0).signed))
    gossip = gossip_of(pool, ["two"])
    gossip.decided.add(motion.digest)
    gossip.news.add(MEMBERS[0].id)
    (news,) = listed(gossip.tell_news())
    assert news.excluded == (MEMBERS[0].id,)
    assert [digest for digest, _ in news.decisions] == [digest for digest, _ in pool.decisions.entries()]
    (whole,) = listed([gossip.list_all("two")])
    assert whole == Listing(tuple(pool.entries()), (MEMBERS[0].id,), True, tuple(pool.decisions.entries()))
    asked = [ballot.digest for ballot in gossip.decisions_asked_for(Pull((), (motion.digest, H[0])))]
    assert asked == [digest for digest, _ in pool.decisions.entries()]


def test_what_a_neighbour_has_and_we_lack_is_pulled_once_in_a_while():
    pool = Pool(CHARTER)
    pool.add(record(5))
    gossip = gossip_of(pool, ["two"])
    first, second = MEMBERS[0].id, MEMBERS[1].id
    newer, other, known = (first, 6, H[1]), (second, 1, H[2]), record(5).signed.entry
    (pull,) = listed(gossip.answer("two", Listing((newer, other, known), (second, H[9]), False, ((H[3], H[4]),))))
    assert pull == Pull((first, second), (H[3],)), "who is accused is asked for once, and strangers are not"
    assert gossip.answer("two", Listing((newer,), (), False, ((H[3], H[4]),))) == [], "just now"
    for _ in range(2):
        gossip.tick()
    assert len(gossip.answer("two", Listing((newer,), (), False))) == 1
    gossip.give_up(other)
    assert gossip.answer("two", Listing((other,), (), False)) == []
    gossip.reconsider()
    assert len(gossip.answer("two", Listing((other,), (), False))) == 1
    assert [each.digest for each in gossip.asked_for(Pull((first, first, second)))] == [record(5).digest]


def test_a_neighbour_that_lists_all_is_told_what_it_lacks():
    pool = Pool(CHARTER)
    pool.add(record(5))
    gossip, ours = gossip_of(pool, ["two"]), record(5).signed.entry
    (told,) = listed(gossip.answer("two", Listing((), (), True)))
    assert told == Listing((ours,), (), False)
    assert gossip.answer("two", Listing((ours,), (), True)) == []
    assert gossip.answer("two", Listing((), (), False)) == []


def test_messages_of_sums_are_listed_wanted_and_sent():
    held = {H[0], H[1]}
    packets = {digest: SimpleNamespace(content=digest + b"!") for digest in held}
    fake = SimpleNamespace(holds=held.__contains__, in_order=lambda: sorted(held), packet=packets.get)
    sums = SumGossip(fake, np.random.default_rng(0))
    assert sums.tell_news(["two"]) == []
    sums.news = [H[0], H[7]]
    assert sums.tell_news([]) == []
    (news,) = listed(sums.tell_news(["two"]))
    assert news == Packets((H[0],))
    assert sums.news == []
    sums.news = [H[1]]
    assert len({send.peer for send in sums.tick([f"{n}" for n in range(12)])}) == 8
    assert listed([sums.list_all("two")]) == [Packets((H[0], H[1]), True)]
    wanted, lacking = listed(sums.answer("two", Packets((H[1], H[5]), True)))
    assert (wanted.wanted, lacking.held) == ((H[5],), (H[0],))
    assert sums.complete(Packets((H[0], H[1]), True))
    assert not sums.complete(Packets((H[0], H[5]), True))
    assert not sums.complete(Packets((H[0],)))
    found = sums.asked_for(Packets(wanted=(H[1], H[1], H[6], H[0])))
    assert found == [packets[H[1]], packets[H[0]]]
    (sent,) = sums.bodies("two", found, CHARTER)
    assert decode(sent.message, CHARTER).packets == (H[1] + b"!", H[0] + b"!")
