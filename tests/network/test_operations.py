"""What operators do with running agents: look, add, correct, remove and replace keys, all without a restart."""

import urllib.error
import urllib.request
from dataclasses import replace

import forked
import numpy as np
import pytest
from parties import Means, inquiry, until

from decbayes.disclosure import Ledger, Rules
from decbayes.files import load, load_note
from decbayes.network import Identity

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(180)]

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
        assert "not in this agent's contribution" in cli("tell", "withdraw", store, more, status=1)

        # The file that was withdrawn is still named, and what was told is not: neither changes what counts.
        party.agents["agent 1"].stop()
        links = ("--connect", party.agents["agent 0"].endpoint())
        again = party.start("agent 1", "--data", str(tmp_path / "agent 1-0.npy"), *links)
        party.agreement(["agent 0", "agent 1"], set(ALL))
        assert "withdrawn" in str(again.events("skipped"))

        assert "permanent" in cli("tell", "retract", store, status=1)
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


def test_what_members_decide_lasts_through_rotations_removals_epochs_and_restarts(tmp_path):
    """The old key, the removed member and all its observations were back with every new epoch."""
    with Means(tmp_path, 3) as party:
        line_of_three(party)
        stores = [tmp_path / f"agent {number}.store" for number in range(3)]
        assert "no member" in cli("charter", "propose", "remove", stores[0], "nobody", status=1)
        public = cli("keygen", tmp_path / "new.key", "--after", tmp_path / "agent 2.key").strip()
        assert Identity.load(tmp_path / "new.key").secret == party.identities["agent 2"].secret
        old = (tmp_path / "agent 2.key").read_bytes()
        assert "1 of 2 votes" in cli("charter", "propose", "rotate", stores[0], "agent 2", public)
        with inquiry(party, "agent 1") as ask:
            assert until(lambda: ask.status()["decisions"]["pending"])
            (pending,) = ask.status()["decisions"]["pending"]
            assert pending["votes"] == ["agent 0"]
            assert pending["needed"] == 2
            assert "agent 2" in ask.posterior().description["counted"], "one vote is not enough"
        assert "settled: replace the key" in cli("tell", "vote", stores[1], pending["motion"])
        agent = party.agents["agent 2"]
        assert until(lambda: agent.events("revoked")), "it is told that its key is revoked"
        (tmp_path / "new.key").rename(tmp_path / "agent 2.key")
        assert until(lambda: len(agent.events("listening")) == 2)
        party.agreement(ALL, set(ALL))
        with inquiry(party, "agent 2") as ask:
            assert until(lambda: not ask.status()["revoked"])
        # The new key votes: with agent 0 it removes agent 1.
        assert "1 of 2" in cli("charter", "propose", "remove", stores[2], "agent 1")
        with inquiry(party, "agent 0") as ask:
            assert until(lambda: ask.status()["decisions"]["pending"])
            (pending,) = ask.status()["decisions"]["pending"]
            assert "settled: remove agent 1" in cli("tell", "vote", stores[0], pending["motion"])
            assert until(lambda: ask.posterior().description["counted"].keys() == {"agent 0", "agent 2"})
            shown = cli("posterior", party.charter_file, "--agent", party.agents["agent 0"].endpoint())
            assert "agent 1 (removed)" in shown
            count = ask.status()["accounts"]["observations"]
        assert until(lambda: party.agents["agent 1"].events("revoked"))
        # A new epoch keeps both, also after everybody was restarted.
        assert "1 of 2" in cli("charter", "propose", "epoch", stores[0])
        with inquiry(party, "agent 2") as ask:
            assert until(lambda: ask.status()["decisions"]["pending"])
            (pending,) = ask.status()["decisions"]["pending"]
            assert "settled: open" in cli("tell", "vote", stores[2], pending["motion"])
        for name in ALL:
            party.agents[name].stop()
        (tmp_path / "agent 2.key").write_bytes(old)
        for number, name in enumerate(ALL):
            party.join(name, neighbours=ALL[max(0, number - 1) : number], shards=0)
        with inquiry(party, "agent 0") as ask:
            told = ask.status()
            assert told["accounts"] == {"observations": count, "in_prior": count, "in_records": 0, "wrong": []}
            assert told["members"]["agent 1"]["state"] == "removed"
            assert [each["state"] for each in told["decisions"]["settled"]] == 3 * ["in force"]
        with inquiry(party, "agent 2") as ask:
            assert "replaced this key" in ask.status()["revoked"]
            assert ask.status()["accounts"]["observations"] == count


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


def pending_at(party, name):
    """The one motion that an agent knows to be pending, once it does."""
    with inquiry(party, name) as ask:
        assert until(lambda: len(ask.status()["decisions"]["pending"]) == 1)
        return ask.status()["decisions"]["pending"][0]["motion"]


def test_a_member_is_added_by_votes_and_no_file_is_moved(tmp_path):
    with Means(tmp_path, 3) as party:
        whole = party.charter
        party.charter = replace(whole, members={name: whole.members[name] for name in ALL[:2]})
        party.charter.save(party.charter_file)
        first = party.join("agent 0")
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(ALL[:2], set(ALL[:2]))
        # The file stays as it was founded.
        whole.save(party.charter_file)
        assert until(lambda: first.events("not_adopted"))
        party.charter.save(party.charter_file)
        late = party.join("agent 2", neighbours=("agent 0",))
        assert until(lambda: "no seat" in str(late.events("revoked")))
        key = whole.members["agent 2"].hex()
        assert "1 of 2" in cli("charter", "propose", "add", tmp_path / "agent 0.store", "agent 2", key)
        motion = pending_at(party, "agent 1")
        assert "settled: add agent 2" in cli("tell", "vote", tmp_path / "agent 1.store", motion)
        party.agreement(ALL, set(ALL))
        assert "agent 2" in cli("charter", "show", party.charter_file, "--store", tmp_path / "agent 0.store")


def test_decisions_are_carried_by_files_where_there_is_no_link(tmp_path):
    with Means(tmp_path, 3) as party:
        for name in ALL:
            party.join(name).endpoint()
        stores, file = [tmp_path / f"{name}.store" for name in ALL], tmp_path / "decisions.ballots"
        cli("charter", "propose", "remove", stores[0], "agent 2")
        cli("charter", "export", party.charter_file, "--store", stores[0], "-o", file)
        assert "0 newly settled" in cli("tell", "take", stores[1], file)
        assert "settled: remove agent 2" in cli("tell", "vote", stores[1], pending_at(party, "agent 1"))
        file.unlink()
        cli("charter", "export", party.charter_file, "--store", stores[1], "-o", file)
        for store in (stores[0], stores[2]):
            assert "1 newly settled" in cli("tell", "take", store, file)
        assert until(lambda: party.agents["agent 2"].events("revoked"))
        file.write_bytes(b"something else")
        assert "charter export" in cli("tell", "take", stores[0], file, status=1)


def test_an_epoch_begins_without_a_restart_and_counts_earlier_data_once(tmp_path):
    both = ALL[:2]
    with Means(tmp_path, 2) as party:
        party.join("agent 0")
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(both, set(both))
        before = party.stored("agent 0").posterior
        cli("charter", "propose", "epoch", tmp_path / "agent 0.store")
        assert "settled: open" in cli("tell", "vote", tmp_path / "agent 1.store", pending_at(party, "agent 1"))
        more = np.full((7, 3), 4.0)
        np.save(tmp_path / "more.npy", more)
        assert "observed 7" in cli("tell", "observe", tmp_path / "agent 1.store", tmp_path / "more.npy")
        with inquiry(party, "agent 0") as ask:
            assert until(lambda: ask.status()["accounts"]["in_records"] == 7), "the others are in the prior"
            assert ask.posterior().description["observations"] == 47
            whole = ask.posterior().posterior.natural["mean"]
        alone = party.charter.model.fit(more).posterior.contribution["mean"]
        np.testing.assert_allclose(whole, before.natural["mean"] + alone, atol=1e-9)
        # The old data, which it is started with again, do not count twice.
        party.agents["agent 1"].stop()
        party.join("agent 1", shards=0, neighbours=("agent 0",))
        with inquiry(party, "agent 1") as ask:
            assert until(lambda: ask.posterior().description["observations"] == 47)
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
        assert "preview it" in cli("tell", "approve", store, "--name", "Kim", "--digest", "0123", status=1)
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
