"""Slow, and left out by default: `python -m pytest -m slow` runs it in about a minute.

A neighbour that is stopped for twenty seconds, while bodies of 4 MB wait for it, costs the others nothing.
"""

import os
import signal
import time

import pytest
from parties import Means

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sockets"), pytest.mark.timeout(180)]

STOPPED_SECONDS = 20.0
AGREEMENT_SECONDS = 10.0


def publish_again(party, name, neighbours):
    """Start a member anew with one more shard; the seconds until the live ones agree on it."""
    party.agents[name].stop()
    party.join(name, neighbours=neighbours)
    party.agents[name].endpoint()
    return party.agreement(["agent 1", "agent 2"], {"agent 0", "agent 1", "agent 2"}, timeout=AGREEMENT_SECONDS)


def test_twenty_seconds_of_a_stopped_neighbour_stall_nobody(tmp_path):
    everybody = ["agent 0", "agent 1", "agent 2"]
    with Means(tmp_path, 3, dimension=500_000, size=2) as party:
        party.join("agent 0")
        party.join("agent 1", neighbours=("agent 0",))
        party.join("agent 2", neighbours=("agent 1", "agent 0"))
        before = party.agreement(everybody, set(everybody), timeout=AGREEMENT_SECONDS)
        stopped, start, took = party.agents["agent 0"].process.pid, time.monotonic(), []
        os.kill(stopped, signal.SIGSTOP)
        try:
            while time.monotonic() < start + STOPPED_SECONDS:
                took.append(publish_again(party, "agent 2", ("agent 1", "agent 0")))
        finally:
            seconds = time.monotonic() - start
            os.kill(stopped, signal.SIGCONT)
        after = party.agreement(everybody, set(everybody), timeout=AGREEMENT_SECONDS)
        dropped = sum(line["messages"] for line in party.agents["agent 1"].events("dropped"))
    print(f"before {before:.2f} s; stopped for {seconds:.0f} s, in which {len(took)} new versions")
    print(f"took {min(took):.2f} to {max(took):.2f} s; after {after:.2f} s; {dropped} messages dropped")
    assert len(took) >= 2
