"""Many to one: any component of any site into any slot. A tree of joins, single moves, escapes."""

from decbayes.merging.grouping.grouping import Grouping

__all__ = [
    "Grouping",
]
