"""Where sites disagree: what one says of a component, and what all others say together."""

from collections.abc import Iterator

import numpy as np

from decbayes.families import dense
from decbayes.merging.influence import DISAGREES
from decbayes.posterior import Posterior
from decbayes.reporting.findings import Findings
from decbayes.reporting.markup import Markup, joined
from decbayes.reporting.tables import left_out, note, table
from decbayes.reporting.words import captions, number
from decbayes.symmetry import CoupledSet

MOST_ROWS = 20
MOST_SITES = 12  # whose versions are worth the time


def disagreements(found: Findings) -> Markup | None:
    """The strongest disagreements of sites that stand out, in their own words and in everybody else's."""
    disagreeing = [site for site in found.sites if len(found.sites) > 1 and found.influence.disagreeing[site]]
    flagged = sorted(disagreeing, key=lambda site: -found.influence.against[site])
    if not flagged or not found.sets:
        return None
    rows = sorted((row for site in flagged[:MOST_SITES] for row in rows_of(found, site)), key=lambda row: row[0])
    shown = table(("site", "component", "log BF", "it says", "all others say"), [row[1:] for row in rows[:MOST_ROWS]])
    told = f"log BF: nats for both being the same thing. Below {DISAGREES:g} is hardly chance.".replace("-", "−")
    more = [
        left_out(len(rows) - MOST_ROWS, "further components are"),
        left_out(len(flagged) - MOST_SITES, "further sites are"),
    ]
    return joined([shown, more, note(told)])


def rows_of(found: Findings, site: int) -> Iterator[tuple[float, str, int, str, str, str]]:
    """What the site says of each component that it disagrees about; what rests on too little is not quoted."""
    own = found.alignment.in_slots(site)
    for place, coupled in enumerate(found.sets):
        evidence, factors = found.shared[coupled].evidence, found.slots(place)[1]
        its, theirs = told(found, own, coupled), told(found, without(found.merged, own), coupled)
        rest = evidence.sum(axis=0) - evidence[site]
        for slot in np.flatnonzero(factors[site] < DISAGREES).tolist():
            said = its[slot] if evidence[site, slot] >= found.least else "–"
            others = theirs[slot] if rest[slot] >= found.least else "–"
            yield float(factors[site, slot]), found.names[site], slot, number(float(factors[site, slot])), said, others


def told(found: Findings, posterior: Posterior, coupled: CoupledSet) -> list[str]:
    """A few words on each component of the set, or none where the model has none to say."""
    texts, size = captions(posterior, found.model), posterior.structure.components(coupled)
    return texts if len(texts) == size else ["–"] * size


def without(merged: Posterior, own: Posterior) -> Posterior:
    """What all others say: the merge without a site's contribution; all of it, where that is no distribution."""
    rest = {name: dense(merged.contribution[name]) - dense(part) for name, part in own.contribution.items()}
    natural = {name: merged.structure.prior[name] + part for name, part in rest.items()}
    inside = all(family.contains(natural[name]) for name, family in merged.structure.families.items())
    return Posterior(merged.structure, rest) if inside else merged
