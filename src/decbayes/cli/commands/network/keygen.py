"""`decbayes keygen`: create an agent's key."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from decbayes.base.extras import require_extra
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.errors import InvalidKey


def keygen(
    key: Annotated[Path, Parameter(help="Where to write the private key; it stays on this machine.")],
    /,
    *,
    after: Annotated[Path | None, Parameter(help="The site's old key, which the new one replaces.")] = None,
    as_json: Annotated[bool, json_option("key", "file", "public_key")] = False,
) -> None:
    """Create an agent's key and print its public half for the charter."""
    require_extra("net", task="decbayes keygen")
    from decbayes.network import Identity

    identity = Identity.generate(after=None if after is None else Identity.load(after))
    try:
        identity.save(key)
    except FileExistsError:
        raise InvalidKey(f"{key} exists, and a key is never overwritten. Choose another name.") from None
    if as_json:
        print_json({"file": key, "public_key": identity.public.hex()})
    else:
        print(identity.public.hex())
