"""`decbayes join`: make one topic of several."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.commands.topics._editing import component_of, save_edited
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.standard_streams import json_option
from decbayes.files import load
from decbayes.merging import join as join_components


def join(
    posterior: Annotated[Path, Parameter(help="A merge.")],
    topics: Annotated[list[str], Parameter(help="The topics, by number, id or name. The first keeps its id and name.")],
    /,
    *,
    output: Annotated[Path, output_option("Where to write the changed merge.")],
    as_json: Annotated[bool, json_option("event", "kind", "id", "other", "share")] = False,
) -> None:
    """Add components to the first one. The file notes the change."""
    check_output(output, posterior)
    read = load(posterior)
    edited = join_components(read, *(component_of(read, topic) for topic in topics))
    save_edited(edited, posterior, output, as_json)
