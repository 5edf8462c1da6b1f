"""The figures by name; each experiment is loaded when it is asked for."""

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from decbayes.errors import DecbayesError
from paper.experiment import Experiment

HOMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gaussian": ("gaussian", "Gaussian", {}),
    "mixture-true": ("mixture_true", "MixtureTrue", {}),
    "mixture-naive": ("mixture_naive", "MixtureNaive", {}),
    "mixture-restarts": ("mixture_restarts", "MixtureRestarts", {}),
    "mixture-symmetrized": ("mixture_symmetrized", "MixtureSymmetrized", {}),
    "mixture-agents": ("mixture_agents", "MixtureAgents", {}),
    "mixture-amps": ("mixture_amps", "MixtureAmps", {}),
    "lda": ("lda", "Lda", {}),
    "lda-by-group": ("lda", "Lda", {"split": "by-group", "agents": (10,)}),
    "sda": ("sda", "Sda", {}),
    "features-synthetic": ("features_synthetic", "FeaturesSynthetic", {}),
    "features-faces": ("features_faces", "FeaturesFaces", {}),
}
"""The module, the class and the options of each figure."""

NAMES = tuple(HOMES)


class NoSuchFigure(DecbayesError):
    """A name that is no figure's."""


class NoSuchOption(DecbayesError):
    """An option that this figure does not have."""


def build(name: str, options: Mapping[str, Any], *, strictly: bool = True) -> Experiment:
    """The experiment of that name with the given options; an option that it does not have is refused.

    For a run of all figures an option goes to those that have it, which is what `strictly=False` says.
    """
    if name not in HOMES:
        raise NoSuchFigure(f"There is no figure '{name}'; there are {', '.join(NAMES)}, and 'all'.")
    module, class_name, preset = HOMES[name]
    kind = getattr(import_module(f"paper.{module}"), class_name)
    known = {field.name for field in fields(kind)}
    # The folder of the data sets may be given for a figure that needs none.
    unknown = sorted(options.keys() - known - {"data"})
    if unknown and strictly:
        raise NoSuchOption(f"Figure '{name}' has no option --{unknown[0]}; it has {', '.join(sorted(known))}.")
    chosen = {option: value for option, value in options.items() if option in known}
    experiment: Experiment = kind(**{**chosen, **preset} if not strictly else {**preset, **chosen})
    return experiment
