"""`decbayes merge`: posteriors of many sites into one."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt, PositiveInt

from decbayes.cli.explain import print_alignment
from decbayes.cli.outputs import check_output, check_picture, save_picture
from decbayes.cli.terminal import aligning, messages, progress_bar
from decbayes.errors import DecbayesError, InvalidStructure, NothingToMerge, StructureMismatch
from decbayes.files import load, save
from decbayes.merging import Exhaustive, Hierarchical, Matching, Swaps, align, pad, product
from decbayes.merging.agreement import difference
from decbayes.merging.problem import Solver
from decbayes.posterior import Posterior

Solvers = Literal["matching", "swaps", "exhaustive", "hierarchical"]


def merge(
    posteriors: Annotated[list[Path], Parameter(negative="", help="The posterior files of all sites.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the merged posterior.")],
    naive: Annotated[
        bool, Parameter(negative="", help="Add components as they are labelled, without alignment.")
    ] = False,
    solver: Annotated[Solvers, Parameter(help="How the alignment is searched for.")] = "matching",
    components: Annotated[
        PositiveInt | None,
        Parameter(
            help="Merge into so many slots, more than the posteriors have components: what few found stays apart."
        ),
    ] = None,
    restarts: Annotated[
        NonNegativeInt | None, Parameter(help="Further starts of the matching; if not given, it decides.")
    ] = None,
    explain: Annotated[bool, Parameter(negative="", help="Say which component went where, and how surely.")] = False,
    picture: Annotated[Path | None, Parameter(help="Draw the alignment into this file (.png, .svg, .pdf).")] = None,
) -> None:
    """Merge the posteriors of separate data into the posterior of all of it, whatever their labels."""
    check_output(output, *posteriors)
    check_picture(picture, *posteriors)
    if naive and (explain or picture is not None):
        raise DecbayesError("--explain and --picture show an alignment, and --naive makes none; leave it out.")
    read = read_all(posteriors, components)
    if naive:
        save(product(read), output)
        messages().print(f"{output}: {len(read)} posteriors, not aligned")
        return
    with aligning(len(read)) as progress:
        found = align(read, solver=solver_named(solver, restarts), progress=progress)
        merged = found.merged()
    save(merged, output)
    names = [path.name.removesuffix(".posterior") for path in posteriors]
    if picture is not None:
        from decbayes import plot

        save_picture(plot.alignment(found, names=names).figure, picture)
    if explain:
        print_alignment(found, merged, names)
    messages().print(f"{output}: {len(read)} posteriors, J = {found.objective[-1]:,.2f}")


def solver_named(name: Solvers, restarts: int | None) -> Solver:
    solvers: dict[Solvers, Solver] = {
        "matching": Matching(restarts=restarts),
        "swaps": Swaps(),
        "exhaustive": Exhaustive(),
        "hierarchical": Hierarchical(),
    }
    return solvers[name]


def read_all(paths: list[Path], components: int | None) -> list[Posterior]:
    """All posteriors, with so many components if a number is given, refused by name where one does not fit."""
    if not paths:
        raise NothingToMerge("Name the posterior files to merge.")
    with progress_bar() as bar:
        read = [load(path) for path in bar.track(paths, description="reading")]
    if components is not None:
        read = [padded(path, posterior, components) for path, posterior in zip(paths, read, strict=True)]
    for path, posterior in zip(paths, read, strict=True):
        if posterior.structure != read[0].structure:
            raise StructureMismatch(
                f"{path} does not fit {paths[0]}: {difference(read[0].structure, posterior.structure)} "
                f"Fit it again with --like {paths[0]}."
            )
    warn_of_copies(paths, read)
    return read


def warn_of_copies(paths: list[Path], read: list[Posterior]) -> None:
    """Say so where a posterior is given twice: its data would count twice, and nothing in the result shows it."""
    nothing = Posterior.of_prior(read[0].structure).digest
    first: dict[str, Path] = {}
    for path, posterior in zip(paths, read, strict=True):
        before = first.setdefault(posterior.digest, path)
        if before is not path and posterior.digest != nothing:
            messages().print(f"{path} is the same posterior as {before}: its data count twice.")


def padded(path: Path, posterior: Posterior, components: int) -> Posterior:
    try:
        return pad(posterior, components)
    except (InvalidStructure, StructureMismatch) as error:
        raise StructureMismatch(f"{path} does not fit into {components} slots: {error}") from None
