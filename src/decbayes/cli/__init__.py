"""The command line: parse, call, print. Each command lives in its own module and is loaded when it is called."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from cyclopts import App

import decbayes
from decbayes.errors import DecbayesError

app = App(
    name="decbayes",
    help="Decentralized Bayesian inference: fit where the data lives, broadcast once, merge anywhere.",
    version=decbayes.__version__,
    suppress_keyboard_interrupt=False,
)
app.command("decbayes.cli.demo:demo", name="demo")
app.command("decbayes.cli.figure:figure", name="figure")
app.command("decbayes.cli.simulate:simulate", name="simulate")
app.register_install_completion_command()

# What a user can do something about is told in one line; anything else is a defect and shows its traceback.
USER_ERRORS = (DecbayesError, OSError)
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command: exit status 0 when all went well, 1 for an error told in a line, 2 for wrong arguments."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        app([word for word in words if word != "--debug"], result_action="return_value")
    except USER_ERRORS as error:
        if debug:
            raise
        sys.exit(f"decbayes: {error}")
    except KeyboardInterrupt:
        if debug:
            raise
        print("decbayes: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    sys.exit(0)
