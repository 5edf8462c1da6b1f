"""After a fit: components and words that too few persons have are hidden in what leaves the site."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from decbayes.disclosure.rules import Rules
from decbayes.families import Array, dense
from decbayes.merging.base.components import group_evidence
from decbayes.merging.base.products import AssignedSums
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.symmetry import CoupledSet


@dataclass(frozen=True)
class Guarded:
    """A posterior that obeys disclosure rules, and what was changed for it."""

    posterior: Posterior
    changed: tuple[str, ...] = ()


def guarded(
    model: Model,
    posterior: Posterior,
    data: Any,
    rules: Rules,
    *,
    frequency: Any = None,
    belief: Posterior | None = None,
    before: Posterior | None = None,
) -> Guarded:
    """The posterior without components, features and words that too few persons have.

    A component that too few have joins the one it is most like; a feature is left out. Words that too few documents
    have share their counts with all other rare and absent words.

    Args:
        model: what was fitted.
        posterior: its posterior of the data.
        data: the data.
        rules: what may leave the site.
        frequency: how frequent each word is, from a public source.
        belief: the posterior that says who belongs to which component, if not this one: that of all sites.
        before: the posterior of earlier data that this one holds as well.

    >>> points = np.append(np.random.default_rng(0).normal(size=100), [50.0, 51.0])
    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1000.0)
    >>> posterior = model.fit(points, rng=1).posterior
    >>> safe = db.disclosure.guarded(model, posterior, points, db.disclosure.Rules())
    >>> sorted(safe.posterior.contribution["weights"][:, 0].round().tolist())
    [0.0, 102.0]
    """
    model = of_number(model, posterior)
    result, changed = posterior, []
    least = max(float(rules.least_cell), rules.rows_per_coefficient * model.terms_to_learn)
    for coupled in posterior.structure.symmetry:
        presence = model.presence(belief or posterior, data)
        presence = presence if before is None else presence + group_evidence(before, coupled.factors)
        small = presence < least - 1e-6
        if len(small) != posterior.structure.components(coupled) or not (small & (presence > 1e-6)).any():
            continue
        result = joined(result, coupled, small) if model.joins else left_out(result, coupled, small)
        verb = "join others" if model.joins else "are left out"
        changed.append(f"{(small & (presence > 0.5)).sum()} {model.noun}s that fewer than {least:g} have {verb}.")
    added = result if before is None else minus(result, before)
    hidden = model.rare_hidden(added, data, rules.least_documents, frequency)
    if hidden is not added:
        result = hidden if before is None else plus(hidden, before)
        changed.append(f"Words that fewer than {rules.least_documents} documents have share their counts.")
    return Guarded(result, tuple(changed))


def of_number(model: Model, posterior: Posterior) -> Model:
    """The model with as many components as the posterior has."""
    known = model.for_posterior(posterior)
    return known if known.structure == posterior.structure else model_for(posterior.structure)


def minus(posterior: Posterior, before: Posterior) -> Posterior:
    """What new data have added."""
    parts = {name: part - before.contribution[name] for name, part in posterior.contribution.items()}
    return replace(posterior, contribution=parts)


def plus(posterior: Posterior, before: Posterior) -> Posterior:
    parts = {name: part + before.contribution[name] for name, part in posterior.contribution.items()}
    return replace(posterior, contribution=parts)


def joined(posterior: Posterior, coupled: CoupledSet, small: Any) -> Posterior:
    """Each small component in the slot of a larger one that it is most like; its own slot stays empty."""
    slots = np.arange(len(small))
    if small.all():
        slots[:] = 0
    else:
        gain = likeness(posterior, coupled.factors)
        gain[:, small] = -np.inf
        slots[small] = gain[small].argmax(axis=1)
    sums = AssignedSums(posterior.structure)
    sums.add(posterior, {coupled: slots, **others(posterior, coupled)})
    return replace(posterior, contribution=sums.contributions())


def others(posterior: Posterior, coupled: CoupledSet) -> dict[CoupledSet, Any]:
    """Components of other coupled sets stay where they are."""
    structure = posterior.structure
    return {each: np.arange(structure.components(each)) for each in structure.symmetry if each != coupled}


def likeness(posterior: Posterior, factors: Sequence[str]) -> Array:
    """(K, K): how much better two components are explained as one: A(λ0 + c + d) − A(λ0 + c) − A(λ0 + d)."""
    structure = posterior.structure
    total = np.zeros((len(structure.prior[factors[0]]),) * 2)
    for name in factors:
        family, prior = structure.families[name], structure.prior[name][:1]
        if family.follows or family.over_components:
            continue
        rows = dense(posterior.contribution[name])
        alone = family.defined_terms(prior + rows)
        pairs = np.array([family.defined_terms(prior + rows + row) for row in rows])
        total += np.nan_to_num(pairs - alone - alone[:, None], nan=-np.inf)
    return total


def left_out(posterior: Posterior, coupled: CoupledSet, small: Any) -> Posterior:
    """Small components say nothing at all."""
    parts = {name: dense(posterior.contribution[name]) * ~small[:, None] for name in coupled.factors}
    return replace(posterior, contribution={**posterior.contribution, **parts})
