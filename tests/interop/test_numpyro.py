"""NumPyro's guides as posteriors, on top of the prior that the model states."""

import numpy as np
import pytest
from scipy import stats

import decbayes as db
from decbayes.errors import NotConvertible
from decbayes.interop import from_numpyro

pytestmark = pytest.mark.xdist_group("jax")
K, D = 3, 2
COUPLED = [("weights", "means", "rates", "shares")]


@pytest.fixture(scope="module", autouse=True)
def jax():
    """JAX takes seconds to import: only the worker that runs these tests does so."""
    global numpyro, dist
    numpyro = pytest.importorskip("numpyro", reason="needs the numpyro extra")
    dist = numpyro.distributions


def model(points):
    weights = numpyro.sample("weights", dist.Dirichlet(np.full(K, 2.0)))
    with numpyro.plate("components", K):
        means = numpyro.sample("means", dist.Normal(np.zeros(D), 3.0).to_event(1))
        numpyro.sample("rates", dist.Gamma(2.0, 0.5))
        numpyro.sample("shares", dist.Beta(1.0, 4.0))
    numpyro.sample("offset", dist.Normal(1.0, 2.0))
    numpyro.sample("points", dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, 1.0).to_event(1)))


def guide(points):
    numpyro.sample("weights", dist.Dirichlet(numpyro.param("alpha", np.ones(K))))
    location, scale = numpyro.param("location", np.zeros((K, D))), numpyro.param("scale", np.ones((K, D)))
    numpyro.sample("means", dist.Normal(location, scale).to_event(2))
    numpyro.sample("rates", dist.Gamma(numpyro.param("shape", np.ones(K)), numpyro.param("rate", np.ones(K))))
    numpyro.sample("shares", dist.Beta(numpyro.param("a", np.ones(K)), numpyro.param("b", np.ones(K))).to_event(1))
    numpyro.sample("offset", dist.Normal(numpyro.param("centre", 0.0), 0.5))


def observed(points):
    with numpyro.handlers.condition(data={"points": points}):
        return model(points)


PARAMS = {
    "alpha": np.array([4.0, 5.0, 6.0]),
    "location": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    "scale": np.array([[0.5, 0.25], [1.0, 2.0], [0.5, 1.0]]),
    "shape": np.array([3.0, 4.0, 5.0]),
    "rate": np.array([1.0, 2.0, 4.0]),
    "a": np.array([2.0, 3.0, 4.0]),
    "b": np.array([5.0, 6.0, 7.0]),
    "centre": 2.0,
}


@pytest.fixture(scope="module")
def posterior(jax):
    return from_numpyro(observed, guide, PARAMS, np.zeros((5, D)), coupled=COUPLED, name="clusters")


@pytest.mark.slow
def test_every_site_keeps_its_parameters(posterior):
    # NumPyro computes in float32, so numbers that float32 cannot hold are good to seven digits.
    expected = {
        "weights": {"alpha": PARAMS["alpha"]},
        "means": {"mean": PARAMS["location"], "variance": PARAMS["scale"] ** 2},
        "rates": {"shape": PARAMS["shape"][:, None], "rate": PARAMS["rate"][:, None]},
        "shares": {"alpha": PARAMS["a"], "beta": PARAMS["b"]},
        "offset": {"mean": [[2.0]], "variance": [[0.25]]},
    }
    for site, usual in expected.items():
        for name, value in usual.items():
            np.testing.assert_allclose(posterior.parameters(site)[name], value, rtol=1e-6, err_msg=f"{site} {name}")


def test_the_prior_is_the_one_that_the_model_states(posterior, rng):
    prior = db.Posterior.of_prior(posterior.structure)
    draw = {"means": rng.normal(size=(4, K, D)), "rates": rng.gamma(2.0, size=(4, K, 1))}
    family, natural = posterior.structure.families, prior.natural
    means = stats.norm.logpdf(draw["means"], 0.0, 3.0).sum(axis=(1, 2))
    rates = stats.gamma.logpdf(draw["rates"], 2.0, scale=2.0).sum(axis=(1, 2))
    np.testing.assert_allclose(family["means"].log_density(natural["means"], draw["means"]), means, rtol=1e-6)
    np.testing.assert_allclose(family["rates"].log_density(natural["rates"], draw["rates"]), rates, rtol=1e-6)


def test_relabelled_guides_merge_as_if_they_were_labelled_alike(posterior):
    order = [2, 0, 1]
    params = {name: value if np.ndim(value) == 0 else value[order] for name, value in PARAMS.items()}
    other = from_numpyro(observed, guide, params, np.zeros((5, D)), coupled=COUPLED, name="clusters")
    merged = db.merge([posterior, other], solver=db.solvers.Matching())
    twice = db.merging.product([posterior, posterior])
    for site in ("means", "rates", "shares", "offset"):
        rows = [np.sort(p.natural[site], axis=0) for p in (merged, twice)]
        np.testing.assert_allclose(rows[0], rows[1], rtol=1e-6)


@pytest.mark.slow
def test_guides_of_auto_normal_merge_into_the_posterior_of_all_data(rng):
    """Each guide is given the exact posterior of its shard, so the merge has to be that of both."""
    from numpyro.infer.autoguide import AutoNormal

    def line(x, y):
        slope = numpyro.sample("slope", dist.Normal(0.0, 10.0))
        numpyro.sample("y", dist.Normal(slope * x, 1.0), obs=y)

    automatic, posteriors = AutoNormal(line), []
    x, y = rng.normal(size=(2, 2, 50))
    for shard in zip(x, y, strict=True):
        precision = shard[0] @ shard[0] + 0.01
        params = {"slope_auto_loc": shard[0] @ shard[1] / precision, "slope_auto_scale": precision**-0.5}
        posteriors.append(from_numpyro(line, automatic, params, *shard, name="line"))
    precision = np.sum(x * x) + 0.01
    merged = db.merge(posteriors).parameters("slope")
    assert merged["mean"].item() == pytest.approx(np.sum(x * y) / precision, rel=1e-5)
    assert merged["variance"].item() == pytest.approx(1 / precision, rel=1e-5)


def test_sites_without_natural_parameters_are_refused():
    from numpyro.infer.autoguide import AutoNormal

    def scaled():
        numpyro.sample("scale", dist.HalfNormal(1.0))

    with pytest.raises(NotConvertible, match="'scale' is TransformedDistribution"):
        from_numpyro(scaled, AutoNormal(scaled), {}, name="scaled")
    with pytest.raises(NotConvertible, match=r"see \['offset'\]"):
        from_numpyro(observed, numpyro.handlers.block(guide, hide=["offset"]), PARAMS, np.zeros((5, D)))
    with pytest.raises(NotConvertible, match="same latent sites"):
        from_numpyro(observed, guide, PARAMS, np.zeros((5, D)), coupled=[("weights", "sizes")])


def test_priors_and_guides_with_dependent_sites_are_refused():
    """Traced once, a hierarchical prior looks like any other, with whatever its parent happened to be."""

    def hierarchical():
        centre = numpyro.sample("centre", dist.Normal(0.0, 1.0))
        numpyro.sample("value", dist.Normal(centre, 1.0))

    def independent():
        numpyro.sample("centre", dist.Normal(0.0, 1.0))
        numpyro.sample("value", dist.Normal(2.0, 1.0))

    for model, guide in ((hierarchical, independent), (independent, hierarchical)):
        with pytest.raises(NotConvertible, match="'value' depends on the values of other latent sites"):
            from_numpyro(model, guide, {})


def test_a_guide_of_another_family_than_its_prior_is_refused():
    def other(points):
        guide(points)

    def prior(points):
        with numpyro.handlers.block(hide=["rates"]):
            observed(points)
        numpyro.sample("rates", dist.Normal(np.zeros(K), 1.0))

    with pytest.raises(NotConvertible, match=r"'rates' is Gamma .* in the guide and DiagonalGaussian"):
        from_numpyro(prior, other, PARAMS, np.zeros((5, D)))


def test_parameters_that_the_guide_misses_are_refused():
    """NumPyro would take the initial values instead, and the posterior would be that of no data at all."""
    some = {name: value for name, value in PARAMS.items() if name != "shape"}
    with pytest.raises(NotConvertible, match="params lacks shape"):
        from_numpyro(observed, guide, some, np.zeros((5, D)), coupled=COUPLED)
    with pytest.raises(NotConvertible, match=r"SVI\.run\(…\)\.params"):
        from_numpyro(observed, guide, (PARAMS, None, None), np.zeros((5, D)), coupled=COUPLED)


@pytest.mark.parametrize("coupled", ["weights", ["weights", "means"], ("weights", "means")])
def test_coupled_sites_are_given_in_groups(coupled):
    with pytest.raises(NotConvertible, match="groups of sites"):
        from_numpyro(observed, guide, PARAMS, np.zeros((5, D)), coupled=coupled)


def test_a_guide_without_a_factor_a_site_is_told_what_to_use():
    from numpyro.infer.autoguide import AutoDelta

    def located():
        numpyro.sample("centre", dist.Normal(0.0, 1.0))

    with pytest.raises(NotConvertible, match=r"'centre' is Delta.*use AutoNormal"):
        from_numpyro(located, AutoDelta(located), {})
