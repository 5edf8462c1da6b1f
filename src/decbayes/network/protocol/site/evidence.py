"""An agent's evidence: its data fitted shard by shard, and refined against all other evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes.devices import everywhere_alike
from decbayes.disclosure import Rules
from decbayes.errors import InvalidData, NotDisclosed
from decbayes.merging import align, product
from decbayes.merging.base.lineage import with_ids
from decbayes.models.core.evaluation import hold_back, rows_of
from decbayes.models.core.persons import EACH, Persons
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.group.keys import AgentId
from decbayes.network.protocol.records.notes import Note, note_of
from decbayes.network.protocol.records.record import Header
from decbayes.network.protocol.records.statements import Approval
from decbayes.network.protocol.site.leaving import check_difference, safe_contribution, safe_data
from decbayes.network.protocol.site.shards import mark
from decbayes.posterior import Posterior
from decbayes.updates.update import without

if TYPE_CHECKING:
    from decbayes.network.protocol.records.merges import Merged

Shards = Mapping[str, Any]
"""Data by shard name."""

ShardPersons = Mapping[str, Persons]
"""The persons in shards, by shard name; without an entry each observation is a person."""

NO_PERSONS: ShardPersons = MappingProxyType({})

# The two parts of a shard.
FITTED, HELD_BACK = 0, 1


@dataclass(frozen=True)
class Evidence:
    """The posterior of some of an agent's shards under the group's prior, and how much data they hold.

    `approval` says who approved its release, if that was required.

    >>> network.Evidence.published(record.header, posterior).observations
    4
    """

    posterior: Posterior
    shards: frozenset[str] = frozenset()
    observations: int = 0
    units: int = 0
    marks: frozenset[bytes] = frozenset()
    approval: Approval | None = None

    @classmethod
    def published(cls, header: Header, posterior: Posterior, approval: Approval | None = None) -> "Evidence":
        """The evidence that a record holds."""
        shards, marks = frozenset(header.shards), frozenset(header.marks)
        return cls(posterior, shards, header.observations, header.units, marks, approval)

    def same(self, other: "Evidence") -> bool:
        """Whether both are the same posterior of the same shards."""
        return self.shards == other.shards and self.posterior.digest == other.posterior.digest


@dataclass(frozen=True)
class Learned:
    """New evidence, and the shards of the evidence that it replaces; it is outdated if these have changed meanwhile.

    >>> agent = network.Agent(charter, identity, rng=np.random.default_rng(0))
    >>> learned = agent.learn(np.ones((4, 1)), rng=np.random.default_rng(0))
    >>> learned.evidence.observations, learned.replaces
    (4, frozenset())
    """

    evidence: Evidence
    replaces: frozenset[str]


@dataclass(frozen=True)
class MergeNote:
    """An agent's note on a merge, and the digest of the evidence in that merge."""

    evidence_digest: bytes
    note: Note | None


def nothing(charter: Charter) -> Evidence:
    return Evidence(charter.update.nothing)


def learn(
    charter: Charter,
    before: Evidence,
    shards: Shards,
    rng: np.random.Generator | None,
    *,
    ids: tuple[str, ...] = (),
    rules: Rules | None = None,
    people: ShardPersons = NO_PERSONS,
) -> Learned:
    """Fit new shards on top of the agent's earlier evidence; `ids` are the merge's names of its components."""
    persons, parts = persons_in(charter, shards, people), [fitted_part(charter, data) for data in shards.values()]
    data = safe_data(charter, parts, rules, blind=not before.shards, persons=persons)
    posterior = charter.update.learn(data, before.posterior, rng=rng)
    posterior = safe_contribution(charter, posterior, before.posterior, data, rules, belief=posterior, persons=persons)
    evidence = before
    for name, shard in shards.items():
        evidence = with_shard(charter, evidence, name, shard)
    return Learned(replace(evidence, posterior=replace(posterior, ids=ids)), before.shards)


def relearn(
    charter: Charter,
    before: Evidence,
    shards: Shards,
    others: Sequence[Posterior],
    rng: np.random.Generator,
    rules: Rules | None = None,
    people: ShardPersons = NO_PERSONS,
) -> Learned:
    """Refit all own shards with everybody else's evidence as their prior.

    Under rules the fit cannot tell rare words apart, as in rounds by files.
    """
    data, persons = fitted_data(charter, shards, before.shards, rules, people, blind=True)
    with everywhere_alike():  # ids follow from it
        alignment = align([before.posterior, *others], components="largest")
        merged = with_ids(alignment.merged())
    in_slots = alignment.relabelled()
    if rules is None:
        posterior = charter.update.relearn(data, in_slots[0], merged, rng=rng)
    else:
        alike = charter.model.rare_evened(in_slots, data, rules.least_documents, persons)
        posterior = charter.update.relearn(data, alike[0], product(alike), rng=rng)
        belief = product([posterior, *alike[1:]])
        posterior = safe_contribution(
            charter,
            posterior,
            charter.update.nothing,
            data,
            rules,
            belief=belief,
            others=without(merged, in_slots[0]),
            persons=persons,
        )
    evidence = nothing(charter)
    for name, shard in select_shards(shards, before.shards).items():
        # Count again, because words may have been added since.
        evidence = with_shard(charter, evidence, name, shard)
    return Learned(replace(evidence, posterior=replace(posterior, ids=merged.ids)), before.shards)


def note_on_merge(
    charter: Charter,
    evidence: Evidence,
    shards: Shards,
    merged: "Merged",
    origin: AgentId,
    rules: Rules | None = None,
    people: ShardPersons = NO_PERSONS,
) -> Note | None:
    """The agent's note on a merge, from its data; None if its evidence is not in the merge."""
    if not any(entry[0] == origin for entry in merged.entries):
        return None
    data, persons = fitted_data(charter, shards, evidence.shards, rules, people)
    held_back = held_back_data(charter, shards, evidence.shards, rules, people)
    return note_of(charter, merged, origin, data, held_back[0], rules, persons, held_back[1])


def correct(
    charter: Charter,
    before: Evidence,
    shards: Shards,
    kept: frozenset[str],
    rng: np.random.Generator,
    rules: Rules | None = None,
    people: ShardPersons = NO_PERSONS,
) -> Learned:
    """Fit the kept shards from scratch in place of all evidence so far, so that the others leave no trace.

    If the kept shards are too small to be published, the evidence is empty.
    """
    left = select_shards(shards, kept)
    if rules is not None:
        check_difference(
            [(shards[name], people.get(name, EACH)) for name in before.shards - kept if name in shards],
            [(left[name], people.get(name, EACH)) for name in kept - before.shards],
            rules,
        )
    begun = nothing(charter)
    try:
        evidence = learn(charter, begun, left, rng, rules=rules, people=people).evidence if left else begun
    except NotDisclosed:
        evidence = begun
    return Learned(evidence, before.shards)


def with_shard(charter: Charter, before: Evidence, shard: str, data: Any) -> Evidence:
    """The evidence with the observations and mark of one more shard; its posterior is unchanged."""
    marks = (
        {mark(data, charter.secret, len(charter.vocabulary))}
        if charter.model.count(data) >= charter.rules.compare
        else set()
    )
    counted = fitted_part(charter, data)
    observations, units = charter.model.count(counted), round(float(np.sum(charter.model.units(counted))))
    shards = before.shards | {shard}
    return Evidence(
        before.posterior, shards, before.observations + observations, before.units + units, before.marks | marks
    )


def fitted_part(charter: Charter, data: Any) -> Any:
    """The data without the share that the charter holds back for scoring."""
    return split_data(charter, data)[0]


def fitted_data(
    charter: Charter,
    shards: Shards,
    names: frozenset[str],
    rules: Rules | None,
    people: ShardPersons = NO_PERSONS,
    *,
    blind: bool = False,
) -> tuple[Any, Persons]:
    """The data of some shards, prepared under the disclosure rules for a fit, and their persons."""
    present = select_shards(shards, names)
    persons = persons_in(charter, present, people)
    parts = [fitted_part(charter, shard) for shard in present.values()]
    return safe_data(charter, parts, rules, blind=blind, persons=persons), persons


def held_back_data(
    charter: Charter, shards: Shards, names: frozenset[str], rules: Rules | None, people: ShardPersons = NO_PERSONS
) -> tuple[Any, Persons]:
    """The held-back data of some shards, prepared under the disclosure rules, and their persons; None if none are.

    Values count as rare by all data of the shards, as in files of scores.
    """
    if not charter.rules.validation:
        return None, EACH
    model, there = charter.model, select_shards(shards, names)
    try:
        whole = safe_data(
            charter, [*there.values()], rules, persons=persons_in(charter, there, people, None), fitted=False
        )
    except NotDisclosed:
        return None, EACH
    ends = np.cumsum([model.count(shard) for shard in there.values()])
    parts = (
        [whole] if len(there) == 1 else [model.taken(whole, rows) for rows in np.split(np.arange(ends[-1]), ends[:-1])]
    )
    return model.joined([split_data(charter, part)[1] for part in parts]), persons_in(charter, there, people, HELD_BACK)


def persons_in(charter: Charter, shards: Shards, people: ShardPersons, part: int | None = FITTED) -> Persons:
    """The persons in shards, concatenated: in the fitted part, in the held-back part, or in all data (None)."""
    if not people.keys() & shards.keys():
        return EACH
    share, parts = charter.rules.validation, []
    for name, data in shards.items():
        count = charter.model.count(data)
        rows = np.arange(count) if part is None or not share else rows_of(count, share)[part]
        parts.append((people.get(name, EACH).checked(count).taken(rows), len(rows)))
    return Persons.joined(parts)


def split_data(charter: Charter, data: Any) -> tuple[Any, Any]:
    """The fitted and the held-back part of data; the latter is None if the charter holds nothing back."""
    share = charter.rules.validation
    return hold_back(charter.model, data, share=share) if share else (data, None)


def select_shards(shards: Shards, names: frozenset[str]) -> Shards:
    """These shards in the order of their names; InvalidData if one is missing."""
    missing = sorted(names - shards.keys())
    if missing:
        raise InvalidData(f"This needs the data of all own shards; observe these again first: {missing[:5]}.")
    return {name: shards[name] for name in sorted(names)}


def reconcile(learned: Evidence, published: Evidence) -> Evidence:
    """Combine an agent's evidence with a version of its own that it has forgotten.

    Evidence of disjoint shards is added. If the shards overlap, one of the two is kept as it is, since their parts
    cannot be separated and counting a shard twice would be the worse error.
    """
    if learned.shards <= published.shards:
        return published
    if published.shards and not learned.shards & published.shards:
        return Evidence(
            align([learned.posterior, published.posterior], components="largest").merged(),
            learned.shards | published.shards,
            learned.observations + published.observations,
            learned.units + published.units,
            learned.marks | published.marks,
        )
    return learned
