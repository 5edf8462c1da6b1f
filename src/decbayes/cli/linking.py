"""Options of all commands that open links."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from decbayes.errors import TransportFailed

if TYPE_CHECKING:
    from decbayes.network.runtime.links import Tls

Authority = Annotated[Path | None, Parameter(help="The authority's certificate (PEM); it signed those of all agents.")]
Certificate = Annotated[Path | None, Parameter(help="This agent's certificate (PEM).")]
CertificateKey = Annotated[Path | None, Parameter(help="The certificate's private key (PEM).")]
Plain = Annotated[bool, Parameter(help="Allow links without TLS beyond this machine.", negative="")]


def tls_of(authority: Path | None, certificate: Path | None, key: Path | None) -> "Tls | None":
    """All three files, or none."""
    if authority is None and certificate is None and key is None:
        return None
    if authority is None or certificate is None or key is None:
        raise TransportFailed(
            "TLS needs all of --tls-authority, --tls-certificate and --tls-key; `decbayes certificate` makes them."
        )
    from decbayes.network.runtime.links import Tls

    return Tls(authority, certificate, key)
