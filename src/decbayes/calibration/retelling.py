"""What sites' fits say of common slots: data like theirs, divided by one posterior for all.

Where components overlap, fits of like data divide them differently and end in different places. So data are drawn from
each site's fit and divided by what all sites say together, with the site's own weights:

    c_i(λ) = n_i E[T(x) | λ],   x as the fit of site i describes them;   λ ← λ0 + Σ_i c_i(λ)

What sites then contribute differs as far as their data do: a comparison of it is a score test at λ, which is nearer to
one fit of all data than the merge is.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from decbayes.calibration.worlds import Setting, drawn_data, number_and_length, sharpened
from decbayes.families import Array, dense
from decbayes.merging import Alignment
from decbayes.models.core.ascent import Ascent
from decbayes.models.core.simulation import drawn_parameters
from decbayes.posterior import Posterior
from decbayes.structure import identity

# Data are drawn for so many observations of one, and so many at least: then it hardly matters which.
TIMES, LEAST_DRAWN = 5, 300
# How often data are divided, and the common posterior follows.
ROUNDS = 12
# Observations that each slot is given beside those of a site, so that none stays empty.
SOME = 0.5

Contributions = dict[str, Array]


def in_common_terms(setting: Setting) -> Setting:
    """The setting with what all sites say together as the truth; of topics the merge is, as documents are not known."""
    counted = any(family.countable for family in setting.families.values())
    return setting if counted else replace(setting, told=retold(setting))


def retold(setting: Setting) -> Alignment:
    """The alignment of what all sites' fits say of the slots of an alignment; the same for the same posteriors."""
    alignment, whole = setting.alignment, replace(setting, sites=(), most=np.inf, told=None)
    structure = alignment.structure
    model = replace(setting.of_structure(structure), ascent=Ascent(passes=1))
    rng = np.random.default_rng(int.from_bytes(setting.key[0][8:16], "little"))
    drawn = [described(whole, place, rng) for place in range(len(whole.chosen))]
    own = [name for name in setting.coupled.factors if structure.families[name].over_components]
    told = [parts_of(alignment.in_slots(site)) for site in whole.chosen]
    common = parts_of(alignment.merged())
    for _ in range(ROUNDS):
        for place, (data, times) in enumerate(drawn):
            belief = Posterior(structure, {**common, **{name: times * told[place][name] + SOME for name in own}})
            told[place] = parts_of(model.contributed(belief, data), 1.0 / times)
        common = {name: np.sum([each[name] for each in told], axis=0) for name in common}
    return in_common_slots(alignment, whole.chosen, told)


def described(setting: Setting, place: int, rng: np.random.Generator) -> tuple[Any, float]:
    """Data as a site's fit describes them, and how many times as many as it has."""
    posterior, (size, options) = setting.posteriors[place], number_and_length(setting, place)
    times = max(TIMES, -(-LEAST_DRAWN // (size * options.get("length", 1))))
    parameters = drawn_parameters(sharpened(posterior), rng)
    model = setting.of_structure(posterior.structure)
    return drawn_data(model, parameters, size * times, rng, options), float(times)


def parts_of(posterior: Posterior, scale: float = 1.0) -> Contributions:
    return {name: scale * dense(part) for name, part in posterior.contribution.items()}


def in_common_slots(alignment: Alignment, order: Sequence[int], told: Sequence[Contributions]) -> Alignment:
    structure = alignment.structure
    by_site = {site: Posterior(structure, each) for site, each in zip(order, told, strict=True)}
    stays = {coupled: identity(structure.components(coupled)) for coupled in structure.symmetry}
    posteriors = [by_site[site] for site in sorted(by_site)]
    return Alignment(tuple(stays for _ in posteriors), (), posteriors, alignment.order, structure)
