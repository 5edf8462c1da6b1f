"""`decbayes posterior`: what a group knows, from one of its agents or from an agent's store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from cyclopts import Parameter

from decbayes.cli.shared.common_options import Authority, Certificate, CertificateKey, Plain, tls_of
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.terminal import plain as shown
from decbayes.errors import TransportFailed
from decbayes.extras import require_extra
from decbayes.files import save
from decbayes.posterior import Posterior

UNHEARD = "not heard of"

if TYPE_CHECKING:
    from decbayes.network import Charter


def posterior(
    charter: Annotated[Path, Parameter(help="The group's charter.")],
    /,
    *,
    agent: Annotated[str | None, Parameter(help="HOST:PORT of a running agent.")] = None,
    store: Annotated[Path | None, Parameter(help="The store of an agent, running or not.")] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"], help="Write the posterior to this file.")] = None,
    parts: Annotated[
        Path | None, Parameter(help="With --store: write each member's own posterior into this folder, for `merge`.")
    ] = None,
    tls_authority: Authority = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    plain: Plain = False,
) -> None:
    """Print and save the merged posterior of all contributions that an agent has received."""
    require_extra("net", task="decbayes posterior")
    from decbayes.network import Charter
    from decbayes.network.runtime.store import stored, stored_parts

    check_output(output, charter, store)
    agreed = Charter.load(charter)
    if (agent is None) == (store is None):
        raise TransportFailed("Give either --agent HOST:PORT (a running agent) or --store FILE.")
    if parts is not None and store is None:
        raise TransportFailed("A running agent sends the merge only. --parts needs --store FILE.")
    if store is not None:
        answer = stored(store, agreed)
    else:
        from decbayes.network.runtime.links import Links
        from decbayes.network.runtime.links.ask import Inquiry

        tls = tls_of(tls_authority, tls_certificate, tls_key)
        with Inquiry(agreed, Links(listen=(), connect=(str(agent),), tls=tls, plain=plain)) as inquiry:
            answer = inquiry.posterior()
    if output is not None:
        save(answer.posterior, output)
    if store is not None and parts is not None:
        save_parts(stored_parts(store, agreed), parts)
    print_answer(answer.description, agreed)


def print_member(name: str, told: dict[str, Any]) -> None:
    """What stands out about a member."""
    for flag in told.get("flags", ()):
        print(f"flag          {name} {shown(str(flag))}")


def save_parts(contributions: dict[str, Posterior], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, contribution in contributions.items():
        # A member may have any name; a file may not.
        save(contribution, folder / f"{quote(name, safe=' ')}.posterior")


def print_answer(description: dict[str, Any], charter: "Charter") -> None:
    # Names as the charter has them: an agent that is asked may say anything.
    counted = [name for name in charter.members if name in description["counted"]]
    states = {name: told.get("state") for name, told in description.get("members", {}).items()}
    missing = [name for name in charter.members if name not in counted and states.get(name, UNHEARD) == UNHEARD]
    others = [f"{name} ({states[name]})" for name in charter.members if name not in [*counted, *missing]]
    print(f"observations  {description['observations']:,}")
    print(f"counted       {', '.join(counted) or 'none'}")
    print(f"missing       {', '.join(missing) or 'none'}")
    if others:
        print(f"not counted   {shown(', '.join(others))}")
    for name in counted:
        print_member(name, description.get("members", {}).get(name, {}))
    for names in description.get("same_data", ()):
        print(f"same data     {shown(' and '.join(map(str, names)))} hold the same data set; it counts for each")
    print_belief(description, charter, width=14)
    print(f"set           {shown(description['set'])[:16]}")


def print_belief(told: dict[str, Any], charter: "Charter", *, width: int) -> None:
    """Whether intervals are calibrated, and what members say of themselves; nothing of charters that do not ask."""
    if "intervals" in told:
        print(f"{'intervals':<{width}}{shown(told['intervals'])}")
    stale = [name for name in charter.members if name in told.get("stale_notes", ())]
    if stale:
        print(f"{'to look yet':<{width}}{', '.join(stale)}")
    for name in charter.members:
        if shares := told.get("overlaps", {}).get(name):
            texts = " ".join(f"{share:.2f}" for share in shares)
            print(f"{'overlaps':<{width}}{name} {texts} (self-reported)")
    if scores := told.get("scores"):
        texts = ", ".join(f"{shown(str(name))} {score:.4f}" for name, score in scores.items())
        unit, count = shown(told.get("per", "observation")), told.get("held_back", 0)
        print(f"{'scores':<{width}}{texts} per {unit}, {count:,} held back")
    if len(gain := told.get("gain", ())) == 2:
        print(f"{'':<{width}}merged is {gain[0]:+.4f} ± {gain[1]:.4f} ahead of own")
