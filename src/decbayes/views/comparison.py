"""What changed from one merge to another: components that stayed, changed, appeared or vanished."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from decbayes.families import Array
from decbayes.merging import Lineage, follow
from decbayes.merging.base.lineage import as_components, distances, ids_of
from decbayes.posterior import Posterior
from decbayes.views.values import Row
from decbayes.views.view import view_of

# A component has changed if describing it with common parameters costs more nats per observation.
CHANGED = 0.05
ENOUGH = 5  # words that became or are no longer leading

Fate = Literal["same", "changed", "appeared", "vanished"]


@dataclass(frozen=True)
class Change:
    """The fate of one component.

    `apart` is the loss in nats of describing one observation of each version with common parameters; 0 if they are the
    same. Shares are of all observations. `gained` and `lost` are leading words or other entries.
    """

    fate: Fate
    id: str
    name: str
    before: int | None
    after: int | None
    share_before: float
    share_after: float
    apart: float | None = None
    why: str = ""
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def row(self) -> Row:
        """The change as plain values."""
        return dict(vars(self))


def compare(before: Posterior, after: Posterior, *, top: int = 10) -> list[Change]:
    """What became of each component from one merge to the next: same, changed, appeared, vanished.

    Args:
        after: the later one, of the same model; ids need not agree.
        top: how many leading words to compare.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> monday = model.fit(np.array([[-9.0], [-8.0], [9.0], [8.0]]), rng=0).posterior
    >>> tuesday = model.fit(np.array([[-9.0], [-8.0], [30.0], [31.0]]), rng=0).posterior
    >>> [change.fate for change in db.texts.compare(monday, tuesday)]
    ['same', 'appeared', 'vanished']
    """
    lineage = follow(before, after)
    later, reasons = lineage.posterior, changes_in(lineage)
    ids = ids_of(before), ids_of(later)
    apart = distances(as_components(before), as_components(later))
    shares, names = (shares_of(before), shares_of(later)), (titles(before), titles(later))
    entries = leading(before, top), leading(later, top)
    changes = []
    for new, text in enumerate(ids[1]):
        if not text:
            continue
        old = ids[0].index(text) if text in ids[0] else None
        if old is None:
            changes.append(Change("appeared", text, names[1][new], None, new, 0.0, shares[1][new], None, reasons[text]))
            continue
        distance = max(float(apart[old, new]), 0.0)  # rounding may make it negative
        first, second = entries[0][old], entries[1][new]
        changes.append(
            Change(
                "changed" if distance > CHANGED else "same",
                *(text, names[1][new], old, new, shares[0][old], shares[1][new], distance, ""),
                gained=tuple(word for word in second if word not in first)[:ENOUGH],
                lost=tuple(word for word in first if word not in second)[:ENOUGH],
            )
        )
    vanished = [old for old, text in enumerate(ids[0]) if text and text not in ids[1]]
    return [
        *sorted(
            changes, key=lambda change: (change.fate == "appeared", change.fate != "changed", -(change.apart or 0.0))
        ),
        *(
            Change("vanished", ids[0][k], names[0][k], k, None, shares[0][k], 0.0, None, reasons[ids[0][k]])
            for k in vanished
        ),
    ]


def changes_in(lineage: Lineage) -> dict[str, str]:
    """What became of each component that was not just kept, by id; components are called by their names if any."""
    names: dict[str, str] = {}
    for posterior in (lineage.posterior, lineage.before):
        named = zip(ids_of(posterior), view_of(posterior.structure).names(posterior), strict=False)
        names |= {text: f"“{name}”" for text, name in named if name}
    changes = [event for event in lineage.events if event.kind != "kept"]
    return {
        event.id: str(replace(event, id=names.get(event.id, event.id), other=names.get(event.other, event.other)))
        for event in changes
    }


def shares_of(posterior: Posterior) -> Sequence[float]:
    evidence: Array = as_components(posterior).evidence
    total = float(evidence.sum())
    return [float(part) / total if total > 0.0 else 0.0 for part in evidence]


def titles(posterior: Posterior) -> list[str]:
    """The name of each component, or a few words on it."""
    return view_of(posterior.structure).captions(posterior)


def leading(posterior: Posterior, top: int) -> list[tuple[str, ...]]:
    """The leading words of each topic; empty if components have no words."""
    quality = view_of(posterior.structure).quality(posterior, top=top)
    size = len(as_components(posterior))
    return list(quality.words) if quality is not None else [()] * size


def count_by_fate(changes: Sequence[Change]) -> dict[Fate, int]:
    fates: tuple[Fate, ...] = ("same", "changed", "appeared", "vanished")
    return {fate: int(np.sum([change.fate == fate for change in changes])) for fate in fates}
