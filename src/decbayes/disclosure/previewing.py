"""One page for the person who decides on a release: what a file reveals, about whom, and whether it may leave."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from decbayes.base.display import digits
from decbayes.disclosure._exposure import Exposure, exposure
from decbayes.disclosure.guarding import least_persons, of_number, persons_in
from decbayes.disclosure.ledger import Ledger
from decbayes.disclosure.manifest import Manifest
from decbayes.disclosure.origin import Made, holds_sums_of
from decbayes.disclosure.preparing import check_coefficients, check_size
from decbayes.disclosure.rarities import Statement, about_columns, about_moves, about_words, rare_things
from decbayes.disclosure.releasing import difference, digest_of
from decbayes.disclosure.rules import Rules
from decbayes.errors import DecbayesError
from decbayes.families import Array
from decbayes.merging.aligning import align
from decbayes.merging.reading import alone, seen
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.remarks import UNAGREED

# Thresholds for a second look: membership, and the influence of one person in posterior deviations.
TELLS_MEMBERS, STANDS_OUT = 0.7, 1.0


RELEASED = "released"
BESIDE, WITH = ", beside those of the earlier file", " with those of the earlier file"
NOT_CHECKED = "not given. Not checked: cells, persons, earlier releases, and whether the file is about your data"


@dataclass(frozen=True, eq=False)
class Preview:
    """What a file reveals, and about whom. Printing it shows the page.

    Args:
        title: the file's content.
        statements: the findings, in order of importance.
        sizes: the persons, documents or sequences behind each component, for a picture.
        deviations: how far the posterior moves without single persons, in decreasing order.
        membership: how well members can be told from non-members; 0.5 is chance.
        private: lines for the owner of the data only: they quote rare words and categories.
        facts: the file's manifest, as names and values.
        least: the fewest persons, documents or sequences that a component needs.
        checked: whether the data behind the file were checked.
    """

    title: str
    statements: tuple[Statement, ...]
    sizes: Array = field(default_factory=lambda: np.empty(0))
    deviations: Array = field(default_factory=lambda: np.empty(0))
    membership: float | None = None
    private: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    least: float = 5.0
    checked: bool = True

    @property
    def may_leave(self) -> bool:
        """Whether no rule is broken."""
        return all(statement.severity != "stop" for statement in self.statements)

    @property
    def verdict(self) -> str:
        """The last line of the page."""
        stopping = [statement for statement in self.statements if statement.severity == "stop"]
        if stopping:
            return f"This file must not leave. Failed checks: {len(stopping)}."
        if not self.checked:
            return "The data were not checked, so a rule may be broken. Name them: --data."
        doubts = sum(statement.severity == "look" for statement in self.statements)
        if doubts:
            points = "one point" if doubts == 1 else f"{doubts} points"
            return f"No rule is broken. Look at {points} before you release it."
        if dict(self.facts).get("status") == RELEASED:
            return "No rule is broken, and it was released already."
        return "No rule is broken. It may leave once somebody approves it."

    def __str__(self) -> str:
        marks = {"fine": " ", "look": "?", "stop": "✗"}
        topics = [*dict(self.facts), *(statement.topic for statement in self.statements)]
        width = max(map(len, topics), default=0)
        facts = [f"  {name:<{width}}  {value}" for name, value in self.facts]
        lines = [f"{marks[one.severity]} {one.topic:<{width}}  {one.text}" for one in self.statements]
        return "\n".join([self.title, "", *facts, *([""] if facts else []), *lines, "", self.verdict])


def preview(
    posterior: Posterior,
    data: Any = None,
    *,
    rules: Rules | None = None,
    manifest: Manifest | None = None,
    ledger: Ledger | None = None,
    members: Sequence[str] = (),
    persons: Any = None,
    others: Sequence[Posterior] = (),
    made: Made = "fit",
) -> Preview:
    """What a posterior would reveal if its file left the site.

    Args:
        data: the site's data; without them only the file itself is checked.
        rules: the disclosure rules; default: those of the manifest, or the usual ones.
        members: keyed digests of the persons, see `person_digests`.
        persons: a name or number per observation, if persons may have several observations.
        others: posteriors of other sites, to show what a merge with them would reveal.
        made: how the file was made: by a "fit" of these data alone, in a later "round", or "on top" of earlier data.

    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(200, 1)) + 10.0 * rng.integers(2, size=(200, 1))
    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> page = db.disclosure.preview(model.fit(points, rng=1).posterior, points)
    >>> page.may_leave
    True
    """
    model = model_for(posterior.structure)
    rules = rules or (manifest.rules if manifest is not None and manifest.rules is not None else Rules())
    statements = [*about_file(posterior, manifest)]
    if data is None:
        statements.append(Statement("your data", NOT_CHECKED, "look"))
        statements += about_merge(model, posterior, others)
        return Preview(title_of(model, manifest), tuple(statements), facts=facts_of(model, manifest), checked=False)
    people = Persons.of(persons).checked(model.count(data))
    sizes = sizes_of(model, posterior, data, people)
    exposed = exposure(model, posterior, data, rng=0, persons=people)
    statements += about_origin(model, posterior, data, manifest, made, members)
    statements += about_size(model, model.count(data), people, rules, made)
    statements += about_components(model, sizes, rules, made)
    statements += [*about_columns(model, data, rules, people), *about_words(model, posterior, data, rules, people)]
    statements += about_moves(model, posterior, data, rules, people)
    statements += [*about_persons(exposed), *about_releases(posterior, manifest, ledger, members, rules)]
    statements += about_merge(model, posterior, others)
    return Preview(
        title_of(model, manifest),
        tuple(statements),
        sizes,
        exposed.deviations,
        exposed.membership,
        rare_things(model, data, rules, people),
        facts_of(model, manifest),
        least_persons(model, rules),
    )


def facts_of(model: Model, manifest: Manifest | None) -> tuple[tuple[str, str], ...]:
    """The manifest's values for people, without empty ones."""
    if manifest is None:
        return ()
    left_out = ", ".join(f"{rows:,} ({reason})" for reason, rows in (manifest.left_out or {}).items())
    approved = f"{manifest.approver}{', signed' if manifest.signature else ', not signed'}" if manifest.released else ""
    lines = {
        "site": manifest.site,
        "date": manifest.date,
        "model": model.usual_name,
        "rows used": f"{manifest.rows:,}{of_persons(manifest)}",
        "rows left out": left_out or "none",
        "rules": "none" if manifest.rules is None else in_words(manifest.rules),
        "software": manifest.software,
        "posterior": manifest.posterior[:12],
        "status": RELEASED if manifest.released else "draft",
        "approved by": approved,
        "reason": manifest.reason,
    }
    return tuple((name, value) for name, value in lines.items() if value)


def of_persons(manifest: Manifest) -> str:
    """The number of persons behind the rows, if it is known."""
    column = f", identified by column '{manifest.person}'" if manifest.person else ""
    return f" of {manifest.persons:,} persons{column}" if 0 < manifest.persons < manifest.rows or column else ""


def in_words(rules: Rules) -> str:
    return (
        f"no category or component of fewer than {rules.least_cell} persons, no word of fewer than "
        f"{rules.least_documents} documents, no file of fewer than {rules.least_observations} persons, at least "
        f"{rules.rows_per_coefficient:g} persons per coefficient, at most {rules.most_levels} categories per column"
    )


def title_of(model: Model, manifest: Manifest | None) -> str:
    site = f", site {manifest.site}" if manifest is not None and manifest.site else ""
    rows = f", {manifest.rows:,} rows" if manifest is not None and manifest.rows else ""
    kind = model.usual_name
    return f"{kind[:1].upper()}{kind[1:]}{site}{rows}"


def about_file(posterior: Posterior, manifest: Manifest | None) -> Iterator[Statement]:
    numbers = sum(prior.size for prior in posterior.structure.prior.values()) + len(posterior.halves)
    yield Statement("the file holds", f"{numbers:,} numbers: sums over records, no record itself")
    if manifest is None:
        yield Statement("made by", "unknown: the file has no manifest, so nobody can check its rules", "look")
        return
    if manifest.posterior != posterior.digest:
        yield Statement("manifest", "is about another posterior: the file was changed after it was made", "stop")
    if manifest.rules is None:
        yield Statement("rules", "none: for public or made-up data only", "look")
    elif looser := manifest.rules.looser_than(Rules()):
        usual = ", ".join(
            f"{name} {getattr(manifest.rules, name)} (usually {getattr(Rules(), name)})" for name in looser
        )
        yield Statement("rules", f"looser than the usual ones: {usual}", "look")
    for change in manifest.changed:
        yield Statement("hidden", change)
    for remark in posterior.remarks:
        if remark.kind == UNAGREED:
            yield Statement("not agreed", f"{remark.what} {remark.advice}", "look" if remark.is_warning else "fine")


def about_origin(
    model: Model, posterior: Posterior, data: Any, manifest: Manifest | None, made: Made, members: Sequence[str]
) -> Iterator[Statement]:
    rows = model.count(data)
    if manifest is not None and manifest.rows and manifest.rows != rows:
        text = f"{rows:,} rows, and the file was made from {manifest.rows:,}: they are not the data behind it"
        yield Statement("your data", text, "stop")
        return
    if manifest is not None and manifest.data and members:
        if manifest.data == digest_of(members):
            yield Statement("your data", "are those of the release, by their keyed digest")
        else:
            yield Statement("your data", "are not those of the release, by their keyed digest", "stop")
        return
    theirs = holds_sums_of(of_number(model, posterior), posterior, data, made)
    if theirs is None:
        yield Statement(
            "your data", "only their number was checked; the sums in such a file cannot be compared with them", "look"
        )
    elif theirs:
        yield Statement("your data", "they match the sums in the file")
    else:
        yield Statement("your data", "they do not match the sums in the file; name the data that were fitted", "stop")


def about_size(model: Model, rows: int, people: Persons, rules: Rules, made: Made) -> Iterator[Statement]:
    persons, counted = people.total(rows), f"{rows:,} {model.record}s, each counted as a person"
    try:
        check_size(persons, "persons", rules)
        text = counted if people.numbers is None else f"{persons:,} persons"
        text += BESIDE if made == "on top" else ""
        yield Statement("who is in it", f"{text}; at least {rules.least_observations} are needed")
        check_coefficients(model, persons, rules)
    except DecbayesError as error:
        yield Statement("who is in it", str(error), "stop")
    if model.terms_to_learn:
        text = f"{persons / model.terms_to_learn:.1f} ({rules.rows_per_coefficient:g} needed)"
        yield Statement("persons per coefficient", text)


def sizes_of(model: Model, posterior: Posterior, data: Any, persons: Persons) -> Array:
    if not posterior.structure.symmetry:
        return np.empty(0)
    coupled = posterior.structure.symmetry[0]
    return persons_in(of_number(model, posterior), posterior, coupled, posterior, data, persons)


def about_components(model: Model, sizes: Array, rules: Rules, made: Made) -> Iterator[Statement]:
    shown = sizes[sizes > 0.5]
    if not len(shown):
        return
    least = least_persons(model, rules)
    few = shown.min() < least - 0.5
    remedy = "; fit fewer components" if few else ""
    text = f"{shown.min():.0f} persons{WITH if made == 'on top' else ''} ({least:g} needed{remedy})"
    yield Statement(f"smallest {model.noun}", text, "stop" if few else "fine")


def about_persons(exposed: Exposure) -> Iterator[Statement]:
    if exposed.membership is not None:
        given = "given one record that was used and one that was not, a reader picks the right one"
        text = f"{given} in {exposed.membership:.0%} of cases (chance: 50 %)"
        yield Statement("membership", text, "look" if exposed.membership > TELLS_MEMBERS else "fine")
    if len(exposed.deviations):
        count = int((exposed.deviations > STANDS_OUT).sum())
        text = f"without one of them the result moves by up to {digits(exposed.deviations[0], 2)} posterior deviations"
        text += f"; {count} of {len(exposed.deviations)} tried move it by more than {STANDS_OUT:g}" if count else ""
        yield Statement("single persons", text, "look" if count else "fine")


def about_releases(
    posterior: Posterior, manifest: Manifest | None, ledger: Ledger | None, members: Sequence[str], rules: Rules
) -> Iterator[Statement]:
    if ledger is None:
        return
    entries = ledger.entries()
    if not entries:
        yield Statement("earlier releases", f"none in the ledger that was read, {ledger.path.name}")
        return
    last = entries[-1]
    if last.posterior == posterior.digest:
        yield Statement("earlier releases", f"this file was released on {last.date} by {last.approver}")
        return
    alike = [entry for entry in entries if entry.members and manifest is not None and entry.model == manifest.model]
    rows = 0 if manifest is None else manifest.rows
    near = [entry for entry in entries if entry not in alike and 0 < abs(entry.rows - rows) < rules.least_cell]
    if near:
        many = "1 release has" if len(near) == 1 else f"{len(near)} releases have"
        text = f"{many} nearly as many rows. If these are the same persons, both files show the few others"
        yield Statement("other models", text, "look")
    if not members or not alike:
        why = "all of other models, which are not compared with this one" if members else "name the data to compare"
        yield Statement("earlier releases", f"{len(entries)}, the last on {last.date}; {why}")
        return
    apart = min(difference(members, entry.members) for entry in alike)
    few = 0 < apart < rules.least_cell
    yield Statement(
        "earlier releases",
        f"{len(alike)} of this model; the nearest differs by {apart} {'person' if apart == 1 else 'persons'}"
        + (f", whom both files together would show. Wait for {rules.least_cell} changes" if few else ""),
        "stop" if few else "fine",
    )


def about_merge(model: Model, posterior: Posterior, others: Sequence[Posterior]) -> Iterator[Statement]:
    if not others:
        text = "these sums plus those of other sites. Anyone who has all other files can subtract them"
        text += f"; a {model.noun} that only you have is shown as it is" if posterior.structure.symmetry else ""
        yield Statement("the merge shows", text)
        return
    alignment = align([posterior, *others])
    for coupled in posterior.structure.symmetry:
        single = alone(alignment, coupled)[0] & seen(alignment, coupled)[0]
        text = f"the sums of {len(others) + 1} files"
        if single.any():
            only = model.nouns(int(single.sum()))
            text += f"; in none of the others, and therefore shown as in your file: {only} of yours"
        yield Statement("the merge shows", text, "look" if single.any() else "fine")
    if not posterior.structure.symmetry:
        yield Statement("the merge shows", f"the sums of {len(others) + 1} files")
