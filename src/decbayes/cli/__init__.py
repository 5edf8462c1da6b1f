"""The command line: parse, call, print. Each command lives in its own module and is loaded when it is called.

What a command's help says stands here, since `decbayes --help` loads none of them.
"""

import sys
from collections.abc import Sequence
from inspect import cleandoc
from typing import NoReturn

from cyclopts import App, Group

import decbayes
from decbayes.cli.shared.running import run

app = App(
    name="decbayes",
    help="""Decentralized Bayesian inference: fit where the data is, share the posterior once, merge anywhere.

    --help shows an example of each command; --debug shows the traceback of an error.""",
    version=decbayes.__version__,
    suppress_keyboard_interrupt=False,
)


# As `decbayes --help` shows them, and as their files lie in `cli/commands`.
EVERYDAY = Group("Everyday", sort_key=1, help="From data to a merged result.")
CHECKING = Group("Checking", sort_key=2, help="How far to believe a result.")
PLANNING = Group("Planning", sort_key=3, help="Before there are data.")
NETWORK = Group("Network", sort_key=4, help="Agents that find each other and agree.")


def command(group: Group, name: str, about: str, *examples: str, after: str = "", several: bool = False) -> None:
    """A command that is loaded when it is called, from the module of its name; `several` are commands of its own."""
    module = name.replace("-", "_")
    shown = "\n".join(["For example:\n", "```sh", *examples, "```"])
    text = "\n\n".join(part for part in (cleandoc(about), shown, cleandoc(after)) if part)
    place = f"decbayes.cli.commands.{str(group.name).lower()}.{module}"
    app.command(f"{place}:{'app' if several else module}", name=name, help=text, group=group)


command(
    EVERYDAY,
    "columns",
    """What the columns of a table hold: categories, yes and no, counts, real numbers and their units.

    Sites that fit classes of one table, or states of one kind of sequence, must agree on it. Each writes down what its
    own table holds, and somebody joins these files. They hold names, categories and rounded units, and no rows.""",
    "decbayes columns patients.csv -o here.columns",
    "decbayes columns here.columns there.columns -o agreed.columns",
)
command(
    EVERYDAY,
    "words",
    "List the words of one site's texts, to combine the lists of all sites into a shared vocabulary.",
    "decbayes words letters.jsonl -o a.words",
    after="""After that `decbayes words a.words b.words -o words.txt` makes the file for `decbayes fit topics
    --vocabulary`. How texts became words is in the files, too: lists that were made in different ways are refused.""",
)
command(
    EVERYDAY,
    "fit",
    "Fit a model to one site's data and write its posterior.",
    "decbayes fit mixture geyser.csv --columns duration,waiting -o a.posterior",
    several=True,
)
command(
    EVERYDAY,
    "merge",
    """Merge the posteriors of several sites into the posterior of all their data.

    Components are matched first: each site may number them in its own way. Words may be in any order.""",
    "decbayes merge a.posterior b.posterior -o merged.posterior --explain",
)
command(
    EVERYDAY,
    "refine",
    """One site's next round: refit its data against what all other sites have sent, and write what to send next.

    Each site runs it once per round, on files of the same round. `decbayes merge` adds up what a round has brought.""",
    "decbayes refine letters.jsonl --own a.posterior --others b.posterior c.posterior -o a.1.posterior",
)
command(
    EVERYDAY,
    "show",
    "Print a posterior: topics with their words, a mixture's means, features as images.",
    "decbayes show merged.posterior --top 15 --picture topics.png",
)
command(
    EVERYDAY,
    "report",
    """Write what a merge found as one page that anybody can open: components, sites, doubts, how to reproduce it.

    The page is one HTML file. It loads nothing from elsewhere, quotes no data, and prints well.""",
    "decbayes report a.posterior b.posterior -o report.html",
)
command(
    EVERYDAY,
    "export",
    "Write a posterior's components as CSV, Parquet or JSON: probabilities and intervals, one row each.",
    "decbayes export merged.posterior -o topics.csv --top 50",
)
command(
    EVERYDAY,
    "transform",
    "Topics, classes or states of new data: one row per document or observation, in their order.",
    "decbayes transform letters.jsonl merged.posterior -o topics.csv",
)
command(
    CHECKING,
    "score",
    """Score posteriors by their mean log predictive density of held-out data; higher is better.

    Of each document or feature vector a part is held out and predicted from the rest: the score is per held-out word or
    value. For points it is per point.""",
    "decbayes score held-out.csv a.posterior merged.posterior",
)
command(
    CHECKING,
    "validate",
    """Score posteriors on data that a site held back; scores of several sites add up and choose.

    With --cuts the posteriors are those of all sites, and their merges into so many components are scored: the summed
    scores say how many there should be. Sums leave the site, observations do not.""",
    "decbayes validate a.csv a.posterior b.posterior --held-back 0.05 --cuts 2:20 -o a.scores",
    "decbayes validate a.scores b.scores",
)
command(
    CHECKING,
    "calibrate",
    """Calibrate the intervals of a merged posterior, so that they hold the truth about as often as they say.

    Each site writes what its data say about the merged posterior, a matrix. Somebody adds these files up.""",
    "decbayes calibrate merged.posterior a.csv -o a.information",
    "decbayes calibrate merged.posterior a.information b.information -o calibrated.posterior",
)
command(
    CHECKING,
    "overlap",
    """How much of each of a site's components the other sites know under the slot it goes into.

    One number per component, which the site computes from its own data. `decbayes merge --explain --overlap` uses it to
    say how likely each match is right.""",
    "decbayes overlap a.csv a.posterior b.posterior -o a.overlap",
)
command(
    CHECKING,
    "quality",
    "How good topics are to read: coherence on the documents of one site or of all, diversity, near-duplicates.",
    "decbayes quality merged.posterior --data letters.jsonl",
)
command(
    PLANNING,
    "plan",
    """Simulate a plan: so many sites, so many observations each. How good would the merged posterior be?

    It prints how often intervals hold the truth, how often matches are right, and how far one fit of all data is
    ahead.""",
    "decbayes plan mixture --sites 10 --observations 50 --components 3 --picture plan.png",
    several=True,
)
command(
    PLANNING,
    "simulate",
    """Watch simulated agents join, leave, crash and lose messages, and agree in the end.

    The agents are the real ones; the network is not. Every step is checked: versions never regress, nothing is counted
    twice, nothing is sent before it is durable. In the end the merge is compared with the posterior of all data.""",
    "decbayes simulate --agents 8 --topology ring",
)
command(
    PLANNING,
    "demo",
    """Eight real agents on this machine share handwritten digits: watch them find each other and agree.

    Each holds a hundred images and fits a mixture of ten clusters. They tell each other what they have learned, never
    the images. One is killed on the way and one joins late. It ends with a picture of the clusters that a site alone,
    the naive merge, AMPS, and a fit of all images in one place have found, and their scores on held-out images.""",
    "decbayes demo --out demo",
)
command(
    PLANNING,
    "warm-up",
    "Compile all kernels now: first fits and merges take less than a second afterwards, not several.",
    "decbayes warm-up",
)
command(
    NETWORK,
    "keygen",
    "Create an agent's key and print its public half for the charter.",
    "decbayes keygen a.key",
)
command(
    NETWORK,
    "charter",
    "Write, extend or show a charter: what a group agrees on.",
    "decbayes charter show group.toml",
    several=True,
)
command(
    NETWORK,
    "certificate",
    "Create the certificates for links beyond one machine.",
    "decbayes certificate authority authority.pem",
    several=True,
)
command(
    NETWORK,
    "agent",
    """Run an agent: fit this site's data, publish its contribution, relay and merge those of all members.

    Ctrl-C or SIGTERM ends it.

    It logs one JSON object per line to standard output. Its contribution still counts after it has stopped.""",
    "decbayes agent group.toml --key a.key --store a.store --data a.npy",
)
command(
    NETWORK,
    "status",
    "How an agent and its group are: neighbours, members, flags, problems. Ends with 3 if anything needs a look.",
    "decbayes status group.toml 127.0.0.1:7447",
)
command(
    NETWORK,
    "posterior",
    "Get the merged posterior of all contributions that a running agent, or an agent's store, holds.",
    "decbayes posterior group.toml --agent 127.0.0.1:7447 -o merged.posterior",
)
command(
    NETWORK,
    "tell",
    "Tell your own agent to add or take back data, to retract, or to vote; without a restart.",
    "decbayes tell observe a.store more.csv",
    several=True,
)
app.register_install_completion_command()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The `decbayes` command."""
    run(app, sys.argv[1:] if arguments is None else arguments, name="decbayes")
