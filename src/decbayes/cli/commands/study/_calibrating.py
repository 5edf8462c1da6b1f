"""`decbayes study calibrate`: share one site's sums for calibrated intervals of the merge."""

from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from decbayes.base.writing import write_whole
from decbayes.cli.commands.checking.calibrate import write_part
from decbayes.cli.commands.study._at_site import check_approver, rules_of_drafts
from decbayes.cli.commands.study._together import calibratable, merge_into, why_robust
from decbayes.cli.commands.study._where import ANY_SITE, AtSite, Data, data_of, print_problems, private_folder, remember
from decbayes.cli.shared.running import with_example
from decbayes.cli.shared.sharing import LEDGER, rules_in_force
from decbayes.cli.shared.terminal import messages
from decbayes.disclosure import Entry, Ledger
from decbayes.disclosure.ledger import today
from decbayes.errors import NotCalibrated
from decbayes.files import load


@with_example("decbayes study calibrate --approve 'Dr Kim'")
def calibrate(
    data: Data = None,
    /,
    *,
    approve: Annotated[str, Parameter(help="Your name: you approve that sums over this site's rows leave.")],
    where: AtSite = ANY_SITE,
) -> None:
    """Share this site's sums for calibrated intervals of the merge, once all rounds are complete.

    The file has sums over all rows, like those of `decbayes calibrate`; those of robust errors, if persons have several
    rows or counts vary more than the model allows. Once all sites have shared theirs, `decbayes study merge` and
    `report` give calibrated intervals.
    """
    study, site = where.locate()
    check_approver(study, site, approve)
    print_problems(study)
    counted, target = merge_into(study, ()), study.information_of(site)
    merged = replace(load(study.merged), calibration=None)
    if not calibratable(merged, counted):
        raise NotCalibrated(f"The intervals are {merged.uncertainty}: there is nothing to calibrate.")
    files, rules = data_of(study, site, data), rules_in_force(rules_of_drafts(study, site))
    draft = private_folder(study, site) / target.name
    part = write_part(merged, files, "", draft, rules, study.protocol.person, robust=bool(why_robust(counted)))
    remember(study, site, files)
    model, reason = study.protocol.model, study.protocol.reason
    Ledger(draft.parent / LEDGER).append(
        Entry(today(), target.name, merged.digest, site, model, part["observations"], approve, reason)
    )
    write_whole(target, draft.read_bytes())
    messages().print(
        f"{target}: shared. Once all sites have done so, `decbayes study report` gives calibrated intervals."
    )
