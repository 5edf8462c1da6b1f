"""Shows examples in docstrings as code: a griffe extension, which mkdocs.yml names.

Without it, lines that begin with `>>>` outside a section "Examples" are paragraphs to the site, and a printed list such
as `['north', 'south']` a link that leads nowhere.
"""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^([ \t]*)>>> .*(?:\n[ \t]*\S.*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """The text of a docstring with a fence around each example: from `>>>` to the next empty line."""
    return EXAMPLE.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)


class FencedExamples(griffe.Extension):
    """Fences the examples of every docstring that is read."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
