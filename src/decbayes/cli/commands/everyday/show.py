"""`decbayes show`: print a posterior file."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import PositiveInt

from decbayes.cli.shared.describe import components_table, empty_slots, print_modelled, rows_table
from decbayes.cli.shared.outputs import DPI, Dpi, check_picture, save_picture
from decbayes.cli.shared.posterior_files import counting_in, support_tables
from decbayes.cli.shared.sharing import made_in, manifest_of, records_text
from decbayes.cli.shared.standard_streams import json_option, print_json
from decbayes.cli.shared.terminal import output, plain
from decbayes.cli.shared.topic_quality import Counts, remarks_on
from decbayes.disclosure import Manifest
from decbayes.errors import InvalidData
from decbayes.files import load, load_note
from decbayes.posterior import Posterior
from decbayes.remarks import MOST_SHOWN, lines
from decbayes.views import view_of
from decbayes.views.values import Shape
from decbayes.views.view import check_shape

PARAMETER = ("factor", "component", "quantity", "entry", "mean", "deviation", "lower", "upper", "uncertainty")


def show(
    posterior: Annotated[Path, Parameter(help="A posterior file.")],
    /,
    *,
    top: Annotated[PositiveInt, Parameter(help="Number of words, or other entries, per component.")] = 10,
    picture: Annotated[Path | None, Parameter(help="Also write a picture (.png, .svg, .pdf).")] = None,
    dpi: Dpi = DPI,
    shape: Annotated[
        Shape | None, Parameter(help="Height and width of images: show features, or the means of a mixture, as images.")
    ] = None,
    counts: Counts = None,
    remarks: Annotated[
        bool, Parameter(help=f"Print all remarks, not only the {MOST_SHOWN} most important ones.")
    ] = False,
    as_json: Annotated[bool, json_option("parameter", *PARAMETER)] = False,
) -> None:
    """Print a posterior: coefficients, topics with their words, a mixture's means, features as images, sites."""
    check_picture(picture, posterior)
    read = load(posterior)
    if shape is not None:
        check_images(read, shape)
    if picture is not None:
        from decbayes.plot import components

        save_picture(components(read, shape=shape), picture, dpi)
    if as_json:
        print_json(*view_of(read.structure).parameters(read, top=top))
        return
    console, quality = output(), remarks_on(read, top, counts)
    print_header(read)
    if (manifest := manifest_of(posterior)) is not None and manifest.posterior == read.digest:
        note = load_note(posterior)
        records = records_text(manifest, view_of(read.structure).record, counting_in(note))
        merged = "several" in note
        records += ", built on another file" if made_in(note) == "on top" and not merged else ""
        print_manifest(manifest, records, "a merge" if merged else "a draft")
    for line in [*lines(read.remarks, None if remarks else MOST_SHOWN, rest="--remarks prints all"), *quality]:
        console.print(plain(line))
    console.print(components_table(read, top=top, shape=shape))
    if empty := empty_slots(read):
        console.print(f"and {empty}, which no site has filled")
    for title, rows in view_of(read.structure).tables(read).items():
        console.print(rows_table(rows, title=title))
    for table in support_tables(read, load_note(posterior)):
        console.print(table)


def print_header(posterior: Posterior) -> None:
    """Print the model and its settings, the fingerprints, and how the uncertainty was computed."""
    console, structure = output(), posterior.structure
    settings = [
        setting_text(key.replace("_", " "), value)
        for key, value in structure.model.items()
        if key != "name" and isinstance(value, str | float | int)
    ]
    view = view_of(structure)
    name = view.usual_name
    listed = f" ({', '.join(settings)})" if settings else ""
    console.print(plain(f"{name[:1].upper()}{name[1:]}{listed}"))
    print_modelled(posterior, console.print)
    console.print(f"structure {structure.fingerprint[:12]}, posterior {posterior.digest[:12]}", style="dim")
    console.print(f"uncertainty: {view.uncertainty(posterior)}", style="dim")


def setting_text(name: str, value: str | float) -> str:
    return f"{'with' if value else 'without'} {name}" if isinstance(value, bool) else f"{name} {value}"


def print_manifest(manifest: Manifest, records: str, unreleased: str) -> None:
    """Print how many rows are behind the file, where and when it was made, and whether it was released."""
    left_out = [f"{number:,} {reason}" for reason, number in (manifest.left_out or {}).items()]
    origin = [manifest.site, manifest.date, f"released by {manifest.approver}" if manifest.released else unreleased]
    rules = ["made without disclosure rules"] if manifest.rules is None else []
    omitted = f" (left out: {', '.join(left_out)})" if left_out else ""
    output().print(plain(f"from {records}{omitted}; {', '.join(filter(None, [*origin, *rules]))}"), style="dim")


def check_images(posterior: Posterior, shape: Shape) -> None:
    """Refuse a shape that does not match the number of pixels, or components that are no images."""
    view = view_of(posterior.structure)
    pixels = view.pixels(posterior)
    if not pixels:
        raise InvalidData(f"--shape is for features and for mixtures of images; this posterior is of {view.title}.")
    check_shape(pixels, shape)
