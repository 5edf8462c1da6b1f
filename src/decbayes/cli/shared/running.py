"""Run one command line: errors in a line, exit statuses, readers that leave early, Ctrl-C."""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import Any, NoReturn

from cyclopts import App, CycloptsError

from decbayes.errors import DecbayesError
from decbayes.extras import load_extensions


class WrongArgument(DecbayesError):
    """Options that make no sense, or not together: the command ends as for options that it does not know."""


# An error that a user can do something about is one line; anything else is a defect and shows its traceback.
USER_ERRORS = (DecbayesError, OSError, MemoryError)
INTERRUPTED = 130
BROKEN_PIPE = 141  # as for a command that SIGPIPE ends
STANDARD_INPUT, STANDARD_OUTPUT = "/dev/stdin", "/dev/stdout"  # by these names on any system
# Temporary files, and what messages call them.
ALIASES: dict[str, str] = {}


def run(app: App, arguments: Sequence[str], *, name: str, prepare: Callable[[], None] = lambda: None) -> NoReturn:
    """Run one command: exit status 0 if all went well, 1 for an error in one line, 2 for wrong arguments.

    `prepare` is called first, once the user's own modules are imported.
    """

    def called() -> object:
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

    finish(called, name=name, debug="--debug" in arguments)


def finish(command: Callable[[], object], *, name: str, debug: bool = False) -> NoReturn:
    """Call a command and exit: errors in one line, and an exit status for everything that may happen."""
    ALIASES.clear()
    print_anything()
    try:
        ended = command()
        if sys.stdout is not None:  # as after >&-
            sys.stdout.flush()
    except CycloptsError as error:
        from decbayes.cli.shared.complaints import complaint

        print(f"{name}: {complaint(error, name)}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader, such as `head`, has had enough. The rest goes nowhere, without another complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BROKEN_PIPE)
    except USER_ERRORS as error:
        if debug:
            raise
        if isinstance(error, WrongArgument):
            print(f"{name}: {error}", file=sys.stderr)
            sys.exit(2)
        sys.exit(f"{name}: {reason(error)}")
    except KeyboardInterrupt:
        # Python would exit with status 1 from a fit's own kind of interruption.
        print(traceback.format_exc() if debug else f"{name}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    # A command may return its exit status, as `decbayes status` does.
    sys.exit(ended if isinstance(ended, int) else 0)


def shown_default(value: Any) -> str | None:
    """The default of an option in its help; none for what is off or empty anyway."""
    if value is None or value is False or value in ("", (), []):
        return None
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def named_streams(words: Sequence[str]) -> list[str]:
    """A lone hyphen is standard input, and after -o standard output; the parser would take it for an option."""
    named = [f"--output={STANDARD_OUTPUT}" if word == "--output=-" else word for word in words]
    for place, word in enumerate(named):
        if word == "-":
            named[place] = STANDARD_OUTPUT if named[place - 1] in ("-o", "--output") else STANDARD_INPUT
    return named


def print_anything() -> None:
    """Where the terminal has no α or ─, print something else instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def reason(error: Exception) -> str:
    """The error in one line, that of the operating system without its number."""
    if isinstance(error, OSError) and error.strerror is not None:
        return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    text = str(error) or "There is not enough memory."
    for path, alias in ALIASES.items():
        text = text.replace(path, alias)
    return text
