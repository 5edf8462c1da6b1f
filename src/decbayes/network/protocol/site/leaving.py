"""What may leave a site: data without rare values, contributions without small components."""

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
from decbayes.network.protocol.site.shards import rows_of
from decbayes.posterior import Posterior

Known = tuple[Any, Persons]
"""Data and their persons."""


def in_force(agreed: Rules | None, stricter: Rules | None) -> Rules | None:
    """The group's rules, tightened by those of the site."""
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
    """The joined data of some shards without rare values; NotDisclosed if nothing of them may be published.

    A `blind` fit cannot tell which rare words occur, and adds to no earlier one. Data that are not `fitted` are scored.
    """
    model = charter.model
    data = shards[0] if len(shards) == 1 else model.joined(shards)
    if rules is None:
        return data
    try:
        for shard in shards if isinstance(getattr(model, "columns", None), Mapping) else ():
            # Per shard: among many other rows, identifiers would go unnoticed.
            check_columns(getattr(model, "columns"), table_rows(model, shard), rules)  # noqa: B009
        return prepared(model, data, rules, agreed=True, persons=persons, blind=blind, fitted=fitted).data
    except NotDisclosed as error:
        # A charter with rules has no public data, so leave out the advice on these.
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
    """A contribution that reveals nothing about small groups of persons, even compared with the previous version.

    `learned` includes the new `data`; `before`, of earlier data, is public already. `belief` assigns observations to
    components, and the merge of all `others` decides where counts of rare words go.
    """
    if rules is None:
        return learned
    structure = charter.model.structure
    both, earlier = (Posterior(structure, dict(posterior.contribution)) for posterior in (learned, before))
    belief, known = charter.update.whole(belief), None if others is None else charter.update.whole(others)
    public = getattr(charter.model, "public_documents", ())
    within = partial(guarded, charter.model, both, data, rules, frequency=public, persons=persons)
    safe = within(belief=belief, before=earlier, others=known).posterior
    return learned if safe is both else replace(learned, contribution=safe.contribution)


def check_difference(before: Iterable[Known], after: Iterable[Known], rules: Rules | None) -> None:
    """Refuse to replace data by data that differ by a few persons: both versions together would reveal them."""
    apart = difference(person_records(before), person_records(after))
    if rules is not None and 0 < apart < rules.least_cell:
        raise NotDisclosed(
            f"The data differ by {apart} {'person' if apart == 1 else 'persons'} from what is published, and both "
            f"versions together would show them. Wait until at least {rules.least_cell} persons have changed."
        )


def person_records(shards: Iterable[Known]) -> list[bytes]:
    """All records of each person, concatenated."""
    records: dict[int, list[bytes]] = {}
    for data, persons in shards:
        rows = list(rows_of(data))
        numbers = range(len(records), len(records) + len(rows)) if persons.numbers is None else persons.numbers.tolist()
        for number, row in zip(numbers, rows, strict=True):
            records.setdefault(number, []).append(row)
    return [b"".join(sorted(rows)) for rows in records.values()]
