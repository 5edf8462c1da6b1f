"""What abuse costs honest agents: real processes on loopback, with certificates.

Two honest agents are linked with a third, the victim. A hostile member of the group does one thing after another:

    batch       20,000 valid versions at once, as many in a message as are read
    flood       12,000 messages as fast as it can
    versions    one valid new version after another
    lies        records that hold a billion times what they state
    slow        links, and then reads nothing for as long as it lasts (its process is stopped)
    twin        starts two agents with one key

Strangers without a certificate do

    idle        150 connections that say nothing, opened again whenever they are closed
    handshakes  20 callers that begin a handshake and hang up, twenty times a second each

And bad luck is

    blocked     the second honest agent starts again with three neighbours that never answer
    clock       and again with a clock that jumps ahead by ten years while it runs (as Python sees it)

During each the first honest agent observes new data, and it is measured how long that takes to reach the second
through the victim, how long a question to the victim takes on a new link, and how much memory the victim has; first
without abuse. Run as `python benchmarks/network_abuse.py [--quick] [--only NAME …]`; the last line is one JSON object.
Ratios are against "none".
"""

import argparse
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from threading import Event, Thread
from typing import IO

import numpy as np
import zenoh

from decbayes.network import Charter, Identity, Limits, sign_record
from decbayes.network.protocol.talk.guests import Guests
from decbayes.network.protocol.talk.messages import Batch, Digest, encode, message_bytes, packed
from decbayes.network.protocol.talk.revisions import REVISION
from decbayes.network.runtime.links import Links, Tls
from decbayes.network.runtime.links.ask import Inquiry
from decbayes.network.runtime.links.certificates import Authority, key_file, new_request, save_pair
from decbayes.network.runtime.links.questions import Seal
from decbayes.network.runtime.links.transport import open_session, root_key
from decbayes.network.runtime.spawn import AgentProcess, Party
from decbayes.network.runtime.store.orders import Observe, answer_to, give
from decbayes.posterior import Posterior

NAMES = ("victim", "one", "two", "hostile")
SECONDS = 60.0
IDLE, CALLERS, BLOCKED = 150, 20, 3
# How every attempt to speak TLS begins.
HELLO = bytes.fromhex("160301020001")
YEARS = 10
# Another clock for a process: what Python knows of the time of day jumps once a file says so.
JUMP = "clock has jumped"
CLOCK = f"""
import os, sys, time, datetime
ahead, real = {YEARS} * 365.25 * 86400, time.time
time.time = lambda: real() + (ahead if os.path.exists({JUMP!r}) else 0)
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
datetime.datetime = Jumping
from decbayes.cli import main
main(sys.argv[1:])
"""


class Hostile:
    """A member of the group that says whatever it likes to one agent."""

    def __init__(self, charter: Charter, identity: Identity, endpoint: str, tls: Tls) -> None:
        self.charter, self.identity, self.seal = charter, identity, Seal(charter.secret)
        self.session, _ = open_session(Links(listen=(), connect=(endpoint,), tls=tls), most_bytes=1 << 30)
        self.root, self.name = root_key(charter), str(self.session.info.zid())
        self.token = self.session.liveliness().declare_token(f"{self.root}/here/{self.name}")
        here = [str(reply.ok.key_expr) for reply in self.session.liveliness().get(f"{self.root}/here/*", timeout=5)]
        (self.other,) = [key.rpartition("/")[2] for key in here if not key.endswith(self.name)]
        time.sleep(0.5)
        member, proof = Guests(charter, identity, self.name).introduce(self.other)
        self.say(encode(Digest(bytes(32), bytes.fromhex(charter.fingerprint), "0", member, proof, REVISION)))

    def say(self, message: bytes) -> None:
        key = f"{self.root}/to/{self.other}/{self.name}"
        sealed = self.seal.close(message, key)
        self.session.put(key, sealed, congestion_control=zenoh.CongestionControl.BLOCK)

    def record(self, version: int, *, scale: float = 1.0) -> bytes:
        fitted = self.charter.model.fit(np.ones((1, 3))).posterior
        lie = Posterior(fitted.structure, {name: scale * part for name, part in fitted.contribution.items()})
        shards = frozenset({"s"})
        return sign_record(self.charter, self.identity, version, posterior=lie, shards=shards, observations=1).content


Abuse = Callable[[Event], None]


def batch(hostile: Hostile, quick: bool) -> Abuse:
    records = tuple(hostile.record(version) for version in range(1, 2_001 if quick else 20_001))
    contents = [encode(Batch(part)) for part in packed(records, message_bytes(hostile.charter))]

    def abuse(stop: Event) -> None:
        for content in contents:
            hostile.say(content)

    return abuse


def flood(hostile: Hostile, quick: bool) -> Abuse:
    junk = encode(Batch(tuple(bytes(100) for _ in range(100))))

    def abuse(stop: Event) -> None:
        for _ in range(1_200 if quick else 12_000):
            hostile.say(junk)

    return abuse


def versions(hostile: Hostile, quick: bool) -> Abuse:
    messages = [encode(Batch((hostile.record(10**6 + number),))) for number in range(500 if quick else 5_000)]

    def abuse(stop: Event) -> None:
        for message in messages:
            hostile.say(message)

    return abuse


def lies(hostile: Hostile, quick: bool) -> Abuse:
    content = encode(Batch(tuple(hostile.record(10**7 + number, scale=1e9) for number in range(100))))

    def abuse(stop: Event) -> None:
        while not stop.is_set():
            hostile.say(content)

    return abuse


class Group(Party):
    """Agents with certificates, and what befalls them."""

    def __init__(self, folder: Path, charter: Charter, keys: dict[str, Identity]) -> None:
        super().__init__(folder, charter)
        self.keys, authority = keys, Authority.generate("authority")
        authority.save(folder / "authority.pem")
        self.tls = {name: self._certified(authority, name) for name in (*NAMES, "asker")}
        self.prepare(keys)

    def _certified(self, authority: Authority, name: str) -> Tls:
        file = self.folder / f"{name}.pem"
        key, request = new_request(name, ["127.0.0.1"])
        save_pair(file, authority.sign(request), key_file(file), key)
        return Tls(self.folder / "authority.pem", file, key_file(file))

    def begin(self, name: str, *arguments: str, member: str = "") -> AgentProcess:
        """Start an agent; under another name it is a second one with a member's key."""
        tls = self.tls[member or name]
        files = {"--tls-authority": tls.authority, "--tls-certificate": tls.certificate, "--tls-key": tls.key}
        words = [word for option, file in files.items() for word in (option, str(file))]
        if member:
            self.keys[member].save(self.folder / f"{name}.key")
        return self.start(name, *words, *arguments)

    def ask(self, name: str) -> Inquiry:
        return Inquiry(self.charter, Links((), (self.agents[name].endpoint(),), tls=self.tls["asker"]))


class Jumping(AgentProcess):
    """An agent whose clock jumps."""

    def begin(self, arguments: Sequence[str], prefix: Sequence[str], log: IO[bytes]) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", CLOCK, *arguments]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self.log.parent)


Undo = Callable[[], None]


def by_hostile(make: Callable[[Hostile, bool], Abuse]) -> Callable[["Group", bool], Undo]:
    """Something that a member says to the victim."""

    def begin(group: "Group", quick: bool) -> Undo:
        hostile = Hostile(group.charter, group.keys["hostile"], group.agents["victim"].endpoint(), group.tls["hostile"])
        stop, abuse = Event(), make(hostile, quick)
        worker = Thread(target=abuse, args=(stop,), daemon=True)
        worker.start()

        def undo() -> None:
            stop.set()
            worker.join()
            hostile.session.close()

        return undo

    return begin


def by_strangers(count: int, call: Callable[[socket.socket], None]) -> Callable[["Group", bool], Undo]:
    """So many callers without a certificate, again and again."""

    def begin(group: "Group", quick: bool) -> Undo:
        host, port = group.agents["victim"].endpoint().split(":")
        stop = Event()

        def again() -> None:
            while not stop.is_set():
                with suppress(OSError), socket.create_connection((host, int(port)), timeout=10) as connection:
                    call(connection)
                stop.wait(0.05)

        for _ in range(count):
            Thread(target=again, daemon=True).start()
        time.sleep(3.0)
        return stop.set

    return begin


def slow(group: Group, quick: bool) -> Undo:
    reader = group.begin("hostile", "--connect", group.agents["victim"].endpoint())
    reader.endpoint()
    time.sleep(2.0)
    reader.process.send_signal(signal.SIGSTOP)
    return lambda: (reader.process.send_signal(signal.SIGCONT), reader.stop(), None)[-1]


def twin(group: Group, quick: bool) -> Undo:
    connect = ("--connect", group.agents["victim"].endpoint(), "--data", str(group.folder / "first.npy"))
    agents = [group.begin("hostile", *connect), group.begin("hostile again", *connect, member="hostile")]
    for agent in agents:
        agent.endpoint()
    time.sleep(2.0)
    return lambda: (*(agent.stop() for agent in agents), None)[-1]


def blocked(group: Group, quick: bool) -> Undo:
    """Neighbours whose ports take calls that nobody answers."""
    silent = [socket.create_server(("127.0.0.1", 0), backlog=1) for _ in range(BLOCKED)]
    others = [word for one in silent for word in ("--connect", f"127.0.0.1:{one.getsockname()[1]}")]
    group.agents["two"].stop()
    group.begin("two", "--connect", group.agents["victim"].endpoint(), *others).endpoint()
    return lambda: [one.close() for one in silent].clear()


def clock(group: Group, quick: bool) -> Undo:
    group.agents["two"].stop()
    usual, Party.process = Party.process, Jumping
    try:
        group.begin("two", "--connect", group.agents["victim"].endpoint()).endpoint()
    finally:
        Party.process = usual
    (group.folder / JUMP).touch()
    return lambda: None


def hang_up(connection: socket.socket) -> None:
    connection.sendall(HELLO)


ABUSES: dict[str, Callable[[Group, bool], Undo]] = {
    "none": lambda group, quick: lambda: None,
    "batch": by_hostile(batch),
    "flood": by_hostile(flood),
    "versions": by_hostile(versions),
    "lies": by_hostile(lies),
    "slow": slow,
    "twin": twin,
    "idle": by_strangers(IDLE, lambda connection: bool(connection.recv(1))),
    "handshakes": by_strangers(CALLERS, hang_up),
    "blocked": blocked,
    "clock": clock,
}


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def publication(group: Group, number: int) -> float:
    """Seconds from new data at one honest agent until the other counts it."""
    data = group.folder / f"new {number}.npy"
    np.save(data, np.full((5, 3), 1.0 + number))
    with closing(group.ask("two")) as ask:
        before = ask.posterior(timeout=SECONDS).description["observations"]
        start = time.monotonic()
        order = give(group.folder / "one.store", Observe(str(data)))
        assert answer_to(group.folder / "one.store", order, timeout=SECONDS) is not None
        while ask.posterior(timeout=SECONDS).description["observations"] <= before:
            if time.monotonic() > start + SECONDS:
                return float("inf")
            time.sleep(0.02)
    return time.monotonic() - start


def question(group: Group) -> float:
    """Seconds to link with the victim and to have its status."""
    start = time.monotonic()
    with closing(group.ask("victim")) as ask:
        ask.status(timeout=SECONDS)
    return time.monotonic() - start


def measured(folder: Path, quick: bool, names: Sequence[str]) -> Iterator[tuple[str, dict[str, float]]]:
    keys = {name: Identity.generate() for name in NAMES}
    settings = {"variance": 1.0, "dimension": 3}
    members = {name: key.public for name, key in keys.items()}
    charter = Charter("abuse", "GaussianMean", settings, members, limits=Limits(members=20_000))
    np.save(folder / "first.npy", np.zeros((5, 3)))
    with Group(folder, charter, keys) as group:
        victim = group.begin("victim")
        for name in ("one", "two"):
            group.begin(name, "--connect", victim.endpoint()).endpoint()
        give(folder / "one.store", Observe(str(folder / "first.npy")))
        publication(group, 0)
        for number, name in enumerate(names, start=1):
            before = memory(victim.process.pid)
            undo = ABUSES[name](group, quick)
            figures = {
                "publication_s": round(publication(group, number), 2),
                "question_s": round(question(group), 3),
                "memory_mb": round(memory(victim.process.pid) - before, 1),
            }
            undo()
            yield name, figures
            time.sleep(1.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of each abuse")
    parser.add_argument("--only", nargs="*", choices=[*ABUSES], default=[*ABUSES])
    arguments = parser.parse_args()
    print(f"{'abuse':10}{'publication s':>15}{'question s':>12}{'memory MB':>11}")
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for abuse, figures in measured(Path(folder), arguments.quick, arguments.only):
            results[abuse] = figures
            print(f"{abuse:10}" + "".join(f"{value:>13}" for value in figures.values()), flush=True)
    none = results.get("none", {"publication_s": 1.0})["publication_s"]
    slowed = {abuse: round(figures["publication_s"] / none, 2) for abuse, figures in results.items()}
    print(json.dumps({"benchmark": "network_abuse", "figures": results, "publication_ratio": slowed}))


if __name__ == "__main__":
    main()
