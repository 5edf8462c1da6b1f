"""Groups whose sums are private releases: one noise for all, and a ledger that is written before anything opens."""

from dataclasses import replace
from math import ceil, sqrt

import numpy as np
import pytest
from groups import charter_of, gaussian_charter, identities

import decbayes as db
from decbayes.errors import BudgetExceeded, InvalidCharter
from decbayes.network import Agent, Charter, PrivacyRules, Remove, Rules, SumRules
from decbayes.network.protocol.sums import Due, Participation, SumPart
from decbayes.network.runtime.reports.description import status_of, sum_lines
from decbayes.network.runtime.store import ledgered
from decbayes.network.runtime.store.ledgered import Ledgered
from decbayes.network.simulation.simulator import Simulation
from decbayes.network.simulation.topology import TOPOLOGIES
from decbayes.page.describing import described
from decbayes.privacy import releasing

SEATS = 4
KEYS = identities(SEATS)
COLUMNS = {"x": db.columns.Gaussian(), "ill": db.columns.YesNo()}
MODEL = db.LogisticRegression("ill", columns=COLUMNS)
ROUNDS = MODEL.mechanism().rounds
ROWS = 1500


def private_charter(epsilon=3.0, noise="shared", **sums):
    plain = charter_of(MODEL, KEYS)
    members = {name.replace(" ", "_"): key for name, key in plain.members.items()}
    rules = SumRules(**{"rounds": ROUNDS, **sums})
    return replace(plain, members=members, sums=rules, privacy=PrivacyRules(epsilon=epsilon, delta=1e-6, noise=noise))


def patients(seed, count=ROWS):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=count)
    return {"x": x, "ill": rng.random(count) < 1.0 / (1.0 + np.exp(-(0.5 + x)))}


class Group:
    """Agents whose disks have a ledger before them."""

    def __init__(self, path, *, start=range(SEATS), **rules):
        self.charter = private_charter(**rules)
        self.simulation = Simulation(self.charter, KEYS, rng=np.random.default_rng(0))
        self.sites = self.simulation.sites
        self.ledgers = {}
        for site in self.sites:
            ledger = db.disclosure.Ledger(path / f"{site.seat}.ledger")
            # The disk is a store like any other.
            self.ledgers[site.seat], disk = ledger, Disk(site.disk)
            site.disk.put = Ledgered(disk, ledger).put
        self.simulation.connect(TOPOLOGIES["clique"](SEATS, self.simulation.rng))
        for number in start:
            self.begin(number)

    def begin(self, number):
        site = self.sites[number]
        self.simulation.start(site)
        self.simulation.observe(site, "data", patients(number))

    def talk(self, rounds=1):
        for _ in range(rounds):
            self.simulation.round()
            for site in self.simulation.running:
                self.simulation.perform(site, site.agent.add_up())
        return self

    def agent(self, number):
        return self.sites[number].agent

    def opened(self, number=0):
        return self.agent(number).pool.sums.describe()["opened"]

    def spent(self, number=0):
        return [entry.private for entry in self.ledgers[self.sites[number].seat].entries()]


class Disk:
    """A disk with the writing that it was made with."""

    def __init__(self, disk):
        self.put = disk.put


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return Group(tmp_path_factory.mktemp("private")).talk(3 * ROUNDS)


def test_private_sums_of_all_rounds_are_one_posterior_with_one_noise(finished):
    assert [finished.opened(number) for number in range(SEATS)] == [ROUNDS] * SEATS
    assert len({finished.agent(number).posterior().digest for number in range(SEATS)}) == 1
    posterior = finished.agent(0).posterior()
    np.testing.assert_allclose(posterior.mean("coefficients").ravel(), [0.5, 1.0], atol=0.3)
    assert {remark.kind for remark in posterior.remarks} >= {"differential privacy", "only sums"}
    promise = db.Privacy(3.0, 1e-6, noise="shared", sites=SEATS, colluders=1)
    for number, result in enumerate(finished.agent(0).pool.sums.opened.results):
        deviation = 2**22 / (promise.mu * sqrt(MODEL.mechanism().budget_parts[number]))
        assert result.release.variance == pytest.approx(SEATS / (SEATS - 1) * deviation**2, rel=0.01)
        assert result.release.privacy == promise


def test_what_all_rounds_spend_is_the_promise_and_each_round_is_in_the_ledger_once(finished):
    for number in range(SEATS):
        spent = finished.spent(number)
        assert [each.round for each in spent] == [*range(ROUNDS)]
        assert sqrt(sum(each.mu**2 for each in spent)) == pytest.approx(db.Privacy(3.0, 1e-6).mu, rel=1e-3)
        assert sum(each.mu**2 for each in spent) <= db.Privacy(3.0, 1e-6).mu ** 2


def test_the_ledger_is_written_before_a_part_is_opened_and_a_masked_release_spends_nothing(tmp_path):
    group = Group(tmp_path)
    for _ in range(8):
        group.talk()
        for number in range(SEATS):
            name, sums = group.sites[number].seat, group.agent(number).pool.sums.now.sums
            assert len(group.spent(number)) == sum(name in one.messages["opening"] for one in sums)
    assert group.opened() > 1


def test_a_crash_between_the_ledger_and_the_store_spends_once(tmp_path):
    group = Group(tmp_path)
    site, put = group.sites[0], group.sites[0].disk.put
    failed = []

    def fails(items):
        opening = any(isinstance(item, SumPart) and item.opened for item in items)
        if opening and not failed:
            failed.append(items)
            for item in items:
                if isinstance(item, SumPart):
                    group.ledgers[site.seat].spend(item.spent)
            raise KeyboardInterrupt
        put(items)

    site.disk.put = fails
    while not failed:
        try:
            group.talk()
        except KeyboardInterrupt:
            group.simulation.stop(site)
    group.begin(0)
    group.talk(3 * ROUNDS)
    assert group.opened() == ROUNDS
    assert [each.round for each in group.spent()] == [*range(ROUNDS)]


def test_a_member_without_budget_says_so_and_opens_nothing(tmp_path):
    group = Group(tmp_path, start=range(1, SEATS))
    ledger = group.ledgers["agent_0"]
    ledger.set_budget("data", 0.1, 1e-6, approver="Kim")
    group.begin(0)
    group.talk(6)
    assert "Data set 'data' has spent" in group.agent(0).trouble
    assert "agent_0" not in group.agent(1).pool.sums.now.sums[0].messages["opening"]
    assert group.opened(1) == 0
    assert [each.mu for each in group.spent()] == [0.0], "the budget, and no release"


def test_what_could_not_be_spent_is_refused_before_others_wait_for_it(tmp_path):
    group = Group(tmp_path)
    while (due := group.agent(0).due()) is None:
        group.simulation.round()
    share = group.agent(0).share(due)
    books = Ledgered(group.sites[0].disk, group.ledgers["agent_0"])
    books.check(share.spending)
    group.ledgers["agent_0"].set_budget("data", 0.1, 1e-6, approver="Kim")
    with pytest.raises(BudgetExceeded):
        books.check(share.spending)


def test_a_round_begun_again_without_somebody_costs_nothing_more(tmp_path, monkeypatch):
    step = Participation.step

    def waits(self, *, ready):
        """Nobody opens a sum over all four."""
        chain, _, kind = self._turn()
        return None if kind == "opening" and len(chain.keys) == SEATS else step(self, ready=ready)

    monkeypatch.setattr(Participation, "step", waits)
    group = Group(tmp_path).talk(4)
    assert len(group.agent(0).pool.sums.now.sums[0].messages["masked"]) == SEATS
    assert group.spent() == []
    group.simulation.stop(group.sites[3])
    for number in range(3):
        group.simulation.perform(group.sites[number], group.agent(number).propose(Remove("agent_3")))
    group.talk(3 * ROUNDS)
    assert group.opened() == ROUNDS
    assert [each.round for each in group.spent()] == [*range(ROUNDS)]
    release = group.agent(0).pool.sums.opened.results[0].release
    alone = ceil(2**22 / (db.Privacy(3.0, 1e-6).mu * sqrt(MODEL.mechanism().budget_parts[0]))) ** 2
    assert release.privacy.sites == 3
    assert release.variance >= 3 / 2 * alone, "two of three have all of the noise"


def test_a_member_that_stops_for_good_is_removed_and_the_others_add_more_noise_each(tmp_path):
    group = Group(tmp_path)
    while group.opened() < 2:
        group.talk()
    group.simulation.stop(group.sites[3])
    for number in range(3):
        group.simulation.perform(group.sites[number], group.agent(number).propose(Remove("agent_3")))
    group.talk(3 * ROUNDS)
    results = group.agent(0).pool.sums.opened.results
    sites = [result.release.privacy.sites for result in results]
    assert (len(sites), sites[0], sites[-1]) == (ROUNDS, SEATS, SEATS - 1)
    assert [each.round for each in group.spent()] == [*range(ROUNDS)]
    assert sum(each.mu**2 for each in group.spent()) <= db.Privacy(3.0, 1e-6).mu ** 2
    last = 2**22 / (db.Privacy(3.0, 1e-6).mu * sqrt(MODEL.mechanism().budget_parts[-1]))
    assert results[-1].release.variance == pytest.approx(3 / 2 * last**2, rel=0.01)
    posterior = group.agent(0).posterior()
    np.testing.assert_allclose(posterior.mean("coefficients").ravel(), [0.5, 1.0], atol=0.3)


def test_members_who_trust_nobody_add_all_of_the_noise_each(tmp_path):
    group = Group(tmp_path, noise="each").talk(3 * ROUNDS)
    assert group.opened() == ROUNDS
    for number, result in enumerate(group.agent(0).pool.sums.opened.results):
        alone = 2**22 / (db.Privacy(3.0, 1e-6).mu * sqrt(MODEL.mechanism().budget_parts[number]))
        assert result.release.variance == pytest.approx(SEATS * alone**2, rel=0.01)
    assert sum(each.mu**2 for each in group.spent()) == pytest.approx(db.Privacy(3.0, 1e-6).mu ** 2, rel=1e-3)
    merge = group.agent(0).pool.sums.opened.results[-1].merge
    # As by files: the same rows, each site's release with all of its noise.
    prior, releases = db.Posterior.of_prior(MODEL.structure), []
    for _ in range(ROUNDS):
        anchor = db.private_merge(MODEL.structure, releases) if releases else prior
        for number in range(SEATS):
            books = db.disclosure.Ledger(tmp_path / f"{number}.files")
            releases.append(
                MODEL.release(anchor, patients(number), db.Privacy(3.0, 1e-6), ledger=books, site=str(number))
            )
    files = db.private_merge(MODEL.structure, releases)
    assert merge.price == pytest.approx(files.price, rel=0.1)
    # Noise is drawn anew each time, and now and then makes rounds differ.
    kinds = [{remark.kind for remark in each.posterior.remarks} - {"rounds differ"} for each in (merge, files)]
    assert kinds[0] == kinds[1]


def test_rows_are_released_as_they_are_whatever_the_disclosure_rules_would_pool(tmp_path, monkeypatch):
    """Pooling depends on all rows: a person who is the fifth of a category would move four others, too."""
    monkeypatch.setattr(releasing, "discrete_gaussian", lambda variance, size: np.zeros(size, dtype=np.int64))
    columns = {"drug": db.columns.Categorical(["a", "b", "c"]), "ill": db.columns.YesNo()}
    model = db.LogisticRegression("ill", columns=columns)
    plain = charter_of(model, KEYS)
    members = {name.replace(" ", "_"): key for name, key in plain.members.items()}
    promise, sums = PrivacyRules(epsilon=1.0, delta=1e-6), SumRules(rounds=model.mechanism().rounds)
    charter = replace(plain, members=members, sums=sums, privacy=promise, disclosure=db.disclosure.Rules())
    rows = {"drug": ["a"] * 30 + ["b"] * 30 + ["c"] * 2, "ill": [True, False] * 31}
    agent = Agent(charter, KEYS[0], rng=np.random.default_rng(0))
    agent.observe(rows, shard="data", rng=np.random.default_rng(0))
    agreement = charter.agreement(charter.members)
    share = agent.share(Due(agreement.next_terms(()), charter.begins_at, None, (), agreement.privacy))
    prior, books = db.Posterior.of_prior(model.structure), db.disclosure.Ledger(tmp_path / "a.ledger")
    direct = model.release(prior, rows, agreement.privacy, ledger=books)
    np.testing.assert_array_equal(share.release.values, direct.values)


def test_people_are_told_the_promise(tmp_path):
    group = Group(tmp_path).talk(2)
    lines = sum_lines(status_of(group.agent(0), str)["sums"])
    assert lines[-1].startswith("privacy: ε = 3, δ = 1e-06 per person of 1 row")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sums": None}, "only sums"),
        ({"sums": SumRules(rounds=ROUNDS + 1)}, "rounds"),
        ({"anchor": db.Posterior.of_prior(MODEL.structure)}, "begin at the prior"),
        ({"rules": Rules(validation=0.1)}, "validation beside privacy"),
    ],
)
def test_promises_that_cannot_be_kept_are_refused(changes, why):
    with pytest.raises(InvalidCharter, match=why):
        replace(private_charter(), **changes)


def test_models_without_private_releases_are_refused():
    plain = gaussian_charter(KEYS)
    with pytest.raises(InvalidCharter, match="GaussianMean"):
        replace(plain, sums=SumRules(), privacy=PrivacyRules(epsilon=1.0, delta=1e-6))


def test_the_promise_is_in_the_file_and_in_the_fingerprint(tmp_path):
    charter = private_charter()
    charter.save(tmp_path / "group.toml")
    assert Charter.load(tmp_path / "group.toml") == charter
    weaker = replace(charter, privacy=PrivacyRules(epsilon=4.0, delta=1e-6))
    assert weaker.fingerprint != charter.fingerprint
    text = (tmp_path / "group.toml").read_text()
    (tmp_path / "group.toml").write_text(text.replace("epsilon = 3.0", "epsilon = 0.0"))
    with pytest.raises(InvalidCharter, match="epsilon"):
        Charter.load(tmp_path / "group.toml")


def test_a_store_that_forgets_the_ledger_would_open_without_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgered.Ledgered, "_spend", lambda self, spending: None)
    with pytest.raises(AssertionError):
        test_the_ledger_is_written_before_a_part_is_opened_and_a_masked_release_spends_nothing(tmp_path)


def test_the_page_draws_private_sums_though_nobody_knows_how_many_rows_are_in_them(finished):
    merged = finished.agent(0).merged()
    shown = described(MODEL, merged.posterior, merged.alignment, [], observations=merged.observations).posterior
    assert (shown["sites"], shown["observations"]) == ([], 0)
    assert [dict(row)["term"] for row in shown["rows"]] == ["intercept", "x"]
