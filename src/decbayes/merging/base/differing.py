"""Differences between two models, in sentences for people who have not read the code."""

from collections.abc import Iterator, Sequence
from typing import Any

MOST_NAMES = 3


def model_differences(first: Any, second: Any) -> Iterator[str]:
    """How two models differ in kind, outcome, terms and columns, most important first."""
    names = [str(model.get("name", "")) for model in (first, second)]
    if all(names) and names[0] != names[1]:
        yield f"they are different models, {names[0]} and {names[1]}."
    if first.get("target") != second.get("target"):
        yield f"one predicts '{first.get('target')}', the other '{second.get('target')}'."
    for key, what in (("terms", "term"), ("varying", "varying term")):
        one, other = (listed(model.get(key)) for model in (first, second))
        if set(one) != set(other):
            yield only_one_has(what, one, other)
    yield from column_differences(columns_in(first), columns_in(second))


def listed(names: Any) -> list[str]:
    """The names that a structure lists; none if a foreign file has something else there."""
    return list(map(str, names)) if isinstance(names, list | tuple) else []


def columns_in(model: Any) -> dict[str, list[Any]]:
    """The columns that a structure lists, kind and details by name; none if it lists them differently."""
    columns = model.get("columns")
    listed = isinstance(columns, list) and all(isinstance(column, list) and len(column) > 1 for column in columns)
    return {str(name): details for name, *details in columns} if listed else {}


def column_differences(first: dict[str, list[Any]], second: dict[str, list[Any]]) -> Iterator[str]:
    if not first or not second:
        return
    if first.keys() != second.keys():
        yield only_one_has("column", [*first], [*second])
    for name, (kind, *details) in first.items():
        other, *others = second.get(name, [kind, *details])
        if kind != other:
            yield f"column '{name}' is {kind} in one and {other} in the other."
        elif details != others and all(isinstance(detail, str) for detail in (*details, *others)):
            if set(details) == set(others):
                yield f"the categories of column '{name}' are in another order."
            else:
                yield only_one_has("category", details, others, f" in column '{name}'")
        elif details != others:
            yield f"the agreed centre, scale or mean of column '{name}' differs."


def only_one_has(what: str, first: Sequence[Any], second: Sequence[Any], where: str = "") -> str:
    names = [name for name in (*first, *second) if (name in first) != (name in second)]
    several = f"{what.removesuffix('y')}ies" if what.endswith("y") else f"{what}s"
    shown = ", ".join(f"'{name}'" for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"only one of them has the {what if len(names) == 1 else several} {shown}{more}{where}."
