"""The protocol of a study: what its people have agreed on, in a TOML file."""

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from decbayes.base.writing import toml_table, write_whole
from decbayes.disclosure.rules import Rules
from decbayes.errors import InvalidProtocol, InvalidRules
from decbayes.structure import canonical_json

FILE = "protocol.toml"
HEADER = "# The protocol of a decbayes study. `decbayes study status` says what is done and whose turn it is.\n\n"
SITE = re.compile(r"\w[\w-]{0,59}")
MOST_BYTES = 1 << 20
DIGITS = 12  # of a fingerprint
NONE = "none"  # in place of a table of rules; without either, the usual rules hold


class StudyTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    question: str = ""
    authors: list[str] = []
    created: str = ""
    merges: str = ""
    rounds: int = 0
    person: str = ""


class ModelTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    settings: dict[str, Any] = {}


class Tables(msgspec.Struct, forbid_unknown_fields=True):
    """The tables of the TOML file; any other is refused."""

    study: StudyTable
    model: ModelTable
    sites: dict[str, str]
    units: dict[str, str] = {}
    rules: dict[str, Any] | str = {}
    plan: dict[str, Any] = {}


@dataclass(frozen=True)
class Protocol:
    """A study's question, model, sites and rules.

    Args:
        name: a short name, which is also that of the folder.
        model: the model, by its name in `decbayes fit`.
        sites: the sites, and the person who approves releases at each; "" if the site decides itself.
        settings: the options of `decbayes fit` for this model.
        question: the study's question, in one sentence.
        authors: the people responsible for it.
        created: the day on which it was written.
        merges: the site or person who merges; default: the first site.
        rounds: the number of rounds after the first fits.
        person: the column that identifies persons, if a person may have several rows.
        units: the units of columns, for the report.
        rules: the disclosure rules; None for public or made-up data.
        plan: the results of a simulation of the study.

    >>> from decbayes.study import Protocol
    >>> protocol = Protocol("stay", "linear-regression", {"north": "Dr Kim", "south": ""}, {"formula": "days ~ age"})
    >>> protocol.save("protocol.toml")
    >>> Protocol.load("protocol.toml") == protocol
    True
    """

    name: str
    model: str
    sites: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    question: str = ""
    authors: Sequence[str] = ()
    created: str = ""
    merges: str = ""
    rounds: int = 0
    person: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    rules: Rules | None = field(default_factory=Rules)
    plan: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "authors", tuple(self.authors))
        for name in (self.name, *self.sites):
            if not SITE.fullmatch(name):
                raise InvalidProtocol(
                    f"'{name}' names a folder: use letters, digits, hyphens and underscores, at most 60 of them."
                )
        if len({name.casefold() for name in self.sites}) < len(self.sites):
            raise InvalidProtocol(
                "Two sites have the same name, up to upper and lower case: their folders would be one."
            )
        if not self.sites:
            raise InvalidProtocol("A study needs at least one site: --sites north,south.")
        object.__setattr__(self, "merges", self.merges or next(iter(self.sites)))
        if self.rounds < 0:
            raise InvalidProtocol(f"The number of rounds must be 0 or more, not {self.rounds}.")
        if self.question and not self.question.isprintable():
            raise InvalidProtocol("The question must be one line of text.")

    @property
    def fingerprint(self) -> str:
        """A digest of everything that fits depend on: the model, its settings, the rules and the column of persons."""
        rules = None if self.rules is None else self.rules.plain()
        agreed = {"model": self.model, "settings": dict(self.settings), "rules": rules, "person": self.person}
        return hashlib.sha256(canonical_json(agreed)).hexdigest()[:DIGITS]

    @property
    def reason(self) -> str:
        """The reason that releases state: the study and the fingerprint of its protocol."""
        return f"study {self.name}, protocol {self.fingerprint}"

    def looser_than(self, other: "Protocol", site: str) -> list[str]:
        """What this protocol allows and the other one does not, about the files of a site; in words."""
        found = []
        if self.rules is None and other.rules is not None:
            found.append("there are no disclosure rules any more")
        elif self.rules is not None and other.rules is not None:
            names = self.rules.looser_than(other.rules)
            found += [f"{name} is {getattr(self.rules, name)}, not {getattr(other.rules, name)}" for name in names]
        if other.sites.get(site) and self.sites.get(site) != other.sites[site]:
            found.append(f"{self.sites.get(site) or 'anybody'} approves, not {other.sites[site]}")
        if other.person and self.person != other.person:
            found.append(f"persons are counted by {self.person or 'rows'}, not by '{other.person}'")
        return found

    def with_settings(self, settings: Mapping[str, Any]) -> "Protocol":
        """The protocol with these options of a fit."""
        return replace(self, settings=dict(settings))

    def with_plan(self, plan: Mapping[str, Any]) -> "Protocol":
        """The protocol with these results of a simulation."""
        return replace(self, plan=dict(plan))

    def text(self) -> str:
        """The protocol as TOML."""
        tables: dict[str, Mapping[str, Any]] = {
            "study": {
                "name": self.name,
                "question": self.question,
                "authors": list(self.authors),
                "created": self.created,
                "merges": self.merges,
                "rounds": self.rounds,
                "person": self.person,
            },
            "model": {"name": self.model},
            "model.settings": self.settings,
            "sites": self.sites,
        }
        if self.units:
            tables["units"] = self.units
        if self.rules is not None:
            tables["rules"] = self.rules.plain()
        if self.plan:
            tables["plan"] = self.plan
        no_rules = f'rules = "{NONE}"  # public or made-up data\n\n' if self.rules is None else ""
        return HEADER + no_rules + "\n".join(toml_table(name, table) for name, table in tables.items())

    def save(self, path: str | Path) -> None:
        """Write the protocol as TOML."""
        write_whole(Path(path), self.text().encode())

    @classmethod
    def load(cls, path: str | Path) -> "Protocol":
        """Read a protocol; anything missing, unknown or of another type is refused."""
        source = Path(path)
        if source.stat().st_size > MOST_BYTES:
            raise InvalidProtocol(f"{source} has more than {MOST_BYTES:,} bytes; a protocol is a small text file.")
        try:
            tables = msgspec.convert(tomllib.loads(source.read_text(encoding="utf-8")), Tables)
            if isinstance(tables.rules, str) and tables.rules != NONE:
                raise InvalidProtocol(f'rules are a table, or "{NONE}" for public or made-up data')
            rules = None if isinstance(tables.rules, str) else Rules.of(tables.rules)
            known = msgspec.to_builtins(tables.study)
            return cls(
                model=tables.model.name,
                settings=tables.model.settings,
                sites=tables.sites,
                units=tables.units,
                rules=rules,
                plan=tables.plan,
                **known,
            )
        except (UnicodeDecodeError, RecursionError):
            raise InvalidProtocol(f"{source} is not a protocol. `decbayes study new` makes one.") from None
        except (tomllib.TOMLDecodeError, msgspec.ValidationError, InvalidRules, InvalidProtocol) as error:
            text = str(error).removesuffix(".")
            raise InvalidProtocol(f"{source} is not a protocol: {text}. `decbayes study new` makes one.") from None
