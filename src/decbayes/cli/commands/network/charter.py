"""`decbayes charter`: what a group agrees on."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from cyclopts import App, Parameter
from rich.prompt import Confirm

from decbayes.base.extras import require_extra
from decbayes.cli.commands.network._asking import load_charter
from decbayes.cli.commands.network._settings import split, values
from decbayes.cli.commands.network.propose import app as propose
from decbayes.cli.shared.sharing import public_note, rules_named
from decbayes.cli.shared.standard_streams import json_option, print_fields
from decbayes.cli.shared.terminal import messages
from decbayes.disclosure import Rules as DisclosureRules
from decbayes.errors import InvalidCharter, InvalidRules
from decbayes.files import load as load_posterior
from decbayes.inputs.documents import Vocabulary, read_vocabulary
from decbayes.merging import pad
from decbayes.models.core.registry import MODELS
from decbayes.network.protocol.limits import PrivacyRules, Rules, SumRules

if TYPE_CHECKING:
    from decbayes.network import Charter
    from decbayes.posterior import Posterior

SomeRules = TypeVar("SomeRules", SumRules, PrivacyRules)

app = App(name="charter", help="Write or show a charter, which states what a group agrees on, and propose changes.")

ADVICE = (
    "The merge is plain: a few members that are wrong together can move it far. `--rule robust=true` is "
    "recommended unless all members trust each other's data."
)
QUESTION = (
    "Shall the merge be robust, so that a few wrong members hardly move it? Recommended unless all trust all data."
)
File = Annotated[Path, Parameter(help="The charter's file.")]
Members = Annotated[tuple[str, ...], Parameter(name="--member", help="NAME=PUBLIC_KEY, once per member.")]
Json = Annotated[
    bool,
    json_option(
        "charter", "group", "model", "settings", "members", "prior", "disclosure", "sums", "privacy", "fingerprint"
    ),
]

app.command(propose)


@app.command
def new(
    file: File,
    /,
    *,
    group: Annotated[str, Parameter(help="A name for the group.")],
    model: Annotated[str, Parameter(help=f"One of {', '.join(MODELS)}.")],
    members: Members,
    settings: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="NAME=VALUE, a setting of the model; classes=FILE for membership."),
    ] = (),
    limits: Annotated[
        tuple[str, ...], Parameter(name="--limit", help="NAME=VALUE, a limit on what members may send.")
    ] = (),
    rules: Annotated[
        tuple[str, ...],
        Parameter(name="--rule", help="NAME=VALUE, a rule on how members count, or on what may leave their sites."),
    ] = (),
    disclosure: Annotated[
        str | None,
        Parameter(
            name="--rules",
            help="What may leave the members' sites: a TOML file of disclosure rules; or 'none' for public or made-up "
            "data. Default: DECBAYES_RULES, or the usual rules.",
            show_default=False,
        ),
    ] = None,
    vocabulary: Annotated[Path | None, Parameter(help="The words of a topic model, one per line.")] = None,
    secure: Annotated[
        bool,
        Parameter(help="Open only sums over all members, so that nobody sees what a single one has.", negative=""),
    ] = False,
    sums: Annotated[
        tuple[str, ...],
        Parameter(name="--sum", help="NAME=VALUE with --secure: rounds, colluders or most_rows, as in `secure new`."),
    ] = (),
    anchor: Annotated[
        Path | None,
        Parameter(help="With --secure: a posterior whose slots all members use, of public data or released."),
    ] = None,
    privacy: Annotated[
        tuple[str, ...],
        Parameter(
            help="NAME=VALUE: epsilon, delta, perhaps rows_per_person and noise ('shared', or 'each' for members who "
            "trust nobody). Only sums open, as with --secure, and all of them together keep that promise."
        ),
    ] = (),
    as_json: Json = False,
) -> None:
    """Write a charter. Give the file to all members, and let them compare its fingerprint.

    For example:

    ```sh
    key=$(decbayes keygen a.key)
    decbayes charter new group.toml --group g --model GaussianMean \\
        --set dimension=1 --member a=$key
    ```
    """
    require_extra("net", task="decbayes charter")
    from decbayes.network import Charter

    refuse_existing(file)
    listed = read_vocabulary(vocabulary) if vocabulary is not None else Vocabulary(())
    from decbayes.network.protocol.group.proposals import limits_from

    reading_note = ({"recipe": str(listed.recipe)} if str(listed.recipe) else {}) | public_note(listed.documents)
    secure = secure or bool(privacy)
    given = values(rules) if secure else with_answer(values(rules))
    counting, leaving = both_rules(given, rules_named(disclosure))
    charter = Charter(
        group=group,
        model_name=model,
        settings={**with_classes(values(settings)), **reading_note},
        members=keys(members),
        limits=limits_from(values(limits)),
        rules=counting,
        disclosure=leaving,
        vocabulary=listed.words,
    )
    if not secure and (sums or anchor is not None):
        raise InvalidCharter("--sum and --anchor are for groups that open only sums: add --secure.")
    if secure:
        charter = adding_up(charter, values(sums), anchor, values(privacy))
    charter.save(file)
    print_charter(charter, as_json)
    if not (charter.rules.robust or secure):
        messages().print(ADVICE)


@app.command
def add(file: File, /, *, members: Members, as_json: Json = False) -> None:
    """Add members to a charter before the group begins. Later they are added by `charter propose add`.

    For example:

    ```sh
    decbayes charter add group.toml --member c=$(decbayes keygen c.key)
    ```
    """
    charter = load(file)
    added = keys(members)
    known = sorted(added.keys() & charter.members.keys())
    if known:
        raise InvalidCharter(f"There is a member named '{known[0]}' already.")
    extended = replace(charter, members={**charter.members, **added})
    extended.save(file)
    print_charter(extended, as_json)


@app.command
def remove(file: File, name: Annotated[str, Parameter(help="The member's name.")], /, *, as_json: Json = False) -> None:
    """Take a member, with its key, out of a charter before the group begins. Later: `charter propose remove`.

    For example:

    ```sh
    decbayes charter remove group.toml c
    ```
    """
    charter = load(file)
    if name not in charter.members:
        raise InvalidCharter(f"There is no member '{name}'; the members are {', '.join(charter.members)}.")
    left = replace(charter, members={other: key for other, key in charter.members.items() if other != name})
    left.save(file)
    print_charter(left, as_json)


@app.command
def export(
    file: File,
    /,
    *,
    store: Annotated[Path, Parameter(help="The store of an agent.")],
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the decisions.")],
    as_json: Annotated[bool, json_option("file", "file", "motions")] = False,
) -> None:
    """Write what an agent's group has decided, and what it is voting on, to a file for sites without a link.

    There, `decbayes tell take STORE FILE` has an agent take it in. Every vote in it is checked.

    For example:

    ```sh
    decbayes charter export group.toml --store a.store -o decisions.ballots
    ```
    """
    refuse_existing(output)
    charter = load(file)
    from decbayes.network.runtime.store.sqlite import stored_pool, write_ballots

    count = write_ballots(output, stored_pool(store, charter))
    print_fields({"file": str(output), "motions": count}, as_json=as_json)


@app.command
def show(
    file: File,
    /,
    *,
    store: Annotated[
        Path | None, Parameter(help="The store of an agent: show the charter in force, by what was decided.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a charter and its fingerprint, which must be the same for all members.

    For example:

    ```sh
    decbayes charter show group.toml
    ```
    """
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
    shown = {
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
        shown["decisions"] = decisions if as_json else [decision_text(each) for each in decisions["settled"]]
        shown |= {} if as_json else {"pending": [decision_text(each) for each in decisions["pending"]]}
    if not as_json:
        shown["prior"] = f"earlier data of {', '.join(shown['prior'])}" if shown["prior"] else []
        shown["disclosure"] = rules_in_words(rules)
    print_fields(shown, as_json=as_json)


def decision_text(decision: dict[str, Any]) -> str:
    """A motion in one line."""
    needed = f" of {decision['needed']} needed" if "needed" in decision else ""
    overruled = ", overruled" if decision.get("state") == "overruled" else ""
    return f"{decision['motion']} {decision['text']} ({len(decision['votes'])}{needed} votes{overruled})"


def rules_in_words(rules: DisclosureRules | None) -> str:
    """What may leave members' sites, in one line."""
    if rules is None:
        return "no rules: for public or made-up data"
    kept = {name: value for name, value in rules.plain().items() if name != "approval"}
    return ", ".join(f"{name} {value:g}" for name, value in kept.items()) + (", approval" if rules.approval else "")


def keys(pairs: Sequence[str]) -> dict[str, bytes]:
    """Public keys by name."""
    from decbayes.network.protocol.group.charter import member_key

    named = [split(pair) for pair in pairs]
    if len({name for name, _ in named}) < len(named):
        raise InvalidCharter("Two members have the same name.")
    return {name: member_key(name, text) for name, text in named}


def with_answer(given: dict[str, Any]) -> dict[str, Any]:
    """The rules, with whether merges are robust: asked on a terminal if it is not given."""
    if "robust" in given or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return given
    return {**given, "robust": Confirm.ask(QUESTION, console=messages(), default=True)}


def adding_up(charter: "Charter", sums: dict[str, Any], anchor: Path | None, privacy: dict[str, Any]) -> "Charter":
    """The charter of a group that opens only sums; if these are private, the model says how many rounds there are."""
    promise = rules_in(privacy, PrivacyRules, "--privacy") if privacy else None
    usual = {} if promise is None else {"rounds": charter.model.mechanism().rounds}
    slots = None if anchor is None else slots_in(anchor, charter)
    return replace(charter, sums=rules_in(usual | sums, SumRules, "--sum"), anchor=slots, privacy=promise)


def rules_in(given: dict[str, Any], kind: type[SomeRules], option: str) -> SomeRules:
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidCharter(f"{option}: {error}. There are {', '.join(kind.__struct_fields__)}.") from None


def slots_in(file: Path, charter: "Charter") -> "Posterior":
    """The anchor, with spare slots where the charter's model has more components."""
    anchor = load_posterior(file)
    structures = anchor.structure, charter.model.structure
    if not all(structure.resizable for structure in structures):
        return anchor
    present, wanted = (structure.components(structure.symmetry[0]) for structure in structures)
    return pad(anchor, wanted) if present < wanted else anchor


def both_rules(given: dict[str, Any], base: DisclosureRules | None) -> tuple[Rules, DisclosureRules | None]:
    """How members count, and what may leave their sites, from rules by name."""
    from decbayes.network.protocol.group.proposals import rules_from

    if base is None:
        return rules_from(given), None
    names = {field.name for field in fields(DisclosureRules)}
    leaving = {name: value for name, value in given.items() if name in names}
    try:
        disclosure = DisclosureRules.of(base.plain() | leaving)
    except InvalidRules as error:
        raise InvalidCharter(f"rules: {error}") from None
    return rules_from({name: value for name, value in given.items() if name not in names}), disclosure


def with_classes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which `classes=FILE` is what the file holds: the charter carries the classes themselves."""
    classes = settings.get("classes")
    if not isinstance(classes, str):
        return dict(settings)
    from decbayes.models.regressions.classes.known import Classes

    return {**settings, "classes": Classes.of(load_posterior(Path(classes))).plain()}
