"""An agent's store: records that outlive the process, and the owner's orders."""

from decbayes.network.runtime.store.offline import stored, stored_parts, stored_pool
from decbayes.network.runtime.store.sqlite import SqliteStore

__all__ = ["SqliteStore", "stored", "stored_parts", "stored_pool"]
