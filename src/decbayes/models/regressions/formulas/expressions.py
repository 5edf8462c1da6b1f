"""Arithmetic in formulas: what a text computes from columns, and the range of the result."""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from decbayes.columns import Column
from decbayes.errors import InvalidData, InvalidStructure
from decbayes.families import Array

Named = Mapping[str, Array]
"""Coded values by the names of their columns."""

Range = tuple[float, float]

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs,
}  # fmt: skip
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip
# The smallest argument of logarithms and roots.
LEAST = {"log": 0.0, "log2": 0.0, "log10": 0.0, "log1p": -1.0, "sqrt": 0.0}


@dataclass(frozen=True)
class Expression:
    """Arithmetic with columns, as a tree of permitted operations; nothing else is ever run."""

    text: str
    tree: ast.expr
    names: tuple[str, ...]

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self._value(self.tree, values)

    def checked(self, values: Named) -> Array:
        with np.errstate(all="ignore"):
            numbers = np.asarray(self(values), dtype=np.float64)
        wrong = ~np.isfinite(numbers)
        if wrong.any():
            raise InvalidData(
                f"'{self.text}' is not a finite number in {wrong.sum():,} of {numbers.size:,} rows. Leave these rows "
                "out, or use another function."
            )
        return numbers

    def range(self, value: float) -> Range:
        """The range of the result, if all values of columns are within ±`value`."""
        with np.errstate(all="ignore"):
            return self._range(self.tree, value)

    def _range(self, node: ast.expr, value: float) -> Range:
        """By interval arithmetic."""
        match node:
            case ast.Constant(value=number):
                return float(number), float(number)  # type: ignore[arg-type]
            case ast.UnaryOp(op=sign, operand=operand):
                return range_of([OPERATORS[type(sign)](end) for end in self._range(operand, value)])
            case ast.BinOp(left=left, op=sign, right=right):
                return combined(type(sign), self._range(left, value), self._range(right, value))
            case ast.Call(func=ast.Name(id=name), args=[argument]):
                low, high = self._range(argument, value)
                if name == "I":
                    return low, high
                least = LEAST.get(name, -np.inf)  # undefined below
                ends = [float(FUNCTIONS[name](max(end, least))) for end in (low, high)]
                return range_of([*ends, 0.0] if name == "abs" and low < 0 < high else ends)
        return -value, value

    def _value(self, node: ast.expr, values: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return values[node.id]
        if isinstance(node, ast.UnaryOp):
            return OPERATORS[type(node.op)](self._value(node.operand, values))
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](self._value(node.left, values), self._value(node.right, values))
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        (argument,) = node.args
        inside = self._value(argument, values)
        return inside if node.func.id == "I" else FUNCTIONS[node.func.id](inside)


def expression_of(text: str, columns: Mapping[str, Column]) -> Expression:
    quoted = re.findall(r"`([^`]+)`", text)
    known = {f"column_{place}_": name for place, name in enumerate(quoted)}
    plain = text
    for token, name in known.items():
        plain = plain.replace(f"`{name}`", token, 1)
    try:
        tree = ast.parse(plain.strip().replace("^", "**"), mode="eval").body
    except SyntaxError:
        raise InvalidStructure(
            f"'{text}' is not a formula for a number; write for example I(x**2) or log(x)."
        ) from None
    shown, names = ast.unparse(tree), list[str]()
    for token, name in known.items():
        shown = shown.replace(token, f"`{name}`")
    check_tree(tree, text, known, columns, names)
    return Expression(shown, tree, tuple(dict.fromkeys(names)))


def check_tree(
    node: ast.AST, text: str, known: Mapping[str, str], columns: Mapping[str, Column], names: list[str]
) -> None:
    """Refuse anything but arithmetic with numeric columns; collect their names."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return
        case ast.Name(id=name):
            node.id = known.get(name, name)
            check_number(node.id, text, columns)
            names.append(node.id)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            check_tree(operand, text, known, columns, names)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            check_tree(left, text, known, columns, names)
            check_tree(right, text, known, columns, names)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name == "I" or name in FUNCTIONS:
            check_tree(argument, text, known, columns, names)
        case _:
            raise InvalidStructure(
                f"'{text}' is more than a formula can compute: there are + − * / **, I(…) and {', '.join(FUNCTIONS)}; "
                "poly, bs, ns and C stand alone. Compute any other term as a column first."
            )


def check_number(name: str, text: str, columns: Mapping[str, Column]) -> None:
    if name not in columns:
        raise InvalidStructure(f"'{text}' needs a column '{name}', which does not exist.")
    if columns[name].flag:
        raise InvalidStructure(f"'{text}': the column '{name}' holds no numbers.")


def range_of(values: Sequence[Any]) -> Range:
    """The smallest and the largest number; unbounded if one of them is NaN."""
    if np.isnan(values).any():
        return -np.inf, np.inf
    return float(min(values)), float(max(values))


def combined(sign: type[ast.AST], first: Range, second: Range) -> Range:
    """The range of an operation on these ranges. It is monotone in each argument, so the ends suffice.

    Unless a divisor, or the base of a power, may be zero.
    """
    crosses = sign is ast.Div and second[0] <= 0 <= second[1]
    power = second[0] if sign is ast.Pow and second[0] == second[1] else None
    if crosses or (sign is ast.Pow and first[0] <= 0 and (power is None or power < 0)):
        return -np.inf, np.inf
    if power is not None and first[0] < 0 and power != round(power):
        first = 0.0, max(first[1], 0.0)  # negative numbers have no such root
    ends = [OPERATORS[sign](np.float64(one), np.float64(two)) for one in first for two in second]
    even = power is not None and power % 2 == 0 and first[0] < 0 < first[1]
    return range_of([*ends, 0.0] if even else ends)
