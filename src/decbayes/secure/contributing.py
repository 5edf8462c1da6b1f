"""What a site adds to a sum: first its fit in the anchor's slots, then refits against the sum of all others.

    c_i ← fit(data_i, prior = λ0 + Σ_j c_j − c_i, start = λ0 + Σ_j c_j) − prior

A refit needs only the sum and the site's own part in it.
"""

from typing import Any

import numpy as np

from decbayes.base.arguments import Seed, generator
from decbayes.disclosure.drafting import drafted
from decbayes.disclosure.manifest import Manifest
from decbayes.disclosure.rules import Rules
from decbayes.merging import product
from decbayes.models.core.ascent import OnPass
from decbayes.models.core.evaluation import to_predict
from decbayes.models.core.model import Model
from decbayes.models.core.persons import Persons
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior
from decbayes.secure.anchored import Share, in_slots
from decbayes.updates import Update, without

USUAL = Rules()


def contribution(
    data: Any,
    before: Posterior,
    own: Posterior | None = None,
    *,
    rng: Seed,
    model: Model | None = None,
    rules: Rules | None = USUAL,
    persons: Any = None,
    damping: float = 1.0,
    held_back: Any = None,
    progress: OnPass | None = None,
    **context: Any,
) -> tuple[Share, Manifest]:
    """What a site adds in the next round, under disclosure rules as for files, and the manifest of such a file.

    Args:
        data: the site's data; under rules, as `db.disclosure.prepared` returns them.
        before: the previous round's merge; in the first round the anchor.
        own: the site's part in that merge; None in the first round, in which the data are fitted alone and the
            components moved into the anchor's slots.
        model: the model, if its settings are not the usual ones.
        rules: the disclosure rules; None for public or made-up data.
        persons: a name or number per observation, if persons may have several observations.
        damping: the fraction of the way that a refit goes.
        held_back: data that the site has kept out of `data`; from the second round on, their score goes into the sum.
        progress: called after each pass of a fit.
        context: further fields of the manifest and the rules: `site`, `changed`, `left_out`, `person`, `frequency`.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> rng = np.random.default_rng(0)
    >>> anchor = model.fit(np.array([[-5.0], [5.0]]), rng=rng).posterior
    >>> points = rng.choice([-5.0, 5.0], size=(60, 1)) + rng.normal(size=(60, 1))
    >>> share, manifest = db.secure.contribution(points, anchor, rng=rng)
    >>> share.rows, share.posterior.mean("components").round().ravel().tolist()
    (60.0, [-5.0, 5.0])
    """
    fitted = (model or model_for(before.structure)).for_posterior(before)
    scores = {} if own is None or held_back is None else held_back_scores(fitted, before, own, held_back)
    if own is None:
        moved, others = in_slots(fitted.fit(data, rng=rng, progress=progress).posterior, before), None
        belief = moved
    else:
        least = 0 if rules is None else rules.least_documents
        before, own = evened(fitted, before, own, data, least, Persons.of(persons))
        others = without(before, own)
        update = Update(fitted, damping=damping)
        moved = update.relearn(data, own, before, rng=generator(rng), progress=progress)
        belief = product([moved, others])
    kept, manifest = drafted(moved, data, rules, persons=persons, belief=belief, others=others, **context)
    units = float(np.sum(fitted.units(data)))
    return Share(kept, float(manifest.rows), float(manifest.persons), units, **scores), manifest


def held_back_scores(model: Model, merged: Posterior, previous: Posterior, held_back: Any) -> dict[str, float]:
    """The fields of a `Share` on how the merge, and the site's own part in it, predict held-back data."""
    if not model.count(held_back):
        return {}
    given, asked = to_predict(model, held_back)
    together, alone = (np.asarray(model.log_predictive(one, given, asked)) for one in (merged, previous))
    sums = {"score": together, "alone": alone, "squares": (together - alone) ** 2}
    totals = {name: float(np.sum(values)) for name, values in sums.items()}
    return {"held": float(np.sum(model.units(given, asked))), **totals}


def evened(
    model: Model, merged: Posterior, previous: Posterior, data: Any, least: int, persons: Persons
) -> tuple[Posterior, Posterior]:
    """The merge and the site's part with rare words made alike, for a refit that cannot tell them apart."""
    if not least:
        return merged, previous
    site, others = model.rare_evened([previous, without(merged, previous)], data, least, persons)
    return product([site, others]), site
