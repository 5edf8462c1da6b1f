"""Settings on the command line: NAME=VALUE."""

import json
from collections.abc import Sequence
from typing import Any

from decbayes.errors import InvalidCharter


def values(pairs: Sequence[str]) -> dict[str, Any]:
    """Settings by name: numbers, lists and so on as in JSON, everything else as a string."""
    return {name: value(text) for name, text in map(split, pairs)}


def value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def split(pair: str) -> tuple[str, str]:
    name, sign, text = pair.partition("=")
    if not (name and sign and text):
        raise InvalidCharter(f"'{pair}' is not of the form NAME=VALUE.")
    return name, text
