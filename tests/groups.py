"""Small groups with known keys, on models whose merge has a closed form, or on any model."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from decbayes.columns import plain
from decbayes.extending import Model
from decbayes.network import Ballot, Charter, Identity, Limits, Question, Rules
from decbayes.network.protocol.group.motions import motion_on, sign_vote
from decbayes.network.protocol.talk.messages import Digest, encode
from decbayes.network.protocol.talk.revisions import REVISION
from decbayes.posterior import Posterior
from decbayes.updates import Epoch


def identities(count: int) -> list[Identity]:
    return [Identity.from_seed(hashlib.sha256(f"agent {number}".encode()).digest()) for number in range(count)]


def digest(root: bytes, charter: Charter) -> bytes:
    """What a neighbour with that root and charter says at every tick."""
    return encode(Digest(root, bytes.fromhex(charter.fingerprint), revision=REVISION))


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


def ballot_on(
    question: Question, members: dict[str, Identity], charter: Charter, after=(), body=b"", number=1
) -> Ballot:
    """The votes of some members for a question, put after some resolutions."""
    motion = motion_on(question, charter.id, tuple(sorted(each.digest for each in after)))
    return Ballot(motion, {name: sign_vote(motion, name, key, number) for name, key in members.items()}, body)


def seated(charter: Charter, keys: list[Identity]) -> dict[str, Identity]:
    """Members by name, with their private keys."""
    return {charter.names[key.id]: key for key in keys}


def later_charter(charter: Charter, prior: Posterior) -> Charter:
    """The charter of a later epoch with that prior, as if it had been decided on."""
    return replace(charter, epoch=Epoch(prior, {}), opened=b"\1" * 32)


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
