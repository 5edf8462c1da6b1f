"""The interface of exponential families, with defaults that follow from the log-partition."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from decbayes.families.groups import Groups, Joins, PlainGroups, PlainJoins
from decbayes.families.matrices import Array, Contribution, Indices, Value, dense
from decbayes.families.moments import Orders, row_divergences, singly, stacked
from decbayes.families.quantiles import around
from decbayes.families.rows import DenseRows, Rows
from decbayes.families.totals import PlainTotals, Totals

# `rest` and `contribution` are combined in blocks of about this many numbers (8 MiB).
BLOCK = 1 << 20

# Natural parameters are scaled up by this to find the maximum of a likelihood, so that the prior is negligible.
SHARP = 1e6
# Relative step of finite differences in natural parameters.
DIFFERENCE = 1e-5
# Samples for quantiles without a formula.
SAMPLES = 20_000
# Penalty in nats per observation for a sum outside the domain.
IMPOSSIBLE = 1e6


@dataclass(frozen=True)
class Family(ABC):
    """One exponential family; a natural parameter is a (K, d) matrix with one row per component.

        q(θ) = Π_k h(θ_k) · exp(Σ_k ⟨λ_k, T(θ_k)⟩ − A(λ))

    A(λ) is a sum of one term per row, plus possibly a term that is invariant to permutations of the rows. A family
    defines its columns, its row terms and their gradient; the rest follows. Merges use `rows`, `totals` and
    `divergence`, whose defaults work for any family; a family may override them with faster versions.

    >>> family = db.families.Gamma()
    >>> natural = family.natural(shape=[4.0], rate=[2.0])
    >>> natural, family.expected_statistics(natural).round(3), family.expected(natural)
    (array([[ 3., -2.]]), array([[0.563, 2.   ]]), array([[2.]]))
    >>> isinstance(family, db.families.Family)
    True
    """

    @property
    def name(self) -> str:
        return type(self).__name__

    def laid_out(self, layout: str) -> "Family":
        """The family with this layout of columns (in brackets after its name); ValueError if it has only one."""
        raise ValueError(f"{self.name} has one layout of columns, and no brackets after its name")

    parameter_names: ClassVar[tuple[str, ...]]

    value_type: ClassVar[type[Any] | None] = None
    """The named tuple of θ if it has several quantities, such as a mean and a precision."""

    over_components: ClassVar[bool] = False
    """Whether the factor is over the components themselves (their weights): it then measures their evidence."""

    exclusive: ClassVar[bool] = False
    """Whether each observation, or each part of one, comes from one component, so that two components of a site may
    belong together. Not so for features, as an observation has several at once."""

    follows: ClassVar[bool] = False
    """Whether the factor follows the others of its coupled set, without influence on the slots."""

    countable: ClassVar[bool] = False
    """Whether a row holds counts in columns that could come from different components: words of topics."""

    inclusive: ClassVar[bool] = False
    """Whether it counts the observations that have a component, on behalf of the other factors of its set."""

    two_sided: ClassVar[bool] = False
    """Whether there is also a column per component, which moves with its row, as in transitions."""

    categorical: ClassVar[bool] = False
    """Whether it holds the probabilities of binary or categorical columns."""

    fixed_spread: ClassVar[bool] = False
    """Whether components have a given variance, however far their data spread: outliers then cost much."""

    own_spread: ClassVar[bool] = False
    """Whether each component has its own variance, which is often much too small if estimated from few observations."""

    exact_alone: ClassVar[bool] = False
    """Whether a posterior of such factors alone, without components, is exact because its models are conjugate."""

    log_base_per_dimension: ClassVar[float] = 0.0

    term: ClassVar[str | None] = None
    """The name of the row term in `kernels/row_terms.py`, if it is compiled there."""

    @abstractmethod
    def columns(self, natural: ArrayLike) -> tuple[Array, ...]:
        """The ordinary parameters of the columns, in the order of `parameter_names`; unchecked."""

    @abstractmethod
    def row_terms(self, natural: ArrayLike) -> Array:
        """The part of A(λ) that belongs to each row, (K,)."""

    def shared_term(self, natural: ArrayLike) -> float:
        """The part of A(λ) that belongs to no row."""
        return 0.0

    @abstractmethod
    def expected_statistics(self, natural: ArrayLike) -> Array:
        """∇A(λ) = E[T(θ)], (K, d)."""

    def row_covariances(self, natural: ArrayLike) -> Array:
        """The covariance of each row's T(θ), (K, d, d); by finite differences unless a family has a formula."""
        point = np.asarray(natural, dtype=np.float64)
        steps = DIFFERENCE * (1.0 + np.abs(point))
        columns = []
        for column in range(point.shape[1]):
            moved = np.zeros(point.shape)
            moved[:, column] = steps[:, column]
            change = self.expected_statistics(point + moved) - self.expected_statistics(point - moved)
            columns.append(change / (2.0 * steps[:, column, None]))
        return np.stack(columns, axis=-1)

    def covariance(self, natural: ArrayLike) -> Array:
        """∇²A(λ) = Cov[T(θ)] of the whole factor, (K · d, K · d), row after row."""
        from scipy.linalg import block_diag  # slow to import, and rarely needed

        return np.asarray(block_diag(*self.row_covariances(natural)))

    @abstractmethod
    def contains_rows(self, natural: ArrayLike) -> NDArray[np.bool_]:
        """Which rows are in the domain of the family, (K,)."""

    def contains_sum(self, prior: Array, rows: Rows) -> NDArray[np.bool_]:
        """Which rows of λ0 + c are in the domain, (K,); λ0 is."""
        return self.contains_rows(prior + rows.written_out())

    @abstractmethod
    def natural(self, *positional: Any, **parameters: Any) -> Array:
        """Natural parameters from the ordinary ones, the inverse of `parameters`."""

    def parameters(self, natural: ArrayLike) -> dict[str, Array]:
        """The ordinary parameters by name: `family.natural(**family.parameters(λ))` is λ."""
        return dict(zip(self.parameter_names, self.columns(natural), strict=True))

    @abstractmethod
    def expected(self, natural: ArrayLike) -> Value:
        """E[θ] in ordinary terms, in the format of `sample`."""

    @abstractmethod
    def deviation(self, natural: ArrayLike) -> Value:
        """The standard deviation of θ, entry by entry, in the format of `expected`; infinite if there is none."""

    def quantile(self, natural: ArrayLike, probability: float, stretch: Any = 1.0) -> Value:
        """The marginal quantile of each entry of θ, in the format of `expected`.

        `stretch` widens entries by this factor: one number, or one per entry in the format of `deviation`. Without a
        formula, this is the quantile of a fixed set of samples.
        """
        drawn = self.quantities(self.sample(natural, SAMPLES, np.random.default_rng(0)))
        means, times = self.quantities(self.expected(natural)), self.stretches(natural, stretch)
        return self.of_quantities(
            {
                name: around(means[name], np.quantile(values, probability, axis=0), times[name])
                for name, values in drawn.items()
            }
        )

    def stretches(self, natural: ArrayLike, stretch: Any = 1.0) -> dict[str, Array]:
        """A stretch, by the names of its parts."""
        if not isinstance(stretch, float):
            return self.quantities(stretch)
        return {
            name: np.full(np.shape(part), stretch) for name, part in self.quantities(self.expected(natural)).items()
        }

    @abstractmethod
    def statistics(self, value: Any) -> Array:
        """T(θ) of values in the format of `sample`, (…, K, d)."""

    @abstractmethod
    def sample(self, natural: ArrayLike, size: int, rng: np.random.Generator) -> Any:
        """`size` independent draws of θ; the first axis counts the draws, the second the components."""

    @abstractmethod
    def dimension(self, width: int) -> int:
        """The number of labelled dimensions of a row with this many columns; ValueError if no row has that many."""

    @abstractmethod
    def example(self, components: int, dimension: int, rng: np.random.Generator) -> Array:
        """Random natural parameters, to test the family; one-dimensional if the rows allow no more."""

    def apex(self, width: int) -> Array:
        """The tip of the domain, (d,). The domain is a cone: apex + s (λ − apex) is inside for all λ in it and s > 0.

        Data move natural parameters along this cone: λ0 + (λ − apex) is inside, too.
        """
        return np.zeros(width)

    def quantities(self, value: Any) -> dict[str, Array]:
        """A value in the format of `sample` and `expected`, by the names of its parts; a single part is a "value"."""
        return {"value": value} if self.value_type is None else value._asdict()

    def of_quantities(self, quantities: Mapping[str, Array]) -> Value:
        """The value with these quantities, the inverse of `quantities`."""
        return quantities["value"] if self.value_type is None else self.value_type(**quantities)

    def one_of(self, values: Any, number: int) -> Any:
        """One of several draws in the format of `sample`, without the axis that counts draws."""
        return self.of_quantities({name: part[number] for name, part in self.quantities(values).items()})

    def log_base_measure(self, width: int) -> float:
        """log h of one row, a constant in all families here."""
        return self.log_base_per_dimension * self.dimension(width)

    def contains(self, natural: ArrayLike) -> bool:
        """Whether λ is in the domain: all rows are, and nothing is NaN or infinite."""
        return bool(np.isfinite(natural).all() and self.contains_rows(natural).all())

    def log_partition(self, natural: ArrayLike) -> float:
        """A(λ) of the whole factor."""
        return float(self.row_terms(natural).sum() + self.shared_term(natural))

    def log_density(self, natural: ArrayLike, value: Any) -> Array:
        """log q(θ) of values in the format of `sample`, one number per draw."""
        rows, width = np.asarray(natural).shape
        inner = np.sum(np.asarray(natural) * self.statistics(value), axis=(-2, -1))
        return np.asarray(inner - self.log_partition(natural) + rows * self.log_base_measure(width))

    def entropy(self, natural: ArrayLike) -> float:
        """−E[log q(θ)] = A(λ) − ⟨λ, ∇A(λ)⟩ − E[log h]."""
        rows, width = np.asarray(natural).shape
        inner = float(np.sum(np.asarray(natural) * self.expected_statistics(natural)))
        return float(self.log_partition(natural) - inner - rows * self.log_base_measure(width))

    def kl(self, natural: ArrayLike, other: ArrayLike) -> float:
        """KL(q_λ ‖ q_other) = A(other) − A(λ) − ⟨other − λ, ∇A(λ)⟩."""
        step = np.asarray(other) - np.asarray(natural)
        change = self.log_partition(other) - self.log_partition(natural)
        return change - float(np.sum(step * self.expected_statistics(natural)))

    def rows(self, contribution: Contribution, order: Indices | None = None) -> Rows:
        """The components of a contribution, in the given order, as `Rows`."""
        matrix = dense(contribution)
        return DenseRows(matrix if order is None else matrix[order])

    def relabelled(self, contribution: Contribution, order: Indices) -> Contribution:
        """The contribution with its components in another order."""
        return contribution[order]

    def unlabelled(self, contribution: Contribution) -> Contribution:
        """The content of each row, independent of the labels of other components."""
        return contribution

    def added(self, total: Array, contribution: Contribution, slots: Indices, order: Indices) -> None:
        """Add components to their slots, in place and in that order; several may share a slot."""
        self.rows(contribution).add_to(total, slots[order], order)

    def exchangeable(self, prior: Array) -> bool:
        """Whether a prior treats all components alike."""
        return bool((prior == prior[0]).all())

    def resized(self, prior: Array, count: int) -> Array:
        """A prior that treats components alike, for this many of them."""
        return np.broadcast_to(prior[:1], (count, prior.shape[1]))

    def totals(self, prior: Array) -> Totals:
        """Slots that start from the prior, for a search over assignments."""
        return PlainTotals(self, prior)

    def groups(self, base: Array, slots: int) -> Groups:
        """Empty slots for a search in which any component may go into any slot; see `peak` for `base`."""
        return PlainGroups(self, base, slots)

    def joins(self, base: Array, rows: Rows, evidence: Array) -> Joins:
        """Components as groups to be joined in pairs."""
        return PlainJoins(self, base, rows, evidence)

    def peak(self, contribution: Array, evidence: Array, base: Array) -> Array:
        """sup_θ ⟨c, T(θ)⟩ per row: the log-likelihood at its maximum, up to a constant that is the same for all
        groupings.

        Computed as A(apex + s c) / s with a large s. Each observation adds a little of λ0 − apex, `base`, so that a
        maximum exists even if the likelihood has none. Zero without evidence.
        """
        cone = self.apex(len(base)) + SHARP * (contribution + evidence[:, None] * base)
        peaks = np.where(evidence > 0.0, self.defined_terms(cone, -np.inf) / SHARP, 0.0)
        return np.where(np.isfinite(peaks), peaks, -IMPOSSIBLE * np.abs(evidence))

    def observations(self, prior: Array, rows: Rows) -> Array:
        """The number of observations behind each row, if it counts them; otherwise a multiple of the prior's weight."""
        base = prior - self.apex(prior.shape[1])
        return np.asarray((rows.written_out() * base).sum(axis=1) / (base**2).sum(axis=1))

    def freedom(self, contribution: Array) -> Array:
        """The number of free parameters of θ, per row."""
        return np.full(len(contribution), float(self.dimension(contribution.shape[1])))

    def effective_freedom(self, rows: Rows) -> Array:
        """The number of parameters that each row's data determine."""
        return self.freedom(rows.written_out())

    def quadratic(self, contribution: Array, natural: Array) -> tuple[Array, Array] | None:
        """A contribution about a vector θ as s, P of ⟨s, θ⟩ − ½ θᵀPθ, (K, D) and (K, D, D), with other parameters at
        the posterior λ; None if it is not about a vector."""
        return None

    def squares(self, contribution: Array, natural: Array) -> tuple[Array, Array] | None:
        """(K,) and (K,): the number of rows behind a contribution and their sum of squares, in units of the noise
        variance at the posterior λ; None without noise of unknown size."""
        return None

    def divergence(self, prior: Array, rows: Rows) -> float:
        """KL(q_{λ0 + c} ‖ q_{λ0}): how far a contribution c moves the prior, in nats."""
        return self.kl(prior + rows.written_out(), prior)

    def divergences(self, prior: Array, contributions: Sequence[Contribution], orders: Orders = None) -> Array:
        """The divergence of each site's contribution, with components in the given order; zero outside the domain."""
        if self.two_sided or self.over_components or type(self).divergence is not Family.divergence:
            return singly(self, prior, contributions, orders)
        return row_divergences(self, prior, stacked(contributions, orders))

    def gain(self, rest: ArrayLike, contribution: Contribution) -> Array:
        """The gain in A when row k' of `contribution` is added to row k of `rest`, as a (K, K') matrix.

        Exact up to a constant that is the same for all permutations: Σ_k gain[k, p[k]] ranks permutations p as
        A(rest + contribution[p]) does. NaN where the sum leaves the domain.
        """
        start = np.asarray(rest, dtype=np.float64)
        added = dense(contribution)
        block = max(1, BLOCK // max(1, added.size))
        rows = [self._row_gains(start[k : k + block], added) for k in range(0, len(start), block)]
        return np.concatenate(rows)

    def _row_gains(self, rest: Array, added: Array) -> Array:
        sums = (rest[:, None, :] + added[None, :, :]).reshape(-1, added.shape[1])
        return self.defined_terms(sums, np.nan).reshape(len(rest), len(added)) - self._row_constants(rest)[:, None]

    def _row_constants(self, rest: Array) -> Array:
        """The terms of each row of `rest`; outside the domain any constant will do."""
        return self.defined_terms(rest, 0.0)

    def defined_terms(self, natural: Array, otherwise: float = np.nan) -> Array:
        """The row terms, with another value for rows outside the domain."""
        inside = self.contains_rows(natural)
        if inside.all():
            return self.row_terms(natural)
        terms = np.full(len(natural), otherwise)
        terms[inside] = self.row_terms(natural[inside])
        return terms
