"""What abuse by one member costs its honest neighbours: real processes on loopback.

Two honest agents are linked with a third, the victim. A hostile member of the group does one thing after another:

    batch       one message with 20,000 valid versions
    flood       12,000 messages as fast as it can
    versions    one valid new version after another
    lies        records that hold a billion times what they state

During each the first honest agent observes new data, and it is measured how long that takes to reach the second
through the victim, how long a question to the victim takes, and how much memory the victim has; first without abuse.
Run as `python benchmarks/network_abuse.py [--quick]`; the last line is one JSON object. Ratios are against "none".
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import numpy as np
import zenoh

from decbayes.network import Charter, Identity, Limits, sign_record
from decbayes.network.protocol.talk.guests import Guests
from decbayes.network.protocol.talk.messages import Batch, Digest, encode
from decbayes.network.runtime.links import Links
from decbayes.network.runtime.links.ask import Inquiry
from decbayes.network.runtime.links.questions import Seal
from decbayes.network.runtime.links.transport import open_session, root_key
from decbayes.network.runtime.spawn import Party
from decbayes.network.runtime.store.orders import Observe, answer_to, give
from decbayes.posterior import Posterior

NAMES = ("victim", "one", "two", "hostile")
SECONDS = 60.0


class Hostile:
    """A member of the group that says whatever it likes to one agent."""

    def __init__(self, charter: Charter, identity: Identity, endpoint: str) -> None:
        self.charter, self.identity, self.seal = charter, identity, Seal(charter.secret)
        self.session, _ = open_session(Links(listen=(), connect=(endpoint,)), most_bytes=1 << 30)
        self.root, self.name = root_key(charter), str(self.session.info.zid())
        self.token = self.session.liveliness().declare_token(f"{self.root}/here/{self.name}")
        here = [str(reply.ok.key_expr) for reply in self.session.liveliness().get(f"{self.root}/here/*", timeout=5)]
        (self.other,) = [key.rpartition("/")[2] for key in here if not key.endswith(self.name)]
        time.sleep(0.5)
        member, proof = Guests(charter, identity, self.name).introduce(self.other)
        self.say(encode(Digest(bytes(32), bytes.fromhex(charter.fingerprint), "0", member, proof)))

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
    content = encode(Batch(records))
    return lambda stop: hostile.say(content)


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


ABUSES: dict[str, Callable[[Hostile, bool], Abuse]] = {
    "batch": batch,
    "flood": flood,
    "versions": versions,
    "lies": lies,
}


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def publication(party: Party, ask: Inquiry, folder: Path, number: int) -> float:
    """Seconds from new data at one honest agent until the other counts it."""
    data = folder / f"new {number}.npy"
    np.save(data, np.full((5, 3), 1.0 + number))
    before = ask.posterior(timeout=SECONDS).description["observations"]
    start = time.monotonic()
    order = give(folder / "one.store", Observe(str(data)))
    assert answer_to(folder / "one.store", order, timeout=SECONDS) is not None
    while ask.posterior(timeout=SECONDS).description["observations"] <= before:
        if time.monotonic() > start + SECONDS:
            return float("inf")
        time.sleep(0.02)
    return time.monotonic() - start


def question(ask: Inquiry) -> float:
    start = time.monotonic()
    ask.status(timeout=SECONDS)
    return time.monotonic() - start


def measured(folder: Path, quick: bool) -> Iterator[tuple[str, dict[str, float]]]:
    keys = {name: Identity.generate() for name in NAMES}
    settings = {"variance": 1.0, "dimension": 3}
    members = {name: key.public for name, key in keys.items()}
    charter = Charter("abuse", "GaussianMean", settings, members, limits=Limits(members=20_000))
    with Party(folder, charter) as party:
        party.prepare(keys)
        np.save(folder / "first.npy", np.zeros((5, 3)))
        victim = party.start("victim")
        for name in ("one", "two"):
            party.start(name, "--connect", victim.endpoint())
        give_first(party, folder)
        asked = {
            name: Inquiry(charter, Links(listen=(), connect=(party.agents[name].endpoint(),))) for name in NAMES[:3]
        }
        publication(party, asked["two"], folder, 0)
        for number, abuse in enumerate(("none", *ABUSES), start=1):
            stop, before = Event(), memory(victim.process.pid)
            hostile = Hostile(charter, keys["hostile"], victim.endpoint()) if abuse != "none" else None
            act = (lambda stop: None) if hostile is None else ABUSES[abuse](hostile, quick)
            worker = Thread(target=act, args=(stop,), daemon=True)
            worker.start()
            figures = {
                "publication_s": round(publication(party, asked["two"], folder, number), 2),
                "question_s": round(question(asked["victim"]), 3),
                "memory_mb": round(memory(victim.process.pid) - before, 1),
            }
            stop.set()
            yield abuse, figures
            worker.join()
            if hostile is not None:
                hostile.session.close()
            time.sleep(1.0)


def give_first(party: Party, folder: Path) -> None:
    party.agents["one"].endpoint()
    give(folder / "one.store", Observe(str(folder / "first.npy")))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of each abuse")
    arguments = parser.parse_args()
    print(f"{'abuse':10}{'publication s':>15}{'question s':>12}{'memory MB':>11}")
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for abuse, figures in measured(Path(folder), arguments.quick):
            results[abuse] = figures
            print(f"{abuse:10}" + "".join(f"{value:>13}" for value in figures.values()), flush=True)
    none = results["none"]["publication_s"]
    slowed = {abuse: round(figures["publication_s"] / none, 2) for abuse, figures in results.items()}
    print(json.dumps({"benchmark": "network_abuse", "figures": results, "publication_ratio": slowed}))


if __name__ == "__main__":
    main()
