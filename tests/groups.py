"""Small groups with known keys, on models whose merge has a closed form."""

import hashlib

from decbayes.network import Charter, Identity, Limits, Rules
from decbayes.network.protocol.messages import Digest, encode


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
