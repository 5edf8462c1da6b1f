"""`decbayes plan`: try a plan on simulated data before anybody fits anything. One command per model."""

import hashlib
import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from rich.table import Table

from decbayes.base.writing import write_whole
from decbayes.calibration.plans import PlanReport, advice, try_plan
from decbayes.calibration.trials import Plan, Trial
from decbayes.cli.shared.common_options import NO_PROMISE, Promise
from decbayes.cli.shared.model_options import (
    KEYWORD,
    about,
    add_model_commands,
    as_option,
    before_data,
    options_before_data,
)
from decbayes.cli.shared.outputs import DPI, Dpi, check_output, check_picture, save_picture
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, progress_bar
from decbayes.cli.shared.terminal import output as results
from decbayes.errors import InvalidData
from decbayes.files import save
from decbayes.models.core.model import Model
from decbayes.models.core.registry import command_name
from decbayes.posterior import Posterior

app = App(name="plan", help="Simulate a plan: how good would the merged posterior be?")

FORMAT = "decbayes plan 1"

Sites = Annotated[PositiveInt, Parameter(help="Number of sites.")]
Observations = Annotated[PositiveInt, Parameter(help="Observations (points, rows, documents) of each site.")]
Rounds = Annotated[NonNegativeInt, Parameter(help="Rounds of refinement after the first broadcast.")]
DataSets = Annotated[PositiveInt, Parameter(help="How many data sets to simulate.")]
Restarts = Annotated[NonNegativeInt | None, Parameter(help="Additional random starts of each fit.", show_default=False)]
Like = Annotated[Path | None, Parameter(help="A posterior: use its model and prior, and draw the truth from it.")]
Output = Annotated[
    Path | None,
    Parameter(
        name=["--output", "-o"],
        help="Keep the figures in this file; the same command continues from there. With --private: write the "
        "prior, from which all sites begin (`fit --like`, `secure new --anchor`).",
    ),
]
Picture = Annotated[Path | None, Parameter(help="Draw histograms of ranks into this file (.png, .svg, .pdf).")]
SharingNoise = Annotated[
    bool,
    Parameter(negative="", help="With --private: one noise that all sites share (secure sums)."),
]
Colluders = Annotated[
    NonNegativeInt, Parameter(help="With --shared-noise: how many sites may join forces against the others.")
]
Seed = Annotated[NonNegativeInt, Parameter(help="Random seed: the same seed gives the same figures.")]
Json = Annotated[bool, json_option("plan", "coverage", "calibrated", "at_once", "right", "gap", "data_sets", "advice")]

FIRST = (
    inspect.Parameter("sites", KEYWORD, annotation=Sites),
    inspect.Parameter("observations", KEYWORD, annotation=Observations),
    inspect.Parameter("rounds", KEYWORD, default=0, annotation=Rounds),
    inspect.Parameter("data_sets", KEYWORD, default=50, annotation=DataSets),
)
LAST = (
    inspect.Parameter("promise", KEYWORD, default=NO_PROMISE, annotation=Promise),
    inspect.Parameter("shared_noise", KEYWORD, default=False, annotation=SharingNoise),
    inspect.Parameter("colluders", KEYWORD, default=1, annotation=Colluders),
    inspect.Parameter("like", KEYWORD, default=None, annotation=Like),
    inspect.Parameter("restarts", KEYWORD, default=None, annotation=Restarts),
    inspect.Parameter("output", KEYWORD, default=None, annotation=Output),
    inspect.Parameter("picture", KEYWORD, default=None, annotation=Picture),
    inspect.Parameter("dpi", KEYWORD, default=DPI, annotation=Dpi),
    inspect.Parameter("seed", KEYWORD, default=0, annotation=Seed),
    inspect.Parameter("as_json", KEYWORD, default=False, annotation=Json),
)


def plan_command(kind: type[Model]) -> Callable[..., None]:
    """The command that tries plans of a kind of model."""

    def command(
        promise: Promise = NO_PROMISE, shared_noise: SharingNoise = False, colluders: Colluders = 1, **options: Any
    ) -> None:
        promise.check_used()
        if promise.private:
            plan_privately(kind, promise, colluders if shared_noise else None, **options)
        else:
            plan(kind, **options)

    command.__signature__ = inspect.Signature([*FIRST, *options_before_data(kind), *LAST])  # type: ignore[attr-defined]
    command.__doc__ = help_text(kind)
    return command


def help_text(kind: type[Model]) -> str:
    name = command_name(kind)
    wanted = f" {as_option(kind.number)} 3" if kind.number else ""
    example = f"decbayes plan {name} --sites 10 --observations 50{wanted} --picture plan.png"
    return (
        f"{about(kind)}\n\n"
        "Simulate sites that fit this model and merge their posteriors; print how good the merge is.\n\n"
        "The truth is drawn from the prior; with --like from a posterior, so that it resembles your data.\n\n"
        f"For example:\n\n```sh\n{example}\n```"
    )


def plan(
    kind: type[Model],
    *,
    sites: int,
    observations: int,
    rounds: int = 0,
    data_sets: int = 50,
    like: Path | None = None,
    restarts: int | None = None,
    output: Path | None = None,
    picture: Path | None = None,
    dpi: int = DPI,
    seed: int = 0,
    as_json: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """Simulate, with a bar; print and return coverage, matches, the gap to batch, and advice."""
    check_output(output, like)
    check_picture(picture, like)
    model, truth, drawing = before_data(kind, settings, like)
    if restarts is not None:
        model = replace(model, ascent=replace(model.ascent, restarts=restarts))
    plan = Plan(model, sites, observations, rounds, truth, drawing)
    key = key_of(plan, seed)
    done = [] if output is None else kept(output, key)
    if done:
        messages().print(f"Continuing after {len(done)} data sets, which {output} holds.")
    report = simulated(plan, data_sets, seed, done, output, key)
    shown = report_values(plan, report)
    if as_json:
        print_json(shown)
    else:
        print_report(plan, report)
    if picture is not None:
        from decbayes import plot

        save_picture(plot.calibration(report), picture, dpi)
    return shown


def plan_privately(
    kind: type[Model],
    promise: Promise,
    colluders: int | None,
    *,
    sites: int,
    observations: int,
    like: Path | None = None,
    output: Path | None = None,
    as_json: bool = False,
    **settings: Any,
) -> None:
    """Print what privacy would cost, from public numbers alone; and write the prior that all sites begin at."""
    from decbayes.disclosure.private_merging import private_plan

    check_output(output, like)
    ours = {parameter.name for parameter in (*FIRST, *LAST)}
    model, _, _ = before_data(kind, {name: settings[name] for name in settings.keys() - ours}, like)
    privacy = promise.privacy() if colluders is None else promise.privacy(sites, colluders)
    plan = private_plan(model, sites=sites, rows=observations, privacy=privacy)
    if output is not None:
        save(Posterior.of_prior(model.structure), output)
    if as_json:
        numbers = {"quality": plan.quality, "price": plan.price, "rounds": plan.rounds}
        print_json(numbers | {"rows_needed": plan.rows_needed, "advice": " ".join(map(str, plan.remarks))})
    else:
        results().print(str(plan))


def simulated(plan: Plan, data_sets: int, seed: int, done: list[Trial], output: Path | None, key: str) -> PlanReport:
    """The report of all data sets; each that ends is kept, so that nothing is lost on Ctrl-C."""
    with progress_bar() as bar:
        task = bar.add_task("simulating data sets", total=data_sets, completed=len(done))

        def ended(trial: Trial) -> None:
            done.append(trial)
            bar.advance(task)
            if output is not None:
                keep(output, key, done)

        return try_plan(plan, data_sets=data_sets, seed=seed, done=[*done], progress=ended)


def key_of(plan: Plan, seed: int) -> str:
    """What a file's figures depend on."""
    truth = "" if plan.truth is None else plan.truth.digest
    parts = (plan.model.structure.fingerprint, plan.model.ascent, plan.sites, plan.observations, plan.rounds, truth)
    return hashlib.sha256(repr((*parts, plan.drawing, plan.level, seed)).encode()).hexdigest()


def keep(path: Path, key: str, done: list[Trial]) -> None:
    write_whole(
        path, json.dumps({"format": FORMAT, "plan": key, "data sets": [asdict(trial) for trial in done]}).encode()
    )


def kept(path: Path, key: str) -> list[Trial]:
    """The data sets that a file holds of the same plan."""
    if not path.exists():
        return []
    with suppress(ValueError, TypeError, KeyError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] == FORMAT and content["plan"] == key:
            return [Trial(**trial) for trial in content["data sets"]]
    raise InvalidData(f"{path} exists and does not hold the figures of this plan. Choose another name.")


def report_values(plan: Plan, report: PlanReport) -> dict[str, Any]:
    """Each share with its interval, by quantity where there are several."""
    return {
        "coverage": report.coverage,
        "calibrated": report.calibrated,
        "at_once": report.at_once,
        "right": report.right,
        "gap": report.gap,
        "data_sets": len(report.trials),
        "advice": advice(plan, report),
    }


def print_report(plan: Plan, report: PlanReport) -> None:
    level = f"{plan.level:.0%}"
    kinds = [report.coverage, report.calibrated, report.at_once]
    titles = [f"{level} intervals contain the truth", "calibrated", "of one fit of all data"]
    if not any(trial.covered_calibrated for trial in report.trials):
        del kinds[1], titles[1]
    table = Table("quantity", *titles, box=None)
    for name in report.coverage:
        table.add_row(name, *(str(kind[name]) for kind in kinds))
    results().print(table)
    if report.right[0] == report.right[0]:
        results().print(f"matches right: {report.right}")
        for probability, right, count in report.reliability():
            results().print(f"  probability {probability:.0%}: {right:.0%} of {count} right")
    results().print(f"behind a fit of all data: {report.gap[0]:.4f} ± {report.gap[1]:.4f} nat per {plan.model.unit}")
    results().print(
        f"In brackets: 95 % intervals over data sets.\n{len(report.trials)} data sets. {advice(plan, report)}"
    )


__getattr__ = add_model_commands(app, __name__, plan_command)
