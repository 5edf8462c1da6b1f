"""What groups that open only sums refuse, what an agent does after a loss, and what people are told."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from groups import ballot_on, gaussian_charter, identities, seated
from summing_groups import SEATS, summing_charter, vector

import decbayes as db
from decbayes.errors import InvalidCharter, InvalidData, Refused, StoreFailed
from decbayes.models.core.evaluation import hold_back
from decbayes.network import Admit, Agent, Charter, Persist, Remove, Rules, SqliteStore, SumRules, sign_record
from decbayes.network.protocol.group.ballots import check_words, open_ballot
from decbayes.network.protocol.group.motions import Open, PriorPart
from decbayes.network.protocol.sums import Packet, Participation, SumPart, packet_from
from decbayes.network.protocol.sums.participation import HALF, LOST, OTHERS
from decbayes.network.protocol.talk.messages import Packets, encode
from decbayes.network.runtime.proposals import question_of
from decbayes.network.runtime.reports.description import about_members, answered, problems, status_of, sum_lines
from decbayes.network.runtime.reports.log import sentence
from decbayes.network.runtime.reports.metrics import metrics_text
from decbayes.network.runtime.reports.watching import network_view
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.topology import TOPOLOGIES
from decbayes.secure import Message
from decbayes.secure.anchored import STATISTICS

KEYS = identities(SEATS)


class Group:
    """Agents on links that lose nothing, with three, four, … observations each."""

    def __init__(self, *, start=range(SEATS), charter=None, **rules):
        self.charter = charter or summing_charter(KEYS, **rules)
        self.simulation = Simulation(self.charter, KEYS, rng=np.random.default_rng(0))
        self.sites = self.simulation.sites
        self.data = {site.seat: np.arange(1.0, 4.0 + site.number)[:, None] for site in self.sites}
        self.link()
        for number in start:
            self.begin(number)

    def link(self):
        self.simulation.connect(TOPOLOGIES["clique"](SEATS, self.simulation.rng))

    def cut(self):
        self.simulation.connect(set())

    def begin(self, number):
        site = self.sites[number]
        self.simulation.start(site)
        self.simulation.observe(site, "data", self.data[site.seat])

    def talk(self, rounds=6, *, fit=True):
        for _ in range(rounds):
            self.simulation.round()
            for site in self.simulation.running if fit else ():
                self.simulation.perform(site, site.agent.add_up())
        return self

    def agent(self, number):
        return self.sites[number].agent

    def vote(self, question, *numbers):
        for number in numbers:
            self.simulation.perform(self.sites[number], self.agent(number).propose(question))

    def opened(self, number):
        return self.agent(number).pool.sums.describe()["opened"]

    def total(self, *numbers):
        return sum(vector(self.charter, self.data[self.sites[number].seat]) for number in numbers) / 2**20

    def result(self, number):
        merged = self.agent(number).pool.sums.merged
        return [*merged.posterior.contribution["mean"][0], *(getattr(merged.share, name) for name in STATISTICS)]


def test_a_missing_member_is_removed_and_the_round_begins_again_without_it():
    group = Group(start=range(4)).talk()
    assert group.opened(0) == 0
    assert group.agent(0).pool.sums.describe()["missing"] == ["agent_4"]
    group.vote(Remove("agent_4"), 0, 1, 2)
    group.talk()
    assert [group.opened(number) for number in range(4)] == [2] * 4
    np.testing.assert_array_equal(group.result(0), group.total(0, 1, 2, 3))


def missing_after_a_sum(rounds=20, sums=1):
    """Four agents that wait for a fifth, after at least some sums over all."""
    group = Group(rounds=rounds)
    while group.opened(0) < sums:
        group.talk(1)
    group.simulation.stop(group.sites[4])
    group.talk(3)
    assert group.agent(0).pool.sums.now.current.waiting_for()[0] != "opening"
    return group, group.opened(0)


def test_after_the_first_sum_the_others_go_on_without_a_member_whose_part_stays_as_it_was():
    group, opened = missing_after_a_sum(rounds=4)
    assert group.agent(0).pool.sums.describe()["missing"] == ["agent_4"]
    group.vote(Remove("agent_4"), 0, 1, 2)
    group.talk(8)
    sums = group.agent(0).pool.sums
    assert [group.opened(number) for number in range(4)] == [4] * 4
    assert [len(one.terms.seats) for one in sums.opened.sums] == [5] * opened + [4] * (4 - opened)
    np.testing.assert_array_equal(group.result(0), group.total(0, 1, 2, 3, 4))
    assert sums.describe()["members"] == sorted(site.seat for site in group.sites), "it still counts"
    assert len({group.agent(number).pool.root for number in range(4)}) == 1
    again = Agent(group.charter, KEYS[0], rng=np.random.default_rng(0), saved=group.sites[0].disk.load())
    assert again.posterior().digest == group.agent(0).posterior().digest, "a new start knows all of it"
    group.begin(4)
    group.talk()
    assert group.agent(4).posterior().digest == group.agent(0).posterior().digest


def test_nobody_is_added_and_no_key_replaced_once_a_sum_is_open():
    group, opened = missing_after_a_sum(rounds=8)
    group.vote(Remove("agent_4"), 0, 1, 2)
    for _ in range(10):
        group.talk(1 if group.opened(0) == opened else 0)
    group.begin(4)
    group.vote(Admit("agent_4", KEYS[4].public), 0, 1, 2)
    group.talk(2)
    stands = [group.opened(number) for number in range(4)]
    group.talk(6)
    assert [group.opened(number) for number in range(4)] == stands
    assert group.agent(0).part.why_not == OTHERS


@pytest.fixture
def gone(monkeypatch):
    """Members that mask their numbers in the second round, and never open their part."""
    step, names = Participation.step, set()

    def waits(part):
        chain, gathered, kind = part._turn()
        return kind == "opening" and gathered.number == 2 and part._name(chain) in names

    monkeypatch.setattr(Participation, "step", lambda self, *, ready: None if waits(self) else step(self, ready=ready))
    return names


def test_a_member_that_is_gone_after_it_has_masked_stops_nobody(gone):
    """All others open its last mask. What it has added counts, and the next round is over those who are left."""
    gone.add("agent_4")
    group = Group(rounds=4)
    while group.opened(0) < 2:
        group.talk(1)
    group.simulation.stop(group.sites[4])
    group.talk(8)
    second = group.agent(0).pool.sums.opened.sums[1]
    assert sorted(second.messages["opening"]) == [f"agent_{n}" for n in range(4)]
    assert (second.terms.absent, [group.opened(number) for number in range(4)]) == (1, [2] * 4)
    assert sum_lines(status_of(group.agent(0), str)["sums"])[0].startswith("round 3 of 4: waiting for the ")
    group.vote(Remove("agent_4"), 0, 1, 2)
    group.talk(8)
    assert [group.opened(number) for number in range(4)] == [4] * 4
    assert [(len(one.terms.seats), one.terms.absent) for one in group.agent(0).pool.sums.opened.sums] == [
        (5, 1),
        (5, 1),
        (4, 0),  # a sum over all five could have been begun
        (4, 1),
    ]
    np.testing.assert_array_equal(group.result(0), group.total(0, 1, 2, 3, 4))
    gone.clear()
    group.begin(4)
    group.talk(8)
    assert group.agent(4).posterior().digest == group.agent(0).posterior().digest


def test_whoever_has_opened_its_part_of_a_round_opens_no_other_one_of_it(gone):
    """Two members are gone between their masked numbers and their openings: the round waits for one of them."""
    gone |= {"agent_3", "agent_4"}
    group = Group(rounds=3).talk(8)
    assert sorted(group.agent(0).pool.sums.now.current.messages["opening"]) == [f"agent_{n}" for n in range(3)]
    for number in (3, 4):
        group.simulation.stop(group.sites[number])
    group.vote(Remove("agent_4"), 0, 1, 2)
    group.talk(8)
    assert [group.opened(number) for number in range(3)] == [1] * 3
    assert group.agent(0).part.why_not == HALF
    gone.clear()
    group.begin(3)
    group.talk(10)
    assert [group.opened(number) for number in range(4)] == [3] * 4
    assert [len(one.terms.seats) for one in group.agent(0).pool.sums.opened.sums] == [5, 5, 4]
    np.testing.assert_array_equal(group.result(0), group.total(0, 1, 2, 3, 4))


def test_an_agent_that_knows_only_its_own_part_begins_no_sum_again_over_fewer():
    group, _ = missing_after_a_sum(rounds=5, sums=2)
    group.vote(Remove("agent_4"), 0, 1, 2)
    group.talk(2, fit=False)
    saved = [item for item in group.sites[0].disk.load() if not isinstance(item, Packet)]
    again = Agent(group.charter, KEYS[0], rng=np.random.default_rng(0), saved=saved)
    again.observe(group.data["agent_0"], shard="data", rng=np.random.default_rng(0))
    again.part.synced = True
    assert len(again.pool.sums.now.keys) == 4
    assert again.add_up() == []
    assert again.part.why_not == OTHERS


def test_held_back_rows_are_scored_under_the_same_sums():
    charter = replace(summing_charter(KEYS, rounds=2), rules=Rules(validation=0.4))
    group = Group(charter=charter)
    group.talk(10)
    kept = {name: hold_back(charter.model, rows, share=0.4) for name, rows in group.data.items()}
    alone = {name: charter.model.fit(parts[0]).posterior for name, parts in kept.items()}
    merged = group.agent(0).pool.sums.opened.results[0].posterior
    assert merged == db.merge([*alone.values()], duplicates="allow")
    held = [rows for _, rows in kept.values()]
    scores = [charter.model.log_predictive(merged, rows).sum() for rows in held]
    own = [charter.model.log_predictive(alone[name], rows).sum() for name, (_, rows) in kept.items()]
    found = group.agent(0).pool.sums.merged.share.held_back
    count = sum(map(len, held))
    assert found.units == count
    assert found.score == pytest.approx(sum(scores) / count, abs=1e-5)
    assert found.gain == pytest.approx((sum(scores) - sum(own)) / count, abs=1e-5)
    assert any(line.startswith("held back: ") for line in sum_lines(status_of(group.agent(0), str)["sums"]))


def test_scores_of_few_rows_are_not_added():
    rules = db.disclosure.Rules(least_cell=2, least_observations=2)
    charter = replace(summing_charter(KEYS, rounds=2), rules=Rules(validation=0.4), disclosure=rules)
    group = Group(charter=charter)
    group.talk(10)
    sizes = [len(hold_back(charter.model, rows, share=0.4)[1]) for rows in group.data.values()]
    assert 1 in sizes
    assert group.agent(0).pool.sums.merged.share.held_back.units == sum(size for size in sizes if size > 1)


def test_a_round_that_somebody_present_has_opened_is_finished_whoever_is_removed_meanwhile(monkeypatch):
    step = Participation.step
    monkeypatch.setattr(Participation, "step", lambda self, *, ready: None if waits(self) else step(self, ready=ready))

    def waits(part):
        """Nobody but the first opens yet."""
        chain, _gathered, kind = part._turn()
        return kind == "opening" and part._name(chain) != "agent_0" and part not in free

    free: list = []
    group = Group(rounds=1).talk()
    assert [*group.agent(1).pool.sums.now.sums[0].messages["opening"]] == ["agent_0"]
    group.vote(Remove("agent_4"), 0, 1, 2)
    free += [group.agent(number).part for number in range(SEATS)]
    group.talk()
    assert [group.opened(number) for number in range(4)] == [1] * 4, "otherwise no sum would ever open"
    np.testing.assert_array_equal(group.result(0), group.total(0, 1, 2, 3, 4))


def with_a_lost_disk():
    group = Group(start=range(4)).talk(3)
    site = group.sites[0]
    key = group.agent(1).pool.sums.now.sums[0].messages["key"]["agent_0"]
    group.simulation.lose_disk(site)
    group.begin(0)
    group.talk(3)
    return group, key


def test_an_agent_whose_store_is_lost_takes_part_no_more():
    group, key = with_a_lost_disk()
    assert group.agent(0).part.why_not == LOST
    assert group.agent(1).pool.sums.now.sums[0].messages["key"]["agent_0"] == key
    assert "agent_0" in group.agent(1).pool.roster.sitting, "one key, so nothing is proven against it"
    group.begin(4)
    group.talk()
    assert group.opened(1) == 0


def test_an_agent_that_does_not_listen_first_would_sign_two_keys(monkeypatch):
    monkeypatch.setattr(Participation, "synced", property(lambda self: True, lambda self, value: None), raising=False)
    with pytest.raises(AssertionError):
        test_an_agent_whose_store_is_lost_takes_part_no_more()


def test_an_agent_with_an_old_copy_of_its_store_takes_part_no_more():
    group = Group().talk(3, fit=False)
    site = group.sites[0]
    site.backup = site.disk.load()
    group.simulation.perform(site, site.agent.add_up())
    group.talk(2, fit=False)
    assert [*group.agent(1).pool.sums.now.sums[0].messages["masked"]] == ["agent_0"]
    group.simulation.restore_backup(site)
    group.begin(0)
    group.talk()
    assert group.agent(0).part.why_not == LOST
    assert not group.agent(1).pool.proofs
    assert group.opened(1) == 1, "the others open the part that will never come"
    np.testing.assert_array_equal(group.result(1), group.total(0, 1, 2, 3, 4))


def test_what_has_begun_stays_with_the_data_that_it_began_with():
    group = Group().talk(2)
    agent = group.agent(0)
    with pytest.raises(InvalidData, match="the same data"):
        agent.observe(np.ones((5, 1)), shard="more", rng=np.random.default_rng(0))
    with pytest.raises(InvalidCharter, match="cannot be taken out"):
        agent.retract()


def test_a_contribution_that_all_can_read_is_refused():
    group = Group(start=[0])
    posterior = group.charter.model.fit(np.ones((4, 1))).posterior
    shards = frozenset({"first"})
    record = sign_record(group.charter, KEYS[1], 1, posterior=posterior, shards=shards, observations=4)
    (report,) = group.agent(0).on_record("1", record.content)
    assert report.fields["reason"] == "rules"


def test_there_are_no_epochs():
    charter = summing_charter(KEYS)
    agent = Agent(charter, KEYS[0], rng=np.random.default_rng(0))
    question = Open((PriorPart("agent_0", ("x",), 1, 1),), (), bytes(32))
    ballot = ballot_on(question, seated(charter, KEYS), charter, body=b"x")
    with pytest.raises(Refused, match="no epochs"):
        open_ballot(ballot.content, agent.pool.decisions)


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", encode(Packets())[:3], b"\x92\x90\xc4\x01x"],
    ids=["empty", "junk", "cut", "odd"],
)
def test_bytes_that_are_no_packet_are_refused(content):
    with pytest.raises(Refused):
        packet_from(content)


def test_a_group_without_sums_refuses_their_messages():
    agent = Agent(gaussian_charter(KEYS), KEYS[0], rng=np.random.default_rng(0))
    (report,) = agent.on_bytes("1", encode(Packets((bytes(32),))))
    assert report.fields["reason"] == "envelope"


def test_packets_of_strangers_other_sums_and_unknown_resolutions_are_refused():
    group = Group(start=[0, 1]).talk(3)
    sums = group.agent(0).pool.sums
    key = sums.now.sums[0].messages["key"]["agent_1"]
    for message, after in (
        (replace_message(key, seat="nobody"), ()),
        (replace_message(key, terms=bytes(32)), ()),
        (replace_message(key, body=bytes(31)), ()),
        (replace_message(key, body=bytes(32)), ()),
        (replace_message(key, body=bytes(32)), (bytes(32),)),
        (key, ()),
    ):
        with pytest.raises(Refused):
            sums.open_packet(type(sums.packet(key.digest))(after, message).content)


def replace_message(message, **changed):
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return Message(**{**fields, **changed})


# ---- charters


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        (Rules(robust=True), "robust"),
        (Rules(share=0.5), "share"),
        (Rules(intervals=True), "intervals"),
    ],
)
def test_rules_that_need_single_contributions_are_refused(rules, why):
    with pytest.raises(InvalidCharter, match=why):
        replace(summing_charter(KEYS), rules=rules)


def test_approval_of_single_versions_is_refused():
    charter = summing_charter(KEYS)
    with pytest.raises(InvalidCharter, match="approval"):
        replace(charter, disclosure=db.disclosure.Rules(approval=True))
    with pytest.raises(InvalidCharter, match="approve"):
        Agent(charter, KEYS[0], rng=np.random.default_rng(0), rules=db.disclosure.Rules(approval=True))


@pytest.mark.parametrize(("members", "colluders"), [(2, 1), (4, 3)])
def test_groups_that_are_too_small_are_not_founded(members, colluders, tmp_path):
    charter = summing_charter(KEYS[:members], colluders=colluders)
    with pytest.raises(InvalidCharter, match="members"):
        charter.save(tmp_path / "group.toml")


def test_messages_must_fit_the_limits(tmp_path):
    charter = summing_charter(KEYS)
    with pytest.raises(InvalidCharter, match="record_bytes"):
        replace(charter, limits=replace_limits(charter.limits)).save(tmp_path / "group.toml")


def replace_limits(limits):
    return type(limits)(members=limits.members, record_bytes=8000)


def mixture(anchor=None, components=3):
    settings = {"components": components, "dimension": 1, "variance": 1.0, "prior_variance": 100.0}
    members = {f"agent_{number}": key.public for number, key in enumerate(KEYS[:3])}
    return Charter("clusters", "GaussianMixture", settings, members, sums=SumRules(), anchor=anchor)


def test_models_with_components_need_an_anchor_that_fits(tmp_path):
    with pytest.raises(InvalidCharter, match="anchor"):
        mixture()
    points = np.array([[-5.0], [0.0], [5.0]])
    anchor = db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0).fit(points, rng=0).posterior
    with pytest.raises(InvalidCharter, match="does not fit"):
        mixture(anchor, components=4)
    with pytest.raises(InvalidCharter, match="only sums"):
        replace(mixture(anchor), sums=None)
    charter = mixture(anchor)
    charter.save(tmp_path / "group.toml")
    assert Charter.load(tmp_path / "group.toml") == charter
    assert Charter.load(tmp_path / "group.toml").fingerprint == charter.fingerprint
    assert replace(charter, sums=SumRules(rounds=2)).fingerprint != charter.fingerprint
    db.save(
        db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0).fit(points + 1, rng=0).posterior,
        tmp_path / "group.anchor",
    )
    with pytest.raises(InvalidCharter, match="digest"):
        Charter.load(tmp_path / "group.toml")
    (tmp_path / "group.anchor").unlink()
    with pytest.raises(InvalidCharter, match="not beside it"):
        Charter.load(tmp_path / "group.toml")


@pytest.mark.parametrize("table", ["rounds = 0", "colluders = 0", "most_rows = 0.5"])
def test_rules_of_sums_out_of_range_are_refused(table, tmp_path):
    charter = summing_charter(KEYS)
    charter.save(tmp_path / "group.toml")
    name = table.split()[0]
    lines = (tmp_path / "group.toml").read_text().splitlines()
    (tmp_path / "group.toml").write_text("\n".join(table if line.startswith(f"{name} =") else line for line in lines))
    with pytest.raises(InvalidCharter, match="sums"):
        Charter.load(tmp_path / "group.toml")


# ---- stores and words


def test_a_store_keeps_messages_and_the_own_part_and_counts_what_is_damaged(tmp_path):
    group = Group().talk(2)
    while group.opened(0) < 2:
        group.talk(1)
    saved = group.sites[0].disk.load()
    with SqliteStore(tmp_path / "a.store", group.charter) as store:
        store.put(saved)
    with SqliteStore(tmp_path / "a.store", group.charter) as store:
        again = Agent(group.charter, KEYS[0], rng=np.random.default_rng(0), saved=store.load())
        assert again.posterior().digest == group.agent(0).posterior().digest
        assert again.pool.root == group.agent(0).pool.root
        assert again.part.shards == ("data",)
        store.connection.execute("UPDATE played SET content = x'c1'")
        store.connection.execute("UPDATE packets SET content = 'text' WHERE rowid = 1")
        played = sum(isinstance(item, SumPart) for item in saved)
        store.load()
        assert store.damaged == played + 1
        store.connection.execute("UPDATE played SET content = x'93010203'")
        with pytest.raises(StoreFailed, match="earlier version"):
            store.load()


def test_people_are_told_the_round_who_is_missing_and_what_is_lost():
    group = Group(start=range(3)).talk()
    status = status_of(group.agent(0), str)
    text, lost, instead = sum_lines(status["sums"])
    assert text == "round 1 of 2: waiting for the key of agent_3, agent_4, none open"
    assert "robust weights" in lost
    assert "most_rows" in instead
    assert not [problem for problem in problems(status, status["charter"]) if "sums" in problem]
    group.vote(Remove("agent_4"), 0, 1, 2)
    group.talk()
    group.vote(Remove("agent_3"), 0, 1, 2)
    group.talk()
    assert sum_lines(status_of(group.agent(0), str)["sums"])[0].endswith("2 open over agent_0, agent_1, agent_2")
    remarks = [remark.kind for remark in group.agent(0).posterior().remarks]
    assert remarks == ["only sums"]


def test_monitoring_and_the_page_know_of_sums():
    group = Group().talk(6)
    agent = group.agent(0)
    status = status_of(agent, str) | about_members(agent.pool, agent.merged())
    assert 'decbayes_observations{place="sums"} 25' in metrics_text(status)
    view = network_view(group.charter, status, {})
    assert view["sums"] == sum_lines(status["sums"])
    assert {member["state"] for member in view["members"]} == {"counted"}
    assert answered(agent.pool).description["counted"] == dict.fromkeys(group.charter.members, 2)
    assert sentence({"event": "summed", "step": "key", "round": 1, "seats": 5}).startswith(
        "this agent has sent its key"
    )
    opened = sentence({"event": "opened", "opened": 1, "rounds": 2})
    assert opened == "round 1 of 2 is open: the sum over all members"


def test_a_group_that_has_become_too_small_says_so():
    group = Group(start=range(3), colluders=3).talk(2)
    group.vote(Remove("agent_4"), 0, 1, 2)
    group.talk()
    status = status_of(group.agent(0), str)
    assert any("At least 5 members are needed" in problem for problem in problems(status, status["charter"]))
    assert group.opened(0) == 0


def test_numbers_beyond_the_grid_are_withheld_not_sent():
    group = Group(start=range(4))
    group.data["agent_4"] = np.full((4, 1), 1e13)
    group.begin(4)
    group.talk()
    assert group.agent(4).withheld
    assert "agent_4" not in group.agent(0).pool.sums.now.sums[0].messages["masked"]


def test_own_parts_are_durable_before_they_are_sent():
    agent = Agent(summing_charter(KEYS), KEYS[0], rng=np.random.default_rng(0))
    agent.observe(np.ones((3, 1)), shard="data", rng=np.random.default_rng(0))
    assert agent.add_up() == [], "nothing is begun before a neighbour has told what it knows"
    agent.part.synced = True
    (persist,) = agent.add_up()
    assert isinstance(persist, Persist)
    assert isinstance(persist.item, SumPart)
    assert agent.pool.sums.entries() == []
    agent.on_persisted(persist.item)
    assert len(agent.pool.sums.entries()) == 1


def test_words_join_no_group_that_opens_only_sums_and_its_members_are_told_what_to_do():
    points = np.array([[-5.0], [0.0], [5.0]])
    charter = mixture(db.GaussianMixture(3, 1, variance=1.0, prior_variance=100.0).fit(points, rng=0).posterior)
    wanted = SimpleNamespace(kind="words", words=("anchor",))
    with pytest.raises(InvalidCharter, match="Start a group with the longer list"):
        question_of(wanted, charter)
    with pytest.raises(Refused, match="Start a group with the longer list"):
        check_words(("anchor",), charter)
