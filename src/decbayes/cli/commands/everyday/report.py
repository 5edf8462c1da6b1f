"""`decbayes report`: write a merge as one page that anybody can open."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import NonNegativeFloat

from decbayes.base.writing import write_whole
from decbayes.cli.shared.match_confidence import (
    align_posteriors,
    component_number,
    document_length,
    match_probabilities,
    solver_named,
    with_earlier_ids,
)
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.posterior_files import counting_in, last_complete_round, read_once, sites_behind
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import RulesOption, check_received_files, manifest_of, rows_behind, rules_given
from decbayes.cli.shared.standard_streams import STANDARD_OUTPUT, json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, plain, plural, print_written, progress_bar
from decbayes.cli.shared.topic_quality import Counts, counts_for
from decbayes.disclosure import Manifest, Rules
from decbayes.files import load_note
from decbayes.merging import Alignment, Confidence, Reliability
from decbayes.merging.base.compatibility import same_columns
from decbayes.models.core.model import split_names
from decbayes.posterior import Posterior
from decbayes.updates.rounds import together
from decbayes.views.answers import answer
from decbayes.views.participants import About, Participant
from decbayes.views.values import Shape
from decbayes.views.view import view_of

PAGES = (".html", ".htm")


@Parameter(name="*")
@dataclass(frozen=True)
class ReportOptions:
    """How to merge, and what to show."""

    components: Annotated[
        str | None, Parameter(help="Number of components of the merge, or 'auto' to estimate it; as for `merge`.")
    ] = None
    since: Annotated[
        Path | None, Parameter(help="An earlier merge: the report shows what became of its components.")
    ] = None
    solver: Annotated[str | None, Parameter(help="How to align; as for `merge`.")] = None
    title: Annotated[str, Parameter(help="The page's title; default: the question, or the number of sites.")] = ""
    tables: Annotated[
        list[Path] | None,
        Parameter(
            name="--table",
            help="Also write the result as a table for a paper: .csv, .tex (LaTeX) or .docx (Word); once per file.",
        ),
    ] = None
    shape: Annotated[Shape | None, Parameter(help="Height and width of components that are images.")] = None
    least: Annotated[
        NonNegativeFloat | None,
        Parameter(
            help="Count components with fewer observations, but do not show them. Default: the smallest cell that the "
            "rules allow, usually 5."
        ),
    ] = None
    rules: RulesOption = None
    counts: Counts = None
    confidence: Annotated[
        bool | None,
        Parameter(
            negative="--no-confidence",
            help="Simulate sites like these to estimate how likely each match is right. Default: if it takes seconds.",
        ),
    ] = None

    def check(self, posteriors: Sequence[Path], output: Path, as_json: bool) -> None:
        """Refuse files that cannot be written and options that make no sense, before anything is read."""
        from decbayes.reporting.paper_tables import check_ending

        if output != STANDARD_OUTPUT and output.suffix.lower() not in PAGES:
            raise WrongArgument(f"A report is an HTML page: -o {output.stem}.html. For a PDF, print it from a browser.")
        for path in self.tables or ():
            check_output(path, *posteriors)
            check_ending(path)
        check_output(output, *posteriors, self.since, *(self.counts or ()), text=True, as_json=as_json)
        component_number(self.components)

    @property
    def least_shown(self) -> float:
        return float((rules_given(self.rules) or Rules()).least_cell) if self.least is None else self.least

    def align(self, paths: list[Path]) -> tuple[Alignment, list[int] | None]:
        """Read and align the files, which are in common slots already if they are of a round; and their rows."""
        solver, sent = solver_named(self.solver, None), read_once(paths)
        posteriors = list(same_columns([site.posterior for site in sent.values()]))
        check_received_files(paths, posteriors, rules_given(self.rules))
        rows, shared_round = rows_behind(paths, posteriors), together(sent)
        if shared_round is not None and self.components is None and self.solver is None:
            return with_earlier_ids(shared_round.alignment, self.since), rows
        return align_posteriors(posteriors, self.components, self.since, solver), rows

    def reliability(self, alignment: Alignment, length: float | None) -> Reliability | None:
        """How reliable matches are; prints why not if that was asked for and is unknown."""
        confidence = match_probabilities(alignment, self.confidence, None, solver_named(self.solver, None), length)
        if self.confidence and isinstance(confidence, str):
            messages().print(plain(f"No probabilities of matches: {confidence}"))
        return confidence.reliability if isinstance(confidence, Confidence) else None

    def merge_command(self, files: Sequence[Path]) -> str:
        """The command for the same merge, which the page shows."""
        options = {"--components": self.components, "--solver": self.solver, "--since": self.since and self.since.name}
        words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
        return join(["decbayes", "merge", *sorted(distinct_names(files)), *words, "-o", "merged.posterior"])


AS_USUAL = ReportOptions()


def report(
    posteriors: Annotated[
        list[Path], Parameter(help="The posterior files of all sites, or the folder that they share.")
    ],
    /,
    *,
    output: Annotated[Path, output_option("Where to write the page, an HTML file.")],
    question: Annotated[str, Parameter(help="The question of the study, in one sentence.")] = "",
    authors: Annotated[str, Parameter(help="The authors, separated by commas.")] = "",
    units: Annotated[str, Parameter(help="Units of columns: age=years,stay=days.")] = "",
    options: ReportOptions = AS_USUAL,
    as_json: Annotated[bool, json_option("report", "file", "posteriors", "bytes")] = False,
) -> None:
    """Write one page with the results of a merge, the sites behind them, and doubts about them."""
    if len(posteriors) == 1 and posteriors[0].is_dir():
        posteriors = last_complete_round(posteriors[0])
    sites = participants_in(posteriors)
    about = About(question, tuple(split_names(authors)), newest(sites.values()), units_from(units), sites)
    write_report(posteriors, output, about, options, as_json=as_json)


def write_report(
    posteriors: list[Path],
    output: Path,
    about: About,
    options: ReportOptions,
    *,
    names: Sequence[str] | None = None,
    calibrated: Posterior | None = None,
    as_json: bool = False,
) -> tuple[str, str, str]:
    """Write the page and the tables; returns the three sentences that answer the question."""
    from decbayes.reporting.paper_tables import WRITERS, paper_table
    from decbayes.reporting.reports import findings_of, page_of

    options.check(posteriors, output, as_json)
    alignment, rows = options.align(posteriors)
    counts = counts_for(alignment.merged(), options.counts) if options.counts else None
    reliability = options.reliability(alignment, document_length(rows, alignment))
    if unused := [name for name in about.units if name not in columns_in(alignment)]:
        messages().print(plain(f"There is no column '{unused[0]}' for a unit. Check --units."))
    with progress_bar() as bar:
        bar.add_task("writing the report", total=None)
        findings = findings_of(
            alignment,
            names or site_names(posteriors),
            least=options.least_shown,
            reliability=reliability or False,
            counts=counts,
            rows=rows,
            calibrated=calibrated,
        )
        command = options.merge_command(posteriors)
        text = page_of(findings, title=options.title, shape=options.shape, command=command, about=about)
        write_text(output, text)
        for path in options.tables or ():
            write_whole(path, WRITERS[path.suffix](paper_table(findings, about)))
    print_written(output, f"{plural(len(posteriors), 'posterior')}, {len(text.encode()) / 1000:,.0f} kB")
    if as_json:
        print_json({"file": output, "posteriors": len(posteriors), "bytes": len(text.encode())})
    return answer(findings, about)


def columns_in(alignment: Alignment) -> Collection[str]:
    columns: Collection[str] = getattr(view_of(alignment.structure).model, "columns", ())
    return columns


def participants_in(paths: Sequence[Path]) -> dict[str, Participant]:
    """The sites described by the files' manifests, by their names in the report."""
    sites = {}
    for path, name in zip(paths, site_names(paths), strict=True):
        manifest = manifest_of(path)
        if manifest is not None:
            counting = counting_in(load_note(path))
            sites[name] = replace(participant(manifest), sites=sites_behind(path), counting=counting)
    return sites


def newest(sites: Iterable[Participant]) -> str:
    """The date of the newest file, so that the same files give the same report on any day."""
    return max((site.date for site in sites), default="")


def participant(manifest: Manifest) -> Participant:
    left_out = dict(manifest.left_out or {})
    has_person_column = bool(manifest.person)
    counts = manifest.rows, manifest.persons, has_person_column, left_out, manifest.changed
    return Participant(*counts, manifest.approver, manifest.date)


def site_names(paths: Sequence[Path]) -> list[str]:
    """Site names from the files' manifests if they are all different, or else from the file names."""
    manifests = [manifest_of(path) for path in paths]
    labels = [manifest.site for manifest in manifests if manifest is not None and manifest.site]
    if len(set(labels)) == len(paths):
        return labels
    return [name.removesuffix(".posterior") for name in distinct_names(paths)]


def units_from(text: str) -> dict[str, str]:
    """{"age": "years"} from "age=years"."""
    pairs = [part.partition("=") for part in split_names(text)]
    if wrong := [name for name, sign, unit in pairs if not (name and sign and unit)]:
        raise WrongArgument(f"--units takes COLUMN=UNIT, separated by commas, not '{wrong[0]}'.")
    return {name: unit for name, _, unit in pairs}


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """The names of files; names that occur twice get their folder or a number."""
    shared = Counter(path.name for path in paths)
    names = [path.name if shared[path.name] == 1 else f"{path.parent.name}/{path.name}" for path in paths]
    seen: Counter[str] = Counter()
    for place, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[place] = f"{name.removesuffix('.posterior')} ({seen[name]}).posterior"
    return names
