"""The figures by name; each experiment is loaded when it is asked for."""

from importlib import import_module
from typing import Any

from decbayes.errors import DecbayesError

HOMES = {
    "gaussian": ("gaussian", "Gaussian"),
    "mixture-true": ("mixture_true", "MixtureTrue"),
    "mixture-naive": ("mixture_naive", "MixtureNaive"),
    "mixture-restarts": ("mixture_restarts", "MixtureRestarts"),
    "mixture-symmetrized": ("mixture_symmetrized", "MixtureSymmetrized"),
    "mixture-agents": ("mixture_agents", "MixtureAgents"),
    "mixture-amps": ("mixture_amps", "MixtureAmps"),
}
NAMES = tuple(HOMES)


class NoSuchFigure(DecbayesError):
    """A name that is no figure's."""


def experiment_class(name: str) -> Any:
    if name not in HOMES:
        raise NoSuchFigure(f"There is no figure '{name}'; there are {', '.join(NAMES)}, and 'all'.")
    module, kind = HOMES[name]
    return getattr(import_module(f"decbayes.experiments.{module}"), kind)
