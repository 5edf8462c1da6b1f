"""Pictures of posteriors, alignments and networks, in one style.

A function draws on the axes it is given, or on those of a new figure, and returns them; `topics`, `classes`,
`states` and `features` make a figure of several panels and return that.
"""

from decbayes.plot._alignment import alignment as alignment
from decbayes.plot._calibration import calibration as calibration
from decbayes.plot._classes import classes as classes
from decbayes.plot._images import features as features
from decbayes.plot._images import images as images
from decbayes.plot._mixture import mixture as mixture
from decbayes.plot._network import network as network
from decbayes.plot._simplex import simplex as simplex
from decbayes.plot._states import states as states
from decbayes.plot._topics import topics as topics
from decbayes.plot._tree import tree as tree

__all__ = [
    "alignment",
    "calibration",
    "classes",
    "features",
    "images",
    "mixture",
    "network",
    "simplex",
    "states",
    "topics",
    "tree",
]
