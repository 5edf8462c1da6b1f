"""How long files and functions are: `python docs/sizes.py src/decbayes paper`.

For an earlier commit: `git worktree add /tmp/before COMMIT`, then the same with folders of /tmp/before.
"""

import argparse
import ast
from pathlib import Path
from statistics import median


def function_lengths(path: Path) -> list[int]:
    """Lines of each function and method, decorators and docstring included."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node.end_lineno - node.lineno + 1 for node in nodes if isinstance(node, ast.FunctionDef)]


def sizes(folder: Path) -> str:
    paths = sorted(folder.rglob("*.py"))
    files = [len(path.read_text(encoding="utf-8").splitlines()) for path in paths]
    functions = [length for path in paths for length in function_lengths(path)]
    return (
        f"{folder}: {len(files)} files, {sum(files):,} lines, median {median(files):.0f}, longest {max(files)}, "
        f"over 300 lines: {sum(length > 300 for length in files)}; {len(functions):,} functions, median "
        f"{median(functions):.0f} lines, longest {max(functions)}, over 40 lines: {sum(n > 40 for n in functions)}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    for folder in parser.parse_args().folders:
        print(sizes(folder))
