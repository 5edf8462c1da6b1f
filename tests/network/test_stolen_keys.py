"""A key that was stolen and replaced: what its thief signs does not count, whenever it was put to the vote."""

from dataclasses import replace

import forked
import pytest
from groups import ballot_on
from parties import Means, inquiry, until
from test_transport_refusals import Neighbour

from decbayes.network import Admit, Ballot, Identity, SqliteStore
from decbayes.network.protocol.group.motions import sign_vote
from decbayes.network.protocol.talk.messages import Batch, encode

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(180)]

HONEST = ["agent 0", "agent 1"]


def cli(*words):
    code, printed = forked.run(*words)
    assert code == 0, printed
    return printed


def ballots_in(party, name):
    """The motions that an agent has written down, by what they ask."""
    with SqliteStore(party.folder / f"{name}.store", party.charter, read_only=True) as store:
        return {item.text: item for item in store.load() if isinstance(item, Ballot)}


def test_a_stolen_key_neither_votes_nor_completes_what_was_put_before(tmp_path):
    """Agent 0 wants to let somebody in and has one vote of two. The thief of agent 2's key has heard that vote, and
    adds the other after the key was replaced: under the charter of that time, and under the present one.
    """
    with Means(tmp_path, 3) as party:
        first, thief = party.join("agent 0"), party.identities["agent 2"]
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(HONEST, set(HONEST))
        stores = [tmp_path / f"{name}.store" for name in HONEST]
        with inquiry(party, "agent 0") as ask, inquiry(party, "agent 1") as other:
            guest = Admit("guest", Identity.generate().public)
            cli("charter", "propose", "add", stores[0], "guest", guest.key.hex())
            (heard,) = ballots_in(party, "agent 0").values()
            stolen = {"agent 2": sign_vote(heard.motion, "agent 2", thief, 1)}
            completed = replace(heard, votes={**heard.votes, **stolen})
            cli("charter", "propose", "rotate", stores[0], "agent 2", Identity.generate().public.hex())
            assert until(lambda: len(decisions(other)["pending"]) == 2)
            (rotation,) = (motion for motion in decisions(other)["pending"] if "replace" in motion["text"])
            assert "settled" in cli("tell", "vote", stores[1], rotation["motion"])
            assert until(lambda: [motion["votes"] for motion in decisions(other)["pending"]] == [["agent 0"]])
            (settled,) = (ballot for text, ballot in ballots_in(party, "agent 1").items() if "replace" in text)
            late = ballot_on(guest, {"agent 2": thief}, party.charter, [settled], number=2)
            with Neighbour(party.charter, first.endpoint()) as loud:
                loud.introduce(party.charter, thief)
                loud.say(encode(Batch(ballots=(completed.content, late.content))))
                assert until(lambda: ask.status()["refused"].get("membership") == 1)
            for each in (ask, other):
                assert until(lambda each=each: len(decisions(each)["settled"]) == 2)
                states = {motion["motion"]: motion["state"] for motion in decisions(each)["settled"]}
                assert states == {rotation["motion"]: "in force", heard.name: "overruled"}
                assert [motion["votes"] for motion in decisions(each)["pending"]] == [["agent 0"]]
                assert decisions(each)["seats"] == 3
        party.agreement(HONEST, set(HONEST))


def decisions(ask):
    return ask.status()["decisions"]
