"""Regressions whose sites differ by more than chance: in which terms, and what to do about it."""

from collections.abc import Iterator
from typing import NamedTuple

from decbayes.errors import StructureMismatch
from decbayes.merging import Alignment
from decbayes.merging.heterogeneity import Heterogeneity
from decbayes.models.registry import model_for
from decbayes.models.regression import Regression
from decbayes.models.regression_table import FACTOR
from decbayes.symmetry import CoupledSet


class Difference(NamedTuple):
    """A term: how many times chance sites differ in it, and the deviation from site to site that would explain it."""

    term: str
    times: float
    between: float
    notable: bool


def differences(found: Alignment) -> list[Difference]:
    """All terms of a regression, as the merge has them; none where it is no regression."""
    model = regression_of(found)
    return [] if model is None else differences_in(model, heterogeneity_of(found))


def differences_in(model: Regression, apart: Heterogeneity) -> list[Difference]:
    (times,), (between,) = (next(iter(part[FACTOR].values())) for part in (apart.times, apart.between))
    unit, _ = model.units_and_offset()
    rows = zip(model.design.labels, times, between * unit, strict=True)
    return [Difference(term, float(t), float(b), place in apart.terms) for place, (term, t, b) in enumerate(rows)]


def advice(found: Alignment) -> Iterator[tuple[str, str]]:
    """What to say where sites differ: what was found, and what to do."""
    model = regression_of(found)
    if model is None:
        return
    apart = heterogeneity_of(found)
    notable = sorted((each for each in differences_in(model, apart) if each.notable), key=lambda each: -each.times)
    if not notable:
        return
    said = ", ".join(f"{each.term} ({each.times:.1f} ×)" for each in notable)
    terms = [term for term in varying_terms(model) if shared(model, term, notable)]
    yield (
        f"Sites differ by more than chance in {said}: that much or more is seen with probability "
        f"{apart.probability[0]:.1g} where they do not.",
        "A merge takes it that coefficients are the same everywhere, and is too sure of them. Let them differ: "
        f"--varying {','.join(terms)} in each fit (varying= in Python), then some rounds.",
    )


def varying_terms(model: Regression) -> list[str]:
    return [*(["intercept"] if model.intercept else []), *model.terms]


def shared(model: Regression, term: str, notable: list[Difference]) -> bool:
    """Whether a term has one of these coefficients, or varies already."""
    labels = {model.design.labels[place] for place in model.design.places([term])}
    return term in model.varying or bool(labels & {each.term for each in notable})


def heterogeneity_of(found: Alignment) -> Heterogeneity:
    return found.heterogeneity()[CoupledSet((FACTOR,))]


def regression_of(found: Alignment) -> Regression | None:
    try:
        model = model_for(found.structure)
    except StructureMismatch:
        return None
    return model if isinstance(model, Regression) and len(found.posteriors) > 1 else None
