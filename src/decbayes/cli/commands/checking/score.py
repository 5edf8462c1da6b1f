"""`decbayes score`: how well posteriors predict held-out data."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt
from rich.table import Table

from decbayes.cli.commands.checking._fitted_rows import those_that_hold
from decbayes.cli.shared.common_options import AS_THEY_ARE, Device, Reading, work_on
from decbayes.cli.shared.standard_streams import json_option, print_json, table_file
from decbayes.cli.shared.terminal import messages, output, plain
from decbayes.errors import InvalidData
from decbayes.files import load
from decbayes.inputs.mixed_tables import read_frame
from decbayes.merging.base.compatibility import same_columns
from decbayes.models.core.evaluation import adjusted_rand, hold_out
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.remarks import listed


def score(
    data: Annotated[Path, Parameter(help="Held-out data, as for `decbayes fit`.")],
    posteriors: Annotated[list[Path], Parameter(help="The posterior files to compare.")],
    /,
    *,
    held_out: Annotated[float, Parameter(help="Topics and features: share of each observation to predict.")] = 0.1,
    seed: Annotated[NonNegativeInt, Parameter(help="Topics and features: random seed that chooses this share.")] = 0,
    labels: Annotated[
        str, Parameter(help="A column of labels: also print how well classes or clusters agree with them.")
    ] = "",
    device: Device = None,
    as_json: Annotated[
        bool, json_option("posterior", "posterior", "log_predictive", "and with --labels adjusted_rand")
    ] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Print each posterior's mean log predictive density of held-out data; higher is better."""
    if not posteriors:
        raise InvalidData("Give the posteriors to score after the data.")
    if not 0.0 < held_out < 1.0:
        raise InvalidData(f"--held-out must be between 0 and 1, not {held_out:g}.")
    work_on(device)
    read = same_columns([load(path) for path in posteriors], grow=False)
    warn_of_other_labels(posteriors, read)
    data = data if model_for(read[0].structure).many_files else table_file(data)
    scores, report = [], cache(messages().print)  # the reader's messages are the same for all posteriors
    for path, posterior in zip(posteriors, read, strict=True):
        with messages().status(f"scoring {path}"):
            model = model_for(posterior.structure)
            observations = model.read(data, **reading.options(type(model)), report=report)
            row = {"log_predictive": predictive(model, posterior, observations, held_out, np.random.default_rng(seed))}
            if labels:
                names = read_frame(data, [labels])[labels]
                row["adjusted_rand"] = adjusted_rand(names, model.assign(posterior, observations))
        scores.append({"posterior": str(path)} | row)
    if held := those_that_hold(posteriors, data, reading.columns, model.count(observations)):
        said = f"Probably too high: {listed([*map(str, held)])}. By their sums they hold these data; score data that "
        messages().print(plain(f"{said}were in no fit."))
    if as_json:
        print_json(*scores)
    else:
        print_scores(scores)


def print_scores(scores: list[dict[str, Any]]) -> None:
    table = Table(*(name.replace("_", " ").replace("rand", "Rand") for name in scores[0]), box=None)
    for row in scores:
        table.add_row(*(value if isinstance(value, str) else f"{value:.4f}" for value in row.values()))
    output().print(table)


def predictive(model: Model, posterior: Posterior, data: Any, share: float, rng: np.random.Generator) -> float:
    """The mean log predictive density of observations, or of a part of each given the rest."""
    observations, held_out = hold_out(data, share=share, rng=rng) if model.in_parts else (data, None)
    return model.score(posterior, observations, held_out)


def warn_of_other_labels(paths: list[Path], read: Sequence[Posterior]) -> None:
    """Warn if posteriors have different words or columns, because their scores cannot be compared."""
    for path, posterior in zip(paths[1:], read[1:], strict=True):
        if prediction_target(posterior) != prediction_target(read[0]):
            messages().print(
                f"{path} and {paths[0]} have different words or columns. Each is scored on its own, so their "
                "scores cannot be compared."
            )


def prediction_target(posterior: Posterior) -> Any:
    """What is predicted: the target of a regression, otherwise all words or columns."""
    return posterior.structure.model.get("target") or dict(posterior.structure.labels)
