"""`decbayes preview`: show what a file reveals about persons, for its owner."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.commands.sharing._previewing import LedgerOption, preview_file, rules_to_judge_by
from decbayes.cli.shared.common_options import AS_THEY_ARE, Reading
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.sharing import RulesOption, ledger_beside, manifest_of
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, output, plain, plain_lines
from decbayes.reporting.previews import preview_page

BROKEN = 3


def preview(
    file: Annotated[Path, Parameter(help="A posterior file that is about to leave this site.")],
    /,
    *,
    data: Annotated[
        list[Path] | None,
        Parameter(
            help="The data behind it, as for `decbayes fit`. Without them only the file itself is checked.",
            consume_multiple=True,
        ),
    ] = None,
    page: Annotated[Path | None, output_option("Also write the page as an HTML file.")] = None,
    others: Annotated[
        list[Path] | None,
        Parameter(help="Files of other sites: also show what a merge with them reveals.", consume_multiple=True),
    ] = None,
    rules: RulesOption = None,
    ledger: LedgerOption = None,
    as_json: Annotated[bool, json_option("statement", "topic", "text", "severity")] = False,
    reading: Reading = AS_THEY_ARE,
) -> int:
    """Show what a file reveals about persons. The exit status is 3 if it breaks a rule."""
    status = show(file, data, page, others, rules, ledger, as_json=as_json, reading=reading)
    manifest = manifest_of(file)
    if not status and data and not (manifest is not None and manifest.released):
        messages().print(f"To release it: decbayes release {file} --approve NAME --reason WHY --data DATA")
    return status


def show(
    file: Path,
    data: list[Path] | None,
    page: Path | None,
    others: list[Path] | None,
    rules: str | None,
    ledger: Path | None,
    *,
    as_json: bool,
    reading: Reading,
) -> int:
    """Print what a file reveals about persons, and write it as a page."""
    check_output(page, file, *(data or []), *(others or []))
    in_force = rules_to_judge_by(rules, file, manifest_of(file))
    records = ledger_beside(data or [], ledger, file)
    shown, _ = preview_file(file, data or [], in_force, records, reading, others or [])
    if page is not None:
        write_text(page, preview_page(shown))
        messages().print(f"{page}: for you only; do not share it")
    if as_json:
        print_json(*({"topic": s.topic, "text": s.text, "severity": s.severity} for s in shown.statements))
    else:
        output().print(plain_lines(str(shown)))
        for line in shown.private:
            output().print(f"  for you only: {plain(line)}")
    return 0 if shown.may_leave else BROKEN
