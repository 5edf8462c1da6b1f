"""`decbayes release`: put a name to a file that may leave."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.shared.common_options import Reading
from decbayes.cli.shared.sharing import LedgerOption, data_behind, ledger_for, manifest_of
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages
from decbayes.disclosure import release as released
from decbayes.disclosure.drafting import today
from decbayes.disclosure.manifest import KEY
from decbayes.disclosure.releasing import Sign, record_digests
from decbayes.errors import NotDisclosed
from decbayes.extras import require_extra
from decbayes.files import load, load_note, save
from decbayes.models.core.registry import model_for

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
        Parameter(help="The data behind it, to compare with earlier releases.", consume_multiple=True, negative=""),
    ] = None,
    ledger: LedgerOption = None,
    as_json: Annotated[bool, json_option("release", "file", "approver", "signed", "ledger")] = False,
    reading: Reading = AS_THEY_ARE,
) -> None:
    """Approve a draft: it is signed, says so, and is written into the ledger."""
    posterior, note, manifest = load(file), load_note(file), manifest_of(file)
    if manifest is None:
        raise NotDisclosed(f"{file} has no manifest: fit it with this version, which applies the disclosure rules.")
    if manifest.posterior != posterior.digest:
        raise NotDisclosed(f"{file}: its manifest is about another posterior. Fit it again.")
    if manifest.released:
        raise NotDisclosed(f"{file} was released by {manifest.approver} on {manifest.date} already.")
    records, members = ledger_for(file, ledger), []
    if data:
        observations = data_behind(posterior, data, reading, manifest.rules)
        members = record_digests(model_for(posterior.structure), observations, records)
    elif records.path.exists():
        messages().print("Not compared with earlier releases: name the data behind it (--data).")
    public, sign = signing(key)
    done = released(
        manifest,
        file.name,
        records,
        approver=approve,
        reason=reason,
        date=today(),
        members=members,
        key=public,
        sign=sign,
    )
    save(posterior, file, note=note | {KEY: done.plain()})
    signed = "signed" if done.signature else "not signed (--key)"
    messages().print(f"{file}: released by {approve}, {signed}; recorded in {records.path}")
    if as_json:
        print_json({"file": file, "approver": approve, "signed": bool(done.signature), "ledger": records.path})


def signing(key: Path | None) -> tuple[bytes, Sign | None]:
    """The public half of a key, and what signs with the private one."""
    if key is None:
        return b"", None
    require_extra("net", task="Signing a release")
    from decbayes.network import Identity

    identity = Identity.load(key)
    return identity.public, identity.private.sign
