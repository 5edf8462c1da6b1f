"""What went where: the table that `decbayes merge --explain` prints."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from decbayes.cli.describe import captions
from decbayes.cli.terminal import output, plain
from decbayes.merging import Alignment
from decbayes.posterior import Posterior
from decbayes.symmetry import CoupledSet

CLOSE = 3.0  # nats: the next best assignment is less than twenty times as improbable
SPACES = 2  # around a column
SHORTEST_CAPTION = 16  # what the last column is left with, on a narrow terminal


def print_alignment(found: Alignment, merged: Posterior, names: list[str]) -> None:
    """For each coupled set tables of slots × agents: the agent's component and its margin."""
    margins = found.margins()
    for coupled in merged.structure.symmetry:
        sureness = np.where(found.filled(coupled), [margin[coupled] for margin in margins], np.nan)
        columns = [
            [Text(plain(name)), *map(cell, permutation[coupled].tolist(), sureness[agent].tolist())]
            for agent, (name, permutation) in enumerate(zip(names, found.permutations, strict=True))
        ]
        print_tables(columns, slot_captions(merged, coupled), plain(" + ".join(coupled.factors)))
        close, matches = int((sureness < CLOSE).sum()), int((~np.isnan(sureness)).sum())
        output().print(
            f"In brackets: the nats that J loses by the next best assignment. {close} of {matches} matches are "
            f"close calls (under {CLOSE:g})."
        )


def slot_captions(merged: Posterior, coupled: CoupledSet) -> list[str]:
    texts = captions(merged)
    size = merged.structure.components(coupled)
    return texts if len(texts) == size else [""] * size


def print_tables(columns: Sequence[Sequence[Text]], texts: Sequence[str], title: str) -> None:
    """One table, or several below each other where all agents would not fit the terminal's width."""
    console = output()
    room = console.width - max(SHORTEST_CAPTION, *map(cell_len, texts)) - len("slot") - 2 * SPACES
    for group in in_groups(columns, max(room, console.width // 2)):
        table = Table("slot", title=title, box=None)
        for name, *_ in group:
            table.add_column(name, no_wrap=True)
        table.add_column("merged")
        for slot, text in enumerate(texts):
            table.add_row(str(slot), *(column[slot + 1] for column in group), text)
        console.print(table)


def in_groups(columns: Sequence[Sequence[Text]], room: int) -> Iterator[list[Sequence[Text]]]:
    """Columns in order, as many together as there is room for; one at least."""
    group: list[Sequence[Text]] = []
    taken = 0
    for column in columns:
        width = max(text.cell_len for text in column) + SPACES
        if group and taken + width > room:
            yield group
            group, taken = [], 0
        group.append(column)
        taken += width
    yield group


def cell(component: int, margin: float) -> Text:
    if np.isnan(margin):
        return Text("–")
    text = f"{component} ({margin:,.1f})" if np.isfinite(margin) else f"{component} (only one)"
    return Text(text, style="yellow" if margin < CLOSE else "")
