"""`decbayes charter`: write and show what a group agrees on."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from cyclopts import App, Parameter
from rich.prompt import Confirm

from decbayes.base.extras import require_extra
from decbayes.cli.commands.network._link import load_charter
from decbayes.cli.commands.network._orders import split, values
from decbayes.cli.commands.network.propose import app as propose
from decbayes.cli.shared.outputs import output_option
from decbayes.cli.shared.running import with_example
from decbayes.cli.shared.sharing import public_note, rules_in_force
from decbayes.cli.shared.standard_streams import json_option, print_fields
from decbayes.cli.shared.terminal import messages
from decbayes.disclosure import Rules as DisclosureRules
from decbayes.errors import InvalidCharter, InvalidRules
from decbayes.files import load as load_posterior
from decbayes.inputs.word_lists import Vocabulary, read_vocabulary
from decbayes.merging import pad
from decbayes.models.core.registry import MODELS
from decbayes.network.protocol.limits import PrivacyRules, Rules, SumRules

if TYPE_CHECKING:
    from decbayes.network import Charter
    from decbayes.posterior import Posterior

SomeRules = TypeVar("SomeRules", SumRules, PrivacyRules)

app = App(name="charter", help="Write or show a charter, which states what a group agrees on, and propose changes.")

ADVICE = (
    "The merge is not robust: a few members that are wrong together can move it far. `--rule robust=true` is "
    "recommended unless all members trust each other's data."
)
QUESTION = (
    "Should the merge be robust, so that a few wrong members hardly move it? Recommended unless you trust all data."
)
File = Annotated[Path, Parameter(help="The charter's file.")]
Members = Annotated[tuple[str, ...], Parameter(name="--member", help="NAME=PUBLIC_KEY, once per member.")]
Json = Annotated[
    bool,
    json_option(
        "charter", "group", "model", "settings", "members", "prior", "disclosure", "sums", "privacy", "fingerprint"
    ),
]


@Parameter(name="*")
@dataclass(frozen=True)
class SumOptions:
    """Whether a group opens only sums, and how."""

    secure: Annotated[
        bool, Parameter(help="Open only sums over all members, so that nobody sees a single contribution.")
    ] = False
    sums: Annotated[
        tuple[str, ...],
        Parameter(name="--sum", help="NAME=VALUE with --secure: rounds, colluders or most_rows, as in `secure new`."),
    ] = ()
    anchor: Annotated[
        Path | None,
        Parameter(
            help="With --secure: a posterior of public data, or a released one: its slots are those of all members."
        ),
    ] = None
    privacy: Annotated[
        tuple[str, ...],
        Parameter(
            help="NAME=VALUE: epsilon, delta, and if needed rows_per_person and noise ('shared', or 'each' if members "
            "trust nobody). Only sums open, as with --secure, and together they keep this promise."
        ),
    ] = ()

    def apply(self, charter: "Charter") -> "Charter":
        """The charter with these sums; if they are private, the model sets the number of rounds."""
        if not (self.secure or self.privacy):
            if self.sums or self.anchor is not None:
                raise InvalidCharter("--sum and --anchor are for groups that open only sums: add --secure.")
            return charter
        promise = convert_rules(values(self.privacy), PrivacyRules, "--privacy") if self.privacy else None
        usual = {} if promise is None else {"rounds": charter.model.mechanism().rounds}
        slots = None if self.anchor is None else load_anchor(self.anchor, charter)
        rules = convert_rules(usual | values(self.sums), SumRules, "--sum")
        return replace(charter, sums=rules, anchor=slots, privacy=promise)


NO_SUMS = SumOptions()

app.command(propose)


@app.command
@with_example(
    "key=$(decbayes keygen a.key)",
    "decbayes charter new group.toml --group g --model GaussianMean \\",
    "    --set dimension=1 --member a=$key",
)
def new(
    file: File,
    /,
    *,
    group: Annotated[str, Parameter(help="A name for the group.")],
    model: Annotated[str, Parameter(help=f"One of {', '.join(MODELS)}.")],
    members: Members,
    settings: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="NAME=VALUE: a setting of the model; classes=FILE for membership."),
    ] = (),
    limits: Annotated[
        tuple[str, ...], Parameter(name="--limit", help="NAME=VALUE: a limit on what members may send.")
    ] = (),
    rules: Annotated[
        tuple[str, ...],
        Parameter(name="--rule", help="NAME=VALUE: a rule on how members count, or on what may leave their sites."),
    ] = (),
    disclosure: Annotated[
        str | None,
        Parameter(
            name="--rules",
            help="What may leave the members' sites: a TOML file of disclosure rules; or 'none' for public or made-up "
            "data. Default: DECBAYES_RULES, or the usual rules.",
        ),
    ] = None,
    vocabulary: Annotated[Path | None, Parameter(help="The words of a topic model, one per line.")] = None,
    sums: SumOptions = NO_SUMS,
    as_json: Json = False,
) -> None:
    """Write a charter. Give the file to all members, who compare its fingerprint."""
    require_extra("net", task="decbayes charter")
    from decbayes.network import Charter
    from decbayes.network.runtime.proposals import limits_from

    refuse_existing(file)
    words = read_vocabulary(vocabulary) if vocabulary is not None else Vocabulary(())
    reading_note = ({"recipe": str(words.recipe)} if str(words.recipe) else {}) | public_note(words.documents)
    given = values(rules) if sums.secure or sums.privacy else ask_for_robust(values(rules))
    counting, disclosed = split_rules(given, rules_in_force(disclosure))
    charter = Charter(
        group=group,
        model_name=model,
        settings={**with_classes(values(settings)), **reading_note},
        members=keys(members),
        limits=limits_from(values(limits)),
        rules=counting,
        disclosure=disclosed,
        vocabulary=words.words,
    )
    charter = sums.apply(charter)
    charter.save(file)
    print_charter(charter, as_json)
    if not (charter.rules.robust or charter.sums):
        messages().print(ADVICE)


@app.command
@with_example("decbayes charter add group.toml --member c=$(decbayes keygen c.key)")
def add(file: File, /, *, members: Members, as_json: Json = False) -> None:
    """Add members to a charter before the group begins; later, use `charter propose add`."""
    charter = load(file)
    added = keys(members)
    known = sorted(added.keys() & charter.members.keys())
    if known:
        raise InvalidCharter(f"There is already a member named '{known[0]}'.")
    extended = replace(charter, members={**charter.members, **added})
    extended.save(file)
    print_charter(extended, as_json)


@app.command
@with_example("decbayes charter remove group.toml c")
def remove(file: File, name: Annotated[str, Parameter(help="The member's name.")], /, *, as_json: Json = False) -> None:
    """Remove a member, with its key, from a charter before the group begins; later, use `charter propose remove`."""
    charter = load(file)
    if name not in charter.members:
        raise InvalidCharter(f"There is no member '{name}'; the members are {', '.join(charter.members)}.")
    left = replace(charter, members={other: key for other, key in charter.members.items() if other != name})
    left.save(file)
    print_charter(left, as_json)


@app.command
@with_example("decbayes charter export group.toml --store a.store -o decisions.ballots")
def export(
    file: File,
    /,
    *,
    store: Annotated[Path, Parameter(help="The store of an agent.")],
    output: Annotated[Path, output_option("Where to write the decisions.")],
    as_json: Annotated[bool, json_option("file", "file", "motions")] = False,
) -> None:
    """Write what an agent's group has decided, and its open motions, to a file for sites without a link.

    There, `decbayes tell take STORE FILE` passes it to an agent. Every vote in it is checked.
    """
    refuse_existing(output)
    charter = load(file)
    from decbayes.network.runtime.store.offline import stored_pool, write_ballots

    count = write_ballots(output, stored_pool(store, charter))
    print_fields({"file": str(output), "motions": count}, as_json=as_json)


@app.command
@with_example("decbayes charter show group.toml")
def show(
    file: File,
    /,
    *,
    store: Annotated[
        Path | None,
        Parameter(help="The store of an agent: show the charter that is in force after its group's decisions."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a charter and its fingerprint, which must be the same for all members."""
    charter = load(file)
    if store is None:
        print_charter(charter, as_json)
        return
    from decbayes.network.runtime.reports.description import decisions_of
    from decbayes.network.runtime.store import stored_pool

    pool = stored_pool(store, charter)
    print_charter(pool.charter, as_json, decisions_of(pool))


def load(file: Path) -> "Charter":
    require_extra("net", task="decbayes charter")
    return load_charter(file)


def refuse_existing(file: Path) -> None:
    if file.exists():
        raise InvalidCharter(f"{file} exists, and a charter is not overwritten. Use `charter add` to add members.")


def print_charter(charter: "Charter", as_json: bool, decisions: dict[str, Any] | None = None) -> None:
    rules = charter.disclosure
    content = {
        "group": charter.group,
        "model": charter.model_name,
        "settings": dict(charter.settings),
        "members": list(charter.members),
        "prior": [] if charter.epoch is None else list(charter.epoch.counted),
        "disclosure": None if rules is None else rules.plain(),
        **({} if charter.sums is None else {"sums": msgspec.to_builtins(charter.sums)}),
        **({} if charter.privacy is None else {"privacy": msgspec.to_builtins(charter.privacy)}),
        "fingerprint": charter.short_fingerprint,
    }
    if decisions is not None:
        content["decisions"] = decisions if as_json else [decision_text(decision) for decision in decisions["settled"]]
        content |= {} if as_json else {"pending": [decision_text(decision) for decision in decisions["pending"]]}
    if not as_json:
        content["prior"] = f"earlier data of {', '.join(content['prior'])}" if content["prior"] else []
        content["disclosure"] = rules_in_words(rules)
    print_fields(content, as_json=as_json)


def decision_text(decision: dict[str, Any]) -> str:
    needed = f" of {decision['needed']} needed" if "needed" in decision else ""
    overruled = ", overruled" if decision.get("state") == "overruled" else ""
    return f"{decision['motion']} {decision['text']} ({len(decision['votes'])}{needed} votes{overruled})"


def rules_in_words(rules: DisclosureRules | None) -> str:
    """What may leave members' sites, in one line."""
    if rules is None:
        return "no rules: for public or made-up data"
    limits = {name: value for name, value in rules.plain().items() if name != "approval"}
    return ", ".join(f"{name} {value:g}" for name, value in limits.items()) + (", approval" if rules.approval else "")


def keys(pairs: Sequence[str]) -> dict[str, bytes]:
    from decbayes.network.protocol.group.charter import member_key

    pairs_by_name = [split(pair) for pair in pairs]
    if len({name for name, _ in pairs_by_name}) < len(pairs_by_name):
        raise InvalidCharter("Two members have the same name.")
    return {name: member_key(name, text) for name, text in pairs_by_name}


def ask_for_robust(given: dict[str, Any]) -> dict[str, Any]:
    """The rules; on a terminal, asks whether merges should be robust if that is not given."""
    if "robust" in given or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return given
    return {**given, "robust": Confirm.ask(QUESTION, console=messages(), default=True)}


def convert_rules(given: dict[str, Any], kind: type[SomeRules], option: str) -> SomeRules:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidCharter(f"{option}: {error}. There are {', '.join(kind.__struct_fields__)}.") from None


def load_anchor(file: Path, charter: "Charter") -> "Posterior":
    """The anchor, with spare slots if the charter's model has more components."""
    anchor = load_posterior(file)
    structures = anchor.structure, charter.model.structure
    if not all(structure.resizable for structure in structures):
        return anchor
    present, wanted = (structure.components(structure.symmetry[0]) for structure in structures)
    return pad(anchor, wanted) if present < wanted else anchor


def split_rules(given: dict[str, Any], base: DisclosureRules | None) -> tuple[Rules, DisclosureRules | None]:
    """Split rules by name into those on how members count and those on what may leave their sites."""
    from decbayes.network.runtime.proposals import rules_from

    if base is None:
        return rules_from(given), None
    names = {field.name for field in fields(DisclosureRules)}
    disclosure_rules = {name: value for name, value in given.items() if name in names}
    try:
        disclosure = DisclosureRules.of(base.plain() | disclosure_rules)
    except InvalidRules as error:
        raise InvalidCharter(f"rules: {error}") from None
    return rules_from({name: value for name, value in given.items() if name not in names}), disclosure


def with_classes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with `classes=FILE` replaced by the content of the file, which the charter carries."""
    classes = settings.get("classes")
    if not isinstance(classes, str):
        return dict(settings)
    from decbayes.models.regressions.classes.known import Classes

    return {**settings, "classes": Classes.of(load_posterior(Path(classes))).plain()}
