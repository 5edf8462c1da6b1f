"""`decbayes name`, `drop`, `join` and `split`: topics of a merge, edited by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from decbayes import merging
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.posterior_files import read_once
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import manifest_of
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.disclosure.manifest import KEY as MANIFEST
from decbayes.disclosure.manifest import Manifest
from decbayes.files import NAMES, load, load_note, save
from decbayes.merging import Lineage
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.lineage import with_ids
from decbayes.posterior import Posterior
from decbayes.views import view_of
from decbayes.views.comparison import changes_in

KEPT = ("holds", "several", "public_documents")
Merge = Annotated[Path, Parameter(help="A merge.")]
Output = Annotated[Path, output_option("Where to write the changed merge.")]
Events = Annotated[bool, json_option("event", "kind", "id", "other", "share")]


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
    named = merging.name(with_ids(read), {component: text})
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


def drop(
    posterior: Merge,
    topics: Annotated[list[str], Parameter(help="The topics, by number, id or name.")],
    /,
    *,
    output: Output,
    as_json: Events = False,
) -> None:
    """Leave out components, with everything learned about them. The file notes the change."""
    check_output(output, posterior)
    read = load(posterior)
    edited = merging.drop(read, *(component_of(read, topic) for topic in topics))
    save_edited(edited, posterior, output, as_json)


def join(
    posterior: Merge,
    topics: Annotated[list[str], Parameter(help="The topics, by number, id or name. The first keeps its id and name.")],
    /,
    *,
    output: Output,
    as_json: Events = False,
) -> None:
    """Add components to the first one. The file notes the change."""
    check_output(output, posterior)
    read = load(posterior)
    edited = merging.join(read, *(component_of(read, topic) for topic in topics))
    save_edited(edited, posterior, output, as_json)


def split(
    merged: Merge,
    topic: Annotated[str, Parameter(help="The topic, by number, id or name.")],
    posteriors: Annotated[list[Path], Parameter(help="The merged files of all sites.")],
    /,
    *,
    output: Output,
    as_json: Events = False,
) -> None:
    """Divide a component in two, so that the sites' contributions to them differ most. The file notes the change."""
    check_output(output, merged, *posteriors)
    *sites, read = same_columns([*(site.posterior for site in read_once(posteriors).values()), load(merged)])
    edited = merging.split(read, component_of(read, topic), sites)
    save_edited(edited, merged, output, as_json)


def component_of(posterior: Posterior, text: str) -> int:
    """The component with this number, id or name."""
    names = [*view_of(posterior.structure).names(posterior)]
    size = max(len(names), len(posterior.ids))
    if text.isdecimal() and int(text) < size:
        return int(text)
    matches = [
        [k for k, label in enumerate(posterior.ids) if label == text],
        [k for k, label in enumerate(names) if label.casefold() == text.casefold()],
        [k for k, label in enumerate(names) if text.casefold() in label.casefold()],
    ]
    chosen = next(filter(None, matches), [])
    if len(chosen) != 1:
        several = f"{len(chosen)} components have it in their names" if chosen else "no component has it"
        raise WrongArgument(
            f"{text!r}: {several}. Give a number from 0 to {size - 1}, an id, or a name, as in `decbayes show`."
        )
    return chosen[0]


def save_edited(edited: Lineage, source: Path, output: Path, as_json: bool) -> None:
    """Write an edited merge with the notes about its data, and print what changed.

    It is a draft again, because nobody has approved the change.
    """
    note, manifest = load_note(source), manifest_of(source)
    new_note = {name: note[name] for name in KEPT if name in note}
    if manifest is not None:
        new_note[MANIFEST] = draft_manifest(manifest, edited.posterior)
    save(edited.posterior, output, note=new_note)
    messages().print(plain(f"{output}: {'; '.join(changes_in(edited).values())}"))
    if as_json:
        print_json(*(vars(event) for event in edited.events))


def draft_manifest(manifest: Manifest, posterior: Posterior) -> dict[str, Any]:
    """The manifest of an edited posterior, which nobody has approved."""
    draft = replace(manifest, approver="", reason="", key="", signature="")
    return replace(draft, posterior=posterior.digest).plain()
