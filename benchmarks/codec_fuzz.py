"""A million random and damaged byte strings into the codec and into an agent: no crash, no forgery, memory flat.

Run as `python benchmarks/codec_fuzz.py [--inputs 1000000] [--quick]`; the last line is one JSON object.
"""

import argparse
import json
import resource
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from decbayes.errors import Refused
from decbayes.network import Agent, open_record, sign_record, verify
from decbayes.network.protocol.talk.messages import Digest, Pull, batches, encode, listing
from decbayes.network.protocol.talk.revisions import REVISION

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from damage import damaged, flip_a_bit, random_bytes
from groups import gaussian_charter, identities

MEMBERS = identities(3)
CHARTER = gaussian_charter(MEMBERS)


def genuine_records():
    for version, data in ((1, [1.0, 2.0]), (2, [0.5])):
        posterior = CHARTER.model.fit(np.array(data), rng=None).posterior
        yield sign_record(
            CHARTER, MEMBERS[0], version, posterior=posterior, shards=frozenset({"a"}), observations=len(data)
        )


def one_flip(contents, rng):
    content = bytearray(contents[int(rng.integers(len(contents)))])
    flip_a_bit(content, rng)
    return bytes(content)


def outcome(content: bytes) -> str:
    try:
        verify(open_record(content, CHARTER), CHARTER)
    except Refused as error:
        return error.reason
    return "accepted"


def fuzz(inputs: int, rng: np.random.Generator) -> tuple[Counter[str], int]:
    """Outcomes by reason, and how many forgeries got in. A tenth are single bit flips, half of the rest random."""
    records = list(genuine_records())
    contents = [record.content for record in records]
    greeting = Digest(b"\1" * 32, b"\2" * 32, revision=REVISION)
    messages = [encode(greeting), encode(Pull((MEMBERS[0].id,))), *batches(records, [], CHARTER)]
    messages.append(listing([(MEMBERS[0].id, 7, b"\2" * 32)], [MEMBERS[1].id], complete=True))
    agent = Agent(CHARTER, MEMBERS[2], rng=rng)
    outcomes: Counter[str] = Counter()
    forgeries = 0
    for number in range(inputs):
        kind = number % 10
        content = one_flip(contents, rng) if kind == 0 else random_bytes(rng) if kind < 5 else damaged(contents, rng)
        result = outcome(content)
        outcomes[result] += 1
        forgeries += result == "accepted" and content not in contents
        if kind == 9:
            agent.on_bytes("somebody", damaged(messages, rng))
            agent.on_tick()
    known = {record.digest for record in records}
    forgeries += sum(record.digest not in known for record in agent.pool.records.values())
    return outcomes, forgeries


def memory() -> int:
    """The most memory used so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="100,000 inputs")
    options = parser.parse_args()
    inputs = 100_000 if options.quick else options.inputs
    rng = np.random.default_rng(0)
    fuzz(inputs // 20, rng)
    before, started = memory(), time.perf_counter()
    outcomes, forgeries = fuzz(inputs, rng)
    for reason, count in outcomes.most_common():
        print(f"{reason:12s} {count:9,}")
    summary = {
        "inputs": inputs,
        "crashes": 0,
        "forgeries": forgeries,
        "memory_growth_kib": memory() - before,
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
