"""The command line: parse, call, print. Each command lives in its own module and is loaded when it is called.

What a command's help says stands here, since `decbayes --help` loads none of them.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from cyclopts import App

import decbayes
from decbayes.cli.running import run

app = App(
    name="decbayes",
    help="""Decentralized Bayesian inference: fit where the data is, share the posterior once, merge anywhere.

    --help shows an example of each command; --debug shows the traceback of an error.""",
    version=decbayes.__version__,
    suppress_keyboard_interrupt=False,
)
app.command(
    "decbayes.cli.fit:app",
    name="fit",
    help="""Fit a model to one site's data and write its posterior.

    For example:

    ```sh
    decbayes fit mixture geyser.csv --columns duration,waiting -o a.posterior
    ```""",
)
app.command(
    "decbayes.cli.words:words",
    name="words",
    help="""List the words of one site's texts, to combine the lists of all sites into a shared vocabulary.

    For example:

    ```sh
    decbayes words letters.jsonl -o a.words
    ```

    After that `decbayes words a.words b.words -o words.txt` makes the file for `decbayes fit topics --vocabulary`. How
    texts became words is in the files, too: lists that were made in different ways are refused.""",
)
app.command(
    "decbayes.cli.merge:merge",
    name="merge",
    help="""Merge the posteriors of several sites into the posterior of all their data.

    Components are matched first: each site may number them in its own way. Words may be in any order.

    For example:

    ```sh
    decbayes merge a.posterior b.posterior -o merged.posterior --explain
    ```""",
)
app.command(
    "decbayes.cli.refine:refine",
    name="refine",
    help="""One site's next round: refit its data against what all other sites have sent, and write what to send next.

    Each site runs it once per round, on files of the same round. `decbayes merge` adds up what a round has brought.

    For example:

    ```sh
    decbayes refine letters.jsonl --own a.posterior --others b.posterior c.posterior -o a.1.posterior
    ```""",
)
app.command(
    "decbayes.cli.show:show",
    name="show",
    help="""Print a posterior: topics with their words, a mixture's means, features as images.

    For example:

    ```sh
    decbayes show merged.posterior --top 15 --picture topics.png
    ```""",
)
app.command(
    "decbayes.cli.quality:quality",
    name="quality",
    help="""How good topics are to read: coherence on the documents of one site or of all, diversity, near-duplicates.

    For example:

    ```sh
    decbayes quality merged.posterior --data letters.jsonl
    ```""",
)
app.command(
    "decbayes.cli.transform:transform",
    name="transform",
    help="""Topics, classes or states of new data: one row per document or observation, in their order.

    For example:

    ```sh
    decbayes transform letters.jsonl merged.posterior -o topics.csv
    ```""",
)
app.command(
    "decbayes.cli.export:export",
    name="export",
    help="""Write a posterior's components as CSV, Parquet or JSON: probabilities and intervals, one row each.

    For example:

    ```sh
    decbayes export merged.posterior -o topics.csv --top 50
    ```""",
)
app.command(
    "decbayes.cli.report:report",
    name="report",
    help="""Write what a merge found as one page that anybody can open: components, sites, doubts, how to reproduce it.

    The page is one HTML file. It loads nothing from elsewhere, quotes no data, and prints well.

    For example:

    ```sh
    decbayes report a.posterior b.posterior -o report.html
    ```""",
)
app.command(
    "decbayes.cli.score:score",
    name="score",
    help="""Score posteriors by their mean log predictive density of held-out data; higher is better.

    Of each document or feature vector a part is held out and predicted from the rest: the score is per held-out word or
    value. For points it is per point.

    For example:

    ```sh
    decbayes score held-out.csv a.posterior merged.posterior
    ```""",
)
app.command(
    "decbayes.cli.intervals:intervals",
    name="intervals",
    help="""Calibrate the intervals of a merged posterior, so that they hold the truth about as often as they say.

    Each site writes what its data say about the merged posterior, a matrix. Somebody adds these files up.

    For example:

    ```sh
    decbayes intervals merged.posterior a.csv -o a.information
    decbayes intervals merged.posterior a.information b.information -o calibrated.posterior
    ```""",
)
app.command(
    "decbayes.cli.validate:validate",
    name="validate",
    help="""Score posteriors on data that a site held back; scores of several sites add up and choose.

    With --cuts the posteriors are those of all sites, and their merges into so many components are scored: the summed
    scores say how many there should be. Sums leave the site, observations do not.

    For example:

    ```sh
    decbayes validate a.csv a.posterior b.posterior --held-back 0.05 --cuts 2:20 -o a.scores
    decbayes validate a.scores b.scores
    ```""",
)
app.command(
    "decbayes.cli.overlap:overlap",
    name="overlap",
    help="""How much of each of a site's components the other sites know under the slot it goes into.

    One number per component, which the site computes from its own data. `decbayes merge --explain --overlap` uses it to
    say how likely each match is right.

    For example:

    ```sh
    decbayes overlap a.csv a.posterior b.posterior -o a.overlap
    ```""",
)
app.command(
    "decbayes.cli.calibrate:app",
    name="calibrate",
    help="""Simulate a plan: so many sites, so many observations each. How good would the merged posterior be?

    It prints how often intervals hold the truth, how often matches are right, and how far one fit of all data is ahead.

    For example:

    ```sh
    decbayes calibrate mixture --sites 10 --observations 50 --components 3 --picture plan.png
    ```""",
)
app.command(
    "decbayes.cli.columns:columns",
    name="columns",
    help="""What the columns of a table hold: categories, yes and no, counts, real numbers and their units.

    Sites that fit classes of one table, or states of one kind of sequence, must agree on it. Each writes down what its
    own table holds, and somebody joins these files. They hold names, categories and rounded units, and no rows.

    For example:

    ```sh
    decbayes columns patients.csv -o here.columns
    decbayes columns here.columns there.columns -o agreed.columns
    ```""",
)
app.command(
    "decbayes.cli.keygen:keygen",
    name="keygen",
    help="""Create an agent's key and print its public half for the charter.

    For example:

    ```sh
    decbayes keygen a.key
    ```""",
)
app.command(
    "decbayes.cli.charter:app",
    name="charter",
    help="""Write, extend or show a charter: what a group agrees on.

    For example:

    ```sh
    decbayes charter show group.toml
    ```""",
)
app.command(
    "decbayes.cli.certificate:app",
    name="certificate",
    help="""Create the certificates for links beyond one machine.

    For example:

    ```sh
    decbayes certificate authority authority.pem
    ```""",
)
app.command(
    "decbayes.cli.agent:agent",
    name="agent",
    help="""Run an agent: fit this site's data, publish its contribution, relay and merge those of all members.

    Ctrl-C or SIGTERM ends it.

    It logs one JSON object per line to standard output. Its contribution still counts after it has stopped.

    For example:

    ```sh
    decbayes agent group.toml --key a.key --store a.store --data a.npy
    ```""",
)
app.command(
    "decbayes.cli.posterior:posterior",
    name="posterior",
    help="""Get the merged posterior of all contributions that a running agent, or an agent's store, holds.

    For example:

    ```sh
    decbayes posterior group.toml --agent 127.0.0.1:7447 -o merged.posterior
    ```""",
)
app.command(
    "decbayes.cli.status:status",
    name="status",
    help="""How an agent and its group are: neighbours, members, flags, problems. Ends with 3 if anything needs a look.

    For example:

    ```sh
    decbayes status group.toml 127.0.0.1:7447
    ```""",
)
app.command(
    "decbayes.cli.tell:app",
    name="tell",
    help="""Tell your own agent to add or take back data, to retract, or to vote; without a restart.

    For example:

    ```sh
    decbayes tell observe a.store more.csv
    ```""",
)
app.command(
    "decbayes.cli.demo:demo",
    name="demo",
    help="""Eight real agents on this machine share handwritten digits: watch them find each other and agree.

    Each holds a hundred images and fits a mixture of ten clusters. They tell each other what they have learned, never
    the images. One is killed on the way and one joins late. It ends with a picture of the clusters that a site alone,
    the naive merge, AMPS, and a fit of all images in one place have found, and their scores on held-out images.

    For example:

    ```sh
    decbayes demo --out demo
    ```""",
)
app.command(
    "decbayes.cli.simulate:simulate",
    name="simulate",
    help="""Watch simulated agents join, leave, crash and lose messages, and agree in the end.

    The agents are the real ones; the network is not. Every step is checked: versions never regress, nothing is counted
    twice, nothing is sent before it is durable. In the end the merge is compared with the posterior of all data.

    For example:

    ```sh
    decbayes simulate --agents 8 --topology ring
    ```""",
)
app.command(
    "decbayes.cli.warm_up:warm_up",
    name="warm-up",
    help="""Compile all kernels now: first fits and merges take less than a second afterwards, not several.

    For example:

    ```sh
    decbayes warm-up
    ```""",
)
app.register_install_completion_command()


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The `decbayes` command."""
    run(app, sys.argv[1:] if arguments is None else arguments, name="decbayes")
