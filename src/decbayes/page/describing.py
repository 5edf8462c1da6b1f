"""What the page shows, as JSON values: a merged posterior, or a whole group seen from outside.

    {"view", "noun", "unit", "set", "observations", "counting", "objective", "score", "sureness", "reason",
     "sites": [name …],
     "least", "components": [{"slot", "evidence", "share", "drawing",
                     "cells": [{"site", "evidence", "apart", "match", "close", "components"} …]} …],
     "duplicates": [[slot, slot] …], "unlike": [slot …]}

`match` is the probability that the site's components belong there or, depending on `sureness`, their margin in nats;
`close` marks close calls. The `kind` of a drawing is words, image, point, numbers, profile or table. Components with
fewer than `least` observations are counted but not drawn, since they could describe single persons; their evidence is
null. `counting` is how many of the observations a robust merge counts, if not all.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from decbayes.families import Array
from decbayes.merging import Alignment, Reliability, align, reading
from decbayes.models.core.model import Model
from decbayes.posterior import Posterior
from decbayes.views import Findings, Image, Interval, Numbers, Point, Profile, Shares, View, Words, view_of
from decbayes.views.findings import LEAST
from decbayes.views.values import Part, Row, four_digits, value_text

Drawing = dict[str, Any]

HIDDEN: Drawing = {"kind": "hidden", "text": f"fewer than {LEAST:.0f} observations: not shown"}
MOST_NUMBERS, MOST_COLUMNS, MOST_ENTRIES = 24, 16, 8
# The number of sites whose version of a component is drawn, those with the most evidence.
MOST_VERSIONS = 20


@dataclass(frozen=True)
class Shown:
    """What is shown at once, and what is fetched on a click: the sites' versions of a component."""

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
    """A merge and the sites' parts in it, with probabilities of matches if known; `more` are further values.

    Without an `alignment` the contributions of single sites are unknown, and components are shown without sites.
    """
    view = view_of(model)
    shown = {"view": view.name, "noun": view.noun, "unit": view.counted, "sites": [*sites], "least": LEAST, **more}
    if alignment is None and posterior == Posterior.of_prior(posterior.structure):
        return Shown({**shown, "components": [], "rows": []}, {})
    if not posterior.structure.symmetry or posterior.means_only:
        rows = [entries(view.facts(row)) for row in view.rows(posterior)]
        return Shown({**shown, "components": [], "rows": rows}, {})
    if alignment is None:
        whole = described(model, posterior, align([posterior]), ["all"])
        components = [{**component, "cells": []} for component in whole.posterior["components"]]
        return Shown({**whole.posterior, **shown, "objective": None, "components": components}, {})
    findings = Findings(alignment, tuple(sites), LEAST, reliability)
    coupled = findings.sets[0]
    evidence, sure = findings.shared[coupled].evidence, findings.sureness[coupled]
    cells = cells_of(findings)
    filled = [slot for slot in range(evidence.shape[1]) if cells[slot]]
    merged = {
        "reason": alignment.reason,
        "objective": rounded(alignment.objective[-1]) if alignment.objective else None,
        "components": components_of(evidence, cells, drawings(view, posterior, filled), filled, view.names(posterior)),
        "duplicates": [[*pair] for pair in findings.shared[coupled].duplicates],
        "unlike": [*findings.shared[coupled].unlike],
        "sureness": sure.name,
    }
    return Shown({**shown, **merged}, versions(view, alignment, evidence, filled))


def components_of(
    evidence: Array, cells: Sequence[Any], pictures: Sequence[Drawing], filled: Sequence[int], names: Sequence[str]
) -> list[dict[str, Any]]:
    counts, total = evidence.sum(axis=0), float(evidence.sum())
    return [
        {
            "slot": slot,
            "name": names[slot] if len(names) == len(counts) and counts[slot] >= LEAST else "",
            "evidence": amount(counts[slot]),
            "share": rounded(counts[slot] / total) if total else 0.0,
            "drawing": if_enough(pictures[slot], float(counts[slot])),
            "cells": cells[slot],
        }
        for slot in filled
    ]


def amount(evidence: Any) -> float | None:
    """The evidence; None if it is too little to be shown."""
    return rounded(evidence) if evidence >= LEAST else None


def if_enough(picture: Drawing, evidence: float) -> Drawing:
    return picture if evidence >= LEAST else HIDDEN


def cells_of(findings: Findings) -> list[list[dict[str, Any]]]:
    """The sites with components in each slot, most evidence first."""
    coupled = findings.sets[0]
    shared, sure = findings.shared[coupled], findings.sureness[coupled]
    fillings, evidence = reading.fillings(findings.alignment, coupled), shared.evidence
    cells: list[list[dict[str, Any]]] = []
    for slot in range(evidence.shape[1]):
        order = [site for site in np.argsort(-evidence[:, slot], kind="stable") if fillings[site][slot]]
        cells.append(
            [
                {
                    "site": int(site),
                    "evidence": amount(evidence[site, slot]),
                    "apart": rounded(np.nan_to_num(shared.apart[site, slot])),
                    "match": finite(sure.values[site, slot]),
                    "close": bool(sure.close[site, slot]),
                    "components": [*fillings[site][slot]],
                }
                for site in order
            ]
        )
    return cells


def versions(view: View, alignment: Alignment, evidence: Array, slots: Sequence[int]) -> dict[str, Any]:
    """Each site's version of each component, drawn like the merge itself."""
    pictures: dict[int, list[Drawing]] = {}
    by_slot: dict[str, Any] = {}
    for slot in slots:
        order = np.argsort(-evidence[:, slot], kind="stable")[:MOST_VERSIONS]
        by_slot[str(slot)] = []
        for site in order[evidence[order, slot] > 0.0].tolist():
            if site not in pictures:
                pictures[site] = drawings(view, alignment.in_slots(site))
            picture = if_enough(pictures[site][slot], float(evidence[site, slot]))
            by_slot[str(slot)].append({"site": site, "drawing": picture})
    return by_slot


def drawings(view: View, posterior: Posterior, filled: Collection[int] = ()) -> list[Drawing]:
    """One drawing per component, on the scales of the `filled` components, if given."""
    parts = view.parts(posterior, shape=view.shape(posterior, guess=True))
    drawn = [drawing(part) for part in parts]
    scaled = [
        component
        for slot, component in enumerate(drawn)
        if component["kind"] == "profile" and (not filled or slot in filled)
    ]
    ranges = [column_range(columns) for columns in zip(*(component["columns"] for component in scaled), strict=True)]
    for component in drawn:
        for column, limits in zip(component.get("columns", ()), ranges, strict=False):
            if "mean" in column:
                column["limits"] = listed(limits)
    return drawn


@singledispatch
def drawing(part: Part) -> Drawing:
    return {"kind": "table", "entries": entries(part.facts)}


@drawing.register
def of_words(part: Words) -> Drawing:
    return {"kind": "words", "words": [[word, rounded(share)] for word, share in part.words]}


@drawing.register
def of_image(part: Image) -> Drawing:
    """An image of 256 greys with its own contrast."""
    greys = np.clip((part.pixels - part.low) / (part.high - part.low), 0.0, 1.0) * 255
    return {"kind": "image", "shape": [*part.pixels.shape], "pixels": greys.ravel().round().astype(int).tolist()}


@drawing.register
def of_numbers(part: Numbers) -> Drawing:
    return {"kind": "numbers", "names": [*part.names], "mean": listed(part.mean)}


@drawing.register
def of_point(part: Point) -> Drawing:
    """The mean, and the covariance of the first two dimensions."""
    covariance = [listed(line) for line in part.covariance[:2, :2]]
    mean = listed(part.mean[:MOST_NUMBERS])
    return {"kind": "point", "names": [*part.names[:MOST_NUMBERS]], "mean": mean, "covariance": covariance}


@drawing.register
def of_profile(part: Profile) -> Drawing:
    columns = [*part.columns.items()][:MOST_COLUMNS]
    return {"kind": "profile", "columns": [{"name": name, **column(value)} for name, value in columns]}


def column(value: Interval | Shares) -> Drawing:
    """One column of one class: an interval, or shares of categories."""
    if isinstance(value, Shares):
        largest = sorted(value.of.items(), key=lambda pair: -pair[1].mean)[:MOST_ENTRIES]
        return {"shares": [[str(category), rounded(share.mean)] for category, share in largest]}
    return {"mean": rounded(value.mean), "low": rounded(value.low), "high": rounded(value.high)}


def column_range(columns: Sequence[Drawing]) -> tuple[float, float]:
    """The common scale of all classes."""
    low, high = (end([column.get(key, 0.0) for column in columns]) for end, key in ((min, "low"), (max, "high")))
    return (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)


def entries(row: Row) -> list[list[str]]:
    """Plain values as pairs of strings."""
    return [[str(name), value_text(value, four_digits, MOST_ENTRIES)] for name, value in row.items()][:MOST_NUMBERS]


def listed(values: Any) -> list[float]:
    return [rounded(value) for value in np.ravel(values)]


def finite(value: float) -> float | None:
    """The value; None if there is nothing to compare with."""
    return rounded(value) if np.isfinite(value) else None


def rounded(value: Any) -> float:
    """The value to four digits, which is enough for a picture; 0 for infinity, which JSON does not have."""
    number = float(value)
    return float(f"{number:.4g}") if np.isfinite(number) else 0.0


Versions = Mapping[str, Mapping[str, int]]
"""The versions that each agent has, by site."""

Links = Sequence[tuple[str, str]]


def outside_view(group: str, model: str, members: Sequence[Mapping[str, Any]], links: Links) -> dict[str, Any]:
    """A network as seen by a demonstration or simulation, which can read every agent."""
    counted = [member.get("observations", 0) if member.get("state") == "counted" else 0 for member in members]
    shares = [{"share": count / sum(counted)} if count else {} for count in counted]
    return {
        "group": group,
        "model": model,
        "viewpoint": None,
        "members": [{**member, **share} for member, share in zip(members, shares, strict=True)],
        "links": [[*link] for link in links],
        "problems": [f"{member['name']} {flag}" for member in members for flag in member.get("flags", ())],
    }


class Arrivals:
    """Reports which records have arrived at which agents since the last call, and through which neighbour."""

    def __init__(self) -> None:
        self._before: Versions = {}

    def news(self, versions: Versions, links: Links) -> Iterator[dict[str, Any]]:
        before, self._before = self._before, {agent: dict(known) for agent, known in versions.items()}
        for agent, known in versions.items():
            for origin, version in known.items():
                if version == before.get(agent, {}).get(origin):
                    continue
                if origin == agent:
                    yield {"event": "published", "member": agent, "to": agent, "text": f"{agent} has published"}
                    continue
                near = [other for link in links if agent in link for other in link if other != agent]
                through = [other for other in near if versions.get(other, {}).get(origin) == version]
                text = f"{agent} has received {origin}'s contribution"
                event = {"event": "accepted", "member": origin, "to": agent, "text": text}
                yield {**event, "through": through[0] if through else None}
