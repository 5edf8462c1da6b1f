"""Draws of a sampler as posteriors: relabelled to agree with each other, then projected onto a structure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import polygamma

from decbayes.base.arguments import check_kind, real_array
from decbayes.errors import NotConvertible
from decbayes.families import Array, Dirichlet, Family, Weights
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Structure

STEPS, HALVINGS = 500, 60
# A step that could raise ⟨λ, t⟩ − A(λ) by less, in nats per row, is rounding.
CONVERGED = 1e-12


def project(family: Family, statistics: Array, start: Array, name: str) -> Array:
    """The natural parameters with these expected statistics, (K, d)."""
    natural, height = np.array(start), objective(family, start, statistics)
    for _ in range(STEPS):
        slope = statistics - family.expected_statistics(natural)
        step = newton_step(family, natural, slope)
        gain = float(np.sum(slope * step))
        if not np.isfinite(step).all():
            break
        if gain <= CONVERGED * len(natural):
            return natural
        natural, height, moved = line_search(family, natural, step, statistics, height)
        if not moved:
            break
    # Rounding may end a search slightly early; otherwise there is no maximum.
    if gain <= 1e-6 * len(natural):
        return natural
    raise NotConvertible(
        f"No {family.name} has the moments of '{name}': too few draws are different, or some are on the boundary."
    )


def objective(family: Family, natural: Array, statistics: Array) -> float:
    return float(np.sum(natural * statistics)) - family.log_partition(natural)


def line_search(
    family: Family, natural: Array, step: Array, statistics: Array, height: float
) -> tuple[Array, float, bool]:
    """The longest step, halved repeatedly, that stays in the domain and increases the objective."""
    for halving in range(HALVINGS):
        trial = natural + 0.5**halving * step
        if family.contains(trial):
            value = objective(family, trial, statistics)
            if value > height:
                return trial, value, True
    return natural, height, False


def newton_step(family: Family, natural: Array, slope: Array) -> Array:
    """∇²A(λ)⁻¹ (t − ∇A(λ)); a pseudo-inverse, because symmetric matrices have their entries twice."""
    if isinstance(family, Dirichlet):
        return np.array([share_step(alpha, row) for alpha, row in zip(natural + 1.0, slope, strict=True)])
    if isinstance(family, Weights):
        return share_step(natural[:, 0] + 1.0, slope[:, 0])[:, None]
    inverses = np.linalg.pinv(family.row_covariances(natural), rcond=1e-13, hermitian=True)
    return np.asarray(np.einsum("kij,kj->ki", inverses, slope))


def share_step(alpha: Array, slope: Array) -> Array:
    """The Newton step of a Dirichlet, whose ∇²A is diagonal plus rank one (Minka 2000)."""
    single, total = polygamma(1, alpha), polygamma(1, alpha.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        common = np.sum(slope / single) / (1.0 / total - np.sum(1.0 / single))
    return np.asarray((slope + common) / single)


Orders = NDArray[np.intp]
"""(draws, components): which component of each draw is which."""

ROUNDS = 50
# A larger share of draws with other labels means that the sampler switched them; a smaller one that components overlap.
SWITCHED = 0.02


def check_labels(structure: Structure, statistics: Mapping[str, Array]) -> None:
    """Refuse draws in which labels have switched."""
    for coupled in structure.symmetry:
        draws, components, _ = statistics[coupled.factors[0]].shape
        identity = np.tile(np.arange(components), (draws, 1))
        switched = float((by_density(structure, coupled, statistics, identity) != identity).any(axis=1).mean())
        if switched > SWITCHED:
            raise NotConvertible(
                f"In {switched:.0%} of the draws the components of {' and '.join(coupled.factors)} have other labels, "
                "because the sampler switched them. align=True relabels each draw so that all agree."
            )


def aligned_draws(structure: Structure, statistics: Mapping[str, Array]) -> dict[str, Orders]:
    """For each factor of a coupled set, the order of each draw's components in which all draws agree best.

    Alternates between finding the posterior closest to the draws and relabelling each draw to be most probable in it.
    """
    by_factor: dict[str, Orders] = {}
    for coupled in structure.symmetry:
        orders = by_pivot(coupled, statistics)
        for _ in range(ROUNDS):
            next_orders = by_density(structure, coupled, statistics, orders)
            if (next_orders == orders).all():
                break
            orders = next_orders
        by_factor |= dict.fromkeys(coupled.factors, orders)
    return by_factor


def by_pivot(coupled: CoupledSet, statistics: Mapping[str, Array]) -> Orders:
    """Each draw's components matched with those of the last draw, in units of the statistics' deviations."""
    scaled = np.concatenate([standardise(statistics[name]) for name in coupled.factors], axis=2)
    return np.array([best_assignment(-distances(scaled[-1], draw)) for draw in scaled])


def by_density(structure: Structure, coupled: CoupledSet, statistics: Mapping[str, Array], orders: Orders) -> Orders:
    """Each draw's components where they are most probable, given the posterior closest to draws in these orders."""
    rows, scores = np.arange(len(orders))[:, None], np.zeros((*orders.shape, orders.shape[1]))
    for name in coupled.factors:
        family, values = structure.families[name], statistics[name]
        natural = project(family, values[rows, orders].mean(axis=0), np.array(structure.prior[name]), name)
        scores += np.einsum("kd,sjd->skj", natural, values) - family.row_terms(natural)[:, None]
    return np.array([best_assignment(score) for score in scores])


def standardise(statistics: Array) -> Array:
    deviation = statistics.std(axis=(0, 1))
    return np.asarray(statistics / np.where(deviation > 0, deviation, 1.0))


def distances(pivot: Array, draw: Array) -> Array:
    return np.asarray(((pivot[:, None] - draw[None]) ** 2).sum(axis=2))


def best_assignment(scores: Array) -> NDArray[np.intp]:
    """Which component of a draw goes into each slot."""
    return np.asarray(linear_sum_assignment(scores, maximize=True)[1], dtype=np.intp)


# With more parameters, or fewer draws per parameter, correlations are ignored.
MOST_PARAMETERS, DRAWS_EACH = 500, 5


@dataclass(frozen=True, eq=False)
class Projection:
    """The posterior closest to some draws, and what is lost.

    `posterior` is that posterior. `spread[factor]` is how many times wider the draws are than the posterior, entry by
    entry. `dependence` is the cost of independent components and factors, in nats, if the draws were Gaussian; NaN if
    there are too few draws to tell.

    >>> model = db.models.GaussianMean(variance=1.0, dimension=1)
    >>> draws = np.random.default_rng(0).normal(3.0, 0.5, size=(2000, 1, 1))
    >>> projection = db.interop.from_draws(model.structure, {"mean": draws})
    >>> print(projection)
    Draws are 1.00 to 1.00 times as wide as the posterior; independence costs 0 nats.
    """

    posterior: Posterior
    spread: Mapping[str, Array]
    dependence: float

    def __str__(self) -> str:
        widths = np.concatenate([np.ravel(ratio) for ratio in self.spread.values()])
        finite = widths[np.isfinite(widths) & (widths > 0)]
        ends = f"{finite.min():.2f} to {finite.max():.2f}" if len(finite) else "unknown"
        return f"Draws are {ends} times as wide as the posterior; independence costs {self.dependence:.2g} nats."


def from_draws(
    structure: Structure, draws: Mapping[str, Any], *, names: Mapping[str, str] | None = None, align: bool = False
) -> Projection:
    """The posterior of this structure that is closest to a sampler's draws.

    `structure` is that of a model (`model.structure`): families, and the prior that the sampler had. `draws` has an
    array (draws, components, …) for each factor, as from `posterior.sample`; a factor with a mean and a precision has
    two, "components_mean" and "components_precision". `names` are the sampler's names: {"components_mean": "mu"}.

    Components must have one labelling in all draws. Draws of a sampler that switched labels are refused; `align=True`
    relabels each draw so that all agree best (Stephens 2000).

    >>> model = db.models.GaussianMean(variance=1.0, dimension=1)
    >>> draws = np.random.default_rng(0).normal(3.0, 0.5, size=(2000, 1))
    >>> db.interop.from_draws(model.structure, {"mu": draws}, names={"mean": "mu"}).posterior.mean("mean").round(1)
    array([[3.]])
    """
    check_kind(Structure, structure=structure)
    values = {name: factor_draws(structure, name, draws, names or {}) for name in structure.families}
    statistics = {name: structure.families[name].statistics(value) for name, value in values.items()}
    if align:
        orders = aligned_draws(structure, statistics)
        values, statistics = (
            reorder(structure, values, orders),
            {name: in_order(statistics[name], orders.get(name)) for name in statistics},
        )
    else:
        check_labels(structure, statistics)
    natural = {
        name: project(family, statistics[name].mean(axis=0), np.array(structure.prior[name]), name)
        for name, family in structure.families.items()
    }
    posterior = Posterior.from_natural(structure, natural)
    spread = {name: spread_of(structure.families[name], natural[name], value) for name, value in values.items()}
    return Projection(posterior, spread, dependence_of(structure, values))


def from_arviz(
    structure: Structure, tree: Any, *, names: Mapping[str, str] | None = None, align: bool = False
) -> Projection:
    """The posterior closest to the draws of an ArviZ DataTree or InferenceData, in its `posterior` group.

    `structure` is that of a model (`model.structure`), and `tree` has the draws. Variables are named as by `to_arviz`,
    or by `names`; `align=True` relabels draws of a sampler that switched labels.

    >>> import arviz_base
    >>> model = db.models.GaussianMean(variance=1.0, dimension=1)
    >>> tree = arviz_base.from_dict({"posterior": {"mu": np.random.default_rng(0).normal(3.0, 0.5, size=(4, 500, 1))}})
    >>> projection = db.interop.from_arviz(model.structure, tree, names={"mean": "mu"})
    >>> projection.posterior.mean("mean").round(1)
    array([[3.]])
    """
    group = tree["posterior"]
    variables = [called for name in structure.families for called in quantity_names(structure, name).values()]
    chosen = {name: (names or {}).get(name, name) for name in variables}
    missing = sorted(set(chosen.values()) - set(map(str, group.data_vars)))
    if missing:
        raise NotConvertible(
            f"The tree has no variable {', '.join(missing)}; names={{…}} maps {', '.join(chosen)} to its names."
        )
    flat = {name: np.asarray(group[called].values) for name, called in chosen.items()}
    return from_draws(structure, {name: part.reshape(-1, *part.shape[2:]) for name, part in flat.items()}, align=align)


def from_moments(structure: Structure, moments: Mapping[str, tuple[Any, Any]]) -> Posterior:
    """The posterior with these means and variances: {"coefficients": (mean, covariance)}.

    `structure` is that of a model (`model.structure`); `moments` has a mean and a variance for each factor.

    For factors that are Gaussian, Gamma or Beta, which mean and variance determine. A mean is (components, dimensions),
    a variance the same, or a covariance (components, dimensions, dimensions), of which a factor without correlations
    takes the diagonal. For others see `from_draws`.

    >>> model = db.models.GaussianMean(variance=1.0, dimension=2)
    >>> posterior = db.interop.from_moments(model.structure, {"mean": ([[3.0, 1.0]], [[0.5, 0.5]])})
    >>> posterior.mean("mean")
    array([[3., 1.]])
    """
    check_kind(Structure, structure=structure)
    missing = sorted(structure.families.keys() ^ moments.keys())
    if missing:
        raise NotConvertible(f"Moments and structure must name the same factors; see {', '.join(missing)}.")
    natural = {name: of_moments(structure, name, *moments[name]) for name in structure.families}
    return Posterior.from_natural(structure, natural)


def of_moments(structure: Structure, name: str, mean: Any, variance: Any) -> Array:
    family = structure.families[name]
    if family.name not in MOMENTS:
        raise NotConvertible(f"'{name}' is {family.name}, which mean and variance do not determine: use from_draws.")
    expected = np.shape(family.expected(structure.prior[name]))
    try:
        centre = real_array(mean).astype(np.float64).reshape(expected)
        spread = covariances(real_array(variance).astype(np.float64), expected)
    except (TypeError, ValueError) as error:
        raise NotConvertible(f"The moments of '{name}' should have the shape {expected}: {error}.") from None
    return with_moments(family, name, centre, spread)


def with_moments(family: Family, name: str, mean: Array, spread: Array) -> Array:
    """The natural parameters of the family's member with this mean and covariance, if there is one."""
    try:
        with np.errstate(divide="ignore", invalid="ignore"):
            natural = family.natural(**MOMENTS[family.name](mean, spread))
    except np.linalg.LinAlgError:
        natural = None
    if natural is None or not family.contains(natural):
        raise NotConvertible(
            f"No {family.name} has the moments of '{name}': a variance must be positive, a covariance matrix positive "
            "definite, a mean within the family's range."
        )
    return natural


def covariances(spread: Array, shape: tuple[int, ...]) -> Array:
    """(…, D, D), from variances or from covariances."""
    square = (*shape, shape[-1])
    if len(shape) == 2 and spread.size == np.prod(square) and spread.ndim >= 2 and spread.shape != shape:
        return spread.reshape(square)
    return np.asarray(spread.reshape(shape)[..., None] * np.eye(shape[-1]))


def variances(spread: Array) -> Array:
    return np.asarray(np.einsum("...ii->...i", spread))


def gamma_moments(mean: Array, spread: Array) -> dict[str, Array]:
    within = variances(spread)
    return {"shape": mean**2 / within, "rate": mean / within}


def beta_moments(mean: Array, spread: Array) -> dict[str, Array]:
    weight = mean * (1.0 - mean) / variances(spread) - 1.0
    return {"alpha": mean * weight, "beta": (1.0 - mean) * weight}


MOMENTS: dict[str, Callable[[Array, Array], dict[str, Array]]] = {
    "FullGaussian": lambda mean, spread: {"mean": mean, "covariance": spread},
    "DiagonalGaussian": lambda mean, spread: {"mean": mean, "variance": variances(spread)},
    "IsotropicGaussian": lambda mean, spread: {"mean": mean, "variance": variances(spread).mean(axis=-1)},
    "Gamma": gamma_moments,
    "Beta": beta_moments,
}
"""The ordinary parameters of families that mean and variance determine."""


def factor_draws(structure: Structure, name: str, draws: Mapping[str, Any], names: Mapping[str, str]) -> Any:
    family, parts = structure.families[name], {}
    shapes = family.quantities(family.expected(structure.prior[name]))
    for quantity, called in quantity_names(structure, name).items():
        given = names.get(called, called)
        if given not in draws:
            raise NotConvertible(f"There are no draws of '{given}'; there are {', '.join(map(str, draws))}.")
        parts[quantity] = shape_draws(called, draws[given], np.shape(shapes[quantity]))
    if len({len(part) for part in parts.values()}) > 1:
        raise NotConvertible(f"The draws of '{name}' differ in number between its quantities.")
    return family.of_quantities(parts)


def quantity_names(structure: Structure, name: str) -> dict[str, str]:
    family = structure.families[name]
    kinds = family.quantities(family.expected(structure.prior[name]))
    return {kind: variable_name(name, kind) for kind in kinds}


def variable_name(factor: str, quantity: str) -> str:
    """The name of a factor's quantity in other libraries."""
    return factor if quantity == "value" else f"{factor}_{quantity}"


def shape_draws(name: str, given: Any, shape: tuple[int, ...]) -> Array:
    values = real_array(given).astype(np.float64)
    if shape and shape[0] == 1 and values.shape[1:] == shape[1:]:
        values = values[:, None]
    if values.shape[1:] != shape:
        expected = ", ".join(map(str, ("draws", *shape)))
        raise NotConvertible(f"The draws of '{name}' have the shape {values.shape}; expected ({expected}).")
    if len(values) < 2:
        raise NotConvertible(f"There are fewer than two draws of '{name}': a variance needs more. Draw more.")
    if not np.isfinite(values).all():
        raise NotConvertible(f"The draws of '{name}' contain NaN or infinite values.")
    return values


def reorder(structure: Structure, values: Mapping[str, Any], orders: Mapping[str, Any]) -> dict[str, Any]:
    """Each draw's components in their new order."""
    ordered = dict(values)
    for name, order in orders.items():
        family = structure.families[name]
        parts = family.quantities(values[name])
        ordered[name] = family.of_quantities({kind: in_order(part, order) for kind, part in parts.items()})
    return ordered


def in_order(part: Array, order: Any) -> Array:
    return part if order is None else part[np.arange(len(part))[:, None], order]


def spread_of(family: Family, natural: Array, value: Any) -> Array:
    """How many times wider the draws are, entry by entry, for all quantities in a row."""
    project, drawn = family.quantities(family.deviation(natural)), family.quantities(value)
    ratios = [np.ravel(drawn[kind].std(axis=0) / np.asarray(project[kind])) for kind in drawn]
    return np.concatenate(ratios)


def dependence_of(structure: Structure, values: Mapping[str, Any]) -> float:
    """½ (Σ log det R_b − log det R): nats that blocks of correlated Gaussians lose by independence."""
    blocks = [block for name in structure.families for block in blocks_of(structure.families[name], values[name])]
    all_columns = np.hstack(blocks)
    if not 1 < all_columns.shape[1] <= min(MOST_PARAMETERS, len(all_columns) // DRAWS_EACH):
        return 0.0 if all_columns.shape[1] == 1 else float("nan")
    return 0.5 * (sum(map(log_determinant, blocks)) - log_determinant(all_columns))


def blocks_of(family: Family, value: Any) -> list[Array]:
    """(draws, parameters) of each independent part of a factor: a row, or all rows of weights."""
    parts = [part.reshape(*part.shape[:2], -1) for part in family.quantities(value).values()]
    rows = np.concatenate(parts, axis=2)
    if family.over_components:
        return [drop_constant(rows.reshape(len(rows), -1))]
    return [drop_constant(rows[:, row]) for row in range(rows.shape[1])]


def drop_constant(columns: Array) -> Array:
    """Remove columns that do not vary, and the last of shares, which the others determine."""
    kept = columns[:, columns.std(axis=0) > 0]
    shares = kept.shape[1] > 1 and np.allclose(kept.sum(axis=1), kept[0].sum(), rtol=1e-6)
    return kept[:, :-1] if shares else kept


def log_determinant(columns: Array) -> float:
    if columns.shape[1] < 2:
        return 0.0
    return float(np.linalg.slogdet(np.corrcoef(columns, rowvar=False))[1])
