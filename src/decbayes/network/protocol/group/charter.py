"""The charter: what all members of a group agree on, in one TOML file that each of them has."""

import hashlib
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from decbayes.base.writing import toml_table, write_whole
from decbayes.disclosure import Rules as DisclosureRules
from decbayes.errors import DecbayesError, InvalidCharter, InvalidFile, InvalidRules, SumRefused
from decbayes.files import save
from decbayes.models.core.model import Model
from decbayes.models.core.registry import MODELS
from decbayes.network.protocol.group._charter_checks import check, check_adding_up
from decbayes.network.protocol.group._charter_file import (
    CharterTables,
    SumsTable,
    read_anchor,
    read_tables,
    read_words,
    words_digest,
)
from decbayes.network.protocol.group.keys import PUBLIC_BYTES, AgentId, agent_id
from decbayes.network.protocol.limits import Limits, PrivacyRules, Rules, SumRules
from decbayes.posterior import Posterior
from decbayes.privacy.accounting import Privacy
from decbayes.secure.agreement import Agreement
from decbayes.secure.private_rounds import FEWEST_HONEST, PrivateAgreement
from decbayes.structure import EMPTY, Structure, canonical_json
from decbayes.updates import Epoch, Update

PROTOCOL = 3
SECRET_BYTES = 32
NO_WORDS = (
    "Where only sums are opened, no words can be added: all members mask the same numbers. Start a group with the "
    "longer list: `decbayes charter new … --vocabulary`."
)


@dataclass(frozen=True)
class Charter:
    """Group, model, members and limits. Agents understand each other if their charters have the same fingerprint.

    The file never changes: later decisions are in the members' stores, and the charter in force follows from both
    (`Decisions`). The group's `id` and `secret` are drawn once. Members compare marks of their data under the secret,
    so a charter is for members only. `disclosure` are the rules for what may leave a site; None for public data.

    >>> charter.save("group.toml")
    >>> network.Charter.load("group.toml") == charter
    True
    >>> network.Charter("g", "NoModel", {}, {"a": identity.public})
    Traceback (most recent call last):
        ...
    decbayes.errors.InvalidCharter: There is no model 'NoModel'; a charter names one of ...
    """

    group: str
    model_name: str
    settings: Mapping[str, Any]
    members: Mapping[str, bytes]
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    limits: Limits = field(default_factory=Limits)
    vocabulary: tuple[str, ...] = ()
    epoch: Epoch | None = None
    rules: Rules = field(default_factory=Rules)
    disclosure: DisclosureRules | None = None
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(SECRET_BYTES), repr=False)
    sums: SumRules | None = None
    """The rules of a group that opens only sums over all members; None if contributions are published."""
    anchor: Posterior | None = field(default=None, repr=False)
    """The posterior whose slots members use for their sums; None for the prior."""
    privacy: PrivacyRules | None = None
    """The privacy that all sums together promise to each person; None if sums have no noise."""
    opened: bytes = bytes(32)
    """The resolution that opened the epoch; zeros before the first."""
    words_added: Mapping[bytes, tuple[str, ...]] = field(default_factory=dict)
    """Words added to the original vocabulary, by the resolutions that added them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(sorted(self.settings.items()))))
        object.__setattr__(self, "members", MappingProxyType(dict(sorted(self.members.items()))))
        check(self)

    @cached_property
    def model(self) -> Model:
        """The model that every member fits."""
        words = {"vocabulary": self.vocabulary} if self.vocabulary else EMPTY
        try:
            model = MODELS[self.model_name](**self.settings, **words)
            model = model.with_words(self.words[len(self.vocabulary) :]) if self.words_added else model
            _ = model.structure
        except (TypeError, ValueError, DecbayesError) as error:
            raise InvalidCharter(f"{self.model_name} cannot be built from the charter's settings: {error}") from None
        if model.undecided:
            raise InvalidCharter(
                f"The members of a group agree on one number of {model.undecided}; the charter must say it, not "
                f"{getattr(model, model.undecided)!r}. A first fit finds one."
            )
        return model

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All words that count: the original vocabulary, then added words in alphabetical order."""
        added = frozenset[str]().union(*self.words_added.values())
        return *self.vocabulary, *sorted(added.difference(self.vocabulary))

    @cached_property
    def founded(self) -> Structure:
        """The structure that the group began with. Records name it, whichever words they count."""
        return self.with_words_of({}).model.structure

    def over_words_of(self, merged: Structure) -> Structure:
        """The model's structure over another structure's words, if these begin with the group's words."""
        for name, words in self.model.structure.labels.items():
            listed = tuple(merged.labels.get(name, ()))
            if self.words and len(listed) > len(words) and listed[: len(words)] == words:
                return self.with_words_of({**self.words_added, b"": listed[len(words) :]}).model.structure
        return self.model.structure

    def with_words_of(self, resolutions: Mapping[bytes, tuple[str, ...]]) -> "Charter":
        """The charter before its first epoch, with the words that these resolutions added."""
        if self.epoch is None and dict(self.words_added) == dict(resolutions):
            return self
        name = frozenset(resolutions)
        if name not in self._narrower:
            self._narrower[name] = replace(self, words_added=dict(resolutions), epoch=None)
        return self._narrower[name]

    @cached_property
    def _narrower(self) -> dict[frozenset[bytes], "Charter"]:
        return {}

    @cached_property
    def update(self) -> Update:
        """How members fit and refit their data."""
        return Update(self.model, self.epoch)

    @property
    def least_observations(self) -> int:
        """The fewest observations in a record, and the fewest by which two versions may differ."""
        return self.rules.least_observations if self.disclosure is None else self.disclosure.least_observations

    @property
    def structure(self) -> Structure:
        """The model's structure with the epoch's prior."""
        return self.model.structure if self.epoch is None else self.epoch.structure

    @property
    def prior_digest(self) -> str:
        """A hash of the epoch's prior; empty before the first epoch."""
        return "" if self.epoch is None else self.epoch.prior.digest

    @cached_property
    def counted(self) -> Mapping[str, frozenset[str]]:
        """The shards of each member that are already in the prior."""
        shards = EMPTY if self.epoch is None else self.epoch.counted
        return {name: frozenset(names) for name, names in shards.items()}

    @cached_property
    def keys(self) -> Mapping[AgentId, bytes]:
        """The public key of each member."""
        return MappingProxyType({agent_id(public): public for public in self.members.values()})

    @cached_property
    def names(self) -> Mapping[AgentId, str]:
        return MappingProxyType({agent_id(public): name for name, public in self.members.items()})

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything in the charter."""
        content = {
            "epoch": [self.opened.hex(), self.prior_digest],
            "group": [self.group, self.id, PROTOCOL, self.structure.fingerprint],
            "limits": msgspec.to_builtins(self.limits),
            "members": {name: public.hex() for name, public in self.members.items()},
            "model": [self.model_name, dict(self.settings)],
            "rules": msgspec.to_builtins(self.rules),
            "secret": hashlib.sha256(self.secret).hexdigest(),
            **({} if self.disclosure is None else {"disclosure": self.disclosure.plain()}),
            **({} if self.sums is None else {"sums": [msgspec.to_builtins(self.sums), self.begins_at.digest]}),
            **({} if self.privacy is None else {"privacy": msgspec.to_builtins(self.privacy)}),
        }
        return hashlib.sha256(canonical_json(content)).hexdigest()

    @property
    def begins_at(self) -> Posterior:
        """The anchor, or else the prior."""
        return Posterior.of_prior(self.model.structure) if self.anchor is None else self.anchor

    def agreement(self, members: Mapping[str, bytes]) -> Agreement:
        """The agreement of members that form sums under this charter; SumRefused if they cannot."""
        assert self.sums is not None
        rules = self.sums
        agreed = (self.fingerprint, members, self.begins_at, rules.rounds, rules.colluders, rules.most_rows)
        if self.privacy is None:
            return Agreement(*agreed, rules=self.disclosure, complete=dict(members) == dict(self.members))
        return PrivateAgreement(*agreed, rules=self.disclosure, privacy=self.promised(len(members)))

    def promised(self, sites: int) -> Privacy:
        """The privacy promised to each person if this many sites take part."""
        assert self.privacy is not None
        assert self.sums is not None
        promise, colluders = self.privacy, self.sums.colluders
        if promise.noise == "each":
            return Privacy(promise.epsilon, promise.delta, rows_per_person=promise.rows_per_person)
        if sites < colluders + FEWEST_HONEST:
            raise SumRefused(f"{sites} members cannot share the noise if {colluders} of them may collude.")
        return Privacy(promise.epsilon, promise.delta, "shared", colluders, promise.rows_per_person, sites)

    def reads_like(self, other: "Charter") -> bool:
        """Whether both charters accept the same records: they may differ in members only."""
        names = ("rules", "limits", "disclosure", "opened", "structure")
        return all(getattr(self, name) == getattr(other, name) for name in names)

    @property
    def short_fingerprint(self) -> str:
        """The fingerprint as people compare it: 80 bits in five groups."""
        return abbreviated(self.fingerprint)

    def to_toml(self, *, vocabulary_file: str | None = None, anchor_file: str = "") -> str:
        """The charter's text. It names vocabulary and anchor by their digests and the files beside it."""
        tables: dict[str, Mapping[str, Any]] = {
            "group": {
                "name": self.group,
                "id": self.id,
                "protocol": PROTOCOL,
                "structure": self.model.structure.fingerprint,
                "secret": self.secret.hex(),
            },
            "model": {"name": self.model_name},
            "model.settings": self.settings,
            # TOML has no None.
            "limits": {name: limit for name, limit in msgspec.to_builtins(self.limits).items() if limit is not None},
            "rules": msgspec.to_builtins(self.rules),
            "members": {name: public.hex() for name, public in self.members.items()},
        }
        if self.disclosure is not None:
            # Disclosure rules state their own minimum.
            tables["rules"] = {name: rule for name, rule in tables["rules"].items() if name != "least_observations"}
            tables["disclosure"] = self.disclosure.plain()
        if self.vocabulary:
            named = {} if vocabulary_file is None else {"file": vocabulary_file}
            tables["vocabulary"] = {"digest": words_digest(self.vocabulary), **named}
        if self.sums is not None:
            beside = {} if self.anchor is None else {"anchor": self.anchor.digest, "file": anchor_file}
            tables["sums"] = {**msgspec.to_builtins(self.sums), **beside}
        if self.privacy is not None:
            tables["privacy"] = msgspec.to_builtins(self.privacy)
        header = f"# A decbayes charter. Compare its fingerprint with the other members: {self.short_fingerprint}\n\n"
        try:
            return header + "\n".join(toml_table(name, table) for name, table in tables.items())
        except InvalidFile as error:
            raise InvalidCharter(str(error)) from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the charter and, beside it, the vocabulary and the anchor."""
        if self.epoch is not None:
            raise InvalidCharter("An epoch follows from resolutions: save the charter that the group began with.")
        check_adding_up(self)
        target, anchor = Path(path), ""
        if self.anchor is not None:
            anchor = target.with_suffix(".anchor").name
            save(self.anchor, target.with_name(anchor))
        words = target.with_suffix(".vocabulary").name if self.vocabulary else None
        if words is not None:
            write_whole(target.with_name(words), "".join(f"{word}\n" for word in self.vocabulary).encode())
        # Private, because it holds the group's secret.
        write_whole(target, self.to_toml(vocabulary_file=words, anchor_file=anchor).encode(), private=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, vocabulary: str | os.PathLike[str] | None = None) -> "Charter":
        """Read a charter and the vocabulary file that it names, or another copy of that file."""
        source = Path(path)
        content = read_tables(source)
        words = read_words(content.vocabulary, source, vocabulary)
        return cls.from_tables(content, words, read_anchor(content.sums, source))

    @classmethod
    def from_tables(cls, content: CharterTables, words: tuple[str, ...], anchor: Posterior | None = None) -> "Charter":
        if content.group.protocol != PROTOCOL:
            raise InvalidCharter(
                f"The charter is for protocol {content.group.protocol}; this decbayes speaks {PROTOCOL}, and the two "
                "cannot be mixed. Write a new one with `decbayes charter new`, update all members, and give each "
                "agent a new store."
            )
        charter = cls(
            group=content.group.name,
            id=content.group.id,
            model_name=content.model.name,
            settings=content.model.settings,
            members={name: member_key(name, key) for name, key in content.members.items()},
            limits=content.limits,
            rules=content.rules,
            disclosure=None if content.disclosure is None else disclosure_rules(content.disclosure),
            vocabulary=words,
            sums=None if content.sums is None else sum_rules(content.sums),
            anchor=anchor,
            privacy=content.privacy,
            secret=from_hex(content.group.secret, SECRET_BYTES, "The group's secret"),
        )
        if charter.model.structure.fingerprint != content.group.structure:
            raise InvalidCharter(
                f"The model has the fingerprint {charter.model.structure.fingerprint[:12]}, the charter says "
                f"{content.group.structure[:12]}: it was edited by hand, or made with another vocabulary or "
                "version of decbayes."
            )
        check_adding_up(charter)
        return charter


def abbreviated(fingerprint: str) -> str:
    return "-".join(fingerprint[first : first + 4] for first in range(0, 20, 4))


def sum_rules(table: SumsTable) -> SumRules:
    known = {name: getattr(table, name) for name in SumRules.__struct_fields__}
    try:
        return msgspec.convert(known, SumRules)
    except msgspec.ValidationError as error:
        raise InvalidCharter(f"[sums]: {error}") from None


def disclosure_rules(values: Mapping[str, Any]) -> DisclosureRules:
    try:
        return DisclosureRules.of(values)
    except InvalidRules as error:
        raise InvalidCharter(f"[disclosure]: {error}") from None


def member_key(name: str, text: str) -> bytes:
    return from_hex(text, PUBLIC_BYTES, f"The key of '{name}'")


def from_hex(text: str, size: int, what: str) -> bytes:
    with suppress(ValueError):
        if len(content := bytes.fromhex(text)) == size:
            return content
    raise InvalidCharter(f"{what} is not {2 * size} hexadecimal digits.")
