"""Results as plain values, for all renderers: the page, reports, pictures, notebooks and the command line.

A model names its view (`Model.view`). The view describes each component in a few kinds of values (`values`): words,
images, points, profiles or entries of a table. Renderers know these kinds, but no model or factor by name.
`register` adds a view: one class in one file. `Findings` describe a whole merge.
"""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.views.findings import Findings as Findings
    from decbayes.views.findings import Sureness as Sureness
    from decbayes.views.values import Curve as Curve
    from decbayes.views.values import Entries as Entries
    from decbayes.views.values import Estimate as Estimate
    from decbayes.views.values import Image as Image
    from decbayes.views.values import Interval as Interval
    from decbayes.views.values import Matrix as Matrix
    from decbayes.views.values import Numbers as Numbers
    from decbayes.views.values import Point as Point
    from decbayes.views.values import Profile as Profile
    from decbayes.views.values import Shares as Shares
    from decbayes.views.values import Words as Words
    from decbayes.views.view import View as View
    from decbayes.views.view import register as register
    from decbayes.views.view import view_of as view_of
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".findings": "Findings Sureness",
            ".values": "Curve Entries Estimate Image Interval Matrix Numbers Point Profile Shares Words",
            ".view": "View register view_of",
        },
    )
