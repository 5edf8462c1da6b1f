"""Small groups with known keys, on models whose merge has a closed form, or on any model."""

import hashlib
from typing import Any

import numpy as np

from decbayes.columns import plain
from decbayes.extending import Model
from decbayes.network import Charter, Identity, Limits, Rules
from decbayes.network.protocol.talk.messages import Digest, encode


def identities(count: int) -> list[Identity]:
    return [Identity.from_seed(hashlib.sha256(f"agent {number}".encode()).digest()) for number in range(count)]


def digest(root: bytes, charter: Charter) -> bytes:
    """What a neighbour with that root and charter says at every tick."""
    return encode(Digest(root, bytes.fromhex(charter.fingerprint)))


def gaussian_charter(keys: list[Identity], *, dimension: int = 1, rules: Rules | None = None, **limits: int) -> Charter:
    """A group that estimates one mean with a known variance: the merge is exact."""
    return Charter(
        group="means",
        id="0" * 32,
        secret=bytes(32),
        model_name="GaussianMean",
        settings={"variance": 1.0, "prior_mean": 0.5, "prior_variance": 4.0, "dimension": dimension},
        members={f"agent {number}": identity.public for number, identity in enumerate(keys)},
        limits=Limits(**{"members": max(1000, len(keys)), **limits}),
        rules=rules or Rules(),
    )


def charter_of(model: Model, keys: list[Identity], **limits: Any) -> Charter:
    """A group whose model this is."""
    known = type(model).settings_of(model.structure)
    columns = known.get("columns", ())
    known |= {"columns": plain(model.columns) if isinstance(model.columns, dict) else list(columns)} if columns else {}
    settings = {name: plain_value(value) for name, value in known.items() if value is not None and name != "vocabulary"}
    return Charter(
        group="any",
        id="0" * 32,
        secret=bytes(32),
        model_name=type(model).__name__,
        settings={name: value for name, value in settings.items() if value not in ((), [], "")},
        vocabulary=known.get("vocabulary", ()),
        members={f"agent {number}": identity.public for number, identity in enumerate(keys)},
        limits=Limits(**{"members": len(keys), **limits}),
    )


def plain_value(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value
