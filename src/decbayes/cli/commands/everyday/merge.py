"""`decbayes merge`: posteriors of many sites into one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from decbayes import merging, plot
from decbayes.base.arguments import given
from decbayes.cli.shared.common_options import Device, work_on
from decbayes.cli.shared.describe import empty_slots, print_modelled
from decbayes.cli.shared.match_confidence import (
    aligned,
    document_length,
    followed,
    how_sure,
    number_of,
    overlaps_from,
    solver_named,
)
from decbayes.cli.shared.outputs import DPI, Dpi, check_output, check_picture, save_picture
from decbayes.cli.shared.posterior_files import found_by, is_release, read_once
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import check_received_files, manifest_of, merged_manifest, rows_behind, rules_asked_for
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import aligning, many, messages, plain
from decbayes.cli.shared.terminal import output as results
from decbayes.cli.shared.topic_quality import quality_of, remarks_on
from decbayes.errors import InvalidStructure, NothingToMerge
from decbayes.files import save
from decbayes.merging.alignment import quick_remarks
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.problem import SOLVERS, Solver
from decbayes.merging.base.recentring import recentred
from decbayes.posterior import Posterior
from decbayes.remarks import Remark, changes_by_rules, lines, ordered
from decbayes.updates.exchange import Exchange, site_name
from decbayes.updates.rounds import Round, Sent, together
from decbayes.views import view_of
from decbayes.views.texts import filled

if TYPE_CHECKING:
    from decbayes.merging import Alignment, Confidence, RobustMerge

TOP_WORDS = 10


@Parameter(name="*")
@dataclass(frozen=True)
class Aligning:
    """How to align."""

    components: Annotated[
        str | None,
        Parameter(
            help="Number of components of the merge; 'auto' to estimate it; 'largest' for that of the largest site. "
            "Default: for mixtures and classes as many as predict well, at least 'largest'; otherwise 'largest'."
        ),
    ] = None
    since: Annotated[
        Path | None, Parameter(help="An earlier merge: components that are found again keep their ids and numbers.")
    ] = None
    solver: Annotated[
        str | None,
        Parameter(
            help=f"How to align: {', '.join(SOLVERS)}. 'grouping' may put several components of a site into one slot; "
            "the others put one into each. Default: 'matching' for features, 'grouping' for other models."
        ),
    ] = None
    restarts: Annotated[
        NonNegativeInt | None,
        Parameter(help="Additional starts of --solver matching; default: depends on the size."),
    ] = None
    naive: Annotated[bool, Parameter(negative="", help="Add components as they are labelled, without alignment.")] = (
        False
    )
    robust: Annotated[
        bool,
        Parameter(
            negative="",
            help="Count copies once, and sites that clearly disagree with most others hardly or not at all. Says which "
            "sites these are, and why.",
        ),
    ] = False

    @property
    def solving(self) -> Solver | None:
        return solver_named(self.solver, self.restarts)

    def check(self, telling: "Telling") -> None:
        """Refuse options that make no sense together, before anything is read."""
        if self.naive and (telling.asked or self.since or self.components):
            raise WrongArgument("--naive makes no alignment, which the other options need. Leave --naive out.")
        if self.robust and (self.naive or self.since or telling.confidence or telling.overlap):
            raise WrongArgument(
                "--robust does not go with --naive, --since, --confidence or --overlap. Leave these out."
            )
        if self.restarts is not None and self.solver != "matching":
            raise WrongArgument("--restarts is for --solver matching.")
        number_of(self.components)
        solver_named(self.solver, self.restarts)


@Parameter(name="*")
@dataclass(frozen=True)
class TopicPriors:
    """The priors that all topics get before they are merged; None leaves them as they are."""

    topic_prior: Annotated[
        float | Literal["learn"] | None,
        Parameter(help="Common prior for sites whose topic priors differ, or 'learn' to find it."),
    ] = None
    document_prior: Annotated[float | None, Parameter(help="Common prior for sites whose document priors differ.")] = (
        None
    )

    @property
    def given(self) -> dict[str, Any]:
        return given(topic_prior=self.topic_prior, document_prior=self.document_prior)

    def applied(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        """The posteriors on these priors; a prior that is learned is printed."""
        if not self.given:
            return [*posteriors]
        from decbayes.models.topics.word_prior import shared_prior, with_priors

        try:
            moved = with_priors(posteriors, **self.given)
        except (ValueError, InvalidStructure) as error:
            raise WrongArgument(str(error)) from None
        if self.topic_prior == "learn":
            messages().print(f"topic prior {shared_prior(moved[0].structure):g}, learned from the topics of all sites")
        return moved


@Parameter(name="*")
@dataclass(frozen=True)
class Telling:
    """What to print and to draw."""

    explain: Annotated[
        bool, Parameter(negative="", help="Print which component went into which slot, and which sites have it.")
    ] = False
    picture: Annotated[Path | None, Parameter(help="Draw the alignment into this file (.png, .svg, .pdf).")] = None
    tree: Annotated[
        Path | None, Parameter(help="Draw the tree of all components into this file (.png, .svg, .pdf).")
    ] = None
    dpi: Dpi = DPI
    confidence: Annotated[
        bool | None,
        Parameter(
            help="Simulate sites like these to estimate how likely each match is right. Default: with --explain, where "
            "that takes seconds."
        ),
    ] = None
    overlap: Annotated[
        list[Path] | None,
        Parameter(negative="", help="Files of `decbayes overlap`, which make these probabilities sharper."),
    ] = None
    as_json: Annotated[
        bool,
        json_option(
            "slot", "slot", "id", "caption", "observations", "unit", "duplicates", "unlike", "times_chance",
            "by_chance", "sites", "and telling for topics",
        ),
    ] = False  # fmt: skip

    @property
    def asked(self) -> bool:
        return any((self.explain, self.picture, self.tree, self.confidence, self.overlap, self.as_json))

    def check(self, inputs: Sequence[Path]) -> None:
        """Refuse pictures that could not be drawn, before the work is done."""
        for drawn in (self.picture, self.tree):
            check_picture(drawn, *inputs)

    def reported(self, posteriors: Sequence[Posterior]) -> Sequence[Any] | None:
        """The overlaps that sites report."""
        return overlaps_from(self.overlap, posteriors) if self.overlap else None

    def tell(
        self,
        alignment: "Alignment",
        merged: Posterior,
        names: list[str],
        reported: Sequence[Any] | None,
        solver: Solver | None,
        length: float | None,
    ) -> None:
        wanted = self.confidence if self.explain or self.overlap else bool(self.confidence)
        sure = how_sure(alignment, wanted, reported, solver, length)
        self.draw(alignment, names, sure)
        if self.explain:
            from decbayes.cli.commands.everyday._explanation import explain

            explain(alignment, merged, names, sure, solver)
            for line in remarks_on(merged, TOP_WORDS):
                results().print(line)
        if self.as_json:
            from decbayes.cli.commands.everyday._explanation import shared_rows

            quality = quality_of(merged, TOP_WORDS)
            for row in shared_rows(alignment, names, sure):
                print_json(row | ({} if quality is None else {"telling": quality.telling[row["slot"]]}))

    def draw(self, alignment: "Alignment", names: list[str], sure: "Confidence | str") -> None:
        if self.picture is not None:
            known = sure if isinstance(sure, merging.Confidence) else None
            save_picture(plot.alignment(alignment, names=names, confidence=known).figure, self.picture, self.dpi)
        if self.tree is not None:
            save_picture(plot.tree(merging.tree(alignment.posteriors), names=names).figure, self.tree, self.dpi)


AS_USUAL, AS_FITTED, NOTHING = Aligning(), TopicPriors(), Telling()


def merge(
    posteriors: Annotated[
        list[Path], Parameter(negative="", help="The posterior files of all sites, or the folder that they share.")
    ],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the merged posterior.")],
    options: Aligning = AS_USUAL,
    priors: TopicPriors = AS_FITTED,
    telling: Telling = NOTHING,
    duplicates: Annotated[
        Literal["refuse", "allow"], Parameter(help="Whether one posterior may be given twice and count twice.")
    ] = "refuse",
    rules: Annotated[
        str | None,
        Parameter(help="Refuse files that break these disclosure rules: a TOML file, or 'usual'.", show_default=False),
    ] = None,
    device: Device = None,
) -> None:
    """Merge the posteriors of separate data into the posterior of all of it, whatever their labels."""
    posteriors = unfolded(posteriors)
    check_output(output, *posteriors)
    if any(map(is_release, posteriors)):
        from decbayes.cli.commands.everyday._private import merge_releases

        number = number_of(options.components)
        if number == "largest":
            raise WrongArgument("Private releases have no largest site: --components takes a number, or 'auto'.")
        merge_releases(posteriors, output, number, telling.as_json)
        return
    telling.check(posteriors)
    options.check(telling)
    work_on(device)
    refused = duplicates == "refuse" and not options.robust
    received = Received(posteriors, read_once(posteriors, any_prior=bool(priors.given), copies_count=refused), output)
    check_received_files(posteriors, received.posteriors, rules_asked_for(rules))
    for line in received.changes:
        messages().print(plain(line))
    if (whole := together(received.sent)) is not None:
        check_options_of_round(options, priors, telling)
        merge_round(received, whole, options, telling)
    else:
        merge_posteriors(received, options, priors, telling)


@dataclass(frozen=True)
class Received:
    """The files of all sites, and where their merge is written."""

    paths: list[Path]
    sent: Mapping[str, Sent]
    output: Path

    @property
    def posteriors(self) -> list[Posterior]:
        return [site.posterior for site in self.sent.values()]

    @property
    def names(self) -> list[str]:
        return [path.name.removesuffix(".posterior") for path in self.paths]

    @property
    def rows(self) -> list[int] | None:
        return rows_behind(self.paths, self.posteriors)

    @property
    def changes(self) -> list[str]:
        """What the disclosure rules changed at sites."""
        known = {name: manifest_of(path) for name, path in zip(self.names, self.paths, strict=True)}
        return changes_by_rules({name: of.changed for name, of in known.items() if of is not None})

    def among(self, sites: Sequence[int]) -> "Received":
        """Some of the files."""
        keys = [*self.sent]
        return Received(
            [self.paths[site] for site in sites], {keys[site]: self.sent[keys[site]] for site in sites}, self.output
        )

    @property
    def doubled(self) -> tuple[Remark, ...]:
        """What sketches of the sites' documents say, where they lie beside the files: a.sketch beside a.2.posterior."""
        beside = {path.with_name(f"{site_name(path.name)}.sketch") for path in self.paths}
        files = sorted(path for path in beside if path.is_file())
        if len(files) < 2:
            return ()
        from decbayes.cli.commands.sharing.sketch import load_sketch
        from decbayes.updates.sketches import overlap

        return overlap([load_sketch(path) for path in files]).remarks([path.stem for path in files])

    def keep(self, merged: Posterior, **note: Any) -> None:
        """Write the merge, and beside it whose data are in it."""
        holds = sorted(frozenset().union(*(site.data for site in self.sent.values())))
        several = {"several": True} if len(self.sent) > 1 else {}
        about = {"holds": holds, **several, **note, **merged_manifest(self.paths, merged)}
        save(merged, self.output, note=about)


def merge_round(received: Received, whole: Round, options: Aligning, telling: Telling) -> None:
    """Merge the files of one round, whose components are in common slots."""
    say_missing(whole)
    alignment, quietly = followed(whole.alignment, options.since), replace(telling, confidence=False)
    conclude(
        alignment, received.names, received.output, quietly, received.keep, received.rows, expected=received.doubled
    )


def merge_posteriors(received: Received, options: Aligning, priors: TopicPriors, telling: Telling) -> None:
    """Merge files of sites that fitted by themselves: as labelled, robustly, or aligned."""
    names, output, keep = received.names, received.output, received.keep
    say_new_words(received.posteriors)
    read = list(same_columns(priors.applied(received.posteriors)))
    view = view_of(read[0].structure)
    if options.naive:
        keep(merging.product(recentred(read)))
        messages().print(f"{output}: {len(read)} posteriors, not aligned")
    elif options.robust:
        robust = robustly_merged(read, options)
        counted = received.among(robust.merged)
        usual = (
            *view.advice(robust.alignment, counted.names), *view.expected([read[site] for site in robust.merged]),
            *received.doubled,
        )  # fmt: skip
        remarks = ordered([*robust.remarks(names), *usual])
        robust = replace(robust, posterior=replace(robust.posterior, remarks=remarks))
        tell_robust(robust, counted, len(names), options, telling)
    else:
        reported = telling.reported(read)
        alignment = aligned(read, options.components, options.since, options.solving)
        expected = (*view.expected(read), *received.doubled)
        conclude(alignment, names, output, telling, keep, received.rows, reported, options.solving, expected)


def conclude(
    alignment: "Alignment",
    names: list[str],
    output: Path,
    telling: Telling,
    keep: Callable[..., None],
    rows: Sequence[int] | None,
    reported: Sequence[Any] | None = None,
    solver: Solver | None = None,
    expected: Sequence[Remark] = (),
) -> None:
    """Write the merge with its remarks, and say what was asked for."""
    merged = replace(alignment.merged(), remarks=ordered([*all_remarks(alignment, names), *expected]))
    keep(merged, **found_by(alignment, names))
    length = document_length(rows, alignment) if telling.asked else None
    telling.tell(alignment, merged, names, reported, solver, length)
    print_outcome(alignment, merged.remarks, output, sum(rows or ()))


def unfolded(paths: list[Path]) -> list[Path]:
    """The files of the last complete round in a shared folder, if one is named in place of files."""
    if len(paths) != 1 or not paths[0].is_dir():
        return paths
    (folder,) = paths
    if any(folder.glob("*.release")):
        from decbayes.cli.commands.everyday._private import releases_in

        return releases_in(folder)
    exchange = Exchange.read(folder)
    if not exchange.files:
        raise NothingToMerge(f"{folder} is a directory without posterior files.")
    if exchange.behind:
        messages().print(
            plain(f"Round {exchange.round} of {', '.join(exchange.behind)} is missing: this is the round before it.")
        )
    return [folder / name for name in exchange.inputs]


def check_options_of_round(options: Aligning, priors: TopicPriors, telling: Telling) -> None:
    """Refuse options that would move what is in common slots."""
    others = replace(options, since=None) != AS_USUAL or priors != AS_FITTED or telling.confidence or telling.overlap
    if others:
        raise WrongArgument(
            "Posteriors of a round are in common slots already. Leave out the options of the alignment but --since."
        )


def say_new_words(posteriors: Sequence[Posterior]) -> None:
    """A line if some sites count words that others do not."""
    lists = [frozenset(posterior.structure.labels.get("topics", ())) for posterior in posteriors]
    only = len(frozenset().union(*lists)) - len(frozenset.intersection(*lists))
    if only:
        messages().print(f"{only:,} words are not in the lists of all sites, and count nothing where they are missing.")


def say_missing(whole: Round) -> None:
    if whole.missing:
        missing = (
            "1 site of this round is not here: its"
            if whole.missing == 1
            else f"{whole.missing} sites of this round are not here: their"
        )
        messages().print(f"{missing} data do not count.")


def all_remarks(alignment: "Alignment", names: Sequence[str]) -> tuple[Remark, ...]:
    """The remarks of any merge, and those of the model."""
    return ordered([*quick_remarks(alignment, names), *view_of(alignment.structure).advice(alignment, names)])


def robustly_merged(posteriors: list[Posterior], options: Aligning) -> "RobustMerge":
    with aligning(len(posteriors)) as progress:
        return merging.robust_merge(
            posteriors, components=number_of(options.components), solver=options.solving, progress=progress
        )


def tell_robust(robust: "RobustMerge", counted: Received, given: int, options: Aligning, telling: Telling) -> None:
    """What is written, explained and drawn are the sites that count; remarks name the others."""
    alignment, merged, names = robust.alignment, robust.posterior, counted.names
    counted.keep(merged, **found_by(alignment, names))
    replace(telling, confidence=False).tell(alignment, merged, names, None, options.solving, None)
    print_outcome(alignment, merged.remarks, counted.output, sum(counted.rows or ()), given)


def print_outcome(
    alignment: "Alignment", remarks: Sequence[Remark], path: Path, persons: int = 0, given: int = 0
) -> None:
    """One line on the merge; what became of earlier components, and the most important remarks.

    For a robust merge also how many posteriors were `given`.
    """
    structure = alignment.structure
    merged = alignment.merged()
    counts = [many(len(filled(merged, coupled)), "component") for coupled in structure.symmetry]
    slots = [text for text in (*counts, empty_slots(merged)) if text]
    behind = [many(persons, view_of(structure).record)] if persons else []
    counted = len(alignment.posteriors)
    posteriors = f"{counted} of {many(given, 'posterior')}" if given > counted else many(counted, "posterior")
    messages().print(f"{path}: {', '.join([posteriors, *behind, *slots])}")
    print_modelled(alignment.posteriors[0], messages().print)
    if alignment.reason:
        messages().print(alignment.reason)
    if alignment.lineage is not None:
        from decbayes.views.comparison import changes_in  # few merges need it

        changes = changes_in(alignment.lineage).values()
        messages().print(f"{len(alignment.lineage.events) - len(changes)} components kept their ids")
        for change in changes:
            messages().print(plain(change))
    for line in lines(remarks, rest=f"`decbayes show {path} --remarks` prints all"):
        messages().print(plain(line))
