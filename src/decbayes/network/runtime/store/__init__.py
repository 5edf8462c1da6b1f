"""An agent's file: the records that outlive the process, and the orders that its owner writes into it."""

from decbayes.network.runtime.store.sqlite import SqliteStore, stored, stored_parts, stored_pool

__all__ = ["SqliteStore", "stored", "stored_parts", "stored_pool"]
