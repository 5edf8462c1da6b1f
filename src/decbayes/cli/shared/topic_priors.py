"""`merge --topic-prior` and `--document-prior`: topics of sites whose priors differ, put on common ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from decbayes.arguments import given
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.terminal import messages
from decbayes.errors import InvalidStructure
from decbayes.posterior import Posterior


@Parameter(name="*")
@dataclass(frozen=True)
class TopicPriors:
    """The priors that all topics get before they are merged; None leaves them as they are."""

    topic_prior: Annotated[
        float | Literal["learn"] | None,
        Parameter(help="Common prior for sites whose topic priors differ, or 'learn' to find it."),
    ] = None
    document_prior: Annotated[float | None, Parameter(help="Common prior for sites whose document priors differ.")] = (
        None
    )

    @property
    def given(self) -> dict[str, Any]:
        return given(topic_prior=self.topic_prior, document_prior=self.document_prior)

    def applied(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        """The posteriors on these priors; a prior that is learned is printed."""
        if not self.given:
            return [*posteriors]
        from decbayes.models.topics.word_prior import shared_prior, with_priors

        try:
            moved = with_priors(posteriors, **self.given)
        except (ValueError, InvalidStructure) as error:
            raise WrongArgument(str(error)) from None
        if self.topic_prior == "learn":
            messages().print(f"topic prior {shared_prior(moved[0].structure):g}, learned from the topics of all sites")
        return moved


AS_FITTED = TopicPriors()
