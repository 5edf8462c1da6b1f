"""`decbayes calibrate`: write one site's part of a calibration, or calibrate a posterior with the parts of all."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from sys import maxsize
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from numpy.typing import NDArray
from rich.table import Table

from decbayes.base.display import digits
from decbayes.base.writing import write_whole
from decbayes.calibration import Information
from decbayes.calibration.intervals import by_response
from decbayes.calibration.sites import check_all_once, units_in
from decbayes.cli.shared.common_options import PosteriorColumns, model_input
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import (
    PersonOption,
    RulesOption,
    merged_manifest,
    persons_of,
    rules_in_force,
    safe_to_send,
)
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.cli.shared.terminal import output as console
from decbayes.disclosure import Persons, Rules
from decbayes.disclosure.guarding import NEARLY
from decbayes.disclosure.latent_sums import between_few, coarse, coarse_columns
from decbayes.disclosure.preparing import unit_of
from decbayes.errors import InvalidFile, NotCalibrated, NotDisclosed
from decbayes.files import MOST_BYTES, load, load_note, save
from decbayes.models.core.evaluation import hold_back, rows_of
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH
from decbayes.models.core.registry import model_for
from decbayes.models.regressions.regression import Regression
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet
from decbayes.views import view_of

ENDING = ".information"
# Printed rows; --json prints all.
MOST_ROWS = 40

PARAMETER = ("factor", "component", "quantity", "entry", "mean", "deviation", "lower", "upper", "uncertainty")


def calibrate(
    posterior: Annotated[Path, Parameter(help="The merged posterior file, the same at all sites.")],
    files: Annotated[list[Path], Parameter(help="This site's data, or all sites' .information files.")],
    /,
    *,
    output: Annotated[Path, output_option("Where to write: .information, or the calibrated posterior.")],
    columns: PosteriorColumns = "",
    held_back: Annotated[
        float | None, Parameter(help="The share that `fit --hold-back` kept out of the data given here.")
    ] = None,
    level: Annotated[float, Parameter(help="Probability of the printed intervals.")] = 0.9,
    robust: Annotated[
        bool,
        Parameter(
            help="Regressions: robust (sandwich) errors, valid if counts vary more than the model allows; with "
            "--person also if rows of one person are dependent. For the first step."
        ),
    ] = False,
    person: PersonOption = "",
    rules: RulesOption = None,
    as_json: Annotated[
        bool, json_option("parameter", *PARAMETER, "or of one site's data file, parameters, observations")
    ] = False,
) -> None:
    """Calibrate a merged posterior: each site writes the information in its data, then somebody adds up these files."""
    check_output(output, posterior, *files)
    if not 0.0 < level < 1.0:
        raise WrongArgument(f"--level must be between 0 and 1, not {level:g}.")
    if held_back is not None and not 0.0 < held_back < 1.0:
        raise WrongArgument(f"--held-back must be between 0 and 1, not {held_back:g}.")
    read, parts = load(posterior), [path for path in files if path.name.endswith(ENDING)]
    if not parts and len(files) == 1:
        part = write_part(read, files, columns, output, rules_in_force(rules), person, robust, held_back)
        if as_json:
            print_json(part)
    elif files and len(parts) == len(files):
        informations = [read_part(path) for path in parts]
        check_all_once(read, informations, [*map(str, parts)])
        calibrated = by_response(read, informations)
        save(calibrated, output, note=calibrated_note(posterior, read, calibrated))
        rows = view_of(calibrated.structure).parameters(calibrated, top=maxsize, level=level)
        if as_json:
            print_json(*rows)
        else:
            print_intervals(rows)
        messages().print(f"{output}: {calibrated.uncertainty}")
    else:
        raise WrongArgument(f"Give this site's data, one file, or the {ENDING} files of all sites.")


def calibrated_note(path: Path, merged: Posterior, calibrated: Posterior) -> dict[str, Any]:
    """The note of a calibrated posterior: it holds the same data as the posterior that was calibrated."""
    note = load_note(path)
    return {**note, "holds": [*note.get("holds", ()), merged.digest], **merged_manifest([path], calibrated)}


def write_part(
    posterior: Posterior,
    data: Sequence[Path],
    columns: str,
    output: Path,
    rules: Rules | None,
    person: str,
    robust: bool,
    held_back: float | None = None,
) -> dict[str, Any]:
    """Write this site's part; returns its size."""
    if not output.name.endswith(ENDING):
        raise WrongArgument(f"A site's part of a calibration is a {ENDING} file: -o {output.stem}{ENDING}.")
    model = model_for(posterior.structure)
    if model.calibrated_by != "linear response":
        raise NotCalibrated(
            f"{type(model).__name__} is calibrated by refitting all data: use `decbayes.calibrate` in Python."
        )
    observations = model.read(model_input(model, data), columns=columns, report=messages().print)
    persons = persons_of(model, data, person, rules=rules)
    observations = safe_to_send(model, observations, rules, persons)
    if held_back is not None:
        persons = persons.taken(rows_of(model.count(observations), held_back)[0])
        observations = hold_back(model, observations, share=held_back)[0]
    part = (
        Information.robust(model, observations, posterior, persons)
        if robust
        else site_information(model, observations, posterior, rules)
    )
    size, rows = len(part.matrix), persons.total(count := model.count(observations))
    if rows < size and rules is not None:
        raise NotDisclosed(
            f"{size:,} × {size:,} sums over {rows:,} persons would reveal single ones: at least {size:,} are "
            "needed. Merge the other sites' files without this one and calibrate that, or fit a smaller model at all "
            "sites. For public or made-up data: --rules none."
        )
    if rules is not None:
        if robust:  # other grids follow from the contribution, and rounded ones can be those of no rows
            part = replace(part, grid=coarse_columns(part.grid))
        part = hide_small_components(part, model, posterior, observations, rules, persons)
    write_whole(output, part.to_bytes())
    of_persons = f" of {rows:,} persons" if rows < count else ""
    units = "" if model.unit == "observation" else f" ({units_in(model, observations):,.0f} {model.unit}s)"
    sums = f"{size:,} × {size:,} sums over {count:,} {unit_of(model, EACH)}{units}{of_persons}"
    messages().print(f"{output}: {sums}, no rows of {', '.join(map(str, data))}")
    if rows < size:
        messages().print(f"With fewer persons than {size:,} these sums reveal much about each of them: think twice.")
    return {"file": output, "parameters": size, "observations": count}


def site_information(model: Model, observations: Any, posterior: Posterior, rules: Rules | None) -> Information:
    """This site's information; for a regression with varying terms, also sums for many values of their deviations."""
    part = Information.usual(model, observations, posterior, rules=rules is not None)
    if isinstance(model, Regression) and model.varying and not part.grid.size:
        messages().print(
            "Deviations are calibrated by linear response, because sums for many values could reveal groups of "
            f"{model.within or model.by}."
        )
    return part


def hide_small_components(
    part: Information, model: Model, posterior: Posterior, observations: Any, rules: Rules, persons: Persons
) -> Information:
    """Hide what the part reveals about components that too few persons of this site have, or are divided between."""
    matrix, contribution = part.matrix.copy(), part.contribution.copy()
    for coupled in posterior.structure.symmetry:
        presence = model.presence(posterior, observations, persons)
        small = (presence > NEARLY) & (presence < rules.least_cell - NEARLY)
        pairs = between_few(model, posterior, observations, rules.least_cell, persons)
        places = [parameter_positions(posterior, coupled, component) for component in range(len(small))]
        if any(posterior.structure.families[name].two_sided for name in coupled.factors):
            # Chains also depend on each other through their moves, so no pair can be removed alone.
            small, pairs = small | pairs.any(axis=1), np.zeros_like(pairs)
        for first, second in np.argwhere(pairs & ~np.eye(len(pairs), dtype=np.bool_)):
            # As if these few were certain: Σ_n T T' r_k (1 − r_k − r_l) is left where r_k (1 − r_k) was.
            matrix[np.ix_(places[first], places[first])] += matrix[np.ix_(places[first], places[second])]
            matrix[np.ix_(places[first], places[second])] = 0.0
        hidden = np.concatenate([np.zeros(0, dtype=np.intp), *(places[k] for k in np.flatnonzero(small))])
        matrix[hidden], matrix[:, hidden], contribution[hidden] = 0.0, 0.0, 0.0
        if small.any():
            messages().print(f"Left out, because too few persons have them: {model.nouns(int(small.sum()))}.")
    return replace(part, matrix=coarse(matrix), contribution=contribution)


def parameter_positions(posterior: Posterior, coupled: CoupledSet, component: int) -> NDArray[np.intp]:
    """The positions of a component's natural parameters among those of all factors."""
    first, places = 0, []
    for name, prior in posterior.structure.prior.items():
        width = prior.shape[1]
        if name in coupled.factors:
            places.append(np.arange(first + component * width, first + (component + 1) * width))
        first += prior.size
    return np.concatenate(places)


def read_part(path: Path) -> Information:
    if path.stat().st_size > MOST_BYTES:
        raise InvalidFile(f"{path} has more than the {MOST_BYTES:,} bytes that are read.")
    try:
        return Information.from_bytes(path.read_bytes())
    except InvalidFile as error:
        raise InvalidFile(f"{path} cannot be read. {error}") from error


def print_intervals(rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table("factor", "component", "quantity", "entry", "mean", "deviation", "lower", "upper", box=None)
    for row in rows[:MOST_ROWS]:
        texts = [plain(str(row[name])) for name in ("factor", "component", "quantity", "entry")]
        table.add_row(*texts, *(digits(row[name], 4) for name in ("mean", "deviation", "lower", "upper")))
    console().print(table)
    if len(rows) > MOST_ROWS:
        console().print(f"{len(rows) - MOST_ROWS:,} more rows: --json prints all.")
