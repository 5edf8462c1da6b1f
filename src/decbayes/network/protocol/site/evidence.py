"""What an agent's own data has to say: fitted shard by shard, refined against everybody else's evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.devices import everywhere_alike
from decbayes.errors import InvalidData
from decbayes.merging import align, merge
from decbayes.merging.base.lineage import with_ids
from decbayes.models.core.evaluation import hold_back
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId
from decbayes.network.protocol.records.notes import Note, note_of
from decbayes.network.protocol.records.record import Header
from decbayes.network.protocol.site.shard_ids import mark
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.network.protocol.records.merges import Merged

Shards = Mapping[str, Any]
"""Data by the shard's name."""


@dataclass(frozen=True)
class Evidence:
    """The posterior of some shards of an agent's data, under the group's prior, and how much data that is."""

    posterior: Posterior
    shards: frozenset[str] = frozenset()
    observations: int = 0
    units: int = 0
    marks: frozenset[bytes] = frozenset()

    @classmethod
    def published(cls, header: Header, posterior: Posterior) -> "Evidence":
        """The evidence that a record holds."""
        return cls(posterior, frozenset(header.shards), header.observations, header.units, frozenset(header.marks))


@dataclass(frozen=True)
class Learned:
    """New evidence, and the shards of the evidence it replaces: if these have changed meanwhile, it is out of date."""

    evidence: Evidence
    replaces: frozenset[str]


@dataclass(frozen=True)
class Look:
    """What an agent's data say of a merge, and which evidence that was merged from."""

    evidence: bytes
    note: Note | None


def nothing(charter: Charter) -> Evidence:
    return Evidence(charter.update.nothing)


def learn(
    charter: Charter, evidence: Evidence, shard: str, data: Any, rng: np.random.Generator, ids: tuple[str, ...] = ()
) -> Learned:
    """Fit a new shard on top of the agent's own earlier ones, whose components the merge knows by these ids."""
    posterior = replace(charter.update.learn(fitted(charter, data), evidence.posterior, rng=rng), ids=ids)
    return Learned(enlarged(charter, evidence, shard, data, posterior), evidence.shards)


def relearn(
    charter: Charter, evidence: Evidence, shards: Shards, others: Sequence[Posterior], rng: np.random.Generator
) -> Learned:
    """Fit all own shards again, with everybody else's evidence as their prior."""
    data = charter.model.joined([fitted(charter, shard) for shard in at_hand(shards, evidence.shards)])
    with everywhere_alike():  # ids follow from it
        alignment = align([evidence.posterior, *others])
        merged = with_ids(alignment.merged())
    posterior = charter.update.relearn(data, alignment.relabelled()[0], merged, rng=rng)
    return Learned(replace(evidence, posterior=replace(posterior, ids=merged.ids)), evidence.shards)


def noted(charter: Charter, evidence: Evidence, shards: Shards, merged: "Merged", origin: AgentId) -> Note | None:
    """What own data say of a merge; None if own evidence is not in it."""
    if not any(entry[0] == origin for entry in merged.entries):
        return None
    parts = [divided(charter, shard) for shard in at_hand(shards, evidence.shards)]
    held_back = charter.model.joined([held_back for _, held_back in parts]) if charter.rules.validation else None
    return note_of(charter, merged, origin, charter.model.joined([data for data, _ in parts]), held_back)


def correct(
    charter: Charter, before: Evidence, shards: Shards, kept: frozenset[str], rng: np.random.Generator
) -> Learned:
    """Fit some shards from the start, in the place of all evidence so far: what is left out leaves no trace."""
    evidence = nothing(charter)
    for name, data in zip(sorted(kept), at_hand(shards, kept), strict=True):
        evidence = enlarged(charter, evidence, name, data, evidence.posterior)
    if kept:
        data = charter.model.joined([fitted(charter, shard) for shard in at_hand(shards, kept)])
        evidence = replace(evidence, posterior=charter.update.learn(data, charter.update.nothing, rng=rng))
    return Learned(evidence, before.shards)


def enlarged(charter: Charter, before: Evidence, shard: str, data: Any, posterior: Posterior) -> Evidence:
    """The evidence with one more shard's data counted, and that posterior."""
    marks = {mark(data, charter.secret)} if charter.model.count(data) >= charter.rules.compare else set()
    counted = fitted(charter, data)
    observations, units = charter.model.count(counted), round(float(np.sum(charter.model.units(counted))))
    return Evidence(
        posterior,
        before.shards | {shard},
        before.observations + observations,
        before.units + units,
        before.marks | marks,
    )


def fitted(charter: Charter, data: Any) -> Any:
    """The data without what the charter has each member hold back, to score posteriors with."""
    return divided(charter, data)[0]


def divided(charter: Charter, data: Any) -> tuple[Any, Any]:
    """What is fitted and what is held back; None where the charter has nothing held back."""
    share = charter.rules.validation
    return hold_back(charter.model, data, share=share) if share else (data, None)


def at_hand(shards: Shards, names: frozenset[str]) -> list[Any]:
    missing = sorted(names - shards.keys())
    if missing:
        raise InvalidData(f"This needs the data of all own shards; observe these again first: {missing[:5]}.")
    return [shards[name] for name in sorted(names)]


def reconcile(learned: Evidence, published: Evidence) -> Evidence:
    """What an agent stands for when it hears of a version of its own that it has forgotten.

    Shards that only one of the two holds count once. Where both hold some, the larger stays: what it lacks of the
    other cannot be told apart, and counting a shard twice would be the worse error.
    """
    if learned.shards <= published.shards:
        return published
    if published.shards and not learned.shards & published.shards:
        return Evidence(
            merge([learned.posterior, published.posterior]),
            learned.shards | published.shards,
            learned.observations + published.observations,
            learned.units + published.units,
            learned.marks | published.marks,
        )
    return learned
