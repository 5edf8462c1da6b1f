"""Mix-ups between sites, detected from what their columns hold: other units, codes for missing values, typos."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

import numpy as np

from decbayes.base.arguments import some
from decbayes.columns.column import Column
from decbayes.columns.kinds import Missing
from decbayes.columns.sums import Sums

# A real column of one site is unlike those of others if scales differ by more than this factor, and its centre is more
# than this many of their scales away, upwards if its scale is larger. Patients differ by less; kPa and mmHg, or 999 for
# missing values, by more.
SCALES, AWAY = 4.0, 2.0
# Pounds and kilograms, or degrees, are closer: then centres must differ by at least this factor and scales by the same
# one, or centres must be so far apart that the distributions do not overlap.
FACTOR, THE_SAME, FURTHER, BEYOND = 1.5, 1.3, 4.0, 10.0
# A site is not asked if its centre is less than this many times as far from the others' as half of theirs are.
USUAL = 3.0
ALIKE = 0.85
# Categories with several spellings to list in a message.
MOST_SHOWN = 3
# Shorter categories are codes: "AB" is not "BA".
SHORTEST = 4

Site = TypeVar("Site", str, int)


def unlike(sites: Mapping[str, Mapping[str, Column]]) -> list[str]:
    """A line for each column in which a site seems to mean something else; `sites` are their columns by name.

    >>> units = {"a": (131, 15), "b": (126, 13), "c": (17.3, 2)}
    >>> sites = {name: {"pressure": db.columns.Gaussian(*unit)} for name, unit in units.items()}
    >>> print(*db.columns.unlike(sites))
    Column 'pressure': the centre of c is 17.3 and its scale 2; for the others they are 128 and 14. Does c use ...
    """
    names = dict.fromkeys(name for columns in sites.values() for name in columns)
    sums = [name for columns in sites.values() for name, row in columns.items() if isinstance(row, Sums)]
    of_sums = {column for name in sums for column in columns_behind(name, names)}
    lines = []
    for name in names:
        by_site = {site: columns[name] for site, columns in sites.items() if name in columns}
        if len(by_site) > 1:
            lines += [*other_kinds(name, by_site), *other_units(name, by_site, name in of_sums), *typos(name, by_site)]
    return lines


def other_kinds(name: str, sites: Mapping[str, Column]) -> Iterator[str]:
    """Which sites hold numbers where others hold categories, for example."""
    kinds: dict[str, list[str]] = {}
    for site, column in sites.items():
        if column.kind != Missing.kind:
            kinds.setdefault(column.kind, []).append(site)
    if len(kinds) > 1:
        rarest_first = sorted(kinds.items(), key=lambda item: len(item[1]))
        yield f"Column '{name}' is {', and '.join(f'{kind} at {some(have)}' for kind, have in rarest_first)}."


def other_units(name: str, sites: Mapping[str, Column], cuts: bool = False) -> Iterator[str]:
    """The sites whose units seem to be other than those of most, or of the only other one."""
    (found, few), counts_for = apart(sites), "centre, scale and cuts" if cuts else "centre and scale"
    for site, (centre, scale, middle, usual) in found.items():
        yield (
            f"Column '{name}': the centre of {site} is {centre:.3g} and its scale {scale:.3g}; for the others they "
            f"are {middle:.3g} and {usual:.3g}. Does {site} use other units, or a code such as 999 for missing values?"
            f"{f' It does not count for the agreed {counts_for}.' if few else ''}"
        )


def in_common_units(name: str, rows: Mapping[str, Sequence[Column]]) -> list[Column]:
    """A row as the sites have it, without sites whose units seem to be other than those of most.

    Sums such as the events in Surv(days, died) are without the sites whose units are other in a column of their name.
    """
    without: set[int] = set()
    for column in (name, *(columns_behind(name, rows) if isinstance(rows[name][0], Sums) else ())):
        found, few = apart(dict(enumerate(rows[column])))
        without.update(found if few else ())
    return [column for place, column in enumerate(rows[name]) if place not in without]


def columns_behind(name: str, names: Iterable[str]) -> list[str]:
    """The columns that sums with a name such as Surv(days, died) are made of."""
    listed = re.split(r"[(),] ?", name)
    return [column for column in names if column in listed]


def apart(sites: Mapping[Site, Column]) -> tuple[dict[Site, tuple[float, float, float, float]], bool]:
    """The sites unlike all others: centre and scale, and the medians of the others'; and whether most sites are alike.

    If not, as with two sites, nobody knows which of them are right: then only the most unlike one is returned.
    """
    real = {site: column for site, column in sites.items() if column.factor == "real" and column.kind != Missing.kind}
    units, found = {site: column.zero_and_unit for site, column in real.items()}, {}
    for site, (centre, scale) in units.items() if len(units) > 1 else ():
        middle, usual, spread = among([unit for other, unit in units.items() if other != site])
        if abs(centre - middle) > USUAL * spread and in_other_units(centre, scale, middle, usual):
            found[site] = centre, scale, middle, usual
    few = 2 * len(found) < len(units)
    ranked = sorted(found, key=lambda site: (abs(np.log(found[site][1] / found[site][3])), site))
    return (found if few else {site: found[site] for site in ranked[-1:]}), few


def among(units: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """The median centre and scale, and the median distance of centres from theirs."""
    middle, usual = (float(np.median(part)) for part in zip(*units, strict=True))
    return middle, usual, float(np.median([abs(centre - middle) for centre, _ in units]))


def in_other_units(centre: float, scale: float, middle: float, usual: float) -> bool:
    """Whether a centre and a scale look like those of others in another unit."""
    times, away = scale / usual, abs(centre - middle)
    narrow, wide = sorted((scale, usual))
    factor = centre / middle if centre * middle > 0.0 else np.inf
    if wide > SCALES * narrow:
        return away > AWAY * narrow and (times > 1.0) == (factor > 1.0)
    if not FACTOR < max(factor, 1.0 / factor) < np.inf:
        return False
    alike = 1.0 / THE_SAME < times / factor < THE_SAME
    return away > BEYOND * wide or (alike and away > FURTHER * narrow)


def typos(name: str, sites: Mapping[str, Column]) -> Iterator[str]:
    """Categories at one site that resemble one of others which this site lacks; several spellings are one line."""
    entries = {site: set(column.entries) for site, column in sites.items() if column.factor == "categorical"}
    spellings = spelled_otherwise(entries)
    if len(spellings) > 1 or any(min(map(len, spelling.values())) > 1 for spelling in spellings):
        yield (
            f"Column '{name}' has categories that differ only in capital letters or spaces: "
            f"{listed_spellings(spellings)}. Are they the same? Then write them alike at all sites."
        )
        entries = {site: entered - set().union(*spellings) for site, entered in entries.items()}
    for site, entered in entries.items():
        others = [categories for other, categories in entries.items() if other != site]
        elsewhere = set().union(*others)
        for category in sorted(entered - elsewhere):
            near = nearest(category, elsewhere - entered)
            if near and (len(entries) > 2 or site == max(entries)):
                yield f"Column '{name}': '{category}' is only at {site}; did it mean '{near}'?"


def spelled_otherwise(entries: Mapping[str, set[str]]) -> list[dict[str, list[str]]]:
    """Categories with several spellings, and the sites that have each of them."""
    spellings: dict[str, dict[str, list[str]]] = {}
    for site, categories in entries.items():
        for category in sorted(categories):
            spellings.setdefault(" ".join(category.split()).casefold(), {}).setdefault(category, []).append(site)
    return [spellings[text] for text in sorted(spellings) if len(spellings[text]) > 1]


def listed_spellings(spellings: Sequence[Mapping[str, Sequence[str]]]) -> str:
    texts = [" and ".join(f"'{name}' ({some(of)})" for name, of in spelling.items()) for spelling in spellings]
    more = f" and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else ""
    return "; ".join(texts[:MOST_SHOWN]) + more


def nearest(category: str, others: Iterable[str]) -> str:
    """The category that this one resembles; "" if there is none."""
    missed = {simple(other): other for other in sorted(others) if undigited(other) != undigited(category)}
    near = get_close_matches(simple(category), missed, n=1, cutoff=ALIKE)
    near = near or [other for other in missed if swapped(simple(category), other)]
    return missed[near[0]] if near else ""


def simple(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def swapped(word: str, other: str) -> bool:
    """Whether two words have the same letters: "mael" and "male", but not "female"."""
    return len(word) >= SHORTEST and sorted(word) == sorted(other)


def undigited(text: str) -> str:
    """Grade 1 is no typo of grade 2."""
    return re.sub(r"\d+", "", text) if re.search(r"\d", text) else f"{text} "
