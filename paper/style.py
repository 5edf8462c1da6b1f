"""How the paper's figures look beyond the style of all pictures: their widths, and how they are saved."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN, FULL = 3.4, 7.0  # widths in inches of one and of both columns of a paper


def save(figure: "Figure", folder: Path, name: str) -> tuple[Path, Path]:
    """NAME.png for pages and NAME.svg for papers."""
    picture, drawing = folder / f"{name}.png", folder / f"{name}.svg"
    figure.savefig(picture, dpi=200)
    figure.savefig(drawing, metadata={"Date": None})
    return picture, drawing
