"""Wrong arguments in one plain sentence, and where to look them up."""

from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnusedCliTokensError

KINDS = {int: "an integer", float: "a number", bool: "true or false", Path: "a file name", str: "a word"}


def complaint(error: CycloptsError, name: str) -> str:
    """What is wrong with a command line, and how to see what is right."""
    command = " ".join([name, *(error.command_chain or ())])
    return f"{explanation(error, command)} Try `{command} --help`."


def explanation(error: CycloptsError, command: str) -> str:
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return missing(error, command)
    if isinstance(error, UnusedCliTokensError):
        return unused(error)
    if isinstance(error, CoercionError) and error.token is not None and (kinds := kinds_of(error.target_type)):
        return f'{error.token.keyword or "An argument"} must be {kinds}, not "{error.token.value}".'
    return " ".join(str(error).split())


def missing(error: MissingArgumentError, command: str) -> str:
    """An argument that is not there, or an option without its value."""
    assert error.argument is not None
    count, _ = error.argument.token_count()
    written = error.keyword or next((token.keyword for token in error.argument.tokens if token.keyword), None)
    if written is None:
        return f"{command} needs {error.argument.name}."
    return f"{written} needs {'a value' if count == 1 else f'{count} values'}."


def unused(error: UnusedCliTokensError) -> str:
    """Arguments that a command does not take, or a name that is none of its commands."""
    words = ", ".join(error.unused_tokens or ())
    names = [] if error.app is None else [name for name in error.app if not name.startswith("-")]
    if names:
        return f'Unknown command "{words}". Available commands: {", ".join(sorted(names))}.'
    return f"Too many arguments: {words}."


def kinds_of(hint: Any) -> str:
    """What may be given, in words; empty for choices, which cyclopts lists itself."""
    parts = [part for part in (get_args(hint) or (hint,)) if part is not NoneType]
    if get_origin(hint) is Literal or not all(part in KINDS or get_origin(part) is Literal for part in parts):
        return ""
    texts = [[KINDS[part]] if part in KINDS else [f"'{choice}'" for choice in get_args(part)] for part in parts]
    return " or ".join(text for several in texts for text in several)
