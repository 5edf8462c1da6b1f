"""Rules, budgets and releases of a site by what they promise, number by number."""

import hashlib
import hmac
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import decbayes as db
from decbayes.disclosure import Entry, Ledger, Manifest, Rules
from decbayes.disclosure.budgets import account_of, budget_of, check_budget, check_rounds
from decbayes.disclosure.latent_sums import between_few, coarse, persons_between, tells_few
from decbayes.disclosure.ledger import FIRST, Spent
from decbayes.disclosure.releasing import (
    check_difference,
    difference,
    digest_of,
    keyed,
    person_digests,
    record_bytes,
    release,
    signed_bytes,
    site_key,
    verify,
)
from decbayes.errors import BudgetExceeded, DamagedLedger, InvalidFile, InvalidRules, NotDisclosed
from decbayes.models.core.persons import Persons
from decbayes.privacy import epsilon_of
from decbayes.privacy.releasing import Spending

USUAL = {
    "least_cell": 5, "least_outcome": 2, "least_observations": 20, "least_documents": 5, "rows_per_coefficient": 3.0,
    "most_levels": 40, "rows_per_level": 3.0, "approval": False,
}  # fmt: skip


def test_the_usual_rules_and_what_rules_can_be():
    assert Rules().plain() == USUAL
    assert Rules(least_cell=1, least_outcome=1, least_observations=1).least_cell == 1
    assert Rules(least_observations=5).least_observations == 5
    assert type(Rules(least_cell=6.0).least_cell) is int
    for bad in (
        {"least_cell": 0}, {"least_cell": 5.5}, {"least_cell": True}, {"approval": 1}, {"rows_per_level": 0.5},
        {"least_outcome": 6}, {"least_observations": 4}, {"most_levels": "x"},
    ):  # fmt: skip
        with pytest.raises(InvalidRules):
            Rules(**bad)
    with pytest.raises(InvalidRules, match="There is no rule 'x'"):
        Rules.of({"x": 1})


# ---- budgets


def line(mu=0.0, *, name="d", epsilon=1.0, number=0, release="r"):
    spent = Spent(name, epsilon, 1e-6, mu, number)
    return Entry("2026-01-31", "", release, "north", "model", 0, "", private=spent)


PLAIN = Entry("2026-01-31", "a.posterior", "0" * 64, "north", "mixture", 200, "Kim")


def test_a_budget_is_what_was_set_last_or_promised_first():
    assert budget_of("d", [PLAIN]) is None
    promised = [PLAIN, line(0.1, epsilon=2.0), line(0.1, epsilon=3.0), line(0.1, name="e", epsilon=9.0)]
    assert budget_of("d", promised) == db.Privacy(2.0, 1e-6)
    decided = [*promised, line(epsilon=4.0), line(0.1, epsilon=8.0), line(epsilon=5.0), line(name="e", epsilon=7.0)]
    assert budget_of("d", decided) == db.Privacy(5.0, 1e-6)
    found = account_of("d", decided)
    spent = (3 * 0.1**2) ** 0.5
    budget = db.Privacy(5.0, 1e-6)
    assert (found.data_set, found.budget, found.releases) == ("d", budget, 3)
    assert found.spent == pytest.approx(epsilon_of(spent, 1e-6))
    assert found.left == pytest.approx(epsilon_of((budget.mu**2 - spent**2) ** 0.5, 1e-6))


def spending(mu, number=0, known=(), name="d"):
    return Spending("new", "model", "north", db.Privacy(1.0, 1e-6), mu, number, name, frozenset(known))


def test_a_budget_is_spent_by_squares_and_to_its_end():
    whole = db.Privacy(1.0, 1e-6).mu
    before = [line(0.6 * whole), line(whole, name="e")]
    check_budget(spending(0.8 * whole), before)
    with pytest.raises(BudgetExceeded, match=r"Data set .d. has spent ε = 0\.5"):
        check_budget(spending(0.8 * whole * (1 + 1e-9)), before)
    check_budget(spending(whole), [])


def test_a_round_rests_on_own_releases_of_all_earlier_ones(tmp_path):
    lines = [line(0.1, number=0, release="a"), line(0.1, number=1, release="b"), line(0.1, name="e", release="c")]
    check_rounds(tmp_path, spending(0.1, 2, {"a", "b", "others"}), lines)
    check_rounds(tmp_path, spending(0.1), lines)
    for known, number, missing in (({"b"}, 2, 0), ({"a"}, 2, 1), ({"a", "c"}, 2, 1)):
        with pytest.raises(DamagedLedger, match=f"no release of round {missing} of data set 'd'"):
            check_rounds(tmp_path, spending(0.1, number, known), lines)


def test_lines_are_chained_and_spent_once(tmp_path):
    ledger = Ledger(tmp_path / "deep" / "a.ledger")
    ledger.append(PLAIN)
    ledger.spend(spending(0.1))
    ledger.spend(spending(0.1), once=True)
    ledger.set_budget("d", 3.0, 1e-6, approver="Kim", reason="why")
    first, second, third = ledger.entries()
    assert (
        (first.before, second.before, third.before)
        == (FIRST, first.digest, second.digest)
        == ("0" * 64, *[e.digest for e in (first, second)])
    )
    assert (second.posterior, second.site, second.model, second.rows) == ("new", "north", "model", 0)
    assert second.private == Spent("d", 1.0, 1e-6, 0.1, 0)
    assert (third.approver, third.reason, third.private.mu) == ("Kim", "why", 0.0)
    ledger.spend(spending(0.1))
    assert len(ledger.entries()) == 4, "without `once` it is another release"
    assert Ledger(tmp_path / "none").entries() == []
    with pytest.raises(BudgetExceeded):
        ledger.spend(spending(50.0))
    assert len(ledger.entries()) == 4


# ---- releases

DRAFT = Manifest("0" * 64, "GaussianMean", Rules(), site="north", rows=100, persons=90, date="2026-01-31")


def test_a_release_is_signed_and_in_the_ledger_first(tmp_path):
    key, ledger = Ed25519PrivateKey.from_private_bytes(bytes(32)), Ledger(tmp_path / "a.ledger")
    public = key.public_key().public_bytes_raw()
    done = release(
        DRAFT, "a.posterior", ledger, approver="Kim", reason="why", members=["b", "a"], key=public, sign=key.sign
    )
    verify(done)
    (entry,) = ledger.entries()
    assert (entry.file, entry.rows, entry.persons, entry.approver, entry.reason) == (
        "a.posterior",
        100,
        90,
        "Kim",
        "why",
    )
    assert (entry.members, entry.date, entry.site) == (("a", "b"), "2026-01-31", "north")
    assert (done.data, done.key, done.released) == (digest_of(["a", "b"]), public.hex(), True)
    assert Manifest.of(done.plain()) == replace(done, left_out={})
    assert signed_bytes(done).startswith(b"decbayes release 1\0")
    for changed in ({"rows": 101}, {"approver": "Lee"}, {"key": "00" * 32}, {"signature": "00" * 64}, {"key": "x"}):
        with pytest.raises(NotDisclosed, match="changed after it was signed"):
            verify(replace(done, **changed))
    with pytest.raises(NotDisclosed, match="not signed"):
        verify(release(DRAFT, "b", ledger, approver="Kim"))
    later = release(DRAFT, "c", ledger, approver="Kim", date="2026-02-28")
    assert (later.date, ledger.entries()[-1].date) == ("2026-02-28", "2026-02-28")
    with pytest.raises(NotDisclosed, match="needs the name"):
        release(DRAFT, "d", ledger, approver=" ")
    for wrong in ({}, DRAFT.plain() | {"rows": "x"}, DRAFT.plain() | {"rules": {"x": 1}}, 3):
        with pytest.raises(InvalidFile, match="cannot be read"):
            Manifest.of(wrong)


def test_releases_do_not_differ_by_a_few_persons(tmp_path):
    ledger, people = Ledger(tmp_path / "a.ledger"), [f"{n:02}" for n in range(30)]
    release(DRAFT, "a", ledger, approver="Kim", members=people)
    for left_out, refused in ((0, False), (1, True), (4, True), (5, False)):
        if refused:
            with pytest.raises(NotDisclosed, match=f"differ by {left_out} persons"):
                check_difference(people[left_out:], DRAFT, ledger, Rules())
        else:
            check_difference(people[left_out:], DRAFT, ledger, Rules())
    check_difference(people[1:], replace(DRAFT, model="other"), ledger, Rules())
    check_difference([], DRAFT, ledger, Rules())
    assert difference("abcd", "abxyz") == 3, "who left and who joined, whichever are more"
    assert difference("aab", "ab") == 1
    release(replace(DRAFT, rules=None), "b", ledger, approver="Kim", members=people[1:])


def test_persons_are_named_under_a_key_of_the_site(tmp_path):
    model, ledger = db.models.GaussianMean(dimension=2), Ledger(tmp_path / "deep" / "a.ledger")
    rows = np.arange(8.0).reshape(4, 2)
    key = site_key(ledger)
    assert len(key) == 32
    file = tmp_path / "deep" / "a.ledger.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert site_key(ledger) == key
    assert record_bytes(model, rows, 2) == rows[2].tobytes()
    found = person_digests(model, rows, ledger, Persons.of(["a", "b", "a", "c"]))
    joined = [rows[[0, 2]], rows[[1]], rows[[3]]]
    expected = [hmac.digest(key, b"||".join(sorted(r.tobytes() for r in own)), "sha256").hex()[:16] for own in joined]
    assert sorted(found) == sorted(expected)
    assert keyed(b"k", b"x") == hmac.digest(b"k", b"x", "sha256").hex()[:16]
    assert digest_of([]) == ""
    assert digest_of(["b", "a"]) == hashlib.sha256(b"ab").hexdigest()
    ledger.append(PLAIN)
    file.unlink()
    site_key(ledger)  # no earlier release names anybody
    ledger.append(replace(PLAIN, members=("a",)))
    file.unlink()
    with pytest.raises(DamagedLedger, match="is missing: without it nothing can be compared"):
        site_key(ledger)


# ---- sums beside a posterior


def test_sums_between_components_rest_on_so_many_persons(rng):
    """Σ w and (Σ w)² / Σ w² with w = r_k r_l, on the diagonal w = r_k; rows of a person are added first."""
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    data = np.r_[np.full(12, -4.0), np.full(9, 4.0), 0.1, -0.2][:, None]
    posterior = model.from_assignments(data, (data > 0).ravel().astype(int))
    shares = model.assign(posterior, data)
    people = np.arange(23) // 2
    for persons, groups in (
        (None, [[n] for n in range(23)]),
        (people, [np.flatnonzero(people == p) for p in range(12)]),
    ):
        options = {} if persons is None else {"persons": Persons.of(persons)}
        sums, behind = persons_between(model, posterior, data, **options)
        for k in range(2):
            for m in range(2):
                weights = [sum(shares[n, k] * (shares[n, m] if k != m else 1.0) for n in group) for group in groups]
                assert sums[k, m] == pytest.approx(sum(weights))
                assert behind[k, m] == pytest.approx(sum(weights) ** 2 / sum(w * w for w in weights))
    assert between_few(model, posterior, data, 5).tolist() == [[False, True], [True, False]]
    assert tells_few(model, posterior, data, 5)
    assert not tells_few(model, posterior, data, 1)
    mean = db.models.GaussianMean(dimension=1)
    assert not tells_few(mean, mean.fit(data).posterior, data, 5), "nobody belongs to anything"


def test_coarse_numbers_have_six_digits_of_the_largest(rng):
    values = rng.normal(size=40) * 10.0 ** rng.uniform(-9, 3, 40)
    step = 2.0 ** np.ceil(np.log2(1e-6 * np.abs(values).max()))
    found = coarse(values)
    assert (np.abs(found - values) <= step / 2).all()
    np.testing.assert_array_equal(found / step, np.rint(found / step))
    assert coarse(np.zeros(3)).tolist() == [0.0] * 3
    assert coarse(np.zeros(0)).tolist() == []
    assert not np.signbit(coarse(np.array([1.0, -1e-9]))).any()


def test_a_file_on_top_of_an_earlier_one_says_that_it_holds_more_than_the_data_read(run, rng, tmp_path):
    for name, size in (("first", 60), ("second", 40)):
        np.savetxt(tmp_path / f"{name}.csv", rng.choice([-5.0, 5.0], (size, 1)) + rng.normal(size=(size, 1)))
    fit = "fit mixture {0}.csv --components 2 --variance 1 --prior-variance 100 -o {0}"
    assert run(fit.format("first"))[0] == 0
    assert run("fit mixture second.csv --prior first -o second")[0] == 0
    out = run("preview second --data second.csv")[1]
    assert "40 observations, each counted as a person, beside those of the earlier file; at least 20" in out
    assert "persons with those of the earlier file (5 needed)" in out
    assert "none in the ledger that was read, releases.ledger" in out
    assert "from 40 observations, built on another file" in run("show second")[1]
    assert "earlier file" not in run("preview first --data first.csv")[1] + run("show first")[1]
