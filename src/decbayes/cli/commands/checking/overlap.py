"""`decbayes overlap`: how much of each of a site's components everybody else knows under the slot it was put into."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from decbayes.cli.shared.outputs import check_output
from decbayes.cli.shared.terminal import messages
from decbayes.errors import InvalidFile, StructureMismatch
from decbayes.files import load, write_whole
from decbayes.merging import align
from decbayes.merging.base.agreement import same_columns
from decbayes.models.core.registry import model_for
from decbayes.posterior import Posterior

FORMAT = "decbayes overlap 1"


def overlap(
    data: Annotated[Path, Parameter(help="This site's data, in any format that `decbayes fit` reads.")],
    own: Annotated[Path, Parameter(help="This site's posterior.")],
    others: Annotated[list[Path], Parameter(negative="", help="The posteriors of all other sites.")],
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"], help="Where to write the overlaps, a small JSON file.")],
    columns: Annotated[
        str, Parameter(help="Columns to use, separated by commas; default: those of the posterior.")
    ] = "",
) -> None:
    """Write one number per component: the share of its data that the other sites' merge gives to its slot."""
    from decbayes.calibration import overlap as computed

    check_output(output, data, own, *others)
    if not others:
        raise StructureMismatch("Name the posteriors of the other sites after this site's own.")
    read = same_columns([load(path) for path in (own, *others)])
    model = model_for(read[0].structure)
    observations = model.read(data, columns=columns, report=messages().print)
    with messages().status("comparing"):
        shares = computed(model, align(read), 0, observations)
    content = {"format": FORMAT, "posterior": read[0].digest, "overlaps": [round(float(each), 4) for each in shares]}
    write_whole(output, json.dumps(content).encode())
    shown = ", ".join(f"{k}: {share:.0%}" for k, share in enumerate(shares))
    messages().print(f"{output}: {shown}")


def overlaps_from(paths: Sequence[Path], posteriors: Sequence[Posterior]) -> list[Any]:
    """What the files say of each posterior; None of those that no file is about."""
    found: dict[str, Any] = dict(map(read_overlaps, paths))
    unknown = found.keys() - {posterior.digest for posterior in posteriors}
    if unknown:
        raise StructureMismatch(
            f"{len(unknown)} of the files of overlaps are about a posterior that is not merged here."
        )
    return [found.get(posterior.digest) for posterior in posteriors]


def read_overlaps(path: Path) -> tuple[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is not '{FORMAT}'")
        shares = np.array(content["overlaps"], dtype=np.float64)
        if shares.ndim != 1 or not ((shares >= 0.0) & (shares <= 1.0)).all():
            raise ValueError("overlaps are shares from 0 to 1")
        return str(content["posterior"]), shares
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidFile(f"{path} is not a file that `decbayes overlap` writes ({error}).") from None
