"""`python -m decbayes`, and the command `decbayes`: Ctrl-C ends it quietly, even while Python still imports."""

import os
import signal
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """The `decbayes` command."""
    # An exception in the middle of an import would be shown with its traceback, or taken for a missing library.
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from decbayes.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
