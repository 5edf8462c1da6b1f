"""Numbers that are pixels, as grey images."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from decbayes.arguments import check_kind
from decbayes.errors import InvalidData
from decbayes.families import Array
from decbayes.models.core.points import as_numbers
from decbayes.plot.style import PALE, bare, grid, new_axes, styled
from decbayes.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GAP = 0.12  # of an image's width, between images
Range = tuple[float, float]


@styled()
def features(posterior: Posterior, shape: tuple[int, int], *, across: int = 5, factor: str = "features") -> "Figure":
    """The mean of every feature, or of every component of another factor, as a grey image of that height and width.

    Greys are those of `images`.
    """
    check_kind(Posterior, posterior=posterior)
    expected, *_ = posterior.structure.families[factor].quantities(posterior.mean(factor)).values()
    pictures = as_images(expected, shape)
    figure, panels = grid(len(pictures), across, width=1.1, height=1.1 * shape[0] / shape[1] + 0.25)
    for number, (axes, picture) in enumerate(zip(panels, pictures, strict=True)):
        draw_image(axes, picture, (0, 0), contrast(picture, signed=bool((pictures < 0).any())), "gray")
        axes.set(title=str(number), xticks=[], yticks=[])
        bare(axes)
    return figure


@styled()
def images(
    rows: Mapping[str, ArrayLike],
    shape: tuple[int, int],
    *,
    limits: Range | None = None,
    cmap: Any = "gray",
    axes: "Axes | None" = None,
) -> "Axes":
    """A line of images of that height and width for each name, to compare what several posteriors have found.

    Each image has its own contrast, so that faint ones are seen as well: black is zero, or mid grey where there are
    negative numbers. `limits` are the numbers of the first and the last grey, if these are to be the same for all.
    """
    lines = {name: as_images(values, shape) for name, values in rows.items()}
    signed = any(bool((line < 0).any()) for line in lines.values())
    height, width = shape[0] + GAP * shape[1], (1 + GAP) * shape[1]
    longest = max(map(len, lines.values()))
    axes = axes if axes is not None else new_axes(0.8 + 0.6 * longest, 0.1 + 0.6 * len(lines) * height / width)
    for down, line in enumerate(lines.values()):
        for across, picture in enumerate(line):
            greys = limits if limits is not None else contrast(picture, signed=signed)
            draw_image(axes, picture, (down * height, across * width), greys, cmap)
    axes.set(xlim=(-1, longest * width), ylim=(len(lines) * height, -1), xticks=[])
    axes.set_yticks([down * height + shape[0] / 2 for down in range(len(lines))], list(lines))
    axes.set_anchor("W")  # names are at the left: there must be no slack between them and the images
    bare(axes)
    return axes


def draw_image(axes: "Axes", picture: Array, corner: tuple[float, float], greys: Range, cmap: Any) -> None:
    """One image with its upper left corner there, in a thin frame: a white edge would be lost on a white page."""
    (top, left), (height, width) = corner, picture.shape
    right, bottom = left + width, top + height
    axes.imshow(picture, extent=(left, right, bottom, top), cmap=cmap, vmin=greys[0], vmax=greys[1])
    axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], color=PALE, linewidth=0.5)


def as_images(values: ArrayLike, shape: tuple[int, int]) -> Array:
    """(images, height, width), if the numbers fit."""
    flat = as_numbers(values)
    if flat.ndim != 2:
        raise InvalidData(f"Images are the rows of a matrix; the shape is {flat.shape}.")
    check_shape(flat.shape[1], shape)
    return flat.reshape(-1, *shape)


def check_shape(numbers: int, shape: tuple[int, int]) -> None:
    height, width = shape
    if min(shape) < 1 or numbers != height * width:
        raise InvalidData(
            f"There are {numbers:,} numbers per image, but {height} × {width} pixels (height × width) are "
            f"{height * width:,}."
        )


def contrast(picture: Array, *, signed: bool) -> Range:
    """The numbers that are black and white: nearly all of the image's own, zero being mid grey, or black."""
    limit = float(np.quantile(np.abs(picture), 0.99)) or 1.0
    return (-limit if signed else 0.0), limit
