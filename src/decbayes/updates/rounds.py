"""Rounds of refinement by files: each file records its site and the data it holds, so that none count twice.

A site is identified by the digest of its first posterior. In each round every site refits its data against the
posteriors that all others sent in the previous round; the cavity is the same as on a network and in `refine`.

The first round fixes common slots. A site that joins later puts its first posterior into them. Each site sends only its
own data's contribution, so the others can continue without it if it leaves. `exchange.py` says whose turn it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import combinations, compress
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes import merging
from decbayes.devices import everywhere_alike
from decbayes.errors import InvalidFile, StructureMismatch
from decbayes.files import load, load_note
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.problem import Number
from decbayes.models.core.ascent import Ascent, OnPass
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.updates.update import Update

if TYPE_CHECKING:
    from decbayes.merging import Alignment

LONGEST_NOTE = 100_000
# Slots of a wide start are joined from this round on.
ROUNDS_BEFORE = 3

Joins = tuple[tuple[int, int], ...]
"""Joins in order: the slot that stays, and a later one that is added to it; the last slot then takes its number."""


@dataclass(frozen=True)
class Sent:
    """A posterior as sites send it to each other.

    `holds` are the digests of earlier posteriors whose data are in this one; the first identifies the site. From
    `round` 1 on, components are in common slots, `sites` are those that took part in the round, and `exchange`, a
    digest of the first posteriors that were aligned, identifies the slots. `several` is whether it is a merge.

    `auto`: the sites choose the number of slots together. A first posterior then has more components than needed, and
    later ones say how this site's bound changes with each of the `joins` of slots (`joining.py`).
    """

    posterior: Posterior
    holds: tuple[str, ...] = ()
    round: int = 0
    sites: tuple[str, ...] = ()
    exchange: str = ""
    several: bool = False
    auto: bool = False
    joins: Joins = ()
    heights: tuple[float, ...] = ()

    @classmethod
    def of(cls, posterior: Posterior, note: Mapping[str, Any]) -> "Sent":
        """A posterior and the note in its file, which is checked but not authenticated."""
        try:
            holds, sites = (tuple(note.get(name, ())) for name in ("holds", "sites"))
            number, exchange = note.get("round", 0), note.get("exchange", "")
            digests, length = (*holds, *sites, *((exchange,) if number else ())), len(posterior.digest)
            proper = all(isinstance(digest, str) and len(digest) == length for digest in digests)
            proper = proper and type(number) is int and number >= 0 and (number > 0) == bool(sites) == bool(exchange)
            if not proper or len(holds) + len(sites) > LONGEST_NOTE or len(set(sites)) < len(sites):
                raise ValueError
            joins, heights = tuple(map(tuple, note.get("joins", ()))), tuple(note.get("heights", ()))
            check_joins(joins, heights, posterior)
        except (TypeError, ValueError):
            raise InvalidFile("The note on data and rounds in this file is invalid.") from None
        several, auto = (bool(note.get(name, False)) for name in ("several", "auto"))
        return cls(posterior, holds, number, sites, exchange, several, auto, joins, heights)

    def note(self) -> dict[str, Any]:
        """The note for a posterior's file; empty for a first fit."""
        note = {
            "holds": list(self.holds),
            "round": self.round,
            "sites": list(self.sites),
            "exchange": self.exchange,
            "several": self.several,
            "auto": self.auto,
            "joins": [list(pair) for pair in self.joins],
            "heights": list(self.heights),
        }
        return {name: value for name, value in note.items() if value}

    @property
    def site(self) -> str:
        return self.holds[0] if self.holds else self.posterior.digest

    @property
    def data(self) -> frozenset[str]:
        """Digests of all posteriors whose data are in this one, including itself."""
        return frozenset({self.posterior.digest, *self.holds})


def check_joins(joins: Joins, heights: tuple[float, ...], posterior: Posterior) -> None:
    """Raise `ValueError` unless these are joins of a posterior's slots, with a finite height before and after each."""
    whole = all(type(slot) is int for pair in joins for slot in pair)
    left = range(slots_of(posterior) - 1, slots_of(posterior) - 1 - len(joins), -1)
    within = all(0 <= kept < absorbed <= last for (kept, absorbed), last in zip(joins, left, strict=True))
    if not whole or not within or not all(type(height) is float and isfinite(height) for height in heights):
        raise ValueError
    if len(heights) != (len(joins) + 1 if joins else 0):
        raise ValueError


def check_once(sent: Mapping[str, Sent]) -> None:
    """Refuse posteriors that hold the same data, naming their files."""
    data = [posterior.data for posterior in sent.values()]
    if sum(map(len, data)) == len(frozenset().union(*data)):
        return
    for (one, first), (other, second) in combinations(sent.items(), 2):
        if first.data & second.data:
            raise StructureMismatch(
                f"{other} and {one} hold the same data: one is an earlier version of the other, or a part of it. Give "
                "only one of them, or the data would count twice."
            )


def check_slots(sent: Mapping[str, Sent]) -> None:
    """Refuse posteriors that hold the same data or whose slots differ in meaning."""
    check_once(sent)
    in_rounds = {name: posterior for name, posterior in sent.items() if posterior.round}
    name = next(iter(in_rounds), "")
    for other, posterior in in_rounds.items():
        if posterior.exchange != in_rounds[name].exchange:
            raise StructureMismatch(
                f"{other} and {name} are rounds of different exchanges: they started from different posteriors. All "
                "sites must start from the same first posteriors and options."
            )


def check_round(sent: Mapping[str, Sent]) -> None:
    """Refuse posteriors unless all belong to one round of one exchange, one per site, or join late."""
    check_slots(sent)
    name, latest = max(sent.items(), key=lambda item: item[1].round)
    for other, posterior in sent.items():
        late = posterior.round == 0 and posterior.site not in latest.sites
        if posterior.round != latest.round and not late:
            raise StructureMismatch(
                f"{other} is of round {posterior.round}, {name} of round {latest.round}. Wait until all sites have "
                f"sent round {latest.round}, and use those files only."
            )


@dataclass(frozen=True)
class Round:
    """The posteriors of all sites, this site first, in common slots."""

    sent: Mapping[str, Sent]
    slots: tuple[Posterior, ...]
    auto: bool = False

    @classmethod
    @everywhere_alike()
    def of(
        cls, sent: Mapping[str, Sent], components: Number = "largest", *, in_step: bool = True, auto: bool = False
    ) -> "Round":
        """Align first posteriors, with the same bits at every site; those of a round are already aligned.

        A late site's first posterior is put into the slots of the round. `in_step` refuses any other mix of rounds.
        `auto`: sites choose the number of slots, even if no file says so yet.
        """
        auto = auto or any(message.auto for message in sent.values())
        (check_round if in_step else check_slots)(sent)
        posteriors = same_columns([posterior.posterior for posterior in sent.values()])
        rounds = [message.round for message in sent.values()]
        if not any(rounds):
            return cls(sent, tuple(merging.align(posteriors, components=components).relabelled()), auto)
        if any(message.heights for message in sent.values()):
            from decbayes.updates.joining import in_fewer_slots

            posteriors = in_fewer_slots(sent, posteriors)
        structure = posteriors[rounds.index(max(rounds))].structure
        pairs = zip(rounds, posteriors, strict=True)
        aligned = [bool(number) and posterior.structure == structure for number, posterior in pairs]
        if all(aligned):
            return cls(sent, posteriors, auto)
        from decbayes.merging.base.recentring import recentred
        from decbayes.merging.placing import placed  # loads the solvers, which a fit does not need

        merged = merging.product([*compress(posteriors, aligned)])
        slots = [one if known else placed(one, merged) for one, known in zip(posteriors, aligned, strict=True)]
        return cls(sent, tuple(recentred(slots)), auto)

    @property
    def alignment(self) -> "Alignment":
        """The alignment of the sites' components, already in common slots."""
        from decbayes.merging.placing import OF_ROUND, as_labelled

        alignment = as_labelled(self.slots)
        before = max(slots_of(message.posterior) for message in self.sent.values() if message.round == self.number)
        left, why = slots_of(self.slots[0]), ""
        if left < before:
            why = f" {before} were joined into {left}: the bound of all sites' data is highest there."
        where = ", in common slots" if alignment.structure.symmetry else ""
        return replace(alignment, reason=f"{OF_ROUND} {self.number}{where}.{why}", rounds=self.number)

    @property
    def missing(self) -> int:
        """The number of sites of the round that are missing here; their contributions do not count."""
        took_part = frozenset().union(*(posterior.sites for posterior in self.sent.values()))
        return len(took_part - {posterior.site for posterior in self.sent.values()})

    @property
    def number(self) -> int:
        return max(posterior.round for posterior in self.sent.values())

    @property
    def exchange(self) -> str:
        """The digest of all first posteriors, which tells sites that their slots mean the same."""
        known = {posterior.exchange for posterior in self.sent.values() if posterior.round}
        first = "\n".join(sorted(posterior.site for posterior in self.sent.values()))
        return known.pop() if known else sha256(first.encode()).hexdigest()

    @cached_property
    def merged(self) -> Posterior:
        return merging.product(self.slots)

    @property
    def model(self) -> Model:
        return model_for(self.slots[0].structure)

    def refined(
        self,
        data: Any,
        *,
        rng: np.random.Generator,
        ascent: Ascent | None = None,
        damping: float = 1.0,
        progress: OnPass | None = None,
    ) -> Sent:
        """This site's new contribution for the next round, in common slots.

            c_i ← fit(data_i, prior = λ0 + Σ_{j≠i} c_j, start = λ0 + Σ_j c_j) − prior

        Once all sites have done this, the bits are those of a round of `refine(schedule="parallel")`.
        """
        model = self.model if ascent is None else replace(self.model, ascent=ascent)
        latest = self._last_sent(data)
        update = Update(model, damping=damping, first=self.number == 0)
        learned = update.relearn(data, self.slots[0], self.merged, rng=rng, progress=progress)
        sites = tuple(sorted(other.site for other in self.sent.values()))
        holds = (*latest.holds, latest.posterior.digest)
        sent = Sent(learned, holds, self.number + 1, sites, self.exchange, auto=self.auto)
        if not self.auto or sent.round < ROUNDS_BEFORE:
            return sent
        from decbayes.updates.joining import cheapest_joins, site_heights

        joins = cheapest_joins(self.merged)
        heights = site_heights(model, data, self.merged, joins, len(sites), rng)
        return replace(sent, joins=joins, heights=heights if joins else ())

    def _last_sent(self, data: Any) -> Sent:
        """What this site sent last; refused if it does not belong to these data."""
        name, latest = next(iter(self.sent.items()))
        known = latest.posterior.structure
        # If words were added since, rare words may have been exchanged for them; how many is unknown.
        most = None if known.labels == self.model.structure.labels else float(np.sum(self.model.units(data)))
        check_data(model_for(known), self.model.restricted(data, known), latest.posterior, name, most)
        return latest

    def fitted_wide(
        self, data: Any, components: int, *, rng: np.random.Generator, ascent: Ascent, progress: OnPass | None = None
    ) -> Sent:
        """This site's first posterior again with more components, before the first round."""
        first = self._last_sent(data)
        model = replace(self.model.sized(components), ascent=ascent)
        posterior = model.fit(data, rng=rng, progress=progress).posterior
        return Sent(posterior, (*first.holds, first.posterior.digest), auto=True)

    @property
    def others(self) -> Posterior:
        """The merge of all other sites' contributions."""
        return merging.product(self.slots[1:])

    def evened(self, data: Any, least: int, persons: Persons = EACH) -> "Round":
        """The round for a fit that cannot distinguish words of fewer than `least` documents or authors."""
        return replace(self, slots=tuple(self.model.rare_evened(self.slots, data, least, persons)))

    def after(self, sent: Sent) -> Posterior:
        """The merge after this site sends this contribution."""
        return merging.product([sent.posterior, *self.slots[1:]])


def joinable(posterior: Posterior) -> bool:
    """Whether sites can choose the number of slots in rounds; not for topics, whose number is a budget."""
    structure, families = posterior.structure, posterior.structure.families.values()
    return structure.resizable and not any(family.two_sided or family.countable for family in families)


def slots_of(posterior: Posterior) -> int:
    """The number of components; 0 for a model without components."""
    structure = posterior.structure
    return max((structure.components(coupled) for coupled in structure.symmetry), default=0)


def check_data(model: Model, data: Any, posterior: Posterior, name: str, most: float | None = None) -> None:
    """Refuse data that the site's posterior was not fitted to, as far as its numbers show.

    If `most` is given, the posterior may hold any number of units up to that.
    """
    tally = model.tally(posterior)
    units, observations = float(np.sum(model.units(data))), float(model.count(data))
    if tally is not None and most is not None:
        units = min(float(np.max(tally.totals)), most)
    contradiction = None if tally is None else tally.contradiction(units, observations)
    if contradiction is not None:
        raise StructureMismatch(
            f"{name} is not the posterior of these data alone: {contradiction}. Give the site's own latest posterior "
            "and all data behind it."
        )


def together(sent: Mapping[str, Sent]) -> Round | None:
    """A complete round, which needs no alignment; None for first posteriors."""
    return Round.of(sent) if any(posterior.round for posterior in sent.values()) else None


def sent_in(path: Path) -> Sent:
    try:
        return Sent.of(load(path), load_note(path))
    except InvalidFile as error:
        raise InvalidFile(str(error) if str(path) in str(error) else f"{path}: {error}") from None
