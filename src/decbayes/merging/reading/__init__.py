"""Functions of an alignment: margins, probabilities of matches, support, influence, groups, heterogeneity."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.merging.reading._coefficients import KNOWN as KNOWN
    from decbayes.merging.reading._coefficients import NOTABLE as NOTABLE
    from decbayes.merging.reading._coefficients import RANK as RANK
    from decbayes.merging.reading._coefficients import Chances as Chances
    from decbayes.merging.reading._coefficients import Coefficients as Coefficients
    from decbayes.merging.reading._coefficients import of_coefficients as of_coefficients
    from decbayes.merging.reading._coefficients import ranks as ranks
    from decbayes.merging.reading._confidence import DOUBTFUL as DOUBTFUL
    from decbayes.merging.reading._confidence import Confidence as Confidence
    from decbayes.merging.reading._confidence import Curve as Curve
    from decbayes.merging.reading._confidence import Reliability as Reliability
    from decbayes.merging.reading._confidence import confidence as confidence
    from decbayes.merging.reading._confidence import features as features
    from decbayes.merging.reading._halves import capped as capped
    from decbayes.merging.reading._halves import number_of_halves as number_of_halves
    from decbayes.merging.reading._halves import widened as widened
    from decbayes.merging.reading._halves import widened_each as widened_each
    from decbayes.merging.reading._heterogeneity import Chance as Chance
    from decbayes.merging.reading._heterogeneity import Heterogeneity as Heterogeneity
    from decbayes.merging.reading._heterogeneity import Spread as Spread
    from decbayes.merging.reading._heterogeneity import of_components as of_components
    from decbayes.merging.reading._heterogeneity import rows_of as rows_of
    from decbayes.merging.reading._heterogeneity import spread_of_components as spread_of_components
    from decbayes.merging.reading._influence import AGAINST as AGAINST
    from decbayes.merging.reading._influence import DISAGREES as DISAGREES
    from decbayes.merging.reading._influence import Influence as Influence
    from decbayes.merging.reading._influence import dissent as dissent
    from decbayes.merging.reading._influence import influence as influence
    from decbayes.merging.reading._margins import CLOSE as CLOSE
    from decbayes.merging.reading._margins import losses as losses
    from decbayes.merging.reading._margins import margins as margins
    from decbayes.merging.reading._parties import Parties as Parties
    from decbayes.merging.reading._parties import Party as Party
    from decbayes.merging.reading._parties import parties as parties
    from decbayes.merging.reading._proofs import grouping_bound as grouping_bound
    from decbayes.merging.reading._proofs import proven as proven
    from decbayes.merging.reading._proofs import upper_bound as upper_bound
    from decbayes.merging.reading._support import alone as alone
    from decbayes.merging.reading._support import fillings as fillings
    from decbayes.merging.reading._support import observations as observations
    from decbayes.merging.reading._support import seen as seen
    from decbayes.merging.reading._support import support as support
    from decbayes.merging.reading._support import thin as thin
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            "._coefficients": "KNOWN NOTABLE RANK Chances Coefficients of_coefficients ranks",
            "._confidence": "DOUBTFUL Confidence Curve Reliability confidence features",
            "._halves": "capped number_of_halves widened widened_each",
            "._heterogeneity": "Chance Heterogeneity Spread of_components rows_of spread_of_components",
            "._influence": "AGAINST DISAGREES Influence dissent influence",
            "._margins": "CLOSE losses margins",
            "._parties": "Parties Party parties",
            "._proofs": "grouping_bound proven upper_bound",
            "._support": "alone fillings observations seen support thin",
        },
    )
