"""`decbayes name`: give a topic a name."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.commands.topics._editing import component_of, draft_manifest
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.sharing import manifest_of
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.disclosure.manifest import KEY as MANIFEST
from decbayes.files import NAMES, load, load_note, save
from decbayes.merging import name as rename
from decbayes.merging.base.lineage import with_ids


def name(
    posterior: Annotated[Path, Parameter(help="A merge, or any posterior with components.")],
    topic: Annotated[str, Parameter(help="The topic, by number, id or present name.")],
    text: Annotated[str, Parameter(name="NAME", help="The new name; '' removes it.")],
    /,
    *,
    output: Annotated[Path | None, output_option("Where to write; default: the same file.")] = None,
    as_json: Annotated[bool, json_option("topic", "file", "topic", "id", "name")] = False,
) -> None:
    """Name a component. The name stays with it in reports, and in later merges with --since."""
    if output is not None:
        check_output(output, posterior)
    read = load(posterior)
    component = component_of(read, text=topic)
    named = rename(with_ids(read), {component: text})
    target, manifest = output or posterior, manifest_of(posterior)
    note = {key: value for key, value in load_note(posterior).items() if key != NAMES}
    outcome = f"{topic} is {text!r}" if text else f"{topic} no longer has a name"
    if manifest is not None and named.digest != read.digest:  # components now have ids, by which they keep their names
        note[MANIFEST] = draft_manifest(manifest, named)
        outcome += "; it is a draft again: release it once more" if manifest.released else ""
    save(named, target, note=note)
    messages().print(plain(f"{target}: {outcome}"))
    if as_json:
        print_json({"file": target, "topic": component, "id": named.ids[component], "name": text})
