"""How much one neighbour may send, and have sent, between two ticks: a bound on what a bad one can cost."""

from collections import Counter

from decbayes.errors import Refused
from decbayes.network.protocol.limits import Limits


class Budgets:
    """Bytes and messages of each neighbour since the last tick."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._received: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()
        self._sent: Counter[str] = Counter()

    def receive(self, peer: str, size: int) -> None:
        """Count a message in, or refuse it."""
        self._messages[peer] += 1
        self._received[peer] += size
        if self._messages[peer] > self._limits.tick_messages or self._received[peer] > self._limits.tick_bytes:
            raise Refused("budget", f"more than {self._limits.tick_messages:,} messages or too many bytes in one tick.")

    def spend(self, peer: str, size: int) -> bool:
        """Whether a body may still be sent to a neighbour in this tick; the first always may."""
        allowed = not self._sent[peer] or self._sent[peer] + size <= self._limits.tick_bytes
        self._sent[peer] += size if allowed else 0
        return allowed

    def refill(self) -> None:
        for counter in (self._received, self._messages, self._sent):
            counter.clear()
