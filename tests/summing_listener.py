"""One agent that hears messages of sums, in the order of a test; the other members' are made by hand."""

import numpy as np
import pytest
from groups import identities, seated
from summing_groups import SEATS, summing_charter, vector

from decbayes.errors import Refused
from decbayes.network import Ballot
from decbayes.network.protocol.group.decisions import Decisions
from decbayes.network.protocol.group.motions import sign_vote
from decbayes.network.protocol.sums import Packet, Sums
from decbayes.secure import Message, Seat, Secrets

KEYS = identities(SEATS)
CHARTER = summing_charter(KEYS, rounds=4)
VECTOR = vector(CHARTER, np.array([[1.0], [3.0]]))


def sign_of(seat):
    return KEYS[int(seat[-1])].private.sign


def played(terms, steps=VECTOR):
    """The messages of all members of a sum, by kind: each of them adds the same, and always under the same secrets."""
    secrets = {name: Secrets(f"{name:p<32}".encode()) for name in terms.seats}
    seats = {name: Seat.begun(terms, name, sign_of(name), secrets[name]) for name in terms.seats}
    for act in (lambda seat, *rest: seat.masking(steps, *rest), Seat.opening):
        last = "masked" if act is Seat.opening else "key"
        messages = [seat.sent[last] for seat in seats.values()]
        seats = {name: act(seat, messages, sign_of(name)) for name, seat in seats.items()}
    return {kind: [seat.sent[kind] for seat in seats.values()] for kind in ("key", "masked", "opening")}


class Listener:
    """What one agent knows of a group's sums."""

    def __init__(self):
        self.decisions = Decisions(CHARTER)
        self.sums = Sums(self.decisions)
        self.votes = 0

    def decide(self, question):
        """All vote for it; the version of the charter after it."""
        self.votes += 1
        motion, voters = self.decisions.motion(question), seated(CHARTER, KEYS)
        votes = {name: sign_vote(motion, name, voters[name], self.votes) for name in self.decisions.roster.sitting}
        self.decisions.add(Ballot(motion, votes, b""))
        assert self.decisions.version == (motion.digest,)
        return self.decisions.version

    def hear(self, message, after=()):
        chain, packet = self.sums.open_packet(Packet(after, message).content)
        return self.sums.add(chain, packet, self.decisions.roster)

    def open(self, terms, after=(), steps=VECTOR):
        for messages in played(terms, steps).values():
            for message in messages:
                self.hear(message, after)

    def refused(self, message, after=()):
        with pytest.raises(Refused) as caught:
            self.hear(message, after)
        return caught.value.reason


def key_for(terms, seat="agent_0"):
    return Seat.begun(terms, seat, sign_of(seat)).sent["key"]


def signed(message, **changed):
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return Message(**{**fields, **changed}).signed(sign_of(message.seat))
