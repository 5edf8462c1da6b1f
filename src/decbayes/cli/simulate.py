"""`decbayes simulate`: a simulated group in the terminal, live."""

import time
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt
from rich.console import Console, Group
from rich.live import Live
from rich.progress import track
from rich.table import Table
from rich.text import Text

from decbayes.network.schedule import ROUGH, History, Plan, run_history
from decbayes.network.simulator import CALM, Simulation, Site

Topology = Literal["changing", "clique", "line", "random", "ring", "tree"]


def simulate(
    *,
    agents: int = 8,
    steps: int = 200,
    seed: NonNegativeInt = 0,
    topology: Topology = "random",
    traitors: bool = False,
    calm: bool = False,
    pause: Annotated[float, Parameter(help="Seconds between two steps.")] = 0.05,
    histories: Annotated[int, Parameter(help="Check so many seeds at full speed instead, without the view.")] = 0,
) -> None:
    """Watch simulated agents join, leave, crash and lose messages, and agree in the end.

    The agents are the real ones; the network is not. Every step is checked: versions never regress, nothing is counted
    twice, nothing is sent before it is durable. The end is compared with the posterior of all data at once.

    Parameters
    ----------
    agents
        How many sites there are.
    steps
        How many steps the faults last.
    seed
        Everything follows from it.
    topology
        Who is whose neighbour; "changing" rewires all links now and then.
    traitors
        One site signs two records under one version, and is found out.
    calm
        No faults, and perfect links.
    """
    console = Console()
    if histories:
        check_many(histories, agents, steps, seed, console)
        return
    weather = CALM if calm else ROUGH
    plan = Plan(agents, steps, topology, weather, faults=not calm, traitors=traitors)
    watch(History(plan, seed), pause, console)


def check_many(histories: int, agents: int, steps: int, seed: int, console: Console) -> None:
    """Run many histories, each checked at every step."""
    for number in track(range(seed, seed + histories), description="histories", console=console):
        run_history(number, agents=agents, steps=steps)
    console.print(f"{histories:,} histories of {agents} agents and {steps} steps: all guarantees held at every step.")


def watch(history: History, pause: float, console: Console) -> None:
    """Show one history step by step, then how the group comes to agree."""
    simulation = history.simulation
    with Live(console=console, auto_refresh=False, transient=False) as live:
        for _ in range(history.plan.steps):
            history.step()
            live.update(view(simulation, history.last), refresh=True)
            time.sleep(pause)
        history.calm()
        rounds = history.agree()
        live.update(view(simulation, f"calm; all agree after {rounds} rounds"), refresh=True)
    console.print("\nEvery site holds the same bits: the posterior of all counted data at once, to 1e-9.")


def view(simulation: Simulation, event: str) -> Group:
    """One row a site: what it is doing, whom it has heard of, and the posterior it holds."""
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
    usual = merged.posterior.usual("mean")
    mean = f"{float(np.ravel(usual['mean'])[0]):.4f} ± {float(np.sqrt(np.ravel(usual['variance'])[0])):.4f}"
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
