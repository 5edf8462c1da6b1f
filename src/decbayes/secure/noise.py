"""Private releases under a secure sum: one noise for all sites together instead of one per site.

Each site adds a share of the noise to its sums (`db.Privacy(noise="shared", sites=n, colluders=f)`). The sum over all
sites has the promised noise even if f of them omit their share, or tell each other what it was. A single site's release
has too little noise to be shown to anybody, so it only exists masked.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from decbayes.errors import SumRefused
from decbayes.privacy.accounting import Privacy
from decbayes.privacy.releasing import GRID, Release, summed
from decbayes.secure.seat import opened
from decbayes.secure.terms import Message, Terms
from decbayes.structure import Structure, canonical_json


def private_terms(release: Release, seats: Mapping[str, bytes], *, group: str, before: Sequence[Release] = ()) -> Terms:
    """The terms of the secure sum over all sites' private releases of one round.

    Args:
        release: this site's release with shared noise. Its `values` are what the site masks.
        seats: the public key of each site, by name.
        group: the name of the agreement.
        before: the opened releases of all earlier rounds, in order.

    >>> columns = {"age": db.columns.Gaussian(centre=50, scale=20), "ill": db.columns.YesNo()}
    >>> model, ledger = db.LogisticRegression("ill", columns=columns), db.disclosure.Ledger("site.ledger")
    >>> prior, patients = db.Posterior.of_prior(model.structure), {"age": [40.0, 60.0], "ill": [False, True]}
    >>> privacy = db.Privacy(1.0, 1e-6, noise="shared", sites=3, colluders=1)
    >>> release = model.release(prior, patients, privacy, ledger=ledger)
    >>> seats = {name: bytes([number]) * 32 for number, name in enumerate(("north", "south", "west"))}
    >>> terms = db.secure.private_terms(release, seats, group="study 12")
    >>> terms.round, terms.length == len(release.values)
    (1, True)
    """
    privacy = release.privacy
    if privacy.noise != "shared":
        raise SumRefused(
            "The release has all of its noise, and may be sent as it is. A secure sum is for shared noise."
        )
    if len(seats) != privacy.sites:
        raise SumRefused(f"The noise is shared by {privacy.sites} sites, and the sum is over {len(seats)}.")
    if len(before) != release.round:
        raise SumRefused(f"Round {release.round} comes after {release.round} opened sums, not {len(before)}.")
    place = place_of(release.structure, privacy, before)
    colluders, length = max(privacy.colluders, 1), len(release.values)
    return Terms(group, release.round + 1, seats, place, length, step=GRID.step, colluders=colluders)


def place_of(structure: Structure, privacy: Privacy, before: Iterable[Release]) -> str:
    """A digest that identifies a round's anchor by the sums before it, since the anchor's last digits may differ."""
    place = hashlib.sha256(canonical_json([structure.fingerprint, privacy.plain()]))
    for earlier in before:
        place.update(earlier.values.astype("<i8").tobytes())
    return place.hexdigest()


def opened_release(
    terms: Terms, release: Release, packets: Iterable[Message], openings: Iterable[Message], *, name: str
) -> Release:
    """The release of all sites together, for `db.private_merge`, once the secure sum is open.

    Args:
        terms: the result of `private_terms`.
        release: this site's release.
        packets: the masked message of each site.
        openings: the opening message of each site.

    >>> columns = {"age": db.columns.Gaussian(centre=50, scale=20), "ill": db.columns.YesNo()}
    >>> model, ledger = db.LogisticRegression("ill", columns=columns), db.disclosure.Ledger("site.ledger")
    >>> prior, patients = db.Posterior.of_prior(model.structure), {"age": [40.0, 60.0], "ill": [False, True]}
    >>> privacy = db.Privacy(1.0, 1e-6, noise="shared", sites=3, colluders=1)
    >>> release = model.release(prior, patients, privacy, ledger=ledger)
    >>> seats = {name: bytes([number]) * 32 for number, name in enumerate(("north", "south", "west"))}
    >>> terms = db.secure.private_terms(release, seats, group="study 12")
    >>> db.secure.opened_release(terms, release, [], [], name="north")
    Traceback (most recent call last):
    decbayes.errors.SumRefused: The masked message of north, south, west is missing: ...
    """
    values = opened(terms, packets, openings)
    others = [replace(release, ids=(made_id(terms, other),), site=other) for other in terms.seats if other != name]
    return summed([release, *others], values)


def made_id(terms: Terms, name: str) -> str:
    """A common id for a site's part, whose own id only that site knows."""
    return hashlib.sha256(terms.digest + name.encode()).hexdigest()[:32]
