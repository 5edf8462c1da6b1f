"""A solver of a user's own, in one file and with one registration: clusters on a line, from left to right."""

from dataclasses import dataclass

import numpy as np

import decbayes as db


@db.solvers.register
@dataclass(frozen=True)
class InOrder:
    """The leftmost component of each site into the first slot, and so on; `backwards` from the right."""

    backwards: bool = False

    def solve(self, problem: db.extending.Problem) -> db.extending.Solution:
        slots = []
        place = next(place for place, factor in enumerate(problem.factors) if not factor.family.over_components)
        for contents in problem.contents:
            natural = problem.factors[place].prior + contents[place].written_out()
            order = np.argsort(-natural[:, 0] / natural[:, 1])
            slots.append(np.argsort(order if not self.backwards else order[::-1]))
        return db.extending.Solution(tuple(slots), (), "none")
