"""`decbayes join`: make one topic of several."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.commands.topics._choosing import component_of, save_edited
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.standard_streams import json_option
from decbayes.files import load
from decbayes.merging import join as joined


def join(
    posterior: Annotated[Path, Parameter(help="A merge.")],
    topics: Annotated[
        list[str], Parameter(help="Which ones: numbers, ids or names. The first keeps its id and name.", negative="")
    ],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the changed merge.")],
    as_json: Annotated[bool, json_option("event", "kind", "id", "other", "share")] = False,
) -> None:
    """Add components to the first one. The file says what was done."""
    check_output(output, posterior)
    read = load(posterior)
    edited = joined(read, *(component_of(read, topic) for topic in topics))
    save_edited(edited, posterior, output, as_json)
