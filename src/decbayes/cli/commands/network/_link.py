"""Commands that ask a running agent: options of the link, and how they print notes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from decbayes.cli.shared.terminal import messages
from decbayes.cli.shared.terminal import plain as printable
from decbayes.errors import TransportFailed

if TYPE_CHECKING:
    from decbayes.network import Charter
    from decbayes.network.runtime.links import Tls
    from decbayes.network.runtime.links.ask import Inquiry


@Parameter(name="*")
@dataclass(frozen=True)
class Link:
    """How to secure links between agents."""

    tls_authority: Annotated[
        Path | None, Parameter(help="The authority's certificate (PEM), which signed those of all agents.")
    ] = None
    tls_certificate: Annotated[Path | None, Parameter(help="This agent's certificate (PEM).")] = None
    tls_key: Annotated[Path | None, Parameter(help="The certificate's private key (PEM).")] = None
    plain: Annotated[bool, Parameter(help="Allow links without TLS beyond this machine.")] = False

    @property
    def tls(self) -> "Tls | None":
        """The three TLS files; None if none is given."""
        files = (self.tls_authority, self.tls_certificate, self.tls_key)
        if files == (None, None, None):
            return None
        if self.tls_authority is None or self.tls_certificate is None or self.tls_key is None:
            raise TransportFailed(
                "TLS needs all of --tls-authority, --tls-certificate and --tls-key; `decbayes certificate` makes them."
            )
        from decbayes.network.runtime.links import Tls

        return Tls(self.tls_authority, self.tls_certificate, self.tls_key)

    def inquiry(self, charter: "Charter", agent: str) -> "Inquiry":
        """A session for asking the agent at HOST:PORT."""
        from decbayes.network.runtime.links import Links
        from decbayes.network.runtime.links.ask import Inquiry

        return Inquiry(charter, Links(listen=(), connect=(agent,), tls=self.tls, plain=self.plain))


ON_THIS_MACHINE = Link()
# Exit statuses for monitoring: all is well; or the command worked, but something needs a look.
WELL, LOOK = 0, 3


def load_charter(file: Path) -> "Charter":
    """Load a charter; warns if others on this machine can read the group's secret in it."""
    from decbayes.network import Charter

    charter = Charter.load(file)
    if os.name == "posix" and file.stat().st_mode & 0o004:
        messages().print(f"{file} contains the group's secret, but everybody on this machine can read it: chmod 600.")
    return charter


def print_notes(answer: dict[str, Any], charter: "Charter", *, width: int) -> None:
    """Print whether intervals are calibrated, and what members report; nothing if the charter asks for no notes."""
    if "intervals" in answer:
        print(f"{'intervals':<{width}}{printable(answer['intervals'])}")
    stale = [name for name in charter.members if name in answer.get("stale_notes", ())]
    if stale:
        print(f"{'to look yet':<{width}}{', '.join(stale)}")
    for name in charter.members:
        if shares := answer.get("overlaps", {}).get(name):
            texts = " ".join(f"{share:.2f}" for share in shares)
            print(f"{'overlaps':<{width}}{name} {texts} (self-reported)")
    if scores := answer.get("scores"):
        texts = ", ".join(f"{printable(str(name))} {score:.4f}" for name, score in scores.items())
        unit, count = printable(answer.get("per", "observation")), answer.get("held_back", 0)
        print(f"{'scores':<{width}}{texts} per {unit}, {count:,} held back")
    if len(gain := answer.get("gain", ())) == 2:
        print(f"{'':<{width}}merged is {gain[0]:+.4f} ± {gain[1]:.4f} ahead of own")
