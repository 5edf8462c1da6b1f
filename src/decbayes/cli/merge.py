"""`decbayes merge`: posteriors of many sites into one."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from decbayes.cli.explain import print_alignment, print_differences, print_influence, shared_rows
from decbayes.cli.outputs import DPI, Dpi, check_output, check_picture, save_picture
from decbayes.cli.overlap import overlaps_from
from decbayes.cli.quality import quality_of, remarks_on
from decbayes.cli.running import WrongArgument
from decbayes.cli.sent import read_sent
from decbayes.cli.supporters import found_by
from decbayes.cli.terminal import aligning, messages, plain
from decbayes.cli.terminal import output as screen
from decbayes.cli.where import Device, work_on
from decbayes.errors import InvalidStructure, NotCalibrated, NothingToMerge
from decbayes.files import load, save
from decbayes.merging import (
    Alignment,
    Confidence,
    Exhaustive,
    Grouping,
    Hierarchical,
    Matching,
    Reliability,
    Swaps,
    align,
    product,
    tree,
)
from decbayes.merging.alignment import MOST_LOOKED_AT
from decbayes.merging.columns import same_columns
from decbayes.merging.problem import Solver
from decbayes.merging.solving import Number
from decbayes.posterior import Posterior
from decbayes.reporting.differences import advice, differences
from decbayes.updates.rounds import Sent, check_once, together

# Observations (or words) times components that are simulated and fitted again unasked: a matter of seconds.
QUICK = 100_000
SIMULATED = 100
TOP_WORDS = 10

Solvers = Literal["grouping", "matching", "swaps", "exhaustive", "hierarchical"]


def merge(
    posteriors: Annotated[list[Path], Parameter(negative="", help="The posterior files of all sites.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the merged posterior.")],
    components: Annotated[
        str | None,
        Parameter(
            help="Number of components of the merge, or 'auto' to find it. Default: as many as the site with "
            "the most has."
        ),
    ] = None,
    since: Annotated[
        Path | None, Parameter(help="An earlier merge: components found again keep their ids and numbers.")
    ] = None,
    explain: Annotated[
        bool, Parameter(negative="", help="Print which component went into which slot, and which sites have it.")
    ] = False,
    picture: Annotated[Path | None, Parameter(help="Draw the alignment into this file (.png, .svg, .pdf).")] = None,
    tree: Annotated[
        Path | None, Parameter(help="Draw the tree of all components into this file (.png, .svg, .pdf).")
    ] = None,
    dpi: Dpi = DPI,
    confidence: Annotated[
        bool | None,
        Parameter(
            help="Simulate sites like these, to say how likely each match is right. Default: with --explain, where "
            "that takes seconds."
        ),
    ] = None,
    overlap: Annotated[
        list[Path] | None,
        Parameter(negative="", help="Files of `decbayes overlap`, which make these probabilities sharper."),
    ] = None,
    as_json: Annotated[
        bool,
        Parameter(name="--json", negative="", help="Print which sites have which component as JSON, one object each."),
    ] = False,
    solver: Annotated[
        Solvers | None,
        Parameter(
            help="How to align. 'grouping' may put several components of a site into one slot; the others put one "
            "into each. Default: 'matching' for features, 'grouping' for other models."
        ),
    ] = None,
    restarts: Annotated[
        NonNegativeInt | None,
        Parameter(help="Additional starts of --solver matching; default: depends on the size."),
    ] = None,
    naive: Annotated[
        bool, Parameter(negative="", help="Add components as they are labelled, without alignment.")
    ] = False,
    topic_prior: Annotated[
        float | Literal["learn"] | None,
        Parameter(help="Of topics whose priors differ: the one that all take, or 'learn' to find it."),
    ] = None,
    document_prior: Annotated[
        float | None, Parameter(help="Of topics whose document priors differ: the one that all take.")
    ] = None,
    device: Device = None,
) -> None:
    """Merge the posteriors of separate data into the posterior of all of it, whatever their labels."""
    check_output(output, *posteriors)
    for drawn in (picture, tree):
        check_picture(drawn, *posteriors)
    if naive and (explain or picture or tree or as_json or since or components or overlap or confidence):
        raise WrongArgument("--naive makes no alignment, which the other options need. Leave --naive out.")
    if restarts is not None and solver != "matching":
        raise WrongArgument("--restarts is for --solver matching.")
    work_on(device)
    count = number_of(components)
    other = {"topic_prior": topic_prior, "document_prior": document_prior}
    priors = {name: prior for name, prior in other.items() if prior is not None}
    sent = read_once(posteriors, any_prior=bool(priors))
    note = {"holds": sorted(frozenset().union(*(each.data for each in sent.values())))}
    whole = together(sent)
    if whole is not None:
        if any((explain, picture, tree, as_json, since, components, solver, overlap, confidence, naive, priors)):
            raise WrongArgument(
                "Posteriors of a round are in common slots already; options of the alignment are for others."
            )
        save(whole, output, note=note)
        messages().print(f"{output}: {len(sent)} posteriors of one round, in common slots")
        return
    read, earlier = list(same_columns(on_priors([each.posterior for each in sent.values()], priors))), None
    if since is not None:
        *read, earlier = same_columns([*read, load(since)])
    reported = None if not overlap else overlaps_from(overlap, read)
    if naive:
        save(product(read), output, note=note)
        messages().print(f"{output}: {len(read)} posteriors, not aligned")
        return
    with aligning(len(read)) as progress:
        found = align(read, components=count, solver=solver_named(solver, restarts), since=earlier, progress=progress)
    names = [path.name.removesuffix(".posterior") for path in posteriors]
    merged = found.merged()
    save(merged, output, note=note | found_by(found, names))
    wanted = confidence if explain or overlap else bool(confidence)
    sure = how_sure(found, wanted, reported, solver_named(solver, restarts))
    draw(found, names, sure, picture, tree, dpi)
    tell(found, merged, names, sure, explain=explain, as_json=as_json)
    report(found, output)


def tell(
    found: Alignment, merged: Posterior, names: list[str], sure: Confidence | str, *, explain: bool, as_json: bool
) -> None:
    """Print what was asked for about a merge."""
    if explain:
        print_alignment(found, merged, names, sure)
        print_differences(differences(found))
        print_influence(found, names)
        for line in remarks_on(merged, TOP_WORDS):
            screen().print(line)
    if as_json:
        quality = quality_of(merged, TOP_WORDS)
        for row in shared_rows(found, names, sure):
            print(json.dumps(row | ({} if quality is None else {"telling": list(quality.telling[row["slot"]])})))


def on_priors(read: list[Posterior], priors: Mapping[str, Any]) -> list[Posterior]:
    """The posteriors as they are, or on other priors, which are then said."""
    if not priors:
        return read
    from decbayes.models.topic_prior import shared_prior, with_priors

    try:
        moved = with_priors(read, **priors)
    except (ValueError, InvalidStructure) as error:
        raise WrongArgument(str(error)) from None
    if priors.get("topic_prior") == "learn":
        messages().print(f"topic prior {shared_prior(moved[0].structure):g}, learned from the topics of all sites")
    return moved


def number_of(components: str | None) -> Number:
    if components is None or components == "auto":
        return components  # type: ignore[return-value]
    if not components.isdecimal() or int(components) < 1:
        raise WrongArgument("--components must be an integer above 0, or 'auto'.")
    return int(components)


def how_sure(
    found: Alignment, wanted: bool | None, reported: Sequence[Any] | None, solver: Solver | None
) -> Confidence | str:
    """The probability of each match, or why there is none."""
    from decbayes.calibration import reliability

    if wanted is False:
        return "they were not asked for."
    if wanted is None and not quick(found):
        return "simulations take a while. --confidence asks for them."
    try:
        with messages().status("simulating sites like these"):
            return found.confidence(reliability(found, solver=solver, matches=SIMULATED), reported)
    except NotCalibrated as error:
        return str(error)


def quick(found: Alignment) -> bool:
    """Whether sites like these are simulated in seconds."""
    work = sum(own.sum() * len(own) for coupled in found.structure.symmetry for own in found.evidence(coupled))
    return bool(work <= QUICK)


def learned(found: Alignment) -> Reliability:
    """What margins are worth at such sites, where simulations are quick."""
    from decbayes.calibration import reliability

    if not quick(found):
        raise NotCalibrated("Simulations of so much data take a while.")
    return reliability(found, matches=SIMULATED)


def draw(
    found: Alignment, names: list[str], sure: Confidence | str, picture: Path | None, branches: Path | None, dpi: int
) -> None:
    from decbayes import plot

    if picture is not None:
        known = sure if isinstance(sure, Confidence) else None
        save_picture(plot.alignment(found, names=names, confidence=known).figure, picture, dpi)
    if branches is not None:
        save_picture(plot.tree(tree(found.posteriors), names=names).figure, branches, dpi)


def report(found: Alignment, path: Path) -> None:
    """One line on the merge; what became of earlier components, and what deserves a look."""
    slots = ", ".join(f"{found.structure.components(coupled)} components" for coupled in found.structure.symmetry)
    messages().print(f"{path}: {len(found.posteriors)} posteriors, {slots or 'nothing to align'}")
    if found.lineage is not None:
        events = [event for event in found.lineage.events if event.kind != "kept"]
        messages().print(f"{len(found.lineage.events) - len(events)} components kept their ids")
        for event in events:
            messages().print(plain(str(event)))
    if len(found.posteriors) > MOST_LOOKED_AT:
        return
    for remark in found.remarks():
        messages().print(remark)
    for told in advice(found):
        messages().print(plain(" ".join(told)))


def solver_named(name: Solvers | None, restarts: int | None) -> Solver | None:
    solvers: dict[Solvers | None, Any] = {
        None: None,
        "grouping": Grouping(),
        "matching": Matching(restarts=restarts),
        "swaps": Swaps(),
        "exhaustive": Exhaustive(),
        "hierarchical": Hierarchical(),
    }
    return solvers[name]  # type: ignore[no-any-return]


def read_once(paths: list[Path], *, any_prior: bool = False) -> dict[str, Sent]:
    """All posteriors; one that does not fit the first is refused by name, and so are the same data twice."""
    if not paths:
        raise NothingToMerge("Give the posterior files to merge.")
    sent = read_sent(paths, any_prior=any_prior)
    different = {each.posterior.digest: name for name, each in sent.items()}
    check_once({name: each for name, each in sent.items() if different[each.posterior.digest] == name})
    warn_of_copies(paths, [each.posterior for each in sent.values()])
    return sent


def read_all(paths: list[Path]) -> list[Posterior]:
    """The same, with their columns in one order."""
    return list(same_columns([each.posterior for each in read_once(paths).values()]))


def warn_of_copies(paths: list[Path], read: list[Posterior]) -> None:
    """Say so where a posterior is given twice: its data would count twice, and nothing in the result shows it."""
    nothing = Posterior.of_prior(read[0].structure).digest
    first: dict[str, Path] = {}
    for path, posterior in zip(paths, read, strict=True):
        before = first.setdefault(posterior.digest, path)
        if before is not path and posterior.digest != nothing:
            messages().print(f"{path} is the same posterior as {before}: its data are counted twice.")
