"""`decbayes accuracy`: concordance and calibration of a regression, summed over sites."""

from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.calibration.accuracy import Accuracy
from decbayes.cli.shared.common_options import the_data
from decbayes.cli.shared.describe import rows_table
from decbayes.cli.shared.outputs import check_each_once, check_output
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import PersonOption, RulesOption, persons_of, rules_named, safe_to_send
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, print_written
from decbayes.cli.shared.terminal import output as console
from decbayes.errors import NotCalibrated
from decbayes.files import load
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior

ENDING = ".accuracy"


def accuracy(
    posterior: Annotated[Path, Parameter(help="A posterior file of a regression, the same at all sites.")],
    files: Annotated[list[Path], Parameter(negative="", help="This site's data, or all sites' .accuracy files.")],
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Where to write this site's sums: .accuracy.")
    ] = None,
    person: PersonOption = "",
    rules: RulesOption = None,
    as_json: Annotated[
        bool, json_option("group", "risk", "persons", "observed", "expected", "ratio", "and first the concordance")
    ] = False,
) -> None:
    """Print how well a regression orders observations, and observed beside expected events by risk."""
    check_output(output, posterior, *files, text=True)
    read, parts = load(posterior), [path for path in files if path.suffix == ENDING]
    if (parts and len(parts) < len(files)) or (not parts and len(files) != 1):
        raise WrongArgument(f"Give this site's data, one file, or the {ENDING} files of all sites.")
    check_each_once(parts)
    if output is not None and output.suffix != ENDING:
        raise WrongArgument(f"A site's sums go into a {ENDING} file: -o {output.stem}{ENDING}.")
    sums = [of_data(read, files[0], rules, person)] if not parts else [of_file(path) for path in parts]
    if any(each.at != read.digest for each in sums):
        raise NotCalibrated(f"Sums belong to another posterior than {posterior}: each site computes them at that one.")
    whole: Accuracy = reduce(add, sums)
    if output is not None:
        write_text(output, whole.to_json() + "\n")
        print_written(output, f"sums over {sum(whole.persons):,} persons")
    if as_json:
        print_json({"concordance": whole.concordance, "pairs": whole.comparable}, *whole.groups)
        return
    messages().print(
        "Only pairs within a site are compared. Risk groups are steps of the linear predictor; a site's small groups "
        "count in the one beside them."
    )
    if whole.comparable:
        console().print(f"concordance {whole.concordance:.3f} over {whole.comparable:,.0f} pairs (0.5 by chance)")
    else:
        console().print("concordance unknown: no two persons of a site have different outcomes")
    console().print(rows_table(whole.groups))


def of_data(posterior: Posterior, path: Path, rules: str | None, person: str) -> Accuracy:
    """The sums of this site's data, whose groups hold enough persons."""
    model, in_force = model_for(posterior.structure), rules_named(rules)
    observations = model.read(the_data(model, [path]), report=messages().print)
    persons = persons_of(model, [path], person)
    observations = safe_to_send(model, observations, in_force, persons)
    least, of_outcome = (1, 1) if in_force is None else (in_force.least_cell, in_force.least_outcome)
    return Accuracy.of(model, observations, posterior, least=least, least_outcome=of_outcome, persons=persons)


def of_file(path: Path) -> Accuracy:
    return Accuracy.from_json(path.read_text(encoding="utf-8"))
