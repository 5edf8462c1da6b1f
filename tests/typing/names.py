"""Lists of names: columns, words, terms, factors, categories, labels."""

import numpy as np

import decbayes as db

words = ["bayes", "prior", "merge"]
columns = ["length", "width"]

topics = db.LatentDirichletAllocation(2, words, document_prior=0.1)
with_tuple = db.LatentDirichletAllocation(2, tuple(words))
mixture = db.GaussianMixture(2, 2, variance=1.0, columns=columns)
counts = db.PoissonMixture(2, dimension=2, columns=columns)
answers = db.BernoulliMixture(2, dimension=2, columns=columns)
categories = db.CategoricalMixture(2, dimension=2, columns=columns, categories=[2, 3])

table = {"age": db.columns.Gaussian(50, 20), "sex": db.columns.Categorical(["f", "m"]), "ill": db.columns.YesNo()}
classes = db.LatentClasses(2, columns=table)
states = db.HiddenMarkov(2, columns=table)
line = db.LinearRegression("age", columns=table, terms=["sex", "ill"], varying=["intercept"])
groups = db.RegressionMixture(2, target="age", columns=table, terms=["sex"])
chosen = db.LatentClasses.from_frame({"a": [1.0, 2.0], "b": [0.0, 1.0]}, names=["a"], components=1)

structure = db.extending.Structure(
    families={"means": db.families.IsotropicGaussian(), "weights": db.families.Weights()},
    prior={"means": np.array([[0.0, -0.5]] * 2), "weights": np.zeros((2, 1))},
    symmetry=[db.extending.CoupledSet(["means", "weights"])],
    labels={"means": ["x"]},
    sparse=["means"],
)
posterior = db.Posterior(
    structure, {name: np.zeros_like(prior) for name, prior in structure.prior.items()}, ids=words[:2]
)
longest = max(len(word) for word in topics.vocabulary)
named = [name.upper() for name in mixture.columns]
