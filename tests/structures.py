"""Small structures and posteriors for the tests of merging, files and posteriors."""

import numpy as np
from draws import contribution, prior
from scipy.sparse import csr_array

from decbayes import Posterior
from decbayes.extending import CoupledSet, Structure
from decbayes.families import FAMILIES, Dirichlet, IsotropicGaussian, Weights


def single(name, rows, dimension):
    """One factor of one family, symmetric in its components."""
    return Structure({"factor": FAMILIES[name]}, {"factor": prior(name, rows, dimension)}, (CoupledSet(("factor",)),))


def mixture(rows):
    """The coupled structure of section 3.1: means and weights relabelled together."""
    return Structure(
        {"means": IsotropicGaussian(), "weights": Weights()},
        {
            "means": IsotropicGaussian().natural(mean=np.zeros((rows, 1)), variance=2.0),
            "weights": Weights().natural(alpha=np.ones(rows)),
        },
        (CoupledSet(("means", "weights")),),
        model={"name": "mixture of the paper", "variance": 0.09},
    )


def topics(rows, words):
    """Sparse topics, as LDA has them."""
    return Structure(
        {"topics": Dirichlet()},
        {"topics": Dirichlet().natural(alpha=np.full((rows, words), 0.05))},
        (CoupledSet(("topics",)),),
        labels={"topics": tuple(f"word{w}" for w in range(words))},
        sparse=frozenset({"topics"}),
    )


def everything():
    """Two coupled sets, one of them sparse, and a factor in no set."""
    return Structure(
        {"means": IsotropicGaussian(), "weights": Weights(), "topics": Dirichlet(), "offset": IsotropicGaussian()},
        {
            "means": prior("IsotropicGaussian", 3, 2),
            "weights": Weights().natural(alpha=np.ones(3)),
            "topics": Dirichlet().natural(alpha=np.full((4, 12), 0.1)),
            "offset": IsotropicGaussian().natural(mean=[[0.0]], variance=4.0),
        },
        (CoupledSet(("means", "weights")), CoupledSet(("topics",))),
        labels={"topics": tuple("abcdefghijkl")},
        sparse=frozenset({"topics"}),
        model={"name": "everything at once"},
    )


def draw(structure, rng):
    """A posterior as data would make it."""
    parts = {}
    for name, family in structure.families.items():
        rows, width = structure.prior[name].shape
        dimension = family.dimension(width)
        part = contribution(family.name, rng, rows, dimension)
        parts[name] = csr_array(part * (rng.random(part.shape) < 0.4)) if name in structure.sparse else part
    return Posterior(structure, parts)


def relabel(posterior, rng):
    """The same posterior with each coupled set's components in another order."""
    orders = {c: rng.permutation(posterior.structure.components(c)) for c in posterior.structure.symmetry}
    rows = {name: order for coupled, order in orders.items() for name in coupled.factors}
    moved = dict(posterior.contribution)
    for name, order in rows.items():
        both = posterior.structure.families[name].two_sided
        moved[name] = moved[name][np.ix_(order, order)] if both else moved[name][order]
    return Posterior(posterior.structure, moved)
