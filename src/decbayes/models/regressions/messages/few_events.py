"""Sites at which too few persons have the outcome to show who they are: a file then only says that there are few.

Leaving such sites out would select sites by their outcome, and merges would find it too often. Rules replace the
targets by one share for all rows, which stands for the number of events that is assumed.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from decbayes.families import Array
from decbayes.models.regressions.varying.climb import GaussianClimb, Problem

if TYPE_CHECKING:
    from decbayes.models.regressions.outcome import Generalized


class FewEvents(GaussianClimb):
    """The likelihood of 1 to `least` − 1 events among all rows, around the most probable coefficients.

        log P(1 ≤ K < least),   K ~ Poisson(μ),   μ = Σ p(xβ)

    Its slope is (E[K | few] − μ) t and its information (μ − var[K | few]) t tᵀ, with t = ∇ log μ: the rows say how
    frequent events are, and nothing about differences between rows.
    """

    def __init__(self, outcome: "Generalized", problem: Problem) -> None:
        # Expectations over slopes about which these rows say nothing would be those of many events.
        super().__init__(outcome, replace(problem, approximation="laplace"))

    def sums(self, mean: Array, variance: Array) -> tuple[float, tuple[Array, Array]]:
        problem = self.problem
        common = 1.0 if problem.targets.max() > 0.5 else 0.0
        few = np.abs(problem.targets - common).sum()
        numbers = np.arange(1.0, max(np.rint(2.0 * few), 2.0))
        _, slope, weight = self.outcome.expectations(
            np.full(len(mean), common), mean + problem.offset, np.zeros(len(mean))
        )
        expected = float(np.abs(slope).sum())
        heights = numbers * np.log(expected) - gammaln(numbers + 1.0)
        shares = softmax(heights)
        number = float(shares @ numbers)
        information = expected - float(shares @ (numbers - number) ** 2)
        along = (1.0 - 2.0 * common) * weight / expected
        direction = along @ problem.rows.design
        shift = (number - expected + information * float(along @ mean)) * direction
        value = float(logsumexp(heights)) - expected
        return value, (shift[None], information * np.outer(direction, direction)[None])
