"""The folder of a study: its files, which of them count, and what is wrong with the others."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from decbayes.base.writing import check_inside
from decbayes.disclosure.drafting import check_received
from decbayes.disclosure.manifest import Manifest, manifest_in
from decbayes.errors import DecbayesError, InvalidProtocol, NotDisclosed
from decbayes.files import load, load_note
from decbayes.posterior import Posterior
from decbayes.study.agreed_list import AgreedList, agreed_list_for
from decbayes.study.protocol import DIGITS, FILE, Protocol
from decbayes.updates.exchange import Exchange
from decbayes.updates.rounds import Sent

SITES, RESULTS = "sites", "results"
PAGE, CHECKLIST, CHARTER = "protocol.md", "checklist.md", "group.toml"
OURS = {SITES, RESULTS, FILE, PAGE, CHECKLIST, CHARTER}
LISTS = {".columns", ".words"}  # what all sites have agreed on
STRAY = "not part of the study. Everybody with access to this folder can read it: keep data elsewhere"
KEY = ".public"  # the public half of a site's key, for a network
INFORMATION = ".information"  # what calibrates the intervals of the merge
PRIVATE = "DECBAYES_PRIVATE"
"""The environment variable for the folder of files that stay at the site; default: beside the study's folder."""


@dataclass(frozen=True)
class BadFile:
    """A file that does not count, and why. It is left alone."""

    path: Path
    why: str

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


@dataclass(frozen=True)
class Released:
    """A file that a site has released, with its content."""

    path: Path
    posterior: Posterior
    sent: Sent
    manifest: Manifest


@dataclass(frozen=True)
class SiteFiles:
    """The files of one site: its list of columns or words, and its releases by round."""

    name: str
    listed: Path | None = None
    released: Mapping[int, Released] = field(default_factory=dict)
    problems: tuple[BadFile, ...] = ()

    @property
    def latest(self) -> int:
        """The last round that the site has released, 0 for its first fit; -1 before that."""
        return max(self.released, default=-1)


@dataclass(frozen=True)
class Study:
    """A study by files: its protocol and the current files in its folder.

    >>> from decbayes.study import Protocol, Study
    >>> sites = {"north": "Dr Kim", "south": "Dr Lee"}
    >>> study = Study.create("stay", Protocol("stay", "linear-regression", sites, {"formula": "days ~ age"}))
    >>> study.missing(0)
    ['north', 'south']
    """

    folder: Path

    @classmethod
    def create(cls, folder: str | Path, protocol: Protocol) -> "Study":
        """Create a study in a new or empty folder."""
        place = Path(folder)
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise InvalidProtocol(f"{place} exists and is not empty. Choose another name, or begin in another folder.")
        for site in protocol.sites:
            (place / SITES / site).mkdir(parents=True)
        protocol.save(place / FILE)
        return cls(place)

    @classmethod
    def around(cls, start: str | Path) -> "Study":
        """The study in this folder, in a folder above it, or the only one directly inside it."""
        place = Path(start)
        for folder in (place, *place.absolute().parents):
            if (folder / FILE).is_file():
                return cls(folder)
        inside = sorted(path.parent for path in place.glob(f"*/{FILE}")) if place.is_dir() else []
        if len(inside) == 1:
            return cls(inside[0])
        if inside:
            names = ", ".join(folder.name for folder in inside)
            raise InvalidProtocol(f"There are several studies in {place}: {names}. Choose one with --study FOLDER.")
        raise InvalidProtocol(
            f"There is no {FILE} in {place} or above it. Go into the study's folder, or name it with --study FOLDER; "
            "`decbayes study new` begins one."
        )

    @cached_property
    def protocol(self) -> Protocol:
        """The agreed protocol."""
        return Protocol.load(self._within(FILE))

    @cached_property
    def agreed_list(self) -> AgreedList | None:
        """The list that sites must agree on before they fit: columns or words; None if none is needed."""
        return agreed_list_for(self.protocol)

    @property
    def private(self) -> Path:
        """The folder of drafts and ledgers, which stay at the site, beside the shared folder."""
        named, folder = os.environ.get(PRIVATE), self.folder.absolute()
        return Path(named) / self.protocol.name if named else folder.with_name(f"{folder.name}.private")

    @property
    def merged(self) -> Path:
        """The file of the merged posterior."""
        return self._within(RESULTS, "merged.posterior")

    @property
    def report(self) -> Path:
        """The file of the report."""
        return self._within(RESULTS, "report.html")

    @property
    def reported(self) -> bool:
        """Whether the report covers the last complete round."""
        if not (self.merged.exists() and self.report.exists()):
            return False
        try:
            merged = Sent.of(load(self.merged), load_note(self.merged))
            report = self.report.read_text(encoding="utf-8")
        except (DecbayesError, OSError, ValueError):
            return False
        last = {sent.posterior.digest for sent in self.exchange.inputs.values()}
        return last <= merged.data and merged.posterior.digest[:DIGITS] in report

    def place(self, site: str) -> Path:
        """The folder of a site's files for others."""
        return self._within(SITES, site)

    def key_of(self, site: str) -> Path:
        """The file of a site's public key."""
        return self._within(SITES, site, f"{site}{KEY}")

    def information_of(self, site: str) -> Path:
        """The file of a site's sums that calibrate the merge."""
        return self._within(SITES, site, f"{site}{INFORMATION}")

    @property
    def charter(self) -> Path:
        """The file of the charter made from the protocol."""
        return self._within(CHARTER)

    def _within(self, *parts: str) -> Path:
        return check_inside(self.folder.joinpath(*parts), self.folder)

    def list_of(self, site: str) -> Path:
        """The file of a site's list of columns or words."""
        return self.place(site) / f"{site}{self.agreed_list.suffix if self.agreed_list else ''}"

    def draft_of(self, site: str, number: int) -> Path:
        """The file of a site's draft for a round, which has not left."""
        return self.private / site / name_of(site, number)

    @cached_property
    def sites(self) -> dict[str, SiteFiles]:
        """The files of each site."""
        return {site: self._files(site) for site in self.protocol.sites}

    @cached_property
    def problems(self) -> tuple[BadFile, ...]:
        """All files that do not count, with reasons."""
        known = {site.casefold() for site in self.protocol.sites}
        folders = sorted(path for path in (self.folder / SITES).glob("*") if path.name.casefold() not in known)
        strangers = [BadFile(path, "no site of the protocol has this name") for path in folders if not hidden(path)]
        strays = [BadFile(path, STRAY) for path in sorted(self.folder.glob("*")) if not self._expected(path)]
        return (*(problem for site in self.sites.values() for problem in site.problems), *strangers, *strays)

    def _expected(self, path: Path) -> bool:
        """Whether a file in the study's folder belongs there: one of its own, or one that the protocol names."""
        named = {str(value) for value in self.protocol.settings.values()}
        return hidden(path) or path.name in OURS or path.name in named or path.suffix in LISTS

    @cached_property
    def exchange(self) -> Exchange:
        """All releases as an `Exchange`, as in rounds by files."""
        released = (file for site in self.sites.values() for file in site.released.values())
        return Exchange({file.path.name: file.sent for file in released})

    @property
    def round(self) -> int:
        """The last round that all sites have released, 0 for the first fits; -1 before that."""
        if not all(site.released for site in self.sites.values()):
            return -1
        return self.exchange.round - bool(self.exchange.behind)

    def missing(self, number: int) -> list[str]:
        """The sites that have not released their part of a round."""
        return [name for name, site in self.sites.items() if number not in site.released]

    def unlisted(self) -> list[str]:
        """The sites whose list of columns or words is missing."""
        return [name for name, site in self.sites.items() if site.listed is None] if self.agreed_list else []

    def lists(self) -> dict[str, Path]:
        """The lists of columns or words of all sites that have written one."""
        return {name: site.listed for name, site in self.sites.items() if site.listed is not None}

    def check_site(self, name: str) -> str:
        """The name of a site; refused if the protocol has no such site."""
        if name not in self.protocol.sites:
            raise InvalidProtocol(f"The protocol has no site '{name}'; its sites are {', '.join(self.protocol.sites)}.")
        return name

    def _files(self, site: str) -> SiteFiles:
        listed, released, problems = None, {}, []
        for path in sorted((self.folder / SITES / site).glob("*")):
            if hidden(path) or path.name in (f"{site}{KEY}", f"{site}{INFORMATION}"):
                continue
            try:
                check_inside(path, self.folder)
                if self.agreed_list is not None and path == self.list_of(site):
                    self.agreed_list.read(path)
                    listed = path
                else:
                    number = number_in(path, site, listing=self.agreed_list.suffix if self.agreed_list else "")
                    released[number] = self._released(path, site, number)
            except (DecbayesError, OSError) as error:
                problems.append(BadFile(path, str(error).removeprefix(f"{path}: ").removeprefix(f"{path} ")))
        return SiteFiles(site, listed, released, tuple(problems))

    def _released(self, path: Path, site: str, number: int) -> Released:
        """Read and check a released file; an error says why it does not count."""
        posterior, note = load(path), load_note(path)
        sent, manifest = Sent.of(posterior, note), manifest_in(note)
        if manifest is None or not manifest.released:
            raise NotDisclosed("it is a draft; only released files count. `decbayes study release` at its site.")
        if self.protocol.rules is not None:
            check_received(path, posterior, self.protocol.rules)
        if manifest.posterior != posterior.digest:
            raise NotDisclosed("its manifest is about another posterior. Ask its site for the file again.")
        if manifest.site != site:
            raise NotDisclosed(f"it was made for site '{manifest.site}', not for '{site}'.")
        if manifest.reason != self.protocol.reason:
            raise NotDisclosed(
                f"it was released for something else ('{manifest.reason}'), not for '{self.protocol.reason}'. If the "
                "protocol has changed since, its site fits and releases again."
            )
        if sent.round != number:
            raise NotDisclosed(f"its name says round {number}, it holds round {sent.round}.")
        return Released(path, posterior, sent, manifest)


def name_of(site: str, number: int) -> str:
    """The name of a site's file for a round."""
    return f"{site}.{number}.posterior" if number else f"{site}.posterior"


def number_in(path: Path, site: str, *, listing: str) -> int:
    """The round in the name of a file."""
    match = re.fullmatch(rf"{re.escape(site)}(?:\.([1-9]\d{{0,5}}))?\.posterior", path.name)
    if match is None:
        expected = [f"{site}{listing}"] * bool(listing) + [name_of(site, 0), name_of(site, 1)]
        raise NotDisclosed(f"no file of this study has this name; expected are {', '.join(expected)} and so on.")
    return int(match[1] or 0)


def hidden(path: Path) -> bool:
    """Whether a file is to be ignored, such as those of Git and of synchronised folders."""
    return path.name.startswith((".", "~")) or path.name.lower() in {"desktop.ini", "thumbs.db", "readme.md"}


def site_folders(private: Path) -> Iterator[str]:
    """The sites that use a private folder."""
    yield from (path.name for path in sorted(private.glob("*")) if path.is_dir() and not hidden(path))
