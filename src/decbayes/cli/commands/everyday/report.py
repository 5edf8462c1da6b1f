"""`decbayes report`: a merge as one page that anybody can open."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from shlex import join
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat

from decbayes.base.writing import write_whole
from decbayes.cli.shared.match_confidence import aligned, document_length, followed, how_sure, number_of, solver_named
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.posterior_files import read_once
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import RulesOption, check_received_files, manifest_of, rows_behind, rules_asked_for
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT, json_option, print_json, write_text
from decbayes.cli.shared.terminal import many, messages, plain, print_written, progress_bar
from decbayes.cli.shared.topic_quality import Counts, counted_for
from decbayes.disclosure import Manifest, Rules
from decbayes.merging import Alignment, Confidence, Reliability
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.problem import Solver
from decbayes.models.core.model import split_names
from decbayes.posterior import Posterior
from decbayes.updates.rounds import together
from decbayes.views.answers import answer
from decbayes.views.participants import About, Participant
from decbayes.views.values import Shape
from decbayes.views.view import view_of

PAGES = (".html", ".htm")


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
    title: Annotated[str, Parameter(help="The page's title; default: the question, or how many were merged.")] = "",
    question: Annotated[str, Parameter(help="What was asked, in a sentence.")] = "",
    authors: Annotated[str, Parameter(help="Who is responsible, separated by commas.")] = "",
    units: Annotated[str, Parameter(help="Units of columns: age=years,stay=days.")] = "",
    tables: Annotated[
        list[Path] | None,
        Parameter(
            name="--table",
            help="Also write the result as a table for a paper: .csv, .tex (LaTeX) or .docx (Word); once per file.",
            negative="",
            show_default=False,
        ),
    ] = None,
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
    sites = participants_in(posteriors)
    about = About(question, tuple(split_names(authors)), newest(sites.values()), units_from(units), sites)
    write_report(
        posteriors,
        output,
        about,
        tables=tables or (),
        components=components,
        since=since,
        solver=solver,
        title=title,
        shape=shape,
        least=least,
        rules=rules,
        counts=counts,
        confidence=confidence,
        as_json=as_json,
    )


def write_report(
    posteriors: list[Path],
    output: Path,
    about: About,
    *,
    names: Sequence[str] | None = None,
    tables: Sequence[Path] = (),
    components: str | None = None,
    since: Path | None = None,
    solver: str | None = None,
    title: str = "",
    shape: Shape | None = None,
    least: float | None = None,
    rules: str | None = None,
    counts: Counts = None,
    confidence: bool | None = None,
    calibrated: Posterior | None = None,
    as_json: bool = False,
) -> tuple[str, str, str]:
    """Write the page and the tables; returns the three sentences that answer the question."""
    from decbayes.reporting.paper_tables import WRITERS, check_ending, paper_table
    from decbayes.reporting.reports import findings_of, page_of

    if output != STANDARD_OUTPUT and output.suffix.lower() not in PAGES:
        raise WrongArgument(
            f"A report is a page: -o {output.stem}.html. For a PDF, open it in a browser and print it there."
        )
    for path in tables:
        check_output(path, *posteriors)
        check_ending(path)
    check_output(output, *posteriors, since, *(counts or ()), text=True, as_json=as_json)
    number_of(components)
    files, solving = distinct_names(posteriors), solver_named(solver, None)
    sent = read_once(posteriors)
    read = list(same_columns([site.posterior for site in sent.values()]))
    check_received_files(posteriors, read, rules_asked_for(rules))
    in_force = rules_asked_for(rules) or Rules()
    whole = together(sent)
    if whole is not None and components is None and solver is None:
        alignment = followed(whole.alignment, since)  # as `merge` has it: their components are in common slots
    else:
        alignment = aligned(read, components, since, solving)
    counted = counted_for(alignment.merged(), counts) if counts else None
    rows = rows_behind(posteriors, read)
    reliability = reliability_of(alignment, confidence, solving, document_length(rows, alignment))
    if unused := [name for name in about.units if name not in columns_in(alignment)]:
        messages().print(plain(f"No column is called '{unused[0]}': its unit is not shown."))
    with progress_bar() as bar:
        bar.add_task("writing the report", total=None)
        findings = findings_of(
            alignment,
            names or site_names(posteriors),
            least=float(in_force.least_cell) if least is None else least,
            reliability=reliability or False,
            counts=counted,
            rows=rows_behind(posteriors, read),
            calibrated=calibrated,
        )
        command = merge_command(files, components, solver, since)
        text = page_of(findings, title=title, shape=shape, command=command, about=about)
        write_text(output, text)
        for path in tables:
            write_whole(path, WRITERS[path.suffix](paper_table(findings, about)))
    print_written(output, f"{many(len(posteriors), 'posterior')}, {len(text.encode()) / 1000:,.0f} kB")
    if as_json:
        print_json({"file": output, "posteriors": len(posteriors), "bytes": len(text.encode())})
    return answer(findings, about)


def columns_in(alignment: Alignment) -> Collection[str]:
    columns: Collection[str] = getattr(view_of(alignment.structure).model, "columns", ())
    return columns


def participants_in(paths: Sequence[Path]) -> dict[str, Participant]:
    """What the manifests of files say about their sites, by the names that the report uses."""
    sites = {}
    for path, name in zip(paths, site_names(paths), strict=True):
        manifest = manifest_of(path)
        if manifest is not None:
            sites[name] = participant(manifest)
    return sites


def newest(sites: Iterable[Participant]) -> str:
    """The date of the last file: the same files give the same report, on any day."""
    return max((site.date for site in sites), default="")


def participant(manifest: Manifest) -> Participant:
    left_out = dict(manifest.left_out or {})
    told_apart = bool(manifest.person)
    of_rows = manifest.rows, manifest.persons, told_apart, left_out, manifest.changed
    return Participant(*of_rows, manifest.approver, manifest.date)


def site_names(paths: Sequence[Path]) -> list[str]:
    """What the files call their sites; the names of the files, unless each of them names another site."""
    manifests = [manifest_of(path) for path in paths]
    named = [manifest.site for manifest in manifests if manifest is not None and manifest.site]
    if len(set(named)) == len(paths):
        return named
    return [name.removesuffix(".posterior") for name in distinct_names([*paths])]


def units_from(text: str) -> dict[str, str]:
    """{"age": "years"} from "age=years"."""
    pairs = [part.partition("=") for part in split_names(text)]
    if wrong := [name for name, sign, unit in pairs if not (name and sign and unit)]:
        raise WrongArgument(f"--units takes COLUMN=UNIT, separated by commas, not '{wrong[0]}'.")
    return {name: unit for name, _, unit in pairs}


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
