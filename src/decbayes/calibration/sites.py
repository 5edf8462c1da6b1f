"""The small sums that sites send in addition to their contributions, to calibrate a merged posterior."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from decbayes.base.tensors import check_hash, hashed, read_arrays, write_arrays
from decbayes.base.workers import jobs
from decbayes.errors import InvalidFile, NotCalibrated
from decbayes.families import Array
from decbayes.merging import product
from decbayes.models.core.information import flat_contribution, largest
from decbayes.models.core.model import Model
from decbayes.models.core.persons import EACH, Persons
from decbayes.models.core.registry import model_for
from decbayes.models.regressions.regression import Regression
from decbayes.models.regressions.varying.site_effects import groups_of
from decbayes.posterior import EXACT, JOINT, Posterior
from decbayes.remarks import COUNTS_LESS, REPEATED, listed

PREFIX, GRID, UNITS = "information/", "grid", "units"
# The parts' total may differ from the merge by this much, absolutely and relatively, because sums are rounded.
ROUNDING = 0.5, 1e-4
NO_GRID = np.zeros((0, 0))
# Linear response adds what mean field leaves out: how factors depend on each other. There is one factor only.
NEEDLESS = (
    "There is nothing to calibrate: intervals of this model are for all its parameters jointly. After one broadcast, "
    "take a round (refine). If the model may not hold, ask for robust errors of a regression (--robust)."
)


@dataclass(frozen=True, eq=False)
class Information:
    """The input of calibration from some sites: their contribution at a merged posterior, and its derivative.

    A site computes its own with `Information.of` and sends it, as bytes or in a file. They add up across sites.

    Attributes:
        at: the digest of the merged posterior.
        sites: the number of sites in the sum.
        contribution: Σ_i c_i.
        matrix: Σ_i ∂c_i/∂E[T]; for robust errors Σ ũ ũᵀ over clusters (`regressions.robust_errors`).
        clusters: for robust errors, the number of independent observations or clusters; else 0.
        grid: for half-Cauchy priors of a regression's deviations between sites, sums for each of many values; for
            robust errors one row, Σ a² over clusters.
        units: the number of observations, words of documents or steps of sequences; 0 if not stated.
        clustered: for robust errors, whether the cluster of each row was named.

    >>> model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    >>> shards = [np.array([[-9.0], [-8.0]]), np.array([[8.0], [9.0]])]
    >>> posterior = model.fit(np.concatenate(shards), rng=np.random.default_rng(0)).posterior
    >>> first, second = (db.checking.Information.of(model, shard, posterior) for shard in shards)
    >>> (first + second).sites
    2
    """

    at: str
    sites: int
    contribution: Array
    matrix: Array
    clusters: int = 0
    grid: Array = field(default_factory=lambda: NO_GRID)
    units: float = 0.0
    clustered: bool = False

    @classmethod
    def of(cls, model: Model, data: Any, posterior: Posterior) -> "Information":
        """The information of one site's data at the merged posterior; refused if intervals need no calibration."""
        if replace(posterior, calibration=None).uncertainty in (EXACT, JOINT):
            raise NotCalibrated(NEEDLESS)
        units = check_holds(posterior, units_in(model, data))
        contributed = flat_contribution(model.contributed(posterior, data))
        return cls(posterior.digest, 1, contributed, model.information(posterior, data), units=units)

    @classmethod
    def half_cauchy(cls, model: Model, data: Any, posterior: Posterior) -> "Information":
        """The same, with a regression's sums for many values of its deviations between sites."""
        if not isinstance(model, Regression):
            raise NotCalibrated("Only regressions have standard deviations between sites.")
        grid = model.half_cauchy(posterior).sums(data)
        return replace(cls.of(model, data, posterior), grid=grid)

    @classmethod
    def usual(cls, model: Model, data: Any, posterior: Posterior, *, rules: bool = False) -> "Information":
        """`half_cauchy` if a regression's terms vary, else `of`.

        Under disclosure `rules`, not if the rows are of several sites or groups: sums for many values could separate
        them. Those of one site alone follow from its contribution.
        """
        varies = isinstance(model, Regression) and bool(model.varying) and not (rules and several_groups(model, data))
        return (cls.half_cauchy if varies else cls.of)(model, data, posterior)

    @classmethod
    def robust(cls, model: Model, data: Any, posterior: Posterior, clusters: Persons = EACH) -> "Information":
        """For robust errors: rows of one cluster, by default each row by itself, may depend on each other in any way.

        >>> model = db.PoissonRegression("y", columns={"y": "count", "x": "real"})
        >>> data = {"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 2, 1, 9]}
        >>> db.checking.Information.robust(model, data, model.fit(data).posterior).matrix.shape
        (2, 2)
        """
        if not isinstance(model, Regression):
            raise NotCalibrated(f"Robust errors are for regressions, not for {type(model).__name__}.")
        named = clusters.numbers is not None
        check_clusters(posterior, named)
        units = check_holds(posterior, units_in(model, data))
        contributed = flat_contribution(model.contributed(posterior, data))
        middle, squares, count = model.robust_errors(posterior).sums(data, clusters)
        return cls(posterior.digest, 1, contributed, middle, count, squares, units, named)

    def __add__(self, other: "Information") -> "Information":
        if bool(self.clusters) != bool(other.clusters):
            raise NotCalibrated("Some sites' information is for robust errors, and some is not.")
        if self.clustered != other.clustered:
            raise NotCalibrated(
                "Some sites' robust errors are for clusters of rows, and some for single rows: give --person COLUMN "
                "(`clusters` in Python) at every site."
            )
        grids = {part.grid.shape for part in (self, other) if part.grid.size}
        if self.at != other.at or self.matrix.shape != other.matrix.shape or len(grids) > 1:
            raise NotCalibrated(
                "The sites' information belongs to different posteriors: compute it at one merged posterior."
            )
        added = self.contribution + other.contribution, self.matrix + other.matrix
        counts = self.clusters + other.clusters
        # Sums for many values help only if all sites have them.
        grid = self.grid + other.grid if self.grid.shape == other.grid.shape else NO_GRID
        units = self.units + other.units if self.units and other.units else 0.0
        return Information(self.at, self.sites + other.sites, *added, counts, grid, units, self.clustered)

    def to_bytes(self) -> bytes:
        robust = [self.clusters, int(self.clustered)] if self.clusters else []
        counts = np.array([self.sites, *robust], dtype="<i4")
        grid = {GRID: self.grid} if self.grid.size else {}
        units = {UNITS: np.array([self.units])} if self.units else {}
        arrays = {PREFIX + self.at: self.matrix, "contribution": self.contribution, "sites": counts, **grid, **units}
        return hashed(write_arrays(arrays))

    @classmethod
    def from_bytes(cls, content: bytes) -> "Information":
        """The inverse of `to_bytes`, with checks."""
        check_hash(content)
        arrays = dict(read_arrays(content))
        names = [name for name in arrays if name.startswith(PREFIX)]
        grid, units = arrays.pop(GRID, NO_GRID), arrays.pop(UNITS, np.zeros(1))
        if len(names) != 1 or arrays.keys() != {names[0], "contribution", "sites"} or arrays["sites"].ndim != 1:
            raise InvalidFile("These bytes are not the information of a site.")
        matrix, contribution = arrays[names[0]], arrays["contribution"]
        counts = arrays["sites"]
        robust = counts.size == 3
        square = matrix.ndim == 2 and len(set(matrix.shape)) == 1
        shaped = contribution.ndim == 1 and square and (robust or matrix.shape == contribution.shape * 2)
        shaped = shaped and grid.ndim == 2 and (not robust or grid.shape == (1, len(matrix)))
        shaped = shaped and units.shape == (1,)
        parts = (matrix, contribution, grid, units)
        numbers = all(part.dtype == np.dtype("<f8") and np.isfinite(part).all() for part in parts)
        counted = counts.dtype == np.dtype("<i4") and counts.size in (1, 3) and (counts[:2] > 0).all()
        counted = counted and np.isin(counts[2:], (0, 1)).all() and (units >= 0.0).all()
        if not shaped or not numbers or not counted or not np.allclose(matrix, matrix.T):
            raise InvalidFile("The information of a site is a symmetric matrix and a vector of numbers; this is not.")
        sites, clusters, clustered = [*map(int, counts), 0, 0][:3]
        at = names[0].removeprefix(PREFIX)
        return cls(at, sites, contribution, matrix, clusters, grid, float(units[0]), bool(clustered))


def informations(
    model: Model, shards: Iterable[Any], posterior: Posterior, informed: Callable[..., Information] = Information.of
) -> list[Information]:
    """Each site's information, in parallel as set by `joblib.parallel_config`."""
    from joblib import Parallel, delayed

    tasks = (delayed(informed)(model, shard, posterior) for shard in shards)
    return list(Parallel(n_jobs=jobs(), prefer="threads")(tasks))


def total(parts: Sequence[Information]) -> Information:
    """The information of all sites."""
    if not parts:
        raise NotCalibrated("There is no information to add up: give that of at least one site.")
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return whole


def several_groups(model: Regression, data: Any) -> bool:
    """Whether rows are of several sites, or can be of several groups inside one."""
    return bool(model.within) or len(groups_of(model.table.names(model.table.points(data))).sites) > 1


def units_in(model: Model, data: Any) -> float:
    """The number of units in the data; 0 if they cannot be counted."""
    try:
        return float(np.sum(model.units(data)))
    except (TypeError, IndexError):
        return 0.0


def check_clusters(posterior: Posterior, named: bool) -> None:
    """Refuse robust errors of single rows if persons have several, which would count as independent."""
    if not named and any(remark.kind == REPEATED for remark in posterior.remarks):
        raise NotCalibrated(
            "Persons have several rows, so robust errors need the person of each row: give --person COLUMN (`clusters` "
            "in Python) at every site; where each row is another person, a column that differs in every row."
        )


def check_holds(posterior: Posterior, units: float) -> float:
    """The number of units in a site's data, if the posterior can hold them all: refused before the sites compute."""
    if any(remark.kind == COUNTS_LESS for remark in posterior.remarks):
        raise NotCalibrated(
            "Some sites count only in part in this robust merge, so no sums over their rows belong to it. Calibrate a "
            "merge of the same files without --robust (in Python without `robust`), or without these sites."
        )
    if (off := excess(posterior, units)) < 0.0:
        unit = model_for(posterior.structure).unit
        raise NotCalibrated(
            f"The data have {units:,.6g} {unit}s, and the posterior holds {units + off:,.6g} of all sites. Give the "
            "data that were fitted, and the merge that holds them."
        )
    return units


def check_all_once(posterior: Posterior, parts: Sequence[Information], names: Sequence[str]) -> None:
    """Refuse parts unless there is one per site of the merge: none given twice, no observations missing or too many."""
    if total(parts).at != posterior.digest:
        return  # refused with a better reason
    first: dict[bytes, str] = {}
    for part, name in zip(parts, names, strict=True):
        numbers = part.contribution.tobytes() + part.matrix.tobytes()
        if numbers in first:
            same = "is given twice" if first[numbers] == name else f"is the same as {first[numbers]}"
            raise NotCalibrated(f"{name} {same}: give the part of each site once.")
        first[numbers] = name
    check_units(posterior, {name: part.units for part, name in zip(parts, names, strict=True)})


def check_units(posterior: Posterior, units: Mapping[str, float]) -> None:
    """Refuse data that are not the posterior's, as far as numbers of observations show."""
    given = sum(units.values()) if all(units.values()) else 0.0
    if off := excess(posterior, given):
        parts = listed([f"{name} {count:,.6g}" for name, count in units.items()])
        unit = model_for(posterior.structure).unit
        why = "at least one is missing" if off > 0.0 else "one counts twice, or its site has held back rows"
        without = ", or merge again without sites that have none" if off > 0.0 else ""
        raise NotCalibrated(
            f"The posterior holds {given + off:,.6g} {unit}s, these parts {given:,.6g} ({parts}): {why}. Give one part "
            f"for each site in the merge, of the data it fitted{without}."
        )


def excess(posterior: Posterior, units: float) -> float:
    """How many more units a posterior holds than these; 0 if as many, or if its numbers or `units` do not tell."""
    tally = model_for(posterior.structure).tally(posterior)
    if tally is None or not units:
        return 0.0
    off = largest(np.asarray(tally.totals) - units)
    return off if abs(off) > ROUNDING[0] + ROUNDING[1] * units + tally.slack else 0.0


def one_more_pass(model: Model, shards: Iterable[Any], posterior: Posterior) -> Posterior:
    """λ0 + Σ_i c_i(λ): the posterior after one more pass over all data; a fixed point if converged."""
    return product([model.contributed(posterior, shard) for shard in shards])
