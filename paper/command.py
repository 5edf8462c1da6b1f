"""`python -m paper`: a figure of the paper, made by this code, with the paper's claims checked."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from decbayes.base.extras import require_extra
from decbayes.cli.shared.running import run as run_command
from decbayes.cli.shared.terminal import Output
from decbayes.plot.style import styled
from paper.catalogue import NAMES, build
from paper.claims import Claim
from paper.experiment import Experiment, redraw, run
from paper.report import write_report
from paper.style import save
from paper.table import Table

CLAIM_FAILED = 1
FEW_TRIALS = 5  # with fewer, medians say little

app = App(name="python -m paper", help="The figures of the paper, with their claims checked.", version="")

Trials = Annotated[
    PositiveInt | None, Parameter(help="Number of repetitions. The default takes a few minutes; the paper has 20.")
]
Data = Annotated[Path | None, Parameter(help="Folder with the data sets; default: $DECBAYES_DATA.")]
Strict = Annotated[bool, Parameter(help="Exit with status 1 if a claim does not hold.", negative="")]
Agents = Annotated[
    tuple[PositiveInt, ...] | None,
    Parameter(help="lda: numbers of agents.", consume_multiple=True, negative=""),
]
Sites = Annotated[Literal["random", "by-group"] | None, Parameter(help="lda: who holds which documents.")]
Redraw = Annotated[bool, Parameter(name="--redraw", help="Draw from the CSV; compute nothing.", negative="")]


@app.default
def figure(
    name: str,
    /,
    *,
    trials: Trials = None,
    seed: NonNegativeInt = 0,
    data: Data = None,
    out: Path = Path("out"),
    strict: Strict = False,
    agents: Agents = None,
    split: Sites = None,
    redraw_only: Redraw = False,
) -> None:
    """Run an experiment of the paper, draw its figure and check its claims; "all" makes a report of all of them.

    Writes NAME.csv, NAME.png and NAME.svg. A run that is stopped goes on with the same command.

    Parameters
    ----------
    name
        gaussian, mixture-true, mixture-naive, mixture-restarts, mixture-symmetrized, mixture-agents, mixture-amps,
        lda, lda-by-group, sda, features-synthetic, features-faces, or all.
    seed
        Seed of all random numbers.
    out
        Folder for tables, pictures and the report.
    """
    require_extra("paper", task="Drawing a figure")
    asked = {"trials": trials, "seed": seed, "data": data, "agents": agents, "split": split}
    given = {option: value for option, value in asked.items() if value is not None}
    names = NAMES if name == "all" else (name,)
    experiments = [build(each, given, strictly=name != "all") for each in names]
    console = Output()
    checked = [make(experiment, out, console, redraw_only=redraw_only) for experiment in experiments]
    if trials is not None and trials < FEW_TRIALS:
        console.print(too_few(trials), highlight=False)
    if name == "all":
        console.print(f"{write_report(experiments, out)}", highlight=False, soft_wrap=True)
    if strict and not all(claim.holds for claims in checked for claim in claims):
        sys.exit(CLAIM_FAILED)


def too_few(trials: int) -> str:
    return f"{trials} {'trial is' if trials == 1 else 'trials are'} too few to judge a claim; the paper has 20."


def make(experiment: Experiment, out: Path, console: Console, *, redraw_only: bool) -> list[Claim]:
    """Run or recall one experiment, save its pictures, print its claims."""
    table = redraw(experiment, out) if redraw_only else run_with_bar(experiment, out, console)
    with styled():
        picture, drawing = save(experiment.draw(table), out, experiment.name)
    claims = experiment.claims(table)
    console.print(
        f"[bold]{experiment.name}[/bold]  {out / (experiment.name + '.csv')}, {picture}, {drawing}",
        highlight=False,
        soft_wrap=True,
    )
    for claim in claims:
        console.print(f"  {claim}", style="" if claim.holds else "bold red", highlight=False, soft_wrap=True)
    return claims


def run_with_bar(experiment: Experiment, out: Path, console: Console) -> Table:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(experiment.name, total=len(experiment.tasks()))
        try:
            return run(
                experiment,
                out,
                lambda done, total, task: progress.update(
                    bar, completed=done, total=total, description=f"{experiment.name}: {task}"
                ),
            )
        except KeyboardInterrupt:
            progress.stop()
            console.print(f"Stopped. Finished tasks are in {out}; the same command goes on from there.", soft_wrap=True)
            raise


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    run_command(app, sys.argv[1:] if arguments is None else arguments, name="paper")
