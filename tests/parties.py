"""Groups of real agent processes on loopback, and what to expect of them."""

import time
from pathlib import Path

import forked
import numpy as np
from groups import gaussian_charter, identities

from decbayes.network.runtime.links import Links
from decbayes.network.runtime.links.ask import Inquiry
from decbayes.network.runtime.reports.description import Answer
from decbayes.network.runtime.spawn import AgentProcess, Party
from decbayes.network.runtime.store import stored

POINTS = 20
# Agents agree in a second; on a machine with much else to do it may take long.
SECONDS = 30.0


def until(condition, *, timeout=SECONDS):
    """Whether the condition holds in time; looked at thirty times a second."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.03)
    return False


def inquiry(party, name, **options):
    """Questions to one of a party's agents."""
    return Inquiry(party.charter, Links(listen=(), connect=(party.agents[name].endpoint(),), **options))


class Agent(AgentProcess):
    """A `decbayes agent` that starts at once; a prefix `ip netns exec NAME` puts it into that network namespace."""

    def begin(self, arguments, prefix, log):
        return forked.start(arguments, output=log, namespace=prefix[-1] if prefix else "")


class Means(Party):
    """Agents that estimate one mean from their own points: whatever happened, the merge must equal batch."""

    process = Agent

    def __init__(self, folder: Path, count: int, *, dimension: int = 3, size: int = POINTS, **limits: int) -> None:
        members = identities(count)
        super().__init__(folder, gaussian_charter(members, dimension=dimension, **limits))
        self.dimension, self.size = dimension, size
        self.identities = {self.charter.names[member.id]: member for member in members}
        self.prepare(self.identities)
        self.points: dict[str, list[np.ndarray]] = {}

    def join(
        self,
        name: str,
        *arguments: str,
        shards: int = 1,
        neighbours: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
    ) -> AgentProcess:
        """Start a member with so many new shards of its own beside those it had before."""
        known = self.points.setdefault(name, [])
        for number in range(len(known), len(known) + shards):
            rng = np.random.default_rng([*name.encode(), number])
            known.append(rng.normal(2.0, 1.0, size=(self.size, self.dimension)))
            np.save(self.folder / f"{name}-{number}.npy", known[-1])
        files = [self.folder / f"{name}-{number}.npy" for number in range(len(known))]
        data = [argument for file in files for argument in ("--data", str(file))]
        links = [argument for one in neighbours for argument in ("--connect", self.agents[one].endpoint())]
        return self.start(name, *data, *links, *arguments, prefix=prefix)

    def points_of(self, names: set[str]) -> np.ndarray:
        return np.concatenate([shard for name in sorted(names) for shard in self.points[name]])

    def check_batch(self, answer: Answer, names: set[str]) -> None:
        """The merged posterior is that of all the members' points at once, each counted once."""
        points = self.points_of(names)
        batch = self.charter.model.fit(points).posterior
        assert answer.description["counted"].keys() == names
        assert answer.description["observations"] == len(points)
        np.testing.assert_allclose(answer.posterior.natural["mean"], batch.natural["mean"], rtol=0, atol=1e-9)

    def agreement(self, live: list[str], everybody: set[str], *, timeout: float = SECONDS) -> float:
        """Wait until the live agents hold the same set, with all of everybody's points; the seconds it took."""
        inquiries = [inquiry(self, name) for name in live]
        start, answers = time.monotonic(), []
        try:
            while time.monotonic() < start + timeout:
                # A merged posterior may be large: it is asked for once all hold the same.
                if len({ask.status()["root"] for ask in inquiries}) == 1:
                    answers = [ask.posterior() for ask in inquiries]
                    if self._agreed(answers, everybody):
                        return time.monotonic() - start
                time.sleep(0.03)
        finally:
            for ask in inquiries:
                ask.close()
        raise AssertionError(f"no agreement after {timeout} s: {[answer.description for answer in answers]}")

    def _agreed(self, answers: list[Answer], everybody: set[str]) -> bool:
        sets = {answer.description["set"] for answer in answers}
        if len(sets) > 1 or answers[0].description["observations"] != len(self.points_of(everybody)):
            return False
        assert len({answer.posterior.digest for answer in answers}) == 1, "one set, one posterior, bit by bit"
        self.check_batch(answers[0], everybody)
        return True

    def stored(self, name: str) -> Answer:
        return stored(self.folder / f"{name}.store", self.charter)
