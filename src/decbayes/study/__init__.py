"""A study by files: a protocol in a folder, which files exist, which are missing, and whose turn it is."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.study.checks import check as check
    from decbayes.study.folder import Study as Study
    from decbayes.study.protocol import Protocol as Protocol
    from decbayes.study.whose_turn import Step as Step
    from decbayes.study.whose_turn import steps as steps
else:
    __getattr__, __all__ = exported(
        __name__, {".checks": "check", ".folder": "Study", ".protocol": "Protocol", ".whose_turn": "Step steps"}
    )
