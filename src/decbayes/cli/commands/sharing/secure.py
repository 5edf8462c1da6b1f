"""`decbayes secure`: sums that open only together, by files in a shared folder."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter
from cyclopts.types import NonNegativeInt, PositiveInt
from cyclopts.validators import Number
from rich.table import Table

from decbayes.base.display import digits
from decbayes.base.extras import require_extra
from decbayes.base.writing import write_whole
from decbayes.cli.commands.network.charter import keys, rules_in_words
from decbayes.cli.commands.sharing._visits import Visit
from decbayes.cli.shared.common_options import (
    AS_THEY_ARE,
    AS_USUAL,
    NO_PROMISE,
    Promise,
    Reading,
    Refit,
    check_hold_back,
)
from decbayes.cli.shared.outputs import check_output, output_option
from decbayes.cli.shared.running import WrongArgument, with_example
from decbayes.cli.shared.sharing import (
    PersonOption,
    RulesOption,
    public_documents,
    public_note,
    rules_given,
    rules_in_force,
)
from decbayes.cli.shared.standard_streams import json_option, print_fields, print_json
from decbayes.cli.shared.terminal import messages, output, plain, plural
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

app = App(name="secure", help="Add up contributions of sites so that nobody sees anything but the sum.")
AGREED = "agreed.json"
SHOWN = 16
MOST_ROWS = 1e6
FolderOption = Annotated[Path, Parameter(help="The folder that all members share.")]


@Parameter(name="*")
@dataclass(frozen=True)
class SiteRecords:
    """Who approves that numbers leave, and where this site keeps its secrets and its ledger."""

    approve: Annotated[str, Parameter(help="The name of the person who approves that numbers leave.")] = ""
    private: Annotated[
        Path | None, Parameter(help="This site's folder of secrets; default: KEY.sums beside the key.")
    ] = None
    ledger: Annotated[
        Path | None, Parameter(help="The ledger of what has left this site; default: releases.ledger beside the key.")
    ] = None

    def secrets(self, key: Path) -> Path:
        return self.private or Path(f"{key}.sums")

    def releases(self, key: Path) -> Ledger:
        return Ledger(self.ledger or key.parent / "releases.ledger")


NO_RECORDS = SiteRecords()


@app.command
@with_example(
    "decbayes secure new sums --anchor public.posterior \\",
    "    --member north=$(decbayes keygen north.key) --member south=… --member west=…",
)
def new(
    folder: FolderOption,
    /,
    *,
    anchor: Annotated[
        Path, Parameter(help="A posterior of public data, or a released one: its slots are those of all members.")
    ],
    members: Annotated[tuple[str, ...], Parameter(name="--member", help="NAME=PUBLIC_KEY, once per member.")],
    name: Annotated[str, Parameter(help="The purpose of the sums.")] = "secure sums",
    spare: Annotated[NonNegativeInt, Parameter(help="Additional slots, for components that the anchor lacks.")] = 0,
    rounds: Annotated[
        PositiveInt | None,
        Parameter(help="Maximum number of sums, each refining the last; default: 3, or as many as --private needs."),
    ] = None,
    colluders: Annotated[
        PositiveInt, Parameter(help="How many members may collude without learning about any single other member.")
    ] = 1,
    most_rows: Annotated[
        float, Parameter(help="Maximum number of rows that count for one member.", validator=Number(gte=1))
    ] = (MOST_ROWS),
    rules: RulesOption = None,
    promise: Promise = NO_PROMISE,
    noise: Annotated[
        Literal["shared", "each"],
        Parameter(
            help="With --private: members share one noise, or each adds all of it and need not trust the others."
        ),
    ] = "shared",
    as_json: Annotated[
        bool,
        json_option("agreement", "folder", "members", "rounds", "colluders", "privacy", "disclosure", "fingerprint"),
    ] = (False),
) -> None:
    """Write an agreement into a folder. Members compare its fingerprint before they take part."""
    require_extra("net", task="decbayes secure")
    promise.check_used()
    anchored = load(anchor)
    if promise.private:
        if spare or rules is not None or most_rows != MOST_ROWS:
            raise WrongArgument("--spare, --rules and --most-rows do not go with --private: noise hides each person.")
        agreed, note = private_agreement(anchored, name, keys(members), rounds, colluders, promise, noise), None
    else:
        slots = anchored if not spare else pad(anchored, number_of_slots(anchored) + spare)
        note = public_note(public_documents(anchor, model_for(anchored.structure)))
        agreed = Agreement(
            name, keys(members), slots, rounds or 3, colluders, float(most_rows), rules=rules_in_force(rules)
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
    """An agreement whose sums are private releases, with as many rounds as the model needs."""
    needed = model_for(prior.structure).mechanism().rounds
    if prior != Posterior.of_prior(prior.structure):
        raise NotPrivate(
            "The anchor contains data, and noise added to it would protect nobody. `decbayes plan "
            "… --private -o FILE` writes the prior."
        )
    privacy = promise.privacy(len(members), colluders) if noise == "shared" else promise.privacy()
    return PrivateAgreement(name, members, prior, rounds or needed, colluders, rules=None, privacy=privacy)


@app.command
@with_example("decbayes secure status sums")
def status(
    folder: FolderOption, /, *, as_json: Annotated[bool, json_option("message", "round", "member", *KINDS)] = False
) -> None:
    """Show the agreement, which messages are in the folder, and whose turn it is."""
    shared = Folder(folder)
    history = shared.opened().sums
    sums = history if len(history) == shared.agreement.rounds else [*history, shared.next()]
    rows = [
        {"round": current.number, "member": name, **{kind: name in current.messages[kind] for kind in KINDS}}
        for current in sums
        for name in current.terms.seats
    ]
    if as_json:
        print_json(*rows)
        return
    print_agreement(folder, shared.agreement, as_json=False)
    table = Table("round", "member", *KINDS, box=None)
    for row in rows:
        table.add_row(*("–" if value is False else "sent" if value is True else str(value) for value in row.values()))
    output().print(table)
    print_state(shared, sums[-1])


@app.command(name="round")
@with_example('decbayes secure round sums north.csv --key north.key --agreed 3f2a… --approve "Dr Kim"')
def take_part(
    folder: FolderOption,
    data: Annotated[list[Path], Parameter(help="All of this site's data, as for `decbayes fit`.")],
    /,
    *,
    key: Annotated[Path, Parameter(help="This site's key, from `decbayes keygen`.")],
    agreed: Annotated[str, Parameter(help="The fingerprint, once you have compared it with the other members.")] = "",
    records: SiteRecords = NO_RECORDS,
    reason: Annotated[str, Parameter(help="The reason.")] = "",
    without: Annotated[
        tuple[str, ...], Parameter(help="Members to continue without, from this round on.", consume_multiple=True)
    ] = (),
    rules: RulesOption = None,
    person: PersonOption = "",
    refit: Refit = AS_USUAL,
    data_set: Annotated[str, Parameter(help="In private sums: the data set whose privacy budget is spent.")] = "data",
    wait: Annotated[float, Parameter(help="Minutes to wait for the others.", validator=Number(gte=0))] = 0.0,
    as_json: Annotated[bool, json_option("visit", "done", "round", "waiting_for")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Do this site's part: send a key, mask its contribution, open the sum. Run it whenever it is your turn."""
    require_extra("net", task="decbayes secure")
    check_hold_back(refit.hold_back)
    from decbayes.network import Identity

    shared, identity = Folder(folder), Identity.load(key)
    ledger, seat = records.releases(key), seat_of(shared.agreement, identity, key)
    site = Site(shared, seat, identity.private.sign, records.secrets(key), ledger=ledger)
    check_agreed(site, agreed)
    visit = Visit(
        shared, data, agreed_rules(shared.agreement, rules), ledger,
        site.name, records.approve, reason, person, refit, reading, data_set,
    )  # fmt: skip
    secret = isinstance(shared.agreement, PrivateAgreement)
    if secret and (refit.hold_back or rules is not None):
        raise WrongArgument("--hold-back and --rules do not go with private sums: no budget covers their results.")
    steps, current = advance(site, visit.private_share if secret else visit.share, without, wait)
    print_state(shared, current)
    if as_json:
        print_json({"done": steps, "round": current.number, "waiting_for": current.waiting_for()[1]})


def advance(site: Site, share: Callable[..., Any], without: tuple[str, ...], wait: float) -> tuple[list[str], Sum]:
    """Take all steps that are possible within these minutes; returns them, and the sum as it is then."""
    end, steps = time.monotonic() + 60.0 * wait, []
    while True:
        for step in site.advance(share, without):
            steps.append(step)
            messages().print(step)
        current = site.current()
        if current.is_open or time.monotonic() >= end:
            return steps, current
        time.sleep(min(2.0, wait))


@app.command
@with_example('decbayes secure audit sums --key north.key --approve "Dr Kim"')
def audit(
    folder: FolderOption,
    /,
    *,
    key: Annotated[
        Path | None, Parameter(help="This site's key, to reveal its contribution; without it, only look.")
    ] = None,
    records: SiteRecords = NO_RECORDS,
    parts: Annotated[
        Path | None, Parameter(help="Write the contribution of each member into this folder, as posterior files.")
    ] = None,
    as_json: Annotated[bool, json_option("finding", "member", "rows", "problem")] = False,
) -> None:
    """Show the contribution of each member to the open sums, if all of them agree, and what is wrong with it.

    Run it once to agree, and again when all others have agreed: only then is anything shown. It cannot be undone.
    """
    require_extra("net", task="decbayes secure")
    shared = Folder(folder)
    if key is not None:
        reveal_share(shared, key, records)
    findings = shared.audited()
    if parts is not None and any(finding.share is not None for finding in findings):
        parts.mkdir(parents=True, exist_ok=True)
        for finding in findings:
            if finding.share is not None:
                save(finding.share.posterior, parts / f"{finding.member}.posterior")
    if as_json:
        print_json(*(finding.plain() for finding in findings))
    for finding in findings:
        messages().print(plain(str(finding)))


def reveal_share(shared: Folder, key: Path, records: SiteRecords) -> None:
    """Agree to an audit, or reveal this member's numbers if all have agreed; recorded in the ledger first."""
    from decbayes.network import Identity

    if not records.approve.strip():
        raise NotDisclosed("Numbers leave this site unmasked: say who approves that, --approve NAME.")
    identity = Identity.load(key)
    site = Site(shared, seat_of(shared.agreement, identity, key), identity.private.sign, records.secrets(key))
    sums = shared.opened().sums
    new = any(site.name not in opened.showing["consent"] for opened in sums)
    if new and not isinstance(shared.agreement, PrivateAgreement):
        share, file = site.own_share(), f"{shared.path.name}: audit"
        words, rows = in_words(model_for(share.posterior.structure)), round(share.rows)
        why = "what it has added to secure sums, shown if all members agree"
        entry = Entry(today(), file, share.posterior.digest, site.name, words, rows, records.approve, why)
        records.releases(key).append(entry)
    for step in site.show():
        messages().print(step)


@app.command
@with_example("decbayes secure result sums -o merged.posterior")
def result(
    folder: FolderOption,
    /,
    *,
    file: Annotated[Path, output_option("Where to write the merged posterior.")],
    number: Annotated[
        PositiveInt | None, Parameter(name="--round", help="The round to write; default: the last open one.")
    ] = None,
    as_json: Annotated[
        bool, json_option("result", "file", "round", "members", "rows", "persons", "shift", "score")
    ] = False,
) -> None:
    """Write the posterior of all members' data, from the last open sum."""
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
    movement = "" if moved is None else f"; it moved the merge by {digits(moved, 2)} standard deviations per parameter"
    rows = "" if size["rows"] is None else f", {plural(size['rows'], 'row')}"
    messages().print(f"{file}: round {chosen}, {plural(merged.members, 'member')}{rows}{movement}")
    if (scores := merged.share.held_back) is not None:
        messages().print(
            f"With the merge of round {chosen - 1}, {scores.units:,.0f} held-back units have a log-likelihood of "
            f"{scores.score:.4g} each, {scores.gain:+.2g} ± {scores.error:.2g} compared with members' own fits."
        )
    for remark in merged.posterior.remarks:
        messages().print(str(remark))
    if as_json:
        score = None if scores is None else scores.score
        print_json({"file": file, "round": chosen, "members": merged.members, **size, "shift": moved, "score": score})


def size_and_note(merged: Merged, agreement: Agreement) -> tuple[dict[str, int | None], dict[str, Any]]:
    """How many rows and persons are behind a result, if known; and the note of its file."""
    if isinstance(agreement, PrivateAgreement):
        return {"rows": None, "persons": None}, {"privacy": agreement.privacy.plain()}
    rows, persons = round(merged.share.rows), round(merged.share.persons)
    words = in_words(model_for(merged.posterior.structure))
    manifest = Manifest(merged.posterior.digest, words, agreement.rules, rows=rows, persons=persons)
    return {"rows": rows, "persons": persons}, {KEY: manifest.plain(), "several": True}


def number_of_slots(posterior: Posterior) -> int:
    if not posterior.structure.resizable:
        raise SumRefused("This model has no components, so there are no spare slots: leave out --spare.")
    return posterior.structure.components(posterior.structure.symmetry[0])


def seat_of(agreement: Agreement, identity: "Identity", key: Path) -> str:
    names = [name for name, public in agreement.members.items() if public == identity.public]
    if not names:
        raise SumRefused(f"{key} is not the key of a member; the agreement has {', '.join(agreement.members)}.")
    return names[0]


def check_agreed(site: Site, stated: str) -> None:
    """Refuse an agreement that nobody at this site has compared with the other members."""
    fingerprint, file = site.folder.agreement.fingerprint, site.private / AGREED
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    if fingerprint in known:
        return
    if len(stated) < SHOWN or not fingerprint.startswith(stated):
        rules = "".join(f"; {name}: {text}" for name, text in disclosure_of(site.folder.agreement).items())
        raise SumRefused(
            f"The agreement in {site.folder.path} has the fingerprint {fingerprint[:SHOWN]} and the members "
            f"{', '.join(site.folder.agreement.members)}{rules}. Anyone who can write there "
            "could have added keys or changed rules: compare it with the other members over another channel, then add "
            f"--agreed {fingerprint[:SHOWN]}."
        )
    site.private.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, json.dumps([*known, fingerprint]).encode(), private=True)


def agreed_rules(agreement: Agreement, stricter: str | None) -> Rules | None:
    """The agreed rules; a site may only be stricter."""
    rules = rules_given(stricter)
    if agreement.rules is None:
        return rules
    if rules is None:
        if stricter is not None:
            raise NotDisclosed(
                "Members have agreed on disclosure rules, and a site may only be stricter: leave out --rules none."
            )
        return agreement.rules
    return agreement.rules.tightened(rules)


def disclosure_of(agreement: Agreement) -> dict[str, str]:
    """The rules for what may leave the sites, in words; noise needs none."""
    return {} if isinstance(agreement, PrivateAgreement) else {"disclosure": rules_in_words(agreement.rules)}


def print_agreement(folder: Path, agreement: Agreement, as_json: bool) -> None:
    fields = {
        "folder": folder,
        "members": list(agreement.members),
        "rounds": agreement.rounds,
        "colluders": agreement.colluders,
        **({"privacy": str(agreement.privacy)} if isinstance(agreement, PrivateAgreement) else {}),
        **disclosure_of(agreement),
        "fingerprint": agreement.fingerprint[:SHOWN],
    }
    print_fields(fields, as_json=as_json)


def print_state(folder: Folder, current: Sum) -> None:
    """Print whose turn it is, what others propose, and which files do not count."""
    for problem in current.problems:
        messages().print(f"not counted: {problem}")
    for line in proposals(folder, current):
        messages().print(line)
    messages().print(whose_turn(folder, current))
