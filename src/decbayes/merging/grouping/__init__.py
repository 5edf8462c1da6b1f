"""Many to one: any component of any site into any slot, by a tree of joins, single moves and escapes."""

from decbayes.merging.grouping.grouping import Grouping

__all__ = ["Grouping"]
