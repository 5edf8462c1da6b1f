"""A shared folder of rounds: what is there, whose turn it is, and what a site needs for its next round.

Files are named SITE.posterior for a first fit and SITE.ROUND.posterior later; their notes, not their names, say what
they are. A round is complete once all its members have sent it. A site without any file has left. A first posterior
from a site that is not yet a member joins late: it takes part in the next round, and nobody waits for it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from decbayes.base.writing import check_inside
from decbayes.errors import NothingToMerge, StructureMismatch
from decbayes.updates.rounds import Sent, check_slots, sent_in

SUFFIX = ".posterior"


@dataclass(frozen=True)
class Turn:
    """What a site does next: make `round` from `inputs` (its own newest first), or wait for the sites in `waiting`.

    `slots` is the number of slots that other sites have chosen, if they have already started the first round. `auto`:
    sites choose the number together, and in round 0 fit their data with more components than needed.
    """

    site: str
    round: int
    inputs: Mapping[str, Sent]
    waiting: tuple[str, ...] = ()
    slots: int | None = None
    auto: bool = False

    @property
    def due(self) -> bool:
        return not self.waiting

    @property
    def file(self) -> str:
        """The name of the file to write."""
        return f"{self.site}.{self.round}{SUFFIX}"


@dataclass(frozen=True)
class Exchange:
    """The posteriors of all sites and rounds, by file name.

    >>> from decbayes.updates.exchange import Exchange
    >>> from decbayes.updates.rounds import Sent
    >>> model = db.models.GaussianMean(variance=1.0)
    >>> fits = {name: model.fit(np.array([[x]])).posterior for name, x in (("a", 1.0), ("b", 3.0))}
    >>> exchange = Exchange({f"{name}.posterior": Sent(fit) for name, fit in fits.items()})
    >>> turn = exchange.turn("b")
    >>> turn.file, turn.due, [*turn.inputs]
    ('b.1.posterior', True, ['b.posterior', 'a.posterior'])
    """

    files: Mapping[str, Sent]

    @classmethod
    def read(cls, folder: Path) -> "Exchange":
        """The posteriors in a folder, without merges of several sites."""
        paths = [check_inside(path, folder) for path in sorted(folder.glob(f"[!.]*{SUFFIX}"))]
        sent = {path.name: sent_in(path) for path in paths}
        return cls({name: posterior for name, posterior in sent.items() if not posterior.several})

    @cached_property
    def sites(self) -> Mapping[str, Mapping[int, str]]:
        """By site name: its file of each round, first round first."""
        by_site: dict[str, dict[int, str]] = {}
        for name in sorted(self.files, key=lambda name: (self.files[name].round, len(self.files[name].holds), name)):
            sent = self.files[name]
            rounds = by_site.setdefault(sent.site, {})
            earlier = rounds.get(sent.round)
            if earlier is not None and self.files[earlier].posterior.digest not in sent.holds:
                raise StructureMismatch(
                    f"{name} and {earlier} are both round {sent.round} of one site. Remove the one that does not count."
                )
            rounds[sent.round] = name
        named = [(site_name(next(iter(rounds.values()))), rounds) for rounds in by_site.values()]
        for name in {name for name, _ in named if [other for other, _ in named].count(name) > 1}:
            raise StructureMismatch(f"Two sites use the name {name}. Name their files differently.")
        return dict(sorted(named))

    @cached_property
    def newest(self) -> Mapping[str, Sent]:
        """The newest posterior of each site, by site name."""
        return {site: self.files[rounds[max(rounds)]] for site, rounds in self.sites.items()}

    @property
    def round(self) -> int:
        """The latest round that any site has sent."""
        return max((sent.round for sent in self.newest.values()), default=0)

    @property
    def auto(self) -> bool:
        """Whether the sites choose the number of slots together."""
        return any(sent.auto for sent in self.newest.values())

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The sites that others wait for: those of the latest round and of the one before."""
        started = {site for sent in self.newest.values() if sent.round == self.round for site in sent.sites}
        return tuple(
            name
            for name, sent in self.newest.items()
            if sent.round == self.round or (sent.round == self.round - 1 and (sent.round or sent.site in started))
        )

    @property
    def behind(self) -> tuple[str, ...]:
        """The members that have not sent the latest round yet."""
        return tuple(name for name in self.members if self.newest[name].round < self.round)

    @property
    def inputs(self) -> Mapping[str, Sent]:
        """The files of the last complete round, and the newest of late sites: one per site."""
        complete = self.round - 1 if self.behind else self.round
        return dict(self._inputs(self.sites, complete))

    def turn(self, site: str) -> Turn:
        """What a site does next."""
        if site not in self.sites:
            raise NothingToMerge(f"{site} has sent nothing yet; the sites here are {', '.join(self.sites) or 'none'}.")
        if len(self.sites) < 2:
            return Turn(site, 1, {}, ("another site",))
        done = self.newest[site].round == self.round
        number = self.round + 1 if done else self.round
        behind = self.behind if done else ()
        if self.auto and self.round == 0:
            narrow = tuple(name for name, sent in self.newest.items() if not sent.auto)
            number, behind = (0, ()) if site in narrow else (1, narrow)
        if behind:
            return Turn(site, number, {}, behind, auto=self.auto)
        inputs = dict(self._inputs([site, *(name for name in self.sites if name != site)], max(number - 1, 0)))
        check_slots(inputs)
        return Turn(site, number, inputs, slots=self._slots(number), auto=self.auto)

    def _inputs(self, sites: Iterable[str], number: int) -> Iterator[tuple[str, Sent]]:
        for site in sites:
            rounds = self.sites[site]
            later = [self.files[name] for n, name in rounds.items() if n > number]
            known = {self.files[name].posterior.digest: name for n, name in rounds.items() if n <= number}
            # A late site lacks files of some rounds; the note of its later one says what it was made from.
            name = known.get(later[0].holds[-1]) if later else rounds[max(rounds)]
            if name is None:
                raise StructureMismatch(
                    f"{site}{f'.{number}' if number else ''}{SUFFIX} is missing, which round {number + 1} needs. "
                    "Put it back."
                )
            yield name, self.files[name]

    def _slots(self, number: int) -> int | None:
        chosen = (sent.posterior.structure for sent in self.newest.values() if sent.round >= number == 1)
        structure = next(chosen, None)
        return structure.components(structure.symmetry[0]) if structure is not None and structure.symmetry else None


def site_name(file: str) -> str:
    """The site in a file's name: "a" for "a.2.posterior"."""
    return re.sub(r"(\.\d+)?$", "", file.removesuffix(SUFFIX), count=1)
