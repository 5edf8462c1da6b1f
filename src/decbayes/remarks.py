"""Remarks: what to know about a result before relying on it."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, Protocol, overload

from decbayes.errors import InvalidFile, MergeWarning, warn

Severity = Literal["warning", "note"]

# Remarks shown unless all are requested.
MOST_SHOWN = 3
# Sites named in a remark.
MOST_NAMED = 5
# Limits on remarks in files, which anybody may have written.
MOST_REMARKS, LONGEST = 50, 2_000
RULES = "disclosure rules"
"""The kind of remark that says what disclosure rules changed."""
CONSTANT = "constant columns"
"""The kind of remark of a fit that names columns with one value in all rows."""
UNAGREED = "values not agreed on"
"""The kind of remark of a fit on categories that count as "other" because sites have not agreed on them."""
FAR_VALUES = "other values"
"""The kind of remark of a fit that names a column whose values lie far from the agreed ones."""
# Kinds of remarks of a fit that doubt its values.
OF_VALUES = ("missing-value codes", FAR_VALUES, UNAGREED)
DISSENT, NOTHING_SHARED, SITE_ALONE = "site disagrees", "nothing shared", "site alone"
"""The kinds of remarks on sites that a robust merge would leave out, and on those that share little with the others."""
COUNTS_LESS = "site counts less"
"""The kind of remark on sites of which a robust merge counts only a part."""
COUNTED_TWICE, UNITS, LARGE, FUSED = "counted twice", "units", "large", "fused topics"
# Kinds of remarks that name sites which may be wrong, and that advise on slots: these come last, since such sites also
# make components differ.
OF_SITES = (DISSENT, NOTHING_SHARED, SITE_ALONE, "stands out", CONSTANT)
FEW_SLOTS, DIFFER = "few slots", "sites differ"
OF_SLOTS = (FEW_SLOTS, "unlike shares", "small sites", "duplicate slots")
SITES_FIRST = "First check the sites that are named."
NAMED_FIRST = "First check units, columns and coding at"
# What warnings say about one site and about several, by kind, most important first; and warnings of other kinds.
ABOUT_SITES: Mapping[str, tuple[str, str]] = {
    DISSENT: ("disagrees with the other sites", "disagree with {others}"),
    NOTHING_SHARED: ("has no {noun} in common with the others", "have no {noun} in common with {others}"),
    SITE_ALONE: ("found mostly what no other site found", "found mostly what no other site found"),
    COUNTED_TWICE: 2 * ("seem to hold the same data, which count more than once",),
    "no data": ("has no data", "have no data"),
    UNITS: (
        "seems to have a column in another unit than the others",
        "seem to have a column in another unit than the others",
    ),
    FUSED: ("has its topics in too few slots", "have their topics in too few slots"),
    LARGE: ("has far more weight than the others", "have far more weight than the others"),
    "group": ("decides much of the merge", "together decide much of the merge"),
}
ABOUT_DATA = "has a warning about its data ({kind})", "have a warning about their data ({kind})"
# Changes by disclosure rules that are shown of one site.
MOST_CHANGES = 5
# Advice on a site whose components differ from the others' although its data as a whole are like theirs.
FIT_AGAIN = (
    "Fit it again with more restarts, or fewer components. If that changes nothing, check its units, columns and "
    "coding."
)
# Advice on what a site sends first; and the kinds of remark in which a merge says how far it is from one fit, and why
# nobody knows whether sites differ.
ROUND = "One broadcast is rough here: take one round first (decbayes refine, db.refine)."
ONE_BROADCAST, NOT_COMPARED = "one broadcast", "not compared"
REPEATED = "repeated persons"
"""The kind of remark that says that persons have several rows, sequences or documents."""
UNEVEN = "uneven noise"
"""The kind of remark that says that the noise is not what the model assumes."""
# Where one of these is said, deviations are those of another model; robust errors are not.
TOO_NARROW: Mapping[str, str] = {
    "overdispersion": "counts vary more than the model allows",
    REPEATED: "rows of one person depend on each other",
    "survey weights": "weights are no frequencies",
    UNEVEN: "the noise is not what the model assumes",
}


@dataclass(frozen=True)
class Remark:
    """A statement about a result: what it means, what it rests on, and one line of advice.

    Attributes:
        kind: its short name, such as "few slots".
        what: what it means, in one sentence.
        advice: what to do about it, in one line.
        rests_on: the figures behind it, in one sentence; may be empty.
        severity: a "warning" may change conclusions from the result; a "note" is for information.
        sites: the numbers of the sites that it names, in the order of the posteriors that were merged. The text names
            the first few of them; files have only the text, and remarks with the same text are equal.

    >>> print(db.checking.Remark("no data", "Site 3 has no data.", "Was the right file fitted?", severity="note"))
    Site 3 has no data. Was the right file fitted?
    """

    kind: str
    what: str
    advice: str
    rests_on: str = ""
    severity: Severity = "warning"
    sites: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.what, self.rests_on, self.advice)))

    @property
    def is_warning(self) -> bool:
        return self.severity == "warning"


TEXTS = tuple(part.name for part in fields(Remark) if part.compare)
"""What files keep of a remark."""


class Remarked(Protocol):
    """Anything that carries remarks, such as a posterior."""

    @property
    def remarks(self) -> Sequence[Remark]: ...


class Later(Sequence[Remark]):
    """Remarks computed when first read, so that a merge need not wait for them."""

    def __init__(self, find: Callable[[], tuple[Remark, ...]]) -> None:
        self._find: Callable[[], tuple[Remark, ...]] | None = find

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        assert self._find is not None
        remarks, self._find = self._find(), None  # release what the function holds
        return remarks

    def __len__(self) -> int:
        return len(self.remarks)

    @overload
    def __getitem__(self, place: int) -> Remark: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Remark, ...]: ...
    def __getitem__(self, place: int | slice) -> Remark | tuple[Remark, ...]:
        return self.remarks[place]

    def __eq__(self, other: object) -> bool:
        return self.remarks == (other.remarks if isinstance(other, Later) else other)

    def __hash__(self) -> int:
        return hash(self.remarks)

    def __repr__(self) -> str:
        return repr(self.remarks)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self.remarks,)


def ordered(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """Each remark once, warnings first: among them those on units before others, and last those on slots.

    That a site's values lie far from the agreed ones also comes last where a remark names its unit.
    """
    given = dict.fromkeys(remarks)
    in_other_unit = {site for remark in given if remark.kind == UNITS for site in remark.sites}

    def place(remark: Remark) -> tuple[bool, bool, bool]:
        repeated = remark.kind == FAR_VALUES and in_other_unit.issuperset(remark.sites or (-1,))
        return not remark.is_warning, remark.kind != UNITS, repeated or remark.kind in OF_SLOTS

    return tuple(sorted(given, key=place))


def sites_first(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """The remarks on a merge in their order; if, and only if, some name sites, other advice comes after."""
    given = ordered(remarks)
    first = f"{SITES_FIRST} " if any(remark.is_warning and remark.kind in OF_SITES for remark in given) else ""
    return tuple(
        replace(remark, advice=first + remark.advice.removeprefix(f"{SITES_FIRST} "))
        if remark.kind in (FEW_SLOTS, DIFFER) and not remark.advice.startswith(NAMED_FIRST)
        else remark
        for remark in given
    )


def about_sites(
    named: Iterable[tuple[str, Collection[int]]], noun: str = "component", others: str = "most other sites"
) -> dict[tuple[str, str], list[int]]:
    """What kinds of warnings say about one site and about several, most important first, and the sites they name."""
    places = {kind: place for place, kind in enumerate(ABOUT_SITES)}
    said: dict[tuple[str, str], list[int]] = {}
    for kind, sites in sorted(named, key=lambda of_kind: places.get(of_kind[0], len(places))):
        one, several = (text.format(noun=noun, others=others, kind=kind) for text in ABOUT_SITES.get(kind, ABOUT_DATA))
        said[one, several] = sorted({*said.get((one, several), ()), *sites})
    return {words: sites for words, sites in said.items() if sites}


def without_advice_to_refine(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    return tuple(replace(remark, advice="") if remark.advice == ROUND else remark for remark in remarks)


def with_measured_distance(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """The remarks on a merge, without the sites' guesses about one broadcast if one remark says how far off it is."""
    given = tuple(remarks)
    measured = any(remark.kind == ONE_BROADCAST for remark in given)
    return without_advice_to_refine(given) if measured else given


def after_refit(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """The remarks on a refit: doubts about first broadcasts are settled, and become notes on the data."""
    return tuple(
        replace(remark, advice="", severity="note") if remark.advice == ROUND else remark for remark in remarks
    )


def warnings_in(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    return tuple(remark for remark in remarks if remark.is_warning)


def too_narrow(sites: Iterable[Remarked]) -> str:
    """Why a site's intervals are too narrow, if they are."""
    kinds = {remark.kind for site in sites for remark in site.remarks}
    return next((why for kind, why in TOO_NARROW.items() if kind in kinds), "")


def incomparable(sites: Iterable[Remarked]) -> str:
    """Why comparisons of sites mean nothing, if intervals are too narrow and halves of rows do not make up for it."""
    why = too_narrow(sites)
    return "" if why == TOO_NARROW[UNEVEN] else why


def lines(remarks: Sequence[Remark], most: int | None = MOST_SHOWN, rest: str = "") -> list[str]:
    """One line for each of the most important remarks, then the number of others and where to see them (`rest`)."""
    shown = [str(remark) for remark in remarks[:most]]
    left = len(remarks) - len(shown)
    further = "1 further remark" if left == 1 else f"{left} further remarks"
    return [*shown, *([f"{further}{f': {rest}' if rest else ''}."] if left else [])]


def warn_of(doubts: Sequence[Remark]) -> None:
    """Issue one warning with the most important doubts about a merge."""
    if doubts:
        warn("\n".join(lines(doubts, rest="see `remarks` of the result")), MergeWarning)


def to_plain(remarks: Iterable[Remark]) -> list[dict[str, str]]:
    """Remarks as plain values for files."""
    return [{name: getattr(remark, name) for name in TEXTS} for remark in remarks]


def from_plain(values: Any) -> tuple[Remark, ...]:
    """The remarks in a file; refused if they are not short printable texts."""
    if not isinstance(values, list) or len(values) > MOST_REMARKS:
        raise InvalidFile("The remarks in the file are not a short list.")
    for value in values:
        if not isinstance(value, dict) or value.keys() != {*TEXTS} or not all(map(is_short_text, value.values())):
            raise InvalidFile("A remark in the file is not made of short texts.")
        if value["severity"] not in ("warning", "note"):
            raise InvalidFile("A remark in the file is neither a warning nor a note.")
    return tuple(Remark(**value) for value in values)


def is_short_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and value.isprintable()


def by_number(name: str) -> list[str | int]:
    """Sort key that orders names by the numbers in them: 2 before 10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def site_names(count: int) -> tuple[str, ...]:
    """Names of sites that have none."""
    return tuple(f"site {site}" for site in range(count))


def listed(items: Sequence[str], between: str = ", ") -> str:
    """The first few items by name, and the number of others."""
    shown = between.join(sorted(items, key=by_number)[:MOST_NAMED])
    return f"{shown} and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else shown


def with_shares(shares: Iterable[tuple[str, float]], whole: str) -> str:
    """Names with their shares; the first says of what."""
    return listed([f"{name} ({share:.0%})" for name, share in shares]).replace("%)", f"% of {whole})", 1)


def changes_by_rules(changed: Mapping[str, Sequence[str]]) -> list[str]:
    """What disclosure rules changed, from what each site says about itself: a line for each change, with its sites."""
    sites: dict[str, list[str]] = {}
    for name, texts in changed.items():
        for text in texts[:MOST_CHANGES]:
            sites.setdefault(text, []).append(name)
    return [f"The disclosure rules changed data of {listed(names)}: {text}" for text, names in sites.items()]
