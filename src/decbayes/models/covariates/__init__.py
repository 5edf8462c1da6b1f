"""Effects of covariates of documents, such as date, author or newspaper, on their shares of topics."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.models.covariates._effects import Effects as Effects
    from decbayes.models.covariates._effects import effects as effects
    from decbayes.models.covariates.documents import Documents as Documents
    from decbayes.models.covariates.messages import FORMAT as FORMAT
    from decbayes.models.covariates.messages import Message as Message
    from decbayes.models.covariates.messages import Plan as Plan
else:
    __getattr__, __all__ = exported(
        __name__,
        {"._effects": "Effects effects", ".documents": "Documents", ".messages": "FORMAT Message Plan"},
    )
