"""`decbayes fit`: fit one site's data. Each model is a command, and its settings are the options."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from decbayes.base.arguments import given
from decbayes.cli.shared.common_options import (
    NO_PROMISE,
    USUAL_ACCOUNTS,
    Accounts,
    Device,
    HoldBack,
    Passes,
    Promise,
    Seed,
    available_device,
    check_hold_back,
)
from decbayes.cli.shared.fit_data import read_data
from decbayes.cli.shared.model_options import KEYWORD, about, add_model_commands, model_options
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.running import WrongArgument, example
from decbayes.cli.shared.sharing import (
    NONE,
    PersonOption,
    ReadingReport,
    RulesOption,
    SiteOption,
    check_names,
    persons_of,
    public_documents,
    public_note,
    rules_in_force,
    safe_to_fit,
    save_draft,
    tightened_by,
)
from decbayes.cli.shared.standard_streams import json_option, print_json, table_file
from decbayes.cli.shared.terminal import fit_progress, messages, plain, plural
from decbayes.cli.shared.unfinished import (
    UNFINISHED,
    PassRecorder,
    Unfinished,
    command_key,
    fit_or_resume,
    folder_of,
    forget,
)
from decbayes.devices import DeviceName, use_device
from decbayes.errors import InvalidData
from decbayes.models.core.ascent import FitInterrupted
from decbayes.models.core.model import Model
from decbayes.models.core.registry import command_name
from decbayes.models.core.settings import number_of
from decbayes.posterior import Posterior
from decbayes.remarks import RULES, UNAGREED, lines
from decbayes.updates.forgetting import Forgetting, checked_forgetting
from decbayes.updates.rounds import Sent, sent_in

app = App(name="fit", help="Fit a model to one site's data and write its posterior.")

Data = Annotated[
    Path,
    Parameter(help="A .csv, .tsv, .parquet, .npy, .npz or .mtx file; or - for standard input, also of JSON lines."),
]
DataFiles = Annotated[
    list[Path], Parameter(help="Files and folders of texts, - for standard input, or a file of counts.")
]
Output = Annotated[Path, output_option("Where to write the posterior.")]
Like = Annotated[Path | None, Parameter(help="Use the model, prior and column names of another site's posterior.")]
EARLIER = "Posterior of earlier data to build on: the result covers both, with the same model and components."
Restarts = Annotated[NonNegativeInt | None, Parameter(help="Additional random starts; the best is kept.")]
Batch = Annotated[
    PositiveInt | None, Parameter(help="Documents per batch in the first passes, for very large collections.")
]
KEYS = ("file", "observations", "components", "bound", "passes", "converged", "structure")
Json = Annotated[bool, json_option("fit", *KEYS)]
Forgets = Annotated[
    float | Literal["learn"] | None,
    Parameter(help="Share of the earlier posterior to forget; 'learn' forgets what new data contradict."),
]


FIRST = (inspect.Parameter("output", KEYWORD, annotation=Output),)
LAST = (
    inspect.Parameter("like", KEYWORD, default=None, annotation=Like),
    inspect.Parameter("restarts", KEYWORD, default=None, annotation=Restarts),
    inspect.Parameter("passes", KEYWORD, default=None, annotation=Passes),
    inspect.Parameter("seed", KEYWORD, default=0, annotation=Seed),
    inspect.Parameter("hold_back", KEYWORD, default=0.0, annotation=HoldBack),
    inspect.Parameter("forgetting", KEYWORD, default=None, annotation=Forgets),
    inspect.Parameter("rules", KEYWORD, default=None, annotation=RulesOption),
    inspect.Parameter("person", KEYWORD, default="", annotation=PersonOption),
    inspect.Parameter("site", KEYWORD, default="", annotation=SiteOption),
    inspect.Parameter("promise", KEYWORD, default=NO_PROMISE, annotation=Promise),
    inspect.Parameter("accounts", KEYWORD, default=USUAL_ACCOUNTS, annotation=Accounts),
    inspect.Parameter("as_json", KEYWORD, default=False, annotation=Json),
)
# Options of models that can learn in batches and on a GPU.
LARGE = (
    inspect.Parameter("batch", KEYWORD, default=None, annotation=Batch),
    inspect.Parameter("device", KEYWORD, default=None, annotation=Device),
)


def fit_command(kind: type[Model]) -> Callable[..., None]:

    def command(
        *words: Any, promise: Promise = NO_PROMISE, accounts: Accounts = USUAL_ACCOUNTS, **options: Any
    ) -> None:
        promise.check_used()
        if promise.private:
            from decbayes.cli.commands.everyday._private_releases import fit_privately

            fit_privately(kind, *words, promise=promise, accounts=accounts, **options)
        else:
            fit(kind, *words, **options)

    data = DataFiles if kind.many_files else Data
    where = inspect.Parameter("data", inspect.Parameter.POSITIONAL_ONLY, annotation=data)
    settings = model_options(kind)
    options = [*FIRST, *settings, earlier_option(settings), *LAST, *(LARGE if kind.in_batches else ())]
    command.__signature__ = inspect.Signature([where, *options])  # type: ignore[attr-defined]
    command.__doc__ = help_text(kind)
    return command


def earlier_option(settings: Sequence[inspect.Parameter]) -> inspect.Parameter:
    """The option --prior or --earlier; only --earlier if the model has a setting called prior."""
    has_prior = any(setting.name == "prior" for setting in settings)
    parameter = Parameter(name="--earlier" if has_prior else ["--prior", "--earlier"], help=EARLIER)
    return inspect.Parameter("earlier", KEYWORD, default=None, annotation=Annotated[Path | None, parameter])


def fit(
    kind: type[Model],
    data: Any,
    *,
    output: Path,
    like: Path | None = None,
    earlier: Path | None = None,
    restarts: int | None = None,
    passes: int | None = None,
    seed: int = 0,
    hold_back: float = 0.0,
    forgetting: Forgetting = None,
    batch: int | None = None,
    device: DeviceName | None = None,
    rules: str | None = None,
    person: str = "",
    site: str = "",
    as_json: bool = False,
    **settings: Any,
) -> None:
    """Read the data, fit with a progress bar and write the posterior.

    Ctrl-C writes the best state so far; the same command then continues from there.
    """
    data = table_file(data) if isinstance(data, Path) else data
    files = [data] if isinstance(data, Path) else data
    check_output(output, *files, like, earlier, *(value for value in settings.values() if isinstance(value, Path)))
    check_together(like, earlier, forgetting)
    check_hold_back(hold_back)
    before = None if earlier is None else sent_in(earlier)
    device = None if device is None else available_device(device)
    search = {"restarts": restarts, "passes": passes, "batch": batch}
    known, in_force, report = like or earlier, rules_in_force(rules), ReadingReport()
    options = {"like": like, "earlier": before and before.posterior.digest, **search, "seed": seed, **settings}
    options |= {"rules": None if in_force is None else in_force.plain(), "person": person}
    command = command_key(kind, files, options | given(hold_back=hold_back or None, device=device))
    shared = known is not None or settings.get("agreed_columns") is not None
    model, observations, person = read_data(kind, data, known, before, settings, in_force, person, report)
    reading_options = {name: settings[name] for name in kind.reading_options & settings.keys()}
    persons = persons_of(model, files, person, rules=in_force, **reading_options)
    person = "" if person == NONE else person
    if restarts is not None and not model.structure.symmetry:
        raise WrongArgument(
            f"The fit of a {model.usual_name} does not depend on where it starts: leave out --restarts."
        )
    in_force = tightened_by(in_force, known)
    check_names(model, files, settings.get("columns", ""), in_force)
    safe = safe_to_fit(
        model, observations, in_force,
        agreed=shared, on_top=before is not None, share=hold_back, persons=persons, report=report,
    )  # fmt: skip
    observations = safe.data
    model = replace(safe.model, ascent=replace(model.ascent, **given(**search)))
    write = partial(
        save_draft, site=site, changed=safe.changed, left_out=report.left_out, remarks=report.remarks, output=output,
        observations=observations, rules=in_force, persons=safe.persons, person=person,
    )  # fmt: skip
    write = partial(write, **file_context(before, public_documents(known, model)))
    with nullcontext() if device is None else use_device(device):
        if before is None or forgetting is None:
            outcome = run_fit(model, observations, before, output, command, seed, write)
        else:
            outcome = fit_after_forgetting(model, observations, before, forgetting, seed)
    if outcome is None:
        raise InvalidData(
            f"{', '.join(map(str, files))} has nothing that the model can use: no word of its vocabulary, or only "
            "empty rows. Nothing was written."
        )
    outcome = outcome._replace(posterior=write(outcome.posterior, halves=before is None))
    forget(output)
    print_outcome(outcome, output, model, model.count(observations), as_json)


def file_context(before: Sent | None, public: Any) -> dict[str, Any]:
    """What a file holds beside the posterior: the earlier data in it, and public document counts."""
    note = {} if before is None else {"holds": [*before.holds, before.posterior.digest]}
    return {"before": before and before.posterior, "frequency": public, "note": note | public_note(public)}


class FitResult(NamedTuple):
    """A fit in words; and its last bound, passes and convergence if it was a single ascent."""

    posterior: Posterior
    text: str
    ascent: tuple[float | None, int | None, bool | None] = (None, None, None)


def print_outcome(outcome: FitResult, output: Path, model: Model, observations: int, as_json: bool) -> None:
    messages().print(f"{output}: {outcome.text}")
    if model.modelled:
        messages().print(plain(f"models the {model.modelled}"))
    # What disclosure rules changed, and what is not agreed, was printed before the fit.
    new = [remark for remark in outcome.posterior.remarks if remark.kind != UNAGREED]
    remarks = [remark for remark in new if remark.is_warning or remark.kind != RULES]
    for line in lines(remarks, rest=f"`decbayes show {output} --remarks` prints all"):
        messages().print(plain(line))
    if as_json:
        structure = outcome.posterior.structure
        components = number_of(structure) if structure.symmetry else None
        values = (output, observations, components, *outcome.ascent, structure.fingerprint)
        print_json(dict(zip(KEYS, values, strict=True)))


def run_fit(
    model: Model,
    observations: Any,
    before: Sent | None,
    output: Path,
    command: str,
    seed: int,
    write: Callable[..., Posterior],
) -> FitResult | None:
    """Fit, and describe the result; None if there was nothing to learn. Ctrl-C writes a draft instead."""
    left = Unfinished.of(output, command)
    if left is not None:
        messages().print(f"Continuing from pass {left.passes}, where {output} was interrupted.")
    try:
        with fit_progress(model.ascent.restarts + 1, model.ascent.passes) as bar:
            report = PassRecorder(bar) if left is None else left.recorder(bar)
            on_top = {} if before is None else {"prior": before.posterior, "start": before.posterior}
            fit = fit_or_resume(model, observations, left, seed, report, **on_top)
    except FitInterrupted as interruption:
        best = interruption.fit.posterior
        draft = write(replace(best, remarks=(UNFINISHED, *best.remarks)))
        Unfinished.after(report, interruption, left).save(output, command, draft)
        messages().print(
            f"Interrupted; the best state so far is in {output}. The same command continues from there. Do not send "
            f"{folder_of(output)}: no disclosure rules are applied to it."
        )
        raise
    structure, bound = fit.posterior.structure, fit.bound[-1]
    if fit.posterior == (Posterior.of_prior(structure) if before is None else before.posterior):
        return None
    end = "converged" if fit.converged else "not converged yet"
    noun = model.number.removesuffix("s")
    number = f"{plural(number_of(structure), noun)}, " if model.auto else ""
    turns = plural(len(fit.bound), *(("round",) if model.auto else ("pass", "passes")))
    text = (
        f"{plural(model.count(observations), model.record)}, {number}bound {bound:,.2f} after {turns}, {end}; "
        f"structure {structure.fingerprint[:12]}"
    )
    return FitResult(fit.posterior, text, (bound, len(fit.bound), fit.converged))


def fit_after_forgetting(
    model: Model, observations: Any, before: Sent, forgetting: Forgetting, seed: int
) -> FitResult | None:
    """Fit new data on top of what remains of earlier data; None if there are no new data."""
    from decbayes import streams

    if not np.sum(model.units(observations)):
        return None
    rng = np.random.default_rng(seed)
    with messages().status("fitting, and finding out what still holds" if forgetting == "learn" else "fitting"):
        posterior = next(
            streams.epochs(model, [[observations]], start=before.posterior, forgetting=forgetting, rng=rng)
        )
    rest = "what still holds" if forgetting == "learn" else f"{1.0 - float(forgetting or 0.0):.0%}"
    return FitResult(
        posterior, f"{plural(model.count(observations), f'new {model.record}')} on top of {rest} of the earlier data"
    )


def check_together(like: Path | None, earlier: Path | None, forgetting: Forgetting) -> None:
    """Refuse options that contradict each other, before anything is read."""
    if earlier is not None and like is not None:
        raise WrongArgument("--prior and --like exclude each other: the model is that of the prior.")
    if forgetting is not None and earlier is None:
        raise WrongArgument("--forgetting is the share of --prior to forget: give --prior, too.")
    try:
        checked_forgetting(forgetting)
    except ValueError as error:
        raise WrongArgument(str(error)) from None


def help_text(kind: type[Model]) -> str:
    """What the model is, what its reader needs, and an example."""
    reads_itself = next(parent for parent in kind.__mro__ if "from_file" in vars(parent)) is not Model
    reading = inspect.getdoc(kind.from_file) if reads_itself else ""
    command = f"decbayes fit {command_name(kind)} {kind.example} -o a.posterior"
    return f"{about(kind)}\n\n{reading}\n\n{example(command)}"


__getattr__ = add_model_commands(app, __name__, fit_command)
