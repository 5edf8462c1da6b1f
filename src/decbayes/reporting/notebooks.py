"""Posteriors, alignments, trees and refinements in notebooks: small tables with their own colours."""

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from decbayes.merging import Alignment, Tree, reading
from decbayes.merging.alignment import quick_remarks
from decbayes.posterior import Posterior
from decbayes.remarks import Remark, lines
from decbayes.reporting.markup import OPTIMALITY, Markup, tag
from decbayes.streams import Refinement
from decbayes.views import view_of
from decbayes.views.findings import sureness
from decbayes.views.text_summary import by_filled_slot, cell_text, estimate_row, slot_labels, weights
from decbayes.views.values import count_of, first_few, number
from decbayes.views.view import INTERVAL

MOST_COMPONENTS, MOST_SITES, MOST_SLOTS, MOST_ROUNDS = 20, 20, 20, 12
DIGITS = 12
# Notebooks are light or dark: shades of one blue on any background, and the notebook's text colour.
SHADE = "background:rgba(70,140,200,{:.2f})"


@singledispatch
def html_of(value: Any) -> str:
    return tag("pre", repr(value))


@html_of.register
def of_posterior(value: Posterior) -> str:
    """The model, the fingerprint, each component with its share in a few words, and the remarks."""
    view, doubts = view_of(value.structure), remark_notes(value.remarks)
    head, texts = f"Posterior of {view.title}, {value.digest[:DIGITS]}", view.captions(value)
    if estimates := view.estimates(value):
        shown = table(["term", "mean", INTERVAL], map(estimate_row, estimates[:MOST_COMPONENTS]))
        return frame(head, shown, left_out(len(estimates) - MOST_COMPONENTS, "term"), doubts)
    if not texts:
        shapes = {name: " × ".join(map(str, prior.shape)) for name, prior in value.structure.prior.items()}
        factors = [[name, family.name, shapes[name]] for name, family in value.structure.families.items()]
        return frame(head, table(["factor", "family", "shape"], factors), doubts)
    component_weights = weights(value)
    shares = component_weights if component_weights is not None and len(component_weights) == len(texts) else None
    described = by_filled_slot(value, texts).items()
    rows = [[k, *([f"{shares[k]:.1%}"] if shares is not None else []), text] for k, text in described]
    titles = ["", *(["share"] if shares is not None else []), "description"]
    shown, more = table(titles, rows[:MOST_COMPONENTS]), left_out(len(rows) - MOST_COMPONENTS, "component")
    return frame(head, shown, more, doubts)


@html_of.register
def of_alignment(value: Alignment) -> str:
    """Sites × slots: which components went where, shaded by certainty."""
    head = f"Alignment of {count_of(len(value.posteriors), 'posterior')}, optimality: {OPTIMALITY[value.optimality]}"
    doubts = remark_notes(quick_remarks(value))
    return frame(head, [matrix(value, coupled) for coupled in value.structure.symmetry], doubts)


def remark_notes(remarks: Sequence[Remark]) -> list[Markup]:
    return [note(text) for text in lines(remarks, rest="see `remarks`")]


def matrix(value: Alignment, coupled: Any) -> list[Markup | None]:
    certainty, fillings = sureness(value, coupled), reading.fillings(value, coupled)
    labels = slot_labels(value.merged(), coupled)
    slots = [*labels][:MOST_SLOTS]
    rows = [
        [site, *(shaded_cell(cell_text(fillings[site][slot]), certainty.values[site, slot]) for slot in slots)]
        for site in range(min(len(fillings), MOST_SITES))
    ]
    close = f"{int(certainty.close.sum())} close calls ({certainty.limit}); darker: more certain"
    more = len(labels) - len(slots)
    return [
        table(["site", *(labels[slot] for slot in slots)], rows),
        note(close),
        left_out(len(fillings) - MOST_SITES, "site"),
        left_out(more, "component"),
    ]


def shaded_cell(text: str, margin: float) -> Markup:
    """Margins from 0 to 100 nats on a logarithmic scale; a component without another slot is certain."""
    level = min(np.log10(1.0 + margin) / 2.0, 1.0) if text else 0.0
    return tag("td", text, style=f"{SHADE.format(0.08 + 0.5 * level)};text-align:center" if text else None)


@html_of.register
def of_tree(value: Tree) -> str:
    """The nats lost with each number of slots, to choose a cut."""
    losses = value.losses()
    rows = [[k + 1, number(float(loss))] for k, loss in enumerate(losses[:MOST_COMPONENTS])]
    head = f"Tree of {count_of(len(losses), 'component')} of {count_of(len(value.posteriors), 'site')}"
    return frame(head, table(["slots", "nats lost"], rows), left_out(len(losses) - MOST_COMPONENTS, "number"))


@html_of.register
def of_refinement(value: Refinement) -> str:
    """How far each round moved the merged posterior, then the merge itself."""
    moved = first_few([number(shift) for shift in value.shifts], MOST_ROUNDS)
    rounds = note(f"moved by (standard deviations per round): {moved}") if value.shifts else None
    return frame(f"Refinement of {value.headline}", rounds, Markup(of_posterior(value.merged)))


def frame(head: str, *content: Any) -> Markup:
    return tag("div", tag("p", tag("strong", head), style="margin:0 0 .3em"), content, style="overflow-x:auto")


def table(titles: Sequence[Any], rows: Any) -> Markup:
    heads = [tag("th", title, style="text-align:left") for title in titles]
    body = [tag("tr", [value if isinstance(value, Markup) else cell(value) for value in row]) for row in rows]
    return tag("table", tag("thead", tag("tr", heads)), tag("tbody", body))


def cell(value: Any) -> Markup:
    return tag("td", value, style="text-align:left")


def note(text: str) -> Markup:
    return tag("p", tag("small", text), style="margin:.2em 0")


def left_out(count: int, thing: str) -> Markup | None:
    return note(f"{count_of(count, thing)} more") if count > 0 else None
