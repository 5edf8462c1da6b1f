"""Classes of changes after which the program is as right as before, by rule: each with its reason.

A rule is about what a change does, not about a line, so that entries do not go stale when lines are reworded. Single
changes that nobody can notice are in `equivalents.toml`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generator import Change

# How much is done, kept or sent at a time, and from which amount of work on a thread, a process or a GPU is worth it.
AMOUNTS = re.compile(r"BLOCK|AT_ONCE|AT_A_TIME|MOST_KEPT|MOST_NUMBERS|MOST_SUMS|MOST_LOADED|WORTH_A_|_A_WORKER|SORTERS")
# How often a loop may go round that otherwise ends by itself.
CAPS = re.compile(r"(MOST|MAXIMAL)_(SWEEPS|PASSES|TURNS|STEPS)|HALVINGS|STEPS|SETTLING")
# How many starts, candidates, points or draws a search or a sum is over at most.
EFFORTS = re.compile(
    r"TRIED|TRIES|(MOST_)?CANDIDATES|STARTS|EXCHANGES|NEAREST|RESTARTS|PARTNERS|LOOKED_AT|MOVES|POOL|POINTS|DRAWS"
    r"|(TRIAL|LEVEL|DIVIDING)_PASSES|COOLING_SWEEPS|SPREAD_STEPS"
)
# Keywords that cost or save time and memory, or show how far a fit is.
COSTS = {"progress", "n_jobs", "prefer", "cost", "copy", "check_finite", "overwrite_a", "overwrite_b", "assume_unique",
         "optimize", "threads", "device", "maxsize", "hermitian"}  # fmt: skip
TOLERANCE = 1e-3  # below it a constant is a tolerance


def only_an_amount(change: Change) -> bool:
    return change.kind in ("constant", "operator", "dropped term") and bool(AMOUNTS.search(_assigned(change)))


def later_cap(change: Change) -> bool:
    """A loop that ends by itself may go round more often. One that may not go round often enough is another matter."""
    old, new = _numbers(change)
    return old < new and bool(CAPS.fullmatch(_assigned(change)))


def wider_search(change: Change) -> bool:
    """Whoever tries more finds the same or better, and pays for it. Trying less is another matter, and counts."""
    old, new = _numbers(change)
    return old < new and bool(EFFORTS.fullmatch(_assigned(change) or _local(change)))


def tighter_tolerance(change: Change) -> bool:
    old, new = _numbers(change)
    return 0.0 < new < old < TOLERANCE


def times_a_tolerance(change: Change) -> bool:
    """What a tolerance of rounding is relative to: the constant beside it, or one of the two."""
    if change.kind not in ("constant", "dropped term"):
        return False
    products = (part for part in ast.walk(change.statement) if isinstance(part, ast.BinOp))
    relative = [part for part in products if getattr(part.left, "id", "") == "TOLERANCE"]
    return any(change.other is part.left or _has(part.right, change.node) for part in relative)


def nobody(change: Change) -> bool:
    """−1 in an array that is filled with it, or where a condition does not hold."""
    calls = (part for part in ast.walk(change.statement) if isinstance(part, ast.Call))
    filled = [part.args for part in calls if getattr(part.func, "attr", "") in ("full", "full_like", "where")]
    return _numbers(change) == (1.0, 2.0) and any(
        isinstance(value, ast.UnaryOp) and value.operand is change.node for values in filled for value in values
    )


def order_of_equals(change: Change) -> bool:
    return isinstance(change.node, ast.keyword) and ast.unparse(change.node) == "kind='stable'"


def of_types(change: Change) -> bool:
    return isinstance(change.parent, ast.Call) and getattr(change.parent.func, "id", "") == "TypeVar"


def only_a_cost(change: Change) -> bool:
    """The keyword itself, or anything within its value; or a field of that name."""
    if isinstance(change.statement, ast.AnnAssign) and getattr(change.statement.target, "id", "") in COSTS:
        return True
    parts = (part for part in ast.walk(change.statement) if isinstance(part, ast.keyword) and part.arg in COSTS)
    return any(inner is change.node or inner is change.parent for part in parts for inner in (part, *_within(part)))


RULES: dict[str, Callable[[Change], bool]] = {
    "Time and memory: laws compare results in blocks of several sizes, on several threads.": only_an_amount,
    "A loop that ends by itself may go round more often: nothing changes but how long failures take.": later_cap,
    "More starts, candidates or points: the same or a little better for more time, as benchmarks weigh.": wider_search,
    "A smaller tolerance makes a result more exact: the same but for its last digits.": tighter_tolerance,
    "A tolerance of rounding, relative to a little more or less: far below what results differ by.": times_a_tolerance,
    "Any number below zero is no slot, component or version: nothing compares it with minus one.": nobody,
    "Which of two equal entries comes first: stable for all processors alike, and a test has one.": order_of_equals,
    "Types are checked before anything runs.": of_types,
    "The keyword says how much time or memory is spent, or whether progress is shown.": only_a_cost,
}


def reason(change: Change) -> str:
    """Why a change does not matter; "" if it may."""
    return next((why for why, applies in RULES.items() if applies(change)), "")


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Without operators, of which a tree has one for all its uses."""
    return (part for part in ast.walk(node) if isinstance(part, ast.expr | ast.keyword))


def _assigned(change: Change) -> str:
    """The constant of import time whose value has changed; of several in one statement the one in its place."""
    statement = change.statement
    if change.function or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
        for name, value in zip(target.elts, statement.value.elts, strict=False):
            if any(part is change.node for part in ast.walk(value)):
                return getattr(name, "id", "")
    return ""


def _local(change: Change) -> str:
    """The name of a local variable whose value has changed, as if it were a constant."""
    targets = getattr(change.statement, "targets", [])
    return getattr(targets[0], "id", "").upper() if change.function and len(targets) == 1 else ""


def _has(tree: ast.AST, node: ast.AST) -> bool:
    return any(part is node for part in ast.walk(tree))


def _numbers(change: Change) -> tuple[float, float]:
    match change.node, change.other:
        case ast.Constant(value=int() | float() as old), ast.Constant(value=int() | float() as new):
            return float(old), float(new)
    return 0.0, 0.0
