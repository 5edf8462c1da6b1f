"""`decbayes study next`: do everything that is this site's turn."""

import sys
from itertools import count
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.prompt import Confirm

from decbayes.cli.commands.study._at_site import Stricter, check, fit, newest_draft, release, round, show_draft
from decbayes.cli.commands.study._together import report
from decbayes.cli.commands.study._where import ANY_SITE, AtSite, Data, Where, print_turn
from decbayes.cli.shared.running import with_example
from decbayes.cli.shared.terminal import messages
from decbayes.study.folder import Study


@with_example(
    "decbayes study next patients.csv --site north --approve 'Dr Kim'", "decbayes study next --approve 'Dr Kim'"
)
def take_turn(
    data: Data = None,
    /,
    *,
    where: AtSite = ANY_SITE,
    approve: Annotated[
        str, Parameter(help="The name of the approver: drafts are previewed and released. Without it, they stay here.")
    ] = "",
    key: Annotated[Path | None, Parameter(help="The approver's key, from `decbayes keygen`, to sign with.")] = None,
    rules: Stricter = None,
) -> int:
    """Do everything that is this site's turn: check, fit, take part in rounds, and merge if this site merges.

    It stops when others have to act, or when a draft waits for approval. With --approve it shows what a file reveals
    and releases it, unless it breaks a rule; on a terminal it asks first.
    """
    study, site = where.locate()
    at = AtSite(study=study.folder, site=site)
    named = data
    for step in count():
        due = next_command(Study(study.folder), site)
        if due == "check":
            if status := check(named, where=at, rules=rules):
                return status
        elif due in ("fit", "round"):
            if due == "fit":
                fit(named, where=at, rules=rules)
            else:
                round(named, where=at)
            if not approve:
                return 0
            status_or_none = show_and_release(at, approve, key)
            if status_or_none is not None:
                return status_or_none
        elif due == "report":
            report(where=Where(study=study.folder))
            return 0
        else:
            if not step:  # otherwise the last step has said so
                print_turn(study, site)
            break
    return 0


def next_command(study: Study, site: str) -> str:
    """The next command of this site; empty if it is not its turn."""
    files, protocol = study.sites[site], study.protocol
    if study.agreed_list is not None and files.listed is None and files.latest < 0:
        return "check"
    if files.latest < 0:
        return "" if study.unlisted() else "fit"
    if study.round < 0:
        return ""
    if files.latest < protocol.rounds:
        return "round" if study.exchange.turn(site).due else ""
    merges = protocol.merges == site and study.round >= protocol.rounds and not study.reported
    return "report" if merges else ""


def show_and_release(at: AtSite, approve: str, key: Path | None) -> int | None:
    """Show the newest draft and release it if it breaks no rule; returns the exit status to stop with, or None."""
    study, site = at.locate()
    if (status := show_draft(study, site)) and study.protocol.rules is not None:
        messages().print(f"{newest_draft(study, site)} was not released.")
        return status
    if sys.stdin.isatty() and not Confirm.ask("Release this file?", console=messages(), default=False):
        messages().print("It stays a draft. `decbayes study release --approve NAME` releases it.")
        return 0
    release(approve=approve, where=at, key=key)
    return None
