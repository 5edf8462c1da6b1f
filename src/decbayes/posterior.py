"""Posteriors: what a site has learned, as contributions on top of a structure."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from decbayes.base.arguments import Seed, check_kind, check_level, check_whole, generator, real_array
from decbayes.base.display import Displayed, text_of
from decbayes.calibrated import Calibration
from decbayes.errors import InvalidPosterior, NotCalibrated, OutOfDomain
from decbayes.families import Array, Contribution, Family, dense
from decbayes.families.dirichlets.relevance import leading, relevance
from decbayes.families.matrices import Value, arrays, frozen_dense, frozen_sparse, is_sparse, stored
from decbayes.remarks import Later, Remark, lines
from decbayes.structure import CoupledSet, Structure, shape_text


def entry_name(entry: tuple[int, ...], labels: Sequence[str], quantity: str) -> str:
    if not entry and len(labels) == 1 and quantity == VALUE:
        return labels[0]
    return ", ".join(labels[index] if index < len(labels) else str(index) for index in entry)


LONGEST_ID = 64
# The hashes in `merged_from`: SHA-256 in hexadecimal digits.
HASH, HEXADECIMAL = 64, frozenset("0123456789abcdef")
# Limits on what a posterior says of halves of its rows.
MOST_HALVES, LARGEST_HALVES = 4096, 1e9
VALUE = "value"  # the quantity of families that have only one
MEAN_FIELD, EXACT = "mean-field, not calibrated", "exact"
# One posterior of all parameters together, close to the exact one: there is nothing to calibrate.
JOINT = "approximate, for all parameters jointly"
# A kind of remark, and the `uncertainty` that goes with it: intervals would not hold, so there are none.
NO_INTERVALS, UNKNOWN = "no intervals", "not known: use the means only"
# Intervals that cover far less than stated after one broadcast of many sites.
PRECISION, NARROW = "precision", "too narrow to be used until calibrated"


class Interval(NamedTuple):
    """Lower and upper bounds, each in the shape of the mean."""

    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Displayed):
    """What data has added to the prior: contributions λ − λ0 per factor, sparse where the structure says so.

    `ids` identify components from one merge to the next; `follow` and `merge(since=…)` assign them. Components of a
    site that are parts of one share its id. `names` are given by people. `calibration` holds better deviations than the
    families' own; `calibrate` computes them. `remarks` say what to know before relying on the posterior, most important
    first. `merged_from` are hashes of the posteriors that a merge consists of, or a fit was built on (`prior=`), so
    that none of them counts again in the next merge. `halves` say how far random halves of a site's own rows are apart
    (`db.checking.with_halves`). None of these is part of its value: equal posteriors may have different remarks.

    `structure` is what all sites agree on, and `contribution` the matrix λ − λ0 of each factor.

    >>> model = db.models.GaussianMean(variance=1.0, prior_variance=100.0)
    >>> posterior = model.fit([1.0, 3.0]).posterior
    >>> posterior.contribution["mean"]
    array([[ 4., -1.]])
    >>> posterior.mean("mean").round(2), posterior.deviation("mean").round(2)
    (array([[1.99]]), array([[0.71]]))
    >>> lower, upper = posterior.interval("mean", level=0.9)
    """

    structure: Structure
    contribution: Mapping[str, Contribution]
    ids: Sequence[str] = ()
    calibration: Calibration | None = None
    remarks: Sequence[Remark] = ()
    names: Sequence[str] = ()
    merged_from: Sequence[str] = ()
    halves: Sequence[float] = ()

    def __post_init__(self) -> None:
        check_kind(Structure, structure=self.structure)
        expected, given = self.structure.families.keys(), self.contribution.keys()
        if expected != given:
            raise InvalidPosterior(f"The structure has the factors {sorted(expected)}, the posterior {sorted(given)}.")
        frozen = {name: self._checked(name, self.contribution[name]) for name in self.structure.families}
        object.__setattr__(self, "contribution", MappingProxyType(frozen))
        for field in ("ids", "names"):
            object.__setattr__(self, field, checked_labels(field, getattr(self, field), self.structure))
        object.__setattr__(self, "merged_from", checked_hashes(self.merged_from))
        object.__setattr__(self, "halves", checked_halves(self.halves))
        if self.calibration is not None:
            check_calibration(self, self.calibration)
        if isinstance(self.remarks, Later):
            return
        object.__setattr__(self, "remarks", tuple(self.remarks))
        check_kind(Remark, **{f"remarks[{place}]": remark for place, remark in enumerate(self.remarks)})

    @classmethod
    def from_natural(cls, structure: Structure, natural: Mapping[str, Array]) -> "Posterior":
        """The posterior with the natural parameters λ."""
        check_kind(Structure, structure=structure)
        missing = structure.families.keys() - natural.keys()
        if missing:
            raise InvalidPosterior(f"Natural parameters are missing for {sorted(missing)}.")
        given = {name: shaped(name, natural[name], structure) for name in structure.families}
        return cls(structure, {name: dense(matrix) - structure.prior[name] for name, matrix in given.items()})

    @classmethod
    def of_prior(cls, structure: Structure) -> "Posterior":
        """The posterior without data."""
        check_kind(Structure, structure=structure)
        return unchecked(
            structure,
            {
                name: frozen_sparse(prior.shape) if name in structure.sparse else frozen_dense(np.zeros(prior.shape))
                for name, prior in structure.prior.items()
            },
        )

    def lessened(self, contribution: Mapping[str, Contribution]) -> "Posterior":
        """With only part of each row's contribution. Domains are convex, so nothing needs to be checked again."""
        sparse = self.structure.sparse
        frozen = {
            name: part if part is self.contribution[name] else (frozen_sparse if name in sparse else frozen_dense)(part)
            for name, part in contribution.items()
        }
        return unchecked(self.structure, frozen, self.ids, self.halves, self.remarks)

    @property
    def natural(self) -> Mapping[str, Array]:
        """λ = λ0 + contribution, written out on access."""
        return Derived(self.structure.families, self._natural)

    def quantities(self, factor: str) -> tuple[str, ...]:
        """The parts of a factor's parameters: "mean" and "precision" of Gaussian clusters, or just a "value"."""
        expected = self._expected(factor)
        return tuple(self._family(factor).quantities(expected))

    def mean(self, factor: str, quantity: str = "") -> Array:
        """E[θ] in the user's terms: topic-word probabilities, cluster means, …

        `quantity` is one of `quantities(factor)`, such as the "precision" of Gaussian clusters; default: the first.
        """
        return self._part(factor, quantity, self._expected(factor))

    def deviation(self, factor: str, quantity: str = "") -> Array:
        """The standard deviation of each entry of θ, in the shape of `mean(factor, quantity)`; see `uncertainty`."""
        natural, family = self.natural[factor], self._family(factor)
        deviations = (
            family.deviation(natural) if self.calibration is None else self.calibration.deviation(factor, family)
        )
        return self._part(factor, quantity, deviations) * (np.nan if self.means_only else 1.0)

    def interval(self, factor: str, level: float = 0.9, quantity: str = "") -> Interval:
        """Bounds between which each entry of θ lies with that probability, in the shape of `mean(factor, quantity)`.

        Each entry is considered by itself, with equal tails. `uncertainty` says whether they are calibrated.
        """
        check_level(level)
        natural, family, stretch = self.natural[factor], self._family(factor), self.stretch(factor)
        tails = 0.5 - 0.5 * level, 0.5 + 0.5 * level
        lower, upper = (self._part(factor, quantity, family.quantile(natural, tail, stretch)) for tail in tails)
        return Interval(lower, upper)

    def stretch(self, factor: str) -> Any:
        """The width of calibrated intervals relative to the family's, in its format; 1 without a calibration."""
        natural = self.natural[factor]
        if self.means_only:
            return np.nan
        return 1.0 if self.calibration is None else self.calibration.stretch(factor, self._family(factor), natural)

    @property
    def means_only(self) -> bool:
        """Whether a remark says that there are no intervals: then deviations and intervals are NaN."""
        return any(remark.kind == NO_INTERVALS for remark in self.remarks)

    def check_uncertainty(self, task: str) -> None:
        """Refuse a task that needs deviations if there are none."""
        if self.means_only:
            raise NotCalibrated(
                f"{task} needs intervals, and private releases of classes and clusters have none that hold. "
                "`decbayes show` and `decbayes export` print the means; more sites join by their releases."
            )

    @property
    def uncertainty(self) -> str:
        """Where deviations and intervals come from, and when not to use them."""
        if self.means_only:
            return UNKNOWN
        if self.calibration is not None:
            return f"calibrated by {self.calibration.method}"
        families = self.structure.families.values()
        if not self.structure.symmetry and all(family.exact_alone for family in families):
            return EXACT
        if not self.structure.symmetry and len(families) == 1:
            return JOINT
        return f"{MEAN_FIELD}; {NARROW}" if any(family.two_sided for family in families) else MEAN_FIELD

    def _uncertainty(self, quantity: str) -> str:
        """The same for one quantity: mean field is far too certain about the precisions of components."""
        narrow = quantity == PRECISION and self.uncertainty == MEAN_FIELD and bool(self.structure.symmetry)
        return f"{MEAN_FIELD}; {NARROW}" if narrow else self.uncertainty

    def parameters(self, factor: str) -> dict[str, Array]:
        """The ordinary parameters of a factor: α, mean and variance, …"""
        natural = self.natural[factor]
        return self.structure.families[factor].parameters(natural)

    def sample(self, size: int, rng: Seed) -> dict[str, Any]:
        """Independent draws of every factor; the first axis counts the draws."""
        check_whole(0, size=size)
        self.check_uncertainty("A draw of parameters")
        random, families = generator(rng), self.structure.families
        return {name: family.sample(self.natural[name], size, random) for name, family in families.items()}

    def summary(self, *, top: int = 20, level: float = 0.9) -> list[dict[str, Any]]:
        """Mean, standard deviation and interval of every parameter, as rows for `pandas.DataFrame`.

        Real columns of tables and coefficients are in the units that sites agreed on; `decbayes export`, `profiles` and
        `coefficients` use those of the data. A component with more than `top` columns, such as a topic, is limited to
        its `leading` ones. The last column says where the intervals come from.
        """
        check_whole(1, top=top)
        return [row for name in self.structure.families for row in self._rows(name, top=top, level=level)]

    def leading(self, factor: str, top: int, quantity: str = "") -> NDArray[np.intp]:
        """(components, top): the columns of a factor that describe each component best, best first.

        These have the largest means; for topics, words that all topics use count a little less (`relevance`).
        """
        mean = self.mean(factor, quantity)
        if not self._family(factor).countable:
            return leading(mean, top)
        return leading(relevance(mean, np.asarray(self.contribution[factor].sum(axis=1)).ravel()), top)

    def untouched(self, coupled: CoupledSet) -> NDArray[np.bool_]:
        """Which components of the set equal the prior, such as empty slots.

        A fit may leave traces in a component that it does not need, which then counts as touched.
        """
        rows = [csr_array(self.contribution[name]) for name in coupled.factors]
        return np.asarray(np.sum([np.diff(part.indptr) for part in rows], axis=0) == 0)

    def log_partition(self) -> float:
        """Σ_j A_j(λ_j), the objective of a merge that results in this posterior."""
        return sum(family.log_partition(self.natural[name]) for name, family in self.structure.families.items())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the structure's fingerprint and the contributions' canonical bytes."""
        digest = hashlib.sha256(bytes.fromhex(self.structure.fingerprint))
        for contribution in self.contribution.values():
            for part in arrays(contribution).values():
                # Lengths separate the parts: otherwise different parts could form the same byte string.
                digest.update(part.size.to_bytes(8, "little") + part.tobytes())
        digest.update("\n".join(self.ids).encode())
        if self.calibration is not None:
            digest.update(self.calibration.method.encode())
            for part in self.calibration.arrays().values():
                digest.update(part.astype("<f8").tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Posterior) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only view cannot be pickled; other processes get a posterior that is checked again.
        fields = self.structure, dict(self.contribution), self.ids, self.calibration, self.remarks, self.names
        return Posterior, (*fields, self.merged_from, self.halves)

    def __str__(self) -> str:
        """A summary for people: components or coefficients with intervals, and the remarks."""
        return text_of(self)

    def __repr__(self) -> str:
        factors = "; ".join(self._factor_text(name) for name in self.structure.families)
        text = f"Posterior({factors}; structure {self.structure.fingerprint[:12]})"
        return "\n".join([text, *lines(self.remarks, rest="see `remarks`")])

    def _rows(self, factor: str, *, top: int, level: float) -> Iterator[dict[str, Any]]:
        labels = self.structure.labels.get(factor, ())
        for quantity in self.quantities(factor):
            mean, interval = self.mean(factor, quantity), self.interval(factor, level, quantity)
            columns = {"mean": mean, "deviation": self.deviation(factor, quantity), **interval._asdict()}
            long = mean.ndim == 2 and mean.shape[1] > top
            leading = self.leading(factor, top, quantity)[..., None].tolist() if long else None
            for component, value in enumerate(mean):
                for entry in map(tuple, leading[component]) if leading else np.ndindex(np.shape(value)):
                    numbers = {name: float(part[component][entry]) for name, part in columns.items()}
                    name = entry_name(entry, labels, quantity)
                    place = {"factor": factor, "component": component, "quantity": quantity, "entry": name}
                    yield {**place, **numbers, "uncertainty": self._uncertainty(quantity)}

    def _family(self, factor: str) -> Family:
        return self.structure.families[factor]

    def _expected(self, factor: str) -> Value:
        natural = self.natural[factor]  # raises an error that lists the factors if there is no such one
        return self._family(factor).expected(natural)

    def _part(self, factor: str, quantity: str, value: Value) -> Array:
        """One quantity of a factor, the first by default."""
        parts = self._family(factor).quantities(value)
        if quantity and quantity not in parts:
            raise KeyError(f"'{factor}' has no quantity '{quantity}'; it has {', '.join(parts)}.")
        return np.asarray(parts[quantity or next(iter(parts))])

    def _natural(self, name: str) -> Array:
        return self.structure.prior[name] + dense(self.contribution[name])

    def _factor_text(self, name: str) -> str:
        contribution = self.contribution[name]
        text = f"{name}: {self.structure.families[name].name} {shape_text(contribution.shape)}"
        if is_sparse(contribution):
            text += f", {contribution.nnz / np.prod(contribution.shape):.1%} non-zero"
        return text

    def _checked(self, name: str, contribution: Any) -> Contribution:
        given = shaped(name, contribution, self.structure)
        frozen = frozen_sparse(given) if name in self.structure.sparse else frozen_dense(given)
        if not np.isfinite(stored(frozen)).all():
            raise InvalidPosterior(f"The contribution of '{name}' holds NaN or infinite values.")
        family = self.structure.families[name]
        outside = np.flatnonzero(~family.contains_sum(self.structure.prior[name], family.rows(frozen)))
        if len(outside):
            raise OutOfDomain(
                f"'{name}' is outside the domain of {family.name} in component {', '.join(map(str, outside[:10]))}: "
                "no distribution has such natural parameters."
            )
        return frozen


def unchecked(
    structure: Structure,
    frozen: Mapping[str, Contribution],
    ids: Sequence[str] = (),
    halves: Sequence[float] = (),
    remarks: Sequence[Remark] = (),
) -> Posterior:
    """A posterior from contributions that are known to be within the domain."""
    posterior = object.__new__(Posterior)
    fields = {"structure": structure, "contribution": MappingProxyType(frozen), "ids": ids}
    others = {"calibration": None, "remarks": remarks, "names": (), "merged_from": (), "halves": halves}
    for field, value in {**fields, **others}.items():
        object.__setattr__(posterior, field, value)
    return posterior


@dataclass(frozen=True)
class Derived(Mapping[str, Array]):
    """A mapping whose values are computed on access and not kept."""

    names: Mapping[str, Any]
    value: Callable[[str], Array]

    def __getitem__(self, name: str) -> Array:
        if name not in self.names:
            raise KeyError(f"There is no factor '{name}'; there are {list(self.names)}.")
        return self.value(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def shaped(name: str, values: Any, structure: Structure) -> Contribution:
    """Real numbers in a factor's shape, sparse or dense."""
    matrix = csr_array(values) if issparse(values) else values
    try:
        numbers = real_array(matrix.data if issparse(matrix) else matrix)
    except (TypeError, ValueError) as error:
        raise InvalidPosterior(f"'{name}' must be a matrix of real numbers: {error}.") from None
    given = matrix if issparse(matrix) else numbers
    expected = structure.prior[name].shape
    if given.shape != expected:
        fewer = given.shape[1:] == expected[1:] and given.shape[:1] < expected[:1]
        remedy = " `structure.with_components(…)` is for another number of components." if fewer else ""
        raise InvalidPosterior(
            f"'{name}' is {shape_text(given.shape) or 'a number'}, the structure says {shape_text(expected)}.{remedy}"
        )
    return given


def checked_labels(field: str, labels: Any, structure: Structure) -> tuple[str, ...]:
    """One id or name per component, or none at all."""
    given = tuple(labels)
    sets = structure.symmetry
    fits = len(sets) == 1 and len(given) == structure.components(sets[0])
    if not all(isinstance(name, str) and name.isprintable() and len(name) <= LONGEST_ID for name in given):
        raise InvalidPosterior(f"{field} of components are single lines of at most {LONGEST_ID} characters.")
    if given and not fits:
        raise InvalidPosterior(f"{field}: one for each component is expected, of a model with one set of components.")
    return given


def checked_hashes(hashes: Any) -> tuple[str, ...]:
    """Different hashes, in their order."""
    given = tuple(hashes)
    if not all(isinstance(text, str) and len(text) == HASH and set(text) <= HEXADECIMAL for text in given):
        raise InvalidPosterior("merged_from must be hashes of posteriors, as merges write them.")
    return tuple(sorted(set(given)))


def checked_halves(values: Any) -> tuple[float, ...]:
    """A few numbers of ordinary size that are not negative."""
    given = tuple(values)
    if len(given) > MOST_HALVES or not all(type(value) is float and 0.0 <= value <= LARGEST_HALVES for value in given):
        raise InvalidPosterior(
            "halves must be numbers that are not negative, as `db.checking.with_halves` writes them."
        )
    return given


def check_calibration(posterior: Posterior, calibration: Any) -> None:
    check_kind(Calibration, calibration=calibration)
    unknown = sorted(calibration.deviations.keys() - posterior.structure.families.keys())
    if unknown:
        raise InvalidPosterior(f"The calibration has the factors {unknown}, which the posterior lacks.")
    for name, values in calibration.quantiles.items():
        entries = len(posterior.structure.labels.get(name, ()))
        # One per entry, or one per pair of entries as well.
        if values.shape[1] not in (entries, entries * (entries + 1) // 2):
            raise InvalidPosterior(f"The calibration has quantiles of '{name}' that do not fit its labels.")
    for name in posterior.structure.families:
        calibration.check(name, {part: posterior.mean(name, part) for part in posterior.quantities(name)})
