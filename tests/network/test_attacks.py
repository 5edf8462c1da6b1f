"""The attacks that once worked, each against real processes: what happened before stands in its docstring."""

import json
import time
from dataclasses import replace
from pathlib import Path

import forked
import msgspec
import numpy as np
import pytest
from parties import Agent, Means, inquiry, until
from test_transport_refusals import Neighbour

from decbayes.network import Limits, Record, SignedHeader, sign_record
from decbayes.network.protocol.talk.messages import Batch, encode, message_bytes, packed
from decbayes.posterior import Posterior

pytestmark = [pytest.mark.xdist_group("sockets"), pytest.mark.timeout(180)]

POINT = np.ones((1, 3))


def memory(agent):
    """Megabytes that a process holds."""
    lines = Path(f"/proc/{agent.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def versions_of(charter, identity, count):
    """Valid records of one observation, one after another."""
    fitted = charter.model.fit(POINT).posterior
    first = sign_record(charter, identity, 1, posterior=fitted, shards=frozenset({"s"}), observations=1)
    for version in range(1, count + 1):
        header = msgspec.structs.replace(first.header, version=version)
        signed = SignedHeader(header, b"")
        yield Record(SignedHeader(header, identity.sign(signed.digest)), first.body, None).content


def test_a_hostile_member_neither_moves_the_merge_nor_freezes_anybody(tmp_path):
    """Weight 1e9 at (1e5, 1e5, 1e5) with observations=1 had all of the merge. One batch of 20,000 valid versions froze
    a neighbour for 54 s. 12,000 messages in 0.2 s left `status` unanswered for 37 s, and took 648 MB for good.
    """
    with Means(tmp_path, 4, members=20_000) as party:
        victim, hostile = party.join("agent 0"), party.identities["agent 3"]
        charter = party.charter
        fitted = charter.model.fit(1e5 * POINT).posterior
        heavy = Posterior(fitted.structure, {"mean": 1e9 * fitted.contribution["mean"]})
        lie = sign_record(charter, hostile, 10**6, posterior=heavy, shards=frozenset({"s"}), observations=1)
        with Neighbour(charter, victim.endpoint()) as loud, inquiry(party, "agent 0") as ask:
            assert until(lambda: len(ask.status()["neighbours"]) == 1)
            loud.introduce(charter, hostile)
            assert until(lambda: ask.status()["neighbours"][0]["member"] == "agent 3")
            loud.say(encode(Batch((lie.content,))))
            assert until(lambda: ask.status()["refused"].get("consistency") == 1)

            before = memory(victim)
            versions = [*versions_of(charter, hostile, 4_000)]
            loud.say(encode(Batch(tuple(versions))))
            for part in packed(versions, message_bytes(charter)):
                loud.say(encode(Batch(part)))
            answered_soon(ask)
            assert until(lambda: ask.status()["heard"].get("agent 3", 0) > 0)
            junk = encode(Batch(tuple(bytes(200) for _ in range(150))))
            for _ in range(12_000):
                loud.say(junk)
            answered_soon(ask)
            party.points["agent 3"] = [POINT]
            party.join("agent 1", neighbours=("agent 0",))
            party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1", "agent 3"})
        assert memory(victim) - before < 150, "it keeps what is current, and a quarter of the inbox"
        shut_out = victim.events("shut_out")
        print(shut_out or "it kept up")
        assert all(line["member"] == "agent 3" and "127.0.0.1" in line["address"] for line in shut_out)


def answered_soon(ask):
    start = time.monotonic()
    ask.status()
    assert time.monotonic() - start < 5


def test_a_limit_on_versions_does_not_part_the_group(tmp_path):
    """With `--limit versions=3` a publisher of more made the group diverge for good: 140 here, 160 there."""
    with Means(tmp_path, 3, versions=3) as party:
        party.join("agent 0", shards=1)
        party.join("agent 1", neighbours=("agent 0",))
        both = ["agent 0", "agent 1"]
        party.agreement(both, set(both))
        for number in range(4):
            party.points["agent 1"].append(np.full((7, 3), float(number)))
            np.save(tmp_path / f"{number}.npy", party.points["agent 1"][-1])
            assert forked.run("tell", "observe", tmp_path / "agent 1.store", tmp_path / f"{number}.npy")[0] == 0
        party.agreement(both, set(both))
        party.join("agent 2", neighbours=("agent 1",))
        names = ["agent 0", "agent 1", "agent 2"]
        party.agreement(names, set(names))
        assert len(party.agents["agent 1"].events("published")) > 3


def test_the_same_data_and_another_charter_are_told(tmp_path):
    """Two members with one data set were counted twice in silence. An agent with another charter was never counted, and
    nobody was told (`refused {}`); one with other limits filled the log with `refused`.
    """
    with Means(tmp_path, 3) as party:
        shared = np.random.default_rng(0).normal(size=(150, 3))
        np.save(tmp_path / "shared.npy", shared)
        np.save(tmp_path / "shuffled.npy", shared[::-1])
        first = party.start("agent 0", "--data", str(tmp_path / "shared.npy"))
        link = ("--connect", first.endpoint())
        party.start("agent 1", "--data", str(tmp_path / "shuffled.npy"), *link)
        limits = Limits(**{**msgspec.to_builtins(party.charter.limits), "observations": 10})
        replace(party.charter, limits=limits).save(tmp_path / "other.toml")
        keys = ("--key", str(tmp_path / "agent 2.key"), "--store", str(tmp_path / "agent 2.store"))
        other = Agent("agent 2", tmp_path, [str(tmp_path / "other.toml"), *keys, *link])
        party.agents["agent 2"] = other
        for agent in (first, other):
            assert until(lambda agent=agent: agent.events("other_charter"))
        assert until(lambda: first.events("same_data"))
        assert first.events("same_data")[0]["members"] == ["agent 0", "agent 1"]
        status, told = forked.run("status", party.charter_file, first.endpoint(), "--json")
        problems = " ".join(json.loads(told)["problems"])
        assert status == 3
        assert "agent 0 and agent 1 hold the same data set" in problems
        assert "agent 2 has another charter" in problems
        refusals = [line for line in other.events("refused") if line["reason"] == "evidence"]
        assert len(refusals) <= 2, "what can never be accepted is not asked for again and again"


def test_an_agent_with_certificates_says_what_is_missing_when_it_is_asked_without(tmp_path):
    """It once said that perhaps the agent is not running."""
    from certificates import Authority
    from test_transport_refusals import options

    with Means(tmp_path, 1) as party:
        agent = party.join("agent 0", *options(Authority(tmp_path, "ours").certify("first")))
        status, told = forked.run("status", party.charter_file, agent.endpoint())
        assert status == 1
        assert "--tls-authority" in told
