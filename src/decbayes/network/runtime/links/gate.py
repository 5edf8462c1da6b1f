"""The gate in front of zenoh, which only callers with a valid certificate pass.

zenoh's own listener admits nobody while a stranger keeps opening connections without sending anything. This program
listens in its place and forwards the traffic of admitted callers. It is a separate process that needs only Python, so
neither a busy agent nor a crowd of strangers delays the other.

1. A connection is *pending* until its certificate is accepted or, without certificates, until zenoh has answered it.
2. Pending connections are bounded in total and per address, and last a few seconds at most.
3. If there is no room, the new connection is kept, and the address with the most pending connections loses one: the
   oldest that has sent nothing, else the oldest.
4. Part of the room is reserved for addresses from which a certificate was accepted before.

The settings are the first line of standard input, as JSON; the gate closes when standard input ends. Events are written
to standard output, one JSON object per line.
"""

import asyncio
import json
import os
import signal
import socket
import ssl
import sys
from collections import Counter, OrderedDict
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

MOST_PENDING, MOST_PER_ADDRESS, KEPT_FOR_KNOWN = 256, 64, 64
MOST_KNOWN = 1_000
BUFFER_BYTES = 1 << 16
# The first byte of a TLS handshake, and the size of its longest first message: five bytes and the content.
HANDSHAKE, HELLO_BYTES = b"\x16", 5 + (1 << 14)
# The interval at which an incomplete first message is checked.
GLANCE_SECONDS = 0.02
TELL_SECONDS = 1.0
# The most addresses per report.
MOST_NAMED = 10
REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not accept this agent's certificate: another authority",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not accept this agent's certificate",
    "WRONG_VERSION_NUMBER": "it calls without certificates",
}


class NoRoom(Exception):
    """A caller has too many open connections, which has already been counted."""


@dataclass(eq=False)
class Caller:
    """One connection from outside; it counts against `place`, and its certificate's name is known later."""

    socket: socket.socket
    address: str
    port: int
    place: str
    task: "asyncio.Task[None] | None" = None
    silent: bool = True
    streaming: bool = False
    name: str = ""
    inner_port: int = 0

    def is_silent(self) -> bool:
        """Whether it has not sent a whole first message yet, which is much cheaper to check than a handshake."""
        if self.silent:
            with suppress(OSError):
                self.silent = not is_whole(self.socket.recv(HELLO_BYTES, socket.MSG_PEEK))
        return self.silent

    def hang_up(self) -> None:
        if self.task is not None:
            self.task.cancel()


@dataclass
class Gate:
    """Admits callers, with one task per caller."""

    settings: dict[str, Any]
    pending: dict[Caller, None] = field(default_factory=dict)
    open: "Counter[str]" = field(default_factory=Counter)
    known: "OrderedDict[str, None]" = field(default_factory=OrderedDict)
    crowded: "Counter[str]" = field(default_factory=Counter)
    refused: "Counter[tuple[str, str]]" = field(default_factory=Counter)
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)

    def __post_init__(self) -> None:
        files = self.settings["tls"]
        self.outside: ssl.SSLContext | None = None
        self.inside: ssl.SSLContext | None = None
        if files is not None:
            self.outside, self.inside = contexts(**files)
        self.revoked = frozenset(self.settings["revoked"])
        for address in self.settings["known"]:
            self.remember(place_of(address))

    async def serve(self) -> None:
        """Listen at all endpoints until standard input ends."""
        listening = [listener(host, port) for host, port in self.settings["listen"]]
        tell(event="ready")
        for one in (*map(self.accept, listening), self.report()):
            self.begin(one)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        # The agent is gone or stopping, so open connections do not matter.
        os._exit(0)

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a task and keep a reference to it, since the event loop does not."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, (address, port, *_) = await loop.sock_accept(listening)
            except OSError:
                # No file descriptor is left: wait until some connections have been closed.
                await asyncio.sleep(0.05)
                continue
            caller = Caller(connection, address, port, place_of(address))
            self.make_room(caller.place)
            self.pending[caller] = None
            caller.task = self.begin(self.receive(caller))

    def make_room(self, place: str) -> None:
        """Close a pending connection if there is no room for another one from this place."""
        counts = Counter(caller.place for caller in self.pending)
        strangers = Counter({one: count for one, count in counts.items() if one not in self.known})
        loser = ""
        if counts[place] >= MOST_PER_ADDRESS:
            loser = place
        elif place not in self.known and strangers.total() >= MOST_PENDING - KEPT_FOR_KNOWN:
            loser = max(strangers, key=strangers.__getitem__)
        elif counts.total() >= MOST_PENDING:
            loser = max(strangers or counts, key=counts.__getitem__)
        if loser:
            crowd = [caller for caller in self.pending if caller.place == loser]
            victim = next((caller for caller in crowd if caller.is_silent()), crowd[0])
            self.crowded[victim.address] += 1
            self.pending.pop(victim)
            victim.hang_up()

    async def receive(self, caller: Caller) -> None:
        """Serve a caller from its first byte to its last."""
        writers: list[asyncio.StreamWriter] = []
        try:
            async with asyncio.timeout(self.settings["patience"]):
                outer = await self.admit(caller)
                writers.append(outer[1])
                inner = await self.enter(caller)
                writers.append(inner[1])
                pump = asyncio.create_task(copy(outer[0], inner[1]))
                first = await inner[0].read(BUFFER_BYTES)
            self.let_in(caller)
            outer[1].write(first)
            back = asyncio.create_task(copy(inner[0], outer[1]))
            await asyncio.wait([pump, back], return_when="FIRST_COMPLETED")
        except TimeoutError:
            self.refused[caller.address, "it sent too little in time"] += 1
        except NoRoom:
            pass
        except (OSError, ssl.SSLError) as error:
            if caller in self.pending:
                self.refused[caller.address, reason(error)] += 1
        finally:
            self.end(caller, writers)

    def end(self, caller: Caller, writers: list[asyncio.StreamWriter]) -> None:
        for writer in writers:
            writer.transport.abort()
        if caller.inner_port:
            tell(event="closed", port=caller.inner_port)
        if caller.name:
            self.open[caller.name] -= 1
        self.pending.pop(caller, None)
        if not caller.streaming:
            # Otherwise the stream closes it.
            caller.socket.close()

    async def admit(self, caller: Caller) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The caller's stream, after its first message and, with TLS, its certificate."""
        await readable(caller.socket)
        while caller.is_silent():
            await asyncio.sleep(GLANCE_SECONDS)
        caller.streaming = True
        stream = await stream_of(caller.socket, self.outside)
        if self.outside is None:
            self.count(caller, caller.address)
            return stream
        names = common_names(stream[1].get_extra_info("peercert"))
        if self.revoked.intersection(names):
            raise OSError(f"the certificate of {', '.join(names)} is revoked")
        self.count(caller, ", ".join(names))
        self.let_in(caller)
        self.remember(caller.place)
        return stream

    def count(self, caller: Caller, name: str) -> None:
        """Bound the open connections per certificate or, without certificates, per address."""
        if self.open[name] >= self.settings["most_open"]:
            self.crowded[f"{caller.address} ({name})" if name != caller.address else name] += 1
            raise NoRoom
        self.open[name] += 1
        caller.name = name

    def let_in(self, caller: Caller) -> None:
        self.pending.pop(caller, None)

    def remember(self, address: str) -> None:
        self.known[address] = None
        self.known.move_to_end(address)
        while len(self.known) > MOST_KNOWN:
            self.known.popitem(last=False)

    async def enter(self, caller: Caller) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A stream to zenoh. zenoh sees the gate's address, so the agent is told whose stream it is."""
        host, port = self.settings["inner"]
        reader, writer = await asyncio.open_connection(host, port, limit=BUFFER_BYTES, ssl=self.inside)
        writer.transport.set_write_buffer_limits(BUFFER_BYTES)
        caller.inner_port = writer.get_extra_info("sockname")[1]
        host = f"[{caller.address}]" if ":" in caller.address else caller.address
        name = caller.name if self.outside else ""
        tell(event="opened", port=caller.inner_port, address=f"{host}:{caller.port}", name=name)
        return reader, writer

    async def report(self) -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            for address, count in self.crowded.most_common(MOST_NAMED):
                tell(event="crowded", address=address, connections=count, addresses=len(self.crowded))
            for (address, why), count in self.refused.most_common(MOST_NAMED):
                tell(event="refused", address=address, why=why, connections=count)
            self.crowded.clear()
            self.refused.clear()


def contexts(authority: str, certificate: str, key: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The TLS contexts for callers, who must show a certificate, and for the connection to zenoh."""
    outside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    inside.check_hostname = False
    for context in (outside, inside):
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)
        context.load_cert_chain(certificate, key)
    return outside, inside


def listener(host: str, port: int) -> socket.socket:
    (family, kind, protocol, _, place) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    opened = socket.socket(family, kind, protocol)
    if sys.platform != "win32":
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind(place)
    opened.listen(1024)
    opened.setblocking(False)
    return opened


def place_of(address: str) -> str:
    """The address; for IPv6 its /64 network, which one site has for itself."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = getattr(parsed, "ipv4_mapped", None) or parsed
    return str(mapped) if mapped.version == 4 else str(ip_network((int(mapped) >> 64 << 64, 64)))


def is_whole(begun: bytes) -> bool:
    """Whether these bytes are a whole first TLS message, or not TLS at all."""
    if not begun.startswith(HANDSHAKE):
        return bool(begun)
    return len(begun) >= 5 + int.from_bytes(begun[3:5].ljust(2, b"\xff"))


async def readable(connection: socket.socket) -> None:
    """Wait for a caller's first byte without consuming it."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(connection, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(connection)


async def stream_of(
    connection: socket.socket, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=BUFFER_BYTES, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=context)
    transport.set_write_buffer_limits(BUFFER_BYTES)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Forward bytes, no faster than the receiver takes them."""
    with suppress(OSError, ssl.SSLError):
        while content := await reader.read(BUFFER_BYTES):
            writer.write(content)
            await writer.drain()


def common_names(certificate: dict[str, Any]) -> list[str]:
    return [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]


def reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return REASONS.get(error.reason or "", f"no proper TLS ({error.reason or 'it hung up'})")
    return str(error) or "it hung up"


def tell(**event: Any) -> None:
    # An error means that the agent is gone; standard input will end.
    with suppress(OSError):
        print(json.dumps(event), flush=True)


def many_files() -> None:
    """Raise the limit of open files to the system's maximum."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main() -> None:
    # Ctrl-C is for the agent, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(sys.stdin.readline())
    many_files()
    try:
        asyncio.run(Gate(settings).serve())
    except OSError as error:
        tell(event="failed", why=error.strerror or str(error))


if __name__ == "__main__":
    main()
