"""Commands for anybody who has all files: status, merge, and report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from decbayes.base.display import digits
from decbayes.cli.commands.study._where import ANY_STUDY, Where, print_problems, print_turn, write_pages
from decbayes.cli.shared.running import WrongArgument, with_example
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, output, plain, plural
from decbayes.errors import InvalidFile, InvalidProtocol, NotCalibrated
from decbayes.files import load, load_note, save
from decbayes.models.core.registry import model_for
from decbayes.posterior import EXACT, JOINT, Posterior
from decbayes.remarks import too_narrow
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
Without = Annotated[tuple[str, ...], Parameter(name="--without", help="A site to leave out; once per site.")]
KEYS = ("who", "what", "commands", "done", "due")


@with_example("decbayes study status")
def status(*, where: Where = ANY_STUDY, as_json: Annotated[bool, json_option("step", *KEYS)] = False) -> None:
    """Show what has been done and whose turn it is, according to the files in the study's folder."""
    study = where.open()
    print_problems(study)
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
    print_turn(study)


@with_example("decbayes study merge")
def merge(*, where: Where = ANY_STUDY, without: Without = ()) -> None:
    """Merge the latest files of all sites; prints what is missing, and whether to take another round first.

    Only released files count. Damaged or foreign files are named and left alone.
    """
    study = where.open()
    print_problems(study)
    merge_into(study, without)
    print_turn(study)


@with_example("decbayes study report")
def report(
    *,
    where: Where = ANY_STUDY,
    without: Without = (),
    as_json: Annotated[bool, json_option("sentence", "sentence")] = False,
) -> None:
    """Write the report of the study, one page that anybody can open; merges first."""
    from decbayes.cli.commands.everyday.report import ReportOptions, write_report

    study = where.open()
    print_problems(study)
    counted = merge_into(study, without)
    paths = [released.path for released in counted.values()]
    about = about_study(study, counted)
    tables = [study.report.with_name(f"table{ending}") for ending in (".csv", ".tex", ".docx")]
    merged = load(study.merged)
    options = ReportOptions(tables=tables)
    for sentence in write_report(paths, study.report, about, options, names=[*counted], calibrated=merged):
        print_json({"sentence": sentence}) if as_json else output().print(plain(sentence))
    messages().print(f"The table for a paper: {', '.join(str(table) for table in tables)}")
    print_turn(study)


def about_study(study: Study, counted: dict[str, Released]) -> "About":
    """The question, the authors and the sites of a study, for its report."""
    from decbayes.cli.commands.everyday.report import newest, participant
    from decbayes.views.participants import About

    columns = {}
    if study.agreed_list is not None and study.agreed_list.kind == "columns":
        columns = {site: study.agreed_list.read(path) for site, path in study.lists().items()}
    by_site = {site: participant(released.manifest) for site, released in counted.items()}
    participants = {site: replace(site_data, columns=columns.get(site, {})) for site, site_data in by_site.items()}
    protocol = study.protocol
    question = protocol.question or protocol.name
    return About(question, tuple(protocol.authors), newest(participants.values()), protocol.units, participants)


def merge_into(study: Study, without: tuple[str, ...]) -> dict[str, Released]:
    """Merge the last complete round, and print how good it is."""
    from decbayes.cli.commands.everyday.merge import merge as merge_files

    number, counted = files_to_merge(study, without)
    study.merged.parent.mkdir(exist_ok=True)
    merge_files([released.path for released in counted.values()], output=study.merged)
    for line in (*about_rounds(study, number, counted), *about_intervals(study, counted)):
        messages().print(plain(line))
    return counted


def files_to_merge(study: Study, without: tuple[str, ...]) -> tuple[int, dict[str, Released]]:
    """The last complete round, and the released files of all sites in it."""
    for name in without:
        study.check_site(name)
    sites = [name for name in study.sites if name not in without]
    number = 0 if without else study.round
    missing = [name for name in sites if max(number, 0) not in study.sites[name].released]
    if missing:
        options = " ".join(f"--without {name}" for name in missing)
        advice = f"; or merge without them: {options}" if len(missing) < len(sites) else ""
        raise InvalidProtocol(
            f"Released: {len(sites) - len(missing)} of {plural(len(sites), 'site')}. Missing: {', '.join(missing)}. "
            f"`decbayes study status` shows what they do next{advice}."
        )
    if not sites:
        raise WrongArgument("All sites are left out: give --without only for some of them.")
    later = [name for name in sites if study.sites[name].latest > number]
    if later and not without:
        unfinished = study.missing(number + 1)
        messages().print(f"Round {number + 1} has begun but is not complete; missing: {', '.join(unfinished)}.")
    return number, {name: study.sites[name].released[number] for name in sites}


def about_rounds(study: Study, number: int, counted: dict[str, Released]) -> list[str]:
    """Whether another round would change the merge."""
    merged = load(study.merged)
    if merged.uncertainty == EXACT:
        return ["The merge is exact: it is the posterior of all data, and rounds would change nothing."]
    if number < study.protocol.rounds:
        return [
            f"The protocol has {plural(study.protocol.rounds, 'round')}; complete: {number}. Run the next one first."
        ]
    if number == 0:
        return [
            "This merge uses one broadcast per site, which is an approximation. A round (`decbayes study round` at "
            "each site) brings it closer to one fit of all data."
        ]
    before = Round.of({name: study.sites[name].released[number - 1].sent for name in counted})
    distance = shift(before.merged, merged)
    moved_by = f"Round {number} moved the merge by {digits(distance, 2)} standard deviations per parameter"
    if distance < CONVERGED:
        return [f"{moved_by}: further rounds would change hardly anything."]
    return [f"{moved_by}. If that matters, take another round: `decbayes study round` at each site."]


def about_intervals(study: Study, counted: Mapping[str, Released]) -> Iterator[str]:
    """Calibrate the merge if all sites have shared their sums; otherwise say what to do."""
    merged, how = load(study.merged), "`decbayes study calibrate` at each site, then `decbayes study report`"
    parts = shared_sums(study, [*counted])
    if not calibratable(merged, counted):
        return
    if not parts:
        overlap = "where components overlap: half of the 90 % intervals may miss the truth there"
        why = why_robust(counted)
        yield f"Intervals are {f'probably too narrow, as {why}' if why else f'too narrow {overlap}'}."
        yield f"To calibrate them: {how}."
    elif missing := [name for name in counted if name not in parts]:
        yield f"Intervals are not calibrated yet: the sums of {', '.join(missing)} are missing."
    else:
        from decbayes.calibration.intervals import SETTLED, responded

        try:
            calibrated, gap = responded(merged, [*parts.values()])
        except NotCalibrated as error:
            yield f"Intervals are not calibrated. {error}"
            return
        if gap > SETTLED:
            yield (
                f"Intervals are not calibrated: these sums place the merge about {gap:.1f} deviations from where it "
                "would converge. Take a round; if sites left out small groups of persons, no round helps."
            )
            return
        save(calibrated, study.merged, note=load_note(study.merged))
        why = why_robust(counted)
        yield f"Intervals are {calibrated.uncertainty}{f', and so not too narrow although {why}' if why else ''}."


def shared_sums(study: Study, sites: Sequence[str]) -> "dict[str, Information]":
    """The sums that sites have shared for the present merge; names damaged files and those of earlier merges."""
    parts = {}
    for site in sites:
        path = study.information_of(site)
        if path.exists():
            from decbayes.cli.commands.checking.calibrate import read_part

            again = f"run `decbayes study calibrate` at {site} again."
            try:
                part = read_part(path)
            except InvalidFile as error:
                messages().print(plain(f"{error} To repair it, {again}"))
                continue
            if part.at == load(study.merged).digest:
                parts[site] = part
            else:
                messages().print(plain(f"{path} is about an earlier merge: {again}"))
    return parts


def why_robust(counted: Mapping[str, Released]) -> str:
    """Why intervals need robust errors; empty if they need none, or terms vary, for which there are none."""
    posteriors = [released.posterior for released in counted.values()]
    model = model_for(posteriors[0].structure)
    return too_narrow(posteriors) if hasattr(model, "robust_errors") and not getattr(model, "varying", ()) else ""


def calibratable(merged: Posterior, counted: Mapping[str, Released]) -> bool:
    """Whether sites could improve the intervals with sums over their data."""
    enough = merged.uncertainty in (EXACT, JOINT) and not why_robust(counted)
    return not (enough or merged.means_only) and model_for(merged.structure).calibrated_by == "linear response"
