"""Real agents in real processes over loopback: they agree, whoever is killed, stopped or late."""

import os
import signal
from itertools import pairwise

import pytest
from parties import Means

pytestmark = [pytest.mark.xdist_group("sockets"), pytest.mark.timeout(120)]

AGREEMENT_SECONDS = 10.0


def names(count):
    return [f"agent {number}" for number in range(count)]


def test_agents_agree_though_two_are_killed_one_is_stopped_and_one_comes_late(tmp_path):
    everybody = names(8)
    with Means(tmp_path, 8) as party:
        for number, name in enumerate(everybody[:7]):
            party.join(name, neighbours=tuple(everybody[max(0, number - 2) : number]))
        party.agreement(everybody[:7], set(everybody[:7]), timeout=AGREEMENT_SECONDS)

        party.agents["agent 2"].kill()
        party.agents["agent 4"].kill()
        os.kill(party.agents["agent 6"].process.pid, signal.SIGSTOP)
        party.join("agent 7", neighbours=("agent 5", "agent 0", "agent 6"))
        live = ["agent 0", "agent 1", "agent 3", "agent 5", "agent 7"]
        party.agreement(live, set(everybody), timeout=AGREEMENT_SECONDS)

        os.kill(party.agents["agent 6"].process.pid, signal.SIGCONT)
        version = party.agents["agent 2"].events("published")[-1]["version"]
        party.join("agent 2", neighbours=("agent 3",))
        party.agreement([*live, "agent 2", "agent 6"], set(everybody), timeout=AGREEMENT_SECONDS)
        again = party.agents["agent 2"].events("published")[-1]["version"]
        assert again > version, "a killed agent comes back with its store and never uses a version twice"


def test_everything_reaches_the_end_of_a_line_through_relays_and_a_dead_agent_still_counts(tmp_path):
    everybody = names(5)
    with Means(tmp_path, 5) as party:
        party.join(everybody[0])
        for earlier, later in pairwise(everybody[:4]):
            party.join(later, neighbours=(earlier,))
        party.agreement(everybody[:4], set(everybody[:4]), timeout=AGREEMENT_SECONDS)
        party.agents[everybody[0]].kill()
        party.join(everybody[4], shards=3, neighbours=(everybody[3],))
        party.agreement(everybody[1:], set(everybody), timeout=AGREEMENT_SECONDS)

        last = party.agents[everybody[4]]
        assert last.stop() == 0
        version = last.events("stopped")[0]["version"]
        for file in tmp_path.glob(f"{everybody[4]}.store*"):
            file.unlink()
        party.join(everybody[4], neighbours=(everybody[3],))
        party.agreement(everybody[1:], set(everybody), timeout=AGREEMENT_SECONDS)
        answer = party.stored(everybody[4])
        assert answer.description["counted"][everybody[4]] > version, "a lost disk never leads to a version used twice"
    party.check_batch(answer, set(everybody))


def test_a_stopped_neighbour_stalls_nobody(tmp_path):
    """Bodies of 4 MB fill the queues towards the stopped agent; the others talk on as if it were not there."""
    stopped, *others = everybody = names(3)
    with Means(tmp_path, 3, dimension=500_000, size=2) as party:
        party.join(stopped)
        party.join(others[0], neighbours=(stopped,))
        party.agreement(everybody[:2], set(everybody[:2]), timeout=AGREEMENT_SECONDS)
        os.kill(party.agents[stopped].process.pid, signal.SIGSTOP)
        party.join(others[1], neighbours=(others[0], stopped))
        party.agreement(others, set(everybody), timeout=AGREEMENT_SECONDS)
        os.kill(party.agents[stopped].process.pid, signal.SIGCONT)
        party.agreement(everybody, set(everybody), timeout=AGREEMENT_SECONDS)
