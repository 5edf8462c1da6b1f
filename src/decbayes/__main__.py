"""`python -m decbayes`, and the command `decbayes`: Ctrl-C ends it quietly, even while Python still imports."""

# `signal` rests on `_signal` but also imports `enum`, and Ctrl-C during an import shows a traceback.
import _signal as signal  # type: ignore[import-not-found]
import os

TYPE_CHECKING = False  # importing `typing` for it would take longer than everything here

if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def main() -> "NoReturn":
    """The `decbayes` command."""
    # An exception during an import would show a traceback, or be mistaken for a missing library.
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from decbayes.cli import main as run

    run(loaded=lambda: signal.signal(signal.SIGINT, before))


if __name__ == "__main__":
    main()
