"""Models by name: the only place that knows all of them."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TypeVar

from decbayes.arguments import check_kind
from decbayes.errors import StructureMismatch
from decbayes.models.core.model import Model
from decbayes.structure import Structure

Kind = TypeVar("Kind", bound=type[Model])

GROUP = "decbayes.models"
"""The entry points under which installed packages offer models of their own, NAME = "module:Class"."""

# Loaded when they are asked for: a fit of topics needs no mixtures.
_shipped = {
    "BernoulliMixture": "decbayes.models.mixtures",
    "CategoricalMixture": "decbayes.models.mixtures",
    "GaussianMean": "decbayes.models.mixtures",
    "GaussianMixture": "decbayes.models.mixtures",
    "HiddenMarkov": "decbayes.models.sequences",
    "LatentClasses": "decbayes.models.tables",
    "LatentDirichletAllocation": "decbayes.models.topics",
    "LatentFeatures": "decbayes.models.features",
    "LinearRegression": "decbayes.models.regressions",
    "LogisticRegression": "decbayes.models.regressions",
    "PoissonMixture": "decbayes.models.mixtures",
    "PoissonRegression": "decbayes.models.regressions",
    "RegressionMixture": "decbayes.models.regressions",
}
_registered: dict[str, type[Model]] = {}


def register(model: Kind) -> Kind:
    """Make a model of your own known by its name, to `model_for`, files, charters and agents; also a class decorator.

    `model` is a class derived from `decbayes.extending.Model` or `Mixture`, written as a frozen dataclass. Its name is
    stored in files, so it must not be that of a shipped model.

    >>> from dataclasses import dataclass
    >>> @db.register
    ... @dataclass(frozen=True)
    ... class Visits(db.PoissonMixture):
    ...     "Clusters of visits per hour."
    >>> structure = Visits(components=2, dimension=1).structure
    >>> type(db.model_for(structure)).__name__
    'Visits'

    The command line is a process of its own, which imports the modules named by the environment variable
    `DECBAYES_EXTENSIONS`. A package registers for everyone who installs it, by an entry point of the group
    "decbayes.models".
    """
    if not isinstance(model, type) or not issubclass(model, Model):
        raise TypeError(f"register takes a class that is a decbayes.extending.Model, not {model!r}.")
    if model.__name__ in _shipped:
        raise ValueError(f"decbayes ships a model named {model.__name__}; choose another name.")
    _registered[model.__name__] = model
    return model


class Models(Mapping[str, type[Model]]):
    """All models by name; each is loaded when it is asked for."""

    def __getitem__(self, name: str) -> type[Model]:
        if name in _shipped:
            model: type[Model] = getattr(import_module(_shipped[name]), name)
            return model
        if name not in _registered:
            offered = entry_points(group=GROUP, name=name)
            if not offered:
                raise KeyError(name)
            register(next(iter(offered)).load())
        return _registered[name]

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*_shipped, *_registered, *entry_points(group=GROUP).names])

    def __len__(self) -> int:
        return len(list(iter(self)))


MODELS = Models()


def model_for(structure: Structure) -> Model:
    """The model whose structure this is, with the settings of its likelihood and exactly this prior.

    Settings that are not part of the structure (restarts, passes and so on) have their defaults.

    `structure` is that of a posterior: `posterior.structure`.

    >>> posterior = db.GaussianMixture(3, variance=0.5).fit([1.0, 2.0, 8.0, 9.0], rng=0).posterior
    >>> model = db.model_for(posterior.structure)
    >>> model.components, model.dimension, model.variance
    (3, 1, 0.5)
    """
    check_kind(Structure, structure=structure)
    name = str(structure.model.get("name", ""))
    if name not in MODELS:
        raise StructureMismatch(
            f"The posterior belongs to {name or 'a model without a name'}, which is not registered "
            f"({', '.join(MODELS)} are). Register it with `decbayes.register`, or predict with the code that fitted it."
        )
    try:
        return MODELS[name].from_structure(structure)
    except (KeyError, TypeError, ValueError, StructureMismatch) as error:
        raise StructureMismatch(f"This is not a structure of {name} ({type(error).__name__}: {error}).") from None
