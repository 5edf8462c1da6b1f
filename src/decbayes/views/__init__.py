"""Results as plain values, for all renderers: the page, reports, pictures, notebooks and the command line.

A model names its view (`Model.view`). The view says what each component is in values of a few kinds (`values`): words,
images, points, profiles or entries of a table. Renderers know these kinds, and no model or factor by name.
`register` adds a view: one class in one file. `Findings` are the same for a whole merge.
"""

from decbayes.views.findings import Findings, Sureness
from decbayes.views.values import Entries, Estimate, Image, Interval, Matrix, Numbers, Point, Profile, Shares, Words
from decbayes.views.view import View, register, view_of

__all__ = [
    "Entries",
    "Estimate",
    "Findings",
    "Image",
    "Interval",
    "Matrix",
    "Numbers",
    "Point",
    "Profile",
    "Shares",
    "Sureness",
    "View",
    "Words",
    "register",
    "view_of",
]
