"""Small changes of the source, made from its syntax trees: what a slip of the hand could have been."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from immaterial import TOLERANCE, reason

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "decbayes"
AREAS = (
    "families", "merging", "models", "calibration", "updates", "streams", "network/protocol", "secure", "privacy",
)  # fmt: skip
KINDS = (
    "operator", "comparison", "constant", "dropped term", "dropped guard", "dropped bound", "swapped arguments",
    "dropped keyword", "negated condition", "dropped not", "dropped effect",
)  # fmt: skip

OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
BOUNDS = {"max", "min", "maximum", "minimum", "clip"}
# Their order of arguments means nothing, or nothing but types.
SYMMETRIC = BOUNDS | {
    "isinstance",
    "issubclass",
    "logaddexp",
    "array_equal",
    "allclose",
    "isclose",
    "zip",
    "cast",
    "swapaxes",
    "union",
}
TYPES = {"list", "dict", "set", "tuple", "frozenset"}  # what stands in brackets behind them are types
# Keywords that change how something is shown, guard against our own mistakes, or name the type that values have.
UNHEARD = {"strict", "stacklevel", "encoding", "category", "title", "description", "kw_only", "repr", "dtype"}
# Texts, and examples, of which any other would do.
UNTOUCHED = {"__repr__", "__str__", "_repr_html_", "__dir__", "__getattr__", "example"}
PROGRESS = {"announce", "progress", "watch"}  # show how far a fit or a merge is
APART = "__apart__"  # a name among Python's own for what watches a comparison
NEVER = 1e-100  # below it a constant stands for zero where zero has no logarithm: any other would do


@dataclass(frozen=True)
class Mutant:
    """One change. `old` and `new` are the statement around it; `function` is the outermost one, "" for import time."""

    file: str
    function: str
    kind: str
    old: str
    new: str
    nth: int  # among equal changes of one function
    line: int = field(compare=False)
    lines: tuple[int, ...] = field(compare=False)
    """Where a test passes that can notice it."""
    number: int = field(compare=False)
    """Among all changes of the file."""
    boundary: bool = field(default=False, compare=False)
    """Shows only where two values are equal."""
    change: str = field(default="", compare=False)
    """The smallest expression around it, before and after: stays when the rest of the statement is reworded."""

    @property
    def path(self) -> Path:
        return SOURCE / self.file

    @property
    def area(self) -> str:
        return next(area for area in AREAS if self.file.startswith(area + "/"))

    @property
    def key(self) -> str:
        return "|".join((self.file, self.function, self.kind, self.old, self.new, str(self.nth)))

    def tree(self, *, watched: bool = False) -> ast.Module:
        """The file's syntax with this change; or `watched`, which ends the process on the boundary of a comparison."""
        tree = ast.parse(self.path.read_bytes())
        for number, change in enumerate(changes(tree)):
            if number == self.number:
                (change.watch if watched else change.make)()
                return ast.fix_missing_locations(tree)
        raise LookupError(f"{self.file} has changed: there is no change {self.number} any more")


@dataclass
class Change:
    """A node of a tree and what could stand in its place."""

    kind: str
    function: str
    statement: ast.stmt
    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST
    other: ast.AST | None  # None: removed from its list

    def make(self) -> None:
        if self.other is not None:
            ast.copy_location(self.other, self.node)
        if self.index is None:
            setattr(self.parent, self.field, self.other)
        elif self.other is None:
            del getattr(self.parent, self.field)[self.index]
        else:
            getattr(self.parent, self.field)[self.index] = self.other

    def undo(self) -> None:
        if self.index is None:
            setattr(self.parent, self.field, self.node)
        elif self.other is None:
            getattr(self.parent, self.field).insert(self.index, self.node)
        else:
            getattr(self.parent, self.field)[self.index] = self.node

    @property
    def boundary(self) -> bool:
        """Whether `a < b` became `a <= b`, or the like."""
        alone = isinstance(self.parent, ast.Compare) and len(self.parent.ops) == 1
        return alone and {type(self.node), type(self.other)} in ({ast.Lt, ast.LtE}, {ast.Gt, ast.GtE})

    def watch(self) -> None:
        """Compare as before, through `boundaries.Apart`."""
        assert isinstance(self.parent, ast.Compare)
        sides = [self.parent.left, *self.parent.comparators]
        self.parent.left = ast.copy_location(ast.Call(ast.Name(APART, ast.Load()), sides, []), self.parent)
        self.parent.comparators = [ast.copy_location(ast.Constant(None), self.parent)]

    def texts(self) -> tuple[str, str]:
        """The statement before and after."""
        before = heading(self.statement)
        if self.node is self.statement:
            return before, "pass"
        self.make()
        after = heading(self.statement)
        self.undo()
        return before, after

    def snippet(self) -> str:
        """The smallest expression before and after."""
        if self.node is self.statement:
            return f"{heading(self.statement)} → pass"
        inside = isinstance(self.node, ast.expr) and self.other is not None
        before = ast.unparse(self.node if inside else self.parent)
        self.make()
        after = ast.unparse(self.other if inside and self.other is not None else self.parent)
        self.undo()
        return f"{before} → {after}"


def heading(statement: ast.stmt) -> str:
    """A statement's text; only the beginning of those that hold others."""
    if not hasattr(statement, "body"):
        return ast.unparse(statement)
    alone = copy.copy(statement)
    alone.body, alone.orelse, alone.decorator_list, alone.returns = [], [], [], None  # type: ignore[attr-defined]
    if isinstance(alone, ast.FunctionDef | ast.AsyncFunctionDef):
        alone.args = copy.deepcopy(alone.args)
        for argument in ast.walk(alone.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
    return ast.unparse(alone).strip()


def changes(tree: ast.Module) -> Iterator[Change]:
    """All changes of a file, always in the same order; each must be undone before the next is asked for."""
    for statement in tree.body:
        yield from _statement(statement, tree, "body", tree.body.index(statement), "")


def _statement(
    node: ast.stmt, parent: ast.AST, name: str, index: int, function: str, scope: str = ""
) -> Iterator[Change]:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Raise() | ast.Global() | ast.Assert() | ast.Pass():
            return
        case ast.Expr(value=ast.Constant()):
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Assign(targets=[ast.Name(id=target)]) if target.startswith("__") or target.endswith("TypeVar"):
            return
        case ast.FunctionDef(name=called) | ast.AsyncFunctionDef(name=called):
            if called in UNTOUCHED:
                return
            for default, position in [(node.args.defaults, "defaults"), (node.args.kw_defaults, "kw_defaults")]:
                for place, value in enumerate(default):
                    if value is not None:
                        yield from _expression(value, node.args, position, place, function, node)
            inside = function or scope + called
            for place, below in enumerate(node.body):
                yield from _statement(below, node, "body", place, inside)
            return
        case ast.ClassDef(name=called):
            for place, below in enumerate(node.body):
                yield from _statement(below, node, "body", place, function, f"{scope}{called}.")
            return
    yield from _whole(node, parent, name, index, function)
    for attribute, value in ast.iter_fields(node):
        if attribute in ("annotation", "targets", "target", "type_comment", "items", "handlers", "cases", "names"):
            continue
        if isinstance(value, ast.expr):
            yield from _expression(value, node, attribute, None, function, node)
        elif isinstance(value, list):
            for place, below in enumerate(value):
                if isinstance(below, ast.stmt):
                    yield from _statement(below, node, attribute, place, function, scope)
    for holder in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
        for place, below in enumerate(holder.body):
            yield from _statement(below, holder, "body", place, function, scope)


def _whole(node: ast.stmt, parent: ast.AST, name: str, index: int, function: str) -> Iterator[Change]:
    """Changes of a whole statement: left out, or its condition turned round."""

    def to(kind: str, other: ast.AST) -> Change:
        return Change(kind, function, node, parent, name, index, node, other)

    match node:
        case ast.If(orelse=[], body=[*_, ast.Raise() | ast.Return() | ast.Continue() | ast.Break()]):
            yield to("dropped guard", ast.Pass())
        case ast.Expr(value=ast.Call(func=ast.Name(id="report" | "say"))):
            return
        case ast.Expr(value=ast.Call() as call) if _called(call).strip("_") in PROGRESS:
            return
        case ast.Expr(value=ast.Call()) | ast.Delete():
            yield to("dropped effect", ast.Pass())
        case ast.AugAssign(op=operator, value=value) if not _is_text(value):
            yield to("dropped term", ast.Pass())
            if type(operator) in OPERATORS:
                yield Change("operator", function, node, node, "op", None, operator, OPERATORS[type(operator)]())
    if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Constant):
        yield Change("negated condition", function, node, node, "test", None, node.test, _negated(node.test))


def _negated(test: ast.expr) -> ast.expr:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def _expression(
    node: ast.expr, parent: ast.AST, name: str, index: int | None, function: str, statement: ast.stmt
) -> Iterator[Change]:
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.IfExp) and _is_text(node)):
        return
    tested = isinstance(parent, ast.If | ast.While | ast.IfExp) and name == "test"  # there it would be the negation

    def to(kind: str, other: ast.AST) -> Change:
        return Change(kind, function, statement, parent, name, index, node, other)

    def within(kind: str, attribute: str, place: int | None, below: ast.AST, other: ast.AST | None) -> Change:
        return Change(kind, function, statement, node, attribute, place, below, other)

    match node:
        case ast.BinOp(left=left, op=operator, right=right) if not (_is_text(left) or _is_text(right)):
            if function or not isinstance(operator, ast.BitOr):  # else an alias of types
                if type(operator) in OPERATORS:
                    yield within("operator", "op", None, operator, OPERATORS[type(operator)]())
                if isinstance(operator, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow | ast.BitAnd | ast.BitOr):
                    yield to("dropped term", left)
                if isinstance(operator, ast.Add | ast.Mult | ast.BitAnd | ast.BitOr):
                    yield to("dropped term", right)
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield to("dropped not", operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield to("operator", operand)
        case ast.BoolOp(op=operator, values=values):
            yield within("operator", "op", None, operator, ast.Or() if isinstance(operator, ast.And) else ast.And())
            for place, value in enumerate(values):
                yield within("dropped term", "values", place, value, None)
        case ast.Compare(ops=operators):
            for place, operation in enumerate(operators):
                others = COMPARISONS.get(type(operation), ())
                for other in others[: len(others) - tested]:
                    yield within("comparison", "ops", place, operation, other())
        case ast.IfExp(test=test):
            yield within("negated condition", "test", None, test, _negated(test))
        case ast.Constant(value=value):
            for other_value in _constants(value):
                yield to("constant", ast.Constant(other_value))
        case ast.Call():
            yield from _call(node, to, within)
    if isinstance(node, ast.Call) and _called(node) in ("cast", "TypeVar", "NewType", "reshape"):
        return
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in TYPES:
        return
    for attribute, below in ast.iter_fields(node):
        if isinstance(below, ast.expr) and attribute != "format_spec":
            yield from _expression(below, node, attribute, None, function, statement)
        elif isinstance(below, list):
            for place, part in enumerate(below):
                match part:
                    case ast.expr():
                        yield from _expression(part, node, attribute, place, function, statement)
                    case ast.keyword(value=value) if part.arg not in UNHEARD:
                        yield from _expression(value, part, "value", None, function, statement)
                    case ast.comprehension():
                        yield from _expression(part.iter, part, "iter", None, function, statement)
                        for where, test in enumerate(part.ifs):
                            yield Change(
                                "negated condition", function, statement, part, "ifs", where, test, _negated(test)
                            )
                            yield from _expression(test, part, "ifs", where, function, statement)


def _call(node: ast.Call, to, within) -> Iterator[Change]:  # type: ignore[no-untyped-def]
    called, plain = _called(node), not any(isinstance(argument, ast.Starred) for argument in node.args)
    if called in BOUNDS and len(node.args) >= 2 and plain:
        if called == "clip" or not isinstance(node.args[0], ast.Constant):
            yield to("dropped bound", node.args[0])
        if called != "clip" and not isinstance(node.args[1], ast.Constant):
            yield to("dropped bound", node.args[1])
    if called not in SYMMETRIC and plain:
        for place, (one, two) in enumerate(zip(node.args, node.args[1:], strict=False)):
            if type(one) is type(two) and ast.dump(one) != ast.dump(two) and not _is_text(one):
                swapped = copy.copy(node)
                swapped.args = [*node.args[:place], two, one, *node.args[place + 2 :]]
                yield to("swapped arguments", swapped)
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in UNHEARD:
            yield within("dropped keyword", "keywords", place, keyword, None)


def _called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _is_text(node: ast.expr) -> bool:
    """Or a list, of which sums are no arithmetic."""
    if isinstance(node, ast.IfExp):
        return _is_text(node.body) and _is_text(node.orelse)
    kinds = ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp | ast.Set | ast.Dict
    return isinstance(node, kinds) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _constants(value: object) -> Iterator[object]:
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
            if value >= 8:
                yield value // 2
                yield value * 2
        case float() if 0 < value < NEVER:
            return
        case float() if 0 < value < TOLERANCE:  # twice as much is no mistake, a thousand times is
            yield value * 1000
            yield value / 1000
        case float():
            yield value / 2 if value else 1.0
            if value:
                yield value * 2


def mutants(file: str, functions: Container[str] | None = None) -> list[Mutant]:
    """Of one file, which is named from `src/decbayes` on; or of some of its functions."""
    tree, seen, result = ast.parse((SOURCE / file).read_bytes()), Counter[tuple[str, ...]](), []
    for number, change in enumerate(changes(tree)):
        if (functions is not None and change.function not in functions) or reason(change):
            continue
        old, new = change.texts()
        if old == new:
            continue
        same = (change.function, change.kind, old, new)
        line = getattr(change.node, "lineno", getattr(change.parent, "lineno", change.statement.lineno))
        lines = tuple(sorted({line, change.statement.lineno}, key=lambda each, line=line: each != line))
        named = (file, change.function, change.kind, old, new, seen[same])
        result.append(Mutant(*named, line, lines, number, change.boundary, change.snippet()))
        seen[same] += 1
    return result


def files(only: str = "") -> list[str]:
    """Those that are mutated; what runs on a GPU alone is not."""
    found = (path.relative_to(SOURCE).as_posix() for area in AREAS for path in (SOURCE / area).rglob("*.py"))
    return sorted(file for file in found if "cuda" not in file and only in file)


def sample(everything: dict[str, list[Mutant]], size: int, seed: int) -> list[Mutant]:
    """Of each file its share of `size`, at least one. Most of the sample stays if a few files change."""
    total = sum(map(len, everything.values()))
    shuffled = {file: sorted(of_file, key=lambda m: _rank(m, seed)) for file, of_file in everything.items() if of_file}
    due = {file: size * len(of_file) / total for file, of_file in shuffled.items()}
    taken = {file: min(max(1, round(share)), len(shuffled[file])) for file, share in due.items()}
    for file in sorted(due, key=lambda file: (taken[file] - due[file], file)):
        if sum(taken.values()) >= min(size, total):
            break
        taken[file] += taken[file] < len(shuffled[file])
    chosen = (mutant for file, number in taken.items() for mutant in shuffled[file][:number])
    return sorted(chosen, key=lambda m: _rank(m, seed))


def _rank(mutant: Mutant, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}|{mutant.key}".encode()).digest()
