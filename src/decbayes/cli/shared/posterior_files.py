"""Posterior files: which data they hold, and which sites have which component of a merge."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from decbayes import merging, views
from decbayes.cli.shared.terminal import plain, progress_bar
from decbayes.errors import InvalidFile, NothingToMerge, StructureMismatch
from decbayes.families import Array
from decbayes.files import load_note
from decbayes.merging.base.compatibility import alike, check_different, same_columns, why
from decbayes.models.core.registry import MODELS
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.updates.rounds import Sent, check_once, sent_in
from decbayes.views.texts import filled

if TYPE_CHECKING:
    from decbayes.merging import Alignment

MOST_NAMED = 10
KEY = "found by"


def found_by(alignment: "Alignment", names: Sequence[str]) -> dict[str, Any]:
    """For the note of a merged file: for each coupled set and slot how many sites have it, and the largest by name."""
    slots = [
        [supporters(column, names) for column in merging.support(alignment, coupled).T]
        for coupled in alignment.structure.symmetry
    ]
    return {KEY: {"sites": len(names), "slots": slots}}


def supporters(evidence: Array, names: Sequence[str]) -> dict[str, Any]:
    """Of one slot; the same whatever the order of sites."""
    having = sorted((-round(evidence[site]), names[site]) for site in np.flatnonzero(evidence > 0.0).tolist())
    return {
        "sites": len(having),
        "observations": round(float(evidence.sum())),
        "most": [[name, -count] for count, name in having[:MOST_NAMED]],
    }


def support_tables(posterior: Posterior, note: Mapping[str, Any]) -> list[Table]:
    """One table per coupled set; none if the file has no such note, or not the one that `merge` writes."""
    symmetry = posterior.structure.symmetry
    try:
        support, tables = note[KEY], []
        for coupled, slots in zip(symmetry, support["slots"], strict=True):
            if len(slots) != posterior.structure.components(coupled):
                return []
            view = views.view_of(posterior.structure)
            units = "occurrences of words" if view.unit == "word" else f"{view.unit}s"
            titles = [*view.names(posterior)]
            named = titles if len(titles) == len(slots) and any(titles) else []
            shown = {slot: slots[slot] for slot in filled(posterior, coupled)}
            tables.append(support_table(posterior.ids, named, int(support["sites"]), shown, units))
    except (LookupError, TypeError, ValueError, OverflowError):
        return []
    return tables


def support_table(ids: Sequence[str], names: Sequence[str], sites: int, slots: Mapping[int, Any], units: str) -> Table:
    labels = {"id": ids, "name": names}
    shown = [title for title, values in labels.items() if values]
    table = Table("slot", *shown, "sites", "found by", box=None)
    table.title = f"which sites have it, with how many {units} of their own"
    for slot, supporting in slots.items():
        count = f"{int(supporting['sites']):,} of {sites:,}"
        table.add_row(str(slot), *(plain(labels[title][slot]) for title in shown), count, named(supporting))
    return table


def named(supporting: Mapping[str, Any]) -> str:
    """The sites with the most, and how many more there are."""
    parts = [f"{plain(str(name))} {int(count):,}" for name, count in supporting["most"]]
    more = int(supporting["sites"]) - len(parts)
    return ", ".join(parts) + (f" and {more:,} more" if more > 0 else "") or "–"


def remedies(first: Structure, second: Structure, like: Path) -> str:
    """What can be done about posteriors that do not fit each other: a new fit, or what their model knows."""
    name = str(first.model.get("name", ""))
    if name and name != str(second.model.get("name", name)):
        return "Merge files of one model only."
    known = MODELS[name].remedy(first, second) if name in MODELS else ""
    return f"Fit it again with --like {like}{f', or {known}' if known else ''}."


def is_release(path: Path) -> bool:
    """Whether a file holds a private release, and no posterior."""
    try:
        return path.is_file() and "release" in load_note(path)
    except InvalidFile:
        return False


def read_sent(paths: list[Path], *, any_prior: bool = False) -> dict[str, Sent]:
    """All files by name; one that does not fit the first is refused. Numbers of components may differ."""
    with progress_bar() as bar:
        read = [sent_in(path) for path in bar.track(paths, description="reading")]
    if not any_prior:
        check_alike(paths, read)
    again = [" (again)" * paths[:place].count(path) for place, path in enumerate(paths)]
    return {f"{path}{mark}": site for path, mark, site in zip(paths, again, read, strict=True)}


def check_alike(paths: Sequence[Path], read: Sequence[Sent]) -> None:
    """Refuse a file that does not fit the first, with what can be done about it."""
    first, *others = [posterior.structure for posterior in same_columns([site.posterior for site in read])]
    for path, structure in zip(paths[1:], others, strict=True):
        if structure != first and not alike(structure, first):
            reason = why(first, structure, strictly=False)
            raise StructureMismatch(f"{path} does not fit {paths[0]}: {reason} {remedies(first, structure, paths[0])}")


def read_once(paths: list[Path], *, any_prior: bool = False, copies_count: bool = True) -> dict[str, Sent]:
    """All posteriors; one that does not fit the first is refused by name, and so are the same data twice."""
    if not paths:
        raise NothingToMerge("Give the posterior files to merge.")
    sent = read_sent(paths, any_prior=any_prior)
    different = {site.posterior.digest: name for name, site in sent.items()}
    check_once({name: site for name, site in sent.items() if different[site.posterior.digest] == name})
    if copies_count:
        check_different([site.posterior for site in sent.values()], [*map(str, paths)], "--duplicates allow")
    return sent
