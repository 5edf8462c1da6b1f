"""What all members of a group agree on, in one TOML file that each of them holds."""

import hashlib
import json
import os
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from decbayes.errors import DecbayesError, InvalidCharter
from decbayes.files import write_whole
from decbayes.models.model import Model
from decbayes.network.keys import PUBLIC_BYTES, AgentId, agent_id, public_key
from decbayes.structure import EMPTY, Structure, canonical_json

PROTOCOL = 1
MODELS = {
    "GaussianMean": "decbayes.models.mean",
    "GaussianMixture": "decbayes.models.mixture",
    "LatentDirichletAllocation": "decbayes.models.lda",
    "LatentFeatures": "decbayes.models.features",
}
MOST_CHARTER_BYTES = 16 << 20


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one member may ask of the others. All members check the same limits, so that all accept the same records.

    `members` is the most agents there will ever be: a contribution must leave the merge proper even if all of them sent
    it. `versions` bounds the signed headers that are kept of one agent, `refinements` the refits of one start of an
    agent. The last two bound what one neighbour may send, or have sent, between two ticks.
    """

    members: int = 1000
    record_bytes: int = 64 << 20
    observations: int = 10**12
    magnitude: float = 1e15
    shards: int = 10_000
    versions: int = 100_000
    refinements: int = 20
    tick_bytes: int = 256 << 20
    tick_messages: int = 10_000

    def __post_init__(self) -> None:
        low = [name for name in self.__struct_fields__ if not getattr(self, name) > 0]
        if low:
            raise ValueError(f"limits must be positive: {', '.join(low)}")


class GroupTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    id: str
    protocol: int
    structure: str


class ModelTable(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    settings: dict[str, Any] = {}


class VocabularyTable(msgspec.Struct, forbid_unknown_fields=True):
    digest: str
    file: str | None = None


class CharterFile(msgspec.Struct, forbid_unknown_fields=True):
    """The tables of the TOML file, exactly these."""

    group: GroupTable
    model: ModelTable
    members: dict[str, str]
    limits: Limits = Limits()
    vocabulary: VocabularyTable | None = None


@dataclass(frozen=True)
class Charter:
    """Group, model, members and limits. Two agents understand each other if their charters have one fingerprint.

    The group's `id` is drawn once and stays when members are added, so that earlier records remain valid.
    """

    group: str
    model_name: str
    settings: Mapping[str, Any]
    members: Mapping[str, bytes]
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    limits: Limits = field(default_factory=Limits)
    vocabulary: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(sorted(self.settings.items()))))
        object.__setattr__(self, "members", MappingProxyType(dict(sorted(self.members.items()))))
        check(self)

    @cached_property
    def model(self) -> Model:
        """The model that every member fits."""
        words = {"vocabulary": self.vocabulary} if self.vocabulary else EMPTY
        try:
            model: Model = getattr(import_module(MODELS[self.model_name]), self.model_name)(**self.settings, **words)
            _ = model.structure
        except (TypeError, ValueError, DecbayesError) as error:
            raise InvalidCharter(f"{self.model_name} cannot be built from the charter's settings: {error}") from None
        return model

    @property
    def structure(self) -> Structure:
        return self.model.structure

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
            "group": [self.group, self.id, PROTOCOL, self.structure.fingerprint],
            "limits": msgspec.to_builtins(self.limits),
            "members": {name: public.hex() for name, public in self.members.items()},
            "model": [self.model_name, dict(self.settings)],
        }
        return hashlib.sha256(canonical_json(content)).hexdigest()

    @property
    def short_fingerprint(self) -> str:
        """What people read to each other: 80 bits, in five groups."""
        return "-".join(self.fingerprint[first : first + 4] for first in range(0, 20, 4))

    def to_toml(self, *, vocabulary_file: str | None = None) -> str:
        """The charter's text; the vocabulary is named by its digest and, if given, by a file beside the charter."""
        tables: dict[str, Mapping[str, Any]] = {
            "group": {
                "name": self.group,
                "id": self.id,
                "protocol": PROTOCOL,
                "structure": self.structure.fingerprint,
            },
            "model": {"name": self.model_name},
            "model.settings": self.settings,
            "limits": msgspec.to_builtins(self.limits),
            "members": {name: public.hex() for name, public in self.members.items()},
        }
        if self.vocabulary:
            named = {} if vocabulary_file is None else {"file": vocabulary_file}
            tables["vocabulary"] = {"digest": words_digest(self.vocabulary), **named}
        header = f"# A decbayes charter. Compare its fingerprint with the other members: {self.short_fingerprint}\n\n"
        return header + "\n".join(table_text(name, table) for name, table in tables.items())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the charter and, beside it, the vocabulary."""
        target = Path(path)
        words = target.with_suffix(".vocabulary").name if self.vocabulary else None
        if words is not None:
            write_whole(target.with_name(words), "".join(f"{word}\n" for word in self.vocabulary).encode())
        write_whole(target, self.to_toml(vocabulary_file=words).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, vocabulary: str | os.PathLike[str] | None = None) -> "Charter":
        """Read a charter; its vocabulary comes from the file it names, or from another copy of that file."""
        source = Path(path)
        if source.stat().st_size > MOST_CHARTER_BYTES:
            raise InvalidCharter(
                f"{source} has more than {MOST_CHARTER_BYTES:,} bytes; a charter is a small text file."
            )
        try:
            content = msgspec.convert(tomllib.loads(source.read_text(encoding="utf-8")), CharterFile)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidCharter(f"{source}: {error}") from None
        return cls.from_tables(content, read_words(content.vocabulary, source, vocabulary))

    @classmethod
    def from_tables(cls, content: CharterFile, words: tuple[str, ...]) -> "Charter":
        if content.group.protocol != PROTOCOL:
            raise InvalidCharter(f"The charter is for protocol {content.group.protocol}; this is protocol {PROTOCOL}.")
        charter = cls(
            group=content.group.name,
            id=content.group.id,
            model_name=content.model.name,
            settings=content.model.settings,
            members={name: member_key(name, key) for name, key in content.members.items()},
            limits=content.limits,
            vocabulary=words,
        )
        if charter.structure.fingerprint != content.group.structure:
            raise InvalidCharter(
                f"The model and vocabulary have the fingerprint {charter.structure.fingerprint[:12]}, the charter says "
                f"{content.group.structure[:12]}: it was edited by hand, or the vocabulary or decbayes is another."
            )
        return charter


def check(charter: Charter) -> None:
    if charter.model_name not in MODELS:
        raise InvalidCharter(f"There is no model '{charter.model_name}'; a charter names one of {', '.join(MODELS)}.")
    if not 1 <= len(charter.members) <= charter.limits.members:
        raise InvalidCharter(
            f"{len(charter.members)} members; there must be 1 to limits.members = {charter.limits.members}."
        )
    if len(set(charter.members.values())) < len(charter.members):
        raise InvalidCharter("Two members have the same key; every agent needs its own.")
    for text in (charter.group, charter.id, *charter.members):
        if not text or not text.isprintable():
            raise InvalidCharter(f"{text!r} is not a name: names are not empty and hold printable characters only.")


def member_key(name: str, text: str) -> bytes:
    try:
        public = bytes.fromhex(text)
    except ValueError:
        public = b""
    if len(public) != PUBLIC_BYTES:
        raise InvalidCharter(f"The key of '{name}' is not {2 * PUBLIC_BYTES} hexadecimal digits.")
    public_key(public)
    return public


def words_digest(words: tuple[str, ...]) -> str:
    return hashlib.sha256("".join(f"{word}\n" for word in words).encode()).hexdigest()


def read_words(table: VocabularyTable | None, charter: Path, given: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """The vocabulary, one word a line, compared with the charter's digest."""
    if table is None:
        return ()
    if given is None and table.file is None:
        raise InvalidCharter(f"{charter} names its vocabulary by digest only; say which file holds it.")
    source = Path(given) if given is not None else charter.parent / str(table.file)
    words = tuple(source.read_text(encoding="utf-8").splitlines())
    if words_digest(words) != table.digest:
        raise InvalidCharter(f"{source} is not the vocabulary that the charter was made with: its digest differs.")
    return words


def table_text(name: str, table: Mapping[str, Any]) -> str:
    rows = [f"{key_text(key)} = {value_text(key, value)}\n" for key, value in table.items()]
    return f"[{name}]\n{''.join(rows)}"


def key_text(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else json.dumps(key, ensure_ascii=False)


def value_text(key: str, value: Any) -> str:
    """A TOML value; JSON's strings, numbers and lists of them are TOML's too."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(key, part) for part in value)}]"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    raise InvalidCharter(f"The setting '{key}' is {value!r}; a charter holds numbers, texts and lists of them.")
