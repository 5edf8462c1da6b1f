"""`decbayes report`: a merge as one page that anybody can open."""

from collections import Counter
from pathlib import Path
from shlex import join
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat

from decbayes.cli.shared.match_confidence import aligned, document_length, how_sure, number_of, solver_named
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.posterior_files import read_all, recentred
from decbayes.cli.shared.sharing import RulesOption, check_received_files, rows_behind, rules_said
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, plain, print_written, progress_bar
from decbayes.cli.shared.topic_quality import Counts, counted_for
from decbayes.disclosure import Rules
from decbayes.merging import Alignment, Confidence, Reliability
from decbayes.merging.base.problem import Solver
from decbayes.views.values import Shape


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
        NonNegativeFloat | None,
        Parameter(
            help="Do not show components with fewer observations, only count them. Default: the least cell of the "
            "rules, usually 5.",
            show_default=False,
        ),
    ] = None,
    rules: RulesOption = None,
    counts: Counts = None,
    confidence: Annotated[
        bool | None,
        Parameter(
            help="Simulate sites like these to estimate how likely each match is right. Default: if it takes seconds."
        ),
    ] = None,
    as_json: Annotated[bool, json_option("report", "file", "posteriors", "bytes")] = False,
) -> None:
    """Write what a merge found, which sites have it and what deserves a look as one page that anybody can open."""
    from decbayes.reporting.reports import page

    check_output(output, *posteriors, since, *(counts or ()), text=True, as_json=as_json)
    number_of(components)
    files, solving = distinct_names(posteriors), solver_named(solver, None)
    read = read_all(posteriors)
    check_received_files(posteriors, read, rules_said(rules))
    in_force = rules_said(rules) or Rules()
    alignment = aligned(recentred(read), components, since, solving)
    counted = counted_for(alignment.merged(), counts) if counts else None
    rows = rows_behind(posteriors, read)
    reliability = reliability_of(alignment, confidence, solving, document_length(rows, alignment))
    with progress_bar() as bar:
        bar.add_task("writing the report", total=None)
        text = page(
            alignment,
            names=[name.removesuffix(".posterior") for name in files],
            title=title,
            shape=shape,
            least=float(in_force.least_cell) if least is None else least,
            command=merge_command(files, components, solver, since),
            reliability=reliability or False,
            counts=counted,
            rows=rows,
        )
        write_text(output, text)
    print_written(output, f"{len(posteriors)} posteriors, {len(text.encode()) / 1000:,.0f} kB")
    if as_json:
        print_json({"file": output, "posteriors": len(posteriors), "bytes": len(text.encode())})


def merge_command(files: list[str], components: str | None, solver: str | None, since: Path | None) -> str:
    """The command that makes the same merge, for the page to print."""
    options = {"--components": components, "--solver": solver, "--since": since and since.name}
    words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
    return join(["decbayes", "merge", *sorted(files), *words, "-o", "merged.posterior"])


def reliability_of(
    alignment: Alignment, wanted: bool | None, solver: Solver | None, length: float | None
) -> Reliability | None:
    """How reliable matches are; a line says why if that was asked for and cannot be learned."""
    sure = how_sure(alignment, wanted, None, solver, length)
    if wanted and isinstance(sure, str):
        messages().print(plain(f"No probabilities of matches: {sure}"))
    return sure.reliability if isinstance(sure, Confidence) else None


def distinct_names(paths: list[Path]) -> list[str]:
    """The names of files; where two are the same, with their folders, or with a number."""
    shared = Counter(path.name for path in paths)
    names = [path.name if shared[path.name] == 1 else f"{path.parent.name}/{path.name}" for path in paths]
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[place] = f"{name.removesuffix('.posterior')} ({seen[name]}).posterior"
    return names
