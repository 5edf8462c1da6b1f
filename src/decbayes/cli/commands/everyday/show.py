"""`decbayes show`: what a posterior file says."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.types import PositiveInt

from decbayes.cli.shared.describe import SMALLEST_IMAGE, Shape, known_model, square, table_of
from decbayes.cli.shared.outputs import DPI, Dpi, check_picture, save_picture
from decbayes.cli.shared.posterior_files import support_tables
from decbayes.cli.shared.streams import json_option, print_json
from decbayes.cli.shared.terminal import output, plain
from decbayes.cli.shared.topic_quality import Counts, remarks_on
from decbayes.errors import DecbayesError, InvalidData
from decbayes.files import load, load_note
from decbayes.models.core.model import Model
from decbayes.models.core.registry import model_for
from decbayes.plot._images import check_shape
from decbayes.posterior import Posterior

PARAMETER = ("factor", "component", "quantity", "entry", "mean", "deviation", "lower", "upper", "uncertainty")


def show(
    posterior: Annotated[Path, Parameter(help="A posterior file.")],
    /,
    *,
    top: Annotated[PositiveInt, Parameter(help="Number of words, or other entries, per component.")] = 10,
    picture: Annotated[Path | None, Parameter(help="Also draw it into this file (.png, .svg, .pdf).")] = None,
    dpi: Dpi = DPI,
    shape: Annotated[
        Shape | None,
        Parameter(help="Height and width of images: show features, or the means of a mixture, as images.", negative=""),
    ] = None,
    counts: Counts = None,
    as_json: Annotated[bool, json_option("parameter", *PARAMETER)] = False,
) -> None:
    """Print a posterior: topics with their words, a mixture's means, features as images; and of a merge its sites."""
    check_picture(picture, posterior)
    read = load(posterior)
    if shape is not None:
        check_images(read, shape)
    if picture is not None:
        save_picture(draw(read, shape), picture, dpi)
    if as_json:
        print_json(*read.summary(top=top))
        return
    console, remarks = output(), remarks_on(read, top, counts)
    print_header(read)
    for line in remarks:
        console.print(line)
    console.print(table_of(read, top=top, shape=shape or visible_square(read)))
    for table in support_tables(read, load_note(posterior)):
        console.print(table)


def print_header(posterior: Posterior) -> None:
    """The model and its settings, the fingerprints, and how uncertainty was found."""
    console, structure = output(), posterior.structure
    settings = ", ".join(
        f"{key} {value}"
        for key, value in structure.model.items()
        if key != "name" and isinstance(value, str | float | int)
    )
    name = structure.model.get("name") or "A model without a name"
    console.print(plain(f"{name} ({settings or 'no settings'})"))
    console.print(f"structure {structure.fingerprint[:12]}, posterior {posterior.digest[:12]}", style="dim")
    console.print(f"uncertainty: {posterior.uncertainty}", style="dim")


def visible_square(posterior: Posterior) -> Shape | None:
    """The shape of features that nobody said to be images: a few numbers are better read as numbers."""
    model = known_model(posterior)
    if model is None or model.view != "images" or width_of(model, posterior) < SMALLEST_IMAGE:
        return None
    return square(width_of(model, posterior))


def check_images(posterior: Posterior, shape: Shape) -> None:
    """Only what has numbers for pixels can be an image, and there must be as many."""
    model = model_for(posterior.structure)
    if model.view not in ("points", "images"):
        kind = type(model).__name__
        raise InvalidData(f"--shape is for features and for mixtures of images; this posterior is of {kind}.")
    check_shape(width_of(model, posterior), shape)


def width_of(model: Model, posterior: Posterior) -> int:
    """How many numbers a component's mean has."""
    return int(np.size(model.describe(posterior)[0]["mean"]))


def draw(posterior: Posterior, shape: Shape | None) -> Any:
    """The figure that suits the posterior's model."""
    from decbayes import plot

    model = model_for(posterior.structure)
    if model.view == "words":
        return plot.topics(posterior)
    if model.view == "images":
        return plot.features(posterior, shape or square_or_told(width_of(model, posterior)))
    if model.view in ("classes", "states"):
        return plot.classes(posterior)
    if model.view == "points" and shape is not None:
        return plot.features(posterior, shape, factor="components")
    if model.view == "points":
        return plot.mixture(posterior).figure
    raise DecbayesError(f"decbayes does not draw {type(model).__name__}; the functions of decbayes.plot may help.")


def square_or_told(numbers: int) -> Shape:
    side = square(numbers)
    if side is None:
        raise InvalidData(f"{numbers:,} pixels do not make a square image. Give its shape: --shape HEIGHT WIDTH.")
    return side
