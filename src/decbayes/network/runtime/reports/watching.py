"""What an agent shows on its page. Expensive descriptions are made in a thread of their own."""

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from typing import Any

from decbayes.merging import Alignment, Reliability
from decbayes.merging.base.compatibility import alike
from decbayes.merging.base.lineage import ids_of
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.network.protocol.agent import Agent
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.records.merges import UNCOMPUTABLE, Merged
from decbayes.network.runtime.queues import Worker
from decbayes.network.runtime.reports.description import problems, sum_lines
from decbayes.network.runtime.reports.log import sentence
from decbayes.network.runtime.reports.metrics import metrics_text, troubles
from decbayes.page import Page
from decbayes.page.describing import described
from decbayes.posterior import Posterior

# The pause after a description, relative to its duration: the page takes at most a few percent of the agent's time.
REST = 32.0
LEAST_REST_SECONDS = 0.4
# The silence after which a neighbour is shown as silent.
SILENT_SECONDS = 5.0

# The quiet time after which probabilities of matches are simulated.
QUIET_SECONDS = 10.0

Score = Callable[[Posterior], float]
"""How well a posterior predicts held-back data of this site."""

Learn = Callable[[Alignment], Reliability]
"""The reliability of margins, from simulations of similar sites; refused if that would take long."""


class Watcher:
    """Keeps a page up to date with one agent."""

    def __init__(self, page: Page, score: Score | None = None, learn: Learn | None = None) -> None:
        self.page = page
        self._showing = Showing(page, score, learn)
        self._describe = Worker()
        self._names: dict[str, str] = {}
        self._linked: set[str] = set()
        self._left: dict[str, float] = {}
        self._root, self._busy, self._next, self._lost = b"", False, 0.0, False
        self._shown, self._described = False, 0.0

    @property
    def url(self) -> str:
        return self.page.url

    # In the agent's thread

    def look(self, agent: Agent, status: dict[str, Any]) -> None:
        """Show the agent's status, about once a second."""
        names = {peer: agent.pool.roster.called(who) for peer, who in agent.guests.items()}
        linked = {str(neighbour["member"]) for neighbour in status["neighbours"] if neighbour["member"] is not None}
        now = time.monotonic()
        for name in sorted(linked - self._linked):
            self.page.tell({"event": "joined", "member": name, "text": f"{name} is linked"})
        for name in sorted(self._linked - linked):
            self.page.tell({"event": "left", "member": name, "text": f"{name} is gone; its contribution still counts"})
        self._left = {name: self._left.get(name, now) for name in (self._left.keys() | self._linked) - linked}
        self._names, self._linked = names, linked
        self.page.show("network", network_view(agent.charter, status, {n: now - t for n, t in self._left.items()}))
        self.page.show("metrics", metrics_text(status))
        self.page.show("health", troubles(status))
        if self._showing.wants_to_learn and not self._busy and now >= max(self._next, self._described + QUIET_SECONDS):
            self._busy = True
            self._describe.submit(self._learn)

    def hear(self, line: Mapping[str, Any]) -> None:
        """Show a line of the log; neighbours that come and go are shown by `look`, with their names."""
        if line["event"] == "linked":
            return
        event = {"event": line["event"], "member": line.get("member"), "text": sentence(line)}
        if line["event"] == "accepted":
            event["through"] = self._names.get(str(line.get("peer")))
        self.page.tell(event)

    def due(self, root: bytes) -> bool:
        """Whether the records have changed since they were last shown and it is time to call `merge`."""
        if root == self._root or self._busy or time.monotonic() < self._next or not self.page.alive:
            return False
        self._busy = True  # here and not in `merge`, which may wait its turn for many ticks
        return True

    def lost(self) -> bool:
        """Whether the page has just ended by itself; True only once."""
        ended = not self._lost and not self.page.alive
        self._lost = self._lost or ended
        return ended

    # In the merging thread

    def merge(self, agent: Agent) -> None:
        """Merge all records, to be described in another thread."""
        begin = time.process_time()
        # A copy, because two threads must not use the agent's own pool.
        pool = agent.pool.as_of_now()
        self._root = pool.root
        try:
            merged = pool.merged()
        except UNCOMPUTABLE as error:
            self.page.show("posterior", {"error": str(error)})
            self._rest(time.process_time() - begin)
            return
        self._describe.submit(partial(self._show, agent, merged, time.process_time() - begin))

    # In a thread of its own, whose failure affects nothing else

    def _show(self, agent: Agent, merged: Merged, spent: float) -> None:
        begin = time.process_time()
        names = [agent.pool.roster.called(origin) for origin, _, _ in merged.entries]
        try:
            self._showing(agent.charter, merged, names)
        except UNCOMPUTABLE as error:
            self.page.show("posterior", {"error": str(error)})
        self._described = time.monotonic()
        self._rest(spent + time.process_time() - begin)

    def _learn(self) -> None:
        begin = time.process_time()
        self._showing.learn()
        self._rest(time.process_time() - begin)

    def _rest(self, spent: float) -> None:
        """Pause in proportion to the processor time of all threads; the first time, which loads modules, briefly."""
        rest = max(REST * spent, LEAST_REST_SECONDS) if self._shown else LEAST_REST_SECONDS
        self._next, self._shown, self._busy = time.monotonic() + rest, True, False


class Showing:
    """Shows one merged posterior after another; components keep their numbers."""

    def __init__(self, page: Page, score: Score | None = None, learn: Learn | None = None) -> None:
        self._page, self._score, self._teach = page, score, learn
        self._before: Posterior | None = None
        self._describe: Callable[[Reliability | None], None] | None = None
        self._alignment: Alignment | None = None

    def __call__(self, charter: Charter, merged: Merged, names: list[str]) -> None:
        posterior, self._alignment = self._followed(charter, merged)
        whole = charter.update.whole(posterior)
        empty = whole == Posterior.of_prior(whole.structure)
        score = None if self._score is None or empty else self._score(whole)
        known = score if score is not None and isfinite(score) else None  # JSON knows no infinity
        earlier = 0 if charter.epoch is None else charter.epoch.observations
        facts = {"observations": earlier + merged.observations, "set": merged.set_hash, "score": known}
        if merged.counting is not None:
            facts["counting"] = earlier + merged.counting
        self._describe = partial(self._show, model_for(whole.structure), whole, self._alignment, names, facts)
        self._describe(None)

    @property
    def wants_to_learn(self) -> bool:
        """Whether shown matches still lack probabilities."""
        several = self._alignment is not None and len(self._alignment.posteriors) > 1
        return self._teach is not None and self._describe is not None and several

    def learn(self) -> None:
        """Show the last merge again, with probabilities of matches; once per merge."""
        describe, self._describe = self._describe, None
        if describe is None or self._teach is None or self._alignment is None:
            return
        try:
            describe(self._teach(self._alignment))
        except UNCOMPUTABLE:
            return  # a simulation has failed: margins are shown instead

    def _show(
        self,
        model: Model,
        whole: Posterior,
        alignment: Alignment | None,
        names: list[str],
        facts: dict[str, Any],
        reliability: Reliability | None,
    ) -> None:
        shown = described(model, whole, alignment, names, reliability, **facts)
        self._page.show("details", shown.details)
        self._page.show("posterior", shown.posterior)

    def _followed(self, charter: Charter, merged: Merged) -> tuple[Posterior, Alignment | None]:
        """The merge with its components numbered as before, as far as they can be followed."""
        alignment, before = merged.alignment, self._before
        # The alignment of a robust merge does not give its sum.
        if alignment is None or charter.rules.robust or not alignment.structure.resizable:
            return merged.posterior, alignment
        if before is not None and alike(before.structure, alignment.structure):
            alignment = alignment.since(before)
            for kind, text in changes(before, alignment):
                self._page.tell({"event": kind, "member": None, "text": text})
        self._before = alignment.merged()
        return self._before, alignment


def changes(before: Posterior, alignment: Alignment) -> Iterator[tuple[str, str]]:
    """What happened to components since an earlier merge, by their numbers."""
    if alignment.lineage is None:
        return
    names = [*enumerate(ids_of(before)), *enumerate(ids_of(alignment.merged()))]
    numbers = {id: number for number, id in names}
    events = alignment.lineage.events
    born, gone = ({numbers.get(event.id) for event in events if event.kind == kind} for kind in ("born", "gone"))
    for event in events:
        number, other = numbers.get(event.id), numbers.get(event.other)
        if event.kind in ("split", "joined"):
            how = "split off from" if event.kind == "split" else "joined"
            yield event.kind, f"component {number} has {how} component {other} ({event.share:.0%} of it)"
        elif event.kind == "born":
            yield event.kind, f"component {number} is {'replaced' if number in gone else 'new'}"
        elif event.kind == "gone" and number not in born:
            yield event.kind, f"component {number} is gone"


def network_view(charter: Charter, status: Mapping[str, Any], left: Mapping[str, float]) -> dict[str, Any]:
    """All members as this agent sees them: linked ones, those that have left, and others."""
    linked = {
        str(neighbour["member"]): neighbour for neighbour in status["neighbours"] if neighbour["member"] is not None
    }
    me = status["agent"]
    return {
        "group": charter.group,
        "model": charter.model_name,
        "viewpoint": me,
        "charter": status["charter"],
        "software": status["software"],
        "set": status["root"][:12],
        "members": [
            {"name": name, **known, **link_of(name, me, linked.get(name), left.get(name))}
            for name, known in status["members"].items()
        ],
        "links": [[me, name] for name in linked],
        "strangers": sum(neighbour["member"] is None for neighbour in status["neighbours"]),
        "problems": problems(status, status["charter"]),
        "decisions": status["decisions"],
        **({"sums": sum_lines(status["sums"])} if "sums" in status else {}),
        "intervals": status.get("intervals"),
    }


def link_of(name: str, me: str, neighbour: Mapping[str, Any] | None, left: float | None) -> dict[str, Any]:
    """How this agent is currently linked with a member."""
    if name == me:
        return {"link": "self"}
    if neighbour is None:
        return {"link": "none"} if left is None else {"link": "gone", "seconds_ago": round(left, 1)}
    if neighbour.get("silent"):
        return {"link": "silent"}
    shown = {key: neighbour[key] for key in ("behind", "seconds_ago", "software", "charter")}
    return {"link": "silent" if shown["seconds_ago"] > SILENT_SECONDS else "up", **shown}
