"""Merging posteriors: align components, add contributions, and quantify how certain the result is.

Examples of this package and of solvers continue from these lines:

>>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
>>> rng = np.random.default_rng(0)
>>> sites = [model.fit(0.01 * n + np.array([[-9.0], [-8.0], [9.0]]), rng=rng).posterior for n in range(3)]
>>> alignment = db.align(sites)
>>> (coupled,) = alignment.structure.symmetry
"""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.files import Library as Library
    from decbayes.merging._merge import merge as merge
    from decbayes.merging._merge import objective as objective
    from decbayes.merging._tree import Tree as Tree
    from decbayes.merging._tree import tree as tree
    from decbayes.merging.aligning import align as align
    from decbayes.merging.alignment import Alignment as Alignment
    from decbayes.merging.alignment import remarks as remarks
    from decbayes.merging.base.compatibility import pad as pad
    from decbayes.merging.base.lineage import Event as Event
    from decbayes.merging.base.lineage import Lineage as Lineage
    from decbayes.merging.base.lineage import follow as follow
    from decbayes.merging.base.products import product as product
    from decbayes.merging.editing import drop as drop
    from decbayes.merging.editing import join as join
    from decbayes.merging.editing import name as name
    from decbayes.merging.editing import split as split
    from decbayes.merging.grouping.shared import Shared as Shared
    from decbayes.merging.matching import Symmetrized as Symmetrized
    from decbayes.merging.matching import symmetrize as symmetrize
    from decbayes.merging.reading import Confidence as Confidence
    from decbayes.merging.reading import Heterogeneity as Heterogeneity
    from decbayes.merging.reading import Influence as Influence
    from decbayes.merging.reading import Parties as Parties
    from decbayes.merging.reading import Party as Party
    from decbayes.merging.reading import Reliability as Reliability
    from decbayes.merging.reading import confidence as confidence
    from decbayes.merging.reading import fillings as fillings
    from decbayes.merging.reading import grouping_bound as grouping_bound
    from decbayes.merging.reading import influence as influence
    from decbayes.merging.reading import losses as losses
    from decbayes.merging.reading import margins as margins
    from decbayes.merging.reading import observations as observations
    from decbayes.merging.reading import parties as parties
    from decbayes.merging.reading import proven as proven
    from decbayes.merging.reading import support as support
    from decbayes.merging.reading import thin as thin
    from decbayes.merging.reading import upper_bound as upper_bound
    from decbayes.merging.robust import Robust as Robust
    from decbayes.merging.robust import RobustMerge as RobustMerge
    from decbayes.merging.robust import Standing as Standing
    from decbayes.merging.robust import robust_merge as robust_merge
    from decbayes.merging.robust import standings as standings
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            "decbayes.files": "Library",
            "._merge": "merge objective",
            "._tree": "Tree tree",
            ".aligning": "align",
            ".alignment": "Alignment remarks",
            ".base.compatibility": "pad",
            ".base.lineage": "Event Lineage follow",
            ".base.products": "product",
            ".editing": "drop join name split",
            ".grouping.shared": "Shared",
            ".matching": "Symmetrized symmetrize",
            ".reading": "Confidence Heterogeneity Influence Parties Party Reliability confidence fillings "
            "grouping_bound influence losses margins observations parties proven support thin upper_bound",
            ".robust": "Robust RobustMerge Standing robust_merge standings",
        },
    )
