"""What agents publish obeys the group's disclosure rules; what does not stays where it is, and others are told."""

from dataclasses import replace

import numpy as np
import pytest
from groups import ballot_on, charter_of, gaussian_charter, identities, seated
from scipy.sparse import csr_array

import decbayes as db
from decbayes import network
from decbayes.disclosure import Rules
from decbayes.errors import NotDisclosed, Refused
from decbayes.network import Agent, Amend, Charter, Remove, SqliteStore, open_record, sign_record, verify
from decbayes.network.protocol.group.roster import rules_text
from decbayes.network.protocol.records.notes import information_on, note_from, note_of
from decbayes.network.protocol.records.statements import Approval, Statement
from decbayes.network.protocol.site.evidence import learn, nothing, relearn
from decbayes.network.simulation.simulator import CALM, Simulation
from decbayes.network.simulation.topology import clique

MEMBERS = identities(3)
USUAL = Rules()
APPROVED = Rules(approval=True)


def means(rules, **changes) -> Charter:
    return replace(gaussian_charter(MEMBERS), disclosure=rules, **changes)


def group(charter, shards, rng, **options) -> Simulation:
    """A group whose sites have observed these shards, and have talked."""
    simulation = Simulation(charter, MEMBERS[: len(shards)], rng=rng, weather=CALM, **options)
    simulation.links = clique(len(shards), rng)
    for site, data in zip(simulation.sites, shards, strict=True):
        site.shards.update({} if data is None else {"own": data})
        simulation.start(site)
    talk(simulation)
    return simulation


def talk(simulation, rounds=3):
    for _ in range(rounds):
        simulation.round()


def told(simulation, site, event):
    return [report.fields for _, number, report in simulation.reports if (number, report.event) == (site, event)]


def counted(simulation, site=0):
    return {record.origin: record for record in simulation.sites[site].agent.pool.counted()}


# What does not obey is not published


def test_data_of_few_persons_stay_where_they_are_and_the_rest_goes_on(rng):
    simulation = group(means(USUAL), [rng.normal(size=30), rng.normal(size=19), rng.normal(size=25)], rng)
    assert counted(simulation).keys() == {MEMBERS[0].id, MEMBERS[2].id}
    few = simulation.sites[1].agent
    assert few.evidence.shards == frozenset()
    assert few.withheld == "There are 19 observations; a file needs at least 20."
    assert told(simulation, 1, "withheld") == [{"why": few.withheld}], "said once"
    assert few.merged().observations == 55, "it relays and merges all the same"


def test_data_that_are_too_few_alone_go_out_with_later_ones(rng):
    parts = [rng.normal(size=size) for size in (8, 11, 7)]
    simulation = group(means(USUAL), [rng.normal(size=30), parts[0]], rng)
    site = simulation.sites[1]
    simulation.observe(site, "more", parts[1])
    talk(simulation)
    assert len(counted(simulation)) == 1
    simulation.observe(site, "most", parts[2])
    talk(simulation)
    record = counted(simulation)[MEMBERS[1].id]
    assert (record.header.shards, record.header.observations) == (("more", "most", "own"), 26)
    assert site.agent.withheld == ""
    whole = simulation.charter.model.fit(np.concatenate(parts)).posterior
    np.testing.assert_allclose(record.posterior.natural["mean"], whole.natural["mean"], atol=1e-9)


def test_data_that_name_persons_block_no_others(rng):
    columns = {"record number": db.columns.Gaussian(0, 1000), "x": db.columns.Gaussian()}
    charter = replace(charter_of(db.LatentClasses(1, columns=columns), MEMBERS[:2]), disclosure=USUAL)
    good = np.column_stack([rng.integers(5, size=40), rng.normal(size=40)])
    numbered = np.column_stack([np.arange(5000.0, 5040.0), rng.normal(size=40)])
    simulation = group(charter, [numbered, None], rng)
    assert "record number" in simulation.sites[0].agent.withheld
    assert "5000" not in simulation.sites[0].agent.withheld
    simulation.observe(simulation.sites[0], "good", good)
    talk(simulation)
    assert counted(simulation, 1)[MEMBERS[0].id].header.shards == ("good",)
    assert simulation.sites[0].agent.withheld, "what is withheld still is"
    simulation.observe(simulation.sites[0], "part", numbered[:12])
    simulation.observe(simulation.sites[0], "better", good + 0.5)
    talk(simulation)
    shards = counted(simulation, 1)[MEMBERS[0].id].header.shards
    assert shards == ("better", "good"), "a few do not pass among many others"


def test_a_regression_of_few_rows_per_coefficient_is_not_published(rng):
    columns = {f"x{number}": db.columns.Gaussian() for number in range(9)} | {"y": db.columns.Gaussian()}
    charter = replace(charter_of(db.LinearRegression("y", columns=columns), MEMBERS[:2]), disclosure=USUAL)
    simulation = group(charter, [rng.normal(size=(29, 10)), rng.normal(size=(30, 10))], rng)
    assert counted(simulation).keys() == {MEMBERS[1].id}
    assert "10 coefficients of 29 persons" in simulation.sites[0].agent.withheld


def test_a_site_may_be_stricter_than_its_group_and_not_looser(rng):
    def make(*arguments, **options):
        return Agent(*arguments, rules=Rules(least_observations=50, least_cell=2), **options)

    simulation = group(means(Rules(least_cell=7)), [rng.normal(size=30), rng.normal(size=60)], rng, make_agent=make)
    assert simulation.sites[0].agent.rules == Rules(least_observations=50, least_cell=7)
    assert counted(simulation).keys() == {MEMBERS[1].id}
    alone = group(means(None), [rng.normal(size=30), rng.normal(size=60)], rng, make_agent=make)
    assert counted(alone).keys() == {MEMBERS[1].id}, "also where the group has no rules"


# What is published says nothing of few


def far_group(rng, rules, more=0):
    """Two of a site's points are far from all others."""
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1000.0)
    charter = replace(charter_of(model, MEMBERS[:2]), disclosure=rules)
    far = np.append(rng.normal(size=100), [60.0, 61.0])[:, None]
    return group(charter, [far, rng.normal(size=(100, 1))], rng)


def weights(record):
    return np.sort(np.asarray(record.posterior.contribution["weights"])[:, 0])


def test_no_record_holds_a_component_of_few(rng):
    plain, ruled = (counted(far_group(np.random.default_rng(3), rules))[MEMBERS[0].id] for rules in (None, USUAL))
    np.testing.assert_allclose(weights(plain), [2, 100], atol=1e-6)
    np.testing.assert_allclose(weights(ruled), [0, 102], atol=1e-6)


def test_nor_after_a_refit_against_the_others(rng):
    simulation = far_group(rng, USUAL)
    agent = simulation.sites[0].agent
    before = agent.version
    simulation.perform(simulation.sites[0], agent.refine(rng=rng))
    talk(simulation)
    assert agent.version > before
    np.testing.assert_allclose(weights(counted(simulation, 1)[agent.id]), [0, 102], atol=1e-6)


def test_nor_the_difference_of_two_versions(rng):
    """Both components have many; of the new data one point is in the second."""
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1000.0)
    charter = replace(charter_of(model, MEMBERS[:2]), disclosure=USUAL)
    first = np.append(rng.normal(size=50), rng.normal(60, 1, size=50))[:, None]
    simulation = group(charter, [first, None], rng)
    before = counted(simulation, 1)[MEMBERS[0].id]
    simulation.observe(simulation.sites[0], "new", np.append(rng.normal(size=30), 61.5)[:, None])
    talk(simulation)
    after = counted(simulation, 1)[MEMBERS[0].id]
    added = after.posterior.contribution["weights"][:, 0] - before.posterior.contribution["weights"][:, 0]
    np.testing.assert_allclose(np.sort(added), [0, 31], atol=1e-6)
    assert after.header.observations == 131


def test_words_of_few_documents_cannot_be_read_from_a_record(rng):
    words = [f"w{number}" for number in range(40)]
    counts = rng.poisson(1.0, size=(60, 40)) * (rng.random((60, 40)) < 0.5)
    counts[:, 30:] = 0
    counts[3, 33] = 9
    charter = replace(charter_of(db.LatentDirichletAllocation(3, words), MEMBERS[:2]), disclosure=USUAL)
    simulation = group(charter, [csr_array(counts), None], rng)
    read = counted(simulation, 1)[MEMBERS[0].id].posterior.contribution["topics"].toarray()
    assert np.ptp(read[:, 30:], axis=1).max() == 0.0
    assert read.sum() == pytest.approx(counts.sum(), rel=1e-6)


def test_a_first_record_depends_on_public_numbers_and_not_on_which_rare_words_occur(rng):
    words, public = [f"w{number}" for number in range(40)], [60] * 30 + [5, 10, 20, 40, 80] + [0] * 5
    counts = rng.poisson(1.0, size=(60, 40))
    counts[:, 30:] = 0
    counts[:3, 30:33] = 2
    other = counts.copy()
    other[:, 30:] = counts[:, [39, 31, 35, 36, 30, 33, 34, 32, 37, 38]]
    charter = charter_of(db.LatentDirichletAllocation(2, words), MEMBERS[:2])
    charter = replace(charter, settings={**charter.settings, "public_documents": public})
    first, second = (
        learn(charter, nothing(charter), {"own": csr_array(each)}, np.random.default_rng(1), rules=USUAL)
        for each in (counts, other)
    )
    assert first.evidence.posterior == second.evidence.posterior
    told = first.evidence.posterior.contribution["topics"].toarray().sum(axis=0)[30:]
    np.testing.assert_allclose(
        told / told.sum(), np.sqrt(np.maximum(public[30:], 5)) / sum(np.sqrt(np.maximum(public[30:], 5)))
    )


def test_a_refit_puts_rare_words_where_others_have_them(rng):
    counts = rng.poisson(1.0, size=(2, 60, 40))
    counts[:, :, 30:] = 0
    counts[0, :3, 30:35] = 2  # rare here,
    counts[1, :20, 32] = 2  # and one of them frequent elsewhere
    charter = charter_of(db.LatentDirichletAllocation(1, [f"w{number}" for number in range(40)]), MEMBERS[:2])
    own, other = (
        learn(charter, nothing(charter), {"own": csr_array(each)}, rng, rules=USUAL).evidence for each in counts
    )
    refined = relearn(charter, own, {"own": csr_array(counts[0])}, [other.posterior], rng, USUAL).evidence
    before, after = (each.posterior.contribution["topics"].toarray()[0, 30:] for each in (own, refined))
    np.testing.assert_allclose(before, 3.0)
    assert after[2] > 2 * np.delete(after, 2).max()
    assert np.ptp(np.delete(after, 2)) < 1e-9
    assert after.sum() == pytest.approx(30.0)


def test_a_refit_does_not_depend_on_which_rare_words_occur(rng):
    counts = rng.poisson(1.0, size=(2, 60, 40))
    counts[:, :, 30:] = 0
    counts[0, :3, 30:33] = 2
    counts[1, :20, 32:36] = 2
    swapped = counts[0].copy()
    swapped[:, 30:] = counts[0][:, [39, 31, 35, 36, 30, 33, 34, 32, 37, 38]]
    charter = charter_of(db.LatentDirichletAllocation(2, [f"w{number}" for number in range(40)]), MEMBERS[:2])
    other = learn(charter, nothing(charter), {"own": csr_array(counts[1])}, rng, rules=USUAL).evidence
    refits = []
    for each in (counts[0], swapped):
        own = {"own": csr_array(each)}
        first = learn(charter, nothing(charter), own, np.random.default_rng(1), rules=USUAL).evidence
        refits.append(relearn(charter, first, own, [other.posterior], np.random.default_rng(2), USUAL).evidence)
    assert refits[0].posterior == refits[1].posterior


def test_a_level_that_few_have_is_other_in_a_record(rng):
    columns = {"ward": db.columns.Categorical("bone", "burns", "heart", "other"), "x": db.columns.Gaussian()}
    charter = replace(charter_of(db.LatentClasses(1, columns=columns), MEMBERS[:2]), disclosure=USUAL)
    ward = rng.choice([0.0, 2.0], size=80)
    ward[7] = 1.0
    simulation = group(charter, [np.column_stack([ward, rng.normal(size=80)]), None], rng)
    levels = np.asarray(counted(simulation, 1)[MEMBERS[0].id].posterior.contribution["categorical"]).sum(axis=0)
    assert levels[1] == pytest.approx(0.0, abs=1e-9)
    assert levels[levels > 0.5].min() >= 5


def test_a_correction_by_few_records_is_refused_and_a_large_one_is_not(rng):
    data = rng.normal(size=40)
    simulation = group(means(USUAL), [data, rng.normal(size=30)], rng)
    agent = simulation.sites[0].agent
    for changed, refused in ((1, True), (4, True), (5, False)):
        name = agent.hold(data[changed:])
        if refused:
            with pytest.raises(NotDisclosed, match=f"differ by {changed} person"):
                agent.correct({name}, rng=rng)
        else:
            assert agent.correct({name}, rng=rng).evidence.observations == 35


def test_what_is_left_after_a_withdrawal_goes_as_well_if_it_is_too_little(rng):
    simulation = group(means(USUAL), [rng.normal(size=40), rng.normal(size=30)], rng)
    site = simulation.sites[0]
    few = site.agent.hold(rng.normal(size=6))
    simulation.perform(site, site.agent.publish(site.agent.correct({few}, rng=rng)))
    talk(simulation)
    assert counted(simulation, 1).keys() == {MEMBERS[1].id}


# What others refuse


def record_of(charter, rng, statement, size=30, version=1):
    posterior = charter.model.fit(rng.normal(size=size)).posterior
    told = {"shards": frozenset({"s"}), "observations": size, "statement": statement}
    return sign_record(charter, MEMBERS[0], version, posterior=posterior, **told).content


KIM = Approval("Kim", "agreed on 3 May", "2026-05-04")


@pytest.mark.parametrize(
    ("rules", "statement"),
    [
        (USUAL, None),
        (USUAL, Statement(Rules(least_cell=4))),
        (USUAL, Statement(Rules(most_levels=41))),
        (APPROVED, Statement(USUAL)),
        (APPROVED, Statement(APPROVED)),
        (APPROVED, None),
    ],
)
def test_a_record_whose_rules_are_missing_or_looser_is_refused(rules, statement, rng):
    charter = means(rules)
    with pytest.raises(Refused) as refusal:
        verify(open_record(record_of(charter, rng, statement), charter), charter)
    assert refusal.value.reason == "rules"


@pytest.mark.parametrize(
    ("rules", "statement"),
    [
        (None, None),
        (USUAL, Statement(USUAL)),
        (USUAL, Statement(Rules(least_cell=10, most_levels=5))),
        (APPROVED, Statement(USUAL, KIM)),
    ],
)
def test_a_record_that_obeys_the_rules_is_read_back_with_its_statement(rules, statement, rng):
    charter = means(rules)
    read = verify(open_record(record_of(charter, rng, statement), charter), charter)
    assert read.statement == statement


def test_a_statement_where_the_charter_has_no_rules_is_refused_as_before(rng):
    with pytest.raises(Refused) as refusal:
        verify(open_record(record_of(means(None), rng, Statement(USUAL)), means(None)), means(None))
    assert refusal.value.reason == "shape"


@pytest.mark.parametrize(
    "approval", [Approval("K\nm"), Approval("K" * 101), Approval("Kim", "x" * 1001), Approval("Kim", "\x1b[2J")]
)
def test_names_and_reasons_can_be_printed_and_are_short(approval, rng):
    charter = means(APPROVED)
    with pytest.raises(Refused) as refusal:
        verify(open_record(record_of(charter, rng, Statement(APPROVED, approval)), charter), charter)
    assert refusal.value.reason == "shape"


# Approval


def waiting_group(rng):
    return group(means(APPROVED), [rng.normal(size=30), rng.normal(size=40), None], rng)


def approve(simulation, number, name="Kim"):
    site = simulation.sites[number]
    simulation.perform(site, site.agent.approve(site.agent.awaiting.posterior.digest, Approval(name)))
    talk(simulation)


def test_evidence_waits_for_whoever_approves_it(rng):
    simulation = waiting_group(rng)
    agent = simulation.sites[0].agent
    assert not counted(simulation, 2)
    assert told(simulation, 0, "awaiting_approval") == [
        {"digest": agent.awaiting.posterior.digest, "observations": 30}
    ], "said once"
    approve(simulation, 0)
    record = counted(simulation, 2)[agent.id]
    assert record.statement == Statement(APPROVED, Approval("Kim"))
    assert agent.awaiting is None
    assert counted(simulation, 2).keys() == {agent.id}, "nobody has approved the other"


def test_another_digest_is_not_approved(rng):
    simulation = waiting_group(rng)
    agent = simulation.sites[0].agent
    simulation.perform(simulation.sites[0], agent.approve("0" * 64, Approval("Kim")))
    talk(simulation)
    assert agent.awaiting is not None
    assert not counted(simulation, 2)


def test_later_versions_need_an_approval_of_their_own_and_votes_need_none(rng):
    simulation = waiting_group(rng)
    site = simulation.sites[0]
    approve(simulation, 0)
    first = counted(simulation, 2)[MEMBERS[0].id]
    simulation.observe(site, "more", rng.normal(size=25))
    talk(simulation)
    assert counted(simulation, 2)[MEMBERS[0].id].digest == first.digest
    assert site.agent.awaiting.observations == 55
    simulation.perform(site, site.agent.propose(Remove("agent 1")))
    talk(simulation)
    (pending,) = simulation.sites[2].agent.pool.decisions.pending.values()
    assert pending.votes.keys() == {"agent 0"}
    assert counted(simulation, 2)[MEMBERS[0].id].digest == first.digest
    approve(simulation, 0, "Lee")
    assert counted(simulation, 2)[MEMBERS[0].id].header.observations == 55
    assert counted(simulation, 2)[MEMBERS[0].id].statement.approval.approver == "Lee"


def test_a_restart_asks_nobody_again_and_a_retraction_asks_nobody(rng):
    simulation = waiting_group(rng)
    approve(simulation, 0)
    site = simulation.sites[0]
    simulation.stop(site)
    simulation.start(site)
    talk(simulation)
    assert site.agent.awaiting is None
    assert site.agent.evidence.approval == Approval("Kim")
    simulation.perform(site, site.agent.retract())
    talk(simulation)
    assert not counted(simulation, 2)


def test_approved_records_are_read_back_from_a_store(rng, tmp_path):
    charter = means(APPROVED)
    record = verify(open_record(record_of(charter, rng, Statement(APPROVED, KIM)), charter), charter)
    with SqliteStore(tmp_path / "a.store", charter) as store:
        store.put([record])
        assert [saved.statement for saved in store.load()] == [Statement(APPROVED, KIM)]


def test_records_from_before_a_group_had_rules_make_room_for_those_that_obey(rng, tmp_path):
    """Their versions may be higher: nothing of them is known any more."""
    before, after = means(None), means(USUAL)
    old = verify(open_record(record_of(before, rng, None, version=9), before), before)
    stricter = Amend(before.rules, before.limits, rules_text(after.disclosure))
    decided = replace(ballot_on(stricter, seated(before, MEMBERS[: len(before.members)]), before), settled=True)
    with SqliteStore(tmp_path / "a.store", before) as store:
        store.put([old, decided])
    new = verify(open_record(record_of(after, rng, Statement(USUAL), version=3), after), after)
    for _ in range(2):
        with SqliteStore(tmp_path / "a.store", before) as store:
            saved = store.load()
            assert store.damaged == 0
            store.put([new])
    assert saved == [decided, new]


@pytest.mark.parametrize("case", range(3))
def test_what_is_hidden_leaves_a_record_that_others_accept(case, rng):
    images = (rng.random((80, 1)) < 0.5) * np.eye(6)[0] + 0.1 * rng.normal(size=(80, 6))
    images[:2, 5] += 9.0
    sequences = [rng.normal(size=(30, 1)) for _ in range(25)]
    sequences[3][10:20] += 90.0
    model, data = [
        (db.LatentFeatures(2, 6, variance=0.01), images),
        (db.HiddenMarkov(2, columns={"x": db.columns.Gaussian(0, 10)}), sequences),
        (db.PoissonMixture(2, 2), np.append(rng.poisson(2.0, size=(100, 2)), [[500, 500]], axis=0)),
    ][case]
    charter = replace(charter_of(model, MEMBERS[:2]), disclosure=USUAL)
    evidence, plain = (
        learn(charter, nothing(charter), {"s": data}, np.random.default_rng(1), rules=rules).evidence
        for rules in (USUAL, None)
    )
    assert evidence.posterior.digest != plain.posterior.digest, "something was hidden"
    told = {"shards": evidence.shards, "observations": evidence.observations, "units": evidence.units}
    record = sign_record(charter, MEMBERS[0], 1, posterior=evidence.posterior, statement=Statement(USUAL), **told)
    verify(open_record(record.content, charter), charter)


# What goes with records


def clusters(rng, distance, *, rules=USUAL, points=150, validation=0.0) -> Simulation:
    """Two clusters at two sites, who have refined, and have looked at the merge."""
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    charter = replace(
        charter_of(model, MEMBERS[:2]),
        rules=network.Rules(intervals=True, validation=validation),
        disclosure=rules,
    )
    shards = [rng.normal(rng.choice([0.0, distance], size=(points, 1)), 1.0) for _ in range(2)]
    simulation = group(charter, shards, rng)
    for site in simulation.sites:
        simulation.perform(site, site.agent.refine(rng=rng))
        talk(simulation, 1)
    talk(simulation)
    for site in simulation.sites:
        simulation.perform(site, site.agent.attach(site.agent.look()))
    talk(simulation)
    return simulation


def notes(simulation):
    return [record.note for record in counted(simulation).values()]


def test_matrices_leave_where_many_stand_between_components_and_calibrate_as_without_rules():
    ruled, plain = (clusters(np.random.default_rng(5), 2.0, rules=rules) for rules in (USUAL, None))
    found, expected = (simulation.sites[0].agent.pool.believed() for simulation in (ruled, plain))
    assert (found.why, expected.why) == ("", "")
    np.testing.assert_allclose(
        found.posterior.deviation("components"), expected.posterior.deviation("components"), rtol=1e-3
    )
    assert all(
        not np.array_equal(a.information.matrix, b.information.matrix)
        for a, b in zip(notes(ruled), notes(plain), strict=True)
    )


def test_a_matrix_that_rests_on_one_person_stays():
    """One point lies halfway between two clusters: without rules its value is the ratio of two entries."""
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    rng = np.random.default_rng(2)
    charter = replace(charter_of(model, MEMBERS[:2]), rules=network.Rules(intervals=True))
    points = np.concatenate([rng.normal(-12, 1, 60), rng.normal(12, 1, 60), [0.37]])[:, None]
    posterior = model.fit(points, rng=1).posterior
    matrix = information_on(charter, posterior, points).matrix
    # The first two entries are those of x and −1/2 in the first component.
    assert -0.5 * matrix[0, 0] / matrix[0, 1] == pytest.approx(0.37, rel=1e-3)
    assert information_on(charter, posterior, points, USUAL) is None
    apart = np.concatenate([rng.normal(-12, 1, 60), rng.normal(12, 1, 60)])[:, None]
    told = information_on(charter, model.fit(apart, rng=1).posterior, apart, USUAL)
    assert told is not None
    assert not told.matrix.any(), "nobody lies between: nothing is lost"


def test_scores_of_few_are_neither_told_nor_taken(rng):
    few = clusters(rng, 2.0, validation=0.1)  # 15 are held back
    assert [note.scores for note in notes(few)] == [None, None]
    many = clusters(rng, 2.0, validation=0.2)
    assert [note.scores.observations for note in notes(many)] == [30, 30]
    record = counted(many)[MEMBERS[0].id]
    strict = replace(many.charter, disclosure=Rules(least_observations=31))
    with pytest.raises(Refused) as refusal:
        note_from(record.note.arrays(), strict)
    assert refusal.value.reason == "rules"


def test_overlaps_of_small_components_are_not_told(rng):
    simulation = far_group(rng, USUAL)
    agent = simulation.sites[0].agent
    merged, data = agent.merged(), simulation.sites[0].shards["own"]
    rules = Rules(least_cell=10)
    plain, ruled = (note_of(agent.charter, merged, agent.id, data, None, each).overlaps for each in (None, rules))
    site = [origin for origin, _, _ in merged.entries].index(agent.id)
    small = agent.charter.model.presence(merged.alignment.posteriors[site], data) < 10
    assert small.sum() == 1
    assert (ruled[small] == 0.0).all()
    np.testing.assert_allclose(ruled[~small], plain[~small], atol=1e-4)


@pytest.mark.parametrize("shards", [1, 2])
def test_scores_do_not_tell_which_rare_value_somebody_who_was_held_back_has(shards, rng):
    columns = {"ward": db.columns.Categorical("bone", "burns", "heart", "other", "skin"), "x": db.columns.Gaussian()}
    rules = network.Rules(validation=0.25)
    charter = replace(charter_of(db.LatentClasses(1, columns=columns), MEMBERS[:2]), disclosure=USUAL, rules=rules)
    rows = np.column_stack([rng.choice([0.0, 2.0], size=120), rng.normal(size=120)])
    other = np.column_stack([rng.integers(5, size=120), rng.normal(size=120)])
    numbered = np.column_stack([np.zeros(120 // shards), np.arange(120 // shards)])
    person, told = int(db.checking.hold_back(charter.model, numbered, share=0.25)[1][3, 1]), []
    for ward in (1.0, 4.0):
        rows[person, 0] = ward
        simulation = group(charter, [None, other], np.random.default_rng(1))
        for number, part in enumerate(np.split(rows, shards)):
            simulation.observe(simulation.sites[0], f"{number}", part)
        note = simulation.sites[0].agent.look().note
        assert note.scores.observations == 30
        told.append(note.arrays()["note/scores"])
    np.testing.assert_array_equal(told[0], told[1])
