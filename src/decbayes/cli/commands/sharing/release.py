"""`decbayes release`: approve a file that may leave."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.base.extras import require_extra
from decbayes.cli.commands.sharing._previewing import LedgerOption, preview_file, rules_to_judge_by
from decbayes.cli.shared.common_options import AS_THEY_ARE, Reading
from decbayes.cli.shared.sharing import RulesOption, ledger_beside, manifest_of
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages, plain
from decbayes.disclosure import Manifest
from decbayes.disclosure import release as release_draft
from decbayes.disclosure.ledger import today
from decbayes.disclosure.manifest import KEY
from decbayes.disclosure.previewing import Preview
from decbayes.disclosure.releasing import Sign, check_approver
from decbayes.errors import NotDisclosed
from decbayes.files import load, load_note, save
from decbayes.posterior import Posterior


def release(
    file: Annotated[Path, Parameter(help="A draft, as written by `decbayes fit`.")],
    /,
    *,
    approve: Annotated[str, Parameter(help="The name of the person who approves the release.")],
    reason: Annotated[str, Parameter(help="The reason for the release.")] = "",
    key: Annotated[Path | None, Parameter(help="The approver's key, from `decbayes keygen`, to sign with.")] = None,
    data: Annotated[
        list[Path] | None,
        Parameter(
            help="The data behind it: the file is compared with them and previewed once more. Only a file made with "
            "--rules none is released without them, unchecked.",
            consume_multiple=True,
        ),
    ] = None,
    rules: RulesOption = None,
    ledger: LedgerOption = None,
    as_json: Annotated[bool, json_option("release", "file", "approver", "signed", "ledger")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Approve a draft that breaks no rule: it is signed, marked as released, and recorded in the ledger."""
    posterior, records = load(file), ledger_beside(data or [], ledger, file)
    manifest = checked_draft(file, posterior)
    if not data and manifest.rules is not None:
        raise NotDisclosed(f"Give the data behind {file} (--data): it is checked once more before it leaves.")
    shown, digests = preview_file(file, data or [], rules_to_judge_by(rules, file, manifest), records, reading)
    check_preview(file, shown, manifest)
    public, sign = signer(key)
    check_approver(approve)
    approved = release_draft(
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
    save(posterior, file, note=load_note(file) | {KEY: approved.plain()})
    signed = "signed" if approved.signature else "not signed (--key)"
    messages().print(f"{file}: released by {approve}, {signed}; recorded in {records.path}")
    if as_json:
        print_json({"file": file, "approver": approve, "signed": bool(approved.signature), "ledger": records.path})


def checked_draft(file: Path, posterior: Posterior) -> Manifest:
    """The manifest of a draft; refuses files that are no drafts."""
    manifest = manifest_of(file)
    if manifest is None:
        raise NotDisclosed(
            f"{file} has no manifest: fit it again with this version, which applies the disclosure rules."
        )
    if manifest.posterior != posterior.digest:
        raise NotDisclosed(f"{file}: its manifest is about another posterior. Fit it again.")
    if manifest.released:
        raise NotDisclosed(f"{file} was already released by {manifest.approver} on {manifest.date}.")
    return manifest


def check_preview(file: Path, shown: Preview, manifest: Manifest) -> None:
    """Refuse a file that breaks a rule; print what the approver should have looked at."""
    broken = [f"{statement.topic} ({statement.text})" for statement in shown.statements if statement.severity == "stop"]
    if broken and manifest.rules is not None:
        raise NotDisclosed(f"{file} is not released: {'; '.join(broken)}. `decbayes preview` shows everything.")
    for statement in shown.statements:
        if statement.severity == "look":
            messages().print(f"Look at this ({plain(statement.topic)}): {plain(statement.text)}")


def signer(key: Path | None) -> tuple[bytes, Sign | None]:
    """The public half of a key, and a function that signs with the private half."""
    if key is None:
        return b"", None
    require_extra("net", task="Signing a release")
    from decbayes.network import Identity

    identity = Identity.load(key)
    return identity.public, identity.private.sign
