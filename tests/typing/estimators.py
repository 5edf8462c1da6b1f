"""Estimators as scikit-learn has them, tables and regressions."""

import numpy as np
from numpy.typing import NDArray

import decbayes as db

rng = np.random.default_rng(0)
clusters = db.sklearn.GaussianMixture(2, random_state=0).fit(rng.normal(size=(40, 2)))
means: NDArray[np.float64] = clusters.means_
posterior: db.Posterior = clusters.posterior_

frame = {"dose": rng.normal(size=40), "ill": ["yes", "no"] * 20}
line = db.LogisticRegression.from_frame(frame, "ill ~ dose")
fitted = line.fit(frame, rng=0).posterior
slopes = fitted.mean("coefficients").ravel().tolist()
rows = [f"{row['term']}: {row['mean']:.2f}" for row in line.describe(fitted)]
classes = db.LatentClasses.from_frame(frame, components=2, kinds={"ill": "yes/no"}, names=["dose", "ill"])
