"""`decbayes validate`: score posteriors on data that a site held back, and add up the scores of several sites."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from rich.table import Table

from decbayes.calibration import Choice, Diagnosis, Scores, diagnose
from decbayes.calibration.validation import LEAST_HELD_BACK
from decbayes.calibration.validation import validate as score_posteriors
from decbayes.cli.commands.checking._fitted_rows import check_holds, check_holds_none, check_holds_only
from decbayes.cli.shared.common_options import PosteriorColumns, model_input
from decbayes.cli.shared.outputs import (
    DPI,
    Dpi,
    check_each_once,
    check_output,
    check_picture,
    output_option,
    save_picture,
)
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import PersonOption, RulesOption, persons_of, rules_in_force, safe_to_send
from decbayes.cli.shared.standard_streams import json_option, print_json, table_file
from decbayes.cli.shared.terminal import messages, plain
from decbayes.cli.shared.terminal import output as results
from decbayes.columns.cells import is_missing
from decbayes.columns.frames import decoded
from decbayes.disclosure import Rules
from decbayes.disclosure.preparing import check_size, unit_of
from decbayes.errors import InvalidData, NotDisclosed, StructureMismatch
from decbayes.files import load
from decbayes.inputs.mixed_tables import read_frame
from decbayes.merging import tree
from decbayes.merging.aligning import most_components
from decbayes.merging.base.compatibility import same_columns
from decbayes.models.core.evaluation import hold_back, rows_of
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior

SUFFIX = ".scores"
KEYS = ("posterior", "score", "error", "behind", "behind_error", "observations", "chosen")


def validate(
    files: Annotated[
        list[Path], Parameter(help="This site's data, then the posteriors to score; or .scores files to add up.")
    ],
    /,
    *,
    output: Annotated[
        Path | None, output_option("Where to write this site's scores (.scores), for others to add up.")
    ] = None,
    cuts: Annotated[
        str,
        Parameter(
            help="Score merges into these numbers of components, such as 2:20; give the posteriors of all sites."
        ),
    ] = "",
    held_back: Annotated[
        float | None,
        Parameter(help="The share that `fit --hold-back` kept out of the data given here; only this is scored."),
    ] = None,
    approximation: Annotated[
        bool, Parameter(help="Check how close a posterior is to the exact one; give the data it was fitted to.")
    ] = False,
    leave_one_out: Annotated[
        bool, Parameter(help="Predict each observation from all others; give the data that were fitted.")
    ] = False,
    picture: Annotated[
        Path | None, Parameter(help="Write a picture of scores by number of components (.png, .svg, .pdf).")
    ] = None,
    dpi: Dpi = DPI,
    columns: PosteriorColumns = "",
    person: PersonOption = "",
    rules: RulesOption = None,
    as_json: Annotated[
        bool, json_option("posterior", *KEYS, "or with --approximation shape, draws, counting, close")
    ] = False,
) -> None:
    """Print how well posteriors predict data that a site held back, and write sums that add up across sites.

    If no data were held back, --leave-one-out compares models on the data that they were fitted to.
    """
    check_output(output, *files)
    check_picture(picture, *files)
    if approximation:
        diagnosis = diagnose_fit(files, columns, held_back)
        if as_json:
            print_json(asdict(diagnosis) | {"close": diagnosis.close})
        else:
            results().print(str(diagnosis))
        return
    if files and all(path.suffix == SUFFIX for path in files):
        check_each_once(files)
        scores = reduce(add, [Scores.load(path) for path in files])
    else:
        in_force = rules_in_force(rules) if output is not None else None
        if leave_one_out:
            scores = leave_one_out_scores(files, cuts, held_back, columns, in_force, person)
        else:
            scores = site_scores(files, cuts, held_back, columns, in_force, person)
    if output is not None:
        scores.save(output)
    if picture is not None:
        from decbayes.plot import slots

        save_picture(slots(scores).figure, picture, dpi)
    if as_json:
        print_json(*score_rows(scores))
    else:
        print_scores(scores)


def diagnose_fit(files: list[Path], columns: str, share: float | None) -> Diagnosis:
    """How close a posterior is to the exact one, given the data it was fitted to."""
    if len(files) != 2:
        raise WrongArgument("--approximation needs the data, one file, and the posterior that was fitted to them.")
    data, path = files
    posterior = load(path)
    model, data = model_for(posterior.structure), table_file(data)
    observations = model.read(model_input(model, [data]), columns=columns, report=messages().print)
    if share is not None:
        observations = hold_back(model, observations, share=share)[0]
    check_holds_only(path, data, model, observations, columns)
    with messages().status("drawing"):
        return diagnose(model, [observations], posterior)


def site_scores(
    files: list[Path], cuts: str, share: float | None, columns: str, rules: Rules | None, person: str
) -> Scores:
    """The scores of one site, under the rules if they are written for others."""
    if len(files) < 2:
        raise InvalidData(f"Give the data, then the posteriors to score; or {SUFFIX} files to add up.")
    numbers = parse_cuts(cuts)
    data, *paths = files
    read = same_columns([load(path) for path in paths])
    model = model_for(read[0].structure)
    data = data if model.many_files else table_file(data)  # standard input is read once
    observations = model.read(model_input(model, [data]), columns=columns, report=messages().print)
    persons, rows = persons_of(model, [data], person, rules=rules), model.count(observations)
    observations = safe_to_send(model, observations, rules, persons)
    if share is not None:
        if not 0.0 < share < 1.0:
            raise WrongArgument(f"--held-back must be between 0 and 1, not {share:g}.")
        persons = persons.taken(rows_of(model.count(observations), share)[1])
        observations = hold_back(model, observations, share=share)[1]
    if model.count(observations) < LEAST_HELD_BACK:
        raise InvalidData(
            f"{model.count(observations)} observations are held back. At least {LEAST_HELD_BACK} are needed: sums over "
            "fewer would reveal too much about each. Hold back a larger share."
        )
    compared = candidates(paths, read, numbers)
    check_holds_none(paths, data, columns, rows, 0 if share is None else model.count(observations))
    check_scores(model, observations, rules, persons, len(compared))
    with messages().status("scoring"):
        return score_posteriors(model, compared, observations)


def check_scores(model: Model, observations: Any, rules: Rules | None, persons: Persons, compared: int) -> None:
    """Refuse to write scores for others that would reveal single observations."""
    if rules is None:
        return
    rows = model.count(observations)
    check_size(persons.checked(rows).total(rows), unit_of(model, persons), rules)
    if persons.total(rows) < compared:
        raise NotDisclosed(
            f"Scores of {compared} posteriors on {rows} observations would reveal single observations. "
            "Score fewer posteriors, or more observations."
        )


def leave_one_out_scores(
    files: list[Path], cuts: str, share: float | None, columns: str, rules: Rules | None, person: str
) -> Scores:
    """The scores of one site, leaving out one observation or one person at a time."""
    if cuts or share is not None or columns:
        raise WrongArgument(
            "--leave-one-out takes the data that were fitted; leave out --cuts, --held-back and --columns."
        )
    if len(files) < 2:
        raise InvalidData("Give the data that were fitted, then the posteriors to score.")
    data, *paths = files
    read = [load(path) for path in paths]
    models, data = [model_for(posterior.structure) for posterior in read], table_file(data)
    observations, persons = rows_for_all(models, data, person, rules)
    check_holds(paths, data)
    compared = candidates(paths, read, None)
    check_scores(models[0], observations, rules, persons, len(compared))
    with messages().status("scoring"):
        return score_posteriors(models[0], compared, observations, leave_one_out=True, persons=persons)


def rows_for_all(models: Sequence[Model], path: Path, person: str, rules: Rules | None) -> tuple[Any, Persons]:
    """The same rows for all models: if their columns differ, those without missing values in any of these columns."""
    first = models[0]
    listed = [getattr(model, "columns", {}) for model in models]
    if all(columns == listed[0] for columns in listed[1:]):
        persons = persons_of(first, [path], person, rules=rules)
        observations = first.read(model_input(first, [path]), report=messages().print)
        return safe_to_send(first, observations, rules, persons), persons
    names = list(dict.fromkeys(name for columns in listed for name in columns))
    lists = {name: {tuple(columns[name].entries) for columns in listed if name in columns} for name in names}
    unlike = [name for name, categories in lists.items() if len(categories) > 1]
    if unlike and rules is not None:
        raise InvalidData(
            f"The posteriors have different categories of '{unlike[0]}': disclosure rules allow only equal ones."
        )
    frame = read_frame(table_file(path), [*names, *([person] if person and person not in names else [])])
    gaps = np.any([[is_missing(value) for value in frame[name]] for name in names], axis=0)
    if gaps.any():
        messages().print(f"{path}: {gaps.sum():,} of {len(gaps):,} rows have missing values and are left out.")
    rows = {name: frame[name][~gaps] for name in names}
    persons = Persons.of(frame[person][~gaps] if person else None)
    for model, columns in zip(models, listed, strict=True) if rules is not None else ():
        rows |= decoded(safe_to_send(model, rows, rules, persons), columns)
    return rows, persons


def candidates(paths: list[Path], read: Sequence[Posterior], numbers: range | None) -> Mapping[Any, Posterior]:
    """The posteriors to score: those given, or their merges by number of components."""
    if numbers is None:
        names = [path.name.removesuffix(".posterior") for path in paths]
        if len(set(names)) < len(names):
            raise InvalidData("Two posteriors have the same file name, which scores are listed by. Rename one.")
        return dict(zip(names, read, strict=True))
    merge_tree, most = tree(read), sum(most_components(posterior.structure) for posterior in read)
    if numbers[-1] > most:
        raise WrongArgument(f"--cuts goes up to {numbers[-1]}, but the posteriors have {most} components together.")
    return merge_tree.cuts(numbers)


def parse_cuts(cuts: str) -> range | None:
    """The numbers in --cuts: 2:20 is 2 to 20, both included; 2:20:2 is every second."""
    if not cuts:
        return None
    parts = cuts.split(":")
    if not 2 <= len(parts) <= 3 or not all(part.isdecimal() for part in parts):
        raise WrongArgument("--cuts is FIRST:LAST or FIRST:LAST:STEP, such as 2:20.")
    first, last, step = map(int, [*parts, "1"][:3])
    if not 1 <= first <= last or step < 1:
        raise WrongArgument("--cuts is FIRST:LAST or FIRST:LAST:STEP, from 1 on, the larger number last.")
    return range(first, last + 1, step)


def score_rows(scores: Scores) -> list[dict[str, Any]]:
    """Each score with its standard error, its distance from the best, and whether it is chosen."""
    best, chosen = scores.best, choice_of(scores)
    return [
        dict(
            zip(
                KEYS,
                (
                    name,
                    scores.score(name),
                    scores.error(name),
                    scores.score(best) - scores.score(name),
                    0.0 if name == best else scores.error(best, name),
                    scores.observations,
                    None if chosen is None else name == chosen.name,
                ),
                strict=True,
            )
        )
        for name in scores.names
    ]


def choice_of(scores: Scores) -> Choice | None:
    """The chosen posterior; None if sites scored different posteriors under one name."""
    try:
        return scores.choice()
    except StructureMismatch:
        return None


def print_scores(scores: Scores) -> None:
    table = Table("posterior", "score", "±", "behind the best", "±", box=None)
    for row in score_rows(scores):
        behind = (
            ["–", ""] if row["posterior"] == scores.best else [f"{row['behind']:.4f}", f"{row['behind_error']:.4f}"]
        )
        table.add_row(plain(str(row["posterior"])), f"{row['score']:.4f}", f"{row['error']:.4f}", *behind)
    results().print(table)
    observations = (
        "observations, assumed to be in no fit"
        if scores.unreliable is None
        else "observations, each predicted from all others"
    )
    results().print(
        f"score: log predictive density per {plain(scores.unit)}, higher is better; ±: standard error. "
        f"{scores.observations:,} {observations}."
    )
    for name, few in zip(scores.names, scores.unreliable or (), strict=False):
        if few:
            results().print(
                f"{plain(str(name))}: {few:,} of {scores.observations:,} observations change the posterior too much "
                "(Pareto k above 0.7). Its score may be too high: compare on held-back data instead."
            )
    chosen = choice_of(scores)
    different = "The sites have scored different posteriors under one name: scores can be compared, but none is chosen."
    results().print(different if chosen is None else f"choice {chosen}")
