"""The command line: parse, call, print. Each command lives in its own module and is loaded when it is called.

What a command's help says stands here, since `decbayes --help` loads none of them.
"""

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
app.command(
    "decbayes.cli.fit:app",
    name="fit",
    help="""Fit a model to one site's data and write its posterior.

    Example: decbayes fit mixture geyser.csv --columns duration,waiting --components 2 -o site-a.posterior""",
)
app.command(
    "decbayes.cli.merge:merge",
    name="merge",
    help="""Merge the posteriors of separate data into the posterior of all of it, whatever their labels.

    Example: decbayes merge site-a.posterior site-b.posterior site-c.posterior -o merged.posterior --explain""",
)
app.command(
    "decbayes.cli.show:show",
    name="show",
    help="""Print a posterior: topics with their words, a mixture's means, features as images.

    Example: decbayes show merged.posterior --top 15 --picture topics.png""",
)
app.command(
    "decbayes.cli.score:score",
    name="score",
    help="""Score posteriors by their mean log predictive density of held-out data; higher is better.

    Points are scored whole. Of documents and of feature vectors a part is predicted from the rest: the score is per
    word, or per component.

    Example: decbayes score held-out.csv site-a.posterior merged.posterior""",
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
