"""`decbayes calibrate`: what each site adds to a calibration, and the posterior that is calibrated by all of it."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from rich.table import Table

from decbayes.calibration import Information
from decbayes.calibration.intervals import by_response
from decbayes.cli.shared.common_options import the_data
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import RulesOption, check_to_send, rules_named
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.cli.shared.terminal import output as console
from decbayes.disclosure import Rules
from decbayes.disclosure.guarding import NEARLY
from decbayes.errors import InvalidFile, NotCalibrated, NotDisclosed
from decbayes.files import MOST_BYTES, load, save, write_whole
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior

ENDING = ".information"
# Rows that are printed; the file has them all.
MOST_ROWS = 40

PARAMETER = ("factor", "component", "quantity", "entry", "mean", "deviation", "lower", "upper", "uncertainty")


def calibrate(
    posterior: Annotated[Path, Parameter(help="The merged posterior file, the same at all sites.")],
    files: Annotated[list[Path], Parameter(negative="", help="This site's data, or all sites' .information files.")],
    /,
    *,
    output: Annotated[
        Path, Parameter(name=["--output", "-o"], help="Where to write: .information, or the calibrated posterior.")
    ],
    columns: Annotated[
        str, Parameter(help="Columns to use, separated by commas; default: those of the posterior.")
    ] = "",
    level: Annotated[float, Parameter(help="Probability of the printed intervals.")] = 0.9,
    rules: RulesOption = None,
    as_json: Annotated[
        bool,
        json_option("parameter", *PARAMETER, "or of one site's data file, parameters, observations"),
    ] = False,
) -> None:
    """Calibrate a merged posterior: each site writes what its data say, then somebody adds it up."""
    check_output(output, posterior, *files)
    if not 0.0 < level < 1.0:
        raise WrongArgument(f"--level must be between 0 and 1, not {level:g}.")
    read, parts = load(posterior), [path for path in files if path.name.endswith(ENDING)]
    if not parts and len(files) == 1:
        part = write_part(read, files[0], columns, output, rules_named(rules))
        if as_json:
            print_json(part)
    elif files and len(parts) == len(files):
        calibrated = by_response(read, [read_part(path) for path in parts])
        save(calibrated, output)
        if as_json:
            print_json(*calibrated.summary(level=level))
        else:
            print_intervals(calibrated, level)
        messages().print(f"{output}: {calibrated.uncertainty}")
    else:
        raise WrongArgument(f"Give this site's data, one file, or the {ENDING} files of all sites.")


def write_part(posterior: Posterior, data: Path, columns: str, output: Path, rules: Rules | None) -> dict[str, Any]:
    """This site's part, for whoever adds them up; how large it is."""
    if not output.name.endswith(ENDING):
        raise WrongArgument(f"What a site adds to a calibration goes into a {ENDING} file: -o {output.stem}{ENDING}.")
    model = model_for(posterior.structure)
    if model.calibrated_by != "linear response":
        raise NotCalibrated(
            f"{type(model).__name__} is calibrated by refits of all data: `decbayes.calibrate` in Python."
        )
    observations = model.read(the_data(model, [data]), columns=columns, report=messages().print)
    check_to_send(model, observations, rules)
    part = Information.of(model, observations, posterior)
    size, rows = len(part.matrix), model.count(observations)
    if rows < size and rules is not None:
        raise NotDisclosed(
            f"{size:,} × {size:,} sums over {rows:,} observations would reveal single ones: at least {size:,} are "
            "needed. Calibrate a smaller model, or without this site. For public or made-up data: --rules none."
        )
    if rules is not None:
        part = without_small(part, model, posterior, observations, rules)
    write_whole(output, part.to_bytes())
    messages().print(f"{output}: {size:,} × {size:,} sums over {rows:,} observations, no rows of {data}")
    if rows < size:
        messages().print(
            f"With fewer observations than {size:,} these sums reveal much about each of them: think twice."
        )
    return {"file": output, "parameters": size, "observations": rows}


def without_small(
    part: Information, model: Model, posterior: Posterior, observations: Any, rules: Rules
) -> Information:
    """The part without what it says about components that too few persons of this site have."""
    matrix, contribution = part.matrix.copy(), part.contribution.copy()
    for coupled in posterior.structure.symmetry:
        presence = model.presence(posterior, observations)
        small = (presence > NEARLY) & (presence < rules.least_cell - NEARLY)
        hidden = np.concatenate(
            [
                np.repeat(small & (name in coupled.factors), prior.shape[1])
                if len(prior) == len(small)
                else np.zeros(prior.size, dtype=np.bool_)
                for name, prior in posterior.structure.prior.items()
            ]
        )
        matrix[hidden], matrix[:, hidden], contribution[hidden] = 0.0, 0.0, 0.0
        if small.any():
            messages().print(f"{small.sum()} {model.noun}s that fewer than {rules.least_cell} have are left out.")
    return replace(part, matrix=matrix, contribution=contribution)


def read_part(path: Path) -> Information:
    if path.stat().st_size > MOST_BYTES:
        raise InvalidFile(f"{path} has more than the {MOST_BYTES:,} bytes that are read.")
    try:
        return Information.from_bytes(path.read_bytes())
    except InvalidFile as error:
        raise InvalidFile(f"{path} cannot be read. {error}") from error


def print_intervals(posterior: Posterior, level: float) -> None:
    rows = posterior.summary(level=level)
    table = Table("factor", "component", "quantity", "entry", "mean", "deviation", "lower", "upper", box=None)
    for row in rows[:MOST_ROWS]:
        texts = [plain(str(row[name])) for name in ("factor", "component", "quantity", "entry")]
        table.add_row(*texts, *(f"{row[name]:.4g}" for name in ("mean", "deviation", "lower", "upper")))
    console().print(table)
    if len(rows) > MOST_ROWS:
        console().print(f"{len(rows) - MOST_ROWS:,} more rows: --json prints all.")
