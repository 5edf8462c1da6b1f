"""Runs the notebooks of the documentation. They are kept as text, without results; `make docs` runs them for the site.

A notebook is a Python file in docs/notebooks whose cells begin with `# %%`, or `# %% [markdown]` for words: Jupyter
(with jupytext), VS Code and PyCharm open such files as notebooks. `python docs/executed.py NAME.py` writes NAME.ipynb,
with what its cells have shown. Without a name it makes a page of each notebook for the site, with the notebook to
download.
"""

import ast
import base64
import contextlib
import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"
MARK = re.compile(r"^# %%(.*)$", re.MULTILINE)
LANGUAGE = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


@dataclass
class Cell:
    """Words, or code with what it printed and showed."""

    source: str
    words: bool = False
    printed: str = ""
    html: str = ""
    picture: bytes = b""


@dataclass
class Notebook:
    """Cells, and the names that they have left behind."""

    cells: list[Cell]
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__notebook__"})


def read(path: Path) -> Notebook:
    """The cells of a file; what precedes the first mark is its title."""
    _, *parts = MARK.split(path.read_text(encoding="utf-8"))
    return Notebook([cell_of(kind, body) for kind, body in zip(parts[::2], parts[1::2], strict=True)])


def cell_of(kind: str, body: str) -> Cell:
    words = "[markdown]" in kind
    lines = [re.sub("^# ?", "", line) for line in body.splitlines()] if words else body.splitlines()
    return Cell("\n".join(lines).strip("\n"), words)


def run(path: Path) -> Notebook:
    """Run all cells in an empty folder, as a reader would."""
    notebook = read(path)
    with TemporaryDirectory() as folder, chdir(folder):
        for number, cell in enumerate(notebook.cells):
            if not cell.words:
                run_cell(cell, notebook.names, f"{path.name}, cell {number}")
    return notebook


def run_cell(cell: Cell, names: dict[str, Any], place: str) -> None:
    """Run a cell; what its last line is worth is shown, unless it ends with a semicolon."""
    body = ast.parse(cell.source, place)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(body, place, "exec"), names)
        value = eval(compile(ast.Expression(last.value), place, "eval"), names) if isinstance(last, ast.Expr) else None
    cell.printed = printed.getvalue()
    if value is not None and not cell.source.rstrip().endswith(";"):
        show(cell, value)


def show(cell: Cell, value: Any) -> None:
    """As a notebook would: a picture, a table, or text."""
    figure = getattr(value, "figure", value)
    if hasattr(figure, "savefig"):
        with io.BytesIO() as file:
            figure.savefig(file, format="png")
            cell.picture = file.getvalue()
    elif hasattr(value, "_repr_html_"):
        cell.html = value._repr_html_().replace(' border="1"', "")  # which pandas thinks of as style
    else:
        cell.printed += f"{value!r}\n"


def as_markdown(notebook: Notebook, name: str) -> Iterator[str]:
    """The page of a notebook; its pictures are files beside it."""
    first, *others = notebook.cells
    drawn = [number for number, cell in enumerate(notebook.cells) if cell.picture]
    title, _, introduction = first.source.partition("\n")
    yield title
    if drawn:  # the last picture is the result
        yield f"![What this notebook arrives at]({name}-{drawn[-1]}.png)"
    yield introduction.strip()
    yield f"[Download this page as a notebook]({name}.ipynb), with its results. It runs in a few seconds."
    for number, cell in enumerate(others, start=1):
        yield cell.source if cell.words else f"```python\n{cell.source}\n```"
        if cell.printed:
            yield f"```text\n{cell.printed.rstrip()}\n```"
        if cell.html:
            yield f'<div class="output" markdown="0">{cell.html}</div>'
        if cell.picture:
            yield f"![What the cell above draws]({name}-{number}.png)"


def as_ipynb(notebook: Notebook) -> dict[str, Any]:
    """The notebook in Jupyter's own format."""
    cells = [
        {"cell_type": "markdown", "id": f"c{number}", "metadata": {}, "source": cell.source}
        if cell.words
        else {
            "cell_type": "code",
            "id": f"c{number}",
            "metadata": {},
            "source": cell.source,
            "execution_count": number,
            "outputs": list(outputs(cell, number)),
        }
        for number, cell in enumerate(notebook.cells)
    ]
    return {"cells": cells, "metadata": LANGUAGE, "nbformat": 4, "nbformat_minor": 5}


def outputs(cell: Cell, number: int) -> Iterator[dict[str, Any]]:
    if cell.printed:
        yield {"output_type": "stream", "name": "stdout", "text": cell.printed}
    shown = {"text/html": cell.html} if cell.html else {}
    if cell.picture:
        shown["image/png"] = base64.b64encode(cell.picture).decode()
    if shown:
        yield {"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": shown}


def write_pages() -> None:
    """A page, its pictures and a file to download for each notebook, beside it."""
    for path in sorted(FOLDER.glob("*.py")):
        notebook, name = run(path), path.stem
        (FOLDER / f"{name}.md").write_text("\n\n".join(as_markdown(notebook, name)), encoding="utf-8")
        (FOLDER / f"{name}.ipynb").write_text(json.dumps(as_ipynb(notebook)), encoding="utf-8")
        for number, cell in enumerate(notebook.cells):
            if cell.picture:
                (FOLDER / f"{name}-{number}.png").write_bytes(cell.picture)


if __name__ == "__main__":
    if not sys.argv[1:]:
        write_pages()
    for given in map(Path, sys.argv[1:]):
        given.with_suffix(".ipynb").write_text(json.dumps(as_ipynb(run(given)), indent=1), encoding="utf-8")
