"""Privacy budgets of data sets, and how much of them is spent, from the lines of a ledger."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from decbayes.disclosure.ledger import Entry, Spent
from decbayes.errors import BudgetExceeded, DamagedLedger
from decbayes.privacy.accounting import Privacy, epsilon_of, left
from decbayes.privacy.accounting import spent as total
from decbayes.privacy.releasing import Spending


class Account(NamedTuple):
    """What a data set may spend and has spent, as ε at the budget's δ."""

    data_set: str
    budget: Privacy
    spent: float
    left: float
    releases: int


def spent_in(name: str, entries: Sequence[Entry]) -> list[tuple[Entry, Spent]]:
    """The lines about one data set's privacy."""
    return [(entry, entry.private) for entry in entries if entry.private and entry.private.data_set == name]


def budget_of(name: str, entries: Sequence[Entry]) -> Privacy | None:
    """The budget that was set last; else the promise of the first release."""
    lines = [spent for _, spent in spent_in(name, entries)]
    decided = [spent for spent in lines if not spent.mu]
    if not lines:
        return None
    line = decided[-1] if decided else lines[0]
    return Privacy(line.epsilon, line.delta)


def accounts(entries: Sequence[Entry]) -> list[Account]:
    """Each data set's account."""
    names = dict.fromkeys(entry.private.data_set for entry in entries if entry.private is not None)
    return [account_of(name, entries) for name in names]


def account_of(name: str, entries: Sequence[Entry]) -> Account:
    mus = [spent.mu for _, spent in spent_in(name, entries) if spent.mu]
    budget = budget_of(name, entries)
    assert budget is not None
    rest = left(budget, mus)
    return Account(name, budget, epsilon_of(total(mus), budget.delta), epsilon_of(rest, budget.delta), len(mus))


def check_spending(path: Path, spending: Spending, entries: Sequence[Entry]) -> None:
    """Refuse a release whose earlier rounds the ledger does not know, or that exceeds the budget."""
    check_rounds(path, spending, entries)
    check_budget(spending, entries)


def check_budget(spending: Spending, entries: Sequence[Entry]) -> None:
    name = spending.data_set
    budget = budget_of(name, entries) or spending.privacy
    mus = [spent.mu for _, spent in spent_in(name, entries)]
    if total([*mus, spending.mu]) > budget.mu * (1.0 + 1e-12):
        before, after = (epsilon_of(total(spent), budget.delta) for spent in (mus, [*mus, spending.mu]))
        raise BudgetExceeded(
            f"Data set '{name}' has spent ε = {before:.3g} of {budget.epsilon:g} at δ = {budget.delta:g}; with this "
            f"release it would be {after:.3g}. Nothing was released. `decbayes ledger --budget` raises the budget."
        )


def check_rounds(path: Path, spending: Spending, entries: Sequence[Entry]) -> None:
    """Refuse a round unless this ledger has exactly the releases of all earlier rounds."""
    lines = [(entry.posterior, spent.round) for entry, spent in spent_in(spending.data_set, entries)]
    recorded = {number for release, number in lines if release in spending.known}
    if recorded != set(range(spending.round)):
        missing = sorted(set(range(spending.round)) - recorded)
        raise DamagedLedger(
            f"{path} has no release of round {missing[0]} of data set '{spending.data_set}' that the merge rests on: "
            "it is another site's ledger, or an old copy. Nothing was released. Use the ledger of the earlier rounds."
        )
