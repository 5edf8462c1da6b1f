"""What every page of the documentation has in common: its length, its picture, its place, and commands that exist."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import decbayes as db

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = ("notebooks", "commands")  # folders of pages that are made when the site is
SITE = sorted(path for path in DOCS.rglob("*.md") if path.parent.name not in MADE)
MOST_WORDS = 2_000
MOST_BYTES = 64_000
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
BENCHMARK = re.compile(r"python\s+(benchmarks|docs)/(\w+)\.py([^`]*)`")


def name_of(page):
    return page.relative_to(DOCS).as_posix()


def navigation():
    """The pages that the configuration names, in order."""
    return re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def script(name):
    """A module of docs, which is no package."""
    sys.path.insert(0, str(DOCS))
    try:
        specification = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
    finally:
        sys.path.remove(str(DOCS))
    return module


@pytest.mark.parametrize("page", SITE, ids=name_of)
def test_a_page_is_short(page):
    """Words of text and of tables count; code does not, nor do the lines of tables."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    words = [word for word in text.split() if re.search(r"\w", word)]
    assert len(words) <= MOST_WORDS, f"{len(words)} words: split the page, or move figures to docs/benchmarks"


@pytest.mark.parametrize("page", SITE, ids=name_of)
def test_a_page_begins_with_a_picture(page):
    """Within the first lines, and before the first section."""
    first = re.split(r"^## ", FENCED.sub("", page.read_text(encoding="utf-8")), flags=re.MULTILINE)[0]
    assert re.search(r"^!?\[!?\[?.*?\]\([^)]*\.(svg|png)\)", first, re.MULTILINE), "no picture before the first section"


def test_pictures_are_small_and_shown():
    shown = {
        (page.parent / target).resolve()
        for page in [*SITE, ROOT / "README.md"]
        for target in re.findall(r"\]\((?!https?:)([^)\s]+\.(?:png|svg))\)", page.read_text(encoding="utf-8"))
    }
    pictures = {path for kind in ("png", "svg") for path in DOCS.rglob(f"*.{kind}") if path.parent.name not in MADE}
    others = {path for path in pictures - shown if "commands-" not in path.name}
    assert {path.name for path in others} <= {"logo.svg"}
    assert not {path.name: path.stat().st_size for path in pictures if path.stat().st_size > MOST_BYTES}


def test_the_navigation_and_the_pages_are_the_same():
    written = navigation()
    assert len(written) == len(set(written))
    kept = [name for name in written if name.split("/")[0] not in MADE]
    assert sorted(kept) == sorted(map(name_of, SITE))


def anchors(page):
    """Of all headings, as the site makes them; a heading that stands twice has a number."""
    headings = re.findall(r"^#+ +(.+)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in plain}


def test_links_to_sections_lead_somewhere():
    for page in SITE:
        for path, anchor in re.findall(
            r"\]\(([\w./-]*\.md)?#([^) ]+)[^)]*\)", FENCED.sub("", page.read_text(encoding="utf-8"))
        ):
            target = (page.parent / path).resolve() if path else page
            if target in SITE and not re.search(r"_\d+$|\.", anchor):
                assert anchor in anchors(target), (page.name, path, anchor)


def test_benchmarks_that_pages_name_exist_with_their_options():
    """A command that is printed beside figures can be run."""
    shared = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("_*.py"))
    named = [found for page in SITE for found in BENCHMARK.findall(page.read_text(encoding="utf-8"))]
    assert len(named) > 50
    for folder, name, rest in named:
        if name == "NAME":
            continue
        path = ROOT / folder / f"{name}.py"
        assert path.exists(), f"{folder}/{name}.py"
        source = path.read_text(encoding="utf-8") + shared
        for option in re.findall(r"--[a-z-]+", rest):
            assert f'"{option}"' in source, f"{name}.py has no {option}"


def test_figures_are_on_the_pages_of_benchmarks_only():
    """Other pages quote a headline, and link."""
    others = [page for page in SITE if page.parent.name != "benchmarks" and page.name != "benchmarks.md"]
    assert not [name_of(page) for page in others if "python benchmarks/" in page.read_text(encoding="utf-8")]


def test_the_list_of_benchmarks_is_complete():
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py") if not path.name.startswith("_")}
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    assert {name for name in scripts if f"`{name}`" not in page} <= {"run_all.py"}


def test_figures_say_at_which_commit_they_were_measured():
    """Each section with a table of numbers; the data page has none."""
    for page in sorted((DOCS / "benchmarks").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        first, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
        for section in sections if page.name != "data.md" else ():
            tables = re.search(r"^\|[-|: ]+\|$", section, re.MULTILINE)
            assert not tables or re.search("[Mm]easured at `[0-9a-f]{8}`", section + first), (
                f"{page.name}: {section[:40]}"
            )


# Their results are no text: a log that is JSON already, and code that is compiled. `plan` has its options by model.
NO_JSON = {"agent", "page", "warm-up", "plan"}
# What these leave behind lies in the study's folder, and `study status` says it in one line per step.
NO_JSON |= {
    f"study {name}" for name in ("new", "plan", "network", "fit", "round", "release", "calibrate", "merge", "next")
}


def test_every_command_has_an_example_and_prints_json():
    pages = script("commands").pages()
    assert set(navigation()) >= {f"commands/{name}.md" for name in pages}
    assert {"study", "fit", "everyday", "topics", "sharing", "checking", "planning", "network"} == set(pages)
    parts = [part for page in pages.values() for part in page.split("\n## ")[1:]]
    assert len(parts) > 60
    assert not [part.split("\n")[0] for part in parts if "```text\nUsage: decbayes" not in part]
    # Parts of commands that have one example for all of them.
    groups = ("study", "fit", "secure", "charter", "certificate", "tell")
    without = [part.split("\n")[0] for part in parts if "```sh\ndecbayes" not in part]
    assert not [name for name in without if name.split()[1] not in groups]
    for name, *lines in (part.split("\n") for part in parts):
        shown = " ".join(" ".join(lines).split())
        printed = re.search(r"--json Print JSON, one line per \w+:", shown)
        assert printed or name.removeprefix("decbayes ") in NO_JSON, name
        assert "--empty-" not in shown, name
        assert not re.search(r'default: (False|None|""|\(\))', shown), name


def test_the_reference_names_everything_public():
    """Each class and function at the front door."""
    pages = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    shown = set(re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE))
    for name in db.__all__:
        assert isinstance(getattr(db, name), ModuleType) or any(path.endswith(f".{name}") for path in shown), name
