"""Commands of a study at one site: check the data, fit, preview, release, take part in rounds."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from decbayes.base.writing import toml_table, write_whole
from decbayes.cli.commands.study._where import (
    ANY_SITE,
    AtSite,
    Data,
    data_of,
    fit_input,
    print_problems,
    print_turn,
    private_folder,
    reading_of,
    remember,
)
from decbayes.cli.shared.common_options import Refit, Seed
from decbayes.cli.shared.fit_data import without_person
from decbayes.cli.shared.running import WrongArgument, with_example
from decbayes.cli.shared.sharing import LEDGER, manifest_of, persons_of, rules_given
from decbayes.cli.shared.standard_streams import json_option, print_json, table_file
from decbayes.cli.shared.terminal import messages, output, plain
from decbayes.disclosure import Rules
from decbayes.disclosure.preparing import MADE_UP
from decbayes.disclosure.preparing import listed as list_columns
from decbayes.disclosure.rarities import Statement
from decbayes.errors import InvalidData, InvalidProtocol, NotDisclosed
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.tables.tabular import columns_file
from decbayes.study.agreed_list import ColumnList, kind_of, reading_parameters
from decbayes.study.checks import check as check_data
from decbayes.study.folder import Study, name_of
from decbayes.study.protocol import FILE
from decbayes.study.whose_turn import due
from decbayes.study.whose_turn import release as release_command
from decbayes.updates.exchange import site_name

MARKS = {"fine": " ", "look": "?", "stop": "✗"}
STOPPED = 3
STATEMENT = ("topic", "text", "severity")
RULES = "rules.toml"
PERSON = re.compile(r"--person (?:'([^']*)'|([\w-]+))")
# Options that choose the words of topics, which the agreed list of words replaces.
CHOOSING = frozenset({"stop_words", "ngrams", "tokens", "keep_case", "least_documents", "most_share", "most_words"})
Stricter = Annotated[
    str | None,
    Parameter(
        name="--rules",
        help="A TOML file of disclosure rules that are stricter than the protocol's; default: DECBAYES_RULES.",
    ),
]


@with_example("decbayes study check patients.csv --site north")
def check(
    data: Data = None,
    /,
    *,
    where: AtSite = ANY_SITE,
    rules: Stricter = None,
    as_json: Annotated[bool, json_option("statement", *STATEMENT)] = False,
) -> int:
    """Check this site's data before the fit; nothing leaves. Also lists columns or words for the other sites.

    Shows columns, units, categories, missing values, rows per level, the outcome, and what the rules would hide. The
    list for the other sites has names, categories of enough persons and rounded units, or words of enough documents.
    The exit status is 3 if the data cannot be fitted.
    """
    study, site = where.locate()
    files, in_force = data_of(study, site, data), rules_for(study, rules)
    with rules_of_protocol():
        model, observations, persons = site_model(study, files)
    remember(study, site, files)
    frame, model = frame_of(model, files), model.unsettled(study.protocol.settings.keys())
    statements = check_data(
        model, observations, frame=frame, rules=in_force, persons=persons, units=study.protocol.units
    )
    text = ""
    if not any(statement.severity == "stop" for statement in statements):
        try:
            with rules_of_protocol():
                text = site_list(study, model, observations, files, in_force, persons)
        except (NotDisclosed, InvalidData) as error:
            statements += [Statement("list", str(error), "stop")]
    stopped = any(statement.severity == "stop" for statement in statements)
    statements += [Statement("other sites", line, "look") for line in differences(study, site, text)]
    print_statements(statements, as_json)
    if stopped:
        messages().print(
            f"These data cannot be fitted as they are; nothing was written for others. If you cannot change that, the "
            f"study continues without {site}: remove its line from [sites] in {study.folder / FILE}"
            f"{', and name another site that merges (merges = …)' if study.protocol.merges == site else ''}."
        )
        return STOPPED
    hand_over_list(study, site, text)
    print_turn(study, site)
    return 0


@with_example("decbayes study fit")
def fit(data: Data = None, /, *, where: AtSite = ANY_SITE, rules: Stricter = None, seed: Seed = 0) -> None:
    """Fit this site's data according to the protocol. The result is a draft, which stays at the site."""
    from decbayes.cli.commands.everyday.fit import fit as fit_data

    study, site = where.locate()
    if study.sites[site].latest >= 0:
        first = study.sites[site].released[min(study.sites[site].released)]
        messages().print(
            f"{site} has already released its fit: {first.path}, approved by {first.manifest.approver}. To fit "
            "again, remove this file."
        )
        print_turn(study, site)
        return
    files, in_force = data_of(study, site, data), rules_for(study, rules)
    kind, settings = kind_of(study.protocol), fit_settings(study)
    draft = study.draft_of(site, 0)
    with rules_of_protocol():
        fit_data(
            kind,
            fit_input(kind, files),
            output=draft,
            rules=rules_text(study, site, in_force),
            person=study.protocol.person,
            site=site,
            seed=seed,
            **settings,
        )
    remember(study, site, files)
    print_release(study, site, draft)


@with_example("decbayes study round")
def round(data: Data = None, /, *, where: AtSite = ANY_SITE, seed: Seed = 0) -> None:
    """Make this site's next round: fit again, given the contributions of all other sites.

    All sites must have released the previous round. The result is a draft, as after `decbayes study fit`.
    """
    from decbayes.cli.commands.everyday.refine import Where as Files
    from decbayes.cli.commands.everyday.refine import refine

    study, site = where.locate()
    print_problems(study)
    if study.sites[site].latest < 0:
        raise InvalidProtocol(f"{site} has not released its first fit: `decbayes study fit`, then `study release`.")
    if missing := [name for name, files in study.sites.items() if not files.released]:
        raise InvalidProtocol(
            f"Rounds begin when all sites have released their first fit; missing: {', '.join(missing)}. Remove "
            f"sites that will not take part from {FILE}."
        )
    turn = study.exchange.turn(site)
    if not turn.due:
        messages().print(f"{site} has released round {turn.round - 1}. Waiting for {', '.join(turn.waiting)}.")
        return
    files, draft = data_of(study, site, data), study.draft_of(site, turn.round)
    site_file, *others = [study.place(site_name(name)) / name for name in turn.inputs]
    with rules_of_protocol():
        refine(
            files,
            where=Files(own=site_file, others=others, output=draft),
            refit=Refit(seed=seed),
            reading=reading_of(study),
        )
    remember(study, site, files)
    print_release(study, site, draft)


@with_example("decbayes study preview")
def preview(*, where: AtSite = ANY_SITE, as_json: Annotated[bool, json_option("statement", *STATEMENT)] = False) -> int:
    """Show what the draft reveals about persons before it leaves. Also writes a page, for you only."""
    study, site = where.locate()
    status = show_draft(study, site, as_json=as_json)
    if not status:
        messages().print(f"To release it: {release_command(study, site)}")
    return status


def show_draft(study: Study, site: str, *, as_json: bool = False) -> int:
    """Print what the newest draft reveals about persons, and write it as a page; 0 if no rule is broken."""
    from decbayes.cli.commands.sharing.preview import show

    draft = newest_draft(study, site)
    page = private_folder(study, site) / "preview.html"
    others = [
        files.released[files.latest].path for name, files in study.sites.items() if files.released and name != site
    ]
    merged_with = others if study.sites[site].latest < 0 else []
    data, rules = data_of(study, site, None), rules_of_drafts(study, site)
    ledger = private_folder(study, site) / LEDGER
    return show(draft, data, page, merged_with, rules, ledger, as_json=as_json, reading=reading_of(study))


@with_example("decbayes study release --approve 'Dr Kim'")
def release(
    *,
    approve: Annotated[str, Parameter(help="Your name: you have seen the preview, and approve that the file leaves.")],
    where: AtSite = ANY_SITE,
    key: Annotated[Path | None, Parameter(help="Your key, from `decbayes keygen`, to sign with.")] = None,
) -> None:
    """Approve the draft: record it in the site's ledger, and put it into the study's folder for the others."""
    from decbayes.cli.commands.sharing.release import release as release_file

    study, site = where.locate()
    check_approver(study, site, approve)
    latest = study.sites[site].latest
    if latest >= 0 and not study.draft_of(site, latest + 1).exists():
        messages().print(f"{study.place(site) / name_of(site, latest)}: already released, and there is no newer draft.")
        print_turn(study, site)
        return
    draft = newest_draft(study, site)
    if (manifest := manifest_of(draft)) is None or not manifest.released:
        release_file(
            draft,
            approve=approve,
            reason=study.protocol.reason,
            key=key,
            data=data_of(study, site, None),
            rules=rules_of_drafts(study, site),
            ledger=private_folder(study, site) / LEDGER,
            reading=reading_of(study),
        )
    target = study.place(site) / draft.name
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, draft.read_bytes())
    messages().print(f"{target}: released. If the other sites cannot see this folder, send it to them.")
    print_turn(study, site)


# Helpers of these commands


def check_approver(study: Study, site: str, approver: str) -> None:
    """Refuse everybody but the person named in the protocol."""
    expected = study.protocol.sites[site]
    if expected and approver.strip() != expected:
        raise NotDisclosed(f"According to the protocol, {expected} approves what leaves {site}, not {approver}.")


def site_model(study: Study, files: Sequence[Path]) -> tuple[Model, Any, Persons]:
    """The model as made from this site's data alone, the data, and the persons they are about."""
    kind, settings = kind_of(study.protocol), dict(study.protocol.settings)
    data = fit_input(kind, files)
    if kind.many_files:
        settings["least_documents"] = 1  # rare words are counted as well
    settings |= without_person(kind, data, settings, study.protocol.person)
    try:
        model, observations = kind.from_file(
            table_file(data) if isinstance(data, Path) else data, report=messages().print, **settings
        )
    except ValueError as error:
        raise WrongArgument(str(error)) from None
    sources = {name: settings[name] for name in kind.reading_options & settings.keys() if kind.many_files}
    return model, observations, persons_of(model, files, study.protocol.person, rules=study.protocol.rules, **sources)


def frame_of(model: Model, files: Sequence[Path]) -> Any:
    """The table behind the data, including rows that a fit leaves out; None for texts and arrays."""
    columns = getattr(model, "columns", None)
    if not isinstance(columns, Mapping) or len(files) != 1:
        return None
    from decbayes.inputs.mixed_tables import read_frame

    return read_frame(table_file(files[0]), list(columns))


def differences(study: Study, site: str, text: str) -> list[str]:
    """How this site's columns differ from those that other sites have listed."""
    lists = {name: path for name, path in study.lists().items() if name != site}
    if not isinstance(study.agreed_list, ColumnList) or not lists or not text:
        return []
    site_file = private_folder(study, site) / f"{site}{study.agreed_list.suffix}"
    write_whole(site_file, text.encode())
    return study.agreed_list.differences({site: site_file, **lists})


def site_list(
    study: Study, model: Model, observations: Any, files: Sequence[Path], rules: Rules | None, persons: Persons
) -> str:
    """The list of columns or words that this site may share; empty if sites need not agree on one."""
    if study.agreed_list is None:
        return ""
    columns = getattr(model, "columns", None)
    if isinstance(columns, Mapping):
        rows, _ = list_columns(model, observations, rules, persons, stated=study.protocol.settings.keys())
        return columns_file(rows)
    from decbayes.cli.commands.everyday.words import words_of

    settings = {name: value for name, value in study.protocol.settings.items() if name in CHOOSING}
    return words_of(files, reading_of(study), rules, study.protocol.person, **settings).text()


def hand_over_list(study: Study, site: str, text: str) -> None:
    """Write a site's list for the others, unless fits already use an earlier one."""
    if study.agreed_list is None:
        return
    target = study.list_of(site)
    before = target.read_text(encoding="utf-8") if target.exists() else None
    if before is not None and before != text and any(files.latest >= 0 for files in study.sites.values()):
        messages().print(
            f"{target} stays as it is, because sites have fitted with it. These data would list something else; if "
            "that matters, all sites have to fit again."
        )
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, text.encode())
    messages().print(f"{target}: the {study.agreed_list.kind} of {site}, for the other sites. It quotes no rows.")


def fit_settings(study: Study) -> dict[str, Any]:
    """The options of the fit: those of the protocol, and the agreed list."""
    kind, settings = kind_of(study.protocol), dict(study.protocol.settings)
    for name, parameter in reading_parameters(kind).items():
        if "Path" in str(parameter.annotation) and isinstance(settings.get(name), str):
            settings[name] = study.folder / settings[name]
    if study.agreed_list is None:
        return settings
    if missing := study.unlisted():
        raise InvalidProtocol(
            f"Sites must agree on {study.agreed_list.kind} first, and those of {', '.join(missing)} are missing: "
            f"run `decbayes study check DATA` there, or remove a site that cannot take part from [sites] in {FILE}."
        )
    agreed = study.folder / f"agreed{study.agreed_list.suffix}"
    write_whole(agreed, study.agreed_list.joined(study.lists()).encode())
    left_out = CHOOSING if kind.many_files else {"columns", "kinds"}
    return {name: value for name, value in settings.items() if name not in left_out} | {
        study.agreed_list.option: agreed
    }


@contextmanager
def rules_of_protocol() -> Iterator[None]:
    """Let errors advise what a study can do: its protocol sets the rules, and the column that identifies persons."""
    try:
        yield
    except NotDisclosed as error:
        text = PERSON.sub(lambda found: f'person = "{found[1] or found[2]}" in {FILE}', str(error))
        raise NotDisclosed(text.replace(MADE_UP, "").strip()) from None


def rules_for(study: Study, stricter: str | None) -> Rules | None:
    """The rules of the protocol, tightened by the stricter ones of this site."""
    agreed, site_rules = study.protocol.rules, rules_given(stricter)
    if agreed is None:
        return site_rules
    if site_rules is None and stricter is not None:
        raise NotDisclosed("A site may only be stricter than the protocol: leave out --rules none.")
    return agreed if site_rules is None else agreed.tightened(site_rules)


def rules_text(study: Study, site: str, rules: Rules | None) -> str:
    """The rules as an option of a single command, saved for later commands on the draft."""
    file = private_folder(study, site) / RULES
    if rules is None:
        file.unlink(missing_ok=True)
    else:
        lines = toml_table("rules", rules.plain()).split("\n", 1)[1]
        write_whole(file, f"# The rules that this site's drafts obey.\n{lines}".encode())
    return rules_of_drafts(study, site)


def rules_of_drafts(study: Study, site: str) -> str:
    file = private_folder(study, site) / RULES
    return str(file) if study.protocol.rules is not None or file.exists() else "none"


def newest_draft(study: Study, site: str) -> Path:
    draft = study.draft_of(site, study.sites[site].latest + 1)
    if not draft.exists():
        steps = [step for step in due(study) if step.who == site]
        advice = f" Next: {steps[0].commands[0]}" if steps else ""
        raise InvalidProtocol(f"There is no draft of {site} to release.{advice}")
    return draft


def print_statements(statements: Sequence[Statement], as_json: bool) -> None:
    if as_json:
        print_json(*({name: getattr(statement, name) for name in STATEMENT} for statement in statements))
        return
    width = max((len(statement.topic) for statement in statements), default=0)
    for statement in statements:
        output().print(plain(f"{MARKS[statement.severity]} {statement.topic:<{width}}  {statement.text}"))


def print_release(study: Study, site: str, draft: Path) -> None:
    approver = study.protocol.sites[site]
    who = f"{approver} looks" if approver else "the approver looks"
    messages().print(
        f"{draft} is a draft that has not left. Next, {who} at it (decbayes study preview) and releases it: "
        f"decbayes study release --approve '{approver or 'NAME'}'"
    )
