"""The merge that the paper describes: one component of each agent in each slot, found by matching (section 3.2)."""

from decbayes.solvers import Matching

MATCHED = Matching()
