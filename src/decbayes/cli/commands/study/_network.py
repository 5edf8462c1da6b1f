"""From files to a network: collect the keys of all sites, and turn the protocol into a charter."""

from pathlib import Path
from typing import Any

from decbayes.base.extras import require_extra
from decbayes.base.writing import write_whole
from decbayes.cli.shared.terminal import messages
from decbayes.columns import Column
from decbayes.columns import plain as as_lists
from decbayes.errors import InvalidCharter, InvalidKey, InvalidProtocol
from decbayes.study.agreed_list import kind_of
from decbayes.study.folder import Study


def add_key(study: Study, site: str, private: Path) -> None:
    """Create the site's key on first use, and put its public half into the study's folder."""
    require_extra("net", task="decbayes study network")
    from decbayes.network import Identity

    key, public = private / f"{site}.key", study.key_of(site)
    identity = Identity.load(key) if key.exists() else Identity.generate()
    if not key.exists():
        identity.save(key)
    if public.exists() and public.read_text(encoding="utf-8").strip() != identity.public.hex():
        raise InvalidKey(f"{public} is not the public half of {key}. Remove the one that is not yours.")
    public.parent.mkdir(parents=True, exist_ok=True)
    write_whole(public, f"{identity.public.hex()}\n".encode())


def write_charter(study: Study, site: str) -> None:
    """Write the charter once all keys and a released file are there; prints what a member runs next."""
    from decbayes.network import Charter

    target = study.charter
    publics = {name: study.key_of(name) for name in study.protocol.sites}
    if missing := [name for name, path in publics.items() if not path.exists()]:
        messages().print(f"Waiting for the keys of {', '.join(missing)}: `decbayes study network --site NAME` there.")
        return
    if not target.exists():
        charter_of(study, {name: path.read_text(encoding="utf-8").strip() for name, path in publics.items()}).save(
            target
        )
        messages().print(f"{target}: keep it within the group, it holds the group's secret.")
    charter = Charter.load(target)
    key, store = study.private / site / f"{site}.key", study.private / site / f"{site}.store"
    messages().print(
        f"Compare the fingerprint with the others: {charter.short_fingerprint}. Then each site runs its agent:"
    )
    messages().print(
        f"decbayes agent {target} --key {key} --store {store} --data DATA --listen HOST:PORT --connect HOST:PORT"
    )


def charter_of(study: Study, members: dict[str, str]) -> Any:
    """The protocol as a charter; the agreed structure comes from a released file."""
    from decbayes.network import Charter
    from decbayes.network.protocol.group.charter import member_key

    released = [files.released[0].posterior for files in study.sites.values() if 0 in files.released]
    if not released:
        raise InvalidProtocol("A charter needs the agreed structure: one site must release its fit first.")
    structure, kind = released[0].structure, kind_of(study.protocol)
    settings = kind.settings_of(structure)
    words = tuple(settings.pop("vocabulary", ()))
    charter = Charter(
        group=study.protocol.name,
        model_name=kind.__name__,
        settings={name: charter_value(value) for name, value in settings.items() if value is not None},
        members={name: member_key(name, text) for name, text in members.items()},
        disclosure=study.protocol.rules,
        vocabulary=words,
    )
    if charter.model.structure != structure:
        raise InvalidCharter("This model cannot be written as a charter with the same structure. Continue with files.")
    return charter


def charter_value(value: Any) -> Any:
    if isinstance(value, dict) and all(isinstance(column, Column) for column in value.values()):
        return as_lists(value)
    return [charter_value(part) for part in value] if isinstance(value, tuple | list) else value
