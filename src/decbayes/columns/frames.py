"""Data frames in and out: pandas, Polars, Arrow, mappings of columns and anything else that names its columns."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from numbers import Real
from shlex import quote
from typing import Any

import numpy as np

from decbayes.base.arguments import check_all_named, columns_listed, some
from decbayes.columns._rare import OTHER
from decbayes.columns.categories import Categorical, YesNo
from decbayes.columns.cells import FALSE, TRUE, Array, Raw, is_missing, seen, text_of
from decbayes.columns.column import Column, Having
from decbayes.columns.kinds import Gaussian, Missing, Poisson, kind_named
from decbayes.errors import InvalidData, InvalidStructure, warn

Columns = Mapping[str, Column]
# A table with fewer rows may well have only categories that were not agreed on.
ENOUGH_ROWS = 10
AGREE = "If they matter, agree on them first, with `decbayes columns` at all sites."
# Names of kinds as the names of models spell them.
OTHER_SPELLINGS = {"yes-no": "yes/no"}


def is_frame(data: Any) -> bool:
    """Whether the data name their columns."""
    return not isinstance(data, np.ndarray | list | tuple) and bool(names_in(data))


def names_in(frame: Any) -> tuple[str, ...]:
    """The names of a frame's columns; none if it is not a frame."""
    return tuple(map(str, keys_in(frame)))


def keys_in(frame: Any) -> Sequence[Any]:
    """The names of columns as the frame has them; in pandas they may be numbers."""
    if isinstance(frame, Mapping):
        return tuple(frame)
    if hasattr(frame, "collect"):
        raise InvalidData("This frame is lazy: pass frame.collect().")
    keys: Any = getattr(frame, "column_names", None)
    keys = getattr(frame, "columns", ()) if keys is None else keys
    return () if callable(keys) else tuple(keys)


def column_in(frame: Any, name: str) -> Any:
    keys = [key for key in keys_in(frame) if str(key) == name]
    if not keys:
        raise InvalidData(f"There is no column '{name}'; the columns are {columns_listed(names_in(frame))}.")
    if len(keys) > 1:
        raise InvalidData(f"There are {len(keys)} columns called '{name}'; each needs its own name.")
    return frame[keys[0]]


def values_in(frame: Any, name: str) -> Raw:
    """One column of a frame, as a NumPy array."""
    column = column_in(frame, name)
    # Arrow stores categories separately.
    column = column.cast(column.type.value_type) if hasattr(getattr(column, "type", None), "value_type") else column
    values = np.asarray(column)
    if values.ndim != 1:
        raise InvalidData(f"Column '{name}' has {values.ndim} dimensions; a column is one value per row.")
    return np.asarray(values)


def by_name(data: Any, names: Sequence[str]) -> Any:
    """A frame's columns with these names, in this order, as a matrix; other data, and frames without names, as is."""
    if not names or hasattr(data, "tocsr") or not is_frame(data):
        return data
    if not all(isinstance(key, str) for key in keys_in(data)):
        return data
    if lacking := sorted(set(names) - set(names_in(data))):
        raise InvalidData(f"The data lack {len(lacking)} of the model's {len(names)} columns: {some(lacking)}.")
    return np.column_stack([values_in(data, name) for name in names])


def rows_in(frame: Any) -> int:
    return len(values_in(frame, names_in(frame)[0]))


def coded(frame: Any, columns: Columns) -> Array:
    """The agreed columns of a frame as one matrix of numbers, NaN if a value is missing.

    `frame` is a data frame of pandas, Polars or Arrow, or a mapping of names to values. `columns` are those to use;
    others are ignored.

    >>> columns = {"sex": db.columns.Categorical("f", "m"), "age": db.columns.Gaussian(50, 20)}
    >>> db.columns.coded({"age": [71, None], "sex": ["m", "f"], "name": ["Kim", "Jo"]}, columns)
    array([[ 1., 71.],
           [ 0., nan]])
    """
    names = names_in(frame)
    lacking = [name for name in columns if name not in names]
    if lacking:
        raise InvalidData(
            f"The data lack {len(lacking)} of the {len(columns)} agreed columns: {some(lacking)}. A column that a "
            "site does not have is a column of missing values."
        )
    parts = [coded_column(name, column, values_in(frame, name)) for name, column in columns.items()]
    if len({len(part) for part in parts}) > 1:
        raise InvalidData("The columns of the data have different lengths.")
    return np.column_stack(parts)


class Unagreed(str):
    """A report of values that are not agreed on: a sentence for their owner, the column, their share of the rows."""

    column: str
    share: float

    def __new__(cls, text: str, column: str, share: float) -> "Unagreed":
        unagreed = super().__new__(cls, text)
        unagreed.column, unagreed.share = column, share
        return unagreed


def unagreed_in(frame: Any, columns: Columns, remedy: str = AGREE) -> Iterator[Unagreed]:
    """A report for each column with values that are not agreed on. It quotes agreed categories only."""
    for name, column in columns.items():
        values = values_in(frame, name)
        if (unagreed := column.unagreed(values)).any():
            verbs = ("is", "counts") if unagreed.sum() == 1 else ("are", "count")
            text = (
                f"Column '{name}': {unagreed.sum():,} of {len(values):,} values {verbs[0]} not among the agreed ones "
                f"and {verbs[1]} as '{OTHER}'. {meant_by(column, values[unagreed]) or remedy}"
            )
            yield Unagreed(text, name, float(unagreed.mean()))


def meant_by(column: Column, values: Raw) -> str:
    """Which agreed categories are probably meant by values that were not agreed on."""
    from decbayes.columns.comparing import nearest  # most data have none

    agreed = {*getattr(column, "categories", ())} - {OTHER}
    meant = {nearest(text, agreed) for text in {text_of(value) for value in values}} - {""}
    return f"Did some of them mean {some(sorted(meant))}? Write them as agreed at all sites." if meant else ""


def check_agreed(name: str, column: Column, values: Raw) -> None:
    """Refuse values that would count as "other" although nobody wrote that."""
    if (unagreed := column.unagreed(values)).any():
        agreed = ", ".join(getattr(column, "categories", ()))
        meant = meant_by(column, values[unagreed]) or f"For all others write '{OTHER}'."
        raise InvalidData(f"Column '{name}': a value is not among the agreed categories: {agreed}. {meant}")


def coded_column(name: str, column: Column, values: Raw) -> Array:
    try:
        coded = column.coded(values)
        check_some_agreed(column, values, coded)
    except InvalidData as error:
        raise InvalidData(f"Column '{name}' ({column.kind}): {error}.") from None
    return coded


def check_some_agreed(column: Column, values: Raw, coded: Array) -> None:
    """Refuse a table if all its rows count as "other": the site's level would look like the effect of that."""
    known = ~np.isnan(coded)
    if known.sum() < ENOUGH_ROWS or np.ptp(coded[known]) > 0.0:
        return
    unagreed = column.unagreed(values)
    if unagreed[known].all() or (unagreed.any() and column.kind == Categorical.kind):
        meant = meant_by(column, values[unagreed]).rstrip(".")
        raise InvalidData(
            f"no row has one of the agreed categories ({column.text()}), so that all count as '{OTHER}'. "
            + (meant or "Agree on the categories of all sites first, with `decbayes columns`, or leave the column out")
        )


def pooled(
    points: Array, columns: Columns, persons: Having, least: Sequence[float], *, agreed: bool, predictors: bool = False
) -> tuple[dict[str, Column], Array, list[str]]:
    """Columns and their values without those of fewer than the `least` persons; and what was changed.

    `least` has one number for all persons, and one for those of each outcome that `persons` counts. `predictors`
    explain an outcome.
    """
    kept, changed, remarks = dict(columns), points.copy(), []
    minima = np.asarray(least, dtype=np.float64)
    for place, (name, column) in enumerate(columns.items()):
        try:
            numbers, change = nearly_missing(points[:, place], persons, minima, agreed=agreed)
            if not change:
                kept[name], numbers, change = column.pooled(
                    numbers, persons, minima, agreed=agreed, predictor=predictors
                )
            changed[:, place] = numbers
        except InvalidData as error:
            raise InvalidData(f"Column '{name}' ({column.kind}): {error}.") from None
        remarks += [f"Column '{name}': {change}."] if change else []
    return kept, changed, remarks


def nearly_missing(numbers: Array, persons: Having, least: Array, *, agreed: bool) -> tuple[Array, str]:
    """Treat a column as missing if too few persons have a value; also return a text that says so."""
    known = persons(~np.isnan(numbers))[0]
    if not 0 < known < least[0]:
        return numbers, ""
    if not agreed:
        raise InvalidData(f"fewer than {least[0]:g} persons have a value. Leave the column out")
    return np.full_like(numbers, np.nan), f"fewer than {least[0]:g} persons have a value, and count as missing"


def decoded(matrix: Array, columns: Columns) -> dict[str, Raw]:
    """A matrix of numbers as columns, as `pandas.DataFrame`, `polars.DataFrame` and `pyarrow.table` take them.

    `matrix` has a row of numbers per observation, one for each of the `columns`.

    >>> db.columns.decoded(np.array([[1.0], [np.nan]]), {"sex": db.columns.Categorical("f", "m")})
    {'sex': array(['m', None], dtype=object)}
    """
    return {name: column.decoded(matrix[:, place]) for place, (name, column) in enumerate(columns.items())}


def columns_of(
    frame: Any,
    kinds: Mapping[str, str] | None = None,
    *,
    names: Iterable[str] = (),
    piled: Collection[str] = (),
    report: Callable[[str], None] = warn,
) -> dict[str, Column]:
    """What the columns of a frame hold, inferred from their values.

    Strings are categorical, true and false (or 0 and 1) are yes/no, integers that begin at 0 or 1 are counts, all
    others are real. Categories, and the agreed units of real columns, are taken from the values. A column without any
    value is `Missing`, which agrees with whatever other sites have.

    `kinds` names the kind of columns whose values mislead. `names` are the columns to use, if not all. `report` is
    called with a sentence about each column that looks misread (default: a warning). In `piled` columns many rows may
    have the same value, such as times of patients who are alive at the end of follow-up.

    >>> patients = {"age": [71, 20, 33], "sex": ["f", "m", "f"], "visits": [0, 3, 1], "ward": [1, 2, 1]}
    >>> db.columns.columns_of(patients, {"ward": "categorical"}, names=["sex", "visits", "ward"])
    {'sex': Categorical(categories=('f', 'm')), 'visits': Poisson(mean=1.33),
     'ward': Categorical(categories=('1', '2'))}
    """
    if not is_frame(frame):
        raise InvalidData("These data do not name their columns: give a data frame, or a mapping of names to values.")
    chosen, asked = tuple(names) or names_in(frame), dict(kinds or {})
    check_all_named(chosen)
    unknown = [name for name in (*chosen, *asked) if name not in names_in(frame)]
    if unknown:
        raise InvalidData(f"There is no column {some(unknown)}; the columns are {columns_listed(names_in(frame))}.")
    columns = {name: found_column(name, frame, asked.get(name)) for name in chosen}
    for name, column in columns.items():
        doubts = "" if name in asked else column.doubts(values_in(frame, name), piled=name in piled)
        if doubts:
            remedy = "" if doubts.endswith(".") else f" If so: --kinds {quote(f'{name}=KIND')}, in Python `kinds`."
            report(f"Column '{name}' is taken as {column.kind}, and {doubts}{remedy}")
    return columns


def found_column(name: str, frame: Any, kind: str | None) -> Column:
    try:
        categories = listed_categories(column_in(frame, name))
        if categories and kind in (None, Categorical.kind):
            return Categorical(*categories)
        values = values_in(frame, name)
        if all_missing(values):
            return Missing()
        return (likely_kind(values) if kind is None else kind_named(OTHER_SPELLINGS.get(kind, kind))).found_in(values)
    except (InvalidData, InvalidStructure) as error:
        raise InvalidData(
            f"Column '{name}': {str(error).rstrip('.')}. Choose the columns to use, or their kinds."
        ) from None


def listed_categories(column: Any) -> list[Any]:
    """The categories that a column itself lists, in its own order, whether or not they occur."""
    listed: Any = getattr(getattr(column, "dtype", None), "categories", None)
    return list(listed) if hasattr(listed, "__len__") else []


def all_missing(values: Raw) -> bool:
    return bool(np.isnan(values).all() if values.dtype.kind in "fmM" else all(map(is_missing, values)))


def likely_kind(values: Raw) -> type[Column]:
    """The kind of column that such values suggest."""
    if values.dtype.kind not in "buif":
        known = [value for value in values if not is_missing(value)]
        if values.dtype.kind in "mM" or any(isinstance(value, date | time | timedelta) for value in known):
            raise InvalidData("the values are dates or times, which could be numbers of days or categories")
        if not all(isinstance(value, Real | np.bool_) for value in known):
            words = {text_of(value).lower() for value in known}
            return YesNo if words <= (TRUE | FALSE) else Categorical
    numbers = np.unique(seen(values))
    if set(numbers.tolist()) <= {0.0, 1.0}:
        return YesNo
    whole = (numbers == np.rint(numbers)).all()
    return Poisson if whole and 0 <= numbers[0] <= 1 else Gaussian


def agree(*sites: Columns) -> dict[str, Column]:
    """The common columns of several sites: all categories that any has, and one unit for each real column.

    `sites` are what `columns_of` finds in the data of each: names, categories, and three rounded numbers for each real
    column. Nothing else has to leave a site. Sites that seem to use another unit than most do not count for the unit of
    that column; `unlike` names them.

    >>> north = db.columns.columns_of({"ward": ["a", "b"], "age": [20.5, 30.5]})
    >>> south = db.columns.columns_of({"ward": ["b", "c"], "age": [40.5, 70.5]})
    >>> db.columns.agree(north, south)
    {'ward': Categorical(categories=('a', 'b', 'c')), 'age': Gaussian(centre=41.0, scale=18.9, resolution=0.1)}
    """
    names = list(sites[0]) if sites else []
    for site in sites:
        if set(site) != set(names):
            raise InvalidStructure(f"Only some sites have the columns {some(sorted(set(site) ^ set(names)))}.")
    from decbayes.columns.comparing import in_common_units  # most commands agree on nothing

    rows = {name: [site[name] for site in sites] for name in names}
    return {name: agreed_column(name, in_common_units(name, rows)) for name in names}


def agreed_column(name: str, columns: Sequence[Column]) -> Column:
    columns = [column for column in columns if column.kind != Missing.kind] or columns
    kinds = sorted({column.kind for column in columns})
    if len(kinds) > 1:
        why, kind = kind_of_all(columns)
        raise InvalidStructure(
            f"Column '{name}' is {' at one site and '.join(kinds)} at another{why}; state one when the table is read: "
            f"--kinds {quote(f'{name}={kind}')}, for example."
        )
    try:
        return type(columns[0]).agreed(columns)
    except InvalidStructure as error:
        raise InvalidStructure(f"Column '{name}': {error}") from None


def kind_of_all(columns: Sequence[Column]) -> tuple[str, str]:
    """Why sites read one column as several kinds, if that is known, and a kind that suits the values of all of them."""
    kinds = {column.kind for column in columns}
    if not kinds <= {YesNo.kind, Poisson.kind, Gaussian.kind}:
        return "", min(kinds)
    if any(isinstance(column, Gaussian) and column.resolution < 1.0 for column in columns):
        return "", Gaussian.kind
    if Gaussian.kind in kinds:
        return " (integers are counts only where they begin at 0 or 1)", Poisson.kind
    return " (integers are counts where they exceed 1, even if only by a code such as 9)", Poisson.kind


def plain(columns: Columns) -> list[list[Any]]:
    """Columns as lists of names, kinds and details, for files, charters and structures; `declared` is the inverse.

    >>> db.columns.plain({"sex": db.columns.Categorical("f", "m"), "visits": db.columns.Poisson(2)})
    [['sex', 'categorical', 'f', 'm'], ['visits', 'count', 2.0]]
    """
    return [[name, column.kind, *column.details()] for name, column in columns.items()]


def declared(columns: Any) -> dict[str, Column]:
    """Columns from {name: column}, from {name: kind}, or from the lists that `plain` returns.

    >>> db.columns.declared({"visits": "count", "age": db.columns.Gaussian(50, 20)})
    {'visits': Poisson(mean=1.0), 'age': Gaussian(centre=50.0, scale=20.0, resolution=0.0)}
    """
    if isinstance(columns, Mapping):
        return {str(name): declared_column(name, column) for name, column in columns.items()}
    try:
        rows = [(str(name), kind_named(kind)(*details)) for name, kind, *details in columns]
    except (TypeError, ValueError) as error:
        raise InvalidStructure(
            f"Columns are {{name: column}}, or lists of a name, a kind and details: {error}."
        ) from None
    if len(dict(rows)) < len(rows):
        raise InvalidStructure("Two columns have the same name.")
    return dict(rows)


def known(columns: Any) -> dict[str, Column]:
    """Declared columns, refused if one of them is missing at all sites."""
    agreed = declared(columns)
    empty = [name for name, column in agreed.items() if column.kind == Missing.kind]
    if empty:
        raise InvalidStructure(
            f"There are no values of {some(empty)}. Agree on these columns with sites that have values, or leave them "
            "out."
        )
    return agreed


def declared_column(name: str, column: Any) -> Column:
    if isinstance(column, Column):
        return column
    if isinstance(column, str):
        return kind_named(column)()
    if isinstance(column, type) and issubclass(column, Column):
        return column()
    raise InvalidStructure(f"Column '{name}' must be one of decbayes.columns, such as Gaussian(); not {column!r}.")
