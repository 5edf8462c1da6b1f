"""What is promised follows from the noise: closed forms against integrals, and against another library's accountant."""

from dataclasses import replace
from math import erfc, exp, hypot, inf, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import decbayes as db
from decbayes.errors import BudgetExceeded, DamagedLedger, NotDisclosed
from decbayes.privacy import delta_of, epsilon_of, mu_of
from decbayes.privacy.accounting import left, spent
from decbayes.privacy.releasing import Spending

CASES = [(0.1, 1e-6), (0.5, 1e-5), (1.0, 1e-5), (3.0, 1e-6), (8.0, 1e-9), (30.0, 1e-5)]


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_delta_is_the_integral_of_what_one_density_has_more_than_the_other(epsilon, delta):
    """δ(ε) = ∫ max(0, p − e^ε q) for p = N(μ, 1) and q = N(0, 1): the definition, without any closed form."""
    mu = mu_of(epsilon, delta)
    begins = epsilon / mu + 0.5 * mu  # where p = e^ε q

    def more(x):
        return norm.pdf(x, mu) - np.exp(epsilon) * norm.pdf(x)

    integral = quad(more, begins, begins + 3, epsabs=1e-16)[0] + quad(more, begins + 3, begins + 40, epsabs=1e-18)[0]
    assert integral == pytest.approx(delta, rel=1e-5)
    assert delta_of(epsilon, mu) <= delta
    assert epsilon_of(mu, delta) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("mu", [0.05, 0.3, 1.0, 4.0, 25.0])
def test_delta_is_that_of_two_tails(mu):
    for epsilon in (0.0, 0.01, 0.4, 2.0, 30.0):
        tails = [0.5 * erfc((epsilon / mu + side * mu / 2) / sqrt(2.0)) for side in (-1, 1)]
        assert delta_of(epsilon, mu) == pytest.approx(tails[0] - exp(epsilon) * tails[1], rel=1e-9, abs=1e-15)


def test_noise_without_bound_gives_nothing_away():
    for epsilon in (0.0, 1e-300, 1.0, 100.0):
        assert [delta_of(epsilon, mu) for mu in (0.0, -1.0, 5e-324, 1e-18)] == [0.0] * 4
    assert epsilon_of(0.0, 1e-9) == 0.0
    assert epsilon_of(1e-10, 1e-9) == 0.0


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.3, 5.0, 100.0])
@pytest.mark.parametrize("delta", [1e-14, 1e-6, 0.2, 0.99])
def test_what_is_allowed_is_kept_and_no_more_than_a_last_digit_is_left_unused(epsilon, delta):
    """Also of promises so strict that hardly anything may be said: no least μ is taken for granted."""
    mu = mu_of(epsilon, delta)
    assert delta_of(epsilon, mu) <= delta < delta_of(epsilon, mu * (1 + 1e-6))
    needed = epsilon_of(mu, delta)
    assert delta_of(needed, mu) <= delta
    assert needed == pytest.approx(epsilon, rel=1e-4, abs=1e-12)


def test_much_noise_less_is_much_privacy_less():
    """ε of a μ that means nothing any more is still what the definition says."""
    for mu in (40.0, 300.0):
        epsilon = epsilon_of(mu, 1e-9)
        assert delta_of(epsilon, mu) == pytest.approx(1e-9, rel=1e-6)
        assert epsilon > mu * mu / 2


@pytest.mark.parametrize(("epsilon", "delta"), CASES[1:3])
def test_another_librarys_accountant_agrees_over_rounds(epsilon, delta):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    mu, shares = mu_of(epsilon, delta), np.array([1, 2, 4]) / 7
    whole = None
    for share in shares:
        one = pld.from_gaussian_mechanism(1 / (mu * share**0.5), value_discretization_interval=1e-3)
        whole = one if whole is None else whole.compose(one)
    assert whole.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=0.02, abs=0.004)


def test_the_usual_noise_for_the_usual_promises():
    noise = [round(1 / db.Privacy(epsilon, 1e-5).mu, 2) for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0)]
    assert noise == [7.03, 3.73, 1.99, 1.08, 0.60]


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"epsilon": 0.0}, "epsilon must be a positive number"),
        ({"delta": 1.0}, "probability well below 1"),
        ({"delta": -0.1}, "delta must be a positive number"),
        ({"epsilon": 100.5}, "epsilon at most 100"),
        ({"epsilon": inf}, "epsilon"),
        ({"colluders": -1}, "colluders must be an integer"),
        ({"sites": -1}, "sites must be an integer"),
        ({"noise": "shared", "sites": 2}, "at least two honest sites: sites=2, colluders=1"),
        ({"noise": "shared", "sites": 4, "colluders": 3}, "at least two honest sites"),
        ({"noise": "none"}, "'each' or 'shared'"),
        ({"noise": "shared"}, "at least two honest sites"),
        ({"rows_per_person": 0}, "rows_per_person must be an integer"),
    ],
)
def test_promises_that_mean_nothing_are_refused(bad, text):
    with pytest.raises(ValueError, match=text):
        db.Privacy(**({"epsilon": 1.0, "delta": 1e-6} | bad))


def test_promises_at_their_limits():
    assert db.Privacy(100.0, 0.9).mu > 10.0
    usual = {"noise": "each", "colluders": 1, "rows_per_person": 1, "sites": 0}
    assert db.Privacy(1, 1e-6).plain() == {"epsilon": 1.0, "delta": 1e-6, **usual}
    assert db.Privacy.of(db.Privacy(2.0, 1e-6, colluders=0).plain()) == db.Privacy(2.0, 1e-6, colluders=0)
    with pytest.raises(db.errors.InvalidRules, match="cannot be read"):
        db.Privacy.of({"epsilon": 1.0, "delta": 1e-6, "further": 1})


def test_the_noise_of_honest_sites_makes_up_that_of_a_sum():
    assert db.Privacy(1.0, 1e-6).honest == 1
    assert db.Privacy(1.0, 1e-6, sites=9).honest == 1, "each adds all of it"
    assert db.Privacy(1.0, 1e-6, noise="shared", sites=7, colluders=2).honest == 5
    assert db.Privacy(1.0, 1e-6, noise="shared", sites=2, colluders=0).honest == 2


def test_a_promise_is_the_same_whoever_has_left_and_another_one_otherwise():
    promise = db.Privacy(1.0, 1e-6, noise="shared", sites=6, colluders=2)
    assert promise.same_as(replace(promise, sites=4))
    assert promise.same_as(promise)
    others = {"epsilon": 1.1, "delta": 1e-7, "noise": "each", "colluders": 1, "rows_per_person": 2}
    for name, value in others.items():
        assert not promise.same_as(replace(promise, **{name: value})), name
        assert not replace(promise, **{name: value}).same_as(promise), name


def test_releases_add_up_by_squares():
    budget = db.Privacy(1.0, 1e-6)
    assert spent([]) == 0.0
    assert spent([0.3]) == 0.3
    assert spent([3.0, 4.0]) == 5.0
    assert left(budget, []) == pytest.approx(budget.mu, rel=1e-12)
    assert hypot(left(budget, [0.1, 0.15]), 0.1, 0.15) == pytest.approx(budget.mu, rel=1e-12)
    assert left(budget, [budget.mu, 0.1]) == 0.0


def spending(mu_share, number=0, known=(), name="data", epsilon=1.0, release="r"):
    privacy = db.Privacy(epsilon, 1e-6)
    return Spending(release, "model", "north", privacy, privacy.mu * mu_share**0.5, number, name, frozenset(known))


def test_a_budget_is_spent_to_the_end_and_not_beyond(tmp_path):
    ledger = db.disclosure.Ledger(tmp_path / "a.ledger")
    ledger.spend(spending(0.25, 0, release="a"))
    ledger.spend(spending(0.75, 1, ["a"], release="b"))
    [account] = ledger.accounts()
    assert account.spent == pytest.approx(1.0)
    assert account.left == pytest.approx(0.0, abs=1e-6)
    written = ledger.path.read_bytes()
    with pytest.raises(BudgetExceeded, match="has spent ε = 1 of 1"):
        ledger.spend(spending(0.01, release="c"))
    assert ledger.path.read_bytes() == written, "nothing is written of what was refused"
    ledger.spend(spending(1.0, name="others", release="d"))
    ledger.set_budget("data", 2.0, 1e-6, approver="Dr Kim")
    ledger.spend(spending(0.5, release="e"))
    assert [account.releases for account in ledger.accounts()] == [3, 1]


def test_a_later_promise_does_not_loosen_the_budget(tmp_path):
    """The first release of a data set sets what it may spend in all; a weaker promise later does not raise it."""
    ledger = db.disclosure.Ledger(tmp_path / "a.ledger")
    ledger.spend(spending(1.0, epsilon=0.5, release="a"))
    with pytest.raises(BudgetExceeded):
        ledger.spend(spending(0.5, epsilon=5.0, release="b"))


def test_a_ledger_that_does_not_know_the_earlier_rounds_is_refused(tmp_path):
    ledger = db.disclosure.Ledger(tmp_path / "a.ledger")
    with pytest.raises(DamagedLedger, match=r"no release of round 0 .* another site's ledger, or an old copy"):
        ledger.spend(spending(0.5, 1, ["of another ledger"]))
    assert not ledger.entries()


def test_whole_numbers_are_numbers_in_a_ledger(tmp_path):
    """A line is hashed as it will be read: ε = 1 is ε = 1.0."""
    ledger = db.disclosure.Ledger(tmp_path / "a.ledger")
    ledger.spend(spending(1.0, epsilon=1))
    ledger.set_budget("data", 2, 1e-6, approver="Dr Kim")
    assert [entry.private.epsilon for entry in ledger.entries()] == [1.0, 2.0]
    assert db.Privacy(1, 1e-6) == db.Privacy(1.0, 1e-6)


def test_a_budget_has_somebodys_name(tmp_path):
    with pytest.raises(NotDisclosed, match="name of the person who sets it"):
        db.disclosure.Ledger(tmp_path / "a.ledger").set_budget("data", 1.0, 1e-6, approver=" ")


def test_lines_of_other_releases_are_as_they_were(tmp_path):
    """Ledgers from before there were budgets stay valid: their lines, and so their hashes, have no further field."""
    ledger = db.disclosure.Ledger(tmp_path / "a.ledger")
    ledger.append(db.disclosure.Entry("2026-01-31", "a.posterior", "0" * 64, "north", "mixture", 200, "Kim"))
    assert b"private" not in ledger.path.read_bytes()
    ledger.spend(spending(1.0))
    assert [entry.private is None for entry in ledger.entries()] == [True, False]
