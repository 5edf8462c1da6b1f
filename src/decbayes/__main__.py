"""`python -m decbayes`, and the command `decbayes`: Ctrl-C ends it quietly, even while Python still imports."""

# What `signal` rests on. That imports `enum`, and Ctrl-C during an import is shown with its traceback.
import _signal as signal  # type: ignore[import-not-found]
import os

TYPE_CHECKING = False  # as `typing` has it, which would take longer to import than all of this

if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


def main() -> "NoReturn":
    """The `decbayes` command."""
    # An exception in the middle of an import would be shown with its traceback, or taken for a missing library.
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from decbayes.cli import main as run

    run(loaded=lambda: signal.signal(signal.SIGINT, before))


if __name__ == "__main__":
    main()
