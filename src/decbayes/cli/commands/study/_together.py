"""What anybody who has all files can do: see whose turn it is, merge, and write the report."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from decbayes.cli.commands.study._where import ANY_STUDY, Where, tell_problems, tell_turn, write_pages
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import many, messages, output, plain
from decbayes.errors import InvalidProtocol
from decbayes.files import load, load_note, save
from decbayes.models.core.registry import model_for
from decbayes.posterior import EXACT, JOINT, Posterior
from decbayes.study.explaining import page
from decbayes.study.folder import CHECKLIST, PAGE, Released, Study
from decbayes.study.protocol import FILE
from decbayes.study.whose_turn import steps
from decbayes.updates.rounds import Round
from decbayes.updates.update import shift

if TYPE_CHECKING:
    from decbayes.calibration import Information
    from decbayes.views.participants import About

CONVERGED = 0.01  # standard deviations per parameter
Without = Annotated[
    tuple[str, ...],
    Parameter(name="--without", help="A site to leave out, because it will not take part; once per site.", negative=""),
]
KEYS = ("who", "what", "commands", "done", "due")


def status(*, where: Where = ANY_STUDY, as_json: Annotated[bool, json_option("step", *KEYS)] = False) -> None:
    """Show what has been done and whose turn it is, according to the files in the study's folder.

    For example:

    ```sh
    decbayes study status
    ```
    """
    study = where.opened()
    tell_problems(study)
    if (study.folder / PAGE).exists() and (study.folder / PAGE).read_bytes() != page(study).encode():
        write_pages(study)
        messages().print(f"{FILE} has changed: {PAGE} and {CHECKLIST} are written again.")
    if as_json:
        print_json(*({name: getattr(step, name) for name in KEYS} for step in steps(study)))
        return
    if study.protocol.question:
        output().print(plain(study.protocol.question))
    for step in steps(study):
        mark = "✓" if step.done else "→" if step.due else " "
        output().print(plain(f"{mark} {step.who}: {step.what}"))
    tell_turn(study)


def merge(*, where: Where = ANY_STUDY, without: Without = ()) -> None:
    """Merge what all sites have released last; say what is missing and from whom, and whether to take a round first.

    Only released files count. Damaged or foreign files are named and left alone.

    For example:

    ```sh
    decbayes study merge
    ```
    """
    study = where.opened()
    tell_problems(study)
    merge_into(study, without)
    tell_turn(study)


def report(
    *,
    where: Where = ANY_STUDY,
    without: Without = (),
    as_json: Annotated[bool, json_option("sentence", "sentence")] = False,
) -> None:
    """Write the report of the study, one page that anybody can open; merges first.

    For example:

    ```sh
    decbayes study report
    ```
    """
    from decbayes.cli.commands.everyday.report import write_report

    study = where.opened()
    tell_problems(study)
    counted = merge_into(study, without)
    paths = [released.path for released in counted.values()]
    about = about_study(study, counted)
    tables = [study.report.with_name(f"table{ending}") for ending in (".csv", ".tex", ".docx")]
    merged = load(study.merged)
    for sentence in write_report(paths, study.report, about, names=[*counted], tables=tables, calibrated=merged):
        print_json({"sentence": sentence}) if as_json else output().print(plain(sentence))
    messages().print(f"The table for a paper: {', '.join(str(table) for table in tables)}")
    tell_turn(study)


def about_study(study: Study, counted: dict[str, Released]) -> "About":
    """The question, the authors and the sites, as the protocol, the released files and the lists of columns say it."""
    from decbayes.cli.commands.everyday.report import newest, participant
    from decbayes.views.participants import About

    columns = {}
    if study.agreed_list is not None and study.agreed_list.kind == "columns":
        columns = {site: study.agreed_list.read(path) for site, path in study.lists().items()}
    by_site = {site: participant(released.manifest) for site, released in counted.items()}
    participants = {site: replace(known, columns=columns.get(site, {})) for site, known in by_site.items()}
    protocol = study.protocol
    question = protocol.question or protocol.name
    return About(question, tuple(protocol.authors), newest(participants.values()), protocol.units, participants)


def merge_into(study: Study, without: tuple[str, ...]) -> dict[str, Released]:
    """Merge the last complete round, and say what to think of it."""
    from decbayes.cli.commands.everyday.merge import merge as merge_files

    number, counted = to_merge(study, without)
    study.merged.parent.mkdir(exist_ok=True)
    merge_files([released.path for released in counted.values()], output=study.merged)
    for line in (*about_rounds(study, number, counted), *about_intervals(study, [*counted])):
        messages().print(plain(line))
    return counted


def to_merge(study: Study, without: tuple[str, ...]) -> tuple[int, dict[str, Released]]:
    """The last round for which all sites have released their part, and these parts."""
    for name in without:
        study.check_site(name)
    left = [name for name in study.sites if name not in without]
    number = 0 if without else study.round
    missing = [name for name in left if max(number, 0) not in study.sites[name].released]
    if missing:
        options = " ".join(f"--without {name}" for name in missing)
        advice = f"; or merge without them: {options}" if len(missing) < len(left) else ""
        raise InvalidProtocol(
            f"Released: {len(left) - len(missing)} of {many(len(left), 'site')}. Missing: {', '.join(missing)}. "
            f"`decbayes study status` says what they do next{advice}."
        )
    if not left:
        raise WrongArgument("All sites are left out: give --without for some of them only.")
    later = [name for name in left if study.sites[name].latest > number]
    if later and not without:
        waited = study.missing(number + 1)
        messages().print(f"Round {number + 1} has begun, and is not complete: {', '.join(waited)} missing.")
    return number, {name: study.sites[name].released[number] for name in left}


def about_rounds(study: Study, number: int, counted: dict[str, Released]) -> list[str]:
    """Whether a further round would change the merge."""
    merged = load(study.merged)
    if merged.uncertainty == EXACT:
        return ["The merge is exact: it is the posterior of all data, and rounds would change nothing."]
    if number < study.protocol.rounds:
        done = "no round" if number == 0 else many(number, "round")
        return [
            f"The protocol has {many(study.protocol.rounds, 'round')}, and {done} is complete: take the next one first."
        ]
    if number == 0:
        return [
            "This merge rests on one broadcast per site, which is an approximation. A round (`decbayes study round` at "
            "each site) brings it closer to one fit of all data."
        ]
    before = Round.of({name: study.sites[name].released[number - 1].sent for name in counted})
    moved = shift(before.merged, merged)
    moved_by = f"Round {number} moved the merge by {moved:.2g} standard deviations per parameter"
    if moved < CONVERGED:
        return [f"{moved_by}: further rounds would change hardly anything."]
    return [f"{moved_by}. If that matters, take another round: `decbayes study round` at each site."]


def about_intervals(study: Study, sites: Sequence[str]) -> Iterator[str]:
    """Calibrate the merge if all sites have handed over what that takes; else what to do for it."""
    merged, how = load(study.merged), "`decbayes study calibrate` at each site, then `decbayes study report`"
    parts = informations(study, sites)
    if not calibratable(merged):
        return
    if not parts:
        yield f"Intervals are often too narrow. To calibrate them: {how}."
    elif missing := [name for name in sites if name not in parts]:
        yield f"Intervals are not calibrated yet: the sums of {', '.join(missing)} are missing."
    else:
        from decbayes.calibration.intervals import SETTLED, responded

        calibrated, away = responded(merged, [*parts.values()])
        if away > SETTLED:
            yield (
                f"Intervals are not calibrated: by these sums, the merge is about {away:.1f} deviations from where it "
                "would converge. Take a round; or sites have left out what too few persons have, and no round helps."
            )
            return
        save(calibrated, study.merged, note=load_note(study.merged))
        yield f"Intervals are {calibrated.uncertainty}."


def informations(study: Study, sites: Sequence[str]) -> "dict[str, Information]":
    """What sites have handed over about the intervals of the merge as it is now; older files are named."""
    parts = {}
    for site in sites:
        path = study.information_of(site)
        if path.exists():
            from decbayes.cli.commands.checking.calibrate import read_part

            part = read_part(path)
            if part.at == load(study.merged).digest:
                parts[site] = part
            else:
                messages().print(
                    plain(f"{path} is about an earlier merge: `decbayes study calibrate` at {site} again.")
                )
    return parts


def calibratable(merged: Posterior) -> bool:
    """Whether sites can make the intervals better with one more look at their data."""
    known = merged.uncertainty in (EXACT, JOINT) or merged.means_only
    return not known and model_for(merged.structure).calibrated_by == "linear response"
