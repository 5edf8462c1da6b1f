"""The options of `decbayes merge`: how to align, which priors topics get, what to print and draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.types import NonNegativeInt

from decbayes import merging, plot
from decbayes.base.arguments import given
from decbayes.cli.shared.match_confidence import component_number, match_probabilities, overlaps_from, solver_named
from decbayes.cli.shared.outputs import DPI, Dpi, check_picture, save_picture
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import messages
from decbayes.cli.shared.terminal import output as results
from decbayes.errors import InvalidStructure
from decbayes.merging.base.problem import SOLVERS, Solver
from decbayes.posterior import Posterior
from decbayes.views import view_of

if TYPE_CHECKING:
    from decbayes.merging import Alignment, Confidence

TOP_WORDS = 10


@Parameter(name="*")
@dataclass(frozen=True)
class Aligning:
    """How to align components."""

    components: Annotated[
        str | None,
        Parameter(
            help="Number of components of the merge; 'auto' to estimate it; 'largest' for that of the largest site. "
            "Default: for mixtures and classes as many as predict well, at least 'largest'; otherwise 'largest'."
        ),
    ] = None
    since: Annotated[
        Path | None, Parameter(help="An earlier merge: components that are found again keep their ids and numbers.")
    ] = None
    solver: Annotated[
        str | None,
        Parameter(
            help=f"How to align: {', '.join(SOLVERS)}. 'grouping' may put several components of a site into one slot; "
            "the others put one into each. Default: 'matching' for features, 'quadratic' for states, else 'grouping'."
        ),
    ] = None
    restarts: Annotated[
        NonNegativeInt | None, Parameter(help="Additional starts of --solver matching; default: depends on the size.")
    ] = None
    naive: Annotated[bool, Parameter(help="Add components as they are labelled, without alignment.")] = False
    robust: Annotated[
        bool,
        Parameter(
            help="Count copies once, and sites that clearly disagree with most others little or not at all. Prints "
            "which these are, and why."
        ),
    ] = False

    @property
    def chosen_solver(self) -> Solver | None:
        return solver_named(self.solver, self.restarts)

    def check(self, display: "Display") -> None:
        """Refuse options that contradict each other, before anything is read."""
        if self.naive and (display.requested or self.since or self.components):
            raise WrongArgument("--naive skips the alignment that the other options need. Leave --naive out.")
        if self.robust and (self.naive or self.since or display.confidence or display.overlap):
            raise WrongArgument(
                "--robust does not go with --naive, --since, --confidence or --overlap. Leave these out."
            )
        if self.restarts is not None and self.solver != "matching":
            raise WrongArgument("--restarts is for --solver matching.")
        component_number(self.components)
        solver_named(self.solver, self.restarts)


@Parameter(name="*")
@dataclass(frozen=True)
class TopicPriors:
    """Priors that all topics get before the merge; None keeps those of the sites."""

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

    def apply(self, posteriors: Sequence[Posterior]) -> list[Posterior]:
        """The posteriors with these priors; prints a learned prior."""
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


@Parameter(name="*")
@dataclass(frozen=True)
class Display:
    """What to print and draw."""

    explain: Annotated[
        bool, Parameter(help="Print which component went into which slot, and which sites support it.")
    ] = False
    picture: Annotated[Path | None, Parameter(help="Write a picture of the alignment (.png, .svg, .pdf).")] = None
    tree: Annotated[
        Path | None, Parameter(help="Write a picture of the tree of all components (.png, .svg, .pdf).")
    ] = None
    dpi: Dpi = DPI
    confidence: Annotated[
        bool | None,
        Parameter(
            negative="--no-confidence",
            help="Simulate sites like these to estimate how likely each match is right. Default: with --explain, if "
            "that takes only seconds.",
        ),
    ] = None
    overlap: Annotated[
        list[Path] | None,
        Parameter(help="Files from `decbayes overlap`, which sharpen these probabilities.", consume_multiple=True),
    ] = None
    as_json: Annotated[
        bool,
        json_option(
            "slot", "slot", "id", "caption", "observations", "unit", "duplicates", "unlike", "times_chance",
            "by_chance", "sites", "and for topics telling",
        ),
    ] = False  # fmt: skip

    @property
    def requested(self) -> bool:
        return any((self.explain, self.picture, self.tree, self.confidence, self.overlap, self.as_json))

    def check(self, inputs: Sequence[Path]) -> None:
        """Refuse pictures that cannot be drawn, before the work begins."""
        for picture in (self.picture, self.tree):
            check_picture(picture, *inputs)

    def overlaps(self, posteriors: Sequence[Posterior]) -> Sequence[Any] | None:
        """The overlaps that sites reported, if any."""
        return overlaps_from(self.overlap, posteriors) if self.overlap else None

    def present(
        self,
        alignment: "Alignment",
        merged: Posterior,
        names: list[str],
        overlaps: Sequence[Any] | None,
        solver: Solver | None,
        length: float | None,
    ) -> None:
        requested = self.confidence if self.explain or self.overlap else bool(self.confidence)
        confidence = match_probabilities(alignment, requested, overlaps, solver, length)
        self.draw(alignment, names, confidence)
        if self.explain:
            from decbayes.cli.commands.everyday._explanation import explain
            from decbayes.cli.shared.topic_quality import remarks_on

            explain(alignment, merged, names, confidence, solver)
            for line in remarks_on(merged, TOP_WORDS):
                results().print(line)
        if self.as_json:
            from decbayes.cli.commands.everyday._explanation import shared_rows

            quality = view_of(merged.structure).quality(merged, top=TOP_WORDS)
            for row in shared_rows(alignment, names, confidence):
                print_json(row | ({} if quality is None else {"telling": quality.telling[row["slot"]]}))

    def draw(self, alignment: "Alignment", names: list[str], confidence: "Confidence | str") -> None:
        if self.picture is not None:
            known = confidence if isinstance(confidence, merging.Confidence) else None
            save_picture(plot.alignment(alignment, names=names, confidence=known).figure, self.picture, self.dpi)
        if self.tree is not None:
            save_picture(plot.tree(merging.tree(alignment.posteriors), names=names).figure, self.tree, self.dpi)


AS_USUAL, AS_FITTED, NOTHING = Aligning(), TopicPriors(), Display()
