"""Writes the pages of all commands into docs/commands, from their own --help: `python docs/commands.py`."""

import io
import re
from pathlib import Path

from cyclopts import App
from rich.console import Console

from decbayes.cli import app

FOLDER = Path(__file__).parent / "commands"
WIDTH = 84


def help_of(words: list[str]) -> str:
    """What --help prints, without colours and frames."""
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False)
    app.help_print(words, console=console)
    assert isinstance(console.file, io.StringIO)
    lines = [re.sub(r"^[│╭╰][─ ]?|[│╮╯]$", "", line).rstrip() for line in console.file.getvalue().splitlines()]
    return "\n".join(re.sub(r"─{2,}", "", line).rstrip() for line in lines).strip("\n")


def commands(parent: App, words: list[str]) -> list[tuple[list[str], App]]:
    """Every command that does something, below one."""
    found = []
    for name in parent:
        if name.startswith("-"):
            continue
        child, path = parent[name], [*words, name]
        below = commands(child, path)
        found += below or [(path, child)]
    return found


def below(name: str) -> list[list[str]]:
    """The commands of a command, as words."""
    return [words for words, _ in commands(app[name], [name])]


def groups() -> dict[str, tuple[str, list[str]]]:
    """Titles, sentences and commands, as `decbayes --help` groups them."""
    parts: dict[str, tuple[str, list[str]]] = {}
    for name in app:
        if not name.startswith("-"):
            (group,) = app[name].group
            title, sentence = ("", "") if isinstance(group, str) else (str(group.name), group.help)
            if name == "fit":  # with so many models that it has a page of its own
                title, sentence = "Fit", "Fit a model to one site's data and write its posterior."
            parts.setdefault(title, (sentence, []))[1].append(name)
    return parts


def described(words: list[str]) -> str:
    """A command as a part of a page: what it does, an example, its options."""
    usage, *rest = help_of(words).split("\n")
    text = "\n".join(rest).strip("\n")
    options = re.search(r"^ (?:Arguments|Parameters|Commands)$", text, re.MULTILINE)
    about, listed = (text[: options.start()], text[options.start() :]) if options else (text, "")
    about, _, example = about.partition("For example:")
    example, _, after = example.strip("\n").partition("\n\n")
    parts = [f"## decbayes {' '.join(words)}", joined(about)]
    if example.strip():
        parts.append("```sh\n" + "\n".join(line.strip() for line in example.splitlines()) + "\n```")
    parts += [joined(after)] if after.strip() else []
    parts.append(f"```text\n{usage}\n\n{listed}\n```")
    return "\n\n".join(parts)


def joined(text: str) -> str:
    """Paragraphs without the line breaks of a terminal."""
    paragraphs = [" ".join(each.split()) for each in re.split(r"\n\s*\n", text.strip("\n"))]
    return "\n\n".join(each.replace("<", "\\<") for each in paragraphs if each)


def pages() -> dict[str, str]:
    """The page of each group. Models are listed once, for `fit`: `plan` and `simulate` take the same options."""
    written = {}
    for title, (sentence, names) in groups().items():
        parts = [
            f"# Commands: {title.lower()}",
            f"{sentence} Made from `decbayes COMMAND --help`, as it is in this version.",
        ]
        parts.append(f"![The commands of this group](../pictures/diagrams/commands-{title.lower()}.svg)")
        for name in names:
            parts += [described(words) for words in below(name) if name not in ("plan", "simulate")] or [
                described([name])
            ]
        written[title.lower()] = "\n\n".join(parts) + "\n"
    return written


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in pages().items():
        (FOLDER / f"{name}.md").write_text(page, encoding="utf-8")
