"""Beyond the paper: merges with slots to spare for components that only some agents have found."""

from collections.abc import Sequence

from decbayes.merging import merge, pad
from decbayes.posterior import Posterior
from paper.amps import MATCHED

WIDER = 3  # slots for each component of an agent
WIDE_AMPS = "AMPS, 3K slots"


def merged_wider(posteriors: Sequence[Posterior]) -> Posterior:
    structure = posteriors[0].structure
    (coupled,) = structure.symmetry
    slots = WIDER * structure.components(coupled)
    return merge((pad(posterior, slots) for posterior in posteriors), solver=MATCHED)
