"""`decbayes split`: divide a topic of a merge in two, by the sites' files."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.commands.topics._choosing import component_of, save_edited
from decbayes.cli.shared.match_confidence import aligned
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.posterior_files import read_once
from decbayes.cli.shared.standard_streams import json_option
from decbayes.files import load
from decbayes.merging import split as divided
from decbayes.merging.base.compatibility import same_columns


def split(
    merged: Annotated[Path, Parameter(help="A merge.")],
    topic: Annotated[str, Parameter(help="Which one: its number, its id or its name.")],
    posteriors: Annotated[list[Path], Parameter(help="The files of all sites that were merged.", negative="")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the changed merge.")],
    as_json: Annotated[bool, json_option("event", "kind", "id", "other", "share")] = False,
) -> None:
    """Divide a component in two, so that what the sites have put there differs most. The file says what was done."""
    check_output(output, merged, *posteriors)
    component = component_of(load(merged), topic)
    sent = read_once(posteriors)
    read = list(same_columns([site.posterior for site in sent.values()]))
    alignment = aligned(read, None, merged, None)
    edited = divided(alignment, component)
    save_edited(edited, merged, output, as_json)
