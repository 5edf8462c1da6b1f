"""What deserves a look in a merge, each with what to do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from decbayes.errors import StructureMismatch
from decbayes.merging import Alignment, reading
from decbayes.merging.reading import Heterogeneity
from decbayes.models.core.registry import model_for
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.table import FACTOR
from decbayes.reporting.findings import Findings
from decbayes.reporting.markup import counted, listed, number
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
    return reading.heterogeneity(found)[CoupledSet((FACTOR,))]


def regression_of(found: Alignment) -> Regression | None:
    try:
        model = model_for(found.structure)
    except StructureMismatch:
        return None
    return model if isinstance(model, Regression) and len(found.posteriors) > 1 else None


MOST_NAMED = 5  # sites that stand out
ASK = (
    "It may be right, or have seen other things: ask how its data were collected. "
    "db.merging.robust_merge limits what one site can do."
)
CHECKED = (
    "copies of one posterior, sites without data, sites that are much larger than the others or disagree with them, "
    "components or terms in which sites differ by more than chance, components that hold unlike things, are nearly the "
    "same or rest on very little, and close calls"
)


@dataclass(frozen=True)
class Remark:
    """`serious` remarks may change what one reads out of the merge; the others are for the record."""

    what: str
    remedy: str
    serious: bool = True


def remarks(found: Findings) -> list[Remark]:
    """Everything that stands out, the serious first."""
    told = [*copies(found), *idle(found), *influential(found)]
    for coupled in found.sets:
        told += [*in_slots(found, coupled), *varying(found, coupled), *matches(found, coupled)]
        told += [*thin(found, coupled), *small(found, coupled)]
    told += [*lineage(found), *(Remark(*each) for each in advice(found.alignment))]
    return sorted(told, key=lambda remark: not remark.serious)


def copies(found: Findings) -> Iterator[Remark]:
    by_digest: dict[str, list[str]] = {}
    for site in found.sites:
        if found.evidence[site] > 0:
            by_digest.setdefault(found.alignment.posteriors[site].digest, []).append(found.names[site])
    for names in by_digest.values():
        if len(names) > 1:
            yield Remark(f"{listed(names)} are the same posterior.", "Its data count more than once. Keep one of them.")


def idle(found: Findings) -> Iterator[Remark]:
    names = [found.names[site] for site in found.sites if not found.evidence[site] > 0]
    if names:
        yield Remark(f"No data: {listed(names)}.", "The posterior is the prior. Was the right file fitted?")


def influential(found: Findings) -> Iterator[Remark]:
    """Sites that have very much to do with the merge, or say something else than the others; the strongest by name."""
    flags = {site: found.influence.flags(site) for site in found.sites if len(found.sites) > 1}
    flagged = sorted((site for site, told in flags.items() if told), key=lambda site: -found.influence.against[site])
    for site in flagged[:MOST_NAMED]:
        yield Remark(f"{found.names[site]} {' and '.join(flags[site])}.", ASK)
    if len(flagged) > MOST_NAMED:
        more = len(flagged) - MOST_NAMED
        yield Remark(f"{counted(more, 'further site')} stand out.", "They are marked under What was merged.")


def in_slots(found: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    shared = found.shared[coupled]
    if shared.unlike:
        yield Remark(
            f"{counted(len(shared.unlike), 'component')} hold things that differ: {listed(shared.unlike)}.",
            "Merge again with more components, or --components auto.",
        )
    if shared.duplicates:
        pairs = [f"{first} and {second}" for first, second in shared.duplicates]
        yield Remark(f"Nearly the same: {listed(pairs)}.", "Fewer components would merge them.")
    if shared.private:
        names = [f"{slot} ({found.names[site]})" for slot, site in shared.private]
        yield Remark(
            f"{counted(len(names), 'component')} found by one site only: {listed(names)}.",
            "Nobody confirms them. Sites that see different things have such components.",
            serious=False,
        )


def varying(found: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    """Components that are not the same thing everywhere."""
    if coupled not in found.heterogeneity:
        return
    apart = found.heterogeneity[coupled]
    names = [f"{slot} ({number(float(apart.ratio[slot]))} ×)" for slot in range(len(apart.ratio)) if apart.differ(slot)]
    if names:
        yield Remark(
            f"Sites differ by more than chance in {counted(len(names), 'component')}: {listed(names)}.",
            "× says how many times what chance would make of it. Intervals take it that there is one truth for all.",
        )


def thin(found: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    """Sites too small to have found by themselves what all data show."""
    few = reading.thin(found.alignment, coupled)
    if few is not None:
        yield Remark(
            f"Sites have {few:.1f} observations per parameter of a component: too few to find alone what all show.",
            "Unless these posteriors were refined together, refine first; intervals are not to be believed.",
            serious=False,
        )


def matches(found: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    sure = found.sureness[coupled]
    close, all_ = int(sure.close.sum()), int(np.isfinite(sure.values).sum() + np.isinf(sure.values).sum())
    if close:
        yield Remark(
            f"{number(close)} of {number(all_)} matches are close calls ({sure.limit}).",
            "Look at them before you rely on them; refinement settles most of them.",
            serious=close > 0.1 * all_,
        )


def small(found: Findings, coupled: CoupledSet) -> Iterator[Remark]:
    few = np.flatnonzero(found.hidden(coupled)).tolist()
    if few:
        yield Remark(
            f"{counted(len(few), 'component')} with fewer than {found.least:g} {found.unit}: {listed(few)}.",
            "Not shown, since they may describe single ones. With --least 0 all are shown, to yourself.",
        )


def lineage(found: Findings) -> Iterator[Remark]:
    events = found.alignment.lineage.events if found.alignment.lineage is not None else ()
    changed = [str(event) for event in events if event.kind != "kept"]
    if events:
        kept = f"{len(events) - len(changed)} components kept their ids since the earlier merge."
        yield Remark(kept, f"Changed: {listed(changed)}." if changed else "None has changed.", serious=False)
