"""Pictures of posteriors, alignments and networks, in one style.

A function draws on the axes it is given, or on those of a new figure, and returns them; `components`, `topics`,
`classes`, `states`, `features` and `calibration` make a figure of several panels and return that. Save either with
`figure.savefig(path)`; axes have their figure as `axes.figure`.
"""

from decbayes.plot._components import classes, components, features, images, mixture, states, topics
from decbayes.plot._probabilities import calibration, simplex
from decbayes.plot._sites import alignment, network, tree

__all__ = [
    "alignment",
    "calibration",
    "classes",
    "components",
    "features",
    "images",
    "mixture",
    "network",
    "simplex",
    "states",
    "topics",
    "tree",
]
