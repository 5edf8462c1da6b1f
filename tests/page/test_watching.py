"""What an agent shows: its neighbours as they come and go, what becomes of components, at little cost."""

import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest
from groups import ballot_on, gaussian_charter, identities, seated

import decbayes as db
from decbayes.cli.commands.network.agent import scorer
from decbayes.errors import DecbayesError, NotCalibrated
from decbayes.merging.reading import Curve, Reliability
from decbayes.models.core.evaluation import hold_back
from decbayes.network import Agent, Charter, Limits, Rules, persist_first
from decbayes.network.protocol.records.accounts import next_epoch
from decbayes.network.protocol.records.merges import Merged
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.runtime.reports import watching
from decbayes.network.runtime.reports.description import about_members, status_of
from decbayes.network.runtime.reports.log import SENTENCES, sentence
from decbayes.network.runtime.reports.watching import REST, Showing, Watcher, changes, network_view


@dataclass
class Shown:
    values: dict = field(default_factory=dict)
    events: list = field(default_factory=list)
    alive: bool = True

    def show(self, name, value):
        self.values[name] = value

    def tell(self, event):
        self.events.append(event)


@pytest.fixture
def agent(rng):
    keys = identities(4)
    return Agent(gaussian_charter(keys), keys[0], rng=rng)


def neighbour(name, **told):
    known = {"silent": False, "behind": False, "seconds_ago": 0.2, "software": "1", "charter": "same"}
    return {"member": name, "address": "127.0.0.1:1", **known, **told}


def status(agent, *neighbours):
    told = status_of(agent, str) | about_members(agent.pool, None)
    return told | {"neighbours": [*neighbours]}


def links(page):
    return {member["name"]: member["link"] for member in page.values["network"]["members"]}


def test_neighbours_come_are_silent_and_go_and_others_are_only_heard_of(agent):
    page = Shown()
    watcher = Watcher(page)
    watcher.look(agent, status(agent, neighbour("agent 1"), neighbour("agent 2", seconds_ago=30.0)))
    assert links(page) == {"agent 0": "self", "agent 1": "up", "agent 2": "silent", "agent 3": "none"}
    assert page.values["network"]["links"] == [["agent 0", "agent 1"], ["agent 0", "agent 2"]]
    assert [event["event"] for event in page.events] == ["joined", "joined"]
    watcher.look(agent, status(agent, neighbour("agent 2")))
    assert links(page)["agent 1"] == "gone"
    assert page.events[-1] == {
        "event": "left", "member": "agent 1", "text": "agent 1 is gone; its contribution still counts"
    }  # fmt: skip
    watcher.look(agent, status(agent, neighbour("agent 1"), neighbour("agent 2")))
    assert links(page)["agent 1"] == "up"
    assert page.values["health"] == []
    assert "decbayes_neighbours 2" in page.values["metrics"]


def test_what_needs_a_look_is_on_the_page(agent):
    told = status(agent, neighbour("agent 1", charter="another"), neighbour(None))
    view = network_view(agent.charter, told, {})
    assert view["strangers"] == 1
    assert "agent 1 has another charter" in view["problems"]
    assert any("has not shown which member" in text for text in view["problems"])


def test_the_page_rests_many_times_as_long_as_it_has_worked(agent):
    watcher = Watcher(Shown())
    assert watcher.due(b"new")
    watcher._rest(0.5)  # the first time, which is mostly loading
    assert watcher._next < time.monotonic() + 1.0
    watcher._rest(0.5)
    assert watcher._next == pytest.approx(time.monotonic() + REST * 0.5, abs=1.0)
    assert 1.0 / (1.0 + REST) < 0.05
    assert not watcher.due(b"new")
    watcher._next = 0.0
    assert watcher.due(b"new")
    watcher.page.alive = False
    assert not watcher.due(b"new")
    assert [watcher.lost(), watcher.lost()] == [True, False]


@pytest.mark.parametrize("error", [DecbayesError, np.linalg.LinAlgError])
def test_a_merge_that_fails_is_told_and_ends_nothing(error, agent, monkeypatch):
    def fail(_):
        raise error("too wide")

    page = Shown()
    watcher = Watcher(page)
    monkeypatch.setattr(Pool, "merged", fail)
    watcher.merge(agent)
    assert page.values["posterior"] == {"error": "too wide"}
    assert not watcher._busy


def test_what_became_of_components_is_told_by_their_numbers(rng):
    model = db.GaussianMixture(4, 1, variance=1.0, prior_variance=400.0)

    def fit(*centres):
        points = np.concatenate([rng.normal(centre, 1.0, size=(30, 1)) for centre in centres])
        return model.fit(points, rng=rng).posterior

    first = db.align([fit(0.0, 20.0)])
    before = first.merged()
    later = db.align([fit(0.0, 20.0), fit(0.0, 60.0)]).since(before)
    (new,) = np.flatnonzero(np.abs(later.merged().mean("components")[:, 0] - 60.0) < 3.0)
    assert ("born", f"component {new} is new") in [*changes(before, later)]
    assert [*changes(before, first.since(before))] == []


def test_a_component_that_takes_anothers_number_is_not_new_and_gone_at_once(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=400.0)

    def fit(*centres):
        points = np.concatenate([rng.normal(centre, 1.0, size=(30, 1)) for centre in centres])
        return db.align([model.fit(points, rng=rng).posterior])

    before = fit(0.0, 40.0).merged()
    later = fit(0.0, -40.0).since(before)
    texts = [text for _, text in changes(before, later)]
    (number,) = np.flatnonzero(np.abs(later.merged().mean("components")[:, 0] + 40.0) < 3.0)
    assert texts == [f"component {number} is replaced"]


def test_a_page_goes_on_into_the_next_epoch(rng):
    """The next epoch has another prior, and its components stay where they are."""
    keys = identities(2)
    settings = {"components": 2, "dimension": 1, "variance": 0.5, "prior_variance": 20.0}
    members = {f"agent {number}": key.public for number, key in enumerate(keys)}
    charter = Charter("clusters", "GaussianMixture", settings, members, limits=Limits(members=8))
    page = Shown()
    showing = Showing(page, lambda posterior: charter.model.score(posterior, [[-3.0], [3.0]]))
    agent, disk = Agent(charter, keys[0], rng=rng), SimpleNamespace(put=lambda items: None)
    agent._publisher.synced = True
    for part in range(2):
        points = np.concatenate([rng.normal(-3.0, 0.5, 20), rng.normal(3.0, 0.5, 20)])
        persist_first(agent, agent.observe(points, shard=f"part {part}", rng=rng), disk)
        showing(agent.charter, agent.merged(), ["agent 0"])
        shown = page.values["posterior"]
        means = sorted(component["drawing"]["mean"][0] for component in shown["components"])
        assert means == pytest.approx(sorted(agent.posterior().mean("components")[:, 0]), rel=1e-3)
        assert shown["observations"] == 40 * (part + 1), "with those in the prior"
        assert np.isfinite(shown["score"])
        question, body = next_epoch(agent.pool)
        ballot = ballot_on(question, seated(charter, keys), charter, agent.pool.decisions.settled.values(), body)
        persist_first(agent, agent.on_ballot("b", ballot.content), disk)
        assert agent.charter.epoch is not None


def clusters_of_two(rng):
    model = db.GaussianMixture(2, 1, variance=0.5, prior_variance=20.0)
    points = [np.concatenate([rng.normal(-3.0, 0.5, 20), rng.normal(3.0, 0.5, 20)])[:, None] for _ in range(2)]
    return db.align([model.fit(own, rng=rng).posterior for own in points])


def test_matches_have_probabilities_when_nothing_has_come_in_for_a_while(agent, rng, monkeypatch):
    page, found, asked = Shown(), clusters_of_two(rng), []
    known = Reliability(Curve(1.0, (0.0,) * 3), Curve(1.0, (0.0,) * 4), 100, 0.9, 0.5)
    watcher = Watcher(page, learn=lambda alignment: asked.append(alignment) or known)
    rules = SimpleNamespace(robust=False)
    charter = SimpleNamespace(epoch=None, rules=rules, update=SimpleNamespace(whole=lambda posterior: posterior))
    entries = (b"a", 1, b""), (b"b", 1, b"")
    watcher._showing(charter, Merged(found.merged(), entries, 80, "set", found), ["a", "b"])
    watcher._described = time.monotonic()
    assert page.values["posterior"]["sureness"] == "margin"
    watcher.look(agent, status(agent))
    assert not watcher._busy
    monkeypatch.setattr(watching, "QUIET_SECONDS", 0.0)
    for _ in range(100):
        watcher.look(agent, status(agent))
        if page.values["posterior"]["sureness"] == "probability":
            break
        time.sleep(0.05)
    cells = [cell for component in page.values["posterior"]["components"] for cell in component["cells"]]
    assert [cell["match"] for cell in cells] == pytest.approx([0.731] * 4, abs=1e-3)
    watcher.look(agent, status(agent))
    assert len(asked) == 1


@pytest.mark.parametrize("error", [NotCalibrated, np.linalg.LinAlgError, FloatingPointError])
def test_where_probabilities_cannot_be_learned_margins_stay(error, rng):
    page, found = Shown(), clusters_of_two(rng)

    def refused(alignment):
        raise error("no")

    showing = Showing(page, learn=refused)
    update = SimpleNamespace(whole=lambda each: each)
    charter = SimpleNamespace(epoch=None, rules=SimpleNamespace(robust=False), update=update)
    showing(charter, Merged(found.merged(), ((b"a", 1, b""), (b"b", 1, b"")), 80, "set", found), ["a", "b"])
    assert showing.wants_to_learn
    showing.learn()
    assert not showing.wants_to_learn
    assert page.values["posterior"]["sureness"] == "margin"


def test_the_page_says_how_many_observations_a_robust_merge_counts(rng):
    page, found = Shown(), clusters_of_two(rng)
    update, epoch = SimpleNamespace(whole=lambda each: each), SimpleNamespace(observations=20)
    charter = SimpleNamespace(epoch=epoch, rules=SimpleNamespace(robust=True), update=update)
    merged = Merged(found.merged(), ((b"a", 1, b""), (b"b", 1, b"")), 80, "set", found)
    for counting, expected in ((None, None), (50, 70)):
        Showing(page)(charter, replace(merged, counting=counting), ["a", "b"])
        shown = page.values["posterior"]
        assert (shown["observations"], shown.get("counting")) == (100, expected)


def test_the_charter_may_ask_for_another_number_of_components(rng):
    keys = identities(1)
    settings = {"components": 3, "dimension": 1, "variance": 0.5, "prior_variance": 20.0}
    charter = Charter(
        "g", "GaussianMixture", settings, {"a": keys[0].public}, rules=Rules(components=2, validation=0.1)
    )
    agent = Agent(charter, keys[0], rng=rng)
    agent._publisher.synced = True
    points = np.concatenate([rng.normal(-3.0, 0.5, 60), rng.normal(3.0, 0.5, 60)])[:, None]
    persist_first(agent, agent.observe(points, rng=rng), SimpleNamespace(put=lambda items: None))
    page, score = Shown(), scorer(charter, [points], None, 0)
    Showing(page, score)(charter, agent.merged(), ["a"])
    assert len(page.values["posterior"]["components"]) == 2
    # The score is that of what the site has kept out of its fit, as the model itself says.
    held = hold_back(charter.model, points, share=0.1)[1]
    two = charter.model.sized(2)
    assert page.values["posterior"]["score"] == pytest.approx(two.score(agent.posterior(), held))
    assert scorer(charter, [points[:20]], None, 0) is None, "a score of two observations would tell about them"


def test_lines_of_the_log_become_sentences():
    line = {"member": "a", "version": 1, "observations": 1234, "why": "b", "reason": "c", "text": "d", "messages": 5}
    assert all("{" not in sentence({"event": event, "charter": "e", **line}) for event in SENTENCES)
    assert "1,234 observations" in sentence({"event": "accepted", **line})
    assert sentence({"event": "not_seen_before", "why": "because"}) == "not seen before: because"
    assert sentence({"event": "accepted"}) == "accepted", "a line that lacks something is no reason to stop"
