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
         "optimize", "threads", "device", "maxsize"}  # fmt: skip
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
    return old < new and bool(EFFORTS.fullmatch(_assigned(change)))


def tighter_tolerance(change: Change) -> bool:
    old, new = _numbers(change)
    return 0.0 < new < old < TOLERANCE


def only_a_cost(change: Change) -> bool:
    """The keyword itself, or anything within its value."""
    parts = (part for part in ast.walk(change.statement) if isinstance(part, ast.keyword) and part.arg in COSTS)
    return any(inner is change.node or inner is change.parent for part in parts for inner in (part, *_within(part)))


RULES: dict[str, Callable[[Change], bool]] = {
    "Time and memory: laws compare results in blocks of several sizes, on several threads.": only_an_amount,
    "A loop that ends by itself may go round more often: nothing changes but how long failures take.": later_cap,
    "More starts, candidates or points: the same or a little better for more time, as benchmarks weigh.": wider_search,
    "A smaller tolerance makes a result more exact: the same but for its last digits.": tighter_tolerance,
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


def _numbers(change: Change) -> tuple[float, float]:
    match change.node, change.other:
        case ast.Constant(value=int() | float() as old), ast.Constant(value=int() | float() as new):
            return float(old), float(new)
    return 0.0, 0.0
