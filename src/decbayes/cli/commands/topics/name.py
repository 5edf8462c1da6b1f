"""`decbayes name`: names that people give to topics."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.commands.topics._choosing import component_of, drafted_again
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.sharing import manifest_of
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.disclosure.manifest import KEY as MANIFEST
from decbayes.files import NAMES, load, load_note, save
from decbayes.merging import name as renamed
from decbayes.merging.base.lineage import with_ids


def name(
    posterior: Annotated[Path, Parameter(help="A merge, or any posterior with components.")],
    topic: Annotated[str, Parameter(help="Which one: its number, its id or its present name.")],
    text: Annotated[str, Parameter(name="NAME", help="The new name; '' takes it away.")],
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Where to write; default: the same file.")
    ] = None,
    as_json: Annotated[bool, json_option("topic", "file", "topic", "id", "name")] = False,
) -> None:
    """Name a component. The name stays with it in reports, and in later merges with --since."""
    if output is not None:
        check_output(output, posterior)
    read = load(posterior)
    component = component_of(read, text=topic)
    named = renamed(with_ids(read), {component: text})
    target, manifest = output or posterior, manifest_of(posterior)
    note = {key: value for key, value in load_note(posterior).items() if key != NAMES}
    outcome = f"{topic} is {text!r}" if text else f"{topic} has no name any more"
    if manifest is not None and named.digest != read.digest:  # components have got ids, by which they keep their names
        note[MANIFEST] = drafted_again(manifest, named)
        outcome += "; it is a draft again: release it once more" if manifest.released else ""
    save(named, target, note=note)
    messages().print(plain(f"{target}: {outcome}"))
    if as_json:
        print_json({"file": target, "topic": component, "id": named.ids[component], "name": text})
