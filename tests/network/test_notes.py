"""What members say of a merge beside their evidence: it calibrates that merge, no other, and changes nothing in it."""

from dataclasses import replace

import numpy as np
import pytest
from groups import gaussian_charter, identities
from parties import Means, until

import decbayes as db
from decbayes.errors import Refused
from decbayes.models.core.evaluation import hold_back
from decbayes.network import Agent, Charter, Limits, Rules, SqliteStore, sign_record, verify
from decbayes.network.protocol.records.notes import Note, information_on, obstacle
from decbayes.network.protocol.records.pool import Pool
from decbayes.network.protocol.records.record import body_of
from decbayes.network.protocol.records.verification import open_record
from decbayes.network.runtime.store import stored
from decbayes.network.simulation.simulator import CALM, Simulation
from decbayes.network.simulation.topology import clique

MEMBERS = identities(3)
BOTH = Rules(intervals=True, validation=0.1)


def overlapping_group(rng, rules=BOTH, points=80) -> Simulation:
    """Two clusters that overlap, at three sites."""
    charter = Charter(
        group="clusters",
        model_name="GaussianMixture",
        settings={"components": 2, "dimension": 1, "variance": 0.25, "prior_variance": 4.0},
        members={f"site {number}": member.public for number, member in enumerate(MEMBERS)},
        limits=Limits(members=4),
        rules=rules,
    )
    simulation = Simulation(charter, MEMBERS, rng=rng, weather=CALM)
    simulation.links = clique(len(MEMBERS), rng)
    for site in simulation.sites:
        site.shards["own"] = rng.normal(np.array([-0.7, 0.7])[rng.integers(2, size=(points, 1))], 0.5)
        simulation.start(site)
    talk(simulation)
    return simulation


def talk(simulation: Simulation, rounds: int = 4) -> None:
    for _ in range(rounds):
        simulation.round()


def refine(simulation: Simulation, rng, times: int = 6) -> None:
    for _ in range(times):
        for site in simulation.sites:
            simulation.perform(site, site.agent.refine(rng=rng))
            talk(simulation, 1)
    talk(simulation)


def look(simulation: Simulation) -> None:
    for site in simulation.sites:
        simulation.perform(site, site.agent.attach(site.agent.look()))
    talk(simulation)


def test_members_calibrate_their_merge_as_all_data_in_one_place_would(rng):
    simulation = overlapping_group(rng)
    refine(simulation, rng)
    merged = simulation.sites[0].agent.posterior()
    assert "not published a note" in simulation.sites[0].agent.pool.believed().why
    look(simulation)
    beliefs = [site.agent.pool.believed() for site in simulation.sites]
    assert len({belief.posterior.digest for belief in beliefs}) == 1, "the same bits everywhere"
    assert (beliefs[0].why, beliefs[0].stale) == ("", ())
    model = simulation.charter.model
    kept = [hold_back(model, site.shards["own"], share=0.1)[0] for site in simulation.sites]
    expected = db.calibrate(model, [np.concatenate(kept)], merged)
    found = beliefs[0].posterior
    assert found.uncertainty == "calibrated by linear response, 3 sites"
    np.testing.assert_allclose(found.deviation("components"), expected.deviation("components"), rtol=1e-9)
    assert (found.deviation("components") > 1.1 * merged.deviation("components")).all(), "mean field is too narrow here"


def test_what_members_hold_back_scores_the_merge_and_overlaps_are_told(rng):
    simulation = overlapping_group(rng, Rules(validation=0.1))
    look(simulation)
    pool = simulation.sites[0].agent.pool
    belief, model = pool.believed(), simulation.charter.model
    held = np.concatenate([hold_back(model, site.shards["own"], share=0.1)[1] for site in simulation.sites])
    assert belief.scores is not None
    assert belief.scores.observations == len(held) == 24
    np.testing.assert_allclose(belief.scores.score("merged"), model.score(belief.posterior, held), rtol=1e-12)
    assert set(belief.overlaps) == {record.origin for record in pool.counted()}
    assert all(((shares > 0.5) & (shares <= 1.0)).all() for shares in belief.overlaps.values())
    assert belief.why == "the charter has no rule `intervals`"
    assert all(record.note.information is None for record in pool.counted())


def test_notes_about_an_earlier_merge_are_passed_over_and_said_so(rng):
    simulation = overlapping_group(rng)
    look(simulation)
    assert simulation.sites[0].agent.pool.believed().why == ""
    simulation.observe(simulation.sites[2], "more", rng.normal(size=(30, 1)))
    talk(simulation)
    belief = simulation.sites[0].agent.pool.believed()
    assert belief.posterior.calibration is None
    assert belief.why == "3 of 3 members have not published a note on this merge yet"
    assert len(belief.stale) == 3
    assert belief.scores is None


def test_a_note_changes_no_merge_and_is_not_said_twice(rng):
    simulation = overlapping_group(rng)
    agent = simulation.sites[0].agent
    before, evidence = agent.merged(), agent.pool.evidence_digest
    look(simulation)
    after = agent.merged()
    assert after.alignment is before.alignment, "nothing was merged again"
    assert (after.posterior, agent.pool.evidence_digest) == (before.posterior, evidence)
    assert after.set_hash != before.set_hash
    assert agent.attach(agent.look()) == []
    assert agent.version == agent.pool.version(agent.id)


def test_what_was_seen_of_another_merge_is_not_said(rng):
    simulation = overlapping_group(rng)
    site = simulation.sites[0]
    seen = site.agent.look()
    simulation.observe(simulation.sites[1], "more", rng.normal(size=(30, 1)))
    talk(simulation)
    assert site.agent.attach(seen) == []


def test_a_record_that_comes_while_own_data_are_looked_at_is_not_missed(rng, monkeypatch):
    """The look is in a thread of its own; it once left the hash of what it had seen with the agent."""
    simulation = overlapping_group(rng)
    agent, counted = simulation.sites[0].agent, Pool.counted
    record = agent.pool.records.pop(MEMBERS[2].id)
    agent.pool._changed()

    def meanwhile(pool):
        records = list(counted(pool))
        if MEMBERS[2].id not in agent.pool.records:
            agent.pool.add(record)
        return iter(records)

    monkeypatch.setattr(Pool, "counted", meanwhile)
    seen = agent.look()
    assert agent.pool.evidence_digest == agent.pool.as_of_now().evidence_digest
    assert agent.attach(seen) == [], "it is of the merge before"


@pytest.mark.parametrize(
    ("rules", "points", "why"),
    [
        (BOTH, 5, "too few observations"),
        (Rules(intervals=True, robust=True), 80, "not the sum"),
        (Rules(intervals=True, share=0.5), 80, "not the sum"),
        (Rules(), 80, "no rule"),
    ],
)
def test_where_a_merge_cannot_be_calibrated_the_reason_is_said(rules, points, why, rng):
    simulation = overlapping_group(rng, rules, points)
    look(simulation)
    belief = simulation.sites[0].agent.pool.believed()
    assert belief.posterior.calibration is None
    assert why in belief.why


def test_topics_on_a_network_say_that_they_take_refits(rng):
    settings = {"topics": 2, "vocabulary": ("a", "b", "c")}
    keys = {"one": identities(1)[0].public}
    charter = Charter("words", "LatentDirichletAllocation", settings, keys, rules=Rules(intervals=True))
    assert "calibrated by refits of all data" in obstacle(charter)


def test_a_matrix_that_would_fill_a_record_is_not_sent(rng):
    simulation = overlapping_group(rng)
    site, charter = simulation.sites[0], simulation.charter
    data, merged = site.shards["own"], site.agent.posterior()
    assert information_on(charter, merged, data) is not None
    assert information_on(replace(charter, limits=Limits(members=4, record_bytes=8 * 36 - 1)), merged, data) is None


def checked(charter, note):
    """What others make of a record with that note."""
    posterior = charter.model.fit(np.ones((9, 1)), rng=np.random.default_rng(0)).posterior
    record = sign_record(
        charter, MEMBERS[0], 1, posterior=posterior, shards=frozenset({"s"}), observations=9, note=note
    )
    return verify(open_record(record.content, charter), charter)


class Odd(Note):
    """A note with parts that no agent would write."""

    def __init__(self, **parts):
        object.__setattr__(self, "parts", {f"note/{name}": np.asarray(part) for name, part in parts.items()})

    def arrays(self):
        return {"note/at": np.zeros(8, "<i4"), **self.parts}


@pytest.mark.parametrize(
    "parts",
    [
        {"overlaps": [1.5]},
        {"overlaps": [np.nan]},
        {"overlaps": [[0.5]]},
        {"overlaps": np.array([1], "<i4")},
        {"step": [1.0, 2.0], "slope": [1.0, 2.0]},
        {"slope": [1.0]},
        {"step": [np.inf], "slope": [1.0]},
        {"scores": np.zeros(20)},
        {"scores": np.zeros(21)},
        {"scores": np.r_[5.5, 5.0, np.zeros(19)]},
        {"scores": np.r_[5.0, 0.0, np.ones(19)]},
        {"scores": np.r_[5.0, 5.0, np.full(19, 1e31)]},
        {"overlaps": [0.5, 0.5]},
        {"step": [1e16], "slope": [1.0]},
        {"step": [1.0], "slope": [-1e31]},
        {"other": [1.0]},
        {"at": np.zeros(7, "<i4")},
        {"at": np.zeros(8)},
        {"overlaps": np.zeros(0)},
    ],
)
def test_notes_that_no_agent_writes_are_refused(parts):
    charter = gaussian_charter(MEMBERS, rules=BOTH)
    assert checked(charter, Note("ab" * 32)).note.at == "ab" * 32
    assert checked(charter, Odd(scores=np.r_[5.0, 5.0, np.zeros(19)])).note.scores.observations == 5
    with pytest.raises(Refused, match="shape"):
        checked(charter, Odd(**parts))


def test_a_group_that_asks_for_no_notes_takes_none():
    with pytest.raises(Refused, match="canonical"):
        checked(gaussian_charter(MEMBERS), Note("ab" * 32))


def test_a_note_that_others_would_refuse_does_not_keep_evidence_from_being_heard(rng):
    simulation = overlapping_group(rng)
    site = simulation.sites[0]
    before = site.agent.version
    seen = site.agent.look()
    simulation.perform(site, site.agent.attach(replace(seen, note=replace(seen.note, overlaps=np.array([2.0])))))
    talk(simulation)
    assert not site.agent.waiting
    assert site.agent.version > before
    assert any(report.event == "not_published" for _, _, report in simulation.reports)
    assert simulation.sites[1].agent.pool.records[site.agent.id].note is None


def test_notes_outlive_the_process(tmp_path, rng):
    simulation = overlapping_group(rng)
    look(simulation)
    agent = simulation.sites[0].agent
    records = list(agent.pool.counted())
    with SqliteStore(tmp_path / "a.store", simulation.charter) as store:
        store.put(records)
        saved = store.load()
    answer = stored(tmp_path / "a.store", simulation.charter)
    assert answer.posterior == agent.pool.believed().posterior
    assert answer.description["intervals"].startswith("calibrated by linear response, 3 sites")
    again = Agent(simulation.charter, MEMBERS[0], rng=rng, saved=saved)
    again.learn(simulation.sites[0].shards["own"], shard="own", rng=rng)
    assert again.attach(again.look()) == [], "it has said so already"
    own = again.pool.records[agent.id]
    assert body_of(simulation.charter, agent.evidence.posterior.contribution, own.note) == own.body


@pytest.mark.xdist_group("sockets")
@pytest.mark.timeout(120)
def test_a_running_group_answers_with_an_exact_posterior_of_an_exact_model(tmp_path):
    with Means(tmp_path, 2, rules=Rules(intervals=True)) as party:
        party.join("agent 0")
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"}, timeout=10.0)
        assert until(lambda: "not calibrated" not in party.stored("agent 1").posterior.uncertainty)
        party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"}, timeout=10.0)
        assert party.stored("agent 1").posterior.uncertainty == "exact"
