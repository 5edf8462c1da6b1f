"""What sites agree on before they fit: the columns of their tables, or the words of their texts.

Each site writes a list; all lists are joined into one, in any order.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decbayes.columns import Column, YesNo, agree, unlike
from decbayes.columns.kinds import Missing
from decbayes.errors import InvalidData, InvalidProtocol, InvalidStructure
from decbayes.inputs.word_lists import joined, read_vocabulary
from decbayes.models.core.model import Model
from decbayes.models.core.registry import kind_called
from decbayes.models.tables.tabular import columns_file, read_columns, read_list
from decbayes.study.protocol import Protocol


@dataclass(frozen=True)
class AgreedList:
    """A kind of list, the ending of its files, and the option of a fit that takes it."""

    kind: str
    suffix: str
    option: str

    def read(self, path: Path) -> Any:
        """Read and check one site's list."""
        raise NotImplementedError

    def joined(self, lists: Mapping[str, Path]) -> str:
        """The list of all sites, as the text of a file."""
        raise NotImplementedError

    def differences(self, lists: Mapping[str, Path]) -> list[str]:
        """Differences between the sites' lists that deserve a look."""
        raise NotImplementedError


@dataclass(frozen=True)
class ColumnList(AgreedList):
    """Names, kinds, categories and rounded units of columns."""

    kind: str = "columns"
    suffix: str = ".columns"
    option: str = "agreed_columns"

    def read(self, path: Path) -> dict[str, Column]:
        return read_columns(path)

    def joined(self, lists: Mapping[str, Path]) -> str:
        try:
            return columns_file(agree(*map(read_list, lists.values())))
        except InvalidStructure as error:
            reasons = "; ".join(self.differences(lists)) or str(error)
            raise InvalidData(f"The sites do not agree on columns yet. {reasons.removesuffix('.')}.") from None

    def differences(self, lists: Mapping[str, Path]) -> list[str]:
        columns = {site: self.read(path) for site, path in lists.items()}
        names = list(dict.fromkeys(name for site in columns.values() for name in site))
        return [
            line
            for name in names
            for line in column_differences(name, {site: of.get(name) for site, of in columns.items()})
        ]


@dataclass(frozen=True)
class WordList(AgreedList):
    """Words, how they were made, and their document frequencies, rounded down."""

    kind: str = "words"
    suffix: str = ".words"
    option: str = "vocabulary"

    def read(self, path: Path) -> Any:
        return read_vocabulary(path)

    def joined(self, lists: Mapping[str, Path]) -> str:
        return joined((path, self.read(path)) for path in lists.values()).without_stopped().text()

    def differences(self, lists: Mapping[str, Path]) -> list[str]:
        words = {site: set(self.read(path).words) for site, path in lists.items()}
        if len(words) < 2:
            return []
        everywhere = set.intersection(*words.values())
        return [
            f"{site} shares only {len(everywhere):,} of its {len(known):,} words with all others: another language?"
            for site, known in words.items()
            if known and len(everywhere) < 0.1 * len(known)
        ]


def column_differences(name: str, columns: Mapping[str, Column | None]) -> list[str]:
    """Why a column may not mean the same at all sites."""
    lacking = [site for site, column in columns.items() if column is None]
    if lacking:
        return [f"Column '{name}' is missing at {', '.join(lacking)}: a site without it adds an empty column"]
    present = {site: column for site, column in columns.items() if column is not None and column.kind != Missing.kind}
    kinds = {column.kind for column in present.values()}
    if len(kinds) > 1:
        listed = ", ".join(f"{column.kind} at {site}" for site, column in present.items())
        return [f"Column '{name}' is {listed}: say which it is in the protocol (kinds = \"{name}=…\")"]
    counted = {site: column.yes for site, column in present.items() if isinstance(column, YesNo)}
    if len(set(counted.values())) > 1:
        listed = ", ".join(f"'{yes}' at {site}" for site, yes in counted.items())
        return [f"Column '{name}' counts {listed} as yes: write the answers alike, or set yes = \"…\" in the protocol"]
    shared = [set(filter(None, column.entries)) for column in present.values()]
    if len(shared) > 1 and all(shared) and not set.intersection(*shared):
        return [f"Column '{name}' has no category that all sites share: are they spelled alike?"]
    return unlike({site: {name: column} for site, column in present.items()})


def kind_of(protocol: Protocol) -> type[Model]:
    try:
        return kind_called(protocol.model)
    except LookupError as error:
        raise InvalidProtocol(f"{error}. `decbayes fit --help` lists the models.") from None


def agreed_list_for(protocol: Protocol) -> AgreedList | None:
    """The list that sites must agree on for a model; None if the protocol states everything."""
    options = reading_parameters(kind_of(protocol))
    ways: tuple[AgreedList, ...] = (ColumnList(), WordList())
    return next((way for way in ways if way.option in options and way.option not in protocol.settings), None)


def reading_parameters(kind: type[Model]) -> dict[str, inspect.Parameter]:
    """The parameters of `from_file`, including those that a model passes on to its parents."""
    ways = [vars(parent)["from_file"].__func__ for parent in reversed(kind.__mro__) if "from_file" in vars(parent)]
    return {name: parameter for way in ways for name, parameter in inspect.signature(way).parameters.items()}
