"""Run one command line: errors in a line, exit statuses, readers that leave early, Ctrl-C."""

import os
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from typing import NoReturn

from cyclopts import App, CycloptsError

from decbayes.errors import DecbayesError
from decbayes.extras import load_extensions


class WrongArgument(DecbayesError):
    """Options that make no sense, or not together: the command ends as for options that it does not know."""


# What a user can do something about is told in one line; anything else is a defect and shows its traceback.
USER_ERRORS = (DecbayesError, OSError, MemoryError)
INTERRUPTED = 130
STANDARD_INPUT = "/dev/stdin"  # a lone hyphen would be taken for an option
UNHEARD = 141  # as for a command that SIGPIPE ends


def run(app: App, arguments: Sequence[str], *, name: str) -> NoReturn:
    """Run one command: exit status 0 when all went well, 1 for an error told in a line, 2 for wrong arguments."""
    debug = "--debug" in arguments
    print_anything()
    try:
        load_extensions()
        ended = app(
            [STANDARD_INPUT if word == "-" else word for word in arguments if word != "--debug"],
            result_action="return_value",
            exit_on_error=False,
        )
        sys.stdout.flush()
    except CycloptsError:  # which it has told itself
        sys.exit(2)
    except BrokenPipeError:
        # The reader, `head` say, has had enough. What is left to print goes nowhere, without another complaint.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UNHEARD)
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
    # A command may say how it went: `decbayes status` does.
    sys.exit(ended if isinstance(ended, int) else 0)


def print_anything() -> None:
    """Where the terminal has no α or ─, print something else instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def reason(error: Exception) -> str:
    """The error in a line, that of the operating system without its number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or "There is not enough memory."
