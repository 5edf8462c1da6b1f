"""Bookkeeping of what the posterior counts: each shard of a counting seat once, in the prior or in a record."""

from collections.abc import Mapping
from dataclasses import dataclass

from decbayes.errors import InvalidCharter
from decbayes.network.protocol.group.motions import Open, PriorPart
from decbayes.network.protocol.group.openings import after_forgetting, epoch_question
from decbayes.network.protocol.records.merges import in_slots
from decbayes.network.protocol.records.pool import Pool
from decbayes.posterior import Posterior


@dataclass(frozen=True)
class Accounts:
    """The observations of each seat in the prior and in records, and any inconsistencies."""

    prior: Mapping[str, int]
    records: Mapping[str, int]
    wrong: tuple[str, ...] = ()

    @property
    def observations(self) -> int:
        return sum(self.prior.values()) + sum(self.records.values())


def accounts(pool: Pool) -> Accounts:
    """What a pool counts; anything in `wrong` is an error of decbayes that leads to double counting."""
    roster, names = pool.roster, pool.roster.names
    records = [(names.get(record.origin, ""), record.header) for record in pool.counted()]
    seats = [seat for seat, _ in records]
    parts = {part.seat: part for part in roster.parts if part.seat in roster.sitting}
    in_prior = {} if pool.charter.epoch is None else pool.charter.epoch.counted
    wrong = [f"{seat or 'somebody'} counts and has no seat" for seat in seats if seat not in roster.sitting]
    wrong += [f"{seat} counts twice" for seat in sorted({seat for seat in seats if seats.count(seat) > 1})]
    wrong += [
        f"a shard of {seat} is in the prior and in a record"
        for seat, header in records
        if {*in_prior.get(seat, ())}.intersection(header.shards)
    ]
    if {seat: part.shards for seat, part in parts.items()} != dict(in_prior):
        wrong.append("the prior holds other shards than its resolution says")
    return Accounts(
        {seat: part.observations for seat, part in parts.items()},
        {seat: header.observations for seat, header in records},
        tuple(wrong),
    )


def next_epoch(pool: Pool, forgetting: float | str | None = None) -> tuple[Open, bytes]:
    """The question whether to make the current merge the prior of a new epoch, and that prior, seat by seat.

    It follows from records and decisions alone, so agents with the same ones ask the same question.
    """
    records = list(pool.counted())
    if not records:
        raise InvalidCharter("There are no contributions yet, so a new epoch would not differ from this one.")
    structure, names = pool.charter.model.structure, pool.roster.names
    seats = [names[record.origin] for record in records]
    slotted = in_slots(pool.charter, records)
    added = {seat: Posterior(structure, dict(part.contribution)) for seat, part in zip(seats, slotted, strict=True)}
    parts = after_forgetting(pool.charter, pool.decisions.parts(), added, forgetting)
    earlier = {part.seat: part for part in pool.roster.parts}
    headers = {seat: record.header for seat, record in zip(seats, records, strict=True)}
    stated = []
    for seat in parts:
        before = earlier.get(seat, PriorPart(seat, (), 0, 0))
        shards, observations, units = (*before.shards,), before.observations, before.units
        if seat in headers:
            header = headers[seat]
            shards, observations = (*shards, *header.shards), observations + header.observations
            units += header.units
        stated.append(PriorPart(seat, tuple(sorted(shards)), observations, units))
    return epoch_question(stated, parts, tuple(pool.posterior().ids))
