"""Extrapolation of slowly converging rounds (Anderson acceleration).

A round takes the merged λ_r to λ_r + ρ_r. Near the fixed point a mix of earlier rounds, with weights that add up to 1,
moves by the same mix of their ρ. The weights with the smallest move follow from numbers that all sites know:

    minimise Σ_rs w_r w_s ⟨ρ_r, σ_s⟩   with   Σ_r w_r = 1,   σ_s = ∇A(λ_s + ρ_s) − ∇A(λ_s)

⟨ρ_r, σ_r⟩ is the symmetric divergence of one round. Each site mixes its own contributions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from decbayes.errors import InvalidPosterior
from decbayes.families import Array
from decbayes.merging import product
from decbayes.posterior import Posterior
from decbayes.updates.update import without

Sites = Sequence[Posterior]

# Step lengths towards the mix, tried until one is valid and no worse than the round alone.
PARTS = (1.0, 0.5, 0.25)
# Added to the divergences of rounds, relative to the largest, so that rounding differences are ignored.
LEAST = 1e-10


@dataclass
class Extrapolation:
    """The latest rounds, the current one and at most `most` before: all sites' posteriors before and after each."""

    most: int
    rounds: list[tuple[Sites, Sites]] = field(default_factory=list)

    def followed(self, before: Sites, after: Sites, bound: Callable[[Posterior], float]) -> list[Posterior]:
        """The sites after a round: a mix of rounds if its bound is no lower, else the result of the round."""
        self.rounds = [*self.rounds, (before, after)][-self.most - 1 :]
        if len(self.rounds) < 2:
            return list(after)
        weights, round_bound = self.weights(), bound(product(after))
        alone = np.append(np.zeros(len(weights) - 1), 1.0)
        for part in PARTS:
            mix = self.mixed(alone + part * (weights - alone))
            if mix is not None and bound(product(mix)) >= round_bound:
                return mix
        return list(after)

    def weights(self) -> Array:
        """The mix of rounds that moves least."""
        moves = [steps(product(before), product(after)) for before, after in self.rounds]
        cross = np.array([[natural @ mean for _, mean in moves] for natural, _ in moves])
        cross = 0.5 * (cross + cross.T) + LEAST * cross.diagonal().max() * np.eye(len(cross))
        solved = np.linalg.lstsq(cross, np.ones(len(cross)), rcond=None)[0]
        total = float(solved.sum())
        return np.asarray(solved / total) if total > 0.0 else np.append(np.zeros(len(solved) - 1), 1.0)

    def mixed(self, weights: Array) -> list[Posterior] | None:
        """Each site's mix of its contributions after the rounds; None if a site or a cavity would be invalid."""
        after = [sites for _, sites in self.rounds]
        try:
            sites = [mix(site, weights) for site in zip(*after, strict=True)]
            merged = product(sites)
            for site in sites:
                without(merged, site)
        except InvalidPosterior:
            return None
        return sites


def steps(before: Posterior, after: Posterior) -> tuple[Array, Array]:
    """ρ and σ of all factors: the changes of natural parameters and means in a round."""
    families = before.structure.families.items()
    natural = [np.ravel(after.natural[name] - before.natural[name]) for name, _ in families]
    mean = [
        np.ravel(family.expected_statistics(after.natural[name]) - family.expected_statistics(before.natural[name]))
        for name, family in families
    ]
    return np.concatenate(natural), np.concatenate(mean)


def mix(posteriors: Sequence[Posterior], weights: Array) -> Posterior:
    """Σ w c of some contributions of one site."""
    structure = posteriors[0].structure
    parts = {
        name: sum(weight * posterior.contribution[name] for weight, posterior in zip(weights, posteriors, strict=True))
        for name in structure.families
    }
    return Posterior(structure, parts)
