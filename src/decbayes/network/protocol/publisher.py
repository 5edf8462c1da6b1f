"""An agent's own evidence on its way out: when it may go, and under which version."""

from collections.abc import Callable

import numpy as np

from decbayes.errors import Refused
from decbayes.network.protocol.charter import Charter
from decbayes.network.protocol.effects import Effect, Persist, Report
from decbayes.network.protocol.evidence import Evidence, reconcile
from decbayes.network.protocol.keys import Identity
from decbayes.network.protocol.pool import Change, Pool, Proof
from decbayes.network.protocol.record import HIGHEST_VERSION, Record, sign_record
from decbayes.network.protocol.validation import Sealed, open_record
from decbayes.posterior import Posterior

# The first version of each start lies up to this far above the highest one known.
LEAP = 1 << 32

Verify = Callable[[Sealed, Charter], Record]


class Publisher:
    """What an agent stands for, what its newest version says, and what has to happen before the two are the same."""

    def __init__(
        self, charter: Charter, identity: Identity, pool: Pool, rng: np.random.Generator, verify: Verify
    ) -> None:
        self.own = self.published = Evidence(Posterior.of_prior(charter.structure))
        self.retracted = False
        self.heard = False
        self._charter, self._identity, self._pool, self._rng, self._verify = charter, identity, pool, rng, verify
        self._pending: tuple[Record, Evidence] | None = None
        self._refused: Evidence | None = None
        self._highest = 0
        self._step = self._leap()

    @property
    def waiting(self) -> bool:
        return self.own is not self.published

    def retract(self) -> None:
        self.own, self.retracted = Evidence(Posterior.of_prior(self._charter.structure)), True

    def adopt(self, record: Record) -> None:
        """Take a published version of our own for what we stand for, together with what it lacks."""
        posterior = record.posterior or Posterior.of_prior(self._charter.structure)
        self.published = Evidence(posterior, frozenset(record.header.shards), record.header.observations)
        if record.retraction:
            self.own, self.retracted = self.published, True
        elif not self.retracted:
            self.own = reconcile(self.own, self.published)

    def remind(self, record: Record) -> Report:
        """Others know a version of ours that we have forgotten: a lost disk, or an old copy of it.

        Versions just above it may have been used as well, though nobody near has heard of them: leap again.
        """
        self.adopt(record)
        self._step = self._leap()
        missing = [] if self.retracted else sorted(set(record.header.shards) - self.own.shards)
        why = "the store was lost or is an old copy, or another agent uses this key"
        return Report("remembered", {"version": record.version, "observe_again": missing, "why": why})

    def publish(self) -> list[Effect]:
        """Sign the next version and have it persisted, unless there is nothing to say or it must wait."""
        if not (self.waiting and self.heard) or self._pending is not None or self.own is self._refused:
            return []
        if self._identity.id in self._pool.proofs:
            return self._give_up("this agent's key has signed two records under one version; it needs a new key")
        if max(self._highest, self._pool.version(self._identity.id)) + self._step > HIGHEST_VERSION:
            return self._give_up("there are no higher versions; this agent needs a new key")
        record = self._sign()
        try:
            # What everybody else would refuse must not count here either.
            self._verify(open_record(record.content, self._charter), self._charter)
        except Refused as error:
            return self._give_up(f"the others would refuse it ({error})")
        self._pending = record, self.own
        return [Persist(record)]

    def persisted(self, item: Record | Proof) -> Record | None:
        """The item is durable; if it is the version that was waiting for that, it counts from now on."""
        if self._pending is None or item is not self._pending[0]:
            return None
        (record, evidence), self._pending = self._pending, None
        if self._pool.add(record) is Change.NEWER:
            self.published = evidence
        return record

    def _sign(self) -> Record:
        self._highest = max(self._highest, self._pool.version(self._identity.id)) + self._step
        self._step = 1
        return sign_record(
            self._charter,
            self._identity,
            self._highest,
            posterior=None if self.retracted else self.own.posterior,
            shards=self.own.shards,
            observations=self.own.observations,
        )

    def _give_up(self, why: str) -> list[Effect]:
        self._refused = self.own
        return [Report("not_published", {"why": why})]

    def _leap(self) -> int:
        return int(self._rng.integers(1, LEAP))
