"""The course of events: sites join one by one, one is killed and returns, one is late, and all agree in the end."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from decbayes.demo.digits import SETTINGS, SITES, Digits, Story
from decbayes.errors import TransportFailed
from decbayes.network import Charter, Identity, Limits, Record, SqliteStore
from decbayes.network.runtime.links import Links
from decbayes.network.runtime.links.ask import Inquiry
from decbayes.network.runtime.spawn import Party
from decbayes.posterior import Posterior

VICTIM, LATECOMER = SITES[3], SITES[7]
REFINEMENTS = 2
# The group agrees if nothing has changed for this long; refining waits for three quiet seconds.
QUIET_SECONDS = 4.5
# A slow machine need not finish refining, but the sites must agree.
PATIENCE_SECONDS, MOST_SECONDS = 70.0, 300.0


@dataclass
class Watched:
    """The latest status of an agent."""

    site: str
    inquiry: Inquiry | None = None
    state: str = "not there yet"
    heard: frozenset[str] = frozenset()
    root: str = ""
    changed: float = 0.0
    score: float | None = None
    status: dict[str, Any] = field(default_factory=dict)


@dataclass
class Events:
    """Runs the group and watches it; calls `show` whenever there is something new to see."""

    party: Party
    story: Story
    show: Callable[[], None] = lambda: None
    watched: dict[str, Watched] = field(default_factory=lambda: {site: Watched(site) for site in SITES})

    def run(self) -> None:
        early = [site for site in SITES if site != LATECOMER]
        for site in early:
            self._join(site)
        self._until(lambda: self._agree(frozenset(early)))
        self._kill(VICTIM)
        self._join(LATECOMER, "joins late", mark="joins")
        self._until(lambda: self._agree(frozenset(SITES)))
        self._join(VICTIM, "comes back, with what it had stored", mark="back")
        self._until(lambda: self._agree(frozenset(SITES)) and self._settled())
        self._finish()

    @property
    def live(self) -> list[Watched]:
        return [agent for agent in self.watched.values() if agent.inquiry is not None]

    def close(self) -> None:
        for agent in self.live:
            assert agent.inquiry is not None
            agent.inquiry.close()

    def _join(self, site: str, text: str = "starts", *, mark: str = "") -> None:
        """Start a site that connects to the two latest ones that are running."""
        neighbours = [self.party.agents[agent.site].endpoint() for agent in self.live[-2:]]
        links = [word for endpoint in neighbours for word in ("--connect", endpoint)]
        data = str(self.party.folder / f"{site}.npy")
        seed = str(SITES.index(site))
        self.watched[site].state = "starting"
        process = self.party.start(site, "--data", data, *links, "--refine", str(REFINEMENTS), "--seed", seed)
        self.story.add_event(f"{site} {text}", mark=f"{site} {mark}" if mark else "")
        self._until(lambda: bool(process.events("listening")) or not process.running)
        links_here = Links(listen=(), connect=(process.endpoint(),))
        self.watched[site].inquiry = Inquiry(self.party.charter, links_here)
        self.watched[site].state = "up"

    def _kill(self, site: str) -> None:
        self.party.agents[site].kill()
        agent = self.watched[site]
        if agent.inquiry is not None:
            agent.inquiry.close()
        agent.inquiry, agent.state = None, "killed"
        self.story.add_event(f"{site} is killed; its contribution still counts", mark=f"{site} killed")
        self.show()

    def _finish(self) -> None:
        inquiry = self.live[0].inquiry
        assert inquiry is not None
        self.story.agreed = inquiry.posterior().posterior
        self.story.add_event(f"{len(self.live)} sites agree, bit by bit, on the contributions of all {len(SITES)}")
        self.show()

    def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self.story.seconds > MOST_SECONDS:
                raise TransportFailed(f"The sites did not agree within {MOST_SECONDS:.0f} s; see {self.party.folder}.")
            for agent in self.live:
                self._look(agent)
            self.show()
            time.sleep(0.2)

    def _look(self, agent: Watched) -> None:
        assert agent.inquiry is not None
        agent.status = status = agent.inquiry.status()
        if status["root"] == agent.root:
            return
        agent.heard, agent.root, agent.changed = frozenset(status["heard"]), status["root"], time.monotonic()
        if not agent.heard:
            return
        agent.score = self.story.add_score(agent.site, agent.inquiry.posterior().posterior)
        if agent.site in agent.heard and agent.site not in self.story.alone:
            self.story.alone[agent.site] = self._first_posterior(agent.site)

    def _first_posterior(self, site: str) -> Posterior:
        """A site's first posterior, from its store."""
        charter = self.party.charter
        with SqliteStore(self.party.folder / f"{site}.store", charter, read_only=True) as store:
            records = [item for item in store.load() if isinstance(item, Record)]
        (first,) = [record for record in records if charter.names[record.origin] == site]
        assert first.posterior is not None
        return first.posterior

    def _agree(self, sites: frozenset[str]) -> bool:
        return all(agent.heard == sites for agent in self.live) and len({agent.root for agent in self.live}) == 1

    def _settled(self) -> bool:
        quiet = time.monotonic() > max(agent.changed for agent in self.live) + QUIET_SECONDS
        return quiet or self.story.seconds > PATIENCE_SECONDS


def prepare(folder: Path, digits: Digits) -> Party:
    """Write the keys, the charter and every site's data to files."""
    identities = {site: Identity.generate() for site in SITES}
    charter = Charter(
        group="digits",
        model_name="GaussianMixture",
        settings=SETTINGS,
        members={site: identity.public for site, identity in identities.items()},
        limits=Limits(members=len(SITES), record_bytes=1 << 20),
    )
    party = Party(folder, charter)
    party.prepare(identities)
    for site, images in digits.shards.items():
        np.save(folder / f"{site}.npy", images)
    return party
