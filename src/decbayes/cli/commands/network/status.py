"""`decbayes status`: the state of an agent and its group, for people and for monitoring."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from decbayes.base.extras import require_extra
from decbayes.cli.commands.network._link import LOOK, ON_THIS_MACHINE, WELL, Link, load_charter, print_notes
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import output, plain

if TYPE_CHECKING:
    from decbayes.network import Charter


# The number of newest decisions to print.
SHOWN = 8


def status(
    charter: Annotated[Path, Parameter(help="The group's charter.")],
    agent: Annotated[str, Parameter(help="HOST:PORT of a running agent.")],
    /,
    *,
    as_json: Annotated[
        bool,
        json_option(
            "agent",
            "agent, software, charter, decisions, accounts, neighbours, members, refused, problems and all else it "
            "reports",
        ),
    ] = False,
    link: Link = ON_THIS_MACHINE,
) -> int:
    """Print neighbours and members, what stands out about them, and problems. The exit status is 3 if there are any."""
    require_extra("net", task="decbayes status")
    from decbayes.network.runtime.reports.description import problems

    agreed = load_charter(charter)
    with link.inquiry(agreed, agent) as inquiry:
        answer = inquiry.status()
    wrong = problems(answer, agreed.short_fingerprint)
    if as_json:
        print_json({**answer, "problems": wrong})
    else:
        print_status(answer, wrong, agreed)
    return LOOK if wrong else WELL


def print_status(answer: dict[str, Any], wrong: list[str], charter: "Charter") -> None:
    print(f"agent      {plain(str(answer.get('agent')))}, decbayes {plain(str(answer.get('software')))}")
    print(f"charter    {plain(str(answer.get('charter')))}")
    output().print(neighbour_table(answer.get("neighbours", [])))
    output().print(member_table(answer.get("members", {})))
    print_groups(answer.get("groups", {}))
    print_decisions(answer.get("decisions", {}))
    print_sums(answer.get("sums", {}))
    print_accounts(answer.get("accounts", {}))
    print_notes(answer, charter, width=11)
    refused = ", ".join(f"{count} {reason}" for reason, count in answer.get("refused", {}).items())
    print(f"refused    {plain(refused) or 'nothing'}")
    print(f"problems   {plain('; '.join(wrong)) or 'none'}")


def print_groups(groups: dict[str, Any]) -> None:
    """Print how much evidence the largest members have, and how much the merge depends on a group."""
    few, share = groups.get("largest", 0), groups.get("share", 0)
    if few:
        which = "one has" if few == 1 else f"{few} have"
        change = f"; without a third of them, the merge changes by up to {groups.get('change', 0):,.1f} deviations"
        among = f"of {groups.get('members')} members that count"
        print(f"groups     {among}, the largest {which} {share:.0%} of their evidence" + ("change" in groups) * change)


def print_decisions(decisions: dict[str, Any]) -> None:
    settled, pending = decisions.get("settled", []), decisions.get("pending", [])
    if len(settled) > SHOWN:
        print(f"decided    {len(settled) - SHOWN} earlier motions, which --json lists")
    for decision in settled[-SHOWN:]:
        overruled = decision.get("state") == "overruled"
        print_motion("overruled" if overruled else "decided", decision, "votes")
    for decision in pending:
        print_motion("pending", decision, f"{len(decision.get('votes', ()))} of {decision.get('needed')} votes")


def print_motion(label: str, decision: dict[str, Any], votes: str) -> None:
    voters = ", ".join(map(str, decision.get("votes", ())))
    print(
        f"{label:<10} {plain(str(decision.get('motion')))} {plain(str(decision.get('text')))}; {votes}: {plain(voters)}"
    )


def print_sums(about: dict[str, Any]) -> None:
    """Print the progress of a group's sums, if it opens nothing else."""
    from decbayes.network.runtime.reports.description import sum_lines

    for line in sum_lines(about) if about else ():
        print(f"sums       {plain(line)}")


def print_accounts(accounts: dict[str, Any]) -> None:
    if "in_sums" in accounts:
        count = accounts["in_sums"]
        print(f"counts     {f'{count:,} observations' if count else 'nothing that is known'} in the last open sum")
    elif accounts:
        count, prior, records = (f"{accounts.get(name, 0):,}" for name in ("observations", "in_prior", "in_records"))
        whose = f"{prior} in the prior, {records} in records"
        print(f"counts     {count} observations: {whose}; each data set of a member once")


def neighbour_table(neighbours: list[dict[str, Any]]) -> Table:
    from decbayes.network.runtime.reports.description import neighbour_name

    table = Table("neighbour", "address", "decbayes", "last heard", "state", box=None)
    for link in neighbours:
        states = {
            "silent": link.get("silent"),
            "another charter": link.get("charter") == "another",
            "another version": link.get("differs"),
            "behind": link.get("behind"),
        }
        state = next((text for text, holds in states.items() if holds), "the same")
        silence = f"{link.get('seconds_ago', '–')} s"
        cells = (neighbour_name(link), link.get("address"), link.get("software", ""), silence)
        table.add_row(*(plain(str(cell)) for cell in cells), state)
    return table


def member_table(members: dict[str, dict[str, Any]]) -> Table:
    begun = any(member.get("in_prior") for member in members.values())
    share = "share since epoch" if begun else "share"  # what is in the prior belongs to nobody's share
    table = Table("member", "state", "observations", "shards", share, "× median", "log BF", "flags", box=None)
    table.columns[2].min_width = len("observations")  # in a window of 80 columns it would be cut
    for name, member in members.items():
        counts = [member[key] for key in ("in_prior", "observations") if member.get(key)]
        numbers = [
            " + ".join(f"{count:,}" for count in counts) or "–",
            f"{member['shards']:,}" if "shards" in member else "–",
        ]
        share = f"{member['share']:.1%}" if "share" in member else "–"
        times = f"{member['times_median']:.1f}" if "times_median" in member else "–"
        factor = f"{member['log_bayes_factor']:+,.1f}" if "log_bayes_factor" in member else "–"
        flags = "; ".join(map(str, member.get("flags", ())))
        table.add_row(
            *(plain(str(cell)) for cell in (name, member.get("state"), *numbers, share, times, factor, flags))
        )
    return table
