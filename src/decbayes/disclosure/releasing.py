"""A release: a draft that somebody has approved by name, signed and recorded in the ledger."""

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from decbayes.base.extras import require
from decbayes.base.writing import write_new
from decbayes.disclosure.ledger import Entry, Ledger
from decbayes.disclosure.manifest import Manifest
from decbayes.disclosure.rules import Rules
from decbayes.errors import DamagedLedger, NotDisclosed
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.structure import canonical_json

PURPOSE = b"decbayes release 1\0"
KEY_BYTES = 32
Sign = Callable[[bytes], bytes]


def release(
    manifest: Manifest,
    file: str,
    ledger: Ledger,
    *,
    approver: str,
    reason: str = "",
    date: str = "",
    members: Sequence[str] = (),
    key: bytes = b"",
    sign: Sign | None = None,
) -> Manifest:
    """Record a release in the ledger and return the manifest of the released file.

    Args:
        date: the date; default: that of the draft.
        members: keyed digests of the persons behind the file, see `person_digests`.
        key: the public key of the approver.
        sign: signs bytes with the approver's private key.

    >>> draft = db.disclosure.Manifest("0" * 64, "GaussianMean", db.disclosure.Rules(), rows=100)
    >>> done = db.disclosure.release(draft, "a.posterior", db.disclosure.Ledger("site.ledger"), approver="Kim")
    >>> done.released
    True
    """
    check_approver(approver)
    if manifest.rules is not None:
        check_difference(members, manifest, ledger, manifest.rules)
    unsigned = replace(manifest, approver=approver, reason=reason, date=date or manifest.date, key=key.hex())
    unsigned = replace(unsigned, data=digest_of(members), signature="")
    signed = replace(unsigned, signature="" if sign is None else sign(signed_bytes(unsigned)).hex())
    ledger.append(
        Entry(
            date=signed.date,
            file=file,
            posterior=signed.posterior,
            site=signed.site,
            model=signed.model,
            rows=signed.rows,
            persons=signed.persons,
            approver=approver,
            reason=reason,
            members=tuple(sorted(members)),
        )
    )
    return signed


def check_approver(name: str) -> None:
    if not name.strip():
        raise NotDisclosed("A release needs the name of the person who approves it: --approve NAME.")


def signed_bytes(manifest: Manifest) -> bytes:
    """The bytes that a signature covers: its purpose and the whole manifest."""
    return PURPOSE + hashlib.sha256(canonical_json(manifest.signed_part())).digest()


def verify(manifest: Manifest) -> None:
    """Refuse a manifest whose signature is missing or invalid."""
    if not manifest.signature:
        raise NotDisclosed("its release is not signed. Release it with --key.")
    backend = require("cryptography.hazmat.primitives.asymmetric.ed25519", extra="net", task="Checking signatures")
    invalid = require("cryptography.exceptions", extra="net", task="Checking signatures").InvalidSignature
    try:
        public = backend.Ed25519PublicKey.from_public_bytes(bytes.fromhex(manifest.key))
        public.verify(bytes.fromhex(manifest.signature), signed_bytes(manifest))
    except (ValueError, invalid):
        raise NotDisclosed("its manifest was changed after it was signed.") from None


def check_difference(members: Sequence[str], manifest: Manifest, ledger: Ledger, rules: Rules) -> None:
    """Refuse a release that differs from an earlier one of the same model by too few persons to hide them."""
    for earlier in ledger.entries():
        if earlier.model != manifest.model or not earlier.members or not members:
            continue
        apart = difference(members, earlier.members)
        if 0 < apart < rules.least_cell:
            raise NotDisclosed(
                f"These data differ by {apart} persons from those released on {earlier.date} ({earlier.file}): both "
                f"files together would show them. Wait until at least {rules.least_cell} persons have changed."
            )


def difference(first: Iterable[Hashable], second: Iterable[Hashable]) -> int:
    """The number of persons by which two files differ: the larger of those who joined and those who left.

    A person with a changed record has left and joined, and counts once.
    """
    before, after = Counter(first), Counter(second)
    return max((before - after).total(), (after - before).total())


def person_digests(model: Model, data: Any, ledger: Ledger, persons: Persons = EACH) -> list[str]:
    """A keyed digest of each person's records, by which the site can compare releases and others learn nothing."""
    key = site_key(ledger)
    return [
        keyed(key, b"||".join(sorted(record_bytes(model, data, row) for row in rows)))
        for rows in persons.rows(model.count(data))
    ]


def category_places(model: Model) -> list[int] | slice:
    """Categories and counts. Shares in place of rare ones depend on all rows, and must not change digests."""
    columns = getattr(model, "columns", None)
    if isinstance(columns, Mapping):
        kinds = columns.values()
        return [place for place, kind in enumerate(kinds) if kind.shown_as_share or kind.factor == "counts"]
    return slice(None) if getattr(getattr(model, "column", None), "shown_as_share", False) else []


def record_bytes(model: Model, data: Any, row: int) -> bytes:
    record, categories = model.taken(data, np.array([row])), category_places(model)
    parts = record if isinstance(record, list) else [record]
    return b"|".join(part_bytes(part, categories) for part in parts)


def part_bytes(part: Any, categories: list[int] | slice) -> bytes:
    if hasattr(part, "tocoo"):
        entries = part.tocoo()
        return np.asarray(entries.coords[-1]).tobytes() + np.asarray(entries.data, dtype=np.float64).tobytes()
    values = np.array(part, dtype=np.float64)
    if categories:
        values[..., categories] = np.rint(values[..., categories])
    return values.tobytes()


def keyed(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()[:16]


def digest_of(members: Sequence[str]) -> str:
    """One digest of all members, whatever their order."""
    return hashlib.sha256("".join(sorted(members)).encode()).hexdigest() if members else ""


def site_key(ledger: Ledger) -> bytes:
    """The secret of a ledger, in a file beside it that never leaves the site; created on first use."""
    path = Path(f"{ledger.path}.key")
    if not path.exists():
        if ledger.path.exists() and any(entry.members for entry in ledger.entries()):
            raise DamagedLedger(f"{path} is missing: without it nothing can be compared with earlier releases.")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, secrets.token_bytes(KEY_BYTES), private=True)
    key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise DamagedLedger(
            f"{path} is damaged: its digests would let others guess records. Restore it from a backup; if nothing has "
            "been released yet, remove it."
        )
    return key
