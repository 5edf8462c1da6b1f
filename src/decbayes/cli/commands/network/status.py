"""`decbayes status`: how an agent and its group are, for people and for monitoring."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from decbayes.cli.shared.common_options import Authority, Certificate, CertificateKey, Plain, tls_of
from decbayes.cli.shared.terminal import output
from decbayes.cli.shared.terminal import plain as shown
from decbayes.extras import require_extra

if TYPE_CHECKING:
    from decbayes.network import Charter

# Exit statuses for monitoring: all is well; the agent answers, and something needs a look.
WELL, LOOK = 0, 3


def status(
    charter: Annotated[Path, Parameter(help="The group's charter.")],
    agent: Annotated[str, Parameter(help="HOST:PORT of a running agent.")],
    /,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="One JSON object, for programs.")] = False,
    tls_authority: Authority = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    plain: Plain = False,
) -> int:
    """Neighbours and members by name, what stands out about them, and what is wrong. Ends with 3 if anything is."""
    require_extra("net", task="decbayes status")
    from decbayes.network import Charter
    from decbayes.network.runtime.links import Links
    from decbayes.network.runtime.links.ask import Inquiry
    from decbayes.network.runtime.reports.description import problems

    agreed = Charter.load(charter)
    tls = tls_of(tls_authority, tls_certificate, tls_key)
    with Inquiry(agreed, Links(listen=(), connect=(agent,), tls=tls, plain=plain)) as inquiry:
        told = inquiry.status()
    wrong = problems(told, agreed.short_fingerprint)
    if as_json:
        print(json.dumps({**told, "problems": wrong}, indent=2))
    else:
        print_status(told, wrong, agreed)
    return LOOK if wrong else WELL


def print_status(told: dict[str, Any], wrong: list[str], charter: "Charter") -> None:
    from rich.table import Table

    from decbayes.cli.commands.network.posterior import print_belief
    from decbayes.network.runtime.reports.description import neighbour_name

    print(f"agent      {shown(str(told.get('agent')))}, decbayes {shown(str(told.get('software')))}")
    print(f"charter    {shown(str(told.get('charter')))}")
    neighbours = Table("neighbour", "address", "decbayes", "last heard", "state", box=None)
    for each in told.get("neighbours", []):
        state = "silent" if each.get("silent") else "another charter" if each.get("charter") == "another" else ""
        behind = "behind" if each.get("behind") else "the same"
        cells = (
            neighbour_name(each),
            each.get("address"),
            each.get("software", ""),
            f"{each.get('seconds_ago', '–')} s",
        )
        neighbours.add_row(*(shown(str(cell)) for cell in cells), state or behind)
    members = Table("member", "state", "observations", "shards", "share", "log BF", "flags", box=None)
    for who, each in told.get("members", {}).items():
        numbers = [f"{each[key]:,}" if key in each else "–" for key in ("observations", "shards")]
        share = f"{each['share']:.1%}" if "share" in each else "–"
        factor = f"{each['log_bayes_factor']:+,.1f}" if "log_bayes_factor" in each else "–"
        flags = "; ".join(map(str, each.get("flags", ())))
        members.add_row(*(shown(str(cell)) for cell in (who, each.get("state"), *numbers, share, factor, flags)))
    for table in (neighbours, members):
        output().print(table)
    print_belief(told, charter, width=11)
    refused = ", ".join(f"{count} {reason}" for reason, count in told.get("refused", {}).items())
    print(f"refused    {shown(refused) or 'nothing'}")
    print(f"problems   {shown('; '.join(wrong)) or 'none'}")
