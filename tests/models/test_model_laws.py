"""Laws that every model obeys, on data that it has simulated itself."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from structures import relabel
from zoo import ZOO

import decbayes as db
from decbayes.errors import DecbayesError
from decbayes.models.mixtures.clusters import Clusters
from decbayes.updates import without

SITES = 3


@pytest.fixture(params=list(ZOO), scope="module")
def case(request):
    """A model, the data of some sites, and their fits."""
    model, size = ZOO[request.param]
    rng = np.random.default_rng(11)
    data = db.simulate(model, SITES * size, rng=rng).data
    shards = [data[first : first + size] for first in range(0, SITES * size, size)]
    return model, shards, [model.fit(shard, rng=rng) for shard in shards]


def test_the_bound_never_falls(case):
    _, _, fits = case
    for fit in fits:
        rises = np.diff(fit.bound[10:] if len(fit.bound) > 20 else fit.bound)
        assert (rises >= -1e-8 * np.abs(fit.bound[-1])).all()


def test_the_same_seed_gives_the_same_bits(case):
    model, shards, _ = case
    first, second = (model.fit(shards[0], rng=np.random.default_rng(5)).posterior for _ in range(2))
    assert first == second


def test_no_data_leaves_the_prior(case, rng):
    model, shards, _ = case
    fit = model.fit(shards[0][:0], rng=rng)
    zeros = {name: np.zeros(prior.shape) for name, prior in model.structure.prior.items()}
    assert fit.posterior == db.Posterior.of_prior(model.structure) == db.Posterior(model.structure, zeros)
    assert fit.bound[-1] == pytest.approx(0.0, abs=1e-9)
    assert fit.converged


def test_the_order_of_sites_changes_no_bit_and_their_labels_only_slots(case, rng):
    _, _, fits = case
    posteriors = [fit.posterior for fit in fits]
    merged = db.merge(posteriors)
    assert db.merge(posteriors[::-1]) == merged
    again = db.merge([relabel(posterior, rng) for posterior in posteriors])
    assert again.log_partition() == pytest.approx(merged.log_partition(), rel=1e-12)


def test_what_is_withdrawn_was_never_there(case):
    _, _, fits = case
    posteriors = [fit.posterior for fit in fits]
    left = without(db.merging.product(posteriors), posteriors[1])
    for name, part in db.merging.product([posteriors[0], posteriors[2]]).natural.items():
        np.testing.assert_allclose(left.natural[name], part, rtol=1e-9, atol=1e-9)


# Which sites refine at once is no model's business: one with components, one with parts of sites, one with neither.
AT_ONCE = {id(ZOO[name][0]) for name in ("classes", "linear, varying", "Poisson regression")}


@pytest.mark.parametrize("schedule", ["sequential", "parallel"])
def test_refinement_ends_where_batch_inference_stays(case, rng, schedule):
    model, shards, fits = case
    if schedule == "parallel" and id(model) not in AT_ONCE:
        return
    posteriors = [fit.posterior for fit in fits]
    refined = db.refine(model, shards, posteriors, tolerance=1e-4, most=100, rng=rng, schedule=schedule, damping=0.8)
    batch = model.fit(model.joined(shards), rng=rng, start=refined.merged)
    rise = batch.bound[-1] - batch.bound[0]
    assert rise < 1e-4 * model.count(model.joined(shards))
    for name, family in model.structure.families.items():
        apart = family.kl(refined.merged.natural[name], batch.posterior.natural[name])
        assert apart < 1e-2


def test_an_interrupted_fit_loses_nothing(case, rng):
    model, shards, _ = case

    def interrupt(report):
        if report.number >= 2:
            raise KeyboardInterrupt

    if isinstance(model, db.models.GaussianMean | db.LinearRegression):
        return  # one pass is all it takes
    with pytest.raises(db.extending.FitInterrupted) as stopped:
        model.fit(shards[0], rng=rng, progress=interrupt)
    assert stopped.value.fit.posterior != db.Posterior.of_prior(model.structure)


def test_each_pass_is_reported_with_its_bound(case):
    model, shards, fits = case
    reports = []
    fit = model.fit(shards[0], rng=1, start=fits[0].posterior, progress=reports.append)
    assert [report.bound for report in reports] == list(fit.bound)
    assert [report.number for report in reports] == list(range(1, len(fit.bound) + 1))
    assert {report.restart for report in reports} == {0}


def test_observations_are_transformed_as_they_are_assigned(case):
    """Regressions predict instead."""
    model, shards, fits = case
    transform = model.transform(fits[0].posterior)
    found = transform.of(shards[1])
    assert found.shape == (len(found), len(transform.names))
    if hasattr(model, "predict") and not transform.adds_up:
        np.testing.assert_allclose(found, np.column_stack([*model.predict(fits[0].posterior, shards[1]).values()]))
    else:
        np.testing.assert_allclose(found, model.assign(fits[0].posterior, shards[1]), atol=2e-3)


def test_files_and_structures_bring_the_model_back(case, tmp_path):
    model, shards, fits = case
    db.save(fits[0].posterior, tmp_path / "a.posterior")
    read = db.load(tmp_path / "a.posterior")
    assert read == fits[0].posterior
    back = db.model_for(read.structure)
    assert back.structure == model.structure
    np.testing.assert_allclose(back.log_predictive(read, shards[1]), model.log_predictive(read, shards[1]))


def test_shares_of_an_observation_are_probabilities(case):
    model, shards, fits = case
    shares = model.assign(fits[0].posterior, shards[0])
    assert (shares >= 0).all()
    assert (shares <= 1 + 1e-12).all()
    assert len(model.describe(fits[0].posterior)) >= 1


def test_what_was_simulated_scores_better_than_what_was_not(case, rng):
    """A posterior of a model's own data predicts more of them better than the prior does."""
    model, shards, fits = case
    prior = db.Posterior.of_prior(model.structure)
    assert model.score(fits[0].posterior, shards[1]) > model.score(prior, shards[1])


SAYING = [name for name, (model, _) in ZOO.items() if not getattr(model, "varying", ()) and hasattr(model, "emissions")]
SAYING = [name for name in SAYING if "states" not in name and "groups" not in name]
SAYING += ["linear regression", "logistic regression", "Poisson regression", "negative binomial regression"]


@pytest.mark.parametrize("name", SAYING)
def test_likelihoods_of_draws_average_to_the_predictive_density(name, rng):
    """So they leave no constant out, and models can be compared."""
    model, size = ZOO[name]
    data = db.simulate(model, size, rng=rng).data
    posterior = model.fit(data, rng=rng).posterior
    draws = np.concatenate([*model.log_likelihoods(posterior.sample(1000, rng), data)], axis=1)
    mean = logsumexp(draws, axis=0) - np.log(len(draws))
    spread = np.exp(draws - mean).std(axis=0) / np.sqrt(len(draws))
    # log σ is a sum of eight error functions, up to a thousandth.
    expected = model.log_predictive(posterior, data)
    assert (np.abs(mean - expected) < 5 * spread + 2e-3).all()


def test_missing_values_are_left_out_of_likelihoods(rng):
    model, size = ZOO["classes"]
    data = db.simulate(model, size, rng=rng).data
    data[rng.random(data.shape) < 0.3] = np.nan
    data[3] = np.nan
    posterior = model.fit(data, rng=rng).posterior
    draws = np.concatenate([*model.log_likelihoods(posterior.sample(3000, rng), data)], axis=1)
    mean = logsumexp(draws, axis=0) - np.log(len(draws))
    np.testing.assert_allclose(mean, model.log_predictive(posterior, data), atol=0.1)
    assert mean[3] == pytest.approx(0.0, abs=1e-12)


# Of several sites, of models' own parts, or of persons; and what is checked when it is used.
INNER = {"for_posterior", "structure_for", "sized_for", "site_beliefs", "transform"}


@pytest.mark.parametrize("name", ZOO)
def test_posteriors_of_other_models_are_refused_by_every_method(name):
    """With one line, whatever is asked; and by models that leave their number of columns open."""
    model, size = ZOO[name]
    other = db.Posterior.of_prior(db.models.GaussianMean(variance=7.0, dimension=3).structure)
    known = {"posterior": other, "data": db.simulate(model, size, rng=1).data}
    for each in [model, *([replace(model, dimension=0)] if hasattr(model, "dimension") and name != "mean" else [])]:
        asked = 0
        for called in dir(type(each)):
            if called.startswith("_") or called in INNER or not inspect.isfunction(getattr(type(each), called, None)):
                continue
            method = getattr(each, called)
            given = inspect.signature(method).parameters.values()
            needed = {one.name for one in given if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD}
            if "posterior" in needed and needed <= known.keys():
                with pytest.raises(DecbayesError):
                    method(**{one: known[one] for one in needed})
                asked += 1
        assert asked >= 5


def test_priors_and_starts_of_other_models_are_refused_as_what_they_are(case):
    model, shards, _ = case
    other = db.Posterior.of_prior(db.models.GaussianMean(variance=7.0, dimension=3).structure)
    for role in ("prior", "start"):
        with pytest.raises(DecbayesError, match=rf"[Tt]he {role} belongs to"):
            model.fit(shards[0], rng=1, **{role: other})


class Watching:
    """Is told of passes, and how far each one is."""

    def __init__(self):
        self.passes, self.told = 0, []

    def __call__(self, report):
        self.passes += 1

    def within(self, done, total):
        self.told.append((done, total))


def test_whoever_watches_a_pass_is_told_of_all_observations(case):
    model, shards, fits = case
    watching = Watching()
    model.fit(shards[0], rng=1, start=fits[0].posterior, progress=watching)
    assert watching.passes >= 1
    assert {total for _, total in watching.told} <= {model.count(shards[0])}
    if isinstance(model, Clusters | db.LatentDirichletAllocation):  # the others' passes are short
        assert sum(done == total for done, total in watching.told) == watching.passes


class Stopping:
    """Presses Ctrl-C in the second pass of some start; or goes on from where a fit was left."""

    def __init__(self, restart=-1, left=None):
        self.restart, self.left = restart, left

    def __call__(self, report):
        if report.restart == self.restart and report.number >= 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("restart", [0, 1])
def test_a_fit_that_goes_on_where_it_was_left_has_the_bits_of_one_that_never_stopped(case, restart):
    model, shards, _ = case
    model = replace(model, ascent=replace(model.ascent, restarts=1, passes=12))
    whole = model.fit(shards[0], rng=1)
    try:
        model.fit(shards[0], rng=1, progress=Stopping(restart))
    except db.extending.FitInterrupted as stopped:
        if stopped.paused is None:
            assert not isinstance(model, Clusters | db.HiddenMarkov | db.LatentDirichletAllocation)
            return  # the others' fits are short
        again = model.fit(shards[0], rng=1, progress=Stopping(left=stopped.paused))
        assert again.posterior == whole.posterior
        assert again.bound == whole.bound
        assert again.converged == whole.converged
    else:  # one pass was enough, or starts make no difference
        assert restart or len(whole.bound) < 2
