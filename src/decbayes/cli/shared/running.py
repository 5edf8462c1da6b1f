"""Run one command line: one-line errors, exit statuses, broken pipes, Ctrl-C, wrong arguments."""

import errno
import os
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from inspect import cleandoc
from io import RawIOBase, TextIOWrapper
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

from cyclopts import App, CoercionError, CycloptsError, MissingArgumentError, UnknownCommandError, UnusedCliTokensError

from decbayes.base.extras import load_extensions
from decbayes.errors import DecbayesError, printable

Command = TypeVar("Command", bound=Callable[..., Any])

# How a write fails if the disk is full.
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def example(*commands: str) -> str:
    """A command's example, for its help."""
    return "\n".join(["For example:\n", "```sh", *commands, "```"])


def with_example(*commands: str) -> Callable[[Command], Command]:
    """Add an example to a command's docstring, which is its help."""

    def add(command: Command) -> Command:
        command.__doc__ = f"{cleandoc(command.__doc__ or '')}\n\n{example(*commands)}"
        return command

    return add


class WrongArgument(DecbayesError):
    """Options that make no sense, alone or together; exits like an unknown option."""


# Users can do something about these, so they get one line; anything else is a defect and shows its traceback.
USER_ERRORS = (DecbayesError, OSError, MemoryError)
INTERRUPTED = 130
BROKEN_PIPE = 141  # as a command that SIGPIPE ends
STANDARD_INPUT, STANDARD_OUTPUT = "/dev/stdin", "/dev/stdout"  # these names on all systems
KINDS = {int: "an integer", float: "a number", bool: "true or false", Path: "a file name", str: "a word"}
LONGEST_NAME = 200
# Temporary files and the names that messages use for them.
ALIASES: dict[str, str] = {}


def run(app: App, arguments: Sequence[str], *, name: str, prepare: Callable[[], None] = lambda: None) -> NoReturn:
    """Run one command: exit status 0 for success, 1 for an error, 2 for wrong arguments.

    `prepare` is called first, after the user's own modules are imported.
    """

    def command() -> object:
        from decbayes.cli.shared.terminal import Output

        load_extensions()
        prepare()
        return app(
            named_streams([word for word in arguments if word != "--debug"]),
            result_action="return_value",
            exit_on_error=False,
            print_error=False,
            console=Output(),
        )

    finish(command, name=name, debug="--debug" in arguments)


def finish(command: Callable[[], object], *, name: str, debug: bool = False) -> NoReturn:
    """Call a command and exit, with one-line errors and an exit status for every outcome."""
    ALIASES.clear()
    print_anything()
    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.showwarning = partial(print_warning, set())
            status = command()
        if sys.stdout is not None:  # it is None after >&-
            sys.stdout.flush()
    except CycloptsError as error:
        print(f"{name}: {printable(complaint(error, name))}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader, such as `head`, has left.
        discard_output()
        sys.exit(BROKEN_PIPE)
    except USER_ERRORS as error:
        content = getattr(error, "content", None)
        kept_in = save_elsewhere(error, content) if isinstance(error, OSError) and content else ""
        if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
            discard_output()
        if debug:
            if kept_in:
                error.add_note(kept_in)
            raise
        if isinstance(error, WrongArgument):
            print(f"{name}: {error}", file=sys.stderr)
            sys.exit(2)
        sys.exit(f"{name}: {reason(error)}{kept_in}")
    except KeyboardInterrupt:
        # Python would exit with status 1, because a fit raises a subclass.
        print(traceback.format_exc() if debug else f"{name}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    # A command may return its exit status, as `decbayes status` does.
    sys.exit(status if isinstance(status, int) else 0)


def discard_output() -> None:
    """Discard what standard output has not taken; the interpreter would fail over it at its end."""
    if isinstance(sys.stdout, TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_warning(printed: set[str], message: Warning | str, *where: Any, **more: Any) -> None:
    """Print a warning once, as one line without the code that it comes from."""
    if str(message) not in printed:
        printed.add(str(message))
        print(printable(str(message)), file=sys.stderr)


def shown_default(value: Any) -> str | None:
    """An option's default in its help; None if it is off or empty."""
    if value is None or value is False or value in ("", (), []):
        return None
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def named_streams(words: Sequence[str]) -> list[str]:
    """Replace a lone hyphen by standard input, or after -o by standard output; the parser takes it for an option."""
    named = [f"--output={STANDARD_OUTPUT}" if word == "--output=-" else word for word in words]
    for place, word in enumerate(named):
        if word == "-":
            named[place] = STANDARD_OUTPUT if named[place - 1] in ("-o", "--output") else STANDARD_INPUT
    return named


def print_anything() -> None:
    """Replace characters that the terminal lacks, such as α or ─, instead of failing; and write everything or fail.

    With PYTHONUNBUFFERED a write may take only a part, as before a full disk, and nothing would say so.
    """
    if isinstance(getattr(sys.stdout, "buffer", None), RawIOBase):
        sys.stdout = os.fdopen(sys.stdout.fileno(), "w", 1, sys.stdout.encoding, closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def reason(error: Exception) -> str:
    """The error in one line; an operating system's error without its number."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else printable(f"{error.filename}: {error.strerror}")
    text = str(error) or "There is not enough memory."
    for path, alias in ALIASES.items():
        text = text.replace(path, alias)
    return printable(text)


def save_elsewhere(error: OSError, content: bytes) -> str:
    """Save a result elsewhere if its file cannot be written, and say where: it may have taken long to compute."""
    for parent in (tempfile.gettempdir, Path.home):
        try:
            folder = Path(tempfile.mkdtemp(prefix="decbayes-", dir=parent()))
        except (OSError, RuntimeError):
            continue
        path = folder / Path(str(error.filename)).name[-LONGEST_NAME:]
        try:
            path.write_bytes(content)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        remedy = "make room, and move it" if error.errno in FULL else "move it"
        return printable(f". The result is kept in {path}: {remedy} where it belongs.")
    return ". Make room, and run the command again." if error.errno in FULL else ""


def complaint(error: CycloptsError, name: str) -> str:
    """What is wrong with a command line, and where to get help."""
    command = " ".join([name, *(error.command_chain or ())])
    return f"{explanation(error, command)} Try `{command} --help`."


def explanation(error: CycloptsError, command: str) -> str:
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        return missing_argument(error, command)
    if isinstance(error, UnknownCommandError) and error.unused_tokens and error.app is not None:
        return unknown_command(error.unused_tokens[0], [name for name in error.app if not name.startswith("-")])
    if isinstance(error, UnusedCliTokensError):
        return unused_words(error)
    if isinstance(error, CoercionError) and error.token is not None and (kinds := kinds_of(error.target_type)):
        return f'{error.token.keyword or "An argument"} must be {kinds}, not "{error.token.value}".'
    return " ".join(str(error).split())


def missing_argument(error: MissingArgumentError, command: str) -> str:
    """A missing argument, or an option without its value."""
    assert error.argument is not None
    count, _ = error.argument.token_count()
    option = error.keyword or next((token.keyword for token in error.argument.tokens if token.keyword), None)
    if option is None:
        return f"{command} needs {error.argument.name}."
    return f"{option} needs {'a value' if count == 1 else f'{count} values'}."


def unknown_command(word: str, names: Sequence[str]) -> str:
    near = [name for name in names if word.lower() in name] or get_close_matches(word.lower(), names, n=1)
    rest = f"Did you mean {' or '.join(near[:3])}?" if near else f"Available commands: {', '.join(sorted(names))}."
    return f'Unknown command "{word}". {rest}'


def unused_words(error: UnusedCliTokensError) -> str:
    """Arguments that a command does not take, or an unknown subcommand."""
    words = ", ".join(error.unused_tokens or ())
    names = [] if error.app is None else [name for name in error.app if not name.startswith("-")]
    if names:
        return f'Unknown command "{words}". Available commands: {", ".join(sorted(names))}.'
    return f"Too many arguments: {words}."


def kinds_of(hint: Any) -> str:
    """The accepted types in words; empty for choices, which cyclopts lists itself."""
    parts = [part for part in (get_args(hint) or (hint,)) if part is not NoneType]
    if get_origin(hint) is Literal or not all(part in KINDS or get_origin(part) is Literal for part in parts):
        return ""
    texts = [[KINDS[part]] if part in KINDS else [f"'{choice}'" for choice in get_args(part)] for part in parts]
    *others, last = [text for several in texts for text in several]
    return f"{', '.join(others)} or {last}" if others else last
