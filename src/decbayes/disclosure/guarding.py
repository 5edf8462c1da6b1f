"""After a fit: hide components and words of too few persons in what leaves the site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.disclosure.rules import Rules
from decbayes.errors import InvalidData, NotDisclosed
from decbayes.families import Array, dense
from decbayes.merging.base.components import group_evidence
from decbayes.merging.base.products import AssignedSums
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.remarks import RULES, Remark, Severity
from decbayes.structure import CoupledSet, Structure

# A fraction of a person that is only rounding.
NEARLY = 1e-6
# Joining small components is worth a warning if the site's data lose more than this, in nats per observation, in a
# sample of this many.
COSTLY, MOST_ROWS = 0.05, 2000
CHANGED = "Changed by the disclosure rules"
JOINED = "Components that took others in are wider and further off than they should be, and rare ones are not shown."
MISSING = "What is left out is not shown, although some persons have it."


@dataclass(frozen=True)
class Guarded:
    """A posterior that obeys disclosure rules, and what was changed to achieve that."""

    posterior: Posterior
    changed: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    """What readers of results should know about the changes."""


def guarded(
    model: Model,
    posterior: Posterior,
    data: Any,
    rules: Rules,
    *,
    frequency: Any = (),
    belief: Posterior | None = None,
    others: Posterior | None = None,
    before: Posterior | None = None,
    persons: Any = None,
) -> Guarded:
    """The posterior without components, features and words of too few persons.

    A small component is joined to the most similar one; a small feature is left out. Words of too few documents share
    their counts with all other rare and absent words.

    Args:
        frequency: the number of documents with each word, from a public source.
        belief: the posterior that assigns observations to components, if not this one: that of all sites.
        others: the merge of all other sites, whose topics decide how rare words share their counts.
        before: the posterior of earlier data, which this one includes.
        persons: a name or number per observation, if persons may have several observations.

    >>> points = np.append(np.random.default_rng(0).normal(size=100), [50.0, 51.0])
    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1000.0)
    >>> posterior = model.fit(points, rng=1).posterior
    >>> safe = db.disclosure.guarded(model, posterior, points, db.disclosure.Rules())
    >>> sorted(safe.posterior.contribution["weights"][:, 0].round().tolist())
    [0.0, 102.0]
    """
    model, people = of_number(model, posterior), Persons.of(persons)
    # Others can subtract the file of the earlier data, so the new data must obey the rules by themselves.
    result, changed, remarks = posterior if before is None else minus(posterior, before), [], []
    least = least_persons(model, rules)
    for coupled in posterior.structure.symmetry:
        presence = persons_in(model, result, coupled, belief or posterior, data, people)
        if len(presence) == posterior.structure.components(coupled):
            result, slots, small = without_small(model, result, coupled, presence, least, before)
            cells, result = result, without_rare_cells(model, result, belief or posterior, data, slots, rules, people)
            if small:
                changed.append(components_in_words(model, small, least, people))
                severity: Severity = "warning" if is_costly(model, posterior, cells, data, before) else "note"
                remarks.append(
                    Remark(RULES, f"{CHANGED}: {changed[-1]}", JOINED if model.joins else MISSING, severity=severity)
                )
            if result is not cells:
                changed.append(f"Moves of fewer than {rules.least_cell} persons share their counts with others.")
    hidden = model.rare_hidden(result, data, rules.least_documents, frequency, others, people)
    if hidden is not result:
        changed.append(f"Words that fewer than {rules.least_documents} documents have share their counts.")
    if not changed:
        return Guarded(posterior)
    # Halves of the rows are of persons who are not shown, too.
    safe = replace(hidden if before is None else plus(hidden, before), halves=())
    return Guarded(safe, tuple(changed), tuple(remarks))


def least_persons(model: Model, rules: Rules) -> float:
    """The fewest persons that a component needs."""
    return max(float(rules.least_cell), rules.rows_per_coefficient * model.terms_to_learn)


def persons_in(
    model: Model, added: Posterior, coupled: CoupledSet, belief: Posterior, data: Any, persons: Persons = EACH
) -> Array:
    """The number of persons behind each component: as the file states it, if its numbers count persons."""
    if model.joins and model.unit == "observation" and persons.numbers is None:
        return group_evidence(added, coupled.factors)
    empty = np.all([np.abs(dense(added.contribution[name])).sum(axis=1) < NEARLY for name in coupled.factors], axis=0)
    presence = model.presence(belief, data, persons)
    return np.where(empty, 0.0, presence) if len(presence) == len(empty) else presence


def of_number(model: Model, posterior: Posterior) -> Model:
    """The model with as many components as the posterior has."""
    known = model.for_posterior(posterior)
    return known if known.structure == posterior.structure else model_for(posterior.structure)


def minus(posterior: Posterior, before: Posterior) -> Posterior:
    """The contribution of the new data alone."""
    parts = {name: part - before.contribution[name] for name, part in posterior.contribution.items()}
    return replace(posterior, contribution=parts)


def plus(posterior: Posterior, before: Posterior) -> Posterior:
    parts = {name: part + before.contribution[name] for name, part in posterior.contribution.items()}
    return replace(posterior, contribution=parts)


def without_small(
    model: Model, posterior: Posterior, coupled: CoupledSet, presence: Array, least: float, before: Posterior | None
) -> tuple[Posterior, NDArray[np.intp], int]:
    """The posterior without small components, the slot of each component, and the number of small ones."""
    small, slots = (presence < least - NEARLY) & (presence > NEARLY), np.arange(len(presence))
    if not small.any():
        return posterior, slots, 0
    if not model.joins:
        return left_out(posterior, coupled, small), slots, int(small.sum())
    slots = slots_after_joining(posterior, coupled.factors, presence, least, before)
    return moved_to_slots(posterior, coupled, slots), slots, int(small.sum())


def is_costly(model: Model, posterior: Posterior, joined: Posterior, data: Any, before: Posterior | None) -> bool:
    """Whether the site's data are predicted clearly worse since small components have joined others."""
    if model.unit == "word":
        return False
    rows = np.linspace(0, model.count(data) - 1, min(model.count(data), MOST_ROWS)).astype(np.intp)
    some = model.taken(data, rows)
    scores = [model.score(one, some) for one in (posterior, joined if before is None else plus(joined, before))]
    return bool(scores[0] - scores[1] > COSTLY)


def components_in_words(model: Model, number: int, least: float, persons: Persons) -> str:
    """A sentence on what happened to small components: of few documents, if nobody knows whose these are."""
    whose = "persons" if persons.numbers is not None or model.record == "observation" else f"{model.record}s"
    verb = ("joins another", "join others") if model.joins else ("is left out", "are left out")
    return f"{model.nouns(number)} of fewer than {least:g} {whose} {verb[number > 1]}."


def without_rare_cells(
    model: Model, posterior: Posterior, belief: Posterior, data: Any, slots: Any, rules: Rules, persons: Persons
) -> Posterior:
    try:
        return model.cells_hidden(posterior, belief, data, slots, rules.least_cell, persons)
    except InvalidData as error:
        raise NotDisclosed(f"{error}.") from None


def moved_to_slots(posterior: Posterior, coupled: CoupledSet, slots: NDArray[np.intp]) -> Posterior:
    """The posterior with components moved to these slots; the slots that they leave are empty."""
    structure = posterior.structure
    unchanged = {other: np.arange(structure.components(other)) for other in structure.symmetry if other != coupled}
    sums = AssignedSums(structure)
    sums.add(posterior, {coupled: slots, **unchanged})
    return replace(posterior, contribution=sums.contributions())


def slots_after_joining(
    posterior: Posterior, factors: Sequence[str], presence: Array, least: float, before: Posterior | None
) -> NDArray[np.intp]:
    """The slot of each component if small ones, smallest first, join the most similar one until none is left."""
    slots, sizes = np.arange(len(presence)), presence.copy()
    structure = posterior.structure
    rows = {name: dense(posterior.contribution[name]).copy() for name in distinguishing_factors(structure, factors)}
    earlier = {
        name: structure.prior[name] + (0.0 if before is None else dense(before.contribution[name])) for name in rows
    }
    while True:
        filled = sizes > NEARLY
        small = np.flatnonzero(filled & (sizes < least - NEARLY))
        if not len(small) or filled.sum() < 2:
            return slots
        one = small[sizes[small].argmin()]
        gain = joining_gain(structure, {name: earlier[name] + parts for name, parts in rows.items()}, rows, one)
        gain[~filled], gain[one] = -np.inf, -np.inf
        other = int(gain.argmax())
        slots[slots == one] = other
        sizes[other], sizes[one] = sizes[other] + sizes[one], 0.0
        for parts in rows.values():
            parts[other], parts[one] = parts[other] + parts[one], 0.0


def distinguishing_factors(structure: Structure, factors: Sequence[str]) -> list[str]:
    names = [name for name in factors if not structure.families[name].follows]
    return [name for name in names if not structure.families[name].over_components] or names


def joining_gain(structure: Structure, slots: Mapping[str, Array], rows: Mapping[str, Array], component: int) -> Array:
    """(slots,): how well each slot explains a component, A(λ_j + c_k) − A(λ_j)."""
    total = np.zeros(len(next(iter(slots.values()))))
    for name, natural in slots.items():
        family = structure.families[name]
        gained = family.defined_terms(natural + rows[name][component]) - family.defined_terms(natural)
        total += np.nan_to_num(gained, nan=-np.inf)
    return total


def left_out(posterior: Posterior, coupled: CoupledSet, small: Any) -> Posterior:
    """The posterior without the contributions of small components."""
    parts = {name: dense(posterior.contribution[name]) * ~small[:, None] for name in coupled.factors}
    return replace(posterior, contribution={**posterior.contribution, **parts})
