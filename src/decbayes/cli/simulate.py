"""`decbayes simulate`: a simulated group in the terminal, live."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat, NonNegativeInt, PositiveInt
from rich.console import Console, Group
from rich.live import Live
from rich.progress import track
from rich.table import Table
from rich.text import Text

from decbayes.cli.outputs import check_output
from decbayes.cli.show import save_picture
from decbayes.cli.terminal import Output
from decbayes.errors import DecbayesError
from decbayes.extras import require
from decbayes.network.schedule import ROUGH, History, Plan, run_history
from decbayes.network.simulator import CALM, Simulation, Site

Topology = Literal["changing", "clique", "line", "random", "ring", "tree"]


def simulate(
    *,
    agents: Annotated[PositiveInt, Parameter(help="How many sites there are.")] = 8,
    steps: Annotated[NonNegativeInt, Parameter(help="How many steps the faults last.")] = 200,
    seed: Annotated[NonNegativeInt, Parameter(help="Everything follows from it.")] = 0,
    topology: Annotated[Topology, Parameter(help='Who is whose neighbour; "changing" rewires all links.')] = "random",
    traitors: Annotated[
        bool, Parameter(help="One site signs two records under one version, and is found out.")
    ] = False,
    calm: Annotated[bool, Parameter(help="No faults, and perfect links.")] = False,
    pause: Annotated[NonNegativeFloat, Parameter(help="Seconds between two steps.")] = 0.05,
    histories: Annotated[
        NonNegativeInt, Parameter(help="Check so many seeds at full speed instead, without the view.")
    ] = 0,
    picture: Annotated[Path | None, Parameter(help="Draw the network when the faults end and when all agree.")] = None,
) -> None:
    """Watch simulated agents join, leave, crash and lose messages, and agree in the end."""
    console = Output()
    if histories and picture is not None:
        raise DecbayesError("--picture draws one history; leave --histories out.")
    check_output(picture)
    if picture is not None:
        require("matplotlib", extra="plot", task="The picture")  # before the wait, not after it
    if histories:
        check_many(histories, agents, steps, seed, console)
        return
    weather = CALM if calm else ROUGH
    plan = Plan(agents, steps, topology, weather, faults=not calm, traitors=traitors)
    moments = watch(History(plan, seed), pause, console)
    if picture is not None:
        save_picture(draw(moments), picture)


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


def watch(history: History, pause: float, console: Console) -> tuple[Moment, Moment]:
    """Show one history step by step, then how the group comes to agree; what it was like before and after that."""
    simulation = history.simulation
    with Live(console=console, auto_refresh=False, transient=False) as live:
        for _ in range(history.plan.steps):
            history.step()
            live.update(view(simulation, history.last), refresh=True)
            time.sleep(pause)
        rough = Moment.now(simulation, f"after {history.plan.steps} steps; grey sites are down")
        history.calm()
        rounds = history.agree()
        live.update(view(simulation, f"calm; all agree after {rounds} rounds"), refresh=True)
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
