"""The tables of `decbayes merge --explain`: which component went where, and how sure that is."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from decbayes.calibration import heterogeneity
from decbayes.cli.shared.describe import captions
from decbayes.cli.shared.terminal import output, plain
from decbayes.families import Array
from decbayes.merging import Alignment, Confidence, reading
from decbayes.merging.alignment import quick_remarks
from decbayes.merging.base.components import group_evidence
from decbayes.merging.base.lineage import ids_of
from decbayes.merging.base.problem import Solver
from decbayes.merging.grouping.shared import Shared
from decbayes.merging.reading import AGAINST, CLOSE, DOUBTFUL, Heterogeneity, Parties
from decbayes.posterior import Posterior, entry_name
from decbayes.structure import CoupledSet
from decbayes.views import view_of
from decbayes.views.findings import match_margins
from decbayes.views.text_summary import filled_slots
from decbayes.views.values import DIVIDED, Difference, divided

UNLIKE = 0.5  # margins further than this from simulated ones are hardly calibrated by them
MOST_PROVEN = 200  # proofs are quick up to this many components of all sites
SPACES = 2  # around a column
MEANING = (
    "times chance: spread between sites relative to chance; 1 means chance alone.\n"
    "between sites: standard deviation between sites beyond chance, in the units\n"
    "of the data"
)
SHORTEST_CAPTION = 16  # width of the last column on a narrow terminal


def explain(
    alignment: Alignment, merged: Posterior, names: list[str], confidence: Confidence | str, solver: Solver | None
) -> None:
    """Print which component went where, whether sites differ, and each site's influence."""
    spread = heterogeneity(alignment, solver=solver)
    print_alignment(alignment, merged, names, confidence, spread)
    view = view_of(alignment.structure)
    if not merged.structure.symmetry:
        print_differences(view.differences(alignment), view.undecided(alignment), [*spread.values()])
    print_influence(alignment, names)
    print_parties(reading.parties(alignment), names)


def print_alignment(
    alignment: Alignment,
    merged: Posterior,
    names: list[str],
    confidence: Confidence | str,
    spread: Mapping[CoupledSet, Heterogeneity],
) -> None:
    """Print for each coupled set which components of each site are in each slot, how sure that is, and their support.

    If `sure` is a text, it says why there are no probabilities; the tables then show margins.
    """
    for coupled in merged.structure.symmetry:
        captions = slot_captions(merged, coupled)
        texts = {slot: captions[slot] for slot in filled_slots(merged, coupled)}
        cell, values = margin_cell, match_margins(alignment, coupled)
        if isinstance(confidence, Confidence):
            cell, values = probability_cell, tuple(site[coupled] for site in confidence.probabilities)
        columns = [
            [Text(plain(name)), *(cell(components, of_site) for components in row)]
            for name, row, of_site in zip(names, reading.fillings(alignment, coupled), values, strict=True)
        ]
        print_tables(columns, texts, plain(" + ".join(coupled.factors)))
        for line in (*legend(alignment, coupled, confidence), *proven_matches(alignment, coupled)):
            output().print(line)
        print_shared(alignment.shared()[coupled], texts, names, f"{view_of(merged.structure).unit}s")
        sums = alignment.shared()[coupled].evidence.sum(axis=0)
        if coupled in alignment.divisions and divided(group_evidence(merged, coupled.factors), sums):
            output().print(f"{view_of(merged.structure).unit}s: {DIVIDED}")
        print_heterogeneity(spread[coupled], merged, texts)


def not_tested(why: str) -> str:
    return f"Not tested: whether sites differ by more than chance. {why[:1].upper()}{why[1:]}"


def print_differences(differences: Sequence[Difference], undecided: str, spread: Sequence[Heterogeneity]) -> None:
    """Print whether sites differ by more than chance, term by term, or why that is unknown."""
    if undecided:
        output().print(plain(not_tested(undecided)))
    if undecided or not differences:
        return
    table = Table("term", "times chance", "between sites", title="do sites differ?", box=None)
    for term in differences:
        # Unknown if only one site has the term, or too few sites tell how far they differ.
        times, between = (
            f"{value:{digits}}" if np.isfinite(value) else "–"
            for value, digits in ((term.times, ".1f"), (term.between, ".2g"))
        )
        table.add_row(plain(term.name), Text(times, style="yellow" if term.notable else ""), between)
    output().print(table)
    output().print(f"{MEANING}.")
    output().print(
        "Each term is tested with the others at their merged values. For I² and τ² in a\nreport, all terms may differ."
    )
    for line in verdict(differences, spread[0]):
        output().print(plain(line))


def verdict(differences: Sequence[Difference], spread: Heterogeneity) -> Iterator[str]:
    """The conclusion from all terms, together and one by one."""
    if not np.isfinite(spread.probability[0]):
        return
    most_first = sorted(differences, key=lambda term: -term.times)
    notable = ", ".join(term.name for term in most_first if term.notable)
    which = f"in {notable}" if notable else "but no single term explains it"
    conclusion = f"Sites differ {which}" if spread.differ(0) else "No clear difference"
    chance = f"p {spread.p_text(0)} {spread.provided()}"
    yield from (f"{conclusion}: {chance}", "(all terms together, and each by itself).")


def legend(alignment: Alignment, coupled: CoupledSet, confidence: Confidence | str) -> Iterator[str]:
    """What the numbers in brackets mean, and how far to trust them."""
    if not isinstance(confidence, Confidence):
        why = plain(f"{confidence[:1].upper()}{confidence[1:]}")
        yield from ("It is not known how likely matches are to be right.", why)
        yield "In brackets: the objective's loss in the next best slot, in nats."
        yield f"Close calls (under {CLOSE:g}): {close_calls(alignment, coupled)}; others may be wrong, too."
        return
    reliability, (wrong, count) = confidence.reliability, confidence.expected_wrong(coupled)
    yield "In brackets: the probability that it belongs there, learned from"
    yield f"{reliability.matches:,} matches at simulated sites like these."
    yield f"{f'About {wrong:.1f}' if wrong >= 0.1 else 'Fewer than 0.1'} of {count} matches are expected to be wrong."
    if confidence.self_reported:
        yield "Overlaps are reported by the sites themselves."
    if reliability.unlike > UNLIKE:
        yield "Margins are unlike those of simulated sites: the model may describe these"
        yield "data badly. Treat the probabilities with care."


def proven_matches(alignment: Alignment, coupled: CoupledSet) -> Iterator[str]:
    """How many matches are proven optimal, if matches are one to one and proofs are quick."""
    sizes = [posterior.structure.components(coupled) for posterior in alignment.posteriors]
    if alignment.objective and alignment.one_to_one and len(sizes) > 1 and sum(sizes) <= MOST_PROVEN:
        matched = ~np.isnan(np.concatenate(match_margins(alignment, coupled)))
        proven = np.concatenate([site[coupled] for site in reading.proven(alignment)])
        number = int((proven & matched).sum())
        yield f"Proven optimal: {number} of {int(matched.sum())} matches"
        if number:
            yield "(they are in every best one-to-one alignment, which does not make them right)."


def close_calls(alignment: Alignment, coupled: CoupledSet) -> str:
    margins = np.concatenate(match_margins(alignment, coupled))
    return f"{int((margins < CLOSE).sum())} of {int((~np.isnan(margins)).sum())} matches"


def print_shared(shared: Shared, texts: Mapping[int, str], names: Sequence[str], units: str) -> None:
    """Print which sites support each slot, with how much evidence, and how far their versions differ."""
    sites = len(shared.evidence)
    table = Table("slot", "sites", units, "apart", "merged", title="which sites have it", box=None)
    for slot, text in texts.items():
        support = shared.sites(slot)
        site_count = f"{len(support)} of {sites}" if len(support) != 1 else f"only {plain(names[support[0]])}"
        apart = f"{np.nanmax(shared.apart[support, slot]):.2f}" if support else "–"
        table.add_row(str(slot), site_count, f"{shared.evidence[:, slot].sum():,.0f}", apart, text)
    output().print(table)
    output().print(f"apart: nats per {units.removesuffix('s')} that the most different site loses by the merge.")


def print_heterogeneity(spread: Heterogeneity, merged: Posterior, texts: Mapping[int, str]) -> None:
    """Print whether sites differ by more than chance, slot by slot."""
    if spread.reason:
        output().print(plain(not_tested(spread.reason)))
    if not np.isfinite(spread.ratio).any():
        return
    table = Table("slot", "times chance", "p-value", "between sites", "merged", title="do sites differ?", box=None)
    for slot, text in texts.items():
        if np.isfinite(spread.ratio[slot]):
            style = "yellow" if spread.differ(slot) else ""
            ratio = Text(f"{spread.ratio[slot]:.1f}", style=style)
            table.add_row(
                str(slot), ratio, spread.p_text(slot).removeprefix("= "), between_text(spread, merged, slot), text
            )
    output().print(table)
    output().print(f"{MEANING}, of the value that stands out most.")
    provided = spread.provided(f"{view_of(merged.structure).record}s were independent")
    output().print(f"p-value: the probability of a spread at least this large\n{provided}.")


def between_text(spread: Heterogeneity, merged: Posterior, slot: int) -> str:
    """The entry in which a slot's versions differ most relative to chance, and its spread in the units of the data."""
    places = [
        (float(times[slot][entry]), factor, entry)
        for factor, parts in spread.times.items()
        for times in [next(iter(parts.values()))]
        for entry in np.ndindex(times[slot].shape)
        if np.isfinite(times[slot][entry])
    ]
    if not places:
        return "–"
    _, factor, entry = max(places)
    quantity, values = next(iter(spread.between[factor].items()))
    name = entry_name(entry, merged.structure.labels.get(factor, ()), quantity)
    row = {"factor": factor, "component": slot, "quantity": quantity, "entry": name, "mean": 0.0}
    in_units = view_of(merged.structure).in_units({**row, "deviation": float(values[slot][entry])})
    return plain(f"{name} {in_units['deviation']:.2g}".strip())


def shared_rows(alignment: Alignment, names: Sequence[str], confidence: Confidence | str) -> Iterator[dict[str, Any]]:
    """Which sites support each slot, as plain values: one row per slot."""
    probabilities = confidence.probabilities if isinstance(confidence, Confidence) else None
    merged, margins = alignment.merged(), reading.margins(alignment)
    spread = heterogeneity(alignment)
    for coupled, shared in alignment.shared().items():
        texts, fillings = slot_captions(merged, coupled), reading.fillings(alignment, coupled)
        for slot, text in enumerate(texts):
            yield {
                "slot": slot,
                "id": ids_of(merged)[slot] if merged.structure.resizable else None,
                "caption": text,
                "observations": float(shared.evidence[:, slot].sum()),
                "unit": view_of(merged.structure).unit,
                "duplicates": [pair[pair[0] == slot] for pair in shared.duplicates if slot in pair],
                "unlike": slot in shared.unlike,
                "times_chance": finite_or_none(spread[coupled].ratio[slot]),
                "by_chance": finite_or_none(spread[coupled].probability[slot]),
                "sites": [
                    {
                        "site": names[site],
                        "components": list(fillings[site][slot]),
                        "observations": float(shared.evidence[site, slot]),
                        "apart": float(shared.apart[site, slot]),
                        "confidence": None
                        if probabilities is None
                        else [finite_or_none(probabilities[site][coupled][k]) for k in fillings[site][slot]],
                        "margins": [finite_or_none(margins[site][coupled][k]) for k in fillings[site][slot]],
                    }
                    for site in shared.sites(slot)
                ],
            }


def finite_or_none(margin: float) -> float | None:
    """A component without another slot has no margin; JSON has neither infinity nor NaN."""
    return float(margin) if np.isfinite(margin) else None


def print_influence(alignment: Alignment, names: list[str]) -> None:
    """Print each site's influence on the merge, and which sites disagree with the others; all of them count."""
    influence, said = reading.influence(alignment), quick_remarks(alignment, names)
    compared = influence.comparisons
    table = Table("site", "share", "× median", *compared, "stands out", title="influence", box=None)
    for site, site_name in enumerate(names):
        flags = "; ".join(influence.flags(site, said)) or "–"
        shares = f"{influence.share[site]:.1%}", f"{influence.times_median[site]:.1f}"
        values = (f"{column[site]:{'+,.1f' if name == 'log BF' else '.0%'}}" for name, column in compared.items())
        table.add_row(plain(site_name), *shares, *values, flags)
    output().print(table)
    output().print("× median: the site's evidence relative to the median site's.")
    same = "components" if alignment.structure.symmetry else "parameters"
    if "log BF" in compared:
        output().print(f"log BF: nats in favour of the site's {same} being the same as the others'")
        output().print("(below 0: against).")
    if "against" in compared:
        output().print(AGAINST.replace("; ", ";\n"))


def print_parties(parties: Parties, names: list[str]) -> None:
    """Print how much evidence the largest sites have, and which group of sites the merge depends on."""
    if not parties.groups:
        return
    share = f"{parties.share:.0%} of all evidence"
    output().print(f"groups: the largest {parties.largest} of {len(names)} sites have {share}.")
    change = f"parameters move by up to {parties.change:,.1f} deviations"
    output().print(f"Without any one site or tried group, {change}.")
    for remark in parties.remarks(names):
        output().print(plain(str(remark)))


def slot_captions(merged: Posterior, coupled: CoupledSet) -> list[str]:
    texts = captions(merged)
    size = merged.structure.components(coupled)
    return texts if len(texts) == size else [""] * size


def print_tables(columns: Sequence[Sequence[Text]], texts: Mapping[int, str], title: str) -> None:
    """Print one table, or several below each other if the terminal is too narrow."""
    console = output()
    room = console.width - max(SHORTEST_CAPTION, *map(cell_len, texts.values())) - len("slot") - 2 * SPACES
    for group in in_groups(columns, max(room, console.width // 2)):
        table = Table("slot", title=title, box=None)
        for name, *_ in group:
            table.add_column(name, no_wrap=True)
        table.add_column("merged")
        for slot, text in texts.items():
            table.add_row(str(slot), *(column[slot + 1] for column in group), text)
        console.print(table)


def in_groups(columns: Sequence[Sequence[Text]], room: int) -> Iterator[list[Sequence[Text]]]:
    """Group columns in order, as many as fit side by side but at least one."""
    group: list[Sequence[Text]] = []
    used = 0
    for column in columns:
        width = max(text.cell_len for text in column) + SPACES
        if group and used + width > room:
            yield group
            group, used = [], 0
        group.append(column)
        used += width
    yield group


def margin_cell(components: Sequence[int], values: Array) -> Text:
    """A site's components in a slot: "2 (5.1)", or "2+4 (5.1)" with the smaller margin of the two."""
    if not components:
        return Text("–")
    margin = float(np.min(values[list(components)]))  # NaN if any is
    text = "alone" if np.isnan(margin) else f"{margin:,.1f}" if np.isfinite(margin) else "no other"
    return Text(f"{'+'.join(map(str, components))} ({text})", style="yellow" if margin < CLOSE else "")


def probability_cell(components: Sequence[int], values: Array) -> Text:
    """A site's components in a slot: "2 (97%)", or "2+4 (97%)" with the smaller probability of the two."""
    if not components:
        return Text("–")
    least = float(np.min(values[list(components)]))  # NaN if any is
    text = "alone" if np.isnan(least) else f"{least:.0%}"
    return Text(f"{'+'.join(map(str, components))} ({text})", style="yellow" if least < DOUBTFUL else "")
