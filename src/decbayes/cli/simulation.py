"""A simulated group as `decbayes simulate` shows it: step by step in the terminal, and as a picture."""

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

from decbayes.network.simulation.schedule import History, run_history
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.sites import Site


def check_many(histories: int, agents: int, steps: int, seed: int, console: Console) -> None:
    """Run many histories, each checked at every step."""
    for number in track(range(seed, seed + histories), description="histories", console=console):
        run_history(number, agents=agents, steps=steps)
    console.print(f"{histories:,} histories of {agents} agents and {steps} steps: all guarantees held at every step.")


@dataclass(frozen=True)
class Moment:
    """The links at some time, and how many observations each site's posterior counts; of one that is down, NaN."""

    title: str
    links: list[tuple[str, str]]
    counted: dict[str, float]

    @classmethod
    def now(cls, simulation: Simulation, title: str) -> "Moment":
        counted = {
            site.name: float("nan") if site.agent is None else float(site.agent.merged().observations)
            for site in simulation.sites
        }
        return cls(title, [(str(a), str(b)) for a, b in sorted(simulation.links)], counted)


def watch(history: History, pause: float, console: Console, show: Callable[[], None]) -> tuple[Moment, Moment]:
    """Show one history step by step, then how the group comes to agree; what it was like before and after that."""
    simulation = history.simulation
    with Live(console=console, auto_refresh=False, transient=False) as live:
        for _ in range(history.plan.steps):
            history.step()
            live.update(view(simulation, history.last), refresh=True)
            show()
            time.sleep(pause)
        rough = Moment.now(simulation, f"after {history.plan.steps} steps; grey sites are down")
        history.calm()
        rounds = history.agree()
        live.update(view(simulation, f"calm; all agree after {rounds} rounds"), refresh=True)
        show()
    console.print("\nEvery site holds the same bits: the posterior of all counted data at once, to 1e-9.")
    return rough, Moment.now(simulation, f"in agreement, {rounds} calm rounds later")


def draw(moments: tuple[Moment, Moment]) -> Any:
    """Both moments side by side, on one scale."""
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


def view(simulation: Simulation, event: str) -> Group:
    """One row per site: what it is doing, whom it has heard of, and the posterior it holds."""
    table = Table(title=f"step {simulation.time}: {event.replace('_', ' ')}", title_justify="left")
    for column in ("site", "state", "has heard of", "observations", "posterior mean", "set"):
        table.add_column(column, justify="right" if column in ("observations", "posterior mean") else "left")
    for site in simulation.sites:
        table.add_row(*row(simulation, site))
    traffic = simulation.traffic
    return Group(table, f"{traffic.messages:,} messages, {traffic.bytes:,} bytes, {traffic.lost:,} messages lost")


def row(simulation: Simulation, site: Site) -> list[str | Text]:
    if site.agent is None:
        return [site.name, Text("down", "red"), "", "", "", ""]
    pool, merged = site.agent.pool, site.agent.merged()
    heard = Text()
    for other in simulation.sites:
        known, excluded = other.identity.id in pool.records, other.identity.id in pool.proofs
        heard.append("✗" if excluded else "●" if known else "·", "red" if excluded else "green" if known else "dim")
    parameters = merged.posterior.parameters("mean")
    mean = f"{float(np.ravel(parameters['mean'])[0]):.4f} ± {float(np.sqrt(np.ravel(parameters['variance'])[0])):.4f}"
    return [site.name, state(site), heard, str(merged.observations), mean, merged.set_hash[:8]]


def state(site: Site) -> Text:
    assert site.agent is not None
    if site.identity.id in site.agent.pool.proofs:
        return Text("excluded", "red")
    if site.disk.full:
        return Text("disk full", "yellow")
    if site.agent.retracted:
        return Text("retracted", "magenta")
    return Text("waiting", "yellow") if site.agent.waiting else Text("up", "green")
