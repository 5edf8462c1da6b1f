"""When and under which version an agent's evidence is published."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from decbayes.errors import Refused
from decbayes.network.protocol.effects import Effect, Persist, Report, Saved
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import Identity
from decbayes.network.protocol.group.roster import NOTHING
from decbayes.network.protocol.records.notes import Note
from decbayes.network.protocol.records.pool import Change, Pool
from decbayes.network.protocol.records.record import HIGHEST_VERSION, Record, sign_record
from decbayes.network.protocol.records.statements import Approval, Statement
from decbayes.network.protocol.records.verification import Sealed, open_record
from decbayes.network.protocol.site.evidence import Evidence, nothing, reconcile

# The first version of each start is at most this far above the highest one known.
LEAP = 1 << 32
# The number of versions that a process remembers having signed.
REMEMBERED = 256
TWIN = "another agent runs with this agent's key: stop one of the two, then start the other again"

Verify = Callable[[Sealed, Charter], Record]


@dataclass(frozen=True)
class Publication:
    """What a member wants to be published: its evidence, a permanent retraction, and its note on the merge."""

    evidence: Evidence
    closed: bool = False
    note: Note | None = None


class Publisher:
    """An agent's current evidence and its newest published version, which it brings into agreement."""

    def __init__(
        self,
        charter: Charter,
        identity: Identity,
        pool: Pool,
        rng: np.random.Generator,
        verify: Verify,
        *,
        approval: bool = False,
    ) -> None:
        self.wanted = self.published = Publication(nothing(charter))
        self.synced = self.twin = self._challenged = False
        self._charter, self._identity, self._pool, self._rng, self._verify = charter, identity, pool, rng, verify
        self._approval = approval
        self._pending: tuple[Record, Publication | None] | None = None
        self._refused: Publication | None = None
        self._last_report: Report | None = None
        self._highest = 0
        self._made: deque[bytes] = deque(maxlen=REMEMBERED)
        self._step = self._leap()

    @property
    def waiting(self) -> bool:
        return self.wanted is not self.published

    @property
    def awaiting(self) -> Evidence | None:
        """New evidence that still needs approval; None if there is none."""
        evidence = self.wanted.evidence
        unapproved = self._approval and bool(evidence.shards) and evidence.approval is None
        return evidence if unapproved and not evidence.same(self.published.evidence) else None

    def approve(self, approval: Approval) -> None:
        self.wanted = replace(self.wanted, evidence=replace(self.wanted.evidence, approval=approval))

    def learn(self, evidence: Evidence) -> None:
        self.wanted = replace(self.wanted, evidence=evidence, note=None)

    def attach(self, note: Note) -> None:
        self.wanted = replace(self.wanted, note=note)

    def retract(self) -> None:
        self.wanted = replace(self.wanted, evidence=nothing(self._charter), closed=True, note=None)

    def adopt(self, record: Record) -> None:
        """Adopt a published version of our own, and add the evidence that it lacks."""
        published = self._publication_of(record)
        evidence = published.evidence
        self.published = published if record.origin == self._identity.id else self.published
        if published.closed:
            self.wanted = published
        elif not self.wanted.closed:
            both = reconcile(self.wanted.evidence, evidence)
            self.wanted = published if both == evidence else Publication(both)

    def _publication_of(self, record: Record) -> Publication:
        posterior = record.posterior or self._charter.update.nothing
        approval = None if record.statement is None else record.statement.approval
        return Publication(Evidence.published(record.header, posterior, approval), record.header.closed, record.note)

    def renew(self, charter: Charter, *, approval: bool) -> None:
        """Switch to another charter with empty evidence; a permanent retraction remains."""
        self._charter, self._approval = charter, approval
        self._refused = self._last_report = None
        signed = None if self._pending is None else self._pending[0]
        # A record that is being written may become durable, and then counts.
        self._pending = (signed, None) if signed is not None and signed.header.epoch == charter.opened else None
        closed, self.published = self.wanted.closed, Publication(nothing(charter))
        # A distinct object, hence published, if there is a retraction or a write in progress.
        self.wanted = (
            self.published if not closed and self._pending is None else Publication(nothing(charter), closed=closed)
        )

    def remind(self, record: Record) -> list[Effect]:
        """Adopt a version of ours that this process has not signed: after a lost disk, an old copy of it, or by a twin.

        Versions just above it may have been used, too, without neighbours knowing them: leap again. A version that
        replaces one signed by this process comes from a twin that is running now. One last version lets the twin
        notice the same, and both fall silent.
        """
        known, self.twin = self.twin, self.twin or record.header.previous in self._made
        self.adopt(record)
        self._step = self._leap()
        if self.twin:
            return [] if known else [Report("twin", {"version": record.version, "why": TWIN})]
        lost = [] if self.wanted.closed else sorted(set(record.header.shards) - self.wanted.evidence.shards)
        why = "the store was lost or is an old copy, or another agent uses this key"
        return [Report("remembered", {"version": record.version, "observe_again": lost, "why": why})]

    def publish(self) -> list[Effect]:
        """Sign the next version and have it persisted, unless nothing has changed or it must wait."""
        if self._pending is not None or not self.synced:
            return []
        if self.twin:
            silent, self._challenged = self._challenged, True
            return [] if silent else self._sign_next(self._publishable())
        if not self.waiting or self.wanted is self._refused:
            return []
        obstacle = self._obstacle()
        waits = None if obstacle is not None else self._evidence_waits()
        reported, self._last_report = self._last_report, obstacle or waits
        reports: list[Effect] = [] if self._last_report in (None, reported) else [self._last_report]
        if obstacle is not None:
            return reports
        return reports if waits is not None else reports + self._sign_next(self.wanted)

    def persisted(self, item: Saved) -> Record | None:
        """An item is durable; if it is the pending version, it counts from now on and is returned."""
        if self._pending is None or item is not self._pending[0]:
            return None
        (record, publication), self._pending = self._pending, None
        if publication is None:
            return self._persisted_late(record)
        if self._pool.add(record) is Change.NEWER:
            self.published = publication
            self._made.append(record.digest)
        return record

    def _persisted_late(self, record: Record) -> Record | None:
        """A version signed under the previous charter is durable; the current one may accept it as well."""
        try:
            read = self._verify(open_record(record.content, self._charter, self._pool.roster), self._charter)
        except Refused:
            return None
        if self._pool.add(read) is Change.NEWER:
            self._made.append(read.digest)
            self.published = self._publication_of(read)
        return read

    def _publishable(self) -> Publication:
        """What may be published now: the new evidence, unless it must wait."""
        return self.wanted if self._evidence_waits() is None else self.published

    def _sign_next(self, publication: Publication) -> list[Effect]:
        content = self._sign(publication).content
        try:
            # Check it as the others will: what they would refuse must not count here either.
            record = self._verify(open_record(content, self._charter, self._pool.roster), self._charter)
        except Refused as error:
            reports: list[Effect] = [Report("not_published", {"why": f"the others would refuse it ({error})"})]
            if publication.note is None:
                self._refused = self.wanted
                return reports
            # A refused note must not hold back the evidence.
            silent = replace(publication, note=None)
            self.wanted = silent if publication is self.wanted else self.wanted
            return reports + self._sign_next(silent)
        self._pending = record, publication
        return [Persist(record)]

    def _sign(self, publication: Publication) -> Record:
        newest = self._pool.records.get(self._identity.id)
        self._highest = max(self._highest, 0 if newest is None else newest.version) + self._step
        self._step = 1
        evidence, rules = publication.evidence, self._charter.disclosure
        return sign_record(
            self._charter,
            self._identity,
            self._highest,
            posterior=evidence.posterior if evidence.shards else None,
            shards=evidence.shards,
            observations=evidence.observations,
            units=evidence.units,
            marks=evidence.marks,
            previous=NOTHING if newest is None else newest.digest,
            closed=publication.closed,
            note=publication.note,
            statement=None if rules is None else Statement(rules, evidence.approval),
        )

    def _too_few(self) -> int:
        """The number of new observations if they are too few: a version that differs by a few would reveal them."""
        evidence, published, least = self.wanted.evidence, self.published.evidence, self._charter.least_observations
        before = published.observations if evidence.shards > published.shards else 0
        added = evidence.observations - before
        return added if 0 < added < least and evidence.shards != published.shards else 0

    def _obstacle(self) -> Report | None:
        """Why nothing can be published now."""
        key, why = self._identity.id, ""
        if not self._pool.roster.sits(key):
            why = standing_of(key, self._pool)
        elif max(self._highest, self._pool.version(key)) + self._step > HIGHEST_VERSION:
            why = "there are no higher versions; this agent needs a new key"
        return Report("not_published", {"why": why}) if why else None

    def _evidence_waits(self) -> Report | None:
        """Why new evidence is not published yet."""
        if too_few := self._too_few():
            return Report("held_back", {"observations": too_few, "least": self._charter.least_observations})
        if waiting := self.awaiting:
            return Report(
                "awaiting_approval", {"digest": waiting.posterior.digest, "observations": waiting.observations}
            )
        return None

    def _leap(self) -> int:
        return int(self._rng.integers(1, LEAP))


READMIT = "They can give the seat back (`decbayes charter propose add`)"


def standing_of(key: bytes, pool: Pool) -> str:
    """Why a key does not count, for its holder; empty if it does."""
    roster = pool.roster
    seat = roster.seats.get(roster.names.get(key, ""))
    if roster.sits(key):
        return ""
    if seat is None:
        return "this agent's key has no seat in the group yet: members decide on it (`decbayes charter propose add`)"
    if not seat.present:
        return f"the members have removed '{seat.name}': its contribution no longer counts. {READMIT}"
    if key in roster.void:
        return "this agent's key has signed two things under one number, and is excluded: its seat needs a new key"
    return (
        f"the members have replaced this key: '{seat.name}' has another one now, and this one is revoked. Put the new "
        "one into the agent's key file"
    )
