"""What people do wrong with real agents loses nothing, and the log says what it was."""

import sqlite3
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from parties import SECONDS, Agent, Means

pytestmark = [pytest.mark.xdist_group("sockets"), pytest.mark.timeout(120)]

BOTH = ["agent 0", "agent 1"]


def logged(agent, event, text=""):
    """The first line of an event that holds the text; waits for it."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for line in agent.events(event):
            if text in str(line):
                return line
        time.sleep(0.05)
    raise AssertionError(f"'{agent.name}' has logged no {event} with '{text}': {agent.log.read_text()}")


def test_a_damaged_record_is_reported_and_heard_again(tmp_path):
    with Means(tmp_path, 2) as party:
        party.join("agent 0")
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(BOTH, set(BOTH))
        party.agents["agent 0"].stop()
        with closing(sqlite3.connect(tmp_path / "agent 0.store")) as store, store:
            store.execute("UPDATE records SET body = zeroblob(length(body))")
        again = party.join("agent 0", shards=0, neighbours=("agent 1",))
        party.agreement(BOTH, set(BOTH))
        assert logged(again, "store_damaged")["records"] == 2
        assert logged(again, "remembered")["observe_again"] == []
        party.agents["agent 1"].kill()
    party.check_batch(party.stored("agent 0"), set(BOTH))


def test_a_key_used_twice_and_a_charter_of_another_group_are_told(tmp_path):
    with Means(tmp_path, 2) as party:
        first = party.join("agent 0")
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(BOTH, set(BOTH))

        replace(party.charter, id="another").save(tmp_path / "another.toml")
        keys, link = ("--key", str(tmp_path / "agent 1.key")), ("--connect", first.endpoint())
        store = ("--store", str(tmp_path / "stray.store"))
        party.agents["stray"] = Agent("stray", tmp_path, [str(tmp_path / "another.toml"), *keys, *store, *link])

        party.points["agent 1"].append(np.full((7, 3), 2.0))
        np.save(tmp_path / "twin.npy", party.points["agent 1"][-1])
        mine = ("--store", str(tmp_path / "twin.store"), "--data", str(tmp_path / "twin.npy"))
        party.agents["twin"] = Agent("twin", tmp_path, [str(party.charter_file), *keys, *mine, *link])
        party.agreement([*BOTH, "twin"], set(BOTH))
        logged(party.agents["twin"], "remembered", "another agent uses this key")
        for name in ("agent 1", "twin"):
            logged(party.agents[name], "twin", "stop one of the two")
        published = [len(party.agents[name].events("published")) for name in ("agent 1", "twin")]
        time.sleep(2)
        assert [len(party.agents[name].events("published")) for name in ("agent 1", "twin")] == published, (
            "both are silent"
        )
        logged(party.agents["stray"], "alone", "Compare charters")
