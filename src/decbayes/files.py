"""Posteriors as files: safetensors with one canonical JSON metadata key. Nothing is used before it is checked."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, overload
from weakref import WeakValueDictionary

import numpy as np

from decbayes.base.arguments import check_kind
from decbayes.base.tensors import Arrays, check_hash, checked_csr, hashed, read_arrays, write_arrays
from decbayes.base.writing import check_file, write_whole
from decbayes.calibrated import Calibration
from decbayes.errors import DecbayesError, InvalidFile, InvalidStructure
from decbayes.families import FAMILIES, Contribution
from decbayes.families.matrices import arrays, smallest
from decbayes.families.registry import registered
from decbayes.posterior import Posterior
from decbayes.remarks import from_plain, to_plain
from decbayes.structure import CoupledSet, Structure, canonical_json

FORMAT = "decbayes posterior 1"
KEY = "decbayes"
CALIBRATION = "calibration/"
# Entries of the note: the posterior's remarks, its components' names, hashes of the posteriors it is a merge of, and
# how far halves of its rows are apart.
REMARKS, NAMES, MERGED_FROM, HALVES = "remarks", "names", "merged_from", "halves"
MOST_BYTES = 1 << 30
# Longer descriptions, in bytes, are not read: Python's objects would take many times as much memory.
MOST_DESCRIPTION = 1 << 25
# A prior may repeat its numbers, so a small file can describe a large matrix: at most ROOM bytes, plus EXPANSION for
# each byte of the file.
ROOM, EXPANSION = 1 << 26, 1 << 10
# No data add up to more, and squares of such numbers do not overflow. A prior is no closer to zero than SMALLEST.
LARGEST, SMALLEST = 1e30, 1e-60

# Other files mistaken for posteriors, by their first bytes or the end of their name, and what to do with them.
DATA = "data, not a posterior: run `decbayes fit` first"
DAMAGED = "damaged, or another kind of file: copy it or make it again"
BEGINNINGS = {
    b"-----begin private": "a private key, not a posterior: keep it where it is",
    b"-----begin": "a certificate, not a posterior: agents take it as --tls-certificate",
    b"<!doctype html": "a report, not a posterior: merge the posteriors that it lists",
    b"sqlite format 3": "an agent's store: `decbayes posterior CHARTER --store FILE` gets the posterior",
    b'{"format": "decbayes overlap': "a file of overlaps: `decbayes merge --overlap` takes it",
    b"par1": DATA,
    b"\x93numpy": DATA,
}
ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".parquet", ".npy", ".npz", ".mtx", ".txt", ".jsonl", ".ndjson"), DATA),
    ".columns": "a list of columns, not a posterior: `decbayes fit --agreed-columns` takes it",
    ".words": "a list of words, not a posterior: `decbayes fit topics --vocabulary` takes it",
    ".vocabulary": "a list of words, not a posterior: `decbayes fit topics --vocabulary` takes it",
    ".toml": "a charter, not a posterior: `decbayes posterior` gets the posterior of its group",
    ".key": "a private key, not a posterior: keep it where it is",
    ".scores": "a file of scores: `decbayes validate` adds them up",
    ".overlap": "a file of overlaps: `decbayes merge --overlap` takes it",
    ".information": "one site's part of a calibration: `decbayes calibrate MERGED` adds the parts up",
}

# Thousands of loaded posteriors share one structure object rather than a copy of the vocabulary each. A description
# that was checked once need not be checked again.
_known: "WeakValueDictionary[str, Structure]" = WeakValueDictionary()


def save(posterior: Posterior, path: str | os.PathLike[str], *, note: Mapping[str, Any] | None = None) -> None:
    """Write a posterior to a file, completely or not at all.

    A `note` of plain values goes with it but is not part of the posterior; `load_note` reads it.
    """
    check_kind(Posterior, posterior=posterior)
    write_whole(Path(path), to_bytes(posterior, note))


def load(path: str | os.PathLike[str], *, most_bytes: int = MOST_BYTES) -> Posterior:
    """Read a posterior from a file, checking its size, hash, names, shapes, numbers, domain and fingerprint."""
    source = Path(path)
    check_file(source)
    size = source.stat().st_size
    if size > most_bytes:
        raise InvalidFile(f"{source} has {size:,} bytes, more than the {most_bytes:,} that are read.")
    content = source.read_bytes()
    try:
        return from_bytes(content)
    except DecbayesError as error:
        other = other_kind(source, content)
        raise InvalidFile(
            f"{source} is {other}." if other else f"{source} cannot be read as a posterior. {error}"
        ) from error


def other_kind(path: Path, content: bytes) -> str:
    """What a file is if not a posterior, by its first bytes or name, and what to do with it; "" if unknown."""
    if not content:
        return "empty"
    by_content = (text for beginning, text in BEGINNINGS.items() if content[:20].lower().startswith(beginning))
    endings = [ending for ending in path.suffixes[-2:] if ending.lower() in ENDINGS]
    return next(by_content, "") or (ENDINGS[endings[-1].lower()] if endings else "")


def load_note(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The note in a posterior's file; untrusted."""
    check_file(Path(path))
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, MOST_DESCRIPTION))
    try:
        note = parsed_header(str(json.loads(header)["__metadata__"][KEY])).get("note", {})
    except (ValueError, KeyError, TypeError, RecursionError):
        note = None
    if not isinstance(note, dict):
        other = other_kind(Path(path), length.to_bytes(8, "little") + header if length else b"")
        raise InvalidFile(f"{path} is {other or DAMAGED}.")
    return note


class Library(Sequence[Posterior]):
    """Posteriors in files, each read on access: merge more of them than memory holds.

        db.merge(db.merging.Library(sorted(folder.glob("*.posterior"))), solver=db.solvers.Hierarchical())

    Files must not change while in use. A worker in another process needs the same paths.

    >>> model = db.models.GaussianMean(variance=1.0)
    >>> for number in range(3):
    ...     db.save(model.fit(np.full((5, 1), number)).posterior, f"{number}.posterior")
    >>> library = db.merging.Library(f"{number}.posterior" for number in range(3))
    >>> db.merge(library).mean("mean").round(1)
    array([[0.9]])
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        if isinstance(paths, str | os.PathLike):
            raise TypeError(f"paths must be several files, such as sorted(Path({str(paths)!r}).glob('*.posterior')).")
        self.paths = tuple(map(Path, paths))
        self._structure: Structure | None = None

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, index: int) -> Posterior: ...
    @overload
    def __getitem__(self, index: slice) -> "Library": ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Library(self.paths[index])
        posterior = load(self.paths[index])
        # Kept so that the next file with the same structure finds it.
        self._structure = posterior.structure
        return posterior

    def __repr__(self) -> str:
        return f"Library({len(self)} posteriors)"


def to_bytes(posterior: Posterior, note: Mapping[str, Any] | None = None) -> bytes:
    """The canonical bytes of a posterior: equal for equal posteriors, remarks and notes."""
    structure = posterior.structure
    check_registered(structure)
    tensors = {f"prior/{name}": np.array(smallest(prior), dtype="<f8") for name, prior in structure.prior.items()}
    tensors |= contribution_arrays(posterior.contribution)
    header = {"format": FORMAT, "fingerprint": structure.fingerprint, "structure": structure.description()}
    if posterior.ids:
        header["ids"] = list(posterior.ids)
    if posterior.calibration is not None:
        header["calibration"] = posterior.calibration.method
        tensors |= {name: array.astype("<f8") for name, array in posterior.calibration.arrays().items()}
    own: dict[str, list[Any]] = {
        REMARKS: to_plain(posterior.remarks),
        NAMES: list(posterior.names) if any(posterior.names) else [],
        MERGED_FROM: list(posterior.merged_from),
        HALVES: list(posterior.halves),
    }
    others = {name: value for name, value in (note or {}).items() if name not in own}
    if noted_entries := others | {name: entry for name, entry in own.items() if entry}:
        header["note"] = noted_entries
    try:
        # Notes name files, whose names need not be UTF-8.
        description = canonical_json(header, errors="backslashreplace").decode()
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"A note has texts, finite numbers and lists of them: {error}.") from None
    return hashed(write_arrays(tensors, {KEY: description}))


def from_bytes(content: bytes) -> Posterior:
    """The posterior written by `to_bytes`; anything else is refused."""
    check_hash(content)
    description, tensors = parse(content)
    check_numbers(tensors)
    structure = structure_from(description, tensors)
    contribution = {name: contribution_from(tensors, name, structure) for name in structure.families}
    calibration, remarks = calibration_from(description, tensors), from_plain(noted(description, REMARKS))
    names, merged_from, halves = (noted_list(description, entry) for entry in (NAMES, MERGED_FROM, HALVES))
    return Posterior(structure, contribution, ids_from(description), calibration, remarks, names, merged_from, halves)


def check_numbers(tensors: Arrays) -> None:
    """Refuse numbers that no data can produce, before they overflow in a sum; records have such a limit, too."""
    for name, array in tensors.items():
        sizes = np.abs(array) if array.dtype.kind == "f" else np.zeros(1)
        # NaN and infinity are refused by the posterior.
        if ((sizes > LARGEST) & (sizes < np.inf)).any() or (
            name.startswith("prior/") and ((sizes > 0.0) & (sizes < SMALLEST)).any()
        ):
            raise InvalidFile(
                f"'{name}' holds numbers that no data can produce: beyond ±{LARGEST:g}, or too close to zero."
            )


def check_registered(structure: Structure) -> None:
    """Refuse families that could not be read back."""
    for name, family in structure.families.items():
        if FAMILIES.get(type(family).__name__) is None or registered(family.name) != family:
            raise InvalidStructure(
                f"'{name}' is {family.name}, which is not registered: the file could not be read. Call "
                f"`decbayes.families.register({family!r})` first, here and wherever the file will be read."
            )


def contribution_arrays(contributions: Mapping[str, Contribution]) -> dict[str, np.ndarray[Any, Any]]:
    """Contributions by the names of their arrays in files and records."""
    return {
        f"contribution/{name}/{part}": array
        for name, contribution in contributions.items()
        for part, array in arrays(contribution).items()
    }


def ids_from(description: str) -> tuple[str, ...]:
    """The components' ids, if any; most files have none, and are not parsed for them."""
    ids = parsed_header(description).get("ids", []) if '"ids":' in description else []
    if not isinstance(ids, list):
        raise InvalidFile("The ids of the components are not a list.")
    return tuple(ids)


def noted_list(description: str, entry: str) -> tuple[Any, ...]:
    """Such an entry of the note, if any."""
    noted_entry = noted(description, entry)
    if not isinstance(noted_entry, list):
        raise InvalidFile(f"'{entry}' in its note is not a list.")
    return tuple(noted_entry)


def noted(description: str, entry: str) -> Any:
    """An entry of the file's note, untrusted; an empty list if there is none."""
    note = parsed_header(description).get("note", {}) if f'"{entry}":' in description else {}
    return note.get(entry, []) if isinstance(note, dict) else []


def calibration_from(description: str, tensors: Arrays) -> Calibration | None:
    """Calibrated deviations, if any."""
    calibration = {name: tensors[name] for name in sorted(tensors) if name.startswith(CALIBRATION)}
    method = parsed_header(description).get("calibration") if calibration or '"calibration":' in description else None
    if bool(calibration) != (method is not None) or any(name.count("/") != 2 for name in calibration):
        raise InvalidFile("The calibration is not described properly; calibrate the posterior again.")
    return None if method is None else Calibration.of_arrays(method, calibration)


def parse(content: bytes) -> tuple[str, Arrays]:
    """The metadata, as text, and the arrays of a safetensors file."""
    length = int.from_bytes(content[:8], "little")
    if length > MOST_DESCRIPTION:
        raise InvalidFile(
            f"It is damaged, or another kind of file: its description has {length:,} bytes, at most "
            f"{MOST_DESCRIPTION:,} are read."
        )
    tensors = read_arrays(content)
    try:
        description = str(json.loads(content[8 : 8 + length])["__metadata__"][KEY])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidFile(f"This is not a posterior file ({type(error).__name__}: {error}).") from None
    return description, tensors


def structure_from(description: str, tensors: Arrays) -> Structure:
    """The structure that a file describes, checked against the fingerprint it claims."""
    key = description_digest(description, tensors)
    structure = _known.get(key) or described_structure(description, tensors)
    check_names(structure, tensors)
    return _known.setdefault(key, _known.setdefault(structure.fingerprint, structure))


def description_digest(description: str, tensors: Arrays) -> str:
    digest = hashlib.sha256(description.encode())
    for name in sorted(name for name in tensors if name.startswith("prior/")):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()


def described_structure(description: str, tensors: Arrays) -> Structure:
    header = parsed_header(description)
    try:
        described = header["structure"]
        check_room(described["shapes"], len(description) + sum(array.nbytes for array in tensors.values()))
        structure = Structure(
            families={name: registered(family) for name, family in described["families"].items()},
            prior={name: prior_from(tensors, name, shape) for name, shape in described["shapes"].items()},
            symmetry=tuple(CoupledSet(tuple(factors)) for factors in described["symmetry"]),
            labels={name: tuple(words) for name, words in described["labels"].items()},
            sparse=frozenset(described["sparse"]),
            model=described["model"],
        )
        # Fails for values that have no fingerprint, such as NaN or half a surrogate pair.
        fingerprint = structure.fingerprint
    except (KeyError, TypeError, ValueError, AttributeError, MemoryError) as error:
        raise InvalidFile(f"The structure is not described properly ({type(error).__name__}: {error}).") from None
    if fingerprint != header.get("fingerprint"):
        raise InvalidFile("The fingerprint does not match the structure: the file was changed after it was written.")
    return structure


def check_room(shapes: Mapping[str, Any], size: int) -> None:
    """Refuse a small file that describes large matrices, before memory is allocated for them."""
    for name, shape in shapes.items():
        if len(shape) != 2 or not all(isinstance(side, int) and side > 0 for side in shape):
            raise ValueError(f"'{name}' is not a matrix")
    claimed = 8 * sum(rows * columns for rows, columns in shapes.values())
    if claimed > min(MOST_BYTES, ROOM + EXPANSION * size):
        raise ValueError(f"a file of {size:,} bytes claims {claimed:,} bytes of numbers, more than are read")


def parsed_header(description: str) -> dict[str, Any]:
    try:
        header = json.loads(description)
    except (ValueError, RecursionError) as error:
        raise InvalidFile(f"The metadata cannot be read ({type(error).__name__}: {error}).") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidFile(
            f"The format is not '{FORMAT}': another version of decbayes may have written it. Use the version that its "
            "site has."
        )
    return header


def prior_from(tensors: Arrays, name: str, shape: list[int]) -> np.ndarray[Any, Any]:
    part = tensors[f"prior/{name}"]
    if part.dtype != np.dtype("<f8"):
        raise ValueError(f"the prior of '{name}' is not a matrix of numbers")
    return np.broadcast_to(part, shape)


def check_names(structure: Structure, tensors: Arrays) -> None:
    parts = {
        name: ("data", "indices", "indptr") if name in structure.sparse else ("data",) for name in structure.families
    }
    expected = {f"prior/{name}" for name in structure.families}
    expected |= {f"contribution/{name}/{part}" for name in structure.families for part in parts[name]}
    # Arrays of a calibration are checked with the posterior.
    present = {name for name in tensors if not name.startswith(CALIBRATION)}
    if expected != present:
        raise InvalidFile(f"The arrays {sorted(expected ^ present)} are missing or unexpected.")


def contribution_from(tensors: Arrays, name: str, structure: Structure) -> Any:
    data = tensors[f"contribution/{name}/data"]
    if name not in structure.sparse:
        return data
    return checked_csr(
        data,
        tensors[f"contribution/{name}/indices"],
        tensors[f"contribution/{name}/indptr"],
        structure.prior[name].shape,
    )
