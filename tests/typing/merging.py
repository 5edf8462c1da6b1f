"""Fit, merge and look: what a user writes on the first day."""

from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import decbayes as db

rng = np.random.default_rng(0)
model = db.GaussianMixture(2, 2, covariance="diagonal", columns=["length", "width"], ascent=db.Ascent(restarts=1))
sites = [model.fit(rng.normal(size=(50, 2)), rng=rng).posterior for _ in range(3)]
merged = db.merge(sites)
assert_type(merged, db.Posterior)
assert_type(merged.mean("components"), NDArray[np.float64])
assert_type(merged.deviation("components", "precision"), NDArray[np.float64])
lower, upper = merged.interval("components", 0.9)
widths = (upper - lower).round(2).tolist()
first: float = float(merged.mean("weights")[0])
assert_type(merged.quantities("components"), tuple[str, ...])

alignment = db.align(sites)
db.save(merged, Path("merged.posterior"))
again: db.Posterior = db.load("merged.posterior")
scores: NDArray[np.float64] = model.log_predictive(again, rng.normal(size=(5, 2)))
db.report(alignment, "report.html", names=["a", "b", "c"])
same_model: db.extending.Model = db.model_for(merged.structure)
