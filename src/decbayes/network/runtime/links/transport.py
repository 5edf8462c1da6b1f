"""Links to neighbours over zenoh: peer to peer, without a broker.

Under `decbayes/GROUP/` every session has three keys, SESSION being the id that zenoh draws at each start:

    here/SESSION            a liveliness token: it appears when a link is up and goes when the link does
    to/SESSION/SENDER       messages for it
    ask/SESSION/QUESTION    questions to it: `status` and `posterior`

Messages are sealed for their key with the group's secret, answers for their question (`questions.py`).

zenoh peers pass nothing on, so whoever's token is seen is a direct neighbour; relaying is the agents' own work.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

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
    departed,
    too_long,
    turn_away,
)
from decbayes.network.runtime.queues import Call, Inbox, Outbox
from decbayes.network.runtime.reports.log import plain

if TYPE_CHECKING:
    from zenoh import Query, Sample, Session

# Messages that are longer than the group's limit by no more than this are still seen, and counted as refused.
SLACK = 1 << 16
# How many messages are remembered, so that they do not count again when somebody repeats them.
MOST_HEARD = 50_000
# Others may take a free port before zenoh does.
ATTEMPTS = 8
# Where zenoh itself listens behind a gate.
INNER = "127.0.0.1:0"


# Messages of all who lack the group's secret wait in one queue.
STRANGERS = "strangers"


class Listener(Protocol):
    """The part of an agent that a transport calls, always through the inbox."""

    @property
    def charter(self) -> Charter: ...

    def on_connect(self, peer: Peer) -> list[Effect]: ...
    def on_disconnect(self, peer: Peer) -> list[Effect]: ...
    def on_bytes(self, peer: Peer, content: bytes) -> list[Effect]: ...
    def on_stranger(self, peer: Peer) -> list[Effect]: ...


Respond = Callable[[Question], list[Effect] | None]
TurnAway = Callable[[Call], list[Effect]]
"""Called for a question that is not answered, with a function that says so to the asker."""


class Transport:
    """One agent's links. Everything that comes in is posted to the inbox as a call of the agent."""

    def __init__(self, listener: Listener, links: Links, inbox: Inbox, respond: Respond, turn_away: TurnAway) -> None:
        self._listener, self._inbox, self._respond, self._turn_away = listener, inbox, respond, turn_away
        self._tokens, self._heard = Once(MOST_TOKENS), Once(MOST_HEARD)
        self._outboxes: dict[Peer, Outbox] = {}
        limits = listener.charter.limits
        self._most_peers, self._most_bytes = limits.members, limits.tick_bytes
        self._strangers = self._departed = 0
        self._shut_out: set[Peer] = set()
        # Neighbours that have said something under the group's seal.
        self._spoken: set[Peer] = set()
        self.unguarded = unguarded(links)
        self.session, self.endpoints, self._gate = open_guarded(
            links, most_bytes=message_bytes(listener.charter) + SLACK, members=len(listener.charter.members)
        )
        self.name = str(self.session.info.zid())
        self._root, self._seal = root_key(listener.charter), Seal(listener.charter.secret)
        # The token comes last: who sees it can already be heard.
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
        """Ignore a neighbour for as long as its session lasts; returns its name by the link."""
        self._shut_out.add(peer)
        who = self.address(peer)
        self._leave(peer)
        return who

    def address(self, peer: Peer) -> str:
        """A neighbour's address, and the name in its certificate where there is one."""
        links = [link for link in self.session.info.links() if str(link.zid) == peer]
        places = [self._passed(link) or Passed(str(link.dst), str(link.auth_identifier or "")) for link in links]
        address, name = (places or [Passed(peer, "")])[0]
        return address + (f" ({name})" if name else "")

    def _passed(self, link: Any) -> Passed | None:
        """Who has come through the gate on this link: zenoh sees the gate in its place."""
        if self._gate is None or parse(last(link.src))[1] != self._gate.inner_port:
            return None
        return self._gate.passed(parse(last(link.dst))[1])

    def refusals(self) -> Iterator[str]:
        """What was wrong with callers whom the gate has refused since this was asked last."""
        while self._gate is not None and self._gate.refusals:
            yield self._gate.refusals.popleft()

    def crowds(self) -> list[Crowd]:
        """Addresses whose connections have crowded the gate since this was asked last."""
        return [] if self._gate is None else self._gate.crowds()

    @property
    def dropped(self) -> int:
        """Messages that found no room on the way out, or came from strangers."""
        return self._strangers + self._departed + sum(outbox.dropped for outbox in list(self._outboxes.values()))

    @property
    def linked(self) -> bool:
        """Whether anybody is linked at all, of this group or not."""
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
                # Anybody may write a neighbour's name on it: the neighbour is not blamed for it.
                self._inbox.post(partial(self._listener.on_stranger, peer), source=STRANGERS)
            else:
                self._strangers += 1
            return
        if peer not in self._outboxes:
            # Its token has not come yet, or it had to make room before it spoke.
            self._meet(peer)
        if peer not in self._outboxes:
            self._strangers += 1
            return
        self._spoken.add(peer)
        self._inbox.post(partial(self._listener.on_bytes, peer, content), source=peer, size=len(sealed))

    def _opened(self, sealed: bytes, key: str) -> bytes:
        """A message for a key, heard for the first time."""
        content = self._seal.open(sealed, key)
        if not self._heard.new(sealed[:NONCE_BYTES]):
            raise Refused("replay", "a message that was heard before.")
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
        # One session may show many tokens: only those count that bear the name of a session linked with ours.
        linked = peer in map(str, self.session.info.peers_zid())
        if not linked or peer in self._outboxes or peer in self._shut_out or not self._has_room():
            return
        self._outboxes[peer] = Outbox(partial(self._transmit, peer), self._most_bytes)
        self._inbox.post(partial(self._listener.on_connect, peer))

    def _has_room(self) -> bool:
        """Whether there is room for one more; whoever was first to come and say nothing makes some."""
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
            # In a queue of their own: however many strangers ask, members wait for one of them at most.
            call = partial(self._turn_away, partial(turn_away, query))
            self._inbox.post(call, source=STRANGERS, size=QUESTION_BYTES)
        else:
            self._inbox.post(partial(self._respond, question), source="questions", size=QUESTION_BYTES)

    # Called by the outboxes' threads

    def _transmit(self, peer: Peer, message: bytes) -> None:
        key = f"{self._root}/to/{peer}/{self.name}"
        with departed():
            self.session.put(key, self._seal.close(message, key), congestion_control=zenoh.CongestionControl.DROP)


def root_key(charter: Charter) -> str:
    return f"decbayes/{charter.id.encode().hex()}"


def last(key: Any) -> str:
    return str(key).rpartition("/")[2]


def open_guarded(
    links: Links, *, most_bytes: int, members: int
) -> tuple["Session", tuple[str, ...], Gatekeeper | None]:
    """A zenoh session, where it can be reached, and the gate in front of it if strangers may call."""
    if not is_guarded(links):
        return *open_session(links, most_bytes=most_bytes), None
    session, (inner,) = open_session(replace(links, listen=(INNER,)), most_bytes=most_bytes)
    for attempt in range(1, ATTEMPTS + 1):
        listen = tuple(with_port(endpoint) for endpoint in links.listen)
        try:
            return session, listen, Gatekeeper(links, listen, inner, members)
        except TransportFailed as error:
            chosen_freely = listen != links.listen
            if not (chosen_freely and "in use" in str(error)) or attempt == ATTEMPTS:
                session.close()  # type: ignore[no-untyped-call]
                raise TransportFailed(explain(str(error), listen)) from None
    raise AssertionError("unreachable")


def open_session(links: Links, *, most_bytes: int, insist: bool = True) -> tuple["Session", tuple[str, ...]]:
    """A zenoh session, and the endpoints it listens at."""
    for attempt in range(1, ATTEMPTS + 1):
        listen = tuple(with_port(endpoint) for endpoint in links.listen)
        try:
            return zenoh.open(config(settings(links, listen, most_bytes=most_bytes, insist=insist))), listen
        except zenoh.ZError as error:
            chosen_freely = listen != links.listen
            if not (chosen_freely and "in use" in str(error)) or attempt == ATTEMPTS:
                raise TransportFailed(explain(str(error), listen)) from None
    raise AssertionError("unreachable")


def config(values: dict[str, Any]) -> Any:
    result = zenoh.Config()
    for key, value in values.items():
        result.insert_json5(key, json.dumps(value))
    return result


def explain(error: str, listen: Sequence[str]) -> str:
    """What a user can do about an error of zenoh's."""
    if "in use" in error:
        named = [endpoint for endpoint in listen if f"{parse(endpoint)[1]}" in error]
        occupied = (named or [*listen, "a port"])[0]
        return f"{occupied} is taken: another program, perhaps another agent, listens there. Choose another port, or 0."
    return f"The network cannot be opened: {plain(error)}"
