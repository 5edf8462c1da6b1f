"""`decbayes predict`: predict a regression's outcome for persons described on the command line or in a table."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from decbayes.cli.shared.common_options import Level
from decbayes.cli.shared.describe import print_modelled, rows_table
from decbayes.cli.shared.outputs import check_output, check_rows, output_option, row_writer
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, output, plain, print_written
from decbayes.columns import Gaussian, YesNo
from decbayes.columns.frames import check_agreed
from decbayes.errors import StructureMismatch
from decbayes.files import load
from decbayes.inputs.mixed_tables import read_frame
from decbayes.models.core.model import split_names
from decbayes.models.core.registry import model_for
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.survival import SurvivalRegression
from decbayes.posterior import Posterior
from decbayes.remarks import too_narrow
from decbayes.views.values import Row

EXACT = 12
# Values further from the agreed centre, in agreed scales, are extrapolations: of measured values one in 1,000 is.
FAR = 6.0
NUMBERS = ("mean", "low", "high")


def predict(
    posterior: Annotated[Path, Parameter(help="A posterior file of a regression.")],
    person: Annotated[
        list[str] | None, Parameter(help="A person's values, such as age=60 sex=f; age=60,70 makes two persons.")
    ] = None,
    /,
    *,
    data: Annotated[Path | None, Parameter(help="A table of persons, instead of age=60 …")] = None,
    times: Annotated[
        str, Parameter(help="Survival: the times to predict for, separated by commas. Default: the agreed cuts.")
    ] = "",
    level: Level = 0.9,
    write: Annotated[Path | None, output_option("Also write the rows: .csv, .csv.gz or .parquet.")] = None,
    as_json: Annotated[bool, json_option("prediction", "the person's values", "time", *NUMBERS)] = False,
) -> None:
    """Print the expected outcome with an interval; for survival, the probability of no event until each time; for an
    outcome with unordered levels, the probability of each.
    """
    if write is not None:
        check_output(write, posterior, text=True)
        check_rows(write)
    read = load(posterior)
    model = regression_of(read, posterior)
    if bool(person) == (data is not None):
        raise WrongArgument("Describe persons, as in age=60 sex=f, or name a table of them with --data.")
    people = persons(model, person or []) if data is None else columns_of(model, data)
    at_times = parse_times(times)
    rows = [*predictions(model, read, people, at_times, level)]
    for text in (*far_values(model, people), *means_outside(model, rows), *late_times(model, at_times or ())):
        messages().print(plain(text))
    if write is not None:
        first = [name for name in rows[0] if name not in NUMBERS]
        with row_writer(write, digits=EXACT) as target:
            values = np.array([[row[name] for name in NUMBERS] for row in rows])
            target.write({name: [row[name] for row in rows] for name in first}, NUMBERS, values)
        print_written(write, f"{len(rows):,} rows")
    if as_json:
        print_json(*rows)
    elif write is None:
        print_modelled(read, messages().print)
        output().print(rows_table(rows))
        output().print(plain(meaning(model, read, level)))


def regression_of(posterior: Posterior, path: Path) -> Regression:
    model = model_for(posterior.structure)
    if not isinstance(model, Regression):
        raise StructureMismatch(
            f"{path} is a posterior of {type(model).__name__}; predict is for regressions. `decbayes transform` writes "
            "the components of each observation for other models."
        )
    return model


def persons(model: Regression, words: Sequence[str]) -> dict[str, list[str]]:
    """A column for each predictor, with a row for each combination of the given values."""
    given: dict[str, list[str]] = {}
    for word in words:
        name, sign, values = word.partition("=")
        if not sign or name not in model.table.predictors:
            hint = f" For the rows of a file: --data {word}." if Path(word).exists() else ""
            raise WrongArgument(
                f"'{word}' is not NAME=VALUE with one of {', '.join(model.table.predictors)} as the name.{hint}"
            )
        given[name] = split_names(values)
        check_agreed(name, model.columns[name], np.array(given[name], dtype=object))
    if missing := [name for name in model.table.predictors if not given.get(name)]:
        raise WrongArgument(f"Give {', '.join(f'{name}=…' for name in missing)} as well.")
    rows = [*product(*given.values())]
    return {name: [row[place] for row in rows] for place, name in enumerate(given)}


def columns_of(model: Regression, path: Path) -> dict[str, Any]:
    frame = read_frame(path, list(model.table.predictors))
    return {name: list(frame[name]) for name in model.table.predictors}


def meaning(model: Regression, posterior: Posterior, level: float) -> str:
    """What the numbers are: intervals of a mean, or of a new outcome, which are wider."""
    outcome, why = model.outcome, too_narrow([posterior])
    ends = "low and high are the ends of its interval"
    if outcome.new:
        ends = f"if the model holds, a new {outcome.new} is between low and high"
    narrow = f" Intervals are probably too narrow: {why}." if why else ""
    return f"mean: {outcome.mean_is}; {ends} ({level:.0%}).{narrow}"


def far_values(model: Regression, people: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """A line for each real column with values far from what sites have agreed on, if they have."""
    for name, values in people.items():
        column = model.columns[name]
        if column.factor != "real" or column == Gaussian():
            continue
        (zero, unit), numbers = column.zero_and_unit, column.coded(np.array(values, dtype=object))
        if far := int((np.abs(numbers - zero) > FAR * unit).sum()):
            yield (
                f"Column '{name}': {far:,} of {len(numbers):,} values {'is' if far == 1 else 'are'} far from those of "
                f"the sites (agreed centre {zero:g}, scale {unit:g}). Is the unit right? Predictions extrapolate there."
            )


def late_times(model: Regression, times: Sequence[float]) -> Iterator[str]:
    """Whether survival is predicted for times long after the last cut."""
    if isinstance(model, SurvivalRegression) and max(times, default=0.0) > model.horizon:
        last = f"the last cut, {model.cuts[-1]:g}" if model.cuts else "0, as the model has no cuts"
        yield (
            f"Times up to {max(times):g}: the hazard is assumed constant after {last}, and posteriors do not say how "
            "long persons were followed. Later than that, curves and their intervals are extrapolations."
        )


def means_outside(model: Regression, rows: Sequence[Row]) -> Iterator[str]:
    """Whether probabilities are so uncertain that their means, as printed, are outside their intervals."""
    printed = ([float(f"{row[name]:.4g}") for name in NUMBERS] for row in rows)
    outside = sum(not low <= mean <= high for mean, low, high in printed)
    if outside and model.outcome.holds is YesNo:
        yield (
            f"{outside:,} of {len(rows):,} means lie outside their intervals: the probability is so uncertain there "
            "that a few possible values far from the others decide its mean. Rely on the interval."
        )


def parse_times(text: str) -> list[float] | None:
    try:
        numbers = [float(word) for word in split_names(text)]
    except ValueError:
        numbers = [-1.0]
    if not all(0.0 <= number < float("inf") for number in numbers):
        raise WrongArgument("--times, from 0 on, are numbers separated by commas, such as 30,90,365.")
    return numbers or None


def predictions(
    model: Regression,
    posterior: Posterior,
    described: Mapping[str, Sequence[Any]],
    times: list[float] | None,
    level: float,
) -> Iterator[Row]:
    """One row per person, or per person and time, or per person and level of the outcome."""
    frame = {name: np.asarray(values, dtype=object) for name, values in described.items()}
    people = [dict(zip(described, values, strict=True)) for values in zip(*described.values(), strict=True)]
    if not isinstance(model, SurvivalRegression):
        if times is not None:
            raise WrongArgument("--times are for survival regressions.")
        predicted = model.predict(posterior, frame, level=level)
        for row, person in enumerate(people):
            levels = {name: (row, place) for place, name in enumerate(model.predicted_levels)}
            yield from ({**person, model.target: name, **at_place(predicted, place)} for name, place in levels.items())
            yield from () if levels else [{**person, **at_place(predicted, row)}]
        return
    at_times = times or list(model.cuts)
    if not at_times:
        raise WrongArgument("The model has no cuts: give --times.")
    curves = model.survival(posterior, frame, times=at_times, level=level)
    for row, person in enumerate(people):
        yield from ({**person, "time": time, **at_place(curves, (row, place))} for place, time in enumerate(at_times))


def at_place(parts: Mapping[str, Any], place: Any) -> dict[str, float]:
    return {name: float(parts[name][place]) for name in NUMBERS}
