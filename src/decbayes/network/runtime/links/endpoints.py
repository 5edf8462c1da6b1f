"""Endpoints at which an agent listens and connects, checked before a socket is opened."""

import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from decbayes.base.arguments import is_loopback
from decbayes.errors import TransportFailed
from decbayes.network.runtime.links.certificates import check_credentials

Discovery = Literal["none", "gossip", "multicast"]

# Silence after which a neighbour is considered gone; keep-alives come four times as often.
LEASE_MILLISECONDS = 2000
# How long a body may wait for room in the queue of a slow link; each neighbour's queue has its own thread.
PATIENCE_MICROSECONDS = 10_000_000
# All kinds of zenoh messages that can be denied.
EVERYTHING = [
    "put",
    "delete",
    "declare_subscriber",
    "query",
    "reply",
    "declare_queryable",
    "liveliness_token",
    "declare_liveliness_subscriber",
    "liveliness_query",
]
ENDPOINT = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(?P<port>\d{1,5})")


@dataclass(frozen=True)
class Tls:
    """Certificates for mutual TLS: both ends of a link must show one that the authority has signed."""

    authority: Path
    certificate: Path
    key: Path
    until: datetime = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "until", check_credentials(self.authority, self.certificate, self.key))


@dataclass(frozen=True)
class Links:
    """Endpoints as HOST:PORT; port 0 is any free one. Nothing listens beyond loopback unless listed here.

    With `discovery` "gossip" agents learn of their neighbours' neighbours and connect to them directly; "multicast"
    also finds agents on the local network. Plain TCP beyond loopback must be allowed by `plain`: its traffic is neither
    private nor authenticated.
    """

    listen: tuple[str, ...] = ("127.0.0.1:0",)
    connect: tuple[str, ...] = ()
    discovery: Discovery = "none"
    tls: Tls | None = None
    plain: bool = False
    revoked: frozenset[str] = frozenset()
    """Names of revoked certificates, whose holders can neither send nor receive anything."""

    def __post_init__(self) -> None:
        hosts = [parse(endpoint)[0] for endpoint in (*self.listen, *self.connect)]
        exposed = [host for host in hosts if not is_loopback(host)]
        if exposed and self.tls is None and not self.plain:
            raise TransportFailed(
                f"{exposed[0]} is beyond this machine, and the link would be neither private nor authenticated. "
                "Give certificates (--tls-authority, --tls-certificate, --tls-key; `decbayes certificate` makes them), "
                "or allow it with --plain."
            )

    @property
    def protocol(self) -> str:
        return "tls" if self.tls is not None else "tcp"


def parse(endpoint: str) -> tuple[str, int]:
    """The host and port of an endpoint."""
    match = ENDPOINT.fullmatch(endpoint)
    if match is None or int(match["port"]) > 65535:
        raise TransportFailed(f"'{endpoint}' is not an endpoint; write HOST:PORT, as in 127.0.0.1:7447 or [::1]:7447.")
    return match["host"].strip("[]"), int(match["port"])


def with_port(endpoint: str) -> str:
    """The endpoint with a free port in place of 0, because zenoh does not report which port it has taken."""
    host, port = parse(endpoint)
    if port:
        return endpoint
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            port = probe.getsockname()[1]
    except OSError as error:
        raise TransportFailed(f"This machine cannot listen at {host}: {error.strerror or error}.") from None
    return f"{endpoint.rpartition(':')[0]}:{port}"


def settings(links: Links, listen: Sequence[str], *, most_bytes: int, insist: bool = True) -> dict[str, Any]:
    """The configuration of zenoh: everything that matters is set here, not left to defaults.

    With `insist` failed connections are retried for ever; otherwise there is one attempt when the session opens.
    """
    return {
        "mode": "peer",
        "listen/endpoints": [f"{links.protocol}/{endpoint}" for endpoint in listen],
        "connect/endpoints": [f"{links.protocol}/{endpoint}" for endpoint in links.connect],
        "connect/timeout_ms": -1 if insist else 0,
        "connect/exit_on_failure": False,
        "connect/retry": {"period_init_ms": 250, "period_max_ms": 2000, "period_increase_factor": 2},
        "scouting/multicast/enabled": links.discovery == "multicast",
        "scouting/gossip/enabled": links.discovery != "none",
        "adminspace/enabled": False,
        "plugins_loading/enabled": False,
        "transport/shared_memory/enabled": False,
        "transport/link/protocols": [links.protocol],
        "transport/link/rx/max_message_size": most_bytes,
        "transport/link/tx/lease": LEASE_MILLISECONDS,
        "transport/link/tx/queue/congestion_control/drop/max_wait_before_drop_fragments": PATIENCE_MICROSECONDS,
        **tls_settings(links.tls),
        **access_settings(links.revoked),
    }


def access_settings(revoked: Iterable[str]) -> dict[str, Any]:
    """Holders of these certificates can connect, but can neither send nor receive anything."""
    names = sorted(revoked)
    if not names:
        return {}
    rule = {"id": "revoked", "permission": "deny", "flows": ["ingress", "egress"], "key_exprs": ["**"]}
    return {
        "access_control": {
            "enabled": True,
            "default_permission": "allow",
            "rules": [{**rule, "messages": EVERYTHING}],
            "subjects": [{"id": "revoked", "cert_common_names": names}],
            "policies": [{"rules": ["revoked"], "subjects": ["revoked"]}],
        }
    }


def tls_settings(tls: Tls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    files = {"certificate": str(tls.certificate), "private_key": str(tls.key)}
    sides = {f"{side}_{name}": value for side in ("listen", "connect") for name, value in files.items()}
    mutual = {"root_ca_certificate": str(tls.authority), "enable_mtls": True, "verify_name_on_connect": True}
    return {"transport/link/tls": {**mutual, **sides}}
