"""Single values of tables: missing values, numbers, names of categories, precision."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decbayes.errors import InvalidData

Array = NDArray[np.float64]
Raw = NDArray[Any]

# Words for yes and no in files, in the languages of many registries.
TRUE = {"1", "true", "yes", "ja", "oui", "sí", "si", "sì", "sim", "tak", "kyllä"}
FALSE = {"0", "false", "no", "nein", "nee", "nej", "nei", "non", "não", "nao", "nie", "ei"}
# A real column with so few distinct values is more likely counts or categories.
FEW_VALUES = 8
EMPTY = "If so, leave these cells empty."
# Codes for missing values with those for "refused" and the like, if the highest of them occurs. They are further from
# other values than these among themselves: by this factor, or as far as all these spread.
HIGH_CODES = ({9, 8, 7}, {99, 98, 97, 88, 77}, {999, 998, 997, 888, 777}, {9999, 9998, 9997, 8888, 7777})
HOLE = 3.0
# In the tail of a distribution the last value is more frequent than the one before by at most so many rows, by chance,
# and neither has this share of all rows.
BY_CHANCE, COMMON = 2, 0.1


def refuse(wrong: NDArray[np.bool_], what: str) -> None:
    """Say how many values are wrong and where the first is, never what it is."""
    places = np.flatnonzero(wrong)
    if len(places):
        raise InvalidData(
            f"{len(places):,} of {len(wrong):,} values are {what}; the first is in row {places[0]}, counted from 0"
        )


def as_numbers(values: Raw) -> Array:
    if values.dtype.kind in "buif":
        return values.astype(np.float64)
    if values.dtype.kind in "mMcV":
        raise InvalidData(f"the values are {values.dtype.name}, not numbers")
    coded = np.array([np.nan if is_missing(value) else number_of(value) for value in values], dtype=np.float64)
    missing = np.array([is_missing(value) for value in values], dtype=np.bool_)
    wrong = np.isnan(coded) & ~missing
    commas = any(not np.isnan(number_of(str(value).replace(",", ".", 1))) for value in values[wrong])
    refuse(wrong, "not numbers" + " (some have decimal commas: write points)" * commas)
    return coded


def number_of(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def seen(values: Raw) -> Array:
    """The numbers that are not missing; at least one."""
    numbers = as_numbers(values)
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        raise InvalidData("all values are missing")
    return numbers


def is_missing(value: Any) -> bool:
    """None, NaN, and pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def yes_or_no(value: Any) -> float:
    if is_missing(value):
        return np.nan
    word = text_of(value).lower()
    return 1.0 if word in TRUE else 0.0 if word in FALSE else -1.0


def text_of(value: Any) -> str:
    """A category's name: 2, 2.0 and "2" are the same."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, np.datetime64):
        # Independent of the unit in which a frame counts time.
        return str(value.astype("datetime64[us]").item())
    return str(value).strip()


def in_order(by_text: dict[str, Any]) -> list[str]:
    """Names in numerical order if they are numbers, else in alphabetical order."""
    try:
        return sorted(by_text, key=float)
    except ValueError:
        return sorted(by_text)


def rounded(value: float) -> float:
    """Three digits: enough for a unit, and all that needs to leave a site."""
    return float(f"{value:.3g}")


def rounded_to(scale: float, value: float) -> float:
    """Round to about a tenth of the scale."""
    digits = 1 - int(np.floor(np.log10(scale)))
    return round(value, digits)


def decimal_unit(numbers: Array) -> float:
    """The largest power of ten up to 1000 that divides all numbers; 0 if they have over six decimals."""
    for power in range(3, -7, -1):
        multiples = numbers / 10.0**power
        sizes = np.abs(multiples)
        # Numbers that are all tiny are multiples of nothing; tiny ones among others are 0 but for rounding.
        smallest = min(float(sizes.max(initial=0.0)), 1.0)
        if (np.abs(multiples - np.rint(multiples)) <= 1e-9 * np.maximum(sizes, smallest)).all():
            return 10.0**power
    return 0.0


def seem_coded(values: Array) -> bool:
    """Whether some of these numbers seem to be codes for missing values; −1 only if it is more frequent than 0."""
    different, times = np.unique(values[~np.isnan(values)], return_counts=True)
    tail = int(len(different) > 1 and (different[0], different[1]) == (-1, 0) and times[0] <= times[1])
    return bool(code_doubts(different[tail:], times[tail:]))


def code_doubts(different: Array, times: Any) -> str:
    """What suggests that some values are codes for missing values; "" if nothing does."""
    if negative_codes(different, times):
        return f"has negative values in several rows that look like codes for missing values, such as -9. {EMPTY}"
    if high_codes(different, times) or far_apart(different, times):
        return f"has a value far from all others in several rows. Is it a code for missing values (9, 99, 999)? {EMPTY}"
    return ""


def far_apart(different: Array, times: Any) -> bool:
    """Whether the largest or the smallest value occurs repeatedly, far from all others."""
    if len(different) <= FEW_VALUES:
        return False
    for ends, rest in ((different[[-1, -2]], different[:-1]), (different[[0, 1]], different[1:])):
        gap, spread = abs(ends[0] - ends[1]), rest[-1] - rest[0]
        if gap > spread and times[np.searchsorted(different, ends[0])] > 1:
            return True
    return False


def high_codes(different: Array, times: Any) -> bool:
    """Whether the largest values are repeated codes such as 9, 99 or 98, far above all others."""
    if len(different) < 3:
        return False
    code = np.isin(different, [*next((codes for codes in HIGH_CODES if different[-1] == max(codes)), ())])
    count = int(np.argmin(code[::-1]))
    values = different[: len(different) - count]
    if not count or len(values) < 2 or times[-count:].max() < 2:
        return False
    gap, usual = different[-count] - values[-1], np.diff(values).max()
    return bool(gap > usual and gap >= min(values[-1] - values[0], HOLE * usual))


def negative_codes(different: Array, times: Any) -> bool:
    """Whether all values are at least 0 apart from repeated codes such as −1, −9, −88 or −999."""
    below = different < 0
    codes = [is_code(value) for value in different[below]]
    if not codes or not all(codes) or times[below].max() < 2 or len(different) <= len(codes) + 1:
        return False
    return different[0] < -1 or not (len(different) < 4 or is_tail(different, times))


def is_code(number: float) -> bool:
    """Whether such a number often stands for a missing value: 9, 99, 98, −1, −9 and the like."""
    return number == -1 or set(f"{-number:g}") in ({"7"}, {"8"}, {"9"}) or any(number in codes for codes in HIGH_CODES)


def is_tail(different: Array, times: Any) -> bool:
    """Whether −1 is as rare as 0 and follows it: many integers may just reach it."""
    return different[1] == 0 and bool(times[0] <= times[1] + BY_CHANCE and times[1] < COMMON * times.sum())
