"""A simulated group for `decbayes simulate`: in the terminal, as a picture, on a page."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress import track
from rich.table import Table
from rich.text import Text

from decbayes.network.protocol.records.accounts import accounts
from decbayes.network.runtime.reports.description import members
from decbayes.network.runtime.reports.watching import Showing
from decbayes.network.simulation.guarantees import counted_data
from decbayes.network.simulation.schedule import History, run_history, simulated_identities
from decbayes.network.simulation.simulated_sites import SimulatedSite
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.studies import Study
from decbayes.page import Page
from decbayes.page.describing import Arrivals, outside_view


class SimulationPage:
    """Shows a history's last step when called, with the posterior of the site that counts the most data."""

    def __init__(self, page: Page, history: History) -> None:
        self._page, self._history = page, history
        self._showing, self._arrivals, self._set, self._time = Showing(page), Arrivals(), b"", -1

    def __call__(self) -> None:
        simulation, last = self._history.simulation, self._history.last.replace("_", " ")
        sites = simulation.sites
        links = [(site_name(sites[a]), site_name(sites[b])) for a, b in sorted(simulation.links)]
        model = simulation.charter.model_name
        self._page.show("network", outside_view("simulation", model, [site_row(site) for site in sites], links))
        if simulation.time != self._time:
            self._time = simulation.time
            self._page.tell({"event": "step", "text": f"step {simulation.time}: {last}"})
        known = {site_name(site): versions(site, sites) for site in simulation.running}
        for event in self._arrivals.news(known, links):
            self._page.tell(event)
        self._show_posterior()

    def _show_posterior(self) -> None:
        simulation = self._history.simulation
        agents = [site.agent for site in simulation.running if site.agent is not None]
        agent = max(agents, key=lambda agent: accounts(agent.pool).observations, default=None)
        if agent is None or agent.pool.root == self._set:
            return
        merged, self._set = agent.merged(), agent.pool.root
        names = {key: site_name(site) for site in simulation.sites for key in site.keys}
        self._showing(agent.charter, merged, [names.get(origin, "?") for origin, _, _ in merged.entries])


def site_name(site: SimulatedSite) -> str:
    return f"site {site.name}"


def versions(site: SimulatedSite, sites: list[SimulatedSite]) -> dict[str, int]:
    """The version of each site's record that this site holds."""
    assert site.agent is not None
    names = {key: site_name(other) for other in sites for key in other.keys}
    return {names.get(origin, "?"): version for origin, version, _ in site.agent.pool.entries()}


def site_row(site: SimulatedSite) -> dict[str, Any]:
    """A site as it sees itself."""
    if site.agent is None:
        return {"name": site_name(site), "link": "gone", "state": "down"}
    known = members(site.agent.pool, None)
    itself = known.get(site.agent.pool.roster.called(site.agent.id), {})
    return {"name": site_name(site), **itself, "link": "up"}


def check_many(study: Study, histories: int, agents: int, steps: int, seed: int, console: Console) -> dict[str, Any]:
    """Run many histories and check each at every step; returns what was checked, in plain values."""
    for number in track(range(seed, seed + histories), description="histories", console=console):
        run_history(number, agents=agents, steps=steps, study=study)
    console.print(f"{histories:,} histories of {agents} agents and {steps} steps: all guarantees held at every step.")
    model = study.charter(simulated_identities(1)).model_name
    return {"model": model, "agents": agents, "steps": steps, "histories": histories}


@dataclass(frozen=True)
class Moment:
    """The links at some time, how many observations each site's posterior counts (NaN if the site is down), and the
    number of calm rounds before."""

    title: str
    links: list[tuple[str, str]]
    counted: dict[str, float]
    rounds: int = 0

    @classmethod
    def now(cls, simulation: Simulation, title: str, rounds: int = 0) -> "Moment":
        counted = {
            site.name: float("nan") if site.agent is None else float(accounts(site.agent.pool).observations)
            for site in simulation.sites
        }
        return cls(title, [(str(a), str(b)) for a, b in sorted(simulation.links)], counted, rounds)


def watch(history: History, pause: float, console: Console, show: Callable[[], None]) -> tuple[Moment, Moment]:
    """Show one history step by step until the group agrees; returns the moments before and after the calm rounds."""
    simulation = history.simulation
    with Live(console=console, auto_refresh=False, transient=False) as live:
        for _ in range(history.plan.steps):
            history.step()
            live.update(view(history, history.last), refresh=True)
            show()
            time.sleep(pause)
        before = Moment.now(simulation, f"after {history.plan.steps} steps; grey sites are down")
        history.calm()
        rounds = history.agree()
        live.update(view(history, f"calm; all agree after {rounds} rounds"), refresh=True)
        show()
    return before, Moment.now(simulation, f"in agreement, {rounds} calm rounds later", rounds)


def outcome(history: History, agreed: Moment) -> dict[str, Any]:
    """How a history ended, in plain values."""
    traffic, plan = history.simulation.traffic, history.plan
    return {
        "model": history.simulation.charter.model_name,
        "agents": plan.agents,
        "steps": plan.steps,
        "rounds": agreed.rounds,
        "observations": max(agreed.counted.values()),
        "messages": traffic.messages,
        "bytes": traffic.bytes,
        "lost": traffic.lost,
        **comparison(history),
    }


def comparison(history: History) -> dict[str, float]:
    """Compare the most complete merge with one fit of all its data; empty if it contains a traitor's data."""
    simulation = history.simulation
    agent = max(
        (site.agent for site in simulation.running if site.agent is not None),
        key=lambda agent: accounts(agent.pool).observations,
    )
    counted = {record.origin: record for record in agent.pool.counted()}
    if counted.keys() & simulation.ledger.traitors:
        return {}
    shards = counted_data(agent.pool, simulation.sites)
    return history.study.compared(agent.posterior(), shards, history.rng)


def print_end(history: History, values: dict[str, Any], console: Console) -> None:
    """Print what the sites agree on, and how good it is."""
    console.print(f"\nEvery site holds the same bits: {history.study.expected}.")
    if "score" in values:
        unit = history.simulation.charter.model.unit
        console.print(f"Mean log density per new {unit}: {values['score']:.4f}")
        console.print(f"That of one fit of all data: {values['score_at_once']:.4f}")


def draw(moments: tuple[Moment, Moment]) -> Any:
    """Draw both moments side by side, on one scale."""
    from decbayes.plot import network
    from decbayes.plot.style import canvas, styled

    most = np.nanmax([count for moment in moments for count in moment.counted.values()])
    with styled():
        figure = canvas(6.2, 2.8)
        for moment, axes in zip(moments, figure.subplots(1, 2), strict=True):
            last = moment is moments[-1]
            label = "observations counted"
            network(moment.links, values=moment.counted, label=label, limits=(0, most), scale=last, axes=axes)
            axes.set_title(moment.title, pad=12)
    return figure


def view(history: History, event: str) -> Group:
    """One row per site: its state, the sites it has heard of, and the posterior it holds."""
    simulation, title = history.simulation, history.study.title
    table = Table(title=f"step {simulation.time}: {event.replace('_', ' ')}", title_justify="left")
    for column in ("site", "state", "has heard of", "observations", title, "set"):
        table.add_column(column, justify="right" if column in ("observations", title) else "left")
    for site in simulation.sites:
        table.add_row(*row(history, site))
    traffic = simulation.traffic
    return Group(table, f"{traffic.messages:,} messages, {traffic.bytes:,} bytes, {traffic.lost:,} messages lost")


def row(history: History, site: SimulatedSite) -> list[str | Text]:
    if site.agent is None:
        return [site.name, Text("down", "red"), "", "", "", ""]
    pool, merged = site.agent.pool, site.agent.merged()
    marks = Text()
    for other in history.simulation.sites:
        known, excluded = other.identity.id in pool.records, other.identity.id in pool.proofs
        marks.append("✗" if excluded else "●" if known else "·", "red" if excluded else "green" if known else "dim")
    text, count = history.study.text(site.agent.posterior()), accounts(pool).observations
    return [site.name, state(site), marks, str(count), text, merged.set_hash[:8]]


def state(site: SimulatedSite) -> Text:
    assert site.agent is not None
    if site.identity.id in site.agent.pool.proofs:
        return Text("excluded", "red")
    if site.disk.full:
        return Text("disk full", "yellow")
    if site.agent.retracted:
        return Text("retracted", "magenta")
    return Text("waiting", "yellow") if site.agent.waiting else Text("up", "green")
