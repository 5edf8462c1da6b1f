"""Intervals of a one-shot merge without another look at the data: leave out one site after the other."""

from dataclasses import replace

import numpy as np

from decbayes.arguments import check_kind
from decbayes.calibrated import Calibration
from decbayes.errors import NotCalibrated
from decbayes.families import Array
from decbayes.merging import Alignment
from decbayes.merging.alignment import LEAST_PER_PARAMETER
from decbayes.posterior import Posterior
from decbayes.updates.update import without

# Fewer sites say too little about how much they differ.
LEAST_SITES = 5


def jackknifed(alignment: Alignment) -> Posterior:
    """The merge of an alignment with the deviations that leaving out one site at a time shows.

        Var[θ] = (N − 1) / N · Σ_i (E[θ | all but i] − mean)²

    For posteriors that their sites fitted alone, at no further cost to anybody. Where sites are many and small it
    cannot work and is refused: refine first, then `calibrate`. Contributions that were refined have seen each other,
    and hide how much they would differ: `calibrate` those.
    """
    check_kind(Alignment, alignment=alignment)
    merged, sites = alignment.merged(), len(alignment.posteriors)
    check_sites(alignment)
    left_out = [without(merged, alignment.in_slots(site)) for site in range(sites)]
    deviations = {}
    for factor, family in merged.structure.families.items():
        plain = family.quantities(family.deviation(merged.natural[factor]))
        means = [family.quantities(posterior.mean(factor)) for posterior in left_out]
        deviations[factor] = {
            name: np.maximum(own, jackknife_deviation(np.array([values[name] for values in means])))
            for name, own in plain.items()
        }
    return replace(merged, calibration=Calibration(f"jackknife over {sites} sites", deviations))


def jackknife_deviation(left_out: Array) -> Array:
    """The standard deviation of an estimate, from what it is without each site in turn."""
    return np.asarray(np.sqrt(len(left_out) - 1) * left_out.std(axis=0))


def check_sites(alignment: Alignment) -> None:
    """Refuse too few sites, and sites that are too small to have found what all data together would show."""
    if len(alignment.posteriors) < LEAST_SITES:
        raise NotCalibrated(f"A jackknife needs {LEAST_SITES} sites or more. `calibrate` needs one.")
    for coupled in alignment.structure.symmetry:
        # Leaving such a site out does not show that its own fit is not where the fit of all data would have been.
        if (few := alignment.thin(coupled)) is not None:
            raise NotCalibrated(
                f"Sites have {few:.1f} observations per parameter of a component, fewer than the "
                f"{LEAST_PER_PARAMETER:g} that a jackknife needs. Refine first, then `calibrate`."
            )
