"""Points in R^D, checked on input, in memory or in files."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from decbayes.base.arguments import Seed, check_kind, given_generator, real_array
from decbayes.columns import Column
from decbayes.columns.cells import FEW_VALUES
from decbayes.errors import InvalidData, StructureMismatch, printable
from decbayes.families import Array
from decbayes.inputs.chunks import each_chunk, is_chunked
from decbayes.inputs.filed import FileArray, Folder
from decbayes.models.core.persons import Persons
from decbayes.models.core.transforms import in_slices
from decbayes.posterior import Posterior
from decbayes.remarks import UNAGREED, Remark, listed
from decbayes.structure import Structure

# Squares of larger numbers, divided by small variances, overflow.
LARGEST = 1e100

# Points per block: 12 tiles of the kernels' width.
BLOCK = 12 * 320

# Largest rounding error of a log density, in nats.
MOST_ROUNDING = 1e-2

# Shares of rows with values that are not agreed on: a site's rare categories are fewer than the first.
MANY_UNAGREED, NEARLY_ALL = 0.1, 0.95
# Files refuse remarks that are long: longer names are cut.
LONGEST_NAME = 60

# Fewest rows, and fewest different ones, to say that rows are repeated or one is too large. Many are repeated if more
# than OFTEN of the different rows are; numbers hardly repeat by chance if more than VARIED of those of different rows
# differ, and the other columns are not the same for nearly all rows.
ENOUGH_ROWS, OFTEN, VARIED = 20, 0.2, 0.9
REPEATED_ROWS = Remark(
    "repeated rows",
    "Many rows are equal in all columns, as if the table had been exported twice.",
    "If so, fit each row once: intervals are too narrow otherwise.",
)


def missing_codes(columns: Sequence[str]) -> Remark:
    """A remark on columns with values that `seem_coded`; the site that agrees with nobody yet has them in its units."""
    return Remark(
        "missing-value codes",
        f"Some values of {listed(list(columns))} look like codes for missing values, and count as numbers.",
        "If a code such as 999 or -9 stands for missing values, leave these cells empty and fit again.",
    )


def unagreed_values(column: str, share: float) -> Remark:
    """A remark on a column in which this share of the rows has values that are not agreed on.

    Rare ones are usual, and nobody should learn how many there are.
    """
    serious = share >= MANY_UNAGREED
    rows = ("Nearly all" if share > NEARLY_ALL else f"About {round(share, 1):.0%} of the") if serious else "Some"
    name = printable(column)[:LONGEST_NAME]
    return Remark(
        UNAGREED,
        f"{rows} rows have a {name} that is not agreed on, and count as 'other'.",
        "Is it another spelling or code at this site? Then write it as agreed, and fit again." if serious else "",
        severity="warning" if serious else "note",
    )


def are_repeated(points: Array, real: Sequence[bool]) -> bool:
    """Whether a table seems to hold rows twice: all of them, or many although a column hardly repeats otherwise."""
    rows, times = np.unique(points, axis=0, return_counts=True)
    if len(rows) == len(points) or len(rows) < ENOUGH_ROWS:
        return False
    different = [len(np.unique(column)) if among else 0 for column, among in zip(rows.T, real, strict=True)]
    most = int(np.argmax(different))
    if different[most] > FEW_VALUES and np.gcd.reduce(times) > 1:
        return True
    if np.mean(times > 1) <= OFTEN or different[most] <= VARIED * len(rows):
        return False
    return len(np.unique(np.delete(rows, most, axis=1), axis=0)) > FEW_VALUES


def as_points(data: Any, dimension: int, *, unseen: bool = False, columns: Sequence[str] = ()) -> Array:
    """Check points and return a finite (N, D) matrix; a vector is N points of one dimension.

    With `unseen`, NaN marks components that were not observed. A frame gives the `columns` with these names, in order.
    """
    points = as_numbers(named_points(data, columns))
    if points.ndim == 1 and (dimension == 1 or not points.size):
        points = points.reshape(-1, dimension)
    if points.ndim != 2 or points.shape[1] != dimension:
        raise InvalidData(f"Observations have shape {points.shape}; the model expects (observations, {dimension}).")
    wrong = np.concatenate([span.start + unusable(points[span], unseen) for span in spans(len(points))])
    if len(wrong):
        empty = np.isnan(points).all(axis=0)
        if empty.any() and not unseen:
            from decbayes.inputs.tables import WITHOUT_VALUES  # only for this error

            first = int(empty.argmax())
            where = f"'{columns[first]}'" if columns else f"number {first}"
            raise InvalidData(f"Column {where} is empty. {WITHOUT_VALUES}")
        raise InvalidData(
            f"{len(wrong)} of {len(points)} observations hold NaN or infinite values ({LARGEST:g} counts as infinite), "
            f"first number {wrong[0]}. Leave them out or fill them in."
        )
    return points


def named_points(data: Any, columns: Sequence[str]) -> Any:
    """A frame's columns with these names, in order; other data as they are."""
    if not columns or isinstance(data, np.ndarray):
        return data
    from decbayes.columns.frames import by_name  # topics do without

    return by_name(data, columns)


def unusable(points: Array, unseen: bool) -> NDArray[np.intp]:
    """The observations that hold unusable numbers."""
    usable = (np.abs(points) < LARGEST) | (unseen & np.isnan(points))
    return np.flatnonzero(~usable.all(axis=1))


class Points(Protocol):
    """Points in R^D, of which a slice at a time is in memory."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> Array: ...


class FiledPoints:
    """Points in a file, converted and checked whenever they are read."""

    def __init__(self, rows: FileArray, numbers: Callable[[Any], Array]) -> None:
        self._rows, self._numbers = rows, numbers

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, span: slice) -> Array:
        return self._numbers(self._rows[span])


def open_points(data: Any, numbers: Callable[[Any], Array]) -> Points:
    """Points in memory; or in a file, if they come in chunks or as a memory map.

    `numbers` converts and checks some of them.
    """
    if is_chunked(data):
        return spooled(map(numbers, each_chunk(data)))
    rows = FileArray.of_map(data) if isinstance(data, np.memmap) else data
    return FiledPoints(rows, numbers) if isinstance(rows, FileArray) and rows.dtype.kind in "buif" else numbers(data)


def spooled(chunks: Iterator[Array]) -> Points:
    """All chunks, in a temporary file."""
    first = next(chunks, None)
    if first is None:
        raise InvalidData("There are no chunks.")
    rows = Folder().array(np.float64, first.shape[1:])
    rows.append(first)
    for chunk in chunks:
        rows.append(chunk)
    return FiledPoints(rows, np.asarray)


def spans(size: int) -> Iterator[slice]:
    """Consecutive blocks of observations; at least one."""
    return (slice(first, min(first + BLOCK, size)) for first in range(0, max(size, 1), BLOCK))


def in_blocks(points: Points) -> Iterator[Array]:
    return (points[span] for span in spans(len(points)))


def as_numbers(data: Any) -> Array:
    """Convert to real numbers in row-major order: other layouts would be summed in another order."""
    if is_chunked(data):
        raise InvalidData("These observations come in chunks; this needs all of them at once, as one matrix.")
    try:
        return np.asarray(real_array(data), dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise InvalidData(f"Observations must be numbers: {error}.") from None


def check_rounding(largest: float) -> None:
    """Refuse data whose log densities are small differences of terms this large."""
    if not largest * np.finfo(np.float64).eps <= MOST_ROUNDING:
        raise InvalidData(
            "The variance of the observations is lost in rounding: they lie too far from zero. "
            "Subtract one agreed offset from every site's data, and divide by one agreed scale."
        )


def check_held(observed: Array, held: Array) -> None:
    """Refuse observed and held-out parts that do not match; NaN marks values that are not in a part."""
    if observed.shape != held.shape:
        raise InvalidData(f"Observed values have shape {observed.shape}, held-out values {held.shape}.")
    if (np.isfinite(observed) & np.isfinite(held)).any():
        raise InvalidData("Some values are both observed and held out; the prediction would know the answer.")
    if not np.isfinite(held).any():
        raise InvalidData("No value is held out, so there is nothing to predict.")


def check_fit(
    structure: Structure, rng: Seed | None, prior: Posterior | None, start: Posterior | None
) -> np.random.Generator | None:
    """The generator, if any; refuses a prior or start of another model."""
    check_prior_and_start(structure, prior, start)
    return given_generator(rng)


def check_prior_and_start(structure: Structure, prior: Posterior | None, start: Posterior | None) -> None:
    """Refuse a prior or start of another model."""
    for role, posterior in (("prior", prior), ("start", start)):
        if posterior is not None:
            check_structure(posterior, structure, role)
    if prior is not None:
        prior.check_uncertainty("A prior")


def check_structure(posterior: Posterior, structure: Structure, role: str) -> None:
    """Refuse a prior, start or posterior of another model."""
    check_kind(Posterior, **{role: posterior})
    # A posterior may be read by a model that did not fit it: later epochs have another prior.
    same = posterior.structure == structure
    if not same and (role != "posterior" or posterior.structure.description() != structure.description()):
        raise StructureMismatch(f"The {role} belongs to {posterior.structure}, the model has {structure}.")


def without_rare_values(data: Any, column: Column, least: int, persons: Persons) -> tuple[Any, list[str]]:
    """Replace values that fewer than `least` rows have; all columns are of one kind.

    Data in files are not changed: rare values in them are refused.
    """
    from decbayes.columns.frames import pooled

    if is_chunked(data) or isinstance(data, FileArray | np.memmap):
        if persons.numbers is not None:
            raise InvalidData("Persons are counted only in data that fit into memory. Use one row per person.")
        check_rare_values(each_chunk(data) if is_chunked(data) else (block.data for block in in_slices(data)), least)
        return data, []
    shape = np.shape(data)
    points = np.asarray(data, dtype=np.float64).reshape(len(data), -1)
    columns = {str(place): column for place in range(points.shape[1])}
    _, changed, remarks = pooled(points, columns, persons.counts, [least], agreed=True)
    if not remarks:
        return data, []
    instead = f"{least / 2:g} are assumed in each" if column.factor == "yes_no" else "the most common counts instead"
    remark = f"{len(remarks)} of {len(columns)} columns have values of too few persons; {instead}."
    return changed.reshape(shape), [remark]


def check_rare_values(blocks: Iterable[Any], least: int) -> None:
    """Refuse data in files where fewer than `least` rows differ from the most common value of a column."""
    common, differ = np.zeros(0), np.zeros(0)
    for block in blocks:
        rows = np.asarray(block, dtype=np.float64).reshape(len(block), -1)
        if not len(common):
            common, differ = np.median(rows, axis=0), np.zeros(rows.shape[1])
        differ += (rows != common).sum(axis=0)
    places = np.flatnonzero((differ > 0) & (differ < least))
    if len(places):
        raise InvalidData(
            f"{len(places)} columns have fewer than {least} rows that differ from all others, the first is number "
            f"{places[0]}. Leave these columns out."
        )


Reading = TypeVar("Reading", bound=Callable[..., Any])


def of_own_posterior(method: Reading) -> Reading:
    """Make a method of a posterior refuse posteriors of other models."""

    @wraps(method)
    def called(model: Any, posterior: Posterior) -> Any:
        check_kind(Posterior, posterior=posterior)
        name = posterior.structure.model.get("name")
        if name is not None and name not in {kind.__name__ for kind in type(model).__mro__}:
            raise StructureMismatch(
                f"The posterior belongs to {name}, not to {type(model).__name__}. Its own model is "
                "`db.model_for(posterior.structure)`."
            )
        return method(model, posterior)

    return cast(Reading, called)
