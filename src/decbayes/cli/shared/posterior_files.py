"""Read the posterior files of several sites, and note which sites support which component of a merge."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from decbayes import merging, views
from decbayes.cli.shared.terminal import messages, plain, progress_bar
from decbayes.errors import InvalidFile, NothingToMerge, StructureMismatch
from decbayes.families import Array
from decbayes.files import load_note
from decbayes.merging.base.compatibility import alike, check_different, same_columns, why
from decbayes.merging.base.components import LEAST_EVIDENCE, group_evidence
from decbayes.models.core.registry import MODELS
from decbayes.posterior import Posterior
from decbayes.structure import Structure
from decbayes.updates.exchange import Exchange
from decbayes.updates.rounds import Sent, check_once, sent_in
from decbayes.views.text_summary import filled_slots
from decbayes.views.values import DIVIDED, divided

if TYPE_CHECKING:
    from decbayes.merging import Alignment

MOST_NAMED = 10
ALLOW = "--duplicates allow"
KEY, COUNTING = "found by", "counting"


def last_complete_round(folder: Path) -> list[Path]:
    """The files of the last round in a shared folder that all its sites have taken."""
    exchange = Exchange.read(folder)
    if not exchange.files:
        raise NothingToMerge(f"{folder} is a folder without posterior files.")
    if exchange.behind:
        missing = f"Round {exchange.round} of {', '.join(exchange.behind)} is missing: the round before it counts."
        messages().print(plain(missing))
    return [folder / name for name in exchange.inputs]


def support_note(alignment: "Alignment", names: Sequence[str], counting: int | None = None) -> dict[str, Any]:
    """For the note of a merged file: how many sites support each slot of each coupled set, and the largest by name.

    `counting`: how many rows a robust merge counts, if not all.
    """
    slots = [
        [supporters(column, names) for column in merging.support(alignment, coupled).T]
        for coupled in alignment.structure.symmetry
    ]
    return {KEY: {"sites": len(names), "slots": slots, **({} if counting is None else {COUNTING: counting})}}


def counting_in(note: Mapping[str, Any]) -> int | None:
    """How many rows count in a robust merge, by the note of its file; None if all do."""
    counting = note[KEY].get(COUNTING) if isinstance(note.get(KEY), Mapping) else None
    return counting if isinstance(counting, int) else None


def sites_behind(path: Path) -> int:
    """The number of sites in a merged file; 1 for a site's own."""
    note = load_note(path).get(KEY)
    count = note.get("sites") if isinstance(note, Mapping) else None
    return count if isinstance(count, int) and count > 0 else 1


def supporters(evidence: Array, names: Sequence[str]) -> dict[str, Any]:
    """The sites with data in a slot, in an order that does not depend on the order of sites."""
    filled = np.flatnonzero(evidence > LEAST_EVIDENCE).tolist()
    largest = sorted((-round(evidence[site]), names[site]) for site in filled)
    return {
        "sites": len(largest),
        "observations": round(float(evidence.sum())),
        "most": [[name, -count] for count, name in largest[:MOST_NAMED]],
    }


def support_tables(posterior: Posterior, note: Mapping[str, Any]) -> list[Table | str]:
    """One table per coupled set, and what to know about its counts; none if the file has no valid note of support."""
    symmetry = posterior.structure.symmetry
    try:
        support = note[KEY]
        tables: list[Table | str] = []
        for coupled, slots in zip(symmetry, support["slots"], strict=True):
            if len(slots) != posterior.structure.components(coupled):
                return []
            view = views.view_of(posterior.structure)
            units = "occurrences of words" if view.unit == "word" else f"{view.unit}s"
            titles = [*view.names(posterior)]
            names = titles if len(titles) == len(slots) and any(titles) else []
            shown = {slot: slots[slot] for slot in filled_slots(posterior, coupled)}
            # The share of a component is computed from capped evidence (docs/robust-merge.md).
            whose = "" if counting_in(note) is None else " that count in its share"
            tables.append(support_table(posterior.ids, names, int(support["sites"]), shown, f"{units}{whose}"))
            sums = np.array([int(slot["observations"]) for slot in slots])
            if view.unit == "word" and divided(group_evidence(posterior, coupled.factors), sums):
                tables.append(DIVIDED)
    except (LookupError, TypeError, ValueError, OverflowError):
        return []
    return tables


def support_table(ids: Sequence[str], names: Sequence[str], sites: int, slots: Mapping[int, Any], units: str) -> Table:
    labels = {"id": ids, "name": names}
    shown = [title for title, values in labels.items() if values]
    table = Table("slot", *shown, "sites", "found by", box=None)
    table.title = f"which sites have it, and with how many {units}"
    for slot, supporting in slots.items():
        count = f"{int(supporting['sites']):,} of {sites:,}"
        table.add_row(
            str(slot), *(plain(labels[title][slot]) for title in shown), count, largest_supporters(supporting)
        )
    return table


def largest_supporters(supporting: Mapping[str, Any]) -> str:
    """The sites with the most observations, and how many more there are."""
    parts = [f"{plain(str(name))} {int(count):,}" for name, count in supporting["most"]]
    more = int(supporting["sites"]) - len(parts)
    return ", ".join(parts) + (f" and {more:,} more" if more > 0 else "") or "–"


def remedies(first: Structure, second: Structure, like: Path) -> str:
    """What to do about posteriors that do not match: refit, or the remedy of their model."""
    name = str(first.model.get("name", ""))
    if name and name != str(second.model.get("name", name)):
        return "Merge files of one model only."
    remedy = MODELS[name].remedy(first, second) if name in MODELS else ""
    return f"Fit it again with --like {like}{f', or {remedy}' if remedy else ''}."


def is_release(path: Path) -> bool:
    """Whether a file holds a private release instead of a posterior."""
    try:
        return path.is_file() and "release" in load_note(path)
    except InvalidFile:
        return False


def read_sent(paths: list[Path], *, any_prior: bool = False) -> dict[str, Sent]:
    """Read all files, by name, and check that they match the first. Numbers of components may differ."""
    with progress_bar() as bar:
        read = [sent_in(path) for path in bar.track(paths, description="reading")]
    if not any_prior:
        check_alike(paths, read)
    again = [" (again)" * paths[:place].count(path) for place, path in enumerate(paths)]
    return {f"{path}{mark}": site for path, mark, site in zip(paths, again, read, strict=True)}


def check_alike(paths: Sequence[Path], read: Sequence[Sent]) -> None:
    """Refuse a file that does not match the first, and say what to do."""
    first, *others = [posterior.structure for posterior in same_columns([site.posterior for site in read])]
    for path, structure in zip(paths[1:], others, strict=True):
        if structure != first and not alike(structure, first):
            reason = why(first, structure, strictly=False)
            raise StructureMismatch(f"{path} does not fit {paths[0]}: {reason} {remedies(first, structure, paths[0])}")


def read_once(paths: list[Path], *, any_prior: bool = False, copies_count: bool = True) -> dict[str, Sent]:
    """Read all posteriors; refuse those that do not match the first, and data that would count twice."""
    if not paths:
        raise NothingToMerge("Give the posterior files to merge.")
    sent = read_sent(paths, any_prior=any_prior)
    different = {site.posterior.digest: name for name, site in sent.items()}
    check_once({name: site for name, site in sent.items() if different[site.posterior.digest] == name})
    if copies_count:
        posteriors, names = [site.posterior for site in sent.values()], [*map(str, paths)]
        check_different(posteriors, names, ALLOW)
        if any(posterior.merged_from for posterior in posteriors):  # a file that `db.merge` and `db.save` have made
            from decbayes.merging.base.held import check_separate, held_by

            check_separate(posteriors, held_by(posteriors), names, ALLOW)
    return sent
