"""What operators do with running agents: look, add, correct, remove and replace keys, all without a restart."""

import time
import urllib.error
import urllib.request
from dataclasses import replace

import forked
import numpy as np
import pytest
from parties import Means, inquiry, until

from decbayes.disclosure import Ledger, Rules
from decbayes.files import load, load_note
from decbayes.network import Charter, Identity

pytestmark = [pytest.mark.xdist_group("sockets"), pytest.mark.timeout(180)]

ALL = ["agent 0", "agent 1", "agent 2"]


def cli(*words, status=0):
    code, printed = forked.run(*words)
    assert code == status, printed
    return printed


def line_of_three(party):
    party.join("agent 0")
    party.join("agent 1", neighbours=("agent 0",))
    party.join("agent 2", neighbours=("agent 1",))
    party.agreement(ALL, set(ALL))


def test_data_is_added_corrected_and_withdrawn_while_the_agent_runs(tmp_path):
    with Means(tmp_path, 3) as party:
        line_of_three(party)
        store, own = tmp_path / "agent 1.store", party.points["agent 1"]
        more, better = tmp_path / "more.npy", tmp_path / "better.npy"
        np.save(more, np.full((7, 3), 4.0))
        np.save(better, np.full((5, 3), 3.0))

        own.append(np.load(more))
        assert "observed 7" in cli("tell", "observe", store, more)
        party.agreement(ALL, set(ALL))
        assert "count already" in cli("tell", "observe", store, more)
        own[-1] = np.load(better)
        assert "25 observations are left" in cli("tell", "replace", store, more, better)
        party.agreement(ALL, set(ALL))
        del own[0]
        cli("tell", "withdraw", store, tmp_path / "agent 1-0.npy")
        party.agreement(ALL, set(ALL))
        assert "not in this agent's evidence" in cli("tell", "withdraw", store, more, status=1)

        # The file that was withdrawn is still named, and what was told is not: neither changes what counts.
        party.agents["agent 1"].stop()
        links = ("--connect", party.agents["agent 0"].endpoint())
        again = party.start("agent 1", "--data", str(tmp_path / "agent 1-0.npy"), *links)
        party.agreement(["agent 0", "agent 1"], set(ALL))
        assert "withdrawn" in str(again.events("skipped"))

        assert "for good" in cli("tell", "retract", store, status=1)
        cli("tell", "retract", store, "--for-good")
        with inquiry(party, "agent 0") as ask:
            assert until(lambda: ask.posterior().description["counted"].keys() == {"agent 0", "agent 2"})
            assert ask.posterior().description["members"]["agent 1"]["state"] == "retracted"
        assert "nothing more is observed" in cli("tell", "observe", store, better, status=1)
        again.stop()
        once_more = party.start("agent 1", "--data", str(better), *links)
        assert until(lambda: "for good" in str(once_more.events("not_published")))
        with inquiry(party, "agent 1") as ask:
            assert until(lambda: ask.posterior().description["counted"].keys() == {"agent 0", "agent 2"})


def test_members_are_removed_and_keep_their_seats_by_signed_votes(tmp_path):
    with Means(tmp_path, 3) as party:
        line_of_three(party)
        assert "2 of 3" in cli("tell", "remove", tmp_path / "agent 0.store", "agent 2")
        assert "no member" in cli("tell", "remove", tmp_path / "agent 0.store", "nobody", status=1)
        with inquiry(party, "agent 1") as ask:
            time.sleep(1)
            assert "agent 2" in ask.posterior().description["counted"], "one vote is not enough"
            cli("tell", "remove", tmp_path / "agent 1.store", "agent 2")
            assert until(lambda: ask.posterior().description["counted"].keys() == {"agent 0", "agent 1"})
            shown = cli("posterior", party.charter_file, "--agent", party.agents["agent 0"].endpoint())
            assert "agent 2 (removed)" in shown
        party.agents["agent 0"].stop()
        party.check_batch(party.stored("agent 0"), {"agent 0", "agent 1"})
        party.join("agent 0", shards=0, neighbours=("agent 1",))
        party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"})
        cli("tell", "keep", tmp_path / "agent 0.store", "agent 2")
        party.agreement(["agent 0", "agent 1"], set(ALL))


def test_a_key_is_replaced_and_its_evidence_counts_once(tmp_path):
    with Means(tmp_path, 3) as party:
        line_of_three(party)
        public = cli("keygen", tmp_path / "new.key", "--after", tmp_path / "agent 2.key").strip()
        assert Identity.load(tmp_path / "new.key").secret == party.identities["agent 2"].secret
        for number in (0, 1):
            cli("tell", "rekey", tmp_path / f"agent {number}.store", "agent 2", public)
        # It has heard of the votes before it stops, and so its store says whose the new key is.
        assert until(lambda: len(party.agents["agent 2"].events("accepted")) >= 4)
        (tmp_path / "new.key").rename(tmp_path / "agent 2.key")
        agent = party.agents["agent 2"]
        assert until(lambda: [line for line in agent.events("adopted") if "key" in line])
        assert until(lambda: len(agent.events("listening")) == 2)
        party.agreement(ALL, set(ALL))
        agent.stop()
        party.join("agent 2", neighbours=("agent 1",))
        party.agreement(ALL, set(ALL))


def test_status_names_neighbours_members_and_problems(tmp_path):
    with Means(tmp_path, 3) as party:
        alone = party.join("agent 0")
        assert "no neighbour is linked" in cli("status", party.charter_file, alone.endpoint(), status=3)
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"})
        with inquiry(party, "agent 0") as ask:
            assert until(lambda: ask.status()["neighbours"][0].get("member") == "agent 1")
            assert until(lambda: not ask.status()["neighbours"][0]["behind"])
            told = ask.status()
        assert told["neighbours"][0]["charter"] == "same"
        assert told["members"]["agent 2"]["state"] == "not heard of"
        assert told["members"]["agent 1"]["observations"] == 20
        shown = cli("status", party.charter_file, alone.endpoint())
        assert "agent 1" in shown
        assert "problems   none" in shown
        assert '"problems": []' in cli("status", party.charter_file, alone.endpoint(), "--json")


def test_metrics_and_health_are_served_on_this_machine(tmp_path):
    with Means(tmp_path, 2) as party:
        first = party.join("agent 0", "--metrics", "0")
        first.endpoint()
        (address,) = [line["metrics"] for line in first.events("listening")]
        assert address.startswith("http://127.0.0.1:")
        assert until(lambda: fetched(address.replace("/metrics", "/health"))[0] == 503), "nobody is linked"
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"})
        assert until(lambda: 'decbayes_member_observations{member="agent 1"} 20' in fetched(address)[1])
        assert fetched(address.replace("/metrics", "/health")) == (200, "well\n")
        assert fetched(address.replace("/metrics", "/else"))[0] == 404
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
            assert fetched(address, Host=host)[0] == 403, "a page that has its name point here reads nothing"
        assert fetched(address, Host="localhost:9400")[0] == 200


def fetched(address, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_new_charter_takes_effect_without_a_restart(tmp_path):
    with Means(tmp_path, 3) as party:
        whole = party.charter
        party.charter = replace(whole, members={name: whole.members[name] for name in ALL[:2]})
        party.charter.save(party.charter_file)
        first = party.join("agent 0")
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(ALL[:2], set(ALL[:2]))
        party.charter_file.write_text("nonsense")
        assert until(lambda: first.events("not_adopted"))
        party.charter = whole
        whole.save(party.charter_file)
        assert until(lambda: all(len(party.agents[name].events("listening")) == 2 for name in ALL[:2]))
        assert first.events("adopted")
        party.join("agent 2", neighbours=("agent 0",))
        party.agreement(ALL, set(ALL))
        assert len({line["endpoints"][0] for line in first.events("listening")}) == 1


def test_an_epoch_begins_without_a_restart_and_counts_earlier_data_once(tmp_path):
    both = ALL[:2]
    with Means(tmp_path, 2) as party:
        party.join("agent 0")
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(both, set(both))
        before = party.stored("agent 0").posterior
        cli("charter", "next", party.charter_file, "--store", tmp_path / "agent 0.store", "-o", tmp_path / "next.toml")
        (tmp_path / "next.toml").rename(party.charter_file)
        assert until(lambda: all(len(party.agents[name].events("listening")) == 2 for name in both))
        party.charter = Charter.load(party.charter_file)
        more = np.full((7, 3), 4.0)
        np.save(tmp_path / "more.npy", more)
        assert "observed 7" in cli("tell", "observe", tmp_path / "agent 1.store", tmp_path / "more.npy")
        with inquiry(party, "agent 0") as ask:
            assert until(lambda: ask.posterior().description["observations"] == 7), "the others are in the prior"
            whole = ask.posterior().posterior.natural["mean"]
        alone = party.charter.model.fit(more).posterior.contribution["mean"]
        np.testing.assert_allclose(whole, before.natural["mean"] + alone, atol=1e-9)
        # The old data, which it is started with again, do not count twice.
        party.agents["agent 1"].stop()
        party.join("agent 1", shards=0, neighbours=("agent 0",))
        with inquiry(party, "agent 1") as ask:
            assert until(lambda: ask.posterior().description["observations"] == 7)
            np.testing.assert_allclose(ask.posterior().posterior.natural["mean"], whole, atol=1e-9)


def test_evidence_leaves_once_it_obeys_the_rules_and_somebody_has_approved_it(tmp_path):
    with Means(tmp_path, 2, size=30) as party:
        party.charter = replace(party.charter, disclosure=Rules(approval=True))
        party.charter.save(party.charter_file)
        few = tmp_path / "few.npy"
        np.save(few, np.zeros((4, 3)))
        party.join("agent 0")
        last = party.join("agent 1", "--data", str(few), neighbours=("agent 0",))
        assert until(lambda: last.events("awaiting_approval") and last.events("withheld"))
        shown = cli("status", tmp_path / "group.toml", last.endpoint(), status=3)
        assert "waits for approval" in " ".join(shown.split())
        assert "There are 4 observations; a file needs at least 20." in " ".join(shown.split())
        assert not party.stored("agent 0").description["counted"]

        store, draft = tmp_path / "agent 1.store", tmp_path / "agent 1.draft"
        assert until(draft.exists)
        digest = last.events("awaiting_approval")[0]["digest"]
        assert (load(draft).digest, load_note(draft)["manifest"]["posterior"]) == (digest, digest)
        assert "look at it" in cli("tell", "approve", store, "--name", "Kim", "--digest", "0123", status=1)
        words = ("--name", "Kim", "--reason", "agreed in May", "--digest", digest[:8])
        assert "approved" in cli("tell", "approve", store, *words)
        assert until(lambda: party.stored("agent 0").description["counted"].keys() == {"agent 1"})
        assert "Nothing waits" in cli("tell", "approve", store, "--name", "Kim", status=1)
        (entry,) = Ledger(tmp_path / "agent 1.ledger").entries()
        assert (entry.posterior, entry.approver, entry.reason, entry.rows) == (digest, "Kim", "agreed in May", 30)
        assert "agreed in May" in cli("ledger", tmp_path / "agent 1.ledger", "--json")

        more = tmp_path / "more.npy"
        np.save(more, np.ones((18, 3)))
        cli("tell", "observe", store, more)
        assert until(lambda: len(last.events("awaiting_approval")) == 2), "small files together obey, and wait again"
        assert last.events("awaiting_approval")[-1]["observations"] == 52
        assert party.stored("agent 0").description["observations"] == 30
