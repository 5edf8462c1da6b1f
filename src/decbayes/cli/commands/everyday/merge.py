"""`decbayes merge`: posteriors of many sites into one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from decbayes.arguments import given
from decbayes.cli.shared.alignments import Telling
from decbayes.cli.shared.common_options import Device, work_on
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.posterior_files import found_by, read_sent
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.terminal import aligning, many, messages, plain
from decbayes.errors import InvalidStructure, NothingToMerge
from decbayes.files import load, save
from decbayes.merging import Alignment, align, product, remarks
from decbayes.merging.aligning import Number
from decbayes.merging.alignment import MOST_LOOKED_AT
from decbayes.merging.base.agreement import same_columns
from decbayes.merging.base.problem import Solver
from decbayes.merging.base.solvers import SOLVERS, checked_solver
from decbayes.posterior import Posterior
from decbayes.reporting.remarks import advice
from decbayes.updates.rounds import Sent, check_once, together

NOTHING = Telling()


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
    telling: Telling = NOTHING,
    solver: Annotated[
        str | None,
        Parameter(
            help=f"How to align: {', '.join(SOLVERS)}. 'grouping' may put several components of a site into one slot; "
            "the others put one into each. Default: 'matching' for features, 'grouping' for other models."
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
    telling.check(posteriors)
    if naive and (telling.asked or since or components):
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
        if telling.asked or any((since, components, solver, naive, priors)):
            raise WrongArgument(
                "Posteriors of a round are in common slots already; options of the alignment are for others."
            )
        save(whole, output, note=note)
        messages().print(f"{output}: {len(sent)} posteriors of one round, in common slots")
        return
    read, earlier = list(same_columns(on_priors([each.posterior for each in sent.values()], priors))), None
    if since is not None:
        *read, earlier = same_columns([*read, load(since)])
    if naive:
        save(product(read), output, note=note)
        messages().print(f"{output}: {len(read)} posteriors, not aligned")
        return
    reported, how = telling.reported(read), solver_named(solver, restarts)
    with aligning(len(read)) as progress:
        found = align(read, components=count, solver=how, since=earlier, progress=progress)
    names = [path.name.removesuffix(".posterior") for path in posteriors]
    merged = found.merged()
    save(merged, output, note=note | found_by(found, names))
    telling.tell(found, merged, names, reported, how)
    report(found, output)


def on_priors(read: list[Posterior], priors: Mapping[str, Any]) -> list[Posterior]:
    """The posteriors as they are, or on other priors, which are then said."""
    if not priors:
        return read
    from decbayes.models.topics.word_prior import shared_prior, with_priors

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


def report(found: Alignment, path: Path) -> None:
    """One line on the merge; what became of earlier components, and what deserves a look."""
    slots = ", ".join(many(found.structure.components(coupled), "component") for coupled in found.structure.symmetry)
    messages().print(f"{path}: {many(len(found.posteriors), 'posterior')}, {slots or 'nothing to align'}")
    if found.lineage is not None:
        events = [event for event in found.lineage.events if event.kind != "kept"]
        messages().print(f"{len(found.lineage.events) - len(events)} components kept their ids")
        for event in events:
            messages().print(plain(str(event)))
    if len(found.posteriors) > MOST_LOOKED_AT:
        return
    for remark in remarks(found):
        messages().print(remark)
    for told in advice(found):
        messages().print(plain(" ".join(told)))


def solver_named(name: str | None, restarts: int | None) -> Solver | None:
    """The registered solver of that name; None for the model's default."""
    if name is not None and name not in SOLVERS:
        raise WrongArgument(f"--solver is one of {', '.join(SOLVERS)}, not {name!r}.")
    return checked_solver(name, **given(restarts=restarts))


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
