"""`decbayes split`: divide a topic of a merge in two, using the sites' files."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.commands.topics._editing import component_of, save_edited
from decbayes.cli.shared.match_confidence import align_posteriors
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.posterior_files import read_once
from decbayes.cli.shared.standard_streams import json_option
from decbayes.files import load
from decbayes.merging import split as split_component
from decbayes.merging.base.compatibility import same_columns


def split(
    merged: Annotated[Path, Parameter(help="A merge.")],
    topic: Annotated[str, Parameter(help="The topic, by number, id or name.")],
    posteriors: Annotated[list[Path], Parameter(help="The merged files of all sites.")],
    /,
    *,
    output: Annotated[Path, output_option("Where to write the changed merge.")],
    as_json: Annotated[bool, json_option("event", "kind", "id", "other", "share")] = False,
) -> None:
    """Divide a component in two, so that the sites' contributions to them differ most. The file notes the change."""
    check_output(output, merged, *posteriors)
    component = component_of(load(merged), topic)
    sent = read_once(posteriors)
    read = list(same_columns([site.posterior for site in sent.values()]))
    alignment = align_posteriors(read, None, merged, None)
    edited = split_component(alignment, component)
    save_edited(edited, merged, output, as_json)
