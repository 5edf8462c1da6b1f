"""Which sites have what, as a merged file keeps it beside the posterior and `decbayes show` prints it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from decbayes.cli.terminal import plain
from decbayes.families import Array
from decbayes.merging import Alignment
from decbayes.posterior import Posterior

MOST_NAMED = 10
KEY = "found by"


def found_by(found: Alignment, names: Sequence[str]) -> dict[str, Any]:
    """For the note of a merged file: for each coupled set and slot how many sites have it, and the largest by name."""
    slots = [[supporters(column, names) for column in found.support(each).T] for each in found.structure.symmetry]
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
    """One table per coupled set; none where the file does not say it, or says something else than `merge` writes."""
    symmetry = posterior.structure.symmetry
    try:
        told, tables = note[KEY], []
        for coupled, slots in zip(symmetry, told["slots"], strict=True):
            if len(slots) != posterior.structure.components(coupled):
                return []
            tables.append(support_table(posterior.ids, int(told["sites"]), slots))
    except (LookupError, TypeError, ValueError, OverflowError):
        return []
    return tables


def support_table(ids: Sequence[str], sites: int, slots: Sequence[Any]) -> Table:
    called = [[plain(name)] for name in ids] or [[] for _ in slots]
    table = Table("slot", *(["id"] if ids else []), "sites", "observations", "found by", box=None)
    table.title = "which sites have it"
    for slot, (name, own) in enumerate(zip(called, slots, strict=True)):
        count = f"{int(own['sites']):,} of {sites:,}"
        table.add_row(str(slot), *name, count, f"{int(own['observations']):,}", named(own))
    return table


def named(own: Mapping[str, Any]) -> str:
    """The sites with the most, and how many more there are."""
    parts = [f"{plain(str(name))} {int(count):,}" for name, count in own["most"]]
    more = int(own["sites"]) - len(parts)
    return ", ".join(parts) + (f" and {more:,} more" if more > 0 else "") or "–"
