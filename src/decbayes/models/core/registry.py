"""Models by name: the only place that knows all of them."""

from typing import TypeVar

from decbayes.base.arguments import check_kind
from decbayes.base.registering import Registry
from decbayes.errors import StructureMismatch
from decbayes.models.core.model import Model
from decbayes.structure import Structure

Kind = TypeVar("Kind", bound=type[Model])

GROUP = "decbayes.models"
"""The entry-point group of models in installed packages, NAME = "module:Class"."""

# The room and the command of each model, so that `decbayes fit` can list all commands while loading one model.
SHIPPED = {
    "BernoulliMixture": ("mixtures", "yes-no"),
    "CategoricalMixture": ("mixtures", "categories"),
    "ClassMembership": ("regressions", "membership"),
    "GaussianMean": ("mixtures", "mean"),
    "GaussianMixture": ("mixtures", "mixture"),
    "HiddenMarkov": ("sequences", "states"),
    "LatentClasses": ("tables", "classes"),
    "LatentDirichletAllocation": ("topics", "topics"),
    "LatentFeatures": ("features", "features"),
    "LinearRegression": ("regressions", "linear-regression"),
    "LogisticRegression": ("regressions", "logistic-regression"),
    "MultinomialRegression": ("regressions", "multinomial-regression"),
    "NegativeBinomialRegression": ("regressions", "negative-binomial-regression"),
    "OrderedRegression": ("regressions", "ordered-regression"),
    "PoissonMixture": ("mixtures", "counts"),
    "PoissonRegression": ("regressions", "poisson-regression"),
    "RegressionMixture": ("regressions", "regression-mixture"),
    "SurvivalRegression": ("regressions", "survival-regression"),
}


def register(model: Kind) -> Kind:
    """Register your own model by name, for `model_for`, files, charters and agents; also a class decorator.

    `model` is a class derived from `decbayes.extending.Model` or `Mixture`, written as a frozen dataclass. Its name is
    stored in files and must differ from those of shipped models.

    >>> from dataclasses import dataclass
    >>> @db.register
    ... @dataclass(frozen=True)
    ... class Visits(db.PoissonMixture):
    ...     "Clusters of visits per hour."
    >>> structure = Visits(components=2, dimension=1).structure
    >>> type(db.model_for(structure)).__name__
    'Visits'

    The command line is a separate process: it imports the modules named by the environment variable
    `DECBAYES_EXTENSIONS`. A package registers its models for all who install it by an entry point of the group
    "decbayes.models".
    """
    MODELS.add(model)
    return model


def name_of(model: type[Model]) -> str:
    """The name of a model from outside the package."""
    if not isinstance(model, type) or not issubclass(model, Model):
        raise TypeError(f"register takes a class that is a decbayes.extending.Model, not {model!r}.")
    if lacking := sorted(getattr(model, "__abstractmethods__", ())):
        raise TypeError(f"{model.__name__} needs {', '.join(lacking)} as well.")
    if model.__name__ in SHIPPED:
        raise ValueError(f"decbayes ships a model named {model.__name__}; choose another name.")
    return model.__name__


MODELS: Registry[type[Model]] = Registry(
    {name: f"decbayes.models.{room}:{name}" for name, (room, _) in SHIPPED.items()}, name_of, GROUP
)
"""All models by name."""


def command_name(kind: type[Model]) -> str:
    """The name of a model's commands, from the class itself: derived models do not inherit their parent's."""
    return str(vars(kind).get("command", "")) or kind.__name__.lower()


def kind_called(command: str) -> type[Model]:
    """The model behind a command's name, such as "topics"."""
    shipped = {words: name for name, (_, words) in SHIPPED.items()}
    if command in shipped:
        return MODELS[shipped[command]]
    others = {command_name(MODELS[name]): name for name in MODELS if name not in SHIPPED}
    if command not in others:
        raise LookupError(f"No model is called '{command}'; there are {', '.join([*shipped, *others])}")
    return MODELS[others[command]]


def model_for(structure: Structure) -> Model:
    """The model that has this structure: the settings of its likelihood and exactly this prior.

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
