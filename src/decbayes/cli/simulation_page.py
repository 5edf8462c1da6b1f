"""A simulated group on a page."""

from typing import Any

from decbayes.network.runtime.stored import members
from decbayes.network.runtime.watching import Showing
from decbayes.network.simulation.schedule import History
from decbayes.network.simulation.sites import Site
from decbayes.page import Page
from decbayes.page.outside import Arrivals, outside_view


class SimulationPage:
    """Shows a history's last step whenever it is called; the posterior is that of the site that counts most."""

    def __init__(self, page: Page, history: History) -> None:
        self._page, self._history = page, history
        self._showing, self._arrivals, self._set, self._time = Showing(page), Arrivals(), "", -1

    def __call__(self) -> None:
        simulation, last = self._history.simulation, self._history.last.replace("_", " ")
        sites = simulation.sites
        links = [(named(sites[a]), named(sites[b])) for a, b in sorted(simulation.links)]
        self._page.show("network", outside_view("simulation", "GaussianMean", [told(site) for site in sites], links))
        if simulation.time != self._time:
            self._time = simulation.time
            self._page.tell({"event": "step", "text": f"step {simulation.time}: {last}"})
        held = {named(site): versions(site, sites) for site in simulation.running}
        for event in self._arrivals.news(held, links):
            self._page.tell(event)
        self._show_posterior()

    def _show_posterior(self) -> None:
        simulation = self._history.simulation
        merges = [site.agent.merged() for site in simulation.running if site.agent is not None]
        merged = max(merges, key=lambda each: each.observations, default=None)
        if merged is None or merged.set_hash == self._set:
            return
        self._set = merged.set_hash
        names = {key: named(site) for site in simulation.sites for key in site.keys}
        self._showing(simulation.charter, merged, [names.get(origin, "?") for origin, _, _ in merged.entries])


def named(site: Site) -> str:
    return f"site {site.name}"


def versions(site: Site, sites: list[Site]) -> dict[str, int]:
    """The version of each site that this one holds."""
    assert site.agent is not None
    names = {key: named(other) for other in sites for key in other.keys}
    return {names.get(origin, "?"): version for origin, version, _ in site.agent.pool.entries()}


def told(site: Site) -> dict[str, Any]:
    """A site as it sees itself."""
    if site.agent is None:
        return {"name": named(site), "link": "gone", "state": "down"}
    known = members(site.agent.pool, None)
    own = known.get(site.agent.pool.roster.called(site.agent.id), {})
    return {"name": named(site), **own, "link": "up"}
