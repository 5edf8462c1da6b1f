"""`decbayes report`: a merge as one page that anybody can open."""

from collections import Counter
from pathlib import Path
from shlex import join
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat

from decbayes.cli.commands.checking.quality import Counts, counted_for
from decbayes.cli.commands.everyday.merge import number_of, read_all, solver_named
from decbayes.cli.shared.alignments import how_sure
from decbayes.cli.shared.describe import Shape
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.terminal import aligning, messages, plain, progress_bar
from decbayes.files import load
from decbayes.merging import Confidence, align
from decbayes.merging.base.agreement import same_columns


def report(
    posteriors: Annotated[list[Path], Parameter(negative="", help="The posterior files of all sites.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the page, an HTML file.")],
    components: Annotated[
        str | None, Parameter(help="Number of components of the merge, or 'auto' to find it; as for `merge`.")
    ] = None,
    since: Annotated[
        Path | None, Parameter(help="An earlier merge: the report says what became of its components.")
    ] = None,
    solver: Annotated[str | None, Parameter(help="How to align; as for `merge`.")] = None,
    title: Annotated[str, Parameter(help="The page's title; default: how many posteriors were merged.")] = "",
    shape: Annotated[
        Shape | None, Parameter(help="Height and width of components that are images.", negative="")
    ] = None,
    least: Annotated[
        NonNegativeFloat, Parameter(help="Components that rest on fewer observations are counted and not shown.")
    ] = 5.0,
    counts: Counts = None,
    confidence: Annotated[
        bool | None,
        Parameter(
            help="Simulate sites like these, to say how likely each match is right. Default: where it takes seconds."
        ),
    ] = None,
) -> None:
    """Write what a merge found, who has it and what deserves a look as one page that anybody can open."""
    from decbayes.reporting import report as write

    check_output(output, *posteriors, since, *(counts or ()))
    count, read, earlier = number_of(components), read_all(posteriors), None
    if since is not None:
        *read, earlier = same_columns([*read, load(since)])
    with aligning(len(read)) as progress:
        found = align(read, components=count, solver=solver_named(solver, None), since=earlier, progress=progress)
    files = told_apart(posteriors)
    names = [name.removesuffix(".posterior") for name in files]
    options = {"--components": components, "--solver": solver, "--since": since and since.name}
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    command = join(["decbayes", "merge", *sorted(files), *words, "-o", "merged.posterior"])
    sure = how_sure(found, confidence, None, solver_named(solver, None))
    known = sure.reliability if isinstance(sure, Confidence) else None
    if confidence and isinstance(sure, str):
        messages().print(plain(f"No probabilities of matches: {sure}"))
    counted = counted_for(found.merged(), counts) if counts else None
    with progress_bar() as bar:
        bar.add_task("writing the report", total=None)
        write(
            found,
            output,
            names=names,
            title=title,
            shape=shape,
            least=least,
            command=command,
            reliability=known,
            counts=counted,
        )
    messages().print(f"{output}: {len(read)} posteriors, {output.stat().st_size / 1000:,.0f} kB")


def told_apart(paths: list[Path]) -> list[str]:
    """The names of files; where two are the same, with their folders, or with a number."""
    shared = Counter(path.name for path in paths)
    names = [path.name if shared[path.name] == 1 else f"{path.parent.name}/{path.name}" for path in paths]
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[place] = f"{name.removesuffix('.posterior')} ({seen[name]}).posterior"
    return names
