"""A member of a group that opens only sums: it fits its data when a sum waits for them and publishes nothing else."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from decbayes.disclosure import Rules
from decbayes.errors import DecbayesError, InvalidCharter, InvalidData, Refused
from decbayes.network.protocol.effects import Effect, Persist, Saved
from decbayes.network.protocol.site.evidence import Learned, fitted_data, held_back_data
from decbayes.network.protocol.site.member import Member
from decbayes.network.protocol.sums.participation import Due, Participation, SumPart
from decbayes.secure.anchored import Share
from decbayes.secure.contributing import contribution
from decbayes.secure.private_rounds import PrivateShare, private_share


class AddingMember(Member):
    """A `Member` that takes part in sums instead of publishing, if its group has them."""

    part: Participation | None = None

    def _join_sums(self, saved: Sequence[Saved]) -> None:
        """Take part in the group's sums, if it has some, from where the store left off."""
        if self.pool.sums is None:
            return
        if self._approval:
            raise InvalidCharter("Under secure sums nobody can approve single versions: start without that rule.")
        self.part = Participation(self.identity, self.pool.sums)
        for part in [item for item in saved if isinstance(item, SumPart)]:
            for packet in self.part.restore(part):
                with suppress(Refused):
                    self.pool.add_packet(packet.content)

    def learn(
        self, data: Any, *, shard: str | None = None, persons: Any = None, rng: np.random.Generator
    ) -> Learned | None:
        if self.part is None:
            return super().learn(data, shard=shard, persons=persons, rng=rng)
        name, begun = shard if shard is not None else self.shard_id(data), self.part.shards
        if begun and name not in begun:
            raise InvalidData(
                "This agent has added other data to a sum, and a later sum with more would show what is new in it. "
                "Start it with the same data as before; new data need a new group."
            )
        self._data.keep(name, data, persons)
        return None

    def retract(self) -> list[Effect]:
        if self.part is not None:
            raise InvalidCharter(
                "What was added to a sum cannot be taken out of it. Stop this agent, and have it removed before the "
                "next sum (`decbayes charter propose remove`)."
            )
        return super().retract()

    def due(self) -> Due | None:
        """The contribution that a sum awaits from this member."""
        return None if self.part is None else self.part.due()

    def add_up(self) -> list[Effect]:
        """Take this member's next step in the current sum. `share` and `add` are its halves, for use in threads."""
        due = self.due()
        if due is None:
            return self._take_turn()
        try:
            share = self.share(due)
        except DecbayesError as error:
            return self.withhold(str(error))
        return self.add(due, share)

    def share(self, due: Due) -> Share | PrivateShare:
        """This member's contribution to a sum, unmasked: only for this site."""
        names, model = frozenset(due.shards or self._data.shards), self.charter.model
        # Pooling under disclosure rules depends on all rows, so noise calibrated to one person would not suffice.
        rules = self.rules if due.privacy is None else None
        data, persons = fitted_data(self.charter, self._data.shards, names, rules, self._data.people, blind=True)
        if due.privacy is not None:
            return private_share(model, data, due.privacy, due.merge, due.released, site=self.seat, persons=persons)
        share, _ = contribution(
            data,
            due.before,
            due.previous,
            # Deterministic, so that a crash before the numbers are stored does not change them.
            rng=np.random.default_rng(list(due.terms.digest)),
            model=model,
            rules=rules,
            persons=persons,
            held_back=self._held_back(names, rules),
            frequency=getattr(model, "public_documents", ()),
        )
        return share

    def _held_back(self, names: frozenset[str], rules: Rules | None) -> Any:
        """The data that the charter keeps out of fits for scoring; None if there are too few."""
        held_back, persons = held_back_data(self.charter, self._data.shards, names, rules, self._data.people)
        least = 1 if rules is None else rules.least_cell
        enough = held_back is not None and persons.total(self.charter.model.count(held_back)) >= least
        return held_back if enough else None

    def add(self, due: Due, share: Share | PrivateShare) -> list[Effect]:
        """Mask a contribution if the sum still waits for it; it is sent once durable."""
        assert self.part is not None
        try:
            part = self.part.mask(due, share, due.shards or tuple(sorted(self._data.shards)))
        except DecbayesError as error:
            return self.withhold(str(error))
        self.withheld = ""
        return [] if part is None else [Persist(part)]

    def _take_turn(self) -> list[Effect]:
        """This member's next key or opening, if it is due."""
        part = None if self.part is None else self.part.step(ready=bool(self._data.shards))
        return [] if part is None else [Persist(part)]
