"""Pictures of posteriors, alignments and networks, in one style.

A function draws on the given axes, or on those of a new figure, and returns them; `components`, `topics`, `classes`,
`states`, `features` and `calibration` make a figure of several panels and return it. Save either with
`figure.savefig(path)`; axes have their figure as `axes.figure`.
"""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.plot._changes import changes as changes
    from decbayes.plot._components import classes as classes
    from decbayes.plot._components import components as components
    from decbayes.plot._components import features as features
    from decbayes.plot._components import images as images
    from decbayes.plot._components import mixture as mixture
    from decbayes.plot._components import states as states
    from decbayes.plot._components import topics as topics
    from decbayes.plot._curves import slots as slots
    from decbayes.plot._prevalence import prevalence as prevalence
    from decbayes.plot._probabilities import calibration as calibration
    from decbayes.plot._probabilities import simplex as simplex
    from decbayes.plot._sites import alignment as alignment
    from decbayes.plot._sites import network as network
    from decbayes.plot._sites import tree as tree
    from decbayes.plot._topic_effects import topic_effects as topic_effects
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            "._changes": "changes",
            "._components": "classes components features images mixture states topics",
            "._curves": "slots",
            "._prevalence": "prevalence",
            "._probabilities": "calibration simplex",
            "._sites": "alignment network tree",
            "._topic_effects": "topic_effects",
        },
    )
