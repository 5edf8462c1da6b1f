"""A posterior as a few lines of text, for `print`."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from decbayes.families import Array
from decbayes.merging.base.components import LEAST_EVIDENCE, group_evidence
from decbayes.posterior import Posterior
from decbayes.remarks import lines
from decbayes.structure import CoupledSet
from decbayes.views.values import Estimate, number, range_text
from decbayes.views.view import INTERVAL, View, view_of

MOST_ROWS, MOST_WRITTEN = 20, 2

Described = TypeVar("Described")


def filled_slots(posterior: Posterior, coupled: CoupledSet) -> list[int]:
    """The slots that hold data; all slots if none does, or if each has its own prior, such as an earlier result."""
    evidence = group_evidence(posterior, coupled.factors)
    some: list[int] = np.flatnonzero(evidence >= LEAST_EVIDENCE).tolist()
    return some if some and posterior.structure.resizable else [*range(len(evidence))]


def by_filled_slot(posterior: Posterior, described: Sequence[Described]) -> dict[int, Described]:
    """The description of each component that holds data, by its number."""
    symmetry = posterior.structure.symmetry
    if len(symmetry) != 1 or len(described) != posterior.structure.components(symmetry[0]):
        return dict(enumerate(described))
    return {slot: described[slot] for slot in filled_slots(posterior, symmetry[0])}


def slot_labels(posterior: Posterior, coupled: CoupledSet) -> dict[int, str]:
    """The name of each slot that holds data, or its number if it has none."""
    count = posterior.structure.components(coupled)
    names = view_of(posterior.structure).names(posterior) if len(posterior.structure.symmetry) == 1 else ()
    labels = names if len(names) == count else [""] * count
    return {slot: labels[slot] or str(slot) for slot in filled_slots(posterior, coupled)}


def cell_text(components: Sequence[int]) -> str:
    """A site's components in one slot: "1+4"; or their count, if the numbers would not fit."""
    return "+".join(map(str, components)) if len(components) <= MOST_WRITTEN else f"{len(components)}×"


def text_of(posterior: Posterior) -> str:
    """The model, the kind of uncertainty, one line per component or coefficient, and remarks."""
    view = view_of(posterior.structure)
    head = f"Posterior of {view.title}, uncertainty: {view.uncertainty(posterior)}"
    shown = posterior_table(posterior, view)
    return "\n".join([head, *shown, *lines(posterior.remarks, rest="see `remarks`")]) if shown else repr(posterior)


def posterior_table(posterior: Posterior, view: View) -> list[str]:
    """Coefficients with intervals, or components with shares; empty if the model is unknown."""
    if estimates := view.estimates(posterior):
        return text_table(("term", "mean", INTERVAL), [*map(estimate_row, [*estimates, *view.between(posterior)])])
    texts, shares = view.captions(posterior), weights(posterior)
    shown = by_filled_slot(posterior, texts).items()
    if shares is None or len(shares) != len(texts):
        return text_table((view.noun, ""), [(str(slot), text) for slot, text in shown])
    rows = [(str(slot), f"{shares[slot]:.1%}", text) for slot, text in shown]
    return text_table((view.noun, "share", ""), rows)


def estimate_row(estimate: Estimate) -> tuple[str, str, str]:
    return estimate.name, number(estimate.mean), range_text(estimate)


def weights(posterior: Posterior) -> Array | None:
    """The share of each component, if the model has such a factor; states have only shares at the start."""
    families = posterior.structure.families.items()
    if any(family.two_sided for _, family in families):
        return None
    shares = [posterior.mean(name) for name, family in families if family.over_components]
    return shares[0] if shares and np.ndim(shares[0]) == 1 else None


def text_table(titles: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """A table as text; only the first rows of a long one."""
    shown = [titles, *rows[:MOST_ROWS]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(titles))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    left = len(rows) - MOST_ROWS
    return [*texts, *([f"and {left} more"] if left > 0 else [])] if rows else []
