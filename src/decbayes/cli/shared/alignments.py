"""What `decbayes merge` says and draws of an alignment, if asked."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from decbayes.cli.commands.checking.overlap import overlaps_from
from decbayes.cli.commands.checking.quality import quality_of, remarks_on
from decbayes.cli.shared.explain import print_alignment, print_differences, print_influence, shared_rows
from decbayes.cli.shared.outputs import DPI, Dpi, check_picture, save_picture
from decbayes.cli.shared.terminal import messages, output
from decbayes.errors import NotCalibrated
from decbayes.merging import Alignment, Confidence, Reliability, reading, tree
from decbayes.merging.base.problem import Solver
from decbayes.posterior import Posterior
from decbayes.reporting.remarks import differences

# Observations (or words) times components that are simulated and fitted again unasked: a matter of seconds.
QUICK = 100_000
SIMULATED = 100
TOP_WORDS = 10


@Parameter(name="*")
@dataclass(frozen=True)
class Telling:
    """What to print and to draw."""

    explain: Annotated[
        bool, Parameter(negative="", help="Print which component went into which slot, and which sites have it.")
    ] = False
    picture: Annotated[Path | None, Parameter(help="Draw the alignment into this file (.png, .svg, .pdf).")] = None
    tree: Annotated[
        Path | None, Parameter(help="Draw the tree of all components into this file (.png, .svg, .pdf).")
    ] = None
    dpi: Dpi = DPI
    confidence: Annotated[
        bool | None,
        Parameter(
            help="Simulate sites like these, to say how likely each match is right. Default: with --explain, where "
            "that takes seconds."
        ),
    ] = None
    overlap: Annotated[
        list[Path] | None,
        Parameter(negative="", help="Files of `decbayes overlap`, which make these probabilities sharper."),
    ] = None
    as_json: Annotated[
        bool,
        Parameter(name="--json", negative="", help="Print which sites have which component as JSON, one object each."),
    ] = False

    @property
    def asked(self) -> bool:
        return any((self.explain, self.picture, self.tree, self.confidence, self.overlap, self.as_json))

    def check(self, inputs: Sequence[Path]) -> None:
        """Refuse pictures that could not be drawn, before the work is done."""
        for drawn in (self.picture, self.tree):
            check_picture(drawn, *inputs)

    def reported(self, posteriors: Sequence[Posterior]) -> Sequence[Any] | None:
        """What sites say of overlaps."""
        return overlaps_from(self.overlap, posteriors) if self.overlap else None

    def tell(
        self,
        found: Alignment,
        merged: Posterior,
        names: list[str],
        reported: Sequence[Any] | None,
        solver: Solver | None,
    ) -> None:
        wanted = self.confidence if self.explain or self.overlap else bool(self.confidence)
        sure = how_sure(found, wanted, reported, solver)
        self.draw(found, names, sure)
        if self.explain:
            print_alignment(found, merged, names, sure)
            print_differences(differences(found))
            print_influence(found, names)
            for line in remarks_on(merged, TOP_WORDS):
                output().print(line)
        if self.as_json:
            quality = quality_of(merged, TOP_WORDS)
            for row in shared_rows(found, names, sure):
                print(json.dumps(row | ({} if quality is None else {"telling": list(quality.telling[row["slot"]])})))

    def draw(self, found: Alignment, names: list[str], sure: Confidence | str) -> None:
        from decbayes import plot

        if self.picture is not None:
            known = sure if isinstance(sure, Confidence) else None
            save_picture(plot.alignment(found, names=names, confidence=known).figure, self.picture, self.dpi)
        if self.tree is not None:
            save_picture(plot.tree(tree(found.posteriors), names=names).figure, self.tree, self.dpi)


def how_sure(
    found: Alignment, wanted: bool | None, reported: Sequence[Any] | None, solver: Solver | None
) -> Confidence | str:
    """The probability of each match, or why there is none."""
    from decbayes.calibration import reliability

    if wanted is False:
        return "they were not asked for."
    if wanted is None and not quick(found):
        return "simulations take a while. --confidence asks for them."
    try:
        with messages().status("simulating sites like these"):
            return reading.confidence(found, reliability(found, solver=solver, matches=SIMULATED), reported)
    except NotCalibrated as error:
        return str(error)


def quick(found: Alignment) -> bool:
    """Whether sites like these are simulated in seconds."""
    work = sum(
        own.sum() * len(own) for coupled in found.structure.symmetry for own in reading.observations(found, coupled)
    )
    return bool(work <= QUICK)


def learned(found: Alignment) -> Reliability:
    """What margins are worth at such sites, where simulations are quick."""
    from decbayes.calibration import reliability

    if not quick(found):
        raise NotCalibrated("Simulations of so much data take a while.")
    return reliability(found, matches=SIMULATED)
