"""Refine, calibrate, validate, stream and simulate."""

from typing import assert_type

import numpy as np

import decbayes as db

model = db.GaussianMixture("auto", 1, variance=1.0)
drawn = db.simulate(db.PoissonMixture(2, 1), 20, rng=0)
shards = [np.random.default_rng(seed).normal(size=(20, 1)) for seed in range(3)]
fits = model.fit_many(shards, rng=1)
bounds: list[float] = [fit.bound[-1] for fit in fits if fit.converged]
refined = db.refine(model, shards, [fit.posterior for fit in fits], rounds=1, solver=["grouping"])
assert_type(refined.merged, db.Posterior)
calibrated = db.calibrate(model, shards, refined.merged)
assert_type(calibrated.uncertainty, str)
kept, held_back = db.checking.hold_back(model, shards[0], share=0.2)
scores = db.validate(model, {"merged": calibrated, "alone": fits[0].posterior}, held_back)
index: float = db.checking.adjusted_rand(["a", "b"], [0, 1])
latest = [posterior.mean("components") for posterior in db.streams.sequential(model, shards, rng=0)]
