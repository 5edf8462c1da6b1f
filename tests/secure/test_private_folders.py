"""Private sums of several rounds by files: what is spent, who may leave, and ledgers that know too little."""

import shutil

import numpy as np
import pytest
from masked_sums import NAMES, public, signing

import decbayes as db
from decbayes.errors import DamagedLedger, SumRefused
from decbayes.secure import Folder, PrivateAgreement, Site
from decbayes.secure.private_rounds import private_share

MODEL = db.LogisticRegression("ill", columns={"x": db.columns.Gaussian(), "ill": db.columns.YesNo()})
ROUNDS = MODEL.mechanism().rounds


class Private:
    """Members with a ledger each, and rows from one truth."""

    def __init__(self, path, names=NAMES, rows=1200, **changed):
        self.path, self.names = path, names
        usual = {"rounds": ROUNDS, "rules": None, "privacy": db.Privacy(3.0, 1e-6, "shared", sites=len(names))}
        members, prior = {name: public(name) for name in names}, db.Posterior.of_prior(MODEL.structure)
        self.agreement = PrivateAgreement("ill", members, prior, **{**usual, **changed})
        self.folder, self.data, self.made = Folder.begin(path / "shared", self.agreement), {}, []
        for seed, name in enumerate(names):
            rng = np.random.default_rng(seed)
            x = rng.normal(size=rows)
            self.data[name] = {"x": x, "ill": rng.random(rows) < 1.0 / (1.0 + np.exp(-(0.5 + x)))}

    def ledger(self, name):
        return db.disclosure.Ledger(self.path / f"{name}.ledger")

    def visit(self, name, without=()):
        def share(promise, before, own):
            self.made.append((name, promise.sites))
            return private_share(MODEL, self.data[name], promise, before, own, site=name)

        books = self.ledger(name)
        return Site(self.folder, name, signing(name).sign, self.path / name, ledger=books).advance(share, without)

    def turns(self, *names, times=1, without=()):
        for _ in range(times):
            for name in names or self.names:
                self.visit(name, without)
        return self

    def spent(self, name):
        return [entry.private for entry in self.ledger(name).entries()]


def test_rounds_go_on_without_a_member_with_more_noise_of_each_and_spend_the_promise(tmp_path):
    sites = Private(tmp_path)
    while len(sites.folder.results()) < 2:
        sites.turns()
    rest = NAMES[:3]
    for _ in range(3 * ROUNDS):
        if len(sites.folder.results()) < ROUNDS:
            sites.turns(*rest, without=(NAMES[3],))
    results = sites.folder.results()
    assert [result.release.privacy.sites for result in results] == [4, 4, 3, 3, 3]
    assert {sites for _, sites in sites.made} == {3, 4}
    np.testing.assert_allclose(results[-1].posterior.mean("coefficients").ravel(), [0.5, 1.0], atol=0.3)
    for name in rest:
        assert [each.round for each in sites.spent(name)] == [*range(ROUNDS)]
        assert sum(each.mu**2 for each in sites.spent(name)) <= db.Privacy(3.0, 1e-6).mu ** 2
    assert len(sites.spent(NAMES[3])) == 2
    assert results[-1].merge.round == results[-1].merge.rounds == ROUNDS


def test_an_old_copy_of_a_ledger_is_refused_before_the_part_is_opened(tmp_path):
    sites = Private(tmp_path, rows=30)
    while not sites.folder.results():
        sites.turns()
    old = tmp_path / "old"
    shutil.copy(sites.ledger(NAMES[0]).path, old)
    while len(sites.folder.results()) < 2:
        sites.turns()
    shutil.copy(old, sites.ledger(NAMES[0]).path)
    with pytest.raises(DamagedLedger, match="an old copy"):
        sites.turns(times=3)
    assert len(sites.folder.results()) == 2
    assert NAMES[0] not in sites.folder.next().messages["opening"]


def test_a_part_that_was_spent_and_not_opened_is_spent_once(tmp_path, monkeypatch):
    from decbayes.secure import Seat

    sites, opening, failed = Private(tmp_path, rows=30), Seat.opening, []

    def fails(self, *words, **options):
        if not failed:
            failed.append(self.name)
            raise SumRefused("the process has ended")
        return opening(self, *words, **options)

    monkeypatch.setattr(Seat, "opening", fails)
    while not sites.folder.results():
        try:
            sites.turns()
        except SumRefused:
            assert len(sites.spent(failed[0])) == 1
    assert [len(sites.spent(name)) for name in NAMES] == [1] * 4


def test_a_site_without_a_ledger_opens_nothing(tmp_path):
    sites = Private(tmp_path, rows=30)
    sites.ledger = lambda name: None
    with pytest.raises(SumRefused, match="need the site's ledger"):
        sites.turns(times=3)
    assert not sites.folder.next().messages["opening"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"rounds": ROUNDS + 1}, "divides its budget among 5 rounds"),
        ({"anchor": MODEL.fit({"x": [0.0, 1.0], "ill": [True, False]}).posterior}, "begin at the prior"),
    ],
)
def test_agreements_that_prove_nothing_are_refused(tmp_path, changed, why):
    members, prior = {name: public(name) for name in NAMES}, db.Posterior.of_prior(MODEL.structure)
    usual = {"anchor": prior, "rounds": ROUNDS, "privacy": db.Privacy(3.0, 1e-6, "shared", sites=4)}
    with pytest.raises(SumRefused, match=why):
        PrivateAgreement("ill", members, **{**usual, **changed})


def test_too_few_are_left_to_share_the_noise(tmp_path):
    sites = Private(tmp_path, rows=30, colluders=2, privacy=db.Privacy(3.0, 1e-6, "shared", 2, sites=4)).turns()
    with pytest.raises(SumRefused, match="3 members cannot share the noise if 2 of them may collude"):
        sites.visit(NAMES[0], without=(NAMES[3],))
