"""The demonstration on a page: all agents, the digits that they agree on, and their scores."""

from functools import partial
from typing import Any

from decbayes.demo.events import Events, Watched
from decbayes.errors import DecbayesError
from decbayes.network.runtime.queues import Worker
from decbayes.network.runtime.reports.metrics import metrics_text, troubles
from decbayes.network.runtime.reports.watching import Showing
from decbayes.network.runtime.store import stored_pool
from decbayes.page import Page
from decbayes.page.describing import Arrivals, outside_view

LINK = {"up": "up", "killed": "gone", "starting": "starting"}
# Events that are marked in curves, and their names there.
MARKED = {"is killed": "left", "starts": "joined", "joins late": "joined", "comes back": "joined"}


class Broadcast:
    """Shows the events on a page whenever it is called."""

    def __init__(self, page: Page, events: Events) -> None:
        self._page, self._events = page, events
        self._showing, self._worker, self._arrivals = Showing(page, events.story.digits.score), Worker(), Arrivals()
        self._sent, self._shown = 0, ""

    def __call__(self) -> None:
        statuses = {agent.site: agent.status for agent in self._events.live if agent.status}
        pairs = {
            tuple(sorted((site, str(neighbour["member"]))))
            for site in statuses
            for neighbour in statuses[site]["neighbours"]
        }
        links = sorted((a, b) for a, b in pairs if a in statuses and b in statuses)
        newest: dict[str, Any] = max(statuses.values(), key=lambda status: len(status["heard"]), default={})
        members = [member(agent, newest) for agent in self._events.watched.values()]
        self._page.show("network", outside_view("digits", "GaussianMixture", members, links))
        if newest:
            self._page.show("metrics", metrics_text(newest))
            self._page.show("health", troubles(newest))
        for happening in self._events.story.events[self._sent :]:
            kinds = [kind for words, kind in MARKED.items() if words in happening.text]
            self._page.tell({"event": kinds[0] if kinds else "story", "text": happening.text})
        self._sent = len(self._events.story.events)
        for event in self._arrivals.news({site: status["heard"] for site, status in statuses.items()}, links):
            self._page.tell(event)
        if newest.get("root", self._shown) != self._shown and not self._worker.waiting:
            self._shown = newest["root"]
            self._worker.submit(partial(self._show_posterior, newest["agent"]))

    def _show_posterior(self, site: str) -> None:
        """Merge the stored records of an agent in this process, which leaves the agents undisturbed."""
        charter = self._events.party.charter
        try:
            pool = stored_pool(self._events.party.folder / f"{site}.store", charter)
            merged = pool.merged()
        except DecbayesError as error:
            self._page.show("posterior", {"error": str(error)})
            return
        self._showing(charter, merged, [pool.roster.called(origin) for origin, _, _ in merged.entries])


def member(agent: Watched, newest: dict[str, Any]) -> dict[str, Any]:
    """A site as seen by the agent that has heard most."""
    state = newest.get("members", {}).get(agent.site, {"state": "not heard of"})
    behind = agent.inquiry is not None and agent.root not in ("", newest.get("root"))
    return {"name": agent.site, **state, "link": LINK.get(agent.state, "none"), "behind": behind}
