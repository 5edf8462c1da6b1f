"""Links to neighbours over zenoh: peer to peer, without a broker.

Under `decbayes/GROUP/` every session has three keys. SESSION is the id that zenoh draws at each start:

    here/SESSION            a liveliness token, which exists while the link is up
    to/SESSION/SENDER       messages to it
    ask/SESSION/QUESTION    questions to it: `status` and `posterior`

Messages are sealed for their key with the group's secret, answers for their question (`questions.py`). zenoh peers
forward nothing, so every visible token belongs to a direct neighbour; agents relay records themselves.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import zenoh

from decbayes.errors import Refused, TransportFailed
from decbayes.network.protocol.effects import Effect, Peer
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.talk.messages import message_bytes
from decbayes.network.runtime.links.endpoints import Links, parse, settings, with_port
from decbayes.network.runtime.links.gatekeeper import Crowd, Gatekeeper, Passed, is_guarded, unguarded
from decbayes.network.runtime.links.questions import (
    MOST_TOKENS,
    NONCE_BYTES,
    QUESTION_BYTES,
    Once,
    Question,
    Seal,
    too_long,
    turn_away,
)
from decbayes.network.runtime.queues import Call, Inbox, Outbox
from decbayes.network.runtime.reports.log import plain

if TYPE_CHECKING:
    from zenoh import Query, Sample, Session

# Messages that exceed the group's limit by at most this are received and counted as refused; longer ones are not.
SLACK = 1 << 16
# The number of messages remembered, so that replayed ones do not count.
MOST_HEARD = 50_000
# Attempts to open a free port, which others may take before zenoh does.
ATTEMPTS = 8
# The endpoint of zenoh behind a gate.
INNER = "127.0.0.1:0"


# The one queue for all messages from callers without the group's secret.
STRANGERS = "strangers"


class Listener(Protocol):
    """The part of an agent that a transport calls, always through the inbox."""

    @property
    def charter(self) -> Charter: ...

    def on_connect(self, peer: Peer) -> list[Effect]: ...
    def on_disconnect(self, peer: Peer) -> list[Effect]: ...
    def on_bytes(self, peer: Peer, content: bytes) -> list[Effect]: ...
    def on_stranger(self, peer: Peer) -> list[Effect]: ...


Opened = TypeVar("Opened")
Respond = Callable[[Question], list[Effect] | None]
TurnAway = Callable[[Call], list[Effect]]
"""Called for a refused question, with a function that tells the asker."""


class Transport:
    """One agent's links. Everything that arrives is posted to the inbox as a call of the agent."""

    def __init__(self, listener: Listener, links: Links, inbox: Inbox, respond: Respond, turn_away: TurnAway) -> None:
        self._listener, self._inbox, self._respond, self._turn_away = listener, inbox, respond, turn_away
        self._tokens, self._heard = Once(MOST_TOKENS), Once(MOST_HEARD)
        self._outboxes: dict[Peer, Outbox] = {}
        limits = listener.charter.limits
        self._most_peers, self._most_bytes = limits.members, limits.tick_bytes
        self._strangers = self._departed = 0
        self._shut_out: set[Peer] = set()
        # Neighbours that have sent a properly sealed message.
        self._spoken: set[Peer] = set()
        self.unguarded = unguarded(links)
        self.session, self.endpoints, self._gate = open_guarded(
            links, most_bytes=message_bytes(listener.charter) + SLACK, members=len(listener.charter.members)
        )
        self.name = str(self.session.info.zid())
        self._root, self._seal = root_key(listener.charter), Seal(listener.charter.secret)
        # The token comes last, so that a neighbour that sees it can be heard.
        self._declared = (
            self.session.declare_subscriber(f"{self._root}/to/{self.name}/*", self._on_message),
            self.session.declare_queryable(f"{self._root}/ask/{self.name}/*", self._on_question),
            self.session.liveliness().declare_subscriber(f"{self._root}/here/*", self._on_token, history=True),
            self.session.liveliness().declare_token(f"{self._root}/here/{self.name}"),
        )

    def send(self, peer: Peer, message: bytes) -> None:
        """Hand a message to a neighbour; returns at once, whatever state the neighbour is in."""
        outbox = self._outboxes.get(peer)
        if outbox is not None:
            outbox.put(message)

    def shut_out(self, peer: Peer) -> str:
        """Ignore a neighbour until its session ends; returns its address."""
        self._shut_out.add(peer)
        who = self.address(peer)
        self._leave(peer)
        return who

    def address(self, peer: Peer) -> str:
        """A neighbour's address, with the name in its certificate if there is one."""
        links = [link for link in self.session.info.links() if str(link.zid) == peer]
        places = [self._passed(link) or Passed(str(link.dst), str(link.auth_identifier or "")) for link in links]
        address, name = (places or [Passed(peer, "")])[0]
        return address + (f" ({name})" if name else "")

    def _passed(self, link: Any) -> Passed | None:
        """The caller behind a link through the gate; None if the link does not use the gate."""
        if self._gate is None or parse(last(link.src))[1] != self._gate.inner_port:
            return None
        return self._gate.passed(parse(last(link.dst))[1])

    def refusals(self) -> Iterator[str]:
        """The reasons of the gate's refusals since the last call."""
        while self._gate is not None and self._gate.refusals:
            yield self._gate.refusals.popleft()

    def crowds(self) -> list[Crowd]:
        """The addresses that have crowded the gate since the last call."""
        return [] if self._gate is None else self._gate.crowds()

    @property
    def dropped(self) -> int:
        """The number of messages that found no room in an outbox, or came from strangers."""
        return self._strangers + self._departed + sum(outbox.dropped for outbox in list(self._outboxes.values()))

    @property
    def linked(self) -> bool:
        """Whether any session is linked, of this group or not."""
        return bool(self.session.info.peers_zid())

    def close(self) -> None:
        for outbox in list(self._outboxes.values()):
            outbox.close()
        if self._gate is not None:
            self._gate.close()
        self.session.close()  # type: ignore[no-untyped-call]

    # Called by zenoh's threads

    def _on_message(self, sample: "Sample") -> None:
        peer, sealed = last(sample.key_expr), bytes(sample.payload)
        try:
            content = self._opened(sealed, str(sample.key_expr))
        except Refused:
            if peer in self._outboxes:
                # Anybody can use a neighbour's name, so the neighbour is not blamed.
                self._inbox.post(partial(self._listener.on_stranger, peer), source=STRANGERS)
            else:
                self._strangers += 1
            return
        if peer not in self._outboxes:
            # Its token has not arrived yet, or it was dropped to make room before it spoke.
            self._meet(peer)
        if peer not in self._outboxes:
            self._strangers += 1
            return
        self._spoken.add(peer)
        self._inbox.post(partial(self._listener.on_bytes, peer, content), source=peer, size=len(sealed))

    def _opened(self, sealed: bytes, key: str) -> bytes:
        """Open a sealed message; Refused if it is forged or a replay."""
        content = self._seal.open(sealed, key)
        if not self._heard.new(sealed[:NONCE_BYTES]):
            raise Refused("replay", "a message that was received before.")
        return content

    def _on_token(self, sample: "Sample") -> None:
        peer = last(sample.key_expr)
        if peer == self.name or "*" in peer:
            return
        if sample.kind == zenoh.SampleKind.PUT:
            self._meet(peer)
        else:
            self._shut_out.discard(peer)
            self._leave(peer)

    def _leave(self, peer: Peer) -> None:
        outbox = self._outboxes.pop(peer, None)
        if outbox is None:
            return
        outbox.close()
        self._spoken.discard(peer)
        self._departed += outbox.dropped
        self._inbox.forget(peer)
        self._inbox.post(partial(self._listener.on_disconnect, peer))

    def _meet(self, peer: Peer) -> None:
        # One session could show many tokens; only those of linked sessions count.
        linked = peer in map(str, self.session.info.peers_zid())
        if not linked or peer in self._outboxes or peer in self._shut_out or not self._has_room():
            return
        self._outboxes[peer] = Outbox(partial(self._transmit, peer), self._most_bytes)
        self._inbox.post(partial(self._listener.on_connect, peer))

    def _has_room(self) -> bool:
        """Whether there is room for one more neighbour; if not, the first silent one is dropped."""
        if len(self._outboxes) < self._most_peers:
            return True
        silent = next((peer for peer in list(self._outboxes) if peer not in self._spoken), None)
        if silent is not None:
            self._leave(silent)
        return silent is not None

    def _on_question(self, query: "Query") -> None:
        if too_long(query):
            self._strangers += 1
            return
        try:
            question = Question(query, f"{self._root}/ask/{self.name}", self._seal, self._tokens)
        except Refused:
            # A queue of their own, so that members wait for at most one stranger.
            call = partial(self._turn_away, partial(turn_away, query))
            self._inbox.post(call, source=STRANGERS, size=QUESTION_BYTES)
        else:
            self._inbox.post(partial(self._respond, question), source="questions", size=QUESTION_BYTES)

    # Called by the outboxes' threads

    def _transmit(self, peer: Peer, message: bytes) -> None:
        key = f"{self._root}/to/{peer}/{self.name}"
        with suppress(zenoh.ZError):  # the neighbour may be gone
            self.session.put(key, self._seal.close(message, key), congestion_control=zenoh.CongestionControl.DROP)


def root_key(charter: Charter) -> str:
    return f"decbayes/{charter.id.encode().hex()}"


def last(key: Any) -> str:
    return str(key).rpartition("/")[2]


def open_guarded(
    links: Links, *, most_bytes: int, members: int
) -> tuple["Session", tuple[str, ...], Gatekeeper | None]:
    """A zenoh session, its endpoints, and the gate in front of it if strangers can call."""
    if not is_guarded(links):
        return *open_session(links, most_bytes=most_bytes), None
    session, (inner,) = open_session(replace(links, listen=(INNER,)), most_bytes=most_bytes)
    try:
        gate, listen = open_at_endpoints(links, lambda listen: Gatekeeper(links, listen, inner, members))
    except TransportFailed:
        session.close()  # type: ignore[no-untyped-call]
        raise
    return session, listen, gate


def open_session(links: Links, *, most_bytes: int, insist: bool = True) -> tuple["Session", tuple[str, ...]]:
    """A zenoh session and the endpoints at which it listens."""
    return open_at_endpoints(
        links, lambda listen: zenoh.open(config(settings(links, listen, most_bytes=most_bytes, insist=insist)))
    )


def open_at_endpoints(links: Links, opened: Callable[[tuple[str, ...]], Opened]) -> tuple[Opened, tuple[str, ...]]:
    """Open something at the links' endpoints, with another free port if somebody else has taken it first."""
    for attempt in range(1, ATTEMPTS + 1):
        listen = tuple(with_port(endpoint) for endpoint in links.listen)
        try:
            return opened(listen), listen
        except (TransportFailed, zenoh.ZError) as error:
            if listen == links.listen or "in use" not in str(error) or attempt == ATTEMPTS:
                raise TransportFailed(explain(str(error), listen)) from None
    raise AssertionError("unreachable")


def config(values: dict[str, Any]) -> Any:
    result = zenoh.Config()
    for key, value in values.items():
        result.insert_json5(key, json.dumps(value))
    return result


def explain(error: str, listen: Sequence[str]) -> str:
    """An error of zenoh with what a user can do about it."""
    if "in use" in error:
        named = [endpoint for endpoint in listen if f"{parse(endpoint)[1]}" in error]
        occupied = (named or [*listen, "a port"])[0]
        return f"{occupied} is taken: another program, perhaps another agent, listens there. Choose another port, or 0."
    return f"The network cannot be opened: {plain(error)}"
