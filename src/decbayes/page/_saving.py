"""A page as one self-contained file: its last state with all code that draws it, for mail, papers and archives."""

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decbayes.page.server import Board

STATIC = Path(__file__).parent / "static"
# Modules in one file cannot import each other by path, so they get names.
IMPORT = re.compile(r'from "\./(\w+)\.js"')
KEPT = ("network", "history", "posterior", "details", "ended")


def saved_page(board: "Board") -> str:
    """The page's last state as one HTML file."""
    values = {name: board.values[name] for name in KEPT if name in board.values}
    # Escaped, so that no member's name can close the script element.
    content = json.dumps({**values, "events": board.since(0)}, separators=(",", ":")).replace("<", "\\u003c")
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    icon = data_url("image/svg+xml", (STATIC / "icon.svg").read_text(encoding="utf-8"))
    style = (STATIC / "page.css").read_text(encoding="utf-8")
    head = (
        f"<style>\n{style}</style>\n"
        f'<script type="application/json" id="saved">{content}</script>\n'
        f'<script type="importmap">{json.dumps({"imports": modules()})}</script>\n'
        '<script type="module">import "decbayes/page";</script>'
    )
    page = page.replace('<link rel="stylesheet" href="page.css">\n', "")
    return page.replace('<script type="module" src="page.js"></script>', head).replace('"icon.svg"', f'"{icon}"')


def modules() -> dict[str, str]:
    """The page's modules by name, as data URLs."""
    texts = {file.stem: file.read_text(encoding="utf-8") for file in sorted(STATIC.glob("*.js"))}
    return {
        f"decbayes/{name}": data_url("text/javascript", IMPORT.sub(r'from "decbayes/\1"', text))
        for name, text in texts.items()
    }


def data_url(kind: str, text: str) -> str:
    return f"data:{kind};base64,{b64encode(text.encode()).decode()}"
