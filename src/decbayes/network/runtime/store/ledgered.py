"""A store with a site's ledger before it: what is spent of persons' privacy is recorded before anything can be read."""

from collections.abc import Sequence

from decbayes.disclosure import Ledger
from decbayes.disclosure.budgets import check_spending
from decbayes.errors import DecbayesError, StoreFailed
from decbayes.network.protocol.effects import Saved, Store
from decbayes.network.protocol.sums import SumPart
from decbayes.privacy.releasing import Spending


class Ledgered:
    """Writes what a part of an opening spends into the ledger, once, and then the part into the store."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self._store, self.ledger = store, ledger

    def put(self, items: Sequence[Saved]) -> None:
        for item in items:
            if isinstance(item, SumPart) and item.opened and item.spending:
                self._spend(item.spent)
        self._store.put(items)

    def _spend(self, spending: Spending) -> None:
        """A crash may have come between the ledger and the store: a release is recorded once."""
        try:
            self.ledger.spend(spending, once=True)
        except (DecbayesError, OSError) as error:
            raise StoreFailed(f"{self.ledger.path}: {error}") from None

    def check(self, spending: Spending) -> None:
        """Refuse what could not be spent, before others wait for it."""
        check_spending(self.ledger.path, spending, self.ledger.entries())
