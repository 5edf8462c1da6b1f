"""Bounded queues between the network's threads and the agent's: neither can fill the memory or stall the other."""

from collections import Counter, deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Any

from decbayes.network.protocol.talk import messages

# The first bytes of every digest. Only the newest digest is worth sending.
DIGEST = messages.encode(messages.Digest(bytes(32), bytes(32)))[:2]

# The memory that even an empty message takes while it waits.
CALL_BYTES = 1024
SHARES = 4

Call = Callable[[], Any]


class Inbox:
    """Calls that wait for the agent's thread.

    1. Sources take turns: however much one neighbour sends, everybody else waits for at most one of its calls.
    2. Calls that find no room are dropped and counted per source. One source may use a quarter of the room.
    3. Calls without a source are our own and always find room.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.dropped = most_bytes, 0
        self.dropped_of: Counter[str] = Counter()
        self._waiting: dict[str, deque[tuple[Call, int]]] = {}
        self._turns: deque[str] = deque()
        self._held: Counter[str] = Counter()
        self._changed = Condition()

    def post(self, call: Call, *, source: str = "", size: int = 0) -> None:
        cost = size + CALL_BYTES if source else 0
        with self._changed:
            # A message larger than a quarter is accepted if nothing else from its source waits.
            crowded = self._held[source] and self._held[source] + cost > self.most_bytes // SHARES
            if source and (crowded or self._held.total() + cost > self.most_bytes):
                self.dropped += 1
                self.dropped_of[source] += 1
                return
            self._held[source] += cost
            if source not in self._waiting:
                self._waiting[source] = deque()
                self._turns.append(source)
            self._waiting[source].append((call, cost))
            self._changed.notify()

    def take(self, timeout: float) -> Call | None:
        """The next call, if possible from another source than the last one; None on timeout."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._turns, timeout=max(timeout, 0.0)):
                return None
            source = self._turns.popleft()
            call, cost = self._waiting[source].popleft()
            self._held[source] -= cost
            if self._waiting[source]:
                self._turns.append(source)
            else:
                del self._waiting[source], self._held[source]
        return call

    def forget(self, source: str) -> None:
        """Drop all waiting calls of a source."""
        with self._changed:
            self.dropped += len(self._waiting.pop(source, ()))
            del self._held[source]
            if source in self._turns:
                self._turns.remove(source)


class Outbox:
    """Messages for one neighbour, sent by a thread of their own: a slow or stopped neighbour stalls nobody else.

    A new digest replaces the one that waits. Messages that find no room are dropped: hashes are compared again at the
    next tick, and missing bodies are requested again.
    """

    def __init__(self, transmit: Callable[[bytes], None], most_bytes: int) -> None:
        self.dropped = 0
        self._transmit, self._most_bytes = transmit, most_bytes
        self._digest: bytes | None = None
        self._waiting: deque[bytes] = deque()
        self._bytes, self._closed, self._changed = 0, False, Condition()
        Thread(target=self._run, daemon=True).start()

    def put(self, message: bytes) -> None:
        with self._changed:
            if message.startswith(DIGEST):
                self._digest = message
            elif self._waiting and self._bytes + len(message) > self._most_bytes:
                self.dropped += 1
            else:
                self._waiting.append(message)
                self._bytes += len(message)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while (message := self._next()) is not None:
            self._transmit(message)

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._digest is not None or self._waiting)
            if self._closed:
                return None
            if self._waiting:
                message = self._waiting.popleft()
                self._bytes -= len(message)
                return message
            digest, self._digest = self._digest, None
            return digest


class Worker:
    """A thread that does one job after another. It ends with the process, if necessary in the middle of a job."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def waiting(self) -> int:
        return self._jobs.qsize()

    def submit(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def close(self) -> None:
        """End once all jobs are done."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
