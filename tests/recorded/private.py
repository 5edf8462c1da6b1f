"""Private releases with noise that is known: the sums of single records, and what every round makes of them."""

import numpy as np

import decbayes as db
from decbayes.privacy.mechanism import Total

REAL, COUNT = db.columns.Gaussian(5, 2), db.columns.Poisson(3)
COLUMNS = {"a": REAL, "b": db.columns.Categorical(3)}
MODELS = {
    "linear": db.LinearRegression("y", columns=COLUMNS | {"y": REAL}),
    "logistic": db.LogisticRegression("y", columns=COLUMNS | {"y": "yes/no"}, prior_variance=2.0),
    "counts": db.PoissonRegression("y", columns=COLUMNS | {"y": COUNT}, prior_variance=0.2),
    "dispersed": db.NegativeBinomialRegression("y", columns=COLUMNS | {"y": COUNT}, dispersion=2.0, prior_variance=0.2),
    "survival": db.SurvivalRegression(
        "y", columns=COLUMNS | {"t": "real", "y": "yes/no"}, time="t", cuts=(1.0, 3.0), rate=0.5, prior_variance=0.2
    ),
    "classes": db.LatentClasses(
        2, columns=dict.fromkeys("abc", db.columns.YesNo()) | {"d": db.columns.Categorical(3)}
    ),
    "clusters": db.GaussianMixture(2, 2, covariance="full", prior_strength=0.1),
}  # fmt: skip


def rounds_of(name):
    """All rounds of one release, the noise of which is large enough to count."""
    model = MODELS[name]
    mechanism, data, rng = model.mechanism(), db.simulate(model, 120, rng=3).data, np.random.default_rng(5)
    anchor, totals, found = mechanism.start(), [], []
    for number in range(mechanism.rounds):
        statistics = mechanism.record_statistics(anchor, data, number)
        noise = 0.3 + 0.2 * number
        sums = statistics.sum(axis=0) + noise * rng.normal(size=mechanism.size(number))
        totals.append(Total(sums, noise, anchor, 2))
        estimate = mechanism.estimate(totals, 3.0)
        anchor = estimate.anchor
        rest = estimate.misfit, estimate.price, estimate.quality
        found.append({"statistics": statistics, "noise": estimate.noise, "rest": np.array(rest), "anchor": anchor})
    return {
        "rounds": found,
        "posterior": estimate.posterior,
        "interval": getattr(estimate.posterior.calibration, "deviations", None),
        "outside": mechanism.outside(data),
        "prices": [mechanism.price_at(quality) for quality in (1.0, 30.0)],
        "best": mechanism.best_number(totals) if mechanism.any_number else 0,
    }
