"""Which settled resolutions stand: those that do not need votes of a key that was taken away at the same time.

A stolen key is replaced, or its seat is removed. A vote does not show when it was signed, so the thief could use the
key to complete an older motion that lacked one vote. Therefore a resolution that replaces a key or removes its seat
*strikes* the votes of that key from every resolution *beside* it: neither before nor after it.

1. A resolution that has too few votes without the struck ones does not stand, unless a standing resolution comes after
   it: then enough seats considered it settled before they knew of the theft.
2. A resolution that does not stand strikes nothing. Resolutions that would strike each other out all stand, and strike
   the others.
3. New epochs and added words always stand, because reverting them would lose contributions of absent members. Everyone
   who voted for an epoch has checked its prior, and words alone change no evidence.

More votes for a settled motion may make it stand, so agents join votes by union as they join motions.
"""

from collections.abc import Callable, Iterator, Sequence

from decbayes.network.protocol.group.keys import AgentId, agent_id
from decbayes.network.protocol.group.motions import Ballot, Extend, Motion, Open, Remove, Rotate
from decbayes.network.protocol.group.roster import Roster


class Order:
    """Which resolutions come before and after each other, as masks: bit n is the n-th one in the common order."""

    def __init__(self, ordered: Sequence[Ballot]) -> None:
        place = {ballot.digest: n for n, ballot in enumerate(ordered)}
        earlier = [[place[digest] for digest in b.motion.after if digest in place] for b in ordered]
        self.before, self.after = [0] * len(ordered), [0] * len(ordered)
        for n, direct in enumerate(earlier):
            for m in direct:
                self.before[n] |= self.before[m] | 1 << m
        for n in reversed(range(len(ordered))):
            for m in earlier[n]:
                self.after[m] |= self.after[n] | 1 << n

    def beside(self, n: int, among: int) -> Iterator[int]:
        """The resolutions in a mask that are neither before nor after the n-th."""
        left = among & ~(self.before[n] | self.after[n] | 1 << n)
        while left:
            lowest = left & -left
            yield lowest.bit_length() - 1
            left ^= lowest


def taken_by(ballot: Ballot, voted_on: Roster) -> AgentId | None:
    """The key that a resolution takes away."""
    question = ballot.question
    return agent_id(voted_on.seats[question.seat].key) if isinstance(question, Rotate | Remove) else None


def fallen(ordered: Sequence[Ballot], voted_on: Callable[[Motion], Roster]) -> frozenset[bytes]:
    """The settled resolutions that do not stand.

    `ordered` has all of them, predecessors first; `voted_on` gives the roster under which a motion was put.
    """
    order = Order(ordered)
    taken_keys = {n: taken_by(ballot, voted_on(ballot.motion)) for n, ballot in enumerate(ordered)}
    takes = {n: key for n, key in taken_keys.items() if key is not None}
    mask = sum(1 << n for n in takes)
    keys = [{vote.origin for vote in ballot.votes.values()} for ballot in ordered]
    strikers: dict[int, list[int]] = {}
    for n, ballot in enumerate(ordered):
        striking = [t for t in order.beside(n, mask) if takes[t] in keys[n]]
        if striking and not isinstance(ballot.question, Open | Extend):
            strikers[n] = striking
    least = {n: voted_on(ordered[n].motion).needed for n in strikers}

    def left(n: int, striking: int) -> int:
        """The number of votes left if the resolutions in the mask strike."""
        return len(keys[n]) - len({takes[t] for t in strikers[n] if striking >> t & 1})

    sure = sum(1 << n for n in range(len(ordered)) if n not in strikers)
    for n in range(len(ordered)):
        sure |= order.before[n] if sure >> n & 1 else 0
    out, before = 0, (-1, -1)
    while before != (sure, out):
        before = sure, out
        for n in strikers:
            if sure >> n & 1 or left(n, ~out) >= least[n]:
                sure |= order.before[n] | 1 << n
            elif left(n, sure) < least[n] and not order.after[n] & ~out:
                out |= 1 << n
        if before == (sure, out):
            # The resolutions that are still undecided strike each other out, so all of them stand.
            sure |= mask & ~out
    return frozenset(ordered[n].digest for n in strikers if out >> n & 1)
