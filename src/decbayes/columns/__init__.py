"""Columns of tables: what each holds, agreed upon across sites, and data frames of them in and out."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.columns._rare import OTHER as OTHER
    from decbayes.columns.categories import Categorical as Categorical
    from decbayes.columns.categories import YesNo as YesNo
    from decbayes.columns.column import Column as Column
    from decbayes.columns.comparing import unlike as unlike
    from decbayes.columns.frames import agree as agree
    from decbayes.columns.frames import coded as coded
    from decbayes.columns.frames import columns_of as columns_of
    from decbayes.columns.frames import declared as declared
    from decbayes.columns.frames import decoded as decoded
    from decbayes.columns.frames import plain as plain
    from decbayes.columns.kinds import KINDS as KINDS
    from decbayes.columns.kinds import Gaussian as Gaussian
    from decbayes.columns.kinds import Missing as Missing
    from decbayes.columns.kinds import Poisson as Poisson
    from decbayes.columns.kinds import register as register
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".categories": "Categorical YesNo",
            ".column": "Column",
            ".comparing": "unlike",
            ".frames": "agree coded columns_of declared decoded plain",
            ".kinds": "KINDS Gaussian Missing Poisson register",
            "._rare": "OTHER",
        },
    )
