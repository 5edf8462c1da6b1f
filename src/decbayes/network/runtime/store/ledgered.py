"""A store that records spent privacy in the site's ledger before a part of an opening becomes durable."""

from collections.abc import Sequence

from decbayes.disclosure import Ledger
from decbayes.disclosure.budgets import check_spending
from decbayes.errors import DecbayesError, StoreFailed
from decbayes.network.protocol.effects import Saved, Store
from decbayes.network.protocol.sums import SumPart
from decbayes.privacy.releasing import Spending


class Ledgered:
    """Writes the spending of an opening into the ledger, once, and then the part into the store."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store, self.ledger = store, ledger

    def put(self, items: Sequence[Saved]) -> None:
        for item in items:
            if isinstance(item, SumPart) and item.opened and item.spending:
                self._spend(item.spent)
        self._store.put(items)

    def _spend(self, spending: Spending) -> None:
        """Record spending once, even after a crash between the ledger and the store."""
        try:
            self.ledger.spend(spending, once=True)
        except (DecbayesError, OSError) as error:
            raise StoreFailed(f"{self.ledger.path}: {error}") from None

    def check(self, spending: Spending) -> None:
        """Refuse spending that the budget does not allow, before others wait for the part."""
        check_spending(self.ledger.path, spending, self.ledger.entries())
