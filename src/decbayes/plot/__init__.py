"""Pictures of posteriors, alignments and networks, in one style.

A function draws on the axes it is given, or on those of a new figure, and returns them; `topics` and `features` make a
figure of several panels and return that.
"""

from decbayes.plot.alignment import alignment as alignment
from decbayes.plot.images import features as features
from decbayes.plot.images import images as images
from decbayes.plot.mixture import mixture as mixture
from decbayes.plot.network import network as network
from decbayes.plot.simplex import simplex as simplex
from decbayes.plot.topics import topics as topics

__all__ = ["alignment", "features", "images", "mixture", "network", "simplex", "topics"]
