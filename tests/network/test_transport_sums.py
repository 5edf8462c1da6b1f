"""Real agents in real processes over loopback that open only sums."""

from dataclasses import replace

import numpy as np
import pytest
from parties import Means, inquiry, until

from decbayes.disclosure import Ledger
from decbayes.errors import StoreFailed
from decbayes.network import SumRules
from decbayes.network.runtime.store import stored, stored_parts
from decbayes.network.runtime.store.orders import Propose, Vote, answer_to, give

pytestmark = [pytest.mark.xdist_group("sockets"), pytest.mark.timeout(120)]


class Sums(Means):
    """Agents that estimate one mean, and add up."""

    def prepare(self, identities):
        members = {name.replace(" ", "_"): key for name, key in self.charter.members.items()}
        self.charter = replace(self.charter, members=members, sums=SumRules(rounds=2))
        self.identities = {self.charter.names[key.id]: key for key in identities.values()}
        super().prepare(self.identities)

    def asked(self, name):
        ask = inquiry(self, name)
        try:
            return ask.status()
        finally:
            ask.close()

    def sums(self, name):
        return self.asked(name)["sums"]

    def total(self, names):
        return self.points_of({*names}).sum(axis=0)


def test_agents_add_up_without_the_one_that_is_missing_and_one_is_killed_on_the_way(tmp_path):
    with Sums(tmp_path, 4) as party:
        everybody = [*party.charter.members]
        *there, missing = everybody
        for number, name in enumerate(there):
            party.join(name, neighbours=tuple(there[max(0, number - 1) : number]))
        assert until(lambda: party.sums(there[0])["missing"] == [missing])
        assert party.asked(there[0])["members"][missing]["state"] == "not heard of"

        party.agents[there[2]].kill()
        motion = answer_to(
            party.folder / f"{there[0]}.store", give(party.folder / f"{there[0]}.store", remove(missing))
        )
        assert "voted" in motion
        party.join(there[2], shards=0, neighbours=(there[1],))
        name = party.asked(there[0])["decisions"]["pending"][0]["motion"]
        for voter in there[1:]:
            assert until(
                lambda store=party.folder / f"{voter}.store": name in (answer_to(store, give(store, Vote(name))) or "")
            )

        assert until(lambda: all(party.sums(each)["opened"] == 2 for each in there))
        answers = []
        for each in there:
            ask = inquiry(party, each)
            answers.append(ask.posterior())
            ask.close()
        assert len({answer.posterior.digest for answer in answers}) == 1, "one sum, one posterior, bit by bit"
        assert answers[0].description["observations"] == 20 * len(there)
        opened = answers[0].posterior.contribution["mean"][0]
        np.testing.assert_allclose(opened[: party.dimension], party.total(there), rtol=0, atol=3e-6)
        events = party.agents[there[0]].events("summed")
        assert {event["step"] for event in events} == {"key", "masked contribution", "part of the opening"}

        show(party, there)
        party.agents[there[0]].stop()
        kept = stored(party.folder / f"{there[0]}.store", party.charter)
        assert kept.posterior.digest == answers[0].posterior.digest, "what was opened is in each store"


def show(party, there):
    """All agree to an audit; whoever lets numbers leave gives a name, which the ledger has."""
    stores = [party.folder / f"{name}.store" for name in there]
    with pytest.raises(StoreFailed, match="Nobody has shown"):
        stored_parts(stores[0], party.charter)
    assert "--approve NAME" in answer_to(stores[0], give(stores[0], Propose("show")))
    assert "their sum would be known" in answer_to(stores[0], give(stores[0], Propose("show", seats=(there[0],))))
    assert "voted" in answer_to(stores[0], give(stores[0], Propose("show", approver="Kim")))
    name = party.asked(there[0])["decisions"]["pending"][0]["motion"]
    for store in stores[1:]:
        assert until(lambda store=store: name in (answer_to(store, give(store, Vote(name, "Lee"))) or ""))
    assert until(lambda: len(party.sums(there[1]).get("audit", ())) == 3 and shown(party, there[1]))
    parts = stored_parts(stores[1], party.charter)
    for name, part in parts.items():
        np.testing.assert_allclose(part.contribution["mean"][0][: party.dimension], party.total([name]), atol=3e-6)
    entries = [Ledger(store.with_suffix(".ledger")).entries()[-1] for store in stores]
    assert [entry.approver for entry in entries] == ["Kim", "Lee", "Lee"]
    assert [entry.rows for entry in entries] == [20] * 3


def shown(party, name):
    return all("20 rows; consistent with data" in line for line in party.sums(name)["audit"])


def remove(name):
    return Propose("remove", name)
