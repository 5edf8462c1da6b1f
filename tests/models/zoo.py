"""One small model of every kind, and how much data to simulate from it.

Priors and units are unusual ones: a term that is multiplied by one, or to which zero is added, could be left out.
"""

import decbayes as db

ASCENT = db.Ascent(passes=400, tolerance=1e-9)

# Sites that differ little: drawn from a prior that knows nothing, some would differ beyond all measure.
ALIKE = {"between_degrees": 20.0, "prior_between": 0.1}
REGRESSED = {"a": db.columns.Gaussian(5, 2), "b": db.columns.Categorical(3), "c": "yes/no"}

MIXED = {"weight_prior": 1.3, "ascent": ASCENT}
SHAPED = {"prior_mean": (0.7, -1.2), "prior_strength": 0.05, "prior_scale": 0.8, "prior_degrees": 4.5}
TABLE = {"category_prior": 0.6, "prior_strength": 0.02, "prior_degrees": 2.5, "prior_scale": 0.4}
MOVING = {"transition_prior": 0.8, "start_prior": 1.4, "ascent": ASCENT}


def known_classes():
    """The classes of which a model tells who is in them, known well."""
    model = db.LatentClasses(components=2, columns=dict.fromkeys("uvw", db.columns.YesNo()))
    families = model.structure.families
    natural = {
        "weights": families["weights"].natural(alpha=[60.0, 40.0]),
        "yes_no": families["yes_no"].natural(
            alpha=[[80.0, 90.0, 20.0], [30.0, 10.0, 70.0]], beta=[[20.0, 10.0, 80.0], [70.0, 90.0, 30.0]]
        ),
    }
    return db.Posterior.from_natural(model.structure, natural)


ZOO = {
    "mean": (db.models.GaussianMean(variance=2.0, dimension=2, prior_mean=(0.7, -1.2), prior_variance=1.5), 40),
    "known variance": (
        db.GaussianMixture(3, 2, variance=0.02, prior_mean=(0.7, -1.2), prior_variance=1.5, **MIXED),
        80,
    ),
    "spherical": (db.GaussianMixture(2, 2, covariance="spherical", **SHAPED, **MIXED), 80),
    "diagonal": (db.GaussianMixture(2, 2, covariance="diagonal", **SHAPED, **MIXED), 80),
    "full": (db.GaussianMixture(2, 2, covariance="full", **SHAPED, **MIXED), 80),
    "yes or no": (db.BernoulliMixture(2, 8, prior=0.6, ascent=ASCENT), 80),
    "counts": (db.PoissonMixture(2, 3, **MIXED), 80),
    "categories": (db.CategoricalMixture(2, 4, categories=(4, 3, 5, 3), prior=0.7, **MIXED), 80),
    "classes": (
        db.LatentClasses(
            components=2,
            columns={
                "a": db.columns.Categorical(3),
                "b": db.columns.Gaussian(5, 2),
                "c": db.columns.YesNo(),
                "d": db.columns.Poisson(4),
            },
            **TABLE,
            **MIXED,
        ),
        80,
    ),
    "states": (
        db.HiddenMarkov(
            states=2,
            columns={"a": db.columns.Gaussian(5, 2), "b": db.columns.Categorical(3)},
            stickiness=3.0,
            **TABLE,
            **MOVING,
        ),
        3,
    ),
    "correlated states": (
        db.HiddenMarkov(
            states=2, columns=dict.fromkeys("ab", db.columns.Gaussian(5, 2)), covariance="full", ascent=ASCENT
        ),
        3,
    ),
    "states of known variance": (
        db.HiddenMarkov(
            states=2,
            columns={"a": db.columns.Gaussian(5, 2), "b": db.columns.Poisson(3)},
            variance=0.1,
            ascent=ASCENT,
        ),
        3,
    ),
    "linear regression": (db.LinearRegression("y", columns=REGRESSED | {"y": db.columns.Gaussian(10, 4)}), 40),
    "logistic regression": (
        db.LogisticRegression("y", columns=REGRESSED | {"y": "yes/no"}, prior_variance=2.0, ascent=ASCENT),
        60,
    ),
    "Poisson regression": (
        db.PoissonRegression("y", columns=REGRESSED | {"y": "count"}, prior_variance=0.5, ascent=ASCENT),
        60,
    ),
    "groups of regressions": (
        db.RegressionMixture(
            2, "y", columns={"a": db.columns.Gaussian(5, 2), "y": db.columns.Gaussian(10, 4)}, ascent=ASCENT
        ),
        100,
    ),
    "linear, varying": (
        db.LinearRegression(
            "y",
            columns=REGRESSED | {"y": db.columns.Gaussian(10, 4)},
            varying=("intercept", "a"),
            correlated=True,
            ascent=ASCENT,
            **ALIKE,
        ),
        80,
    ),
    "logistic, varying": (
        db.LogisticRegression(
            "y",
            columns=REGRESSED | {"y": "yes/no"},
            prior_variance=2.0,
            varying=("intercept",),
            varying_within=("intercept",),
            within="ward",
            ascent=ASCENT,
            **ALIKE,
        ),
        80,
    ),
    "negative binomial regression": (
        db.NegativeBinomialRegression(
            "y", columns=REGRESSED | {"y": "count"}, prior_variance=0.5, dispersion=3.0, ascent=ASCENT
        ),
        60,
    ),
    "survival": (
        db.SurvivalRegression(
            "y",
            columns=REGRESSED | {"t": "real", "y": "yes/no"},
            time="t",
            cuts=(1.0, 3.0),
            rate=0.5,
            prior_variance=0.5,
            ascent=ASCENT,
        ),
        60,
    ),
    "ordered regression": (
        db.OrderedRegression(
            "y",
            columns=REGRESSED | {"y": db.columns.Categorical("lots", "none", "some")},
            levels=("none", "some", "lots"),
            prior_variance=0.5,
            ascent=ASCENT,
        ),
        60,
    ),
    "multinomial regression": (
        db.MultinomialRegression(
            "y",
            columns=REGRESSED | {"y": db.columns.Categorical("bus", "car", "train")},
            reference="car",
            prior_variance=0.5,
            ascent=ASCENT,
        ),
        60,
    ),
    "membership": (
        db.models.ClassMembership(columns=REGRESSED, classes=known_classes(), prior_variance=0.5, ascent=ASCENT),
        60,
    ),
    "ordered regression, cumulative": (
        db.OrderedRegression(
            "y",
            columns=REGRESSED | {"y": db.columns.Categorical("lots", "none", "some")},
            levels=("none", "some", "lots"),
            link="cumulative",
            prior_variance=0.5,
            ascent=ASCENT,
        ),
        60,
    ),
    "Poisson, varying": (
        db.PoissonRegression(
            "y",
            columns=REGRESSED | {"y": "count"},
            prior_variance=0.5,
            varying=("intercept", "b"),
            ascent=ASCENT,
            **ALIKE,
        ),
        80,
    ),
    "topics": (
        db.LatentDirichletAllocation(
            2,
            tuple("abcdefgh"),
            document_steps=200,
            document_tolerance=1e-9,
            ascent=db.Ascent(passes=500, tolerance=1e-9, warm_up=5),
        ),
        60,
    ),
    "topics, prior learned": (
        db.LatentDirichletAllocation(
            2,
            tuple("abcdefgh"),
            "learn",
            document_steps=200,
            document_tolerance=1e-9,
            ascent=db.Ascent(passes=500, tolerance=1e-9, warm_up=5),
        ),
        60,
    ),
    "features": (db.LatentFeatures(2, 4, variance=0.05, ascent=db.Ascent(passes=400, tolerance=1e-9)), 60),
}
