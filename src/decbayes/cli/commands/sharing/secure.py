"""`decbayes secure`: sums that open only together, by files in a folder that members share."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from cyclopts.validators import Number
from rich.table import Table

from decbayes.base.extras import require_extra
from decbayes.base.writing import write_whole
from decbayes.cli.commands.network.charter import keys
from decbayes.cli.commands.sharing._visits import Visit
from decbayes.cli.shared.common_options import NO_PROMISE, HoldBack, Promise, Reading, check_hold_back
from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.sharing import (
    PersonOption,
    RulesOption,
    public_documents,
    public_note,
    rules_named,
)
from decbayes.cli.shared.standard_streams import json_option, print_fields, print_json
from decbayes.cli.shared.terminal import many, messages, output, plain
from decbayes.disclosure import Entry, Ledger, Rules
from decbayes.disclosure.drafting import in_words
from decbayes.disclosure.ledger import today
from decbayes.disclosure.manifest import KEY, Manifest
from decbayes.errors import NotDisclosed, NotPrivate, SumRefused
from decbayes.files import load, save
from decbayes.merging import pad
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.secure.agreement import Agreement, Merged
from decbayes.secure.folder import Folder, Sum
from decbayes.secure.gathered import KINDS
from decbayes.secure.private_rounds import PrivateAgreement
from decbayes.secure.site import Site, proposals, whose_turn
from decbayes.updates.update import shift

if TYPE_CHECKING:
    from decbayes.network import Identity

app = App(name="secure", help="Add up what sites have learned so that nobody sees anything but the sum.")
AS_THEY_ARE = Reading()
AGREED = "agreed.json"
SHOWN = 16
MOST_ROWS = 1e6
FolderOption = Annotated[Path, Parameter(help="The folder that all members share.")]


@app.command
def new(
    folder: FolderOption,
    /,
    *,
    anchor: Annotated[Path, Parameter(help="A posterior whose slots all members use: of public data, or released.")],
    members: Annotated[tuple[str, ...], Parameter(name="--member", help="NAME=PUBLIC_KEY, once per member.")],
    name: Annotated[str, Parameter(help="What the sums are for.")] = "secure sums",
    spare: Annotated[NonNegativeInt, Parameter(help="Additional slots, for components that the anchor lacks.")] = 0,
    rounds: Annotated[
        PositiveInt | None,
        Parameter(help="Maximum number of sums, each refining the last; default: 3, or as --private needs."),
    ] = None,
    colluders: Annotated[
        PositiveInt, Parameter(help="How many members may join forces without learning about a single other one.")
    ] = 1,
    most_rows: Annotated[
        float, Parameter(help="Maximum number of rows that one member counts for.", validator=Number(gte=1))
    ] = (MOST_ROWS),
    rules: RulesOption = None,
    promise: Promise = NO_PROMISE,
    noise: Annotated[
        Literal["shared", "each"],
        Parameter(
            help="With --private: one noise that members share, or all of it by each member, which then trusts nobody."
        ),
    ] = "shared",
    as_json: Annotated[
        bool, json_option("agreement", "folder", "members", "rounds", "colluders", "privacy", "fingerprint")
    ] = (False),
) -> None:
    """Write what members agree on into a folder. They compare its fingerprint before they take part.

    For example:

    ```sh
    decbayes secure new sums --anchor public.posterior \\
        --member north=$(decbayes keygen north.key) --member south=… --member west=…
    ```
    """
    require_extra("net", task="decbayes secure")
    promise.check_used()
    given = load(anchor)
    if promise.private:
        if spare or rules is not None or most_rows != MOST_ROWS:
            raise WrongArgument("--spare, --rules and --most-rows do not go with --private: noise hides each person.")
        agreed, note = private_agreement(given, name, keys(members), rounds, colluders, promise, noise), None
    else:
        slots = given if not spare else pad(given, number_of_slots(given) + spare)
        note = public_note(public_documents(anchor, model_for(given.structure)))
        agreed = Agreement(
            name, keys(members), slots, rounds or 3, colluders, float(most_rows), rules=rules_named(rules)
        )
    Folder.begin(folder, agreed, note=note)
    print_agreement(folder, agreed, as_json)


def private_agreement(
    prior: Posterior,
    name: str,
    members: Mapping[str, bytes],
    rounds: int | None,
    colluders: int,
    promise: Promise,
    noise: str,
) -> Agreement:
    """What members agree on whose sums are private releases, in as many rounds as the model needs."""
    needed = model_for(prior.structure).mechanism().rounds
    if prior != Posterior.of_prior(prior.structure):
        raise NotPrivate(
            "The anchor holds what data have contributed, and noise at such an anchor protects nobody. `decbayes plan "
            "… --private -o FILE` writes the prior."
        )
    privacy = promise.privacy(len(members), colluders) if noise == "shared" else promise.privacy()
    return PrivateAgreement(name, members, prior, rounds or needed, colluders, rules=None, privacy=privacy)


@app.command
def status(
    folder: FolderOption,
    /,
    *,
    as_json: Annotated[bool, json_option("message", "round", "member", *KINDS)] = False,
) -> None:
    """Show what members have agreed on, what lies in the folder, and whose turn it is.

    For example:

    ```sh
    decbayes secure status sums
    ```
    """
    shared = Folder(folder)
    history = shared.opened().sums
    sums = history if len(history) == shared.agreement.rounds else [*history, shared.next()]
    rows = [
        {"round": each.number, "member": name, **{kind: name in each.messages[kind] for kind in KINDS}}
        for each in sums
        for name in each.terms.seats
    ]
    if as_json:
        print_json(*rows)
        return
    print_agreement(folder, shared.agreement, as_json=False)
    table = Table("round", "member", *KINDS, box=None)
    for row in rows:
        table.add_row(*("–" if value is False else "sent" if value is True else str(value) for value in row.values()))
    output().print(table)
    report_on(shared, sums[-1])


@app.command(name="round")
def take_part(
    folder: FolderOption,
    data: Annotated[list[Path], Parameter(help="All of this site's data, as `decbayes fit` reads them.", negative="")],
    /,
    *,
    key: Annotated[Path, Parameter(help="This site's key, from `decbayes keygen`.")],
    agreed: Annotated[
        str, Parameter(help="The fingerprint that you have compared with the others, once.", show_default=False)
    ] = "",
    approve: Annotated[str, Parameter(help="The name of whoever lets the numbers leave.", show_default=False)] = "",
    reason: Annotated[str, Parameter(help="Why they leave.", show_default=False)] = "",
    without: Annotated[
        tuple[str, ...],
        Parameter(help="Members to continue without, from this round on.", consume_multiple=True, negative=""),
    ] = (),
    private: Annotated[
        Path | None,
        Parameter(help="Where this site keeps its secrets; default: KEY.sums beside the key.", show_default=False),
    ] = None,
    ledger: Annotated[
        Path | None,
        Parameter(help="What has left this site; default: releases.ledger beside the key.", show_default=False),
    ] = None,
    rules: RulesOption = None,
    person: PersonOption = "",
    passes: Annotated[PositiveInt | None, Parameter(help="Maximum number of passes over the data.")] = None,
    damping: Annotated[
        float, Parameter(help="Size of the step; smaller if rounds oscillate.", validator=Number(gt=0, lte=1))
    ] = 1.0,
    hold_back: HoldBack = 0.0,
    data_set: Annotated[str, Parameter(help="In private sums: whose privacy is spent.")] = "data",
    seed: Annotated[NonNegativeInt, Parameter(help="Random seed.")] = 0,
    wait: Annotated[float, Parameter(help="Minutes to keep waiting for the others.", validator=Number(gte=0))] = 0.0,
    as_json: Annotated[bool, json_option("visit", "done", "round", "waiting_for")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Do this site's part: send a key, mask what the data add, open the sum. Run it whenever it is your turn.

    For example:

    ```sh
    decbayes secure round sums north.csv --key north.key --agreed 3f2a… --approve "Dr Kim"
    ```
    """
    require_extra("net", task="decbayes secure")
    check_hold_back(hold_back)
    from decbayes.network import Identity

    shared, identity = Folder(folder), Identity.load(key)
    books, seat = Ledger(ledger or key.parent / "releases.ledger"), seat_of(shared.agreement, identity, key)
    site = Site(shared, seat, identity.private.sign, private or Path(f"{key}.sums"), ledger=books)
    check_agreed(site, agreed)
    visit = Visit(
        shared, data, rules_in_force(shared.agreement, rules), books,
        site.name, approve, reason, person, passes, damping, hold_back, seed, reading, data_set,
    )  # fmt: skip
    secret = isinstance(shared.agreement, PrivateAgreement)
    if secret and (hold_back or rules is not None):
        raise WrongArgument("--hold-back and --rules do not go with private sums: no budget covers their results.")
    end, done = time.monotonic() + 60.0 * wait, []
    while True:
        for step in site.advance(visit.private_share if secret else visit.share, without):
            done.append(step)
            messages().print(step)
        current = site.current()
        if current.is_open or time.monotonic() >= end:
            break
        time.sleep(min(2.0, wait))
    report_on(shared, current)
    if as_json:
        print_json({"done": done, "round": current.number, "waiting_for": current.waiting_for()[1]})


@app.command
def audit(
    folder: FolderOption,
    /,
    *,
    key: Annotated[
        Path | None, Parameter(help="This site's key, to show what it has added; without it, only look.")
    ] = None,
    approve: Annotated[str, Parameter(help="The name of whoever lets the numbers leave.", show_default=False)] = "",
    private: Annotated[
        Path | None, Parameter(help="Where this site keeps its secrets; default: KEY.sums beside the key.")
    ] = None,
    ledger: Annotated[
        Path | None, Parameter(help="What has left this site; default: releases.ledger beside the key.")
    ] = None,
    parts: Annotated[
        Path | None, Parameter(help="Write what each member has added into this folder, as posterior files.")
    ] = None,
    as_json: Annotated[bool, json_option("finding", "member", "rows", "problem")] = False,
) -> None:
    """Show what each member has added to the open sums, if all of them agree, and what is wrong with it.

    Run it once to agree, and again when all others have: only then is anything shown. It cannot be taken back.

    For example:

    ```sh
    decbayes secure audit sums --key north.key --approve "Dr Kim"
    ```
    """
    require_extra("net", task="decbayes secure")
    shared = Folder(folder)
    if key is not None:
        show_own(shared, key, private or Path(f"{key}.sums"), Ledger(ledger or key.parent / "releases.ledger"), approve)
    findings = shared.audited()
    if parts is not None and any(each.share is not None for each in findings):
        parts.mkdir(parents=True, exist_ok=True)
        for each in findings:
            if each.share is not None:
                save(each.share.posterior, parts / f"{each.member}.posterior")
    if as_json:
        print_json(*(each.plain() for each in findings))
    for each in findings:
        messages().print(plain(str(each)))


def show_own(shared: Folder, key: Path, private: Path, ledger: Ledger, approver: str) -> None:
    """Agree to an audit, or show this member's numbers if all have agreed; in the ledger before anything leaves."""
    from decbayes.network import Identity

    if not approver.strip():
        raise NotDisclosed("Numbers leave this site unmasked: name whoever approves that, --approve NAME.")
    identity = Identity.load(key)
    site = Site(shared, seat_of(shared.agreement, identity, key), identity.private.sign, private)
    sums = shared.opened().sums
    new = any(site.name not in one.showing["consent"] for one in sums)
    if new and not isinstance(shared.agreement, PrivateAgreement):
        share, file = site.own_share(), f"{shared.path.name}: audit"
        words, rows = in_words(model_for(share.posterior.structure)), round(share.rows)
        why = "what it has added to secure sums, shown if all members agree"
        ledger.append(Entry(today(), file, share.posterior.digest, site.name, words, rows, approver, why))
    for step in site.show():
        messages().print(step)


@app.command
def result(
    folder: FolderOption,
    /,
    *,
    file: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the merged posterior.")],
    number: Annotated[
        PositiveInt | None, Parameter(name="--round", help="The round to write; default: the last open one.")
    ] = None,
    as_json: Annotated[
        bool, json_option("result", "file", "round", "members", "rows", "persons", "shift", "score")
    ] = False,
) -> None:
    """Write the posterior of all members' data, from the last sum that is open.

    For example:

    ```sh
    decbayes secure result sums -o merged.posterior
    ```
    """
    require_extra("net", task="decbayes secure")
    check_output(file)
    shared = Folder(folder)
    results = shared.results()
    if len(results) < (number or 1):
        raise SumRefused(f"No sum of round {number or 1} is open yet: {whose_turn(shared, shared.next())}.")
    chosen = number or len(results)
    merged = results[chosen - 1]
    size, note = size_and_note(merged, shared.agreement)
    save(merged.posterior, file, note=note)
    moved = shift(results[chosen - 2].posterior, merged.posterior) if chosen > 1 else None
    by = "" if moved is None else f"; it moved the merge by {moved:.2g} standard deviations per parameter"
    rows = "" if size["rows"] is None else f", {many(size['rows'], 'row')}"
    messages().print(f"{file}: round {chosen}, {many(merged.members, 'member')}{rows}{by}")
    if (scores := merged.share.held_back) is not None:
        messages().print(
            f"With the merge of round {chosen - 1}, {scores.units:,.0f} held-back units have a log-likelihood of "
            f"{scores.score:.4g} each, {scores.gain:+.2g} ± {scores.error:.2g} against members' own fits."
        )
    for remark in merged.posterior.remarks:
        messages().print(str(remark))
    if as_json:
        score = None if scores is None else scores.score
        print_json({"file": file, "round": chosen, "members": merged.members, **size, "shift": moved, "score": score})


def size_and_note(merged: Merged, agreement: Agreement) -> tuple[dict[str, int | None], dict[str, Any]]:
    """How many rows and persons are behind a result, where that is known; and what goes into its file."""
    if isinstance(agreement, PrivateAgreement):
        return {"rows": None, "persons": None}, {"privacy": agreement.privacy.plain()}
    rows, persons = round(merged.share.rows), round(merged.share.persons)
    words = in_words(model_for(merged.posterior.structure))
    manifest = Manifest(merged.posterior.digest, words, agreement.rules, rows=rows, persons=persons)
    return {"rows": rows, "persons": persons}, {KEY: manifest.plain(), "several": True}


def number_of_slots(posterior: Posterior) -> int:
    if not posterior.structure.resizable:
        raise SumRefused("This model has no components that could have spare slots: leave out --spare.")
    return posterior.structure.components(posterior.structure.symmetry[0])


def seat_of(agreement: Agreement, identity: "Identity", key: Path) -> str:
    names = [name for name, public in agreement.members.items() if public == identity.public]
    if not names:
        raise SumRefused(f"{key} is not the key of a member; the agreement has {', '.join(agreement.members)}.")
    return names[0]


def check_agreed(site: Site, stated: str) -> None:
    """Take part only in what somebody at this site has compared with the others."""
    fingerprint, file = site.folder.agreement.fingerprint, site.private / AGREED
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    if fingerprint in known:
        return
    if len(stated) < SHOWN or not fingerprint.startswith(stated):
        raise SumRefused(
            f"The agreement in {site.folder.path} has the fingerprint {fingerprint[:SHOWN]} and the members "
            f"{', '.join(site.folder.agreement.members)}. Anyone who can write there could have added keys: "
            f"compare it with the other members over another channel, then add --agreed {fingerprint[:SHOWN]}."
        )
    site.private.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, json.dumps([*known, fingerprint]).encode(), private=True)


def rules_in_force(agreement: Agreement, stricter: str | None) -> Rules | None:
    """What was agreed on; a site may be stricter, never looser."""
    rules = rules_named(stricter)
    if agreement.rules is None:
        return rules if stricter is not None else None
    if rules is None:
        if stricter is not None:
            raise NotDisclosed("Members have agreed on disclosure rules, and a site may only be stricter.")
        return agreement.rules
    return agreement.rules.tightened(rules)


def print_agreement(folder: Path, agreement: Agreement, as_json: bool) -> None:
    fields = {
        "folder": folder,
        "members": list(agreement.members),
        "rounds": agreement.rounds,
        "colluders": agreement.colluders,
        **({"privacy": str(agreement.privacy)} if isinstance(agreement, PrivateAgreement) else {}),
        "fingerprint": agreement.fingerprint[:SHOWN],
    }
    print_fields(fields, as_json=as_json)


def report_on(folder: Folder, current: Sum) -> None:
    """Whose turn it is, what others propose, and which files do not count."""
    for problem in current.problems:
        messages().print(f"not counted: {problem}")
    for line in proposals(folder, current):
        messages().print(line)
    messages().print(whose_turn(folder, current))
