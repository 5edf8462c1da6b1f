"""Families by name."""

import numpy as np

from decbayes.base.registering import Registry
from decbayes.families.family import Family
from decbayes.families.matrices import Array


def register(family: Family) -> None:
    """Register a family by its name, so that its posteriors can be saved and read.

    Readers of such a file must have registered the same family. A name belongs to one class permanently.

    `family` is an object of the new class.

    >>> class Concentration(db.families.Gamma):
    ...     "A Gamma by a name of its own."
    >>> db.families.register(Concentration())
    """
    FAMILIES.add(family)


def name_of(family: Family) -> str:
    """The name of a family's class, which no other class may have."""
    if not isinstance(family, Family):
        raise TypeError(f"register takes a family, such as Gamma(), not {family!r}.")
    name = type(family).__name__
    known = FAMILIES.get(name, family)
    if origin(known) != origin(family):
        raise ValueError(f"There is already a family {name}, of {origin(known)[0]}. Choose another name.")
    return name


class Families(Registry[Family]):
    def __getitem__(self, name: str) -> Family:
        """Built-in families are registered as classes."""
        family: Family | type[Family] = super().__getitem__(name)
        return family() if isinstance(family, type) else family


FAMILIES = Families(
    {
        name: f"decbayes.families.{file}:{name}"
        for file, names in {
            "dirichlets.beta": "Beta",
            "dirichlets.dirichlet": "Dirichlet Shares Weights",
            "dirichlets.transitions": "Dirichlets Transitions",
            "gamma": "Gamma",
            "gaussians.gaussian": "DiagonalGaussian FullGaussian IsotropicGaussian",
            "gaussians.gaussian_gamma": "GaussianGamma",
            "gaussians.isotropic_precision": "IsotropicNormalGamma",
            "gaussians.precision": "NormalGamma NormalWishart",
            "gaussians.wishart": "Wishart",
            "log_odds": "Bernoulli Categorical",
        }.items()
        for name in names.split()
    },
    name_of,
)
"""Every family by the name of its class; one with several layouts is represented by an example."""


def registered(name: str) -> Family:
    """The family of this name, with the layout in brackets after it, if any."""
    kind, bracket, layout = name.partition("(")
    if kind not in FAMILIES:
        raise ValueError(f"the family {kind!r} is not registered here; call `decbayes.families.register` first")
    family = FAMILIES[kind].laid_out(layout.removesuffix(")")) if bracket else FAMILIES[kind]
    if family.name != name:
        raise ValueError(f"{name!r} is not the canonical name of the family {kind}")
    return family


def origin(family: Family) -> tuple[str, str]:
    """Where a family's class was defined: a notebook cell may be run again."""
    return type(family).__module__, type(family).__qualname__


def positive(rng: np.random.Generator, *shape: int) -> Array:
    return rng.gamma(2.0, 1.0, size=shape) + 0.1


def covariances(rng: np.random.Generator, components: int, dimension: int) -> Array:
    roots = rng.normal(size=(components, dimension, dimension + 2))
    return np.asarray(roots @ np.swapaxes(roots, 1, 2) / dimension + 0.1 * np.eye(dimension))
