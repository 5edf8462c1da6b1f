"""`decbayes simulate`: a simulated group in the terminal, live."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat, NonNegativeInt, PositiveInt

from decbayes.cli.shared.common_options import PageOption, linger, showing
from decbayes.cli.shared.outputs import DPI, Dpi, check_picture, save_picture
from decbayes.cli.shared.streams import json_option, print_json
from decbayes.cli.shared.terminal import Output
from decbayes.errors import DecbayesError
from decbayes.extras import require_extra

OUTCOME = ("model", "agents", "steps", "rounds", "observations", "messages", "bytes", "lost")
Topology = Literal["changing", "clique", "line", "random", "ring", "tree"]


def simulate(
    *,
    agents: Annotated[PositiveInt, Parameter(help="Number of sites, each with one agent.")] = 8,
    steps: Annotated[NonNegativeInt, Parameter(help="Number of steps with faults.")] = 200,
    seed: Annotated[NonNegativeInt, Parameter(help="Random seed of the whole simulation.")] = 0,
    topology: Annotated[Topology, Parameter(help='Which agents are neighbours; "changing" rewires them.')] = "random",
    traitors: Annotated[
        bool, Parameter(help="One site signs two records under one version, and is found out.")
    ] = False,
    calm: Annotated[bool, Parameter(help="No faults, and perfect links.")] = False,
    pause: Annotated[NonNegativeFloat, Parameter(help="Seconds between two steps.")] = 0.05,
    histories: Annotated[
        NonNegativeInt, Parameter(help="Instead check this many seeds at full speed, without showing them.")
    ] = 0,
    picture: Annotated[
        Path | None, Parameter(help="Draw the network at the end of the faults and when all agree into this file.")
    ] = None,
    dpi: Dpi = DPI,
    page: PageOption = None,
    as_json: Annotated[bool, json_option("simulation", *OUTCOME, "or with --histories", "histories")] = False,
) -> None:
    """Watch simulated agents join, leave, crash and lose messages, and agree in the end."""
    wanted = ["net", *(["plot"] if picture is not None else []), *(["page"] if page is not None else [])]
    require_extra(*wanted, task="decbayes simulate")
    from decbayes.cli.commands.planning._simulation import SimulationPage, check_many, draw, outcome, watch
    from decbayes.network.simulation.schedule import ROUGH, History, Plan
    from decbayes.network.simulation.simulator import CALM

    console = Output(stderr=as_json)
    if histories and picture is not None:
        raise DecbayesError("--picture draws one history; leave --histories out.")
    if histories and page is not None:
        raise DecbayesError("--page shows one history; leave --histories out.")
    check_picture(picture)
    if histories:
        check_many(histories, agents, steps, seed, console)
        if as_json:
            print_json({"model": "GaussianMean", "agents": agents, "steps": steps, "histories": histories})
        return
    weather = CALM if calm else ROUGH
    plan = Plan(agents, steps, topology, weather, faults=not calm, traitors=traitors)
    with showing(page, console) as shown:
        history = History(plan, seed)
        show = (lambda: None) if shown is None else SimulationPage(shown, history)
        moments = watch(history, pause, console, show)
        if shown is not None and console.is_terminal:
            linger(show, console)
    if picture is not None:
        save_picture(draw(moments), picture, dpi)
    if as_json:
        print_json(outcome(history, moments[-1]))
