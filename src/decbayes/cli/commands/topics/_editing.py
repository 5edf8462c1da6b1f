"""Choose components by number, id or name, and save merges that were edited by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import manifest_of
from decbayes.cli.shared.standard_streams import print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.disclosure.manifest import KEY as MANIFEST
from decbayes.disclosure.manifest import Manifest
from decbayes.files import load_note, save
from decbayes.merging import Lineage
from decbayes.posterior import Posterior
from decbayes.views import view_of
from decbayes.views.comparison import changes_in

KEPT = ("holds", "several", "public_documents")


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
