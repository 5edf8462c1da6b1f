"""Effects of covariates of documents, such as date, author or newspaper, on their shares of topics."""

from typing import TYPE_CHECKING

from decbayes.base.lazily import exported

if TYPE_CHECKING:
    from decbayes.models.covariates.document_likelihood import Documents as Documents
    from decbayes.models.covariates.effect_messages import FORMAT as FORMAT
    from decbayes.models.covariates.effect_messages import Message as Message
    from decbayes.models.covariates.effect_messages import Plan as Plan
    from decbayes.models.covariates.topic_effects import Effects as Effects
    from decbayes.models.covariates.topic_effects import effects as effects
else:
    __getattr__, __all__ = exported(
        __name__,
        {
            ".topic_effects": "Effects effects",
            ".document_likelihood": "Documents",
            ".effect_messages": "FORMAT Message Plan",
        },
    )
