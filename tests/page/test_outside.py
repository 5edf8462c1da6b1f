"""Demonstrations and simulations on a page: what is shown is what the agents hold."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest

from decbayes.cli.commands.planning._simulation import SimulationPage
from decbayes.demo.digits import SITES, Digits, Story
from decbayes.demo.events import Events
from decbayes.demo.page import Broadcast
from decbayes.network import Agent, Identity, SqliteStore, persist_first
from decbayes.network.protocol.records.accounts import accounts
from decbayes.network.runtime.queues import Worker
from decbayes.network.simulation.schedule import ROUGH, History, HistoryPlan
from decbayes.page.describing import Arrivals


@dataclass
class Shown:
    """A page that nobody looks at."""

    values: dict = field(default_factory=dict)
    events: list = field(default_factory=list)

    def show(self, name, value):
        self.values[name] = json.loads(json.dumps(value, allow_nan=False))

    def tell(self, event):
        self.events.append(event)


def test_a_record_comes_through_a_neighbour_that_has_it():
    arrivals, links = Arrivals(), [("c", "d"), ("a", "b"), ("b", "c")]
    assert [event["event"] for event in arrivals.news({"a": {"a": 5}, "b": {}, "c": {}}, links)] == ["published"]
    (first,) = arrivals.news({"a": {"a": 5}, "b": {"a": 5}, "c": {}}, links)
    assert (first["member"], first["through"], first["to"]) == ("a", "a", "b")
    (second,) = arrivals.news({"a": {"a": 5}, "b": {"a": 5}, "c": {"a": 5}}, links)
    assert (second["through"], second["to"]) == ("b", "c")
    assert list(arrivals.news({"a": {"a": 5}, "b": {"a": 5}, "c": {"a": 5}}, links)) == []


def test_a_simulation_shows_who_is_up_and_the_largest_set_there_is():
    page, history = Shown(), History(HistoryPlan(6, 40, "ring", ROUGH, faults=True), 2)
    show = SimulationPage(page, history)
    for _ in range(40):
        history.step()
        show()
        running = {f"site {site.name}" for site in history.simulation.running}
        network = page.values["network"]
        assert {member["name"] for member in network["members"] if member["link"] == "up"} == running
        assert len(network["links"]) == len(history.simulation.links)
    most = max(accounts(site.agent.pool).observations for site in history.simulation.running)
    assert page.values["posterior"]["observations"] == most > 0
    assert page.values["posterior"]["rows"]


def test_the_demonstration_shows_its_digits(tmp_path, monkeypatch):
    monkeypatch.setattr(Worker, "submit", lambda self, job: job())
    digits = Digits.load(0)
    events = Events(Party(tmp_path, digits), Story(digits))
    page = Shown()
    broadcast = Broadcast(page, events)
    broadcast()
    assert {member["link"] for member in page.values["network"]["members"]} == {"none"}

    events.watched[SITES[0]].inquiry, events.watched[SITES[0]].state = object(), "up"
    events.watched[SITES[0]].status = {"agent": SITES[0], "neighbours": [], "root": "r", "heard": {SITES[0]: 3}}
    events.watched[SITES[3]].state = "killed"
    events.story.add_event(f"{SITES[3]} is killed; its contribution still counts")
    broadcast()
    told = {member["name"]: member["link"] for member in page.values["network"]["members"]}
    assert (told[SITES[0]], told[SITES[3]], told[SITES[7]]) == ("up", "gone", "none")
    assert [event["event"] for event in page.events] == ["left", "published"]
    shown = page.values["posterior"]
    assert {component["drawing"]["kind"] for component in shown["components"]} <= {"image", "hidden"}
    assert shown["observations"] == len(digits.shards[SITES[0]])
    assert shown["score"] == pytest.approx(digits.score(events.party.posterior))


class Party:
    """The first site's store, as its agent would have left it."""

    def __init__(self, folder, digits):
        from decbayes.demo.events import prepare

        party = prepare(folder, digits)
        self.folder, self.charter = folder, party.charter
        identity = Identity.load(folder / f"{SITES[0]}.key")
        rng = np.random.default_rng(0)
        with SqliteStore(folder / f"{SITES[0]}.store", self.charter) as store:
            agent = Agent(self.charter, identity, rng=rng)
            agent._publisher.synced = True
            persist_first(agent, agent.observe(digits.shards[SITES[0]], rng=rng), store)
            self.posterior = agent.posterior()
