"""A merged posterior in plain values: its components, who supports each, how sure the matches are, what each site said.

    {"view", "unit", "set", "observations", "objective", "score", "sureness", "sites": [name …],
     "components": [{"slot", "evidence", "share", "drawing",
                     "cells": [{"site", "evidence", "apart", "match", "close", "components"} …]} …],
     "duplicates": [[slot, slot] …], "unlike": [slot …]}

`match` is the probability that the site's components belong there if `sureness` says so, else their margin in nats;
`close` says that it deserves a look.
Components that stand for fewer than `LEAST` observations are counted and not drawn: they could tell about single ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.families import Array
from decbayes.merging import Alignment, Reliability, reading
from decbayes.merging.grouping.shared import Shared
from decbayes.merging.reading import CLOSE, DOUBTFUL
from decbayes.models.core.model import Model
from decbayes.page.drawing import Drawing, drawings, entries, rounded
from decbayes.plot._alignment import least_sure
from decbayes.posterior import Posterior
from decbayes.symmetry import CoupledSet

LEAST = 5.0
HIDDEN: Drawing = {"kind": "hidden", "text": f"fewer than {LEAST:.0f} observations: not shown"}
# Of each component so many sites' versions are drawn, those with the most evidence.
MOST_VERSIONS = 20


@dataclass(frozen=True)
class Shown:
    """What is shown at once, and what only those ask for who look at one component: each site's version of it."""

    posterior: dict[str, Any]
    details: dict[str, Any]


def described(
    model: Model,
    posterior: Posterior,
    alignment: Alignment | None,
    sites: Sequence[str],
    reliability: Reliability | None = None,
    **more: Any,
) -> Shown:
    """A merge and where it comes from, with probabilities of matches if these are known; `more` is shown beside it."""
    shown = {"view": model.view, "unit": model.unit, "sites": [*sites], **more}
    if alignment is None or not alignment.structure.symmetry:
        rows = [] if alignment is None else model.describe(posterior)
        return Shown({**shown, "components": [], "rows": [entries(row) for row in rows]}, {})
    (coupled, *_) = alignment.structure.symmetry
    shared = alignment.shared()[coupled]
    values = (
        reading.margins(alignment) if reliability is None else reading.confidence(alignment, reliability).probabilities
    )
    strength = least_sure(alignment, coupled, values)  # a margin is no probability
    close = strength < (CLOSE if reliability is None else DOUBTFUL)
    cells = cells_of(alignment, coupled, shared, strength, close)
    filled = [slot for slot in range(shared.evidence.shape[1]) if cells[slot]]
    pictures = drawings(model, posterior, filled)
    total = float(shared.evidence.sum())
    components = [
        {
            "slot": slot,
            "evidence": rounded(shared.evidence[:, slot].sum()),
            "share": rounded(shared.evidence[:, slot].sum() / total) if total else 0.0,
            "drawing": drawn(pictures[slot], float(shared.evidence[:, slot].sum())),
            "cells": cells[slot],
        }
        for slot in filled
    ]
    peculiar: dict[str, Any] = {"duplicates": [[*pair] for pair in shared.duplicates], "unlike": [*shared.unlike]}
    objective = rounded(alignment.objective[-1]) if alignment.objective else None
    peculiar["sureness"] = "margin" if reliability is None else "probability"
    return Shown(
        {**shown, "objective": objective, "components": components, **peculiar},
        versions(model, alignment, shared.evidence, filled),
    )


def drawn(picture: Drawing, evidence: float) -> Drawing:
    return picture if evidence >= LEAST else HIDDEN


def cells_of(
    alignment: Alignment, coupled: CoupledSet, shared: Shared, strength: Array, close: NDArray[np.bool_]
) -> list[list[dict[str, Any]]]:
    """For each slot the sites that put something there, most evidence first."""
    fillings, evidence, apart = reading.fillings(alignment, coupled), shared.evidence, shared.apart
    cells: list[list[dict[str, Any]]] = []
    for slot in range(evidence.shape[1]):
        order = [site for site in np.argsort(-evidence[:, slot], kind="stable") if fillings[site][slot]]
        cells.append(
            [
                {
                    "site": int(site),
                    "evidence": rounded(evidence[site, slot]),
                    "apart": rounded(np.nan_to_num(apart[site, slot])),
                    "match": finite(strength[site, slot]),
                    "close": bool(close[site, slot]),
                    "components": [*fillings[site][slot]],
                }
                for site in order
            ]
        )
    return cells


def finite(value: float) -> float | None:
    """The value, None where there is nothing to compare with."""
    return rounded(value) if np.isfinite(value) else None


def versions(model: Model, alignment: Alignment, evidence: Array, slots: Sequence[int]) -> dict[str, Any]:
    """What each site has put into each slot, drawn like the merge itself."""
    pictures: dict[int, list[Drawing]] = {}
    told: dict[str, Any] = {}
    for slot in slots:
        order = np.argsort(-evidence[:, slot], kind="stable")[:MOST_VERSIONS]
        told[str(slot)] = []
        for site in (int(each) for each in order if evidence[each, slot] > 0.0):
            if site not in pictures:
                pictures[site] = drawings(model, alignment.in_slots(site))
            own = drawn(pictures[site][slot], float(evidence[site, slot]))
            told[str(slot)].append({"site": site, "drawing": own})
    return told
