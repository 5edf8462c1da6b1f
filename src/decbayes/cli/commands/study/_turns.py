"""`decbayes study next`: everything that is this site's turn, by one command."""

import sys
from itertools import count
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.prompt import Confirm

from decbayes.cli.commands.study._at_site import Stricter, check, fit, newest_draft, release, round, shown
from decbayes.cli.commands.study._together import report
from decbayes.cli.commands.study._where import ANY_SITE, AtSite, Data, Where, tell_turn
from decbayes.cli.shared.terminal import messages
from decbayes.study.folder import Study


def take_turn(
    data: Data = None,
    /,
    *,
    where: AtSite = ANY_SITE,
    approve: Annotated[
        str,
        Parameter(
            help="The name of whoever approves: what is due is previewed and released. Without it, drafts stay here.",
            show_default=False,
        ),
    ] = "",
    key: Annotated[
        Path | None, Parameter(help="The approver's key, from `decbayes keygen`: it signs.", show_default=False)
    ] = None,
    rules: Stricter = None,
) -> int:
    """Do everything that is this site's turn: check, fit, take part in rounds, and merge if this site merges.

    It stops when others have to act, or if a draft waits for approval. With --approve it shows what a file reveals and
    releases it, if no rule is broken; on a terminal it asks first.

    For example:

    ```sh
    decbayes study next patients.csv --site north --approve 'Dr Kim'
    decbayes study next --approve 'Dr Kim'
    ```
    """
    study, site = where.here()
    at = AtSite(study=study.folder, site=site)
    named = data
    for step in count():
        due = next_of(Study(study.folder), site)
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
            ended = shown_and_released(at, approve, key)
            if ended is not None:
                return ended
        elif due == "report":
            report(where=Where(study=study.folder))
            return 0
        else:
            if not step:  # otherwise the last step has said so
                tell_turn(study, site)
            break
    return 0


def next_of(study: Study, site: str) -> str:
    """The command that is this site's turn; empty if it is not."""
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


def shown_and_released(at: AtSite, approve: str, key: Path | None) -> int | None:
    """Show the newest draft, and release it if no rule of the protocol is broken; else the status to stop with."""
    study, site = at.here()
    if (status := shown(study, site)) and study.protocol.rules is not None:
        messages().print(f"{newest_draft(study, site)} was not released.")
        return status
    if sys.stdin.isatty() and not Confirm.ask("Release this file?", console=messages(), default=False):
        messages().print("It stays a draft. `decbayes study release --approve NAME` releases it.")
        return 0
    release(approve=approve, where=at, key=key)
    return None
