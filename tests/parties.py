"""Groups of real agent processes on loopback, and what to expect of them."""

import time
from pathlib import Path

import numpy as np
from groups import gaussian_charter, identities

from decbayes.network.runtime.links import Links
from decbayes.network.runtime.links.ask import Inquiry
from decbayes.network.runtime.reports.description import Answer
from decbayes.network.runtime.spawn import AgentProcess, Party
from decbayes.network.runtime.store import stored

POINTS = 20


class Means(Party):
    """Agents that estimate one mean from their own points: whatever happened, the merge must equal batch."""

    def __init__(self, folder: Path, count: int, *, dimension: int = 3, **limits: int) -> None:
        members = identities(count)
        super().__init__(folder, gaussian_charter(members, dimension=dimension, **limits))
        self.dimension = dimension
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
            known.append(rng.normal(2.0, 1.0, size=(POINTS, self.dimension)))
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

    def agreement(self, live: list[str], everybody: set[str], *, timeout: float) -> float:
        """Wait until the live agents hold the same set, with all of everybody's points; the seconds it took."""
        inquiries = [Inquiry(self.charter, Links(listen=(), connect=(self.agents[n].endpoint(),))) for n in live]
        start = time.monotonic()
        try:
            while time.monotonic() < start + timeout:
                answers = [inquiry.posterior() for inquiry in inquiries]
                sets = {answer.description["set"] for answer in answers}
                if len(sets) == 1 and answers[0].description["observations"] == len(self.points_of(everybody)):
                    assert len({answer.posterior.digest for answer in answers}) == 1, (
                        "one set, one posterior, bit by bit"
                    )
                    self.check_batch(answers[0], everybody)
                    return time.monotonic() - start
                time.sleep(0.1)
        finally:
            for inquiry in inquiries:
                inquiry.close()
        raise AssertionError(f"no agreement after {timeout} s: {[answer.description for answer in answers]}")

    def stored(self, name: str) -> Answer:
        return stored(self.folder / f"{name}.store", self.charter)
