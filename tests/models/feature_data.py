"""The synthetic set of section 3.3, where the truth is identifiable."""

import numpy as np
from scipy.optimize import linear_sum_assignment


def synthetic(seed, *, observations=1000, features=5, dimension=10, variance=0.04):
    """Observations, the binary features and the assignments that made them."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((features, dimension))
    while np.linalg.matrix_rank(truth) < features:
        truth = rng.integers(0, 2, (features, dimension)).astype(float)
    inclusion = rng.uniform(0.1, 0.9, features)
    assignments = (rng.random((observations, features)) < inclusion).astype(float)
    return assignments @ truth + rng.normal(0, variance**0.5, (observations, dimension)), truth, assignments


def matched(found, truth):
    """Which found feature stands for each true one."""
    distance = ((found[:, None] - truth[None]) ** 2).sum(axis=-1)
    return linear_sum_assignment(distance.T)[1]


def feature_error(found, truth):
    """2-norm of the difference under the best matching."""
    return float(np.linalg.norm(found[matched(found, truth)] - truth))
