"""Writing files safely: in one step, durably, under a lock, and never out of a shared folder; tables as TOML."""

import json
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from decbayes.errors import InvalidFile

# Bytes written to test whether there is room.
PROBE = 1 << 12


def check_inside(path: Path, folder: Path) -> Path:
    """The path; refused if it is a link that leads out of a shared folder, which could read or write any file here."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidFile(f"{path} is a link that leads out of {folder}. Remove it, or copy its target there.")
    return path


def check_file(path: Path) -> None:
    """Refuse folders, devices and pipes, which may have no end, and which a new file would replace."""
    if path.exists() and not path.is_file():
        raise InvalidFile(f"{path} is a folder, a device or a pipe, not a file. Give the name of a file.")


def behind_link(path: Path) -> Path:
    """The file to replace, behind a link within its folder. Others can make links in shared folders: none leads out."""
    check_file(path)
    return check_inside(path, path.parent).resolve() if path.is_symlink() else path


def write_whole(target: Path, content: bytes, *, private: bool = False) -> None:
    """Replace a file's content in one step: readers see the old or the new content, never part of it.

    Only its owner can read a `private` file; others keep their permissions. An error keeps what was to be written in
    `content`, unless `private`.
    """
    target = behind_link(target)
    temporary = beside(target)
    try:
        kept = target.stat().st_mode & 0o777 if target.exists() and not private else 0
        with open(
            temporary, "xb", opener=lambda path, flags: os.open(path, flags, kept or (0o600 if private else 0o666))
        ) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if kept:  # the process's mask may have taken some
            temporary.chmod(kept)
        temporary.replace(target)
    except OSError as error:
        # The caller knows the target, not the temporary file.
        unwritten = OSError(error.errno, error.strerror, str(target))
        unwritten.content = None if private else content  # type: ignore[attr-defined]
        raise unwritten from error
    finally:
        remove(temporary)


def check_writable(target: Path) -> None:
    """Fail as `write_whole` would here, as far as a few bytes can show."""
    temporary = beside(behind_link(target))
    try:
        with temporary.open("xb") as file:
            file.write(bytes(PROBE))
    finally:
        remove(temporary)


def beside(target: Path) -> Path:
    """The temporary file that is written before it gets its name."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}")


def remove(temporary: Path) -> None:
    """Remove a file that may not exist."""
    with suppress(OSError):
        temporary.unlink()


def write_new(path: Path, content: bytes, *, private: bool = False) -> None:
    """Write a new file durably, completely or not at all; only its owner can read a private one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def scratch_folder(owner: object, parent: Path | None = None) -> Path:
    """A temporary folder that is deleted when its owner is no longer referenced, in the process that has made it."""

    def delete(process: int) -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    folder = tempfile.mkdtemp(prefix="decbayes-", dir=parent)
    weakref.finalize(owner, delete, os.getpid())
    return Path(folder)


def toml_table(name: str, table: Mapping[str, Any]) -> str:
    return f"[{name}]\n" + "".join(f"{toml_key(key)} = {toml_value(key, value)}\n" for key, value in table.items())


def toml_key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "").replace("_", "").isalnum()
    return key if bare else json.dumps(key, ensure_ascii=False)


def toml_value(key: str, value: Any) -> str:
    """Strings, numbers and lists are as in JSON; objects become inline tables."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(key, part) for part in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{toml_key(name)} = {toml_value(key, part)}' for name, part in value.items())}}}"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, bool | int | str):
        return json.dumps(value, ensure_ascii=False)
    raise InvalidFile(f"The setting '{key}' is {value!r}; a TOML file holds numbers, texts and lists of them.")


def lock(file: IO[bytes], *, wait: bool = False) -> None:
    """Lock a file until it is closed; if another process has locked it, wait or fail at once."""
    try:
        fcntl: Any = import_module("fcntl")
    except ImportError:
        windows: Any = import_module("msvcrt")
        windows.locking(file.fileno(), windows.LK_LOCK if wait else windows.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
