"""`decbayes compare`: show what changed from one merge to another."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from decbayes.cli.shared.outputs import DPI, Dpi, check_picture, save_picture
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import output, plain
from decbayes.errors import StructureMismatch
from decbayes.files import load
from decbayes.merging.base.compatibility import same_columns
from decbayes.views.comparison import Change, count_by_fate
from decbayes.views.comparison import compare as compare_merges

KEYS = ("fate", "id", "name", "before", "after", "share_before", "share_after", "apart", "why", "gained", "lost")
COLOURS = {"changed": "yellow", "appeared": "green", "vanished": "red"}


def compare(
    before: Annotated[Path, Parameter(help="The earlier merge.")],
    after: Annotated[Path, Parameter(help="The later merge.")],
    /,
    *,
    picture: Annotated[Path | None, Parameter(help="Write a picture of both shares (.png, .svg, .pdf).")] = None,
    dpi: Dpi = DPI,
    as_json: Annotated[bool, json_option("component", *KEYS)] = False,
) -> None:
    """Print which components changed, appeared or vanished, and how their shares moved."""
    check_picture(picture, before, after)
    read = load(before), load(after)
    first, second = same_columns(read)
    if not first.structure.symmetry:
        raise StructureMismatch(
            "compare is for merges with components, and these have none. `decbayes show` prints each."
        )
    changes = compare_merges(first, second)
    if picture is not None:
        from decbayes.plot import changes as draw_changes

        save_picture(draw_changes(changes).figure, picture, dpi)
    if as_json:
        print_json(*(change.row() for change in changes))
        return
    output().print("; ".join(f"{count} {fate}" for fate, count in count_by_fate(changes).items()))
    words, later = (set(merge.structure.labels.get("topics", ())) for merge in read)
    if words != later:
        both, before_only, after_only = len(words & later), len(words - later), len(later - words)
        output().print(f"They count different words: {both:,} in both, {before_only:,} before, {after_only:,} after.")
    output().print(changes_table(changes))
    output().print("apart: nats lost by describing both versions with common parameters, per observation of each.")


def changes_table(changes: list[Change]) -> Table:
    table = Table("", "id", "name", "share", "apart", "what", box=None)
    for change in changes:
        shares = f"{change.share_before:.1%} → {change.share_after:.1%}"
        words = [f"+{word}" for word in change.gained] + [f"−{word}" for word in change.lost]
        what = plain(change.why or " ".join(words))
        apart = "" if change.apart is None else f"{change.apart:.2f}"
        table.add_row(change.fate, change.id, plain(change.name), shares, apart, what, style=COLOURS.get(change.fate))
    return table
