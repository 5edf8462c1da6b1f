"""What may leave a site: data without values that few have, contributions without components that few have."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from decbayes.disclosure import Rules, check_columns, guarded, prepared
from decbayes.disclosure.preparing import MADE_UP
from decbayes.disclosure.preparing import rows_of as table_rows
from decbayes.disclosure.releasing import difference
from decbayes.errors import NotDisclosed
from decbayes.models.core.persons import EACH, Persons
from decbayes.network.protocol.group.charter import Charter
from decbayes.network.protocol.site.shard_ids import rows_of
from decbayes.posterior import Posterior

Known = tuple[Any, Persons]
"""Data, and whom they are about."""


def in_force(agreed: Rules | None, stricter: Rules | None) -> Rules | None:
    """The group's rules, and those by which a site is stricter."""
    if agreed is None or stricter is None:
        return agreed or stricter
    return agreed.tightened(stricter)


def safe_data(
    charter: Charter,
    shards: Sequence[Any],
    rules: Rules | None,
    *,
    blind: bool = False,
    persons: Persons = EACH,
    fitted: bool = True,
) -> Any:
    """All data of some shards, without values that too few have; NotDisclosed if nothing can be published of them.

    A `blind` fit cannot tell which rare words occur; it adds to no earlier one. Data that are not `fitted` are scored.
    """
    model = charter.model
    data = shards[0] if len(shards) == 1 else model.joined(shards)
    if rules is None:
        return data
    try:
        for shard in shards if isinstance(getattr(model, "columns", None), Mapping) else ():
            # Beside many other rows those that name persons would not be noticed.
            check_columns(getattr(model, "columns"), table_rows(model, shard), rules)  # noqa: B009
        return prepared(model, data, rules, agreed=True, persons=persons, blind=blind, fitted=fitted).data
    except NotDisclosed as error:
        # An agent's data are never public: its charter says so.
        raise NotDisclosed(str(error).replace(MADE_UP, "").strip()) from None


def safe_contribution(
    charter: Charter,
    learned: Posterior,
    before: Posterior,
    data: Any,
    rules: Rules | None,
    *,
    belief: Posterior,
    others: Posterior | None = None,
    persons: Persons = EACH,
) -> Posterior:
    """A contribution of which others can read nothing about few persons, even if they compare it with the one before.

    Args:
        charter: what the group agrees on.
        learned: the contribution with the new data.
        before: that of earlier data, which is public already.
        data: the new data.
        rules: what may leave the site.
        belief: the posterior that says who belongs to which component.
        others: what all others have published, which says where counts of rare words go.
        persons: whom the new data are about.
    """
    if rules is None:
        return learned
    structure = charter.model.structure
    both, earlier = (Posterior(structure, dict(each.contribution)) for each in (learned, before))
    belief, known = charter.update.whole(belief), None if others is None else charter.update.whole(others)
    public = getattr(charter.model, "public_documents", ())
    within = partial(guarded, charter.model, both, data, rules, frequency=public, persons=persons)
    safe = within(belief=belief, before=earlier, others=known).posterior
    return learned if safe is both else replace(learned, contribution=safe.contribution)


def check_difference(before: Iterable[Known], after: Iterable[Known], rules: Rules | None) -> None:
    """Refuse to replace data by others that differ by few persons: both versions together would show these."""
    apart = difference(person_records(before), person_records(after))
    if rules is not None and 0 < apart < rules.least_cell:
        raise NotDisclosed(
            f"The data differ by {apart} {'person' if apart == 1 else 'persons'} from what is published, and both "
            f"versions together would show them. Wait until at least {rules.least_cell} persons have changed."
        )


def person_records(shards: Iterable[Known]) -> list[bytes]:
    """All records of each person, in one piece."""
    records: dict[int, list[bytes]] = {}
    for data, persons in shards:
        rows = list(rows_of(data))
        numbers = range(len(records), len(records) + len(rows)) if persons.numbers is None else persons.numbers.tolist()
        for number, row in zip(numbers, rows, strict=True):
            records.setdefault(number, []).append(row)
    return [b"".join(sorted(rows)) for rows in records.values()]
