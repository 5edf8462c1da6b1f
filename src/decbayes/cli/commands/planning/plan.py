"""`decbayes plan`: try a plan on simulated data before anybody fits. Each model is a command."""

import hashlib
import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from rich.table import Table

from decbayes.base.writing import write_whole
from decbayes.calibration.plans import PlanReport, advice, try_plan
from decbayes.calibration.trials import Plan, Trial
from decbayes.cli.shared.common_options import NO_PROMISE, Promise, Seed
from decbayes.cli.shared.model_options import (
    KEYWORD,
    about,
    add_model_commands,
    as_option,
    options_before_data,
    simulated_model,
)
from decbayes.cli.shared.outputs import DPI, Dpi, check_output, check_picture, output_option, save_picture
from decbayes.cli.shared.running import example
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
Restarts = Annotated[NonNegativeInt | None, Parameter(help="Additional random starts of each fit.")]
Like = Annotated[Path | None, Parameter(help="A posterior: use its model and prior, and draw the truth from it.")]
Output = Annotated[
    Path | None,
    output_option(
        "Save the results in this file; the same command then continues. With --private: write the "
        "prior that all sites start from (`fit --like`, `secure new --anchor`)."
    ),
]
Picture = Annotated[Path | None, Parameter(help="Write a picture of histograms of ranks (.png, .svg, .pdf).")]
SharingNoise = Annotated[bool, Parameter(help="With --private: all sites share one noise (secure sums).")]
Colluders = Annotated[NonNegativeInt, Parameter(help="With --shared-noise: how many sites may collude.")]
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
    number_option = f" {as_option(kind.number)} 3" if kind.number else ""
    command = f"decbayes plan {name} --sites 10 --observations 50{number_option} --picture plan.png"
    return (
        f"{about(kind)}\n\n"
        "Simulate sites that fit this model and merge their posteriors; print how good the merge is.\n\n"
        "The truth is drawn from the prior; with --like from a posterior, so that it resembles your data.\n\n"
        f"{example(command)}"
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
    """Simulate with a progress bar; print and return coverage, matches, the gap to one fit of all data, and advice."""
    check_output(output, like)
    check_picture(picture, like)
    model, truth, drawing = simulated_model(kind, settings, like)
    if restarts is not None:
        model = replace(model, ascent=replace(model.ascent, restarts=restarts))
    plan = Plan(model, sites, observations, rounds, truth, drawing)
    key = key_of(plan, seed)
    done = [] if output is None else load_trials(output, key)
    if done:
        messages().print(f"Continuing after {len(done)} data sets, which {output} holds.")
    report = simulate(plan, data_sets, seed, done, output, key)
    values = report_values(plan, report)
    if as_json:
        print_json(values)
    else:
        print_report(plan, report)
    if picture is not None:
        from decbayes import plot

        save_picture(plot.calibration(report), picture, dpi)
    return values


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
    """Print the price of privacy, from public numbers alone; and write the prior that all sites start from."""
    from decbayes.disclosure.private_merging import private_plan

    check_output(output, like)
    plan_options = {parameter.name for parameter in (*FIRST, *LAST)}
    model, _, _ = simulated_model(kind, {name: settings[name] for name in settings.keys() - plan_options}, like)
    privacy = promise.privacy() if colluders is None else promise.privacy(sites, colluders)
    plan = private_plan(model, sites=sites, rows=observations, privacy=privacy)
    if output is not None:
        save(Posterior.of_prior(model.structure), output)
    if as_json:
        numbers = {"quality": plan.quality, "price": plan.price, "rounds": plan.rounds}
        print_json(numbers | {"rows_needed": plan.rows_needed, "advice": " ".join(map(str, plan.remarks))})
    else:
        results().print(str(plan))


def simulate(plan: Plan, data_sets: int, seed: int, done: list[Trial], output: Path | None, key: str) -> PlanReport:
    """The report of all data sets; each is saved when it ends, so that Ctrl-C loses nothing."""
    with progress_bar() as bar:
        task = bar.add_task("simulating data sets", total=data_sets, completed=len(done))

        def on_trial(trial: Trial) -> None:
            done.append(trial)
            bar.advance(task)
            if output is not None:
                save_trials(output, key, done)

        return try_plan(plan, data_sets=data_sets, seed=seed, done=[*done], progress=on_trial)


def key_of(plan: Plan, seed: int) -> str:
    """A key for everything that the results depend on."""
    truth = "" if plan.truth is None else plan.truth.digest
    parts = (plan.model.structure.fingerprint, plan.model.ascent, plan.sites, plan.observations, plan.rounds, truth)
    return hashlib.sha256(repr((*parts, plan.drawing, plan.level, seed)).encode()).hexdigest()


def save_trials(path: Path, key: str, done: list[Trial]) -> None:
    write_whole(
        path, json.dumps({"format": FORMAT, "plan": key, "data sets": [asdict(trial) for trial in done]}).encode()
    )


def load_trials(path: Path, key: str) -> list[Trial]:
    """The data sets of the same plan in a file."""
    if not path.exists():
        return []
    with suppress(ValueError, TypeError, KeyError):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] == FORMAT and content["plan"] == key:
            return [Trial(**trial) for trial in content["data sets"]]
    raise InvalidData(f"{path} exists but holds other results. Choose another name.")


def report_values(plan: Plan, report: PlanReport) -> dict[str, Any]:
    """Each share with its interval, by quantity if there are several."""
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
        for probability, alike in groupby(report.reliability(), key=lambda pair: f"{pair[0]:.0%}"):
            rights, counts = zip(*((right * count, count) for _, right, count in alike), strict=True)
            results().print(f"  probability {probability}: {sum(rights) / sum(counts):.0%} of {sum(counts)} right")
    results().print(f"behind a fit of all data: {report.gap[0]:.4f} ± {report.gap[1]:.4f} nat per {plan.model.unit}")
    results().print(
        f"In brackets: 95 % intervals over data sets.\n{len(report.trials)} data sets. {advice(plan, report)}"
    )


__getattr__ = add_model_commands(app, __name__, plan_command)
