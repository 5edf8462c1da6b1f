"""Private releases under a secure sum: one noise for all sites together, in place of one for each.

Each site adds a share of the noise to its sums (`db.Privacy(noise="shared", sites=n, colluders=f)`). The sum over all
sites has the noise that was promised even if f of them leave their share out, or tell each other what it was. A single
site's release has too little noise to be seen by anybody: it is only ever masked.
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
    """What the secure sum of all sites' private releases of one round is about.

    Args:
        release: this site's, with shared noise. Its `values` are what the site masks.
        seats: the public key of each site, by name.
        group: the name of what the sites have agreed on.
        before: the opened releases of all earlier rounds, in their order.

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
    """What names a round's anchor: the sums before it, the same bits everywhere. Its own last digits are not."""
    place = hashlib.sha256(canonical_json([structure.fingerprint, privacy.plain()]))
    for earlier in before:
        place.update(earlier.values.astype("<i8").tobytes())
    return place.hexdigest()


def opened_release(
    terms: Terms, release: Release, packets: Iterable[Message], openings: Iterable[Message], *, name: str
) -> Release:
    """The release of all sites together, for `db.private_merge`, once the secure sum is open.

    Args:
        terms: those of `private_terms`.
        release: this site's.
        packets: the masked message of each site.
        openings: the opening message of each site.
        name: this site's.

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
    """A name for another site's part, which only that site has named itself."""
    return hashlib.sha256(terms.digest + name.encode()).hexdigest()[:32]
