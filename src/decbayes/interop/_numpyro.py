"""NumPyro's mean-field guides in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from decbayes.base.extras import require
from decbayes.errors import NotConvertible
from decbayes.families import Array, Beta, DiagonalGaussian, Dirichlet, Family, Gamma, Weights
from decbayes.posterior import Posterior
from decbayes.structure import CoupledSet, Structure

Site = tuple[Family, Array]
Program = Callable[[], Any]


def from_numpyro(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    params: Mapping[str, Any],
    *arguments: Any,
    coupled: Sequence[Iterable[str]] = (),
    name: str = "",
    **keywords: Any,
) -> Posterior:
    """The posterior of a fitted mean-field guide, on top of the model's prior.

    `model` and `guide` are functions as for NumPyro.

    `params` are those of `SVI.run(…).params` (or `svi.get_params(state)`), all that the guide needs; `arguments` and
    `keywords` go to model and guide, which are traced. Each latent site is a factor and must be Normal, Gamma, Beta or
    Dirichlet in both, as made by `AutoNormal` for real-valued sites. The first axis of a site counts its components.

    `coupled` lists sites that are relabelled together, such as [("weights", "means", "scales")]; a single Dirichlet
    among them is the distribution of the weights. `name` names the model; posteriors merge only if it is the same.

    >>> import numpyro
    >>> from numpyro.distributions import Normal
    >>> def model(y):
    ...     slope = numpyro.sample("slope", Normal(0.0, 10.0))
    >>> def guide(y):
    ...     numpyro.sample("slope", Normal(numpyro.param("centre", 0.0), numpyro.param("scale", 1.0)))
    >>> fitted = {"centre": 3.0, "scale": 0.5}
    >>> db.interop.from_numpyro(model, guide, fitted, None, name="slopes").mean("slope")
    array([[3.]])
    """
    require("numpyro", extra="numpyro", task="A guide's posterior")
    check_call(params, coupled)
    symmetry = tuple(CoupledSet(tuple(sites)) for sites in coupled)
    relabelled = {site for coupled_set in symmetry for site in coupled_set.factors}
    after = independent_sites(partial(guide, *arguments, **keywords), params, relabelled)
    before = independent_sites(partial(model, *arguments, **keywords), {}, relabelled)
    check_sites(before, after, relabelled)
    check_params(partial(guide, *arguments, **keywords), params)
    structure = Structure(
        families={site: family for site, (family, _) in after.items()},
        prior={site: natural for site, (_, natural) in before.items()},
        symmetry=symmetry,
        model={"name": name},
    )
    return Posterior.from_natural(structure, {site: natural for site, (_, natural) in after.items()})


def independent_sites(program: Program, params: Mapping[str, Any], relabelled: set[str]) -> dict[str, Site]:
    """The latent sites of a model or a guide; none may depend on the value of another."""
    first, second = (
        {site: site_family(site, fn, site in relabelled) for site, fn in latent_sites(program, params, seed).items()}
        for seed in (0, 1)
    )
    for site, (_, natural) in first.items():
        if not np.array_equal(natural, second[site][1]):
            raise NotConvertible(
                f"The distribution of '{site}' depends on the values of other latent sites. Factors of a mean-field "
                "posterior, and their priors, are independent: only sites with fixed parameters can be merged."
            )
    return first


def latent_sites(program: Program, params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The distribution of each latent site in one run of a model or a guide."""
    return {
        name: site["fn"]
        for name, site in trace_program(program, params, seed).items()
        if site["type"] == "sample" and not site["is_observed"] and not site["infer"].get("is_auxiliary", False)
    }


def trace_program(program: Program, params: Mapping[str, Any], seed: int) -> Mapping[str, Any]:
    from jax.random import PRNGKey
    from numpyro import handlers
    from numpyro.infer import init_to_uniform

    # Any value of a site will do; drawing from its distribution takes JAX many seconds to compile.
    run = handlers.substitute(handlers.seed(program, PRNGKey(seed)), data=dict(params))
    return dict(handlers.trace(handlers.substitute(run, substitute_fn=init_to_uniform)).get_trace())


def site_family(site: str, distribution: Any, relabelled: bool) -> Site:
    shape, base = tuple(distribution.batch_shape) + tuple(distribution.event_shape), unwrap(distribution)
    kind = type(base).__name__
    if kind not in CONVERSIONS:
        raise NotConvertible(
            f"The site '{site}' is {kind}; a merge adds natural parameters, which are known for "
            f"{', '.join(CONVERSIONS)}. {CURES.get(kind, 'Write the guide with one of these.')}"
        )
    return CONVERSIONS[kind](base, shape, relabelled)


def unwrap(distribution: Any) -> Any:
    """The distribution without `to_event` and `expand`, which only change shapes."""
    while type(distribution).__name__ in ("Independent", "ExpandedDistribution"):
        distribution = distribution.base_dist
    return distribution


def as_rows(values: Any, shape: tuple[int, ...]) -> Array:
    """Parameters as (components, dimensions), for a site of this shape."""
    rows = shape[0] if shape else 1
    values_of_site = np.broadcast_to(np.asarray(values, dtype=np.float64), shape)
    return values_of_site.reshape(rows, -1)


def normal(base: Any, shape: tuple[int, ...], relabelled: bool) -> Site:
    family = DiagonalGaussian()
    return family, family.natural(mean=as_rows(base.loc, shape), variance=as_rows(base.scale, shape) ** 2)


def gamma(base: Any, shape: tuple[int, ...], relabelled: bool) -> Site:
    family = Gamma()
    return family, family.natural(shape=as_rows(base.concentration, shape), rate=as_rows(base.rate, shape))


def beta(base: Any, shape: tuple[int, ...], relabelled: bool) -> Site:
    alpha, other = as_rows(base.concentration1, shape), as_rows(base.concentration0, shape)
    if alpha.shape[1] != 1:
        raise NotConvertible(f"A Beta site has one number per component; this one has the shape {shape}.")
    return Beta(), Beta().natural(alpha=alpha[:, 0], beta=other[:, 0])


def dirichlet(base: Any, shape: tuple[int, ...], relabelled: bool) -> Site:
    alpha = np.broadcast_to(np.asarray(base.concentration, dtype=np.float64), shape)
    if alpha.ndim == 1 and relabelled:
        return Weights(), Weights().natural(alpha=alpha)
    return Dirichlet(), Dirichlet().natural(alpha=alpha.reshape(-1, shape[-1]))


CONVERSIONS: dict[str, Callable[[Any, tuple[int, ...], bool], Site]] = {
    "Normal": normal,
    "Gamma": gamma,
    "Beta": beta,
    "Dirichlet": dirichlet,
}


CURES = {
    "TransformedDistribution": "For a constrained site write the guide by hand: AutoNormal makes it a transformed "
    "Normal, which the prior is not.",
    "Delta": "Guides such as AutoDelta and AutoMultivariateNormal have no factor for each site: use AutoNormal, or "
    "write the guide by hand.",
}


def check_call(params: Any, coupled: Any) -> None:
    """Refuse arguments that are easily passed by mistake, before NumPyro fails on them."""
    if not isinstance(params, Mapping):
        raise NotConvertible(f"params is a {type(params).__name__}; pass the parameters alone, SVI.run(…).params.")
    if isinstance(coupled, str) or any(isinstance(sites, str) for sites in coupled):
        raise NotConvertible(f"coupled lists groups of sites, such as [('weights', 'means')]; here it is {coupled!r}.")


def check_params(guide: Program, params: Mapping[str, Any]) -> None:
    """Refuse missing parameters, which would silently keep the guide's initial values."""
    missing = [
        name for name, site in trace_program(guide, params, 0).items() if site["type"] == "param" and name not in params
    ]
    if missing:
        raise NotConvertible(
            f"params lacks {', '.join(missing)}, which the guide needs: are these the parameters of this guide?"
        )


def check_sites(before: Mapping[str, Site], after: Mapping[str, Site], relabelled: set[str]) -> None:
    """Refuse a model and a guide whose sites, families or sizes differ."""
    missing = (before.keys() ^ after.keys()) | (relabelled - after.keys())
    if missing:
        raise NotConvertible(f"Model, guide and coupled sets must name the same latent sites; see {sorted(missing)}.")
    for site, (family, natural) in after.items():
        given, prior = before[site]
        if family != given or natural.shape != prior.shape:
            raise NotConvertible(
                f"The site '{site}' is {family.name} {natural.shape} in the guide and {given.name} {prior.shape} in "
                "the model. Counting the prior once needs both in the same family."
            )
