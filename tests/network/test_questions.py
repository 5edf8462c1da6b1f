"""Questions and answers are bound to each other: nothing that was recorded passes for either."""

from contextlib import AbstractContextManager
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest
from groups import gaussian_charter, identities

from decbayes.errors import Refused, TransportFailed
from decbayes.network import Agent, SqliteStore
from decbayes.network.runtime.links import Links
from decbayes.network.runtime.links.ask import Inquiry
from decbayes.network.runtime.links.questions import (
    MOST_TOKENS,
    NO_MEMBER,
    QUESTION_BYTES,
    Asking,
    Once,
    Question,
    Seal,
    too_long,
    turn_away,
)
from decbayes.network.runtime.links.transport import STRANGERS, Transport, open_session, root_key
from decbayes.network.runtime.reports.log import Log
from decbayes.network.runtime.service import MOST_QUESTIONS, Service

SEAL = Seal(bytes(32))


class Query(AbstractContextManager):
    """What zenoh hands over, without zenoh."""

    def __init__(self, text, attachment, payload=None, selector=""):
        self.key_expr, self.attachment, self.payload, self.selector = f"ask/me/{text}", attachment, payload, selector
        self.told, self.error = None, None

    def reply(self, key, payload, *, attachment):
        self.told = payload, attachment

    def reply_err(self, payload):
        self.error = payload

    def __exit__(self, *_):
        return None


def asked(text="status", tokens=None, seal=SEAL):
    """Somebody asks, and the question arrives."""
    asking = Asking(text, seal)
    query = Query(text, asking.attachment)
    return asking, query, Question(query, "ask/me", SEAL, tokens or Once(MOST_TOKENS))


def test_an_answer_is_opened_by_who_has_asked():
    asking, query, question = asked()
    question.answer(b"content", {"a": 1})
    assert asking.opened(*query.told) == (b"content", {"a": 1})
    asking, query, question = asked()
    question.refuse("There is nothing.")
    assert asking.refusal(query.error) == "There is nothing."


def test_an_answer_to_another_question_is_none():
    _, before, question = asked()
    question.answer(b"yesterday's", {"a": 1})
    asking, now, question = asked()
    question.answer(b"today's", {"a": 2})
    later = Asking("posterior", SEAL)
    for whose, answer in [
        (asking, before.told),
        (asking, (now.told[0], before.told[1])),
        (asking, (before.told[0], now.told[1])),
        (asking, now.told[::-1]),
        (later, now.told),
    ]:
        with pytest.raises(Refused):
            whose.opened(*answer)
    with pytest.raises(Refused):
        asking.refusal(b"Please run this command: ...")


def test_a_question_that_was_recorded_is_not_answered_again():
    tokens = Once(MOST_TOKENS)
    asking, *_ = asked(tokens=tokens)
    with pytest.raises(Refused, match="a repeated question"):
        Question(Query("status", asking.attachment), "ask/me", SEAL, tokens)
    with pytest.raises(Refused, match="secret"):
        Question(Query("posterior", asking.attachment), "ask/me", SEAL, tokens)
    with pytest.raises(Refused, match="secret"):
        asked(seal=Seal(b"another"))
    with pytest.raises(Refused):
        Question(Query("status", SEAL.close(b"", "status")), "ask/me", SEAL, tokens)


def test_tokens_do_not_fill_the_memory():
    tokens = Once(3)
    numbers = [bytes([number]) * 16 for number in range(5)]
    assert [tokens.new(token) for token in (*numbers, numbers[4], numbers[2])] == 5 * [True] + 2 * [False]
    assert tokens.new(numbers[0]), "forgotten"
    assert len(tokens._known) == 3
    assert MOST_TOKENS >= 1000


@pytest.mark.parametrize("part", ["attachment", "payload", "selector"])
def test_what_is_longer_than_a_question_is_not_even_refused(part):
    long = "x" * (QUESTION_BYTES + 1)
    fields = {"attachment": b"", "payload": None, "selector": ""} | {
        part: long if part == "selector" else long.encode()
    }
    assert too_long(Query("status", **fields))
    assert not too_long(Query("status", Asking("status", SEAL).attachment))


def test_a_stranger_is_told_that_it_is_one():
    query = Query("status", b"")
    turn_away(query)
    assert Asking("status", Seal(b"another")).refusal(query.error) == NO_MEMBER.decode()


def test_nobody_is_blamed_for_what_others_say_under_its_name():
    """Whoever is linked may write any neighbour's name on a message, and has seen what that neighbour has said."""
    transport, posted = Transport.__new__(Transport), []
    listener = SimpleNamespace(on_bytes=lambda *heard: heard, on_stranger=lambda peer: ("stranger", peer))
    inbox = SimpleNamespace(post=lambda call, *, source, size=0: posted.append((source, call())))
    transport._listener, transport._inbox, transport._outboxes = listener, inbox, {"neighbour": None}
    transport._seal, transport._heard, transport._spoken = SEAL, Once(100), set()
    key = "to/me/neighbour"
    genuine = SEAL.close(b"hello", key)
    for payload in (genuine, genuine, b"junk", SEAL.close(b"hello", key), SEAL.close(b"hello", "to/other/neighbour")):
        transport._on_message(SimpleNamespace(key_expr=key, payload=payload))
    said, not_its_own = ("neighbour", ("neighbour", b"hello")), (STRANGERS, ("stranger", "neighbour"))
    assert posted == [said, not_its_own, not_its_own, said, not_its_own]
    assert transport._spoken == {"neighbour"}


def test_silent_strangers_do_not_keep_a_neighbour_out():
    transport, left = Transport.__new__(Transport), []
    transport.session = SimpleNamespace(info=SimpleNamespace(peers_zid=lambda: ["a", "b", "c", "d"]))
    transport._listener = SimpleNamespace(on_connect=str, on_disconnect=str)
    transport._inbox = SimpleNamespace(post=lambda call: None, forget=left.append)
    transport._outboxes, transport._shut_out, transport._spoken, transport._departed = {}, set(), set(), 0
    transport._most_peers, transport._most_bytes = 2, 100
    transport._meet("a")
    transport._meet("b")
    transport._spoken.add("a")
    transport._meet("c")
    assert (list(transport._outboxes), left) == (["a", "c"], ["b"]), "who has spoken stays"
    transport._spoken.add("c")
    transport._meet("d")
    assert list(transport._outboxes) == ["a", "c"], "there is room for members only"
    for outbox in transport._outboxes.values():
        outbox.close()


def test_who_made_room_before_it_spoke_is_heard_when_it_speaks():
    """Its session stays, so that no token of it comes again: a member would be cut off for good."""
    transport, heard = Transport.__new__(Transport), []
    transport.session = SimpleNamespace(info=SimpleNamespace(peers_zid=lambda: ["member", "stranger"]))
    transport._listener = SimpleNamespace(on_connect=str, on_disconnect=str, on_bytes=lambda *told: heard.append(told))
    transport._inbox = SimpleNamespace(post=lambda call, **_: call(), forget=str)
    transport._outboxes, transport._shut_out, transport._spoken = {}, set(), set()
    transport._departed, transport._strangers, transport._most_peers, transport._most_bytes = 0, 0, 1, 100
    transport._seal, transport._heard = SEAL, Once(10)
    transport._meet("member")
    transport._meet("stranger")
    assert list(transport._outboxes) == ["stranger"]
    for peer, seal in (("member", Seal(bytes(31) + b"1")), ("member", SEAL), ("nobody", SEAL)):
        key = f"to/me/{peer}"
        transport._on_message(SimpleNamespace(key_expr=key, payload=seal.close(b"hello", key)))
    assert (heard, list(transport._outboxes)) == ([("member", b"hello")], ["member"])
    assert transport._strangers == 2, "what cannot be opened, and who is not linked"
    transport._outboxes["member"].close()


@pytest.mark.xdist_group("processes")
def test_strangers_leave_members_room_to_ask(tmp_path, rng):
    charter, (identity,) = gaussian_charter(identities(1)), identities(1)
    agent, busy, held = Agent(charter, identity, rng=rng), Event(), Event()
    with SqliteStore(tmp_path / "a.store", charter) as store:
        service = Service(agent, store, Links(), Log(SimpleNamespace(write=len, flush=int), {}), rng=rng)
        try:
            service._answers.submit(lambda: (busy.set(), held.wait()))
            assert busy.wait(5)
            for _ in range(10 * MOST_QUESTIONS):
                service._turn_away(lambda: None)
            assert service._answers.waiting == MOST_QUESTIONS // 2
            service._answer(asked()[2])
            assert service._answers.waiting == MOST_QUESTIONS // 2 + 1
        finally:
            held.set()
            service.close()
    assert agent.refused["stranger"] == 10 * MOST_QUESTIONS


@pytest.mark.xdist_group("processes")
def test_whoever_is_linked_cannot_answer_with_what_it_has_recorded():
    """It was once enough to have seen an answer: what it said was believed for good."""
    charter = gaussian_charter(identities(1))
    seal, key = Seal(charter.secret), f"{root_key(charter)}/ask/me"
    recorded = []

    def replay(query):
        question = Question(query, key, seal, Once(MOST_TOKENS))
        with query:
            told = question._closed(b"{}", "description")
            recorded.append((question._closed(b"old", "answer"), told))
            query.reply(f"{key}/status", recorded[0][0], attachment=recorded[0][1])

    session, (endpoint,) = open_session(Links(), most_bytes=1 << 20)
    with session.declare_queryable(f"{key}/*", replay), Inquiry(charter, Links(listen=(), connect=(endpoint,))) as ask:
        assert ask._ask("status", 5.0) == (b"old", {})
        with pytest.raises(TransportFailed, match="not an agent of"):
            ask._ask("status", 5.0)
    session.close()
    assert np.unique([len(told) for told, _ in recorded]).size == 1
