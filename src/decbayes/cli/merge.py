"""`decbayes merge`: posteriors of many sites into one."""

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.progress import track
from rich.table import Table
from rich.text import Text

from decbayes.cli.describe import captions
from decbayes.cli.outputs import check_output
from decbayes.cli.show import save_picture
from decbayes.cli.terminal import messages, output, plain
from decbayes.errors import NothingToMerge, StructureMismatch
from decbayes.files import load, save
from decbayes.merging import Alignment, Exhaustive, Hierarchical, Matching, Swaps, align, product
from decbayes.merging.agreement import difference
from decbayes.merging.problem import Solver
from decbayes.posterior import Posterior
from decbayes.symmetry import CoupledSet

Solvers = Literal["matching", "swaps", "exhaustive", "hierarchical"]

CLOSE = 3.0  # nats: the next best assignment is less than twenty times as improbable


def merge(
    posteriors: Annotated[list[Path], Parameter(negative="", help="The posterior files of all sites.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the merged posterior.")],
    naive: Annotated[
        bool, Parameter(negative="", help="Add components as they are labelled, without alignment.")
    ] = False,
    solver: Annotated[Solvers, Parameter(help="How the alignment is searched for.")] = "matching",
    restarts: Annotated[
        int | None, Parameter(validator=Number(gte=0), help="Further starts of the matching; if not given, it decides.")
    ] = None,
    explain: Annotated[bool, Parameter(negative="", help="Say which component went where, and how surely.")] = False,
    picture: Annotated[Path | None, Parameter(help="Draw the alignment into this file (.png, .svg, .pdf).")] = None,
) -> None:
    """Merge the posteriors of separate data into the posterior of all of it, whatever their labels."""
    check_output(output, *posteriors)
    read = read_all(posteriors)
    if naive:
        save(product(read), output)
        messages().print(f"{output}: {len(read)} posteriors, not aligned")
        return
    solvers: dict[str, Solver] = {
        "matching": Matching(restarts=restarts),
        "swaps": Swaps(),
        "exhaustive": Exhaustive(),
        "hierarchical": Hierarchical(),
    }
    with messages().status(f"aligning {len(read)} posteriors"):
        found = align(read, solver=solvers[solver])
        merged = found.merged()
    save(merged, output)
    names = [path.name.removesuffix(".posterior") for path in posteriors]
    if explain:
        print_alignment(found, merged, names)
    if picture is not None:
        from decbayes import plot

        save_picture(plot.alignment(found, names=names).figure, picture)
    messages().print(f"{output}: {len(read)} posteriors, J = {found.objective[-1]:,.2f}")


def read_all(paths: list[Path]) -> list[Posterior]:
    """All posteriors, refused by name where one does not fit."""
    if not paths:
        raise NothingToMerge("Name the posterior files to merge.")
    read = [load(path) for path in track(paths, "reading", console=messages(), transient=True, disable=len(paths) < 20)]
    for path, posterior in zip(paths, read, strict=True):
        if posterior.structure != read[0].structure:
            raise StructureMismatch(
                f"{path} does not fit {paths[0]}: {difference(read[0].structure, posterior.structure)} "
                f"Fit it again with --like {paths[0]}."
            )
    return read


def print_alignment(found: Alignment, merged: Posterior, names: list[str]) -> None:
    """For each coupled set a table of slots × agents: the agent's component and its margin."""
    margins = found.margins()
    for coupled in merged.structure.symmetry:
        sureness = np.array([margin[coupled] for margin in margins])
        output().print(alignment_table(found, merged, coupled, sureness, names))
        close = int((sureness < CLOSE).sum())
        output().print(
            f"In brackets: the nats that J loses by the next best assignment. {close} of {sureness.size} matches are "
            f"close calls (under {CLOSE:g})."
        )


def alignment_table(
    found: Alignment, merged: Posterior, coupled: CoupledSet, sureness: np.ndarray, names: list[str]
) -> Table:
    described = next((name for name in coupled.factors if merged.structure.families[name].name != "Weights"), None)
    texts = captions(merged, described or coupled.factors[0])
    table = Table("slot", *map(plain, names), "merged", title=plain(" + ".join(coupled.factors)), box=None)
    for slot, text in enumerate(texts):
        cells = [
            cell(int(permutation[coupled][slot]), float(sureness[agent, slot]))
            for agent, permutation in enumerate(found.permutations)
        ]
        table.add_row(str(slot), *cells, text)
    return table


def cell(component: int, margin: float) -> Text:
    text = f"{component} ({margin:,.1f})" if np.isfinite(margin) else f"{component} (only one)"
    return Text(text, style="yellow" if margin < CLOSE else "")
