"""How much slower an agent is while somebody looks at its page.

One agent fits many points while three neighbours publish one version after another. Measured are the processor seconds
of the agent's own process until it has published, and how long records take from a neighbour's disk to being taken in.
With and without a page take turns; on the page a reader follows the stream and fetches what it announces, as a browser
does. Run as `python benchmarks/page_cost.py [--repeats 5] [--quick]`; the last line is one JSON object.
"""

import argparse
import json
import os
import statistics
import time
import urllib.request
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import numpy as np

from decbayes.network import Charter, Identity, Limits
from decbayes.network.runtime.spawn import AgentProcess, Party

DIMENSION, COMPONENTS, NEIGHBOURS, SHARDS = 20, 20, 3, 8
NAMES = ["worker", *(f"neighbour-{number}" for number in range(NEIGHBOURS))]
MOST_SECONDS = 300.0


def prepare(folder: Path, points: int) -> Party:
    identities = {name: Identity.generate() for name in NAMES}
    settings = {"components": COMPONENTS, "dimension": DIMENSION, "variance": 1.0, "prior_variance": 100.0}
    keys = {name: identity.public for name, identity in identities.items()}
    party = Party(folder, Charter("cost", "GaussianMixture", settings, keys, limits=Limits(members=len(NAMES))))
    party.prepare(identities)
    rng = np.random.default_rng(0)
    centres = rng.normal(0.0, 3.0, size=(COMPONENTS, DIMENSION))
    for name in NAMES:
        for shard in range(1 if name == "worker" else SHARDS):
            size = points if name == "worker" else 2000
            drawn = centres[rng.integers(COMPONENTS, size=size)] + rng.normal(size=(size, DIMENSION))
            np.save(folder / f"{name}-{shard}.npy", drawn)
    return party


def follow(url: str) -> None:
    """Read the page's stream to its end, and fetch the posterior whenever it has changed."""
    with suppress(OSError, ValueError), urllib.request.urlopen(f"{url}stream") as stream:
        for line in stream:
            if line.startswith(b"event: posterior"):
                urllib.request.urlopen(f"{url}posterior.json").read()


def processor_seconds(agent: AgentProcess) -> float:
    fields = Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(condition) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the agents did not come to an end")
        time.sleep(0.05)


def measure(points: int, page: bool) -> dict[str, float]:
    with TemporaryDirectory(prefix="decbayes-page-cost-") as folder, prepare(Path(folder), points) as party:
        data = ["--data", str(party.folder / "worker-0.npy")]
        worker = party.start("worker", *data, *(["--page"] if page else []))
        endpoint = worker.endpoint()
        begin = time.perf_counter()
        if page:
            url = worker.events("listening")[-1]["page"]
            Thread(target=follow, args=(url,), daemon=True).start()
        for name in NAMES[1:]:
            shards = [word for n in range(SHARDS) for word in ("--data", str(party.folder / f"{name}-{n}.npy"))]
            party.start(name, *shards, "--connect", endpoint)
        until(lambda: worker.events("published"))
        spent, wall = processor_seconds(worker), time.perf_counter() - begin
        until(lambda: len(worker.events("accepted")) >= NEIGHBOURS)
        return {"processor": spent, "wall": wall, "latency": latency(party)}


def latency(party: Party) -> float:
    """The middle time from a neighbour's record being on its disk to its being taken in."""
    taken = {(line["member"], line["version"]): when(line) for line in party.agents["worker"].events("accepted")}
    sent = {(n, line["version"]): when(line) for n in NAMES[1:] for line in party.agents[n].events("published")}
    return statistics.median(taken[key] - sent[key] for key in taken.keys() & sent.keys())


def when(line: dict[str, str]) -> float:
    return datetime.fromisoformat(line["time"]).timestamp()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="20,000 points, once")
    options = parser.parse_args()
    points, repeats = (20_000, 1) if options.quick else (options.points, options.repeats)
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    for number in range(repeats):
        for page in (False, True) if number % 2 == 0 else (True, False):
            found[page].append(measure(points, page))
            print("with a page" if page else "without    ", {k: round(v, 3) for k, v in found[page][-1].items()})
    # Other work on the machine only adds to processor seconds: the least are closest to the agent's own.
    least = {page: min(each["processor"] for each in runs) for page, runs in found.items()}
    middle = {page: statistics.median(each["processor"] for each in runs) for page, runs in found.items()}
    delays = {page: statistics.median(each["latency"] for each in runs) for page, runs in found.items()}
    summary = {
        "processor_seconds_without": round(least[False], 2),
        "processor_seconds_with": round(least[True], 2),
        "slower": round(least[True] / least[False] - 1.0, 4),
        "slower_by_medians": round(middle[True] / middle[False] - 1.0, 4),
        "latency_seconds_without": round(delays[False], 3),
        "latency_seconds_with": round(delays[True], 3),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
