"""Align the components of sites and estimate how likely each match is right."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes import calibration, merging
from decbayes.base.arguments import given
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.terminal import alignment_progress, messages
from decbayes.errors import InvalidFile, NotCalibrated, StructureMismatch
from decbayes.files import load
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.problem import SOLVERS, Number, Solver, checked_solver
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.merging import Alignment, Confidence, Reliability

SIMULATED = 100
OVERLAPS = "decbayes overlap 1"


def match_probabilities(
    alignment: "Alignment",
    requested: bool | None,
    overlaps: Sequence[Any] | None,
    solver: Solver | None,
    length: float | None = None,
) -> "Confidence | str":
    """The probability that each match is right, or the reason why it is unknown."""
    if requested is False:
        return "probabilities were not asked for, or the merge is robust or of a round."
    if requested is None and not calibration.quick(alignment):
        return calibration.why_unknown(alignment) or "simulations take a while. --confidence asks for them."
    try:
        with messages().status("simulating sites like these"):
            reliability = calibration.reliability(alignment, solver=solver, matches=SIMULATED, length=length)
            return merging.confidence(alignment, reliability, overlaps)
    except NotCalibrated as error:
        return str(error)


def document_length(rows: Sequence[int] | None, alignment: "Alignment") -> float | None:
    """The mean document length, for topics whose files give their numbers of documents (`rows`)."""
    from decbayes.views import Findings

    return Findings(alignment, ("",) * len(rows or ()), rows=None if rows is None else tuple(rows)).length


def margin_reliability(alignment: "Alignment") -> "Reliability":
    """How reliable margins are at such sites, if simulating them is quick."""
    if not calibration.quick(alignment):
        raise NotCalibrated("Simulations of so much data take a while.")
    return calibration.reliability(alignment, matches=SIMULATED)


def align_posteriors(
    posteriors: list[Posterior], components: str | None, since: Path | None, solver: Solver | None
) -> "Alignment":
    """Align posteriors after putting their columns into one order; `since` is the file of an earlier merge."""
    earlier = None
    if since is not None:
        *posteriors, earlier = same_columns([*posteriors, load(since)])
    with alignment_progress(len(posteriors)) as progress:
        return merging.align(
            posteriors, components=component_number(components), solver=solver, since=earlier, progress=progress
        )


def with_earlier_ids(alignment: "Alignment", since: Path | None) -> "Alignment":
    """The same slots with the ids of an earlier merge."""
    if since is None:
        return alignment
    _, earlier = same_columns([alignment.posteriors[0], load(since)])
    return alignment.since(earlier)


def component_number(components: str | None) -> Number:
    if components is None or components in ("auto", "largest"):
        return components  # type: ignore[return-value]
    if not components.isdecimal() or int(components) < 1:
        raise WrongArgument("--components must be an integer above 0, 'auto' or 'largest'.")
    return int(components)


def solver_named(name: str | None, restarts: int | None) -> Solver | None:
    """The registered solver of this name; None selects the model's default."""
    if name is not None and name not in SOLVERS:
        raise WrongArgument(f"--solver is one of {', '.join(SOLVERS)}, not {name!r}.")
    return checked_solver(name, **given(restarts=restarts))


def overlaps_from(paths: Sequence[Path], posteriors: Sequence[Posterior]) -> list[Any]:
    """Each posterior's overlaps; None if there is no file for it."""
    by_digest: dict[str, Any] = dict(map(read_overlaps, paths))
    if len(by_digest) < len(paths):
        raise StructureMismatch("Two files of overlaps are about one posterior: give one for each site.")
    unknown = by_digest.keys() - {posterior.digest for posterior in posteriors}
    if unknown:
        raise StructureMismatch(
            f"{len(unknown)} of the files of overlaps are about a posterior that is not merged here."
        )
    return [by_digest.get(posterior.digest) for posterior in posteriors]


def read_overlaps(path: Path) -> tuple[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        shares = np.array(content["overlaps"], dtype=np.float64)
        if content["format"] != OVERLAPS or shares.ndim != 1 or not ((shares >= 0.0) & (shares <= 1.0)).all():
            raise ValueError(OVERLAPS)
        return str(content["posterior"]), shares
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidFile(f"{path} is not a file that `decbayes overlap` writes.") from None
