"""`decbayes simulate`: watch a simulated group in the terminal. Each model is a command; the default is a mixture."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import App, Parameter
from cyclopts.types import NonNegativeFloat, NonNegativeInt, PositiveInt

from decbayes.base.extras import require_extra
from decbayes.cli.shared.common_options import PageOption, Record, linger, live_page
from decbayes.cli.shared.model_options import (
    KEYWORD,
    about,
    add_model_commands,
    as_option,
    options_before_data,
    simulated_model,
)
from decbayes.cli.shared.outputs import DPI, Dpi, check_picture, save_picture
from decbayes.cli.shared.running import WrongArgument, example
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import Output
from decbayes.models.core.model import Model
from decbayes.models.core.registry import command_name

if TYPE_CHECKING:
    from decbayes.network.simulation.studies import Study

app = App(name="simulate", help="Watch simulated agents join, leave, crash and lose messages, and agree in the end.")

OUTCOME = ("model", "agents", "steps", "rounds", "observations", "messages", "bytes", "lost")
SCORES = ("score", "score_at_once")
SHARD = 30
Topology = Literal["changing", "clique", "line", "random", "ring", "tree"]


@Parameter(name="*")
@dataclass(frozen=True)
class SimulatedGroup:
    """The simulated group, and how to show it."""

    agents: Annotated[PositiveInt, Parameter(help="Number of sites, each with one agent.")] = 8
    steps: Annotated[NonNegativeInt, Parameter(help="Number of steps with faults.")] = 200
    seed: Annotated[NonNegativeInt, Parameter(help="Random seed of the whole simulation.")] = 0
    topology: Annotated[Topology, Parameter(help='Which agents are neighbours; "changing" rewires them.')] = "random"
    traitors: Annotated[bool, Parameter(help="One site signs two records with one version, and is found out.")] = False
    calm: Annotated[bool, Parameter(help="No faults, perfect links.")] = False
    pause: Annotated[NonNegativeFloat, Parameter(help="Seconds between two steps.")] = 0.05
    histories: Annotated[
        NonNegativeInt, Parameter(help="Check this many seeds at full speed, without showing them.")
    ] = 0
    picture: Annotated[
        Path | None,
        Parameter(help="Write a picture of the network after the faults and in agreement (.png, .svg, .pdf)."),
    ] = None
    dpi: Dpi = DPI
    page: PageOption = None
    record: Record = None
    as_json: Annotated[
        bool, json_option("simulation", *OUTCOME, "with a model", *SCORES, "or with --histories", "histories")
    ] = False

    def check(self) -> None:
        """Refuse options that contradict each other, and a picture that cannot be drawn."""
        extras = ["net", *(["plot"] if self.picture is not None else []), *(["page"] if self.page is not None else [])]
        require_extra(*extras, task="decbayes simulate")
        if self.histories and self.picture is not None:
            raise WrongArgument("--picture draws one history; leave --histories out.")
        if self.histories and self.page is not None:
            raise WrongArgument("--page shows one history; leave --histories out.")
        check_picture(self.picture)


EIGHT = SimulatedGroup()


@app.default
def simulate(*, group: SimulatedGroup = EIGHT) -> None:
    """Watch simulated agents find three clusters, or fit the model that is named before the options.

    With --histories they estimate one mean, which can be checked to the last digits.
    """
    group.check()
    from decbayes.network.simulation.studies import ONE_MEAN, three_clusters

    run(ONE_MEAN if group.histories else three_clusters(np.random.default_rng(group.seed)), group)


Observations = Annotated[PositiveInt, Parameter(help="Observations in each shard; a site has up to three shards.")]
Like = Annotated[Path | None, Parameter(help="A posterior: use its model and prior, and draw the truth from it.")]
OPTIONS = (
    inspect.Parameter("observations", KEYWORD, default=SHARD, annotation=Observations),
    inspect.Parameter("like", KEYWORD, default=None, annotation=Like),
    inspect.Parameter("group", KEYWORD, default=EIGHT, annotation=SimulatedGroup),
)


def simulate_command(kind: type[Model]) -> Callable[..., None]:

    def command(**options: Any) -> None:
        simulate_model(kind, **options)

    command.__signature__ = inspect.Signature([*options_before_data(kind), *OPTIONS])  # type: ignore[attr-defined]
    command.__doc__ = help_text(kind)
    return command


def help_text(kind: type[Model]) -> str:
    number_option = f" {as_option(kind.number)} 3" if kind.number else ""
    return (
        f"{about(kind)}\n\n"
        "Watch simulated agents fit this model, join, leave, crash and lose messages, and agree in the end.\n\n"
        "The true parameters are drawn from the prior; with --like from a posterior, so that data resemble yours.\n\n"
        + example(f"decbayes simulate {command_name(kind)}{number_option} --agents 6")
    )


def simulate_model(
    kind: type[Model],
    *,
    observations: int = SHARD,
    like: Path | None = None,
    group: SimulatedGroup = EIGHT,
    **settings: Any,
) -> None:
    """Draw the truth, watch a group find it, and compare with one fit of all data."""
    group.check()
    from decbayes.network.simulation.studies import OfModel

    model, truth, drawing = simulated_model(kind, settings, like)
    if model.undecided:
        raise WrongArgument(f"A group agrees on one number: {as_option(model.undecided)} must not be 'auto' here.")
    rng = np.random.default_rng(group.seed)
    run(OfModel(model, observations=observations, rng=rng, truth=truth, options=drawing), group)


def run(study: "Study", group: SimulatedGroup) -> None:
    """Show one history, or check many."""
    from decbayes.cli.commands.planning._simulation import SimulationPage, check_many, draw, outcome, print_end, watch
    from decbayes.network.simulation.schedule import ROUGH, History, HistoryPlan
    from decbayes.network.simulation.simulator import CALM

    console = Output(stderr=group.as_json)
    if group.histories:
        checked = check_many(study, group.histories, group.agents, group.steps, group.seed, console)
        if group.as_json:
            print_json(checked)
        return
    weather = CALM if group.calm else ROUGH
    plan = HistoryPlan(
        group.agents, group.steps, group.topology, weather, faults=not group.calm, traitors=group.traitors
    )
    with live_page(group.page, console, group.record) as page:
        history = History(plan, group.seed, study=study)
        show = (lambda: None) if page is None else SimulationPage(page, history)
        moments = watch(history, group.pause, console, show)
        if page is not None:
            linger(page, console, "Finished: all sites agree.")
    if group.picture is not None:
        save_picture(draw(moments), group.picture, group.dpi)
    values = outcome(history, moments[-1])
    print_end(history, values, console)
    if group.as_json:
        print_json(values)


__getattr__ = add_model_commands(app, __name__, simulate_command)
