"""How sites' components are aligned, and how sure each match is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decbayes import calibration, merging
from decbayes.base.arguments import given
from decbayes.cli.shared.running import WrongArgument
from decbayes.cli.shared.terminal import aligning, messages
from decbayes.errors import InvalidFile, NotCalibrated, StructureMismatch
from decbayes.files import load
from decbayes.merging.base.compatibility import same_columns
from decbayes.merging.base.problem import SOLVERS, Number, Solver, checked_solver
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from decbayes.merging import Alignment, Confidence, Reliability

SIMULATED = 100
OVERLAPS = "decbayes overlap 1"


def how_sure(
    alignment: "Alignment",
    wanted: bool | None,
    reported: Sequence[Any] | None,
    solver: Solver | None,
    length: float | None = None,
) -> "Confidence | str":
    """The probability of each match, or why there is none."""
    if wanted is False:
        return "they were not asked for."
    if wanted is None and not calibration.quick(alignment):
        return "simulations take a while. --confidence asks for them."
    try:
        with messages().status("simulating sites like these"):
            learned = calibration.reliability(alignment, solver=solver, matches=SIMULATED, length=length)
            return merging.confidence(alignment, learned, reported)
    except NotCalibrated as error:
        return str(error)


def document_length(rows: Sequence[int] | None, alignment: "Alignment") -> float | None:
    """The mean length of documents, if these are topics and files say how many documents (`rows`) are behind them."""
    from decbayes.views import Findings

    return Findings(alignment, ("",) * len(rows or ()), rows=None if rows is None else tuple(rows)).length


def learned(alignment: "Alignment") -> "Reliability":
    """The reliability of margins at such sites, if simulations are quick."""
    if not calibration.quick(alignment):
        raise NotCalibrated("Simulations of so much data take a while.")
    return calibration.reliability(alignment, matches=SIMULATED)


def aligned(
    posteriors: list[Posterior], components: str | None, since: Path | None, solver: Solver | None
) -> "Alignment":
    """Posteriors with their columns in one order, aligned; `since` is the file of an earlier merge."""
    earlier = None
    if since is not None:
        *posteriors, earlier = same_columns([*posteriors, load(since)])
    with aligning(len(posteriors)) as progress:
        return merging.align(
            posteriors, components=number_of(components), solver=solver, since=earlier, progress=progress
        )


def followed(alignment: "Alignment", since: Path | None) -> "Alignment":
    """The same slots, with the ids of an earlier merge."""
    if since is None:
        return alignment
    _, earlier = same_columns([alignment.posteriors[0], load(since)])
    return alignment.since(earlier)


def number_of(components: str | None) -> Number:
    if components is None or components in ("auto", "largest"):
        return components  # type: ignore[return-value]
    if not components.isdecimal() or int(components) < 1:
        raise WrongArgument("--components must be an integer above 0, 'auto' or 'largest'.")
    return int(components)


def solver_named(name: str | None, restarts: int | None) -> Solver | None:
    """The registered solver of that name; None for the model's default."""
    if name is not None and name not in SOLVERS:
        raise WrongArgument(f"--solver is one of {', '.join(SOLVERS)}, not {name!r}.")
    return checked_solver(name, **given(restarts=restarts))


def overlaps_from(paths: Sequence[Path], posteriors: Sequence[Posterior]) -> list[Any]:
    """The overlaps for each posterior; None if no file is about it."""
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
