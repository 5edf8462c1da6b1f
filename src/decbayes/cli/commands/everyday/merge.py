"""`decbayes merge`: merge the posteriors of many sites into one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from decbayes import merging
from decbayes.cli.commands.everyday._merge_options import AS_FITTED, AS_USUAL, NOTHING, Aligning, Display, TopicPriors
from decbayes.cli.shared.common_options import Device, work_on
from decbayes.cli.shared.describe import empty_slots, print_modelled
from decbayes.cli.shared.match_confidence import align_posteriors, component_number, document_length, with_earlier_ids
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.posterior_files import is_release, last_complete_round, read_once, support_note
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import (
    check_received_files,
    merged_manifest,
    records_text,
    rows_behind,
    rules_given,
    summed_manifest,
)
from decbayes.cli.shared.terminal import alignment_progress, messages, plain, plural
from decbayes.files import save
from decbayes.merging.alignment import quick_remarks
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.problem import Solver
from decbayes.merging.base.recentring import recentred
from decbayes.posterior import Posterior
from decbayes.remarks import Remark, lines, ordered
from decbayes.updates.exchange import site_name
from decbayes.updates.rounds import Round, Sent, together
from decbayes.views import view_of
from decbayes.views.text_summary import filled_slots

if TYPE_CHECKING:
    from decbayes.merging import Alignment, RobustMerge


def merge(
    posteriors: Annotated[
        list[Path], Parameter(help="The posterior files of all sites, or the folder that they share.")
    ],
    /,
    *,
    output: Annotated[Path, output_option("Where to write the merged posterior.")],
    options: Aligning = AS_USUAL,
    priors: TopicPriors = AS_FITTED,
    display: Display = NOTHING,
    duplicates: Annotated[
        Literal["refuse", "allow"], Parameter(help="Whether one posterior may be given twice and count twice.")
    ] = "refuse",
    weights_of: Annotated[
        Path | None,
        Parameter(help="One of the files: the merge gets the weights of this site only, to predict at that site."),
    ] = None,
    rules: Annotated[
        str | None, Parameter(help="Refuse files that break these disclosure rules: a TOML file, or 'usual'.")
    ] = None,
    device: Device = None,
) -> None:
    """Merge posteriors of separate data into the posterior of all data, whatever their labels."""
    posteriors = files_to_merge(posteriors)
    check_output(output, *posteriors)
    kept = site_to_predict_at(weights_of, posteriors, options)
    if any(map(is_release, posteriors)):
        from decbayes.cli.commands.everyday._private_releases import merge_releases

        number = component_number(options.components)
        if number == "largest":
            raise WrongArgument("Private releases have no largest site: --components takes a number, or 'auto'.")
        merge_releases(posteriors, output, number, display.as_json)
        return
    display.check(posteriors)
    options.check(display)
    work_on(device)
    strict = duplicates == "refuse" and not options.robust
    sent = read_once(posteriors, any_prior=bool(priors.given), copies_count=strict)
    received = Received(posteriors, sent, output, kept)
    check_received_files(posteriors, received.posteriors, rules_given(rules))
    check_for_components(options, received.posteriors[0])
    if (shared_round := together(received.sent)) is not None:
        check_options_of_round(options, priors, display, received.posteriors[0])
        merge_round(received, shared_round, options, display)
    else:
        merge_posteriors(received, options, priors, display)


@dataclass(frozen=True)
class Received:
    """The files of all sites, where to write their merge, and the site whose weights it gets, if not those of all."""

    paths: list[Path]
    sent: Mapping[str, Sent]
    output: Path
    weights_of: int | None = None

    @property
    def posteriors(self) -> list[Posterior]:
        return [site.posterior for site in self.sent.values()]

    @property
    def names(self) -> list[str]:
        return [path.name.removesuffix(".posterior") for path in self.paths]

    @property
    def rows(self) -> list[int] | None:
        return rows_behind(self.paths, self.posteriors)

    def subset(self, sites: Sequence[int]) -> "Received":
        """Only these sites."""
        keys = [*self.sent]
        return Received(
            [self.paths[site] for site in sites], {keys[site]: self.sent[keys[site]] for site in sites}, self.output
        )

    @property
    def overlap_remarks(self) -> tuple[Remark, ...]:
        """Remarks on documents that sites share, from sketches beside the files: a.sketch beside a.2.posterior."""
        beside = sorted({path.with_name(f"{site_name(path.name)}.sketch") for path in self.paths})
        files = [path for path in beside if path.is_file()]
        if len(files) < 2:
            return ()
        from decbayes.cli.commands.sharing.sketch import load_sketch
        from decbayes.updates.sketches import overlap

        return overlap([load_sketch(path) for path in files]).remarks(
            [path.stem for path in files], [path.stem for path in beside if path not in files]
        )

    def write(self, merged: Posterior, **note: Any) -> None:
        """Write the merge, with a note of the data it holds."""
        holds = sorted(frozenset().union(*(site.data for site in self.sent.values())))
        several = {"several": True} if len(self.sent) > 1 else {}
        content = {"holds": holds, **several, **note, **merged_manifest(self.paths, merged)}
        save(merged, self.output, note=content)


def merge_round(received: Received, shared_round: Round, options: Aligning, display: Display) -> None:
    """Merge the files of one round, whose components are already in common slots."""
    print_missing(shared_round)
    alignment, quietly = (with_earlier_ids(shared_round.alignment, options.since), replace(display, confidence=False))
    write_merge(alignment, received, quietly)


def merge_posteriors(received: Received, options: Aligning, priors: TopicPriors, display: Display) -> None:
    """Merge posteriors that sites fitted on their own: as labelled, robustly, or aligned."""
    names, output, write = received.names, received.output, received.write
    print_new_words(received.posteriors)
    read = list(same_columns(priors.apply(received.posteriors)))
    if options.naive:
        write(merging.product(recentred(read)))
        messages().print(f"{output}: {len(read)} posteriors, not aligned")
    elif options.robust:
        robust = merge_robustly(read, options)
        counted = received.subset(robust.merged)
        remarks = ordered([*robust.remarks(names), *received.overlap_remarks])
        robust = replace(robust, posterior=replace(robust.posterior, remarks=remarks))
        write_robust(robust, counted, len(names), options, display)
    else:
        overlaps = display.overlaps(read)
        alignment = align_posteriors(read, options.components, options.since, options.chosen_solver)
        write_merge(alignment, received, display, overlaps, options.chosen_solver)


def write_merge(
    alignment: "Alignment",
    received: Received,
    display: Display,
    overlaps: Sequence[Any] | None = None,
    solver: Solver | None = None,
) -> None:
    """Write the merge with its remarks, and print what was asked for."""
    names, rows = received.names, received.rows
    remarks = ordered([*quick_remarks(alignment, names), *received.overlap_remarks])
    site = received.weights_of
    merged = replace(alignment.merged() if site is None else alignment.at_site(site), remarks=remarks)
    received.write(merged, **support_note(alignment, names))
    length = document_length(rows, alignment) if display.requested else None
    display.present(alignment, merged, names, overlaps, solver, length)
    print_outcome(alignment, merged.remarks, received)


def files_to_merge(paths: list[Path]) -> list[Path]:
    """The files to merge: those given, or the last complete round in a shared folder."""
    if len(paths) != 1 or not paths[0].is_dir():
        return paths
    (folder,) = paths
    if any(folder.glob("*.release")):
        from decbayes.cli.commands.everyday._private_releases import releases_in

        return releases_in(folder)
    return last_complete_round(folder)


def site_to_predict_at(path: Path | None, files: Sequence[Path], options: Aligning) -> int | None:
    """The place of the site among the files whose weights the merge gets."""
    if path is None:
        return None
    if options.naive or options.robust or any(map(is_release, files)):
        raise WrongArgument("--weights-of does not go with --naive, --robust or private releases.")
    if path not in files:
        raise WrongArgument(f"--weights-of must name one of the files that are merged: {path} is not among them.")
    return files.index(path)


def check_for_components(options: Aligning, first: Posterior) -> None:
    """Refuse options that have no effect on models without components."""
    given_options = [name for name in ("components", "since", "solver") if getattr(options, name) is not None]
    if given_options and not first.structure.symmetry:
        name = view_of(first.structure).usual_name
        raise WrongArgument(f"This {name} has no components to align: leave out --{given_options[0]}.")


def check_options_of_round(options: Aligning, priors: TopicPriors, display: Display, first: Posterior) -> None:
    """Refuse options that would judge sites anew, or move components out of common slots."""
    if options.robust:
        raise WrongArgument(
            "Files of a round depend on each other, so that --robust cannot judge them. Merge the sites' first files "
            "(without the number of a round) with --robust, remove the files of sites that it leaves out from the "
            "folder, then take rounds."
        )
    conflict = replace(options, since=None) != AS_USUAL or priors != AS_FITTED or display.confidence or display.overlap
    if conflict:
        raise WrongArgument(
            "Posteriors of a round are already in common slots. Of the alignment options, only --since applies."
            if first.structure.symmetry
            else "Posteriors of a round are added as they are: leave out --naive, --confidence and --overlap."
        )


def print_new_words(posteriors: Sequence[Posterior]) -> None:
    """Print how many words are missing from the lists of some sites."""
    lists = [frozenset(posterior.structure.labels.get("topics", ())) for posterior in posteriors]
    only = len(frozenset().union(*lists)) - len(frozenset.intersection(*lists))
    if only:
        messages().print(f"{only:,} words are not in the lists of all sites; they count 0 where they are missing.")


def print_missing(shared_round: Round) -> None:
    if shared_round.missing:
        missing = (
            "1 site of this round is not here: its"
            if shared_round.missing == 1
            else f"{shared_round.missing} sites of this round are not here: their"
        )
        messages().print(f"{missing} data do not count.")


def merge_robustly(posteriors: list[Posterior], options: Aligning) -> "RobustMerge":
    with alignment_progress(len(posteriors)) as progress:
        return merging.robust_merge(
            posteriors, components=component_number(options.components), solver=options.chosen_solver, progress=progress
        )


def write_robust(robust: "RobustMerge", counted: Received, given: int, options: Aligning, display: Display) -> None:
    """Write, explain and draw a robust merge of the sites that count; remarks name the others."""
    alignment, merged, names = robust.alignment, robust.posterior, counted.names
    counting = rows_counting(robust, counted)
    counted.write(merged, **support_note(alignment, names, counting))
    replace(display, confidence=False).present(alignment, merged, names, None, options.chosen_solver, None)
    print_outcome(alignment, merged.remarks, counted, given, counting)


def rows_counting(robust: "RobustMerge", counted: Received) -> int | None:
    """How many rows count of those sites that do; None if all of them, or if a file does not tell."""
    shares = [robust.sites[site].counts for site in robust.merged]
    if counted.rows is None or min(shares, default=1.0) >= 1.0:
        return None
    return round(sum(rows * share for rows, share in zip(counted.rows, shares, strict=True)))


def print_outcome(
    alignment: "Alignment", remarks: Sequence[Remark], received: Received, given: int = 0, counting: int | None = None
) -> None:
    """Print one line on the merge, what became of earlier components, and the most important remarks.

    `given` is the number of posteriors given to a robust merge, which may count fewer, and `counting` that of rows that
    count.
    """
    structure, path = alignment.structure, received.output
    merged = alignment.merged()
    counts = [plural(len(filled_slots(merged, coupled)), "component") for coupled in structure.symmetry]
    slots = [text for text in (*counts, empty_slots(merged)) if text]
    manifest = summed_manifest(received.paths, merged) if received.rows else None
    records = [] if manifest is None else [records_text(manifest, view_of(structure).record, counting)]
    counted = len(alignment.posteriors)
    posteriors = f"{counted} of {plural(given, 'posterior')}" if given > counted else plural(counted, "posterior")
    messages().print(f"{path}: {', '.join([posteriors, *records, *slots])}")
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
