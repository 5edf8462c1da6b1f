"""One member's part in the sums of a folder. What it must keep to itself lies elsewhere, readable by its owner only."""

import json
from collections.abc import Callable, Collection
from pathlib import Path

from decbayes.errors import SumRefused
from decbayes.files import load, to_bytes, write_whole
from decbayes.posterior import Posterior
from decbayes.secure.agreement import Agreement
from decbayes.secure.anchored import Share
from decbayes.secure.folder import Folder, Sum
from decbayes.secure.gathered import turn
from decbayes.secure.seat import Seat
from decbayes.secure.terms import Kind, Sign, Terms

Contribute = Callable[[int, Posterior, Posterior | None], Share]
"""What a member adds in a round, given the merge before it and its own part in that; in round 1 there is none."""

OPENED = "opened.json"


class Site:
    """A member of the sums in a folder.

    Args:
        folder: where messages are exchanged.
        name: the member's name.
        sign: signs with the member's private key.
        private: a folder that nobody else can read. Losing it ends this member's part in sums that are not open yet.

    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> keys = {name: Ed25519PrivateKey.generate() for name in ("north", "south", "west")}
    >>> publics = {name: key.public_key().public_bytes_raw() for name, key in keys.items()}
    >>> model = db.models.GaussianMean(variance=1.0, dimension=1)
    >>> agreed = db.secure.Agreement("means", publics, db.Posterior.of_prior(model.structure), rounds=1)
    >>> folder = db.secure.Folder.begin("sums", agreed)
    >>> share = db.secure.Share(model.fit(np.full((5, 1), 2.0)).posterior, rows=5, persons=5, units=5)
    >>> for _ in range(3):
    ...     for name, key in keys.items():
    ...         done = db.secure.Site(folder, name, key.sign, f"{name} only").advance(lambda *round: share)
    >>> folder.results()[0].share.rows
    15.0
    """

    def __init__(self, folder: Folder, name: str, sign: Sign, private: str | Path) -> None:
        if name not in folder.agreement.members:
            raise SumRefused(f"{name} is no member; there are {', '.join(folder.agreement.members)}.")
        self.folder, self.name, self.sign, self.private = folder, name, sign, Path(private)

    def advance(self, contribute: Contribute, without: Collection[str] = ()) -> list[str]:
        """Do all that is this member's turn, and say what was done.

        `without` names members to go on without, in the first round; all others must say the same.
        """
        done: list[str] = []
        while (step := self._step(contribute, frozenset(without))) is not None:
            done.append(step)
        return done

    def _step(self, contribute: Contribute, without: frozenset[str]) -> str | None:
        """The next message, once it is stored; None if it is not this member's turn."""
        current = self.current(without)
        kind, missing = current.waiting_for()
        if kind is None or self.name not in missing:
            return None
        seat = self._stored(current.terms)
        if kind == "key":
            seat = self._keyed(current, seat)
        elif seat is None:
            raise SumRefused(f"The secrets of {self.name} for this sum are not in {self.private}. {RESTORE}")
        elif kind == "masked":
            seat = self._masked(current, seat, contribute)
        else:
            self._check_opened(current.terms)
            seat = seat.opening(current.of("masked"), self.sign)
            self._remember_opened(current.terms)
        self._store(seat)
        self.folder.publish(current, seat.sent[kind])
        return f"round {current.number}: {DONE[kind]}"

    def current(self, without: Collection[str] = ()) -> Sum:
        """The sum that is next for this member; begun again without some members if they are named."""
        members, without = self.folder.agreement.members.keys(), frozenset(without)
        current = self.folder.next(without or self._joined())
        left_out = members - current.terms.seats.keys()
        if self.name in left_out:
            raise SumRefused(f"The others have opened a sum without {self.name}, who has no part in it any more.")
        if without and without != left_out:
            raise SumRefused(
                f"A sum over {len(current.terms.seats)} members was opened. Another one over fewer would show what the "
                "missing ones have. `decbayes secure result` writes what was opened last."
            )
        if without and current.number == 1:
            self._give_up_all_but(current)
        return current

    def _joined(self) -> frozenset[str]:
        """Those without whom this member has begun the first round, if it has not given up that sum."""
        members = self.folder.agreement.members.keys()
        for each in self.folder.tried():
            seat = self._stored(each.terms)
            if seat is not None and not seat.given_up:
                return frozenset(members - each.terms.seats.keys())
        return frozenset()

    def _give_up_all_but(self, chosen: Sum) -> None:
        """Give up all sums of the first round over other members: they stay closed."""
        for other in self.folder.tried():
            seat = self._stored(other.terms)
            if other.terms.digest != chosen.terms.digest and seat is not None:
                self._store(seat.giving_up())

    def _keyed(self, current: Sum, seat: Seat | None) -> Seat:
        self._check_opened(current.terms)
        return seat or Seat.begun(current.terms, self.name, self.sign)

    def _masked(self, current: Sum, seat: Seat, contribute: Contribute) -> Seat:
        """Mask this member's numbers; those of an interrupted command are taken up again."""
        if "masked" in seat.sent:
            return seat
        agreement = self.folder.agreement
        before, own = self._before(current)
        share = contribute(current.number, before, own).bounded(agreement.most_rows)
        steps = share.steps(agreement.step)
        kept = Share.of_steps(agreement.anchor.structure, steps, agreement.step)
        masked = seat.masking(steps, current.of("key"), self.sign)
        self._save(kept.posterior, masked.terms)
        return masked

    def _before(self, current: Sum) -> tuple[Posterior, Posterior | None]:
        """The merge before a round, and this member's part in it."""
        agreement = self.folder.agreement
        if current.number == 1:
            return agreement.anchor, None
        *_, last, _ = self.folder.sums(self._joined())
        return self.folder.merged(last).posterior, load(self._file(last.terms, "posterior"))

    def _check_opened(self, terms: Terms) -> None:
        """Refuse a sum of a model whose sum over other members was opened: the difference would show some of them.

        The anchor does not matter: it only says into which slots a site's fit goes.
        """
        before = self._opened().get(self._model())
        if before is not None and before != members_of(terms):
            raise SumRefused(
                f"{self.name} has opened a sum of this model over other members. Both sums together would show what "
                f"members have who are in only one of them. {ACCEPT}"
            )

    def _remember_opened(self, terms: Terms) -> None:
        opened = self._opened() | {self._model(): members_of(terms)}
        write_whole(self._made() / OPENED, json.dumps(opened, sort_keys=True).encode(), private=True)

    def _model(self) -> str:
        """The model with any number of components."""
        structure = self.folder.agreement.anchor.structure
        return (structure.with_components(1) if structure.resizable else structure).fingerprint

    def _opened(self) -> dict[str, list[str]]:
        file = self.private / OPENED
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}

    def _stored(self, terms: Terms) -> Seat | None:
        file = self._file(terms, "seat")
        return Seat.from_bytes(terms, file.read_bytes()) if file.exists() else None

    def _store(self, seat: Seat) -> None:
        self._made()
        write_whole(self._file(seat.terms, "seat"), seat.to_bytes(), private=True)

    def _save(self, posterior: Posterior, terms: Terms) -> None:
        self._made()
        write_whole(self._file(terms, "posterior"), to_bytes(posterior), private=True)

    def _made(self) -> Path:
        self.private.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.private

    def _file(self, terms: Terms, kind: str) -> Path:
        return self.private / f"{terms.digest.hex()[:32]}.{kind}"


DONE: dict[Kind, str] = {
    "key": "key sent",
    "masked": "contribution masked and sent",
    "opening": "part of the opening sent",
}
ACCEPT = "Whoever accepts that, or has other data now, gives this site another folder for its secrets (--private)."
RESTORE = "Restore that folder; else the others must begin again without it."


def members_of(terms: Terms) -> list[str]:
    return sorted(key.hex() for key in terms.seats.values())


def whose_turn(agreement: Agreement, current: Sum) -> str:
    """Whose turn it is, in a line."""
    return turn(current.number, agreement.rounds, *current.waiting_for())


def proposals(folder: Folder, current: Sum) -> list[str]:
    """Sums of the first round that others have begun over other members, in a line each."""
    members = folder.agreement.members.keys()
    lines = []
    for other in folder.tried() if current.number == 1 else ():
        left_out = sorted(members - other.terms.seats.keys())
        if left_out and other.begun and other.terms.digest != current.terms.digest:
            who = ", ".join(other.messages["key"])
            lines.append(
                f"{who} would go on without {', '.join(left_out)}: say --without {' '.join(left_out)} to agree"
            )
    return lines
