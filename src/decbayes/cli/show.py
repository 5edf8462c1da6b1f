"""`decbayes show`: what a posterior file says."""

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from decbayes.cli.describe import describe
from decbayes.cli.terminal import output, plain
from decbayes.errors import DecbayesError
from decbayes.files import load
from decbayes.models.features import LatentFeatures
from decbayes.models.lda import LatentDirichletAllocation
from decbayes.models.mixture import GaussianMixture
from decbayes.models.registry import model_for
from decbayes.posterior import Posterior


def show(
    posterior: Annotated[Path, Parameter(help="A posterior file.")],
    /,
    *,
    top: Annotated[
        int, Parameter(validator=Number(gte=1), help="How many words, or other entries, of each component.")
    ] = 10,
    picture: Annotated[Path | None, Parameter(help="Also draw it into this file (.png, .svg, .pdf).")] = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="One JSON object a parameter.")] = False,
) -> None:
    """Print a posterior: topics with their words, a mixture's means, features as images."""
    read = load(posterior)
    if picture is not None:
        save_picture(draw(read), picture)
    if as_json:
        for row in read.summary(top=top):
            print(json.dumps(row))
        return
    structure = read.structure
    console = output()
    settings = ", ".join(
        f"{key} {value}" for key, value in structure.model.items() if key != "name" and value is not None
    )
    name = structure.model.get("name") or "A model without a name"
    console.print(plain(f"{name} ({settings or 'no settings'})"))
    console.print(f"structure {structure.fingerprint[:12]}, posterior {read.digest[:12]}", style="dim")
    console.print(describe(read, top=top))


def draw(posterior: Posterior) -> Any:
    """The figure that suits the posterior's model."""
    from decbayes import plot

    model = model_for(posterior.structure)
    if isinstance(model, LatentDirichletAllocation):
        return plot.topics(posterior)
    if isinstance(model, GaussianMixture):
        return plot.mixture(posterior).figure
    if isinstance(model, LatentFeatures):
        side = round(model.dimension**0.5)
        return plot.features(posterior, (side, side))
    raise DecbayesError(f"There is no picture for {type(model).__name__}; decbayes.plot has the parts.")


def save_picture(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:
        raise DecbayesError(f"{path}: {error}") from None
