"""`decbayes agent`: one member of a group, running until it is told to stop."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from decbayes.cli.linking import Authority, Certificate, CertificateKey, Plain, tls_of
from decbayes.cli.terminal import available, messages
from decbayes.devices import DeviceName, use_device
from decbayes.errors import InvalidCharter, TransportFailed
from decbayes.extras import require_extra

if TYPE_CHECKING:
    from decbayes.network import Charter, Identity, SqliteStore
    from decbayes.network.runtime.links import Links


def agent(
    charter: Annotated[Path, Parameter(help="The group's charter, the same for all members.")],
    /,
    *,
    key: Annotated[Path, Parameter(help="This agent's private key; see `decbayes keygen`.")],
    store: Annotated[Path, Parameter(help="File in which it keeps its state; created on first use.")],
    data: Annotated[tuple[Path, ...], Parameter(help="Its own data, one file per shard, as in `decbayes fit`.")] = (),
    listen: Annotated[tuple[str, ...], Parameter(help="HOST:PORT to listen at.", negative="")] = ("127.0.0.1:0",),
    connect: Annotated[tuple[str, ...], Parameter(help="HOST:PORT of neighbours.", negative="")] = (),
    discovery: Annotated[
        Literal["none", "gossip", "multicast"], Parameter(help="Whether to link with other agents that it finds.")
    ] = "none",
    tls_authority: Authority = None,
    tls_certificate: Certificate = None,
    tls_key: CertificateKey = None,
    plain: Plain = False,
    refine: Annotated[
        NonNegativeInt,
        Parameter(help="How many times to refit, with the other sites' contributions as the prior."),
    ] = 0,
    seed: Annotated[NonNegativeInt, Parameter(help="Random seed of the fits.")] = 0,
    device: Annotated[DeviceName, Parameter(help="Where to fit topics: cpu, cuda, or auto.")] = "cpu",
    stop_with_stdin: Annotated[bool, Parameter(help="Stop when standard input ends.", negative="")] = False,
) -> None:
    """Join a group: fit this site's data, publish the contribution, relay and merge those of all members."""
    require_extra("net", task="decbayes agent")
    from decbayes.network import Charter, Identity, SqliteStore
    from decbayes.network.runtime.links import Links

    check_streams(stop_with_stdin)
    use_device(available(device))
    agreed, identity = Charter.load(charter), Identity.load(key)
    check_member(identity, agreed, key)
    links = Links(listen, connect, discovery, tls_of(tls_authority, tls_certificate, tls_key), plain)
    shards = [agreed.model.read(path, report=messages().print) for path in data]
    with SqliteStore(store, agreed) as opened:
        stop = stopping(stop_with_stdin)
        serve(agreed, identity, opened, links, shards, stop, refinements=refine, rng=np.random.default_rng(seed))


def serve(
    charter: "Charter",
    identity: "Identity",
    store: "SqliteStore",
    links: "Links",
    shards: Sequence[Any],
    stop: Event,
    *,
    refinements: int,
    rng: np.random.Generator,
) -> None:
    from decbayes.network import Agent
    from decbayes.network.runtime.log import Log
    from decbayes.network.runtime.service import Service

    # Versions leap by random steps that must differ from start to start: never from a seed.
    member = Agent(charter, identity, rng=np.random.default_rng(), saved=store.load())
    log = Log.on_stdout(charter.names)
    if store.damaged:
        log("store_damaged", records=store.damaged, text="They are ignored; neighbours send them again.")
    service = Service(member, store, links, log, rng=rng, refinements=refinements)
    try:
        for shard in shards:
            service.observe(shard)
        service.run(stop)
    finally:
        service.close()


def check_streams(with_stdin: bool) -> None:
    """The log takes standard output over; were it closed, its number could by now be that of another file."""
    if sys.stdout is None:
        raise TransportFailed("Standard output is closed, and the log goes there. Direct it to a file or /dev/null.")
    if with_stdin and sys.stdin is None:
        raise TransportFailed("Standard input is closed, so --stop-with-stdin has nothing to wait for.")


def check_member(identity: "Identity", charter: "Charter", key: Path) -> None:
    if identity.id not in charter.keys:
        raise InvalidCharter(
            f"{key} is not the key of a member of '{charter.group}'. Add its public key, {identity.public.hex()}, "
            "with `decbayes charter add`, and give the new charter to all members."
        )


def stopping(with_stdin: bool) -> Event:
    """An event that SIGTERM, Ctrl-C or, if asked for, the end of standard input sets."""
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if with_stdin:
        Thread(target=wait_for_end, args=(stop,), daemon=True).start()
    return stop


def wait_for_end(stop: Event) -> None:
    while os.read(0, 4096):
        pass
    stop.set()
