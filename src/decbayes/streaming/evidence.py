"""Evidence taken out of a posterior: cavities, and what a refit has added to its prior."""

from decbayes.merging.agreement import common_structure
from decbayes.posterior import Posterior


def difference(posterior: Posterior, other: Posterior) -> Posterior:
    """λ0 + (λ − λ_other): the evidence in one posterior that is not in the other.

    The *cavity* of an agent is merged minus its own contribution; what an agent publishes after a refit is the new
    posterior minus that cavity.
    """
    structure = common_structure([posterior, other])
    return Posterior(
        structure, {name: posterior.contribution[name] - other.contribution[name] for name in structure.families}
    )
