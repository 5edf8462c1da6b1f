"""`decbayes release`: put a name to a file that may leave."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.base.extras import require_extra
from decbayes.cli.commands.sharing._looking import LedgerOption, judged_by, previewed
from decbayes.cli.shared.common_options import Reading
from decbayes.cli.shared.sharing import RulesOption, ledger_beside, manifest_of
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.disclosure import Manifest
from decbayes.disclosure import release as released
from decbayes.disclosure.ledger import today
from decbayes.disclosure.manifest import KEY
from decbayes.disclosure.previewing import Preview
from decbayes.disclosure.releasing import Sign, check_approver
from decbayes.errors import NotDisclosed
from decbayes.files import load, load_note, save
from decbayes.posterior import Posterior

AS_THEY_ARE = Reading()


def release(
    file: Annotated[Path, Parameter(help="A draft, as `decbayes fit` writes it.")],
    /,
    *,
    approve: Annotated[str, Parameter(help="The name of whoever approves the release.")],
    reason: Annotated[str, Parameter(help="Why it is released.", show_default=False)] = "",
    key: Annotated[
        Path | None, Parameter(help="The approver's key, from `decbayes keygen`: it signs.", show_default=False)
    ] = None,
    data: Annotated[
        list[Path] | None,
        Parameter(
            help="The data behind it: the file must be about them, and is previewed once more. Only a file made with "
            "--rules none is released without them, and then nothing is checked.",
            consume_multiple=True,
            negative="",
        ),
    ] = None,
    rules: RulesOption = None,
    ledger: LedgerOption = None,
    as_json: Annotated[bool, json_option("release", "file", "approver", "signed", "ledger")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Approve a draft that breaks no rule: it is signed, says so, and is written into the ledger."""
    posterior, records = load(file), ledger_beside(data or [], ledger, file)
    manifest = checked_draft(file, posterior)
    if not data and manifest.rules is not None:
        raise NotDisclosed(f"Name the data behind {file} (--data): they are checked once more before it leaves.")
    seen, digests = previewed(file, data or [], judged_by(rules, file, manifest), records, reading)
    check_seen(file, seen, manifest)
    public, sign = signing(key)
    check_approver(approve)
    done = released(
        manifest,
        file.name,
        records,
        approver=approve,
        reason=reason,
        date=today(),
        members=digests(),
        key=public,
        sign=sign,
    )
    save(posterior, file, note=load_note(file) | {KEY: done.plain()})
    signed = "signed" if done.signature else "not signed (--key)"
    messages().print(f"{file}: released by {approve}, {signed}; recorded in {records.path}")
    if as_json:
        print_json({"file": file, "approver": approve, "signed": bool(done.signature), "ledger": records.path})


def checked_draft(file: Path, posterior: Posterior) -> Manifest:
    """The manifest of a draft; refuses what is none."""
    manifest = manifest_of(file)
    if manifest is None:
        raise NotDisclosed(f"{file} has no manifest: fit it with this version, which applies the disclosure rules.")
    if manifest.posterior != posterior.digest:
        raise NotDisclosed(f"{file}: its manifest is about another posterior. Fit it again.")
    if manifest.released:
        raise NotDisclosed(f"{file} was released by {manifest.approver} on {manifest.date} already.")
    return manifest


def check_seen(file: Path, seen: Preview, manifest: Manifest) -> None:
    """Refuse a file that breaks a rule; say what the approver should have looked at."""
    broken = [f"{each.topic}: {each.text}" for each in seen.statements if each.severity == "stop"]
    if broken and manifest.rules is not None:
        raise NotDisclosed(f"{file} is not released. {'; '.join(broken)}. `decbayes preview` shows all of it.")
    for each in seen.statements:
        if each.severity == "look":
            messages().print(f"Look at this: {plain(each.topic)}: {plain(each.text)}")


def signing(key: Path | None) -> tuple[bytes, Sign | None]:
    """The public half of a key, and what signs with the private one."""
    if key is None:
        return b"", None
    require_extra("net", task="Signing a release")
    from decbayes.network import Identity

    identity = Identity.load(key)
    return identity.public, identity.private.sign
