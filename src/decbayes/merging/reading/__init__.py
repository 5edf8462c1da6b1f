"""What an alignment says: margins, confidence, who shares what, influence, heterogeneity, lineage."""

from decbayes.merging.reading.confidence import Confidence, Reliability
from decbayes.merging.reading.heterogeneity import Heterogeneity
from decbayes.merging.reading.influence import Influence
from decbayes.merging.reading.lineage import Event, Lineage, follow
from decbayes.merging.reading.shared import Shared

__all__ = [
    "Confidence",
    "Event",
    "Heterogeneity",
    "Influence",
    "Lineage",
    "Reliability",
    "Shared",
    "follow",
]
