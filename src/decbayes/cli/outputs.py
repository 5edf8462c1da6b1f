"""Where results go: looked at before the work is done, so that nothing is lost after it."""

import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.types import PositiveInt

from decbayes.errors import DecbayesError
from decbayes.extras import require_extra

DPI = 200
Dpi = Annotated[PositiveInt, Parameter(help="Dots per inch of pictures: 300 for a paper, 100 for a message.")]


def check_output(output: Path | None, *inputs: Path | None) -> None:
    """Refuse a file that could not be written, or that this command reads: its content would be gone."""
    if output is None:
        return
    folder = output.parent
    if output.exists() and not output.is_file():
        raise DecbayesError(f"{output} is a folder or a device, not a file. Choose another name.")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise DecbayesError(f"{output} cannot be written: {folder} is not a folder that you can write to.")
    for path in inputs:
        if path is not None and path.exists() and output.exists() and output.samefile(path):
            raise DecbayesError(f"{output} is an input of this command and would be lost. Choose another name.")


def check_picture(picture: Path | None, *inputs: Path | None) -> None:
    """As for any output; and what draws it must be there before the work is done."""
    check_output(picture, *inputs)
    if picture is not None:
        require_extra("plot", task="A picture")
        from matplotlib.backend_bases import FigureCanvasBase

        known = FigureCanvasBase.get_supported_filetypes()
        if picture.suffix.lower().removeprefix(".") not in known:
            raise DecbayesError(f"{picture}: pictures are written as .png, .svg or .pdf; choose a name that ends so.")


def save_picture(figure: Any, path: Path, dpi: int) -> None:
    try:
        figure.savefig(path, dpi=dpi)
    except ValueError as error:
        raise DecbayesError(f"{path}: {error}") from None
