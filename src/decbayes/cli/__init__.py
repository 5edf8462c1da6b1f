"""The command line. A command is one file in `cli/commands`, loaded when it is called, and one registration here.

The registration has the command's help, so that `decbayes --help` loads no command.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from inspect import cleandoc
from itertools import count
from typing import Any, NoReturn

from cyclopts import App, Group, Parameter

import decbayes
from decbayes.cli.shared.running import example, finish, run, shown_default

app = App(
    name="decbayes",
    help="""Decentralized Bayesian inference: fit where the data is, share the posterior once, merge anywhere.

    --help after a command shows an example; --debug shows the traceback of an error; - is standard input, and after -o
    standard output.""",
    version=decbayes.__version__,
    # Flags are off by default, so that --no-FLAG would do nothing.
    default_parameter=Parameter(show_default=shown_default, negative_bool=(), negative_iterable=()),
    suppress_keyboard_interrupt=False,
)


# In the order of `decbayes --help`; each group has a folder in `cli/commands`.
STUDY = Group("Study", sort_key=0, help="From a question to a report, by files.")
EVERYDAY = Group("Everyday", sort_key=1, help="From data to a merged result, step by step.")
TOPICS = Group("Topics", sort_key=2, help="Find, name, change and compare the topics of a merge.")
SHARING = Group("Sharing", sort_key=3, help="What leaves this site.")
CHECKING = Group("Checking", sort_key=4, help="How far to believe a result.")
PLANNING = Group("Planning", sort_key=5, help="Before there are any data.")
NETWORK = Group("Network", sort_key=6, help="Agents that exchange posteriors by themselves.")
FURTHER = Group("Further", sort_key=7, help="From other packages.")

ENTRY_POINTS = "decbayes.commands"
"""The entry points by which installed packages add commands, NAME = "module:function"."""

TO_BEGIN = """Three ways to begin:

  Alone: fit files of your own, and merge them.
    decbayes fit mixture a.csv --components 3 -o a.posterior
    decbayes merge a.posterior b.posterior -o merged.posterior --explain
  A study by files: several sites, one question, one folder.
    decbayes study new NAME
  A network: agents merge by themselves. Watch eight of them:
    decbayes demo

decbayes --help lists all commands."""

_order = count()


def command(
    group: Group, name: str, about: str, *examples: str, after: str = "", several: bool = False, module: str = ""
) -> None:
    """Register a command, by default in the module of its name; `several` if it has subcommands."""
    function = name.replace("-", "_")
    text = "\n\n".join(part for part in (cleandoc(about), example(*examples), cleandoc(after)) if part)
    place = f"decbayes.cli.commands.{str(group.name).lower()}.{module or function}"
    app.command(f"{place}:{'app' if several else function}", name=name, help=text, group=group, sort_key=next(_order))


command(
    STUDY,
    "study",
    """Run a study by files: a protocol, a folder per site, and one report at the end.

    `study new` begins it. At each site: `check`, `fit`, `preview`, `release`, and `round` if the protocol has rounds.
    To merge: `report`. Each command prints the next step and who does it; `status` prints it at any time.""",
    "decbayes study new stay --model linear-regression --formula 'days ~ age + ward' --sites north,south",
    "decbayes study status",
    several=True,
)
command(
    EVERYDAY,
    "columns",
    """List the kinds of a table's columns: categories, yes or no, counts, real numbers and their units.

    Sites that fit the same kind of table or sequence must agree on them. Each site describes its table in a file, and
    somebody combines these files. They contain names, categories and rounded units, but no rows.""",
    "decbayes columns patients.csv -o here.columns",
    "decbayes columns here.columns there.columns -o agreed.columns",
)
command(
    EVERYDAY,
    "words",
    "List the words of one site's texts, to combine the lists of all sites into a shared vocabulary.",
    "decbayes words letters.jsonl -o a.words",
    after="""Then `decbayes words a.words b.words -o words.txt` makes the file for `decbayes fit topics --vocabulary`.
    The files also record how texts were split into words: lists that were made differently are refused.""",
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
    """Merge the posteriors of several sites into one posterior for all their data.

    Components are matched first, because sites number them differently. Vocabularies may be in any order.""",
    "decbayes merge a.posterior b.posterior -o merged.posterior --explain",
)
command(
    EVERYDAY,
    "refine",
    """Make one site's next round: refit its data given the files of all other sites, and write its next file.

    Each site runs it once per round. In a shared folder it finds whose turn it is, what to read and where to write; a
    site without files joins. `decbayes merge shared` then merges the last round.""",
    "decbayes refine letters.jsonl --folder shared",
    "decbayes refine letters.jsonl --own a.posterior --others b.posterior c.posterior -o a.1.posterior",
)
command(
    EVERYDAY,
    "show",
    "Print a posterior: coefficients, topics with their words, a mixture's means, features as images.",
    "decbayes show merged.posterior --top 15 --picture topics.png",
)
command(
    EVERYDAY,
    "report",
    """Write a merge as one page that anybody can open: results, sites, doubts, and how to reproduce it.

    The page is one HTML file. It loads nothing from elsewhere, quotes no data, and prints well.""",
    "decbayes report a.posterior b.posterior -o report.html",
)
command(
    EVERYDAY,
    "export",
    "Write a posterior's components as CSV, Parquet or JSON: means and intervals, one row per parameter.",
    "decbayes export merged.posterior -o topics.csv --top 50",
)
command(
    EVERYDAY,
    "transform",
    "Write the topics, classes or states of new data: one row per document or observation, in the same order.",
    "decbayes transform letters.jsonl merged.posterior -o topics.csv",
)
command(
    EVERYDAY,
    "predict",
    """Predict a regression's outcome for persons you describe: a mean, a probability, survival at given times.

    Several values of a column, as in age=50,60, make several persons. The last line says what the
    intervals contain: a mean, or a new value, count or level.""",
    "decbayes predict merged.posterior age=60 sex=f,m --times 30,90,365",
)
command(
    EVERYDAY,
    "impute",
    """Impute missing values: write a table several times, with values drawn from the posterior of all sites.

    Fit the same regression to each table, merge the first tables of all sites, the second ones, and so on; then
    combine the merges with `decbayes pool`.""",
    "decbayes impute patients.csv merged.posterior -o here.csv --draws 20",
)
command(
    TOPICS,
    "find",
    "Find topics by words, by similarity to another topic, or by a document.",
    "decbayes find merged.posterior nurse ward",
    "decbayes find merged.posterior --document letter.txt",
)
command(
    TOPICS,
    "name",
    "Name a topic. The name stays with it in reports, and in later merges with --since.",
    "decbayes name merged.posterior 3 Hospitals",
    module="editing",
)
command(
    TOPICS,
    "drop",
    "Remove topics from a merge.",
    "decbayes drop merged.posterior 3 7 -o fewer.posterior",
    module="editing",
)
command(
    TOPICS,
    "join",
    "Join several topics into one.",
    "decbayes join merged.posterior Hospitals 5 -o joined.posterior",
    module="editing",
)
command(
    TOPICS,
    "split",
    "Split a topic in two, using the files of the sites.",
    "decbayes split merged.posterior 3 a.posterior b.posterior -o divided.posterior",
    module="editing",
)
command(
    TOPICS,
    "prevalence",
    """Print the share of each topic per site and over time, with intervals.

    Each site writes sums over its documents, without groups that are too small for the rules. These files add up.""",
    "decbayes prevalence merged.posterior a.jsonl --date day --site a -o a.prevalence",
    "decbayes prevalence merged.posterior a.prevalence b.prevalence --picture shares.png",
)
command(
    TOPICS,
    "compare",
    "Show which topics changed, appeared or vanished from one merge to another.",
    "decbayes compare may.posterior june.posterior --picture changes.png",
)
command(
    SHARING,
    "preview",
    """Show what a file reveals about persons before it leaves: the smallest groups, rare words, unusual records.

    With --data it measures how well a reader could tell who is in the data. The page is for the owner of the data: it
    may quote rare words and categories.""",
    "decbayes preview a.posterior --data a.csv -o preview.html",
)
command(
    SHARING,
    "release",
    """Approve a file: mark it as released, sign it (with --key), and record it in the site's ledger.

    It is previewed once more with the data behind it, and refused if it breaks a rule, is about other data, or differs
    from an earlier release by too few persons.""",
    "decbayes release a.posterior --approve 'Dr Kim' --reason 'study 12' --key a.key --data a.csv",
)
command(
    SHARING,
    "sketch",
    """Write a keyed sketch of a site's documents, or print how many documents several sites share.

    Nobody without the group's key can tell which documents are in a sketch. `decbayes merge` reads sketches beside
    the sites' files (a.sketch beside a.posterior) and prints how much is counted twice.""",
    "decbayes sketch a.jsonl --key group.key -o a.sketch",
    "decbayes sketch a.sketch b.sketch",
)
command(
    SHARING,
    "ledger",
    "Show what has left this site, and check that no entry was changed or removed.",
    "decbayes ledger releases.ledger",
)
command(
    SHARING,
    "secure",
    """Add up contributions of sites so that nobody sees anything but the sum, by files in a shared folder.

    Each member masks its numbers from all others. A sum opens only when all members have sent their part.""",
    "decbayes secure new sums --anchor public.posterior --member north=KEY --member south=KEY --member west=KEY",
    "decbayes secure round sums north.csv --key north.key --agreed FINGERPRINT --approve 'Dr Kim'",
    "decbayes secure result sums -o merged.posterior",
    several=True,
)
command(
    CHECKING,
    "score",
    """Score posteriors by their mean log predictive density of held-out data; higher is better.

    For topics and features, a part of each observation is predicted from the rest, and the score is per held-out word
    or value. For other models it is per observation.""",
    "decbayes score held-out.csv a.posterior merged.posterior",
)
command(
    CHECKING,
    "validate",
    """Score posteriors on data that a site held back, add up the scores of several sites, and choose the best.

    With --cuts, give the posteriors of all sites: merges of them into 2, 3, … components are scored, to choose the
    number. Sums leave the site, observations do not.""",
    "decbayes validate a.csv a.posterior b.posterior --held-back 0.05 --cuts 2:20 -o a.scores",
    "decbayes validate a.scores b.scores",
)
command(
    CHECKING,
    "calibrate",
    """Calibrate the intervals of a merged posterior, so that 90 % intervals contain the truth about 90 % of the time.

    Each site writes the information in its data about the merged posterior, a matrix. Then somebody adds up these
    files.""",
    "decbayes calibrate merged.posterior a.csv -o a.information",
    "decbayes calibrate merged.posterior a.information b.information -o calibrated.posterior",
)
command(
    CHECKING,
    "pool",
    "Combine regressions of imputed tables by Rubin's rules; intervals include the uncertainty about missing values.",
    "decbayes pool merged-1.posterior merged-2.posterior merged-3.posterior",
)
command(
    CHECKING,
    "accuracy",
    """Print how well a regression predicts: concordance (for yes or no the area under the ROC curve, for survival
    Harrell's index), and observed and expected events by risk.

    Each site writes sums over its pairs and groups. Then somebody adds up these files.""",
    "decbayes accuracy merged.posterior a.csv -o a.accuracy",
    "decbayes accuracy merged.posterior a.accuracy b.accuracy",
)
command(
    CHECKING,
    "overlap",
    """Compute the share of each component's data that the merge of the other sites puts into the same slot.

    One number per component, from this site's data. `decbayes merge --explain --overlap` uses it to estimate how
    likely each match is right.""",
    "decbayes overlap a.csv a.posterior b.posterior -o a.overlap",
)
command(
    CHECKING,
    "quality",
    "Print how readable topics are: coherence on the documents of one site or of all, diversity, near-duplicates.",
    "decbayes quality merged.posterior --data letters.jsonl",
)
command(
    PLANNING,
    "plan",
    """Simulate a plan, a number of sites and of observations per site: how good would the merged posterior be?

    Prints how often intervals contain the truth, how often matches are right, and how much better one fit of all data
    would be.""",
    "decbayes plan mixture --sites 10 --observations 50 --components 3 --picture plan.png",
    several=True,
)
command(
    PLANNING,
    "simulate",
    """Watch simulated agents join, leave, crash and lose messages, and agree in the end.

    The agents are real, the network is simulated. Every step is checked: versions never regress, nothing is counted
    twice, nothing is sent before it is stored. In the end the merge is compared with the posterior of all data. Name a
    model as for `decbayes fit`; by default the agents find three clusters.""",
    "decbayes simulate --agents 8 --topology ring",
    "decbayes simulate mixture --components 3 --agents 6 --steps 50",
    several=True,
)
command(
    PLANNING,
    "demo",
    """Watch eight real agents on this machine learn from handwritten digits, find each other and agree.

    Each has a hundred images and fits a mixture of ten clusters. They share posteriors, never images. One is killed
    and one joins late. In the end a picture compares the clusters of one site, the naive merge, AMPS and a fit of all
    images, with their scores on held-out images.""",
    "decbayes demo --out demo",
)
command(
    PLANNING,
    "warm-up",
    "Compile all kernels now, so that the first fit and merge take less than a second instead of several.",
    "decbayes warm-up",
)
command(NETWORK, "keygen", "Create an agent's key and print its public half for the charter.", "decbayes keygen a.key")
command(
    NETWORK,
    "charter",
    "Write, extend or show a charter, which states what a group agrees on.",
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

    It logs one JSON object per line to standard output. Ctrl-C or SIGTERM ends it; its contribution still counts.""",
    "decbayes agent group.toml --key a.key --store a.store --data a.npy",
)
command(
    NETWORK,
    "status",
    "Print the state of an agent and its group: neighbours, members, flags, problems. Exits with 3 if there are any.",
    "decbayes status group.toml 127.0.0.1:7447",
)
command(
    NETWORK,
    "posterior",
    "Get the merged posterior of all contributions in a running agent or in an agent's store.",
    "decbayes posterior group.toml --agent 127.0.0.1:7447 -o merged.posterior",
)
command(
    NETWORK,
    "tell",
    "Give orders to your own agent without a restart: add or withdraw data, retract, vote.",
    "decbayes tell observe a.store more.csv",
    several=True,
)
command(
    NETWORK,
    "page",
    "Show a recorded page again, or save its last state as one file.",
    "decbayes simulate --page --record group.page",
    "decbayes page group.page -o group.html",
)
app.register_install_completion_command()


def main(arguments: Sequence[str] | None = None, *, loaded: Callable[[], object] = lambda: None) -> NoReturn:
    """The `decbayes` command; calls `loaded` once everything it needs is imported."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words:
        finish(lambda: print(TO_BEGIN), name="decbayes")

    def prepare() -> None:
        load_command(*words)
        loaded()

    run(app, words, name="decbayes", prepare=prepare)


def load_command(name: str, *words: str) -> None:
    """Import a command, or those of other packages if the name is unknown.

    Help on a command with subcommands, such as `fit`, needs all of them.
    """
    if name not in [*app]:
        add_further_commands()
        return
    command = app[name]
    if words[:1] in (("--help",), ("-h",)) or not (words or command.default_command):
        for inner in command:
            _ = command[inner]


def add_further_commands() -> None:
    """Add the commands of installed packages; the search takes a tenth of a second."""
    for point in entry_points(group=ENTRY_POINTS):
        try:
            if point.name not in [*app]:
                further = point.load()
                flags: dict[str, Any] = (
                    {} if isinstance(further, App) else {"default_parameter": Parameter(negative_bool=("no-",))}
                )
                app.command(further, name=point.name, group=FURTHER, **flags)
        except (ImportError, AttributeError, TypeError) as error:
            print(f"The command {point.name} cannot be loaded: {error}", file=sys.stderr)
