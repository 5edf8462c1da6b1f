"""Checks of arguments: bad ones are refused by name and with the remedy, before NumPy reinterprets them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from decbayes.errors import InvalidData, InvalidStructure

# Where to get an object of the required type.
REMEDIES = {
    "Alignment": "`align(posteriors)` finds one",
    "Ascent": "Ascent(passes=…, restarts=…) makes one",
    "Calibration": "`calibrate(model, shards, posterior)` finds one",
    "CoupledSet": "CoupledSet((name, …)) names the factors that are relabelled together",
    "Family": "`decbayes.families` has them, such as IsotropicGaussian()",
    "Generator": "an integer will do as its seed",
    "Model": "such as `GaussianMixture(3)`",
    "Posterior": "a fit's is `fit.posterior`, a file's `load(path)`",
    "Reliability": "`reliability(alignment)` learns one",
    "Remark": "fits and merges make them",
    "Rules": "`Rules(…)` states them, and None means none",
    "Structure": "a model's is `model.structure`, a posterior's `posterior.structure`",
    "Tree": "`decbayes.merging.tree(posteriors)` makes one",
}


Seed = np.random.Generator | int
"""The source of random numbers: a generator, which continues from call to call, or the seed of a new one.

All public functions follow one rule: `rng` may be omitted (None) where the result does not depend on it.
"""


def generator(rng: Seed | None) -> np.random.Generator:
    """The generator, or one with this seed, for results that depend on random numbers."""
    if rng is None:
        raise TypeError("rng is needed, as this depends on random numbers: rng=0, or a numpy.random.Generator.")
    if is_number(rng) or isinstance(rng, Integral):  # seeds may be larger than NumPy's integers
        check_whole(0, rng=rng)
    else:
        check_kind(np.random.Generator, rng=rng)
    return np.random.default_rng(rng)


def given_generator(rng: Seed | None) -> np.random.Generator | None:
    """The same where random numbers may not be needed."""
    return None if rng is None else generator(rng)


def children(rng: Seed | None, count: int) -> Sequence[np.random.Generator | None]:
    """One generator per fit, or none at all."""
    return [None] * count if rng is None else generator(rng).spawn(count)


@dataclass(frozen=True)
class Above:
    """A lower bound in a setting's annotation: Annotated[float, "What it is.", Above(0)]."""

    bound: float


def check_kind(kind: type, **given: Any) -> None:
    """Refuse arguments of another type."""
    for name, value in given.items():
        if not isinstance(value, kind):
            wanted = kind.__name__
            raise TypeError(f"{name} must be of type {wanted}, not {type(value).__name__}; {REMEDIES[wanted]}.")


def check_whole(least: int, **settings: Any) -> None:
    """Refuse sizes and counts that are not integers, or too small."""
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}.")


def check_positive(**settings: Any) -> None:
    """Refuse variances, strengths and concentrations that are not positive numbers."""
    for name, value in settings.items():
        if not is_number(value) or not 0 < value < np.inf:
            raise ValueError(f"{name} must be a positive number, not {value!r}.")


def check_level(level: float) -> None:
    if not is_number(level) or not 0.0 < level < 1.0:
        raise ValueError(f"level is the probability of an interval, between 0 and 1; not {level!r}.")


def names_of(**given: Iterable[str]) -> tuple[str, ...]:
    """A list of names as a tuple; a single string would be a list of letters, and a set has another order each time."""
    ((name, value),) = given.items()
    if isinstance(value, str | bytes | set | frozenset):
        kind = "a set, which has no order" if isinstance(value, set | frozenset) else "one string"
        raise TypeError(f"{name} must be a list of names, not {kind}.")
    return tuple(value)


def given(**settings: Any) -> dict[str, Any]:
    """The settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}


def is_number(value: Any) -> bool:
    """Whether this is a single real number, from Python or NumPy."""
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "buif" and not np.ma.is_masked(value)


def real_array(values: Any) -> NDArray[Any]:
    """Real numbers as an array; TypeError or ValueError if NumPy would have to drop information."""
    if issparse(values):
        raise TypeError("this is a sparse matrix; write it out with .toarray()")
    if np.ma.is_masked(values):
        raise ValueError("some values are masked; drop them, or fill them in with .filled(…)")
    array = np.asarray(values)
    if array.dtype.kind in "cmMV":
        raise TypeError(f"these are {array.dtype}; convert them to real numbers first")
    try:
        return array if array.dtype.kind in "buif" else array.astype(np.float64)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    except (TypeError, ValueError):
        # NumPy's message would quote the value, which may be confidential.
        raise ValueError("some are missing, texts, or otherwise not numbers") from None


def as_shape(name: str, values: Any, shape: tuple[int, ...], *, above: float = -np.inf) -> NDArray[np.float64]:
    """A setting given as one number for all or as an array; finite and above a bound."""
    try:
        numbers = np.broadcast_to(real_array(values).astype(np.float64), shape)
    except (TypeError, ValueError) as error:
        raise InvalidStructure(f"{name} must be one number, or numbers of the shape {shape}: {error}.") from None
    if not ((numbers > above) & (numbers < np.inf)).all():
        raise InvalidStructure(f"{name} must be {'finite' if above < 0 else 'positive'}, not {np.asarray(values)}.")
    return numbers


def check_all_named(names: Sequence[str]) -> None:
    """Refuse to use a column without a name: most often it holds the row numbers that a program has added."""
    unnamed = [place for place, name in enumerate(names, 1) if not str(name).strip()]
    if unnamed:
        raise InvalidData(
            f"column {unnamed[0]} has no name and may hold row numbers. Name it, or choose columns (--columns)."
        )


def columns_listed(names: Sequence[str]) -> str:
    """The available columns, for a message. Names that look like numbers may be data, and are not quoted."""
    if any(name.lstrip("+-")[:1].isdigit() for name in names):
        return "not listed here, because some begin with a digit (is the first line a row of data?)"
    return some(names) or "without names"


def some(names: Sequence[str], most: int = 8) -> str:
    """Names for a message, limited to the first few."""
    shown = ", ".join(f'"{name}"' if "," in name else name for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, which others cannot reach."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
