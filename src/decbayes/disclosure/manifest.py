"""How a file was made: by which site, from how many rows, under which rules, and who released it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from decbayes.disclosure.rules import Rules
from decbayes.errors import InvalidFile, InvalidRules

KEY = "manifest"


@dataclass(frozen=True)
class Manifest:
    """The statement that goes with a file. It is untrusted unless signed.

    Args:
        posterior: the digest of the posterior that it is about.
        model: the fitted model, in words.
        date: the day of the fit, or of the release.
        rows: the number of rows, documents or sequences used; of a robust merge, of all sites in it, whether they count
            in full or in part.
        persons: the number of persons in them.
        person: the column that identifies persons; "" if each row, document or sequence is a person.
        left_out: the numbers of rows left out, by reason.
        changed: what was hidden before and after the fit, in words that quote no value.
        rules: the rules that were obeyed; None if the file was made without any.
        software: the version that made the file.
        data: a keyed digest of the data, by which the site can prove later which data were used.
        approver: the person who released the file; "" for a draft.
        reason: the approver's reason.
        key: the public key of the approver's signature.
        signature: the signature of all of the above.

    >>> draft = db.disclosure.Manifest("0" * 64, "GaussianMean", db.disclosure.Rules(), site="north", rows=100)
    >>> draft.released
    False
    """

    posterior: str
    model: str
    rules: Rules | None
    site: str = ""
    date: str = ""
    rows: int = 0
    persons: int = 0
    person: str = ""
    left_out: Mapping[str, int] | None = None
    changed: tuple[str, ...] = ()
    software: str = ""
    data: str = ""
    approver: str = ""
    reason: str = ""
    key: str = ""
    signature: str = ""

    @property
    def released(self) -> bool:
        """Whether somebody has approved it; else it is a draft."""
        return bool(self.approver)

    def plain(self) -> dict[str, Any]:
        """The manifest as plain values, for the note of a file."""
        return asdict(self) | {
            "rules": None if self.rules is None else self.rules.plain(),
            "changed": list(self.changed),
            "left_out": dict(self.left_out or {}),
        }

    def signed_part(self) -> dict[str, Any]:
        """Everything but the signature."""
        return {name: value for name, value in self.plain().items() if name != "signature"}

    @classmethod
    def of(cls, values: Any) -> "Manifest":
        """A manifest from the plain values in an untrusted file."""
        kinds = {"rows": int, "persons": int, "changed": list, "left_out": dict, "rules": dict | None}
        try:
            known = [field.name for field in fields(cls)]
            given = {name: values[name] for name in known}
            if not all(isinstance(value, kinds.get(name, str)) for name, value in given.items()):
                raise TypeError
            if not all(isinstance(rows, int) for rows in given["left_out"].values()):
                raise TypeError
            rules = None if given["rules"] is None else Rules.of(given["rules"])
            changed = tuple(map(str, given["changed"]))
        except (KeyError, TypeError, InvalidRules):
            raise InvalidFile("Its manifest cannot be read.") from None
        return cls(**(given | {"rules": rules, "changed": changed}))


def manifest_in(note: Mapping[str, Any]) -> Manifest | None:
    return Manifest.of(note[KEY]) if KEY in note else None
