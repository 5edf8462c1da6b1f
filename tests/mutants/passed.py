"""Which statements of our source are passed: each sets a byte before it runs, which costs next to nothing.

A trace function would be called for every line of every library, and made tests take four times as long.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.util
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from generator import SOURCE

PASSED = "__passed__"  # a name among Python's own for the bytes
MOST = 1 << 17  # statements


def module_name(file: str) -> str:
    return "decbayes." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Rewritten(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports some modules with another tree than that of their file, and leaves all others to Python."""

    def __init__(self, trees: Mapping[str, Callable[[], ast.Module]]) -> None:
        self._trees = {module_name(file): (SOURCE / file, tree) for file, tree in trees.items()}

    def find_spec(self, name: str, path: object, target: object = None) -> Any:
        if name not in self._trees:
            return None
        file, _ = self._trees[name]
        package = [str(file.parent)] if file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(name, file, loader=self, submodule_search_locations=package)

    def exec_module(self, module: ModuleType) -> None:
        file, tree = self._trees[module.__name__]
        exec(compile(tree(), str(file), "exec", dont_inherit=True), module.__dict__)


class Passed:
    """Statements of functions that have been passed since the last `clear`, by file and outermost function."""

    def __init__(self) -> None:
        self._bytes = bytearray(MOST)
        self._hits = np.frombuffer(self._bytes, dtype=np.uint8)
        self._places: list[tuple[str, str, int]] = []
        setattr(builtins, PASSED, self._bytes)

    def tree(self, file: str, text: bytes) -> ast.Module:
        """Functions set a byte before each of their statements."""
        tree = ast.parse(text)
        for function, body in bodies(tree.body):
            first = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)  # its docstring
            for place in reversed(range(int(first), len(body))):
                body.insert(place, self._probe(file, function, body[place]))
        return tree

    def _probe(self, file: str, function: str, statement: ast.stmt) -> ast.stmt:
        self._places.append((file, function, statement.lineno))
        if len(self._places) > MOST:
            raise MemoryError(f"there are more than {MOST:,} statements")
        probe = ast.parse(f"{PASSED}[{len(self._places) - 1}] = 1").body[0]
        for node in ast.walk(probe):
            ast.copy_location(node, statement)
        return probe

    def clear(self) -> np.ndarray:
        """What it was that is forgotten."""
        before = self._hits.copy()
        self._hits[:] = 0
        return before

    def add(self, hits: np.ndarray) -> None:
        self._hits |= hits

    @property
    def seen(self) -> set[int]:
        return set(np.flatnonzero(self._hits).tolist())

    def reach(self, seen: set[int]) -> dict[str, dict[str, str]]:
        """Of each function the lines as bits of a number."""
        lines: dict[tuple[str, str], int] = defaultdict(int)
        for number in seen:
            file, function, line = self._places[number]
            lines[file, function] |= 1 << line
        result: dict[str, dict[str, str]] = defaultdict(dict)
        for (file, function), mask in lines.items():
            result[file][function] = hex(mask)
        return result


def bodies(statements: list[ast.stmt], function: str = "", scope: str = "") -> Iterator[tuple[str, list[ast.stmt]]]:
    """Every list of statements within functions, the inner ones first, with the name of the outermost function."""
    for statement in statements:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                inside, below = function or scope + name, scope
            case ast.ClassDef(name=name):
                inside, below = function, f"{scope}{name}."
            case _:
                inside, below = function, scope
        for holder in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            for attribute in ("body", "orelse", "finalbody"):
                if isinstance(held := getattr(holder, attribute, None), list):
                    yield from bodies(held, inside, below)
                    if inside and held:
                        yield inside, held


def watched_modules(passed: Passed, files: list[str]) -> Rewritten:
    return Rewritten({file: lambda file=file: passed.tree(file, (SOURCE / file).read_bytes()) for file in files})  # type: ignore[misc]
