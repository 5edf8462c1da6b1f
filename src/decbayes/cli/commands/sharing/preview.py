"""`decbayes preview`: what a file reveals, and about whom, for its owner."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.commands.sharing._looking import LedgerOption, judged_by, previewed
from decbayes.cli.shared.common_options import Reading
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.sharing import RulesOption, ledger_beside, manifest_of
from decbayes.cli.shared.standard_streams import json_option, print_json, write_text
from decbayes.cli.shared.terminal import messages, output, plain
from decbayes.reporting.previews import preview_page

AS_THEY_ARE = Reading()
BROKEN = 3


def preview(
    file: Annotated[Path, Parameter(help="A posterior that is to leave this site.")],
    /,
    *,
    data: Annotated[
        list[Path] | None,
        Parameter(
            help="The data behind it, as `decbayes fit` reads them. Without them only the file itself is checked.",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    page: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="Also write the page as an HTML file.", show_default=False)
    ] = None,
    others: Annotated[
        list[Path] | None,
        Parameter(help="Files of other sites: see what a merge with them shows.", consume_multiple=True, negative=""),
    ] = None,
    rules: RulesOption = None,
    ledger: LedgerOption = None,
    as_json: Annotated[bool, json_option("statement", "topic", "text", "severity")] = False,
    reading: Reading = AS_THEY_ARE,
) -> int:
    """Show what a file reveals, and about whom. The exit status is 3 if it breaks a rule."""
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
    """Print what a file reveals, and about whom, and write it as a page."""
    check_output(page, file, *(data or []), *(others or []))
    in_force = judged_by(rules, file, manifest_of(file))
    records = ledger_beside(data or [], ledger, file)
    seen, _ = previewed(file, data or [], in_force, records, reading, others or [])
    if page is not None:
        write_text(page, preview_page(seen))
        messages().print(f"{page}: for your eyes, not for others")
    if as_json:
        print_json(*({"topic": s.topic, "text": s.text, "severity": s.severity} for s in seen.statements))
    else:
        output().print(plain_lines(str(seen)))
        for line in seen.private:
            output().print(f"  for you only: {plain(line)}")
    return 0 if seen.may_leave else BROKEN


def plain_lines(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))
