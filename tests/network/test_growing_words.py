"""A group that adds words to its vocabulary while it runs: decided like any other rule, counted once everywhere."""

from types import SimpleNamespace

import numpy as np
import pytest
from groups import ballot_on, digest, identities, seated
from scipy.sparse import csr_array

from decbayes.errors import InvalidCharter, Refused
from decbayes.network import (
    Admit,
    Agent,
    Amend,
    Charter,
    Extend,
    Limits,
    Rotate,
    Rules,
    SqliteStore,
    open_record,
    persist_first,
    verify,
)
from decbayes.network.protocol.group.decisions import Decisions
from decbayes.network.protocol.site.shards import mark, shard_id
from decbayes.network.runtime.links.ask import is_merge
from decbayes.network.runtime.proposals import question_of
from decbayes.network.runtime.store.offline import stored_pool
from decbayes.network.simulation.guarantees import Violation
from decbayes.network.simulation.schedule import History, HistoryPlan
from decbayes.network.simulation.simulator import Simulation, Weather
from decbayes.network.simulation.topology import clique

MEMBERS = identities(4)
BEGUN = ("anchor", "mast", "rook", "tide")
NEW = ("clock", "mask", "nurse", "pawn", "ward", "zebra")
ALL = BEGUN + NEW
LENGTH = 12


def charter_of(keys, **settings):
    return Charter(
        group="letters",
        id="letters",
        secret=bytes(32),
        model_name="LatentDirichletAllocation",
        settings={"topics": 2, **settings},
        vocabulary=BEGUN,
        members={f"site {number}": key.public for number, key in enumerate(keys)},
        limits=Limits(members=len(keys) + 1, versions=2),
        rules=Rules(compare=1),
    )


def letters(rng, count=5):
    """Word counts over all words that anybody will ever count."""
    return csr_array(rng.multinomial(LENGTH, rng.dirichlet(np.ones(len(ALL))), size=count))


def read(charter, counts):
    """As a site reads its texts: words that do not count are passed over."""
    return csr_array(counts[:, [ALL.index(word) for word in charter.words]])


def group(rng, links=clique, members=3, started=None, **settings):
    keys = MEMBERS[:members]
    simulation = Simulation(charter_of(keys, **settings), keys, rng=rng)
    simulation.read = read
    simulation.links = links(members, rng)
    for site in simulation.sites[:started]:
        simulation.start(site)
        simulation.observe(site, "own", letters(rng))
    talk(simulation)
    return simulation


def talk(simulation, rounds=4):
    for _ in range(rounds):
        simulation.round()


def add(simulation, words, sites=None):
    for site in simulation.sites[:2] if sites is None else sites:
        simulation.perform(site, site.agent.propose(Extend(tuple(sorted(words)))))


def counts_of(posterior):
    """How often each word was counted: the sum over topics."""
    sums = np.ravel(posterior.contribution["topics"].sum(axis=0))
    return dict(zip(posterior.structure.labels["topics"], sums, strict=True))


def occurrences(shards):
    return dict(zip(ALL, np.sum([np.asarray(shard.sum(axis=0)).ravel() for shard in shards], axis=0), strict=True))


def assert_counted(posterior, shards):
    expected = occurrences(shards)
    for word, count in counts_of(posterior).items():
        assert count == pytest.approx(expected[word], abs=1e-6), word


def test_words_are_added_by_a_resolution_and_counted_in_all_files_once(rng):
    simulation = group(rng)
    texts = [site.shards["own"] for site in simulation.sites]
    assert_counted(simulation.sites[0].agent.posterior(), texts)
    add(simulation, ["nurse", "clock"])
    talk(simulation)
    posteriors = [site.agent.posterior() for site in simulation.sites]
    assert posteriors[0].structure.labels["topics"] == (*BEGUN, "clock", "nurse")
    assert posteriors[0] == posteriors[1] == posteriors[2]
    assert_counted(posteriors[0], texts)
    assert simulation.sites[0].agent.merged().observations == 15
    settled = [report.fields["text"] for *_, report in simulation.reports if report.event == "settled"]
    assert settled[0] == "add 2 words to the vocabulary: clock, nurse"


def test_contributions_of_before_count_none_of_the_new_words_and_stay(rng):
    simulation = group(rng)
    gone = simulation.sites[2]
    simulation.stop(gone)
    before = simulation.sites[0].agent.pool.records[gone.identity.id]
    add(simulation, ["nurse"])
    talk(simulation)
    record = simulation.sites[0].agent.pool.records[gone.identity.id]
    assert record.content == before.content
    assert counts_of(record.posterior)["nurse"] == 0.0
    assert counts_of(record.posterior)["mast"] == pytest.approx(occurrences([gone.shards["own"]])["mast"])
    others = occurrences([site.shards["own"] for site in simulation.sites[:2]])
    assert counts_of(simulation.sites[0].agent.posterior())["nurse"] == pytest.approx(others["nurse"])
    # Back again, it hears of the resolution, and counts the word in its own letters.
    simulation.start(gone)
    talk(simulation)
    assert_counted(simulation.sites[0].agent.posterior(), [site.shards["own"] for site in simulation.sites])


def test_a_record_with_words_that_are_not_known_yet_waits_for_the_resolution(rng):
    simulation = group(rng)
    late = Agent(simulation.charter, MEMBERS[2], rng=rng, saved=simulation.sites[2].disk.load())
    add(simulation, ["nurse"])
    talk(simulation)
    pool = simulation.sites[0].agent.pool
    newer = pool.records[MEMBERS[0].id]
    late.on_record("0", newer.content)
    assert late.refused == {"words": 1}
    assert late.pool.version(MEMBERS[0].id) < newer.version
    (ballot,) = pool.decisions.settled.values()
    late.on_ballot("0", ballot.content)
    late.on_record("0", newer.content)
    assert late.pool.records[MEMBERS[0].id].digest == newer.digest


def test_words_that_two_halves_add_at_the_same_time_all_count(rng):
    """Each half counts its own words, names them in its records, and reads those of the other after healing."""
    charter, disk = charter_of(MEMBERS), SimpleNamespace(put=lambda items: None)
    seats = seated(charter, MEMBERS)
    questions = Extend(("mask", "ward")), Extend(("clock", "ward"))
    ballots = [
        ballot_on(question, {seat: seats[seat] for seat in voters}, charter)
        for question, voters in zip(questions, ([*seats][:3], [*seats][1:]), strict=True)
    ]
    agents, texts = [Agent(charter, key, rng=rng) for key in (MEMBERS[0], MEMBERS[3])], [letters(rng), letters(rng)]
    for agent, ballot, text in zip(agents, ballots, texts, strict=True):
        persist_first(agent, agent.on_ballot("x", ballot.content), disk)
        assert len(agent.charter.words) == len(BEGUN) + 2
        effects = agent.on_bytes("x", digest(agent.pool.root, charter))
        persist_first(agent, [*effects, *agent.observe(read(agent.charter, text), shard="own", rng=rng)], disk)
        assert agent.version > 0
    own = [agent.pool.records[agent.id] for agent in agents]
    for agent, ballot, record in zip(agents, ballots[::-1], own[::-1], strict=True):
        agent.on_record("x", record.content)
        assert agent.refused == {"words": 1}
        agent.on_ballot("x", ballot.content)
        agent.on_record("x", record.content)
    one, two = (agent.posterior() for agent in agents)
    assert one == two
    assert one.structure.labels["topics"] == (*BEGUN, "clock", "mask", "ward")
    merged, (first, last) = counts_of(one), map(occurrences, ([texts[0]], [texts[1]]))
    for word in (*BEGUN, "ward"):
        assert merged[word] == pytest.approx(first[word] + last[word]), "both count it"
    assert (merged["mask"], merged["clock"]) == pytest.approx((first["mask"], last["clock"])), "until they read again"


def test_documents_keep_their_name_whichever_words_are_counted_in_them(rng):
    texts = letters(rng)
    narrow, wide = texts[:, :4], texts[:, :7]
    assert shard_id(narrow, b"k") == shard_id(narrow, b"k", 4) == shard_id(wide, b"k", 4)
    assert mark(narrow, b"k") == mark(wide, b"k", 4)
    assert shard_id(wide, b"k", 4) != shard_id(wide, b"k")
    other = texts.toarray()
    other[:, :4] = 0
    # Without a word of the first ones, all words name them.
    assert shard_id(csr_array(other), b"k", 4) != shard_id(csr_array(2 * other), b"k", 4), (
        "without a word of the first ones all words name them"
    )


def test_an_agent_that_starts_again_counts_its_letters_once(rng, tmp_path):
    simulation = group(rng)
    add(simulation, ["nurse"])
    talk(simulation)
    site = simulation.sites[0]
    agent = site.agent
    wide = read(agent.charter, site.shards["own"])
    assert agent.shard_id(wide) == agent.shard_id(read(simulation.charter, site.shards["own"]))
    with SqliteStore(tmp_path / "a.store", simulation.charter) as store:
        store.put([*agent.pool.decisions.in_order(), *agent.pool.records.values()])
        saved, damaged = store.load(), store.damaged
    assert damaged == 0
    again = Agent(simulation.charter, MEMBERS[0], rng=rng, saved=saved)
    assert again.charter.words == (*BEGUN, "nurse")
    assert again.learn(wide, shard="own", rng=rng) is None
    assert again.posterior() == agent.posterior()
    assert not again.narrow
    assert stored_pool(tmp_path / "a.store", simulation.charter).posterior() == agent.pool.posterior()
    assert is_merge(agent.posterior(), simulation.charter)
    assert not is_merge(agent.posterior(), charter_of(MEMBERS[:3], topic_prior=0.5))


def test_a_refinement_counts_the_words_that_were_added(rng):
    simulation = group(rng)
    add(simulation, ["nurse", "ward"])
    talk(simulation)
    for site in simulation.sites:
        simulation.perform(site, site.agent.refine(rng=rng))
    talk(simulation)
    assert_counted(simulation.sites[0].agent.posterior(), [site.shards["own"] for site in simulation.sites])


def test_the_prior_of_an_epoch_is_kept_over_its_own_words(rng):
    simulation = group(rng)
    earlier = [site.shards["own"] for site in simulation.sites]
    for site in simulation.sites[:2]:
        simulation.perform(site, site.agent.propose_epoch())
    talk(simulation)
    add(simulation, ["nurse"])
    talk(simulation)
    new = [letters(rng) for _ in simulation.sites]
    for site, shard in zip(simulation.sites, new, strict=True):
        simulation.observe(site, "later", shard)
    talk(simulation)
    merged = counts_of(simulation.sites[2].agent.posterior())
    assert merged["mast"] == pytest.approx(occurrences([*earlier, *new])["mast"])
    assert merged["nurse"] == pytest.approx(occurrences(new)["nurse"]), "the prior counts none"
    for site in simulation.sites[:2]:
        simulation.perform(site, site.agent.propose_epoch())
    talk(simulation)
    assert counts_of(simulation.sites[2].agent.posterior()) == pytest.approx(merged)


def test_a_fit_that_began_with_fewer_words_is_made_again(rng):
    simulation = group(rng)
    agent = simulation.sites[0].agent
    learned = agent.learn(read(agent.charter, letters(rng)), shard="later", rng=rng)
    assert not agent.outdated(learned)
    add(simulation, ["nurse"])
    talk(simulation)
    agent.publish(agent.correct(frozenset(["own"]), rng=rng))
    assert agent.outdated(learned)
    (report,) = agent.publish(learned)
    assert report.event == "not_published"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("mast",), "count already"),
        (("ward", "clock"), "distinct, sorted"),
        (("a\nb",), "distinct, sorted"),
        ((), "distinct, sorted"),
    ],
)
def test_what_is_no_list_of_new_words_is_refused(rng, words, why):
    agent = group(rng, members=2).sites[0].agent
    with pytest.raises(InvalidCharter, match=why):
        agent.propose(Extend(words))


def test_models_without_a_common_prior_of_words_keep_theirs(rng):
    agent = group(rng, members=2, topic_prior=[0.1, 0.2, 0.3, 0.4]).sites[0].agent
    with pytest.raises(InvalidCharter, match="topic_prior"):
        agent.propose(Extend(("nurse",)))


def test_only_words_that_do_not_count_yet_are_proposed(rng):
    charter = charter_of(MEMBERS[:2], public_documents=[4, 4, 3, 2])
    proposal = SimpleNamespace(kind="words", words=("ward", "mast", "nurse", "ward"))
    assert question_of(proposal, charter) == Extend(("nurse", "ward"))
    with pytest.raises(InvalidCharter, match="count already"):
        question_of(SimpleNamespace(kind="words", words=BEGUN), charter)
    larger = charter.with_words_of({b"1" * 32: ("ward", "nurse")})
    assert larger.words == larger.model.vocabulary == (*BEGUN, "nurse", "ward")
    assert larger.model.public_documents == (4, 4, 3, 2, 1, 1)
    assert larger.founded == charter.structure


def test_a_record_may_not_name_words_in_another_way(rng):
    """Its one encoding: digests that rise, each once, and none that this group has not settled."""
    from decbayes.base.tensors import read_arrays, write_arrays
    from decbayes.network.protocol.records.verification import read_body

    simulation = group(rng)
    add(simulation, ["nurse"])
    talk(simulation)
    add(simulation, ["ward"])
    talk(simulation)
    agent = simulation.sites[0].agent
    own = agent.pool.records[agent.id]
    assert verify(open_record(own.content, agent.charter), agent.charter).words == agent.charter.words_added.keys()
    arrays = dict(read_arrays(own.body))
    for digests in (arrays["words"][::-1], np.r_[arrays["words"], arrays["words"][:8]], arrays["words"][:8]):
        with pytest.raises(Refused) as refusal:
            read_body(write_arrays({**arrays, "words": np.ascontiguousarray(digests)}), agent.charter)
        assert refusal.value.reason in ("shape", "words")


class Letters:
    """What random histories count; words that were added after an epoch are missing from its prior."""

    title = expected = "word counts"

    def __init__(self, exact):
        self.exact = exact

    def charter(self, keys):
        return charter_of(keys)

    def shard(self, rng):
        return letters(rng, 3)

    def check(self, posterior, shards):
        expected = occurrences(shards) if shards else dict.fromkeys(ALL, 0)
        for word, count in counts_of(posterior).items():
            exact = self.exact or word in BEGUN
            if not (abs(count - expected[word]) < 1e-5 if exact else count < expected[word] + 1e-5):
                raise Violation(f"'{word}' counts {count:.3f} instead of {expected[word]}")

    def check_deviations(self, plain, calibrated):
        pass


class Growing(History):
    """A history in which words are added again and again, among all else that happens."""

    def __init__(self, plan, seed):
        super().__init__(plan, seed, study=Letters(exact=seed % 2 == 0))
        self.simulation.read = read

    def question(self, roster):
        if self.rng.random() < 0.5:
            chosen = sorted(map(str, self.rng.choice(NEW, int(self.rng.integers(1, 4)), replace=False)))
            return Extend(tuple(chosen))
        question = super().question(roster)
        if question is None and self.study.exact:
            return Amend(roster.rules, roster.limits, roster.disclosure)
        return question


@pytest.mark.parametrize("seed", [710, 713, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(716, 736))])
def test_random_histories_with_late_packets_end_with_every_word_counted(seed):
    plan = HistoryPlan(agents=4, steps=60, weather=Weather(loss=0.1, duplication=0.2, delay=6), looks=False)
    history = Growing(plan, seed)
    history.run()
    added = [site.agent.charter.words_added for site in history.simulation.running]
    assert seed > 713 or any(added), "these two histories add words"


def test_data_that_were_read_with_more_words_stay_so(rng):
    """A late office has begun to fit when it hears of the words: it reads its letters again, and then fits these."""
    simulation = group(rng, members=2)
    agent, texts = simulation.sites[0].agent, letters(rng)
    narrow = read(agent.charter, texts)
    add(simulation, ["nurse"])
    talk(simulation)
    assert agent.hold(read(agent.charter, texts)) == agent.shard_id(narrow)
    learned = agent.learn(narrow, rng=rng)
    added = counts_of(learned.evidence.posterior)["nurse"] - counts_of(agent.evidence.posterior)["nurse"]
    assert added == pytest.approx(occurrences([texts])["nurse"])


@pytest.mark.parametrize(
    ("question", "stands"), [(Extend(("nurse",)), True), (Admit("site 9", MEMBERS[3].public[::-1]), False)]
)
def test_added_words_stand_when_a_key_that_voted_for_them_is_replaced(question, stands):
    """To take them back would lose what absent members have counted; an admission would fall."""
    charter = charter_of(MEMBERS)
    seats, decisions = seated(charter, MEMBERS), Decisions(charter)
    some = {name: seats[name] for name in ("site 0", "site 1", "site 2")}
    others = {name: seats[name] for name in ("site 0", "site 1", "site 3")}
    decisions.add(ballot_on(question, some, charter, number=1))
    decisions.add(ballot_on(Rotate("site 2", identities(5)[4].public), others, charter, number=2))
    assert len(decisions.settled) == 2
    assert (not decisions.fallen) == stands


def test_data_at_hand_have_a_column_for_each_word_in_force(rng):
    charter = charter_of(MEMBERS[:2])
    agent = Agent(charter, MEMBERS[0], rng=rng)
    name = agent.hold(csr_array(np.array([[1, 0, 2, 0], [0, 3, 0, 1]])))
    ballot = ballot_on(Extend(("nurse",)), seated(charter, MEMBERS[:2]), charter)
    agent.on_ballot("b", ballot.content)
    assert agent.charter.words == (*BEGUN, "nurse")
    assert agent._data.shards[name].toarray().tolist() == [[1, 0, 2, 0, 0], [0, 3, 0, 1, 0]]
