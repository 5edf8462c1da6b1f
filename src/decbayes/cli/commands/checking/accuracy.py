"""`decbayes accuracy`: how well a regression predicts, from sums over all sites."""

from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.calibration.accuracy import Accuracy
from decbayes.cli.shared.common_options import model_input
from decbayes.cli.shared.describe import rows_table
from decbayes.cli.shared.outputs import check_each_once, check_output, output_option
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import PersonOption, RulesOption, persons_of, rules_in_force, safe_to_send
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
    files: Annotated[list[Path], Parameter(help="This site's data, or all sites' .accuracy files.")],
    /,
    *,
    output: Annotated[Path | None, output_option("Where to write this site's sums: .accuracy.")] = None,
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
    sums = [Accuracy.from_json(path.read_text(encoding="utf-8")) for path in parts]
    sums = sums or [site_sums(read, files[0], rules, person)]
    if any(part.at != read.digest for part in sums):
        raise NotCalibrated(f"Some sums are not about {posterior}: each site must compute them for that file.")
    total: Accuracy = reduce(add, sums)
    if output is not None:
        write_text(output, total.to_json() + "\n")
        print_written(output, f"sums over {sum(total.persons):,} persons")
    if as_json:
        print_json({"concordance": total.concordance, "pairs": total.comparable}, *total.groups)
        return
    messages().print(
        "Only pairs within a site are compared. Risk groups are ranges of the linear predictor; a site's small groups "
        "count in the next one."
    )
    if total.comparable:
        console().print(f"concordance {total.concordance:.3f} over {total.comparable:,.0f} pairs (0.5 by chance)")
    else:
        console().print("concordance unknown: no two persons of a site have different outcomes")
    console().print(rows_table(total.groups))


def site_sums(posterior: Posterior, path: Path, rules: str | None, person: str) -> Accuracy:
    """This site's sums, with enough persons in each group."""
    model, in_force = model_for(posterior.structure), rules_in_force(rules)
    observations = model.read(model_input(model, [path]), report=messages().print)
    persons = persons_of(model, [path], person, rules=in_force)
    observations = safe_to_send(model, observations, in_force, persons)
    least, least_outcome = (1, 1) if in_force is None else (in_force.least_cell, in_force.least_outcome)
    return Accuracy.of(model, observations, posterior, least=least, least_outcome=least_outcome, persons=persons)
