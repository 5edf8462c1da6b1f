"""A contribution's own numbers tell how many observations it holds: honest fits pass whatever the data, lies do not."""

from dataclasses import replace

import numpy as np
import pytest
from groups import charter_of, identities
from zoo import ZOO

import decbayes as db
from decbayes.errors import Refused
from decbayes.families import dense
from decbayes.merging import align
from decbayes.models.core.registry import MODELS
from decbayes.network import sign_record, verify
from decbayes.network.protocol.records.verification import open_record
from decbayes.network.protocol.site.evidence import learn, nothing
from decbayes.posterior import Posterior
from decbayes.updates import without

KEYS = identities(3)
QUICK = db.Ascent(passes=8, restarts=1)
names = pytest.mark.parametrize("name", ZOO)
# Poisson regression weighs rows by the counts that it expects: only the largest number in the data bounds them.
UNBOUNDED = {"Poisson regression", "Poisson, varying", "negative binomial regression", "survival"}
# How many sites the rows of one member are from is its own affair, up to as many as rows.
FREE = {"variation"}


def simulated(name, size, rng):
    return db.simulate(ZOO[name][0], size, rng=rng).data


def shards(name, rng):
    """Ordinary data, and as little, large, small, equal, far away and missing as data may be."""
    model, usual = ZOO[name]
    for size in (1, 2, usual):
        yield simulated(name, size, rng)
    data = simulated(name, usual, rng)
    yield model.taken(data, np.zeros(usual, dtype=np.intp))
    if isinstance(model, db.HiddenMarkov):
        yield [sequence[: 1 + 7 * place] for place, sequence in enumerate(data)]
    if type(model) in (db.models.GaussianMean, db.GaussianMixture):
        for scale in (1e-6, 1e3):
            yield scale * data
        yield rng.standard_cauchy(size=data.shape).clip(-1e3, 1e3)
    if isinstance(model, db.LatentDirichletAllocation):
        yield rng.poisson(3000.0, size=(5, 8))
        yield rng.poisson(0.05, size=(300, 8))
    if gaps_allowed(model):
        yield [with_gaps(each, rng) for each in data] if isinstance(data, list) else with_gaps(data, rng)


def gaps_allowed(model):
    whole_rows = getattr(model, "covariance", None) == "full"
    return getattr(model, "emissions", None) is not None and model.emissions.may_miss and not whole_rows


def with_gaps(data, rng):
    """Many values are missing, and all of some observations."""
    points = np.where(rng.random(data.shape) < 0.4, np.nan, np.asarray(data, dtype=float))
    points[rng.random(len(points)) < 0.3] = np.nan
    return points


def quick(model):
    return replace(model, ascent=QUICK)


def told(model, data):
    return round(float(np.sum(model.units(data)))), model.count(data)


def largest(data):
    """A little more than the largest number in the data."""
    return (
        1.01 * float(max(abs(each).max() for each in data)) if isinstance(data, list) else 1.01 * float(abs(data).max())
    )


def test_every_registered_model_can_tell():
    assert {type(model).__name__ for model, _ in ZOO.values()} >= {
        name for name in MODELS if MODELS[name].__module__.startswith("decbayes.")
    }
    for model, _ in ZOO.values():
        assert model.tally(Posterior.of_prior(model.structure)).contradiction(0.0, 0.0) is None


@names
def test_random_and_extreme_honest_fits_pass(name, rng):
    model = quick(ZOO[name][0])
    for data in shards(name, rng):
        posterior = model.fit(data, rng=rng).posterior
        assert model.tally(posterior).contradiction(*told(model, data)) is None


@names
def test_honest_records_pass_all_checks_and_dishonest_ones_do_not(name, rng):
    """From data to a signed record and back, as agents do it, with a largest number in the charter."""
    data = simulated(name, ZOO[name][1], rng)
    charter = charter_of(ZOO[name][0], KEYS, value=largest(data))
    own = learn(charter, nothing(charter), {"s": data}, rng).evidence

    def refusal(posterior, observations=own.observations, units=own.units):
        said = {"shards": own.shards, "observations": observations, "units": units}
        content = sign_record(charter, KEYS[0], 1, posterior=posterior, **said).content
        try:
            verify(open_record(content, charter), charter)
        except Refused as error:
            return error.reason
        return None

    assert refusal(own.posterior) is None
    for factor in own.posterior.contribution:
        for size in (1e9,) if name in UNBOUNDED or factor in FREE else (1e9, 20.0):
            lie = changed(own.posterior, factor, times(size))
            assert refusal(lie) in ("consistency", "evidence", "domain"), (factor, size)
    assert refusal(changed(own.posterior, None, times(1e9))) in ("consistency", "evidence")
    assert refusal(own.posterior, observations=1, units=1) in ("consistency", "evidence")


@names
def test_fits_on_top_of_everybody_elses_evidence_pass(name, rng):
    """As refined contributions are: the posterior of own data under a strong prior, less that prior."""
    model = quick(ZOO[name][0])
    data = simulated(name, 2 * ZOO[name][1], rng)
    half = len(data) // 2 if isinstance(data, list) else data.shape[0] // 2
    own, others = data[:half], data[half:]
    mine, theirs = align([model.fit(each, rng=rng).posterior for each in (own, others)]).relabelled()
    refined = without(model.fit(own, prior=theirs, start=mine, rng=rng).posterior, theirs)
    assert model.tally(refined).contradiction(*told(model, own)) is None


def times(factor):
    return lambda part: factor * part


def changed(posterior, factor, change):
    """The posterior with one factor's contribution changed, or all."""
    parts = {name: np.array(dense(part)) for name, part in posterior.contribution.items()}
    return Posterior(
        posterior.structure, {name: change(part) if factor in (name, None) else part for name, part in parts.items()}
    )


@names
def test_a_lie_in_one_component_does_not_pass(name, rng):
    """One factor says far more of one component than all others do."""
    model = ZOO[name][0]
    data = simulated(name, ZOO[name][1], rng)
    posterior = quick(model).fit(data, rng=rng).posterior

    def more_in_one(part):
        part[np.abs(part).sum(axis=1).argmax()] *= 20.0
        return part

    if name not in UNBOUNDED:
        for factor in posterior.contribution.keys() - FREE:
            lie = changed(posterior, factor, more_in_one)
            assert model.tally(lie).contradiction(*told(model, data)) is not None, factor


def test_a_component_cannot_weigh_more_than_the_observations_it_claims(rng):
    """The weights say one observation, the component's precision says a billion."""
    model = ZOO["known variance"][0]
    posterior = model.fit(rng.normal(size=(1, 2)), rng=rng).posterior
    parts = {name: np.array(part) for name, part in posterior.contribution.items()}
    parts["components"][0] = [1e5 * 1e9, 1e5 * 1e9, -0.5 * 1e9]
    assert "components" in model.tally(Posterior(model.structure, parts)).contradiction(1)


@pytest.mark.parametrize("name", ["classes", "states", "yes or no", "counts", "categories", "diagonal"])
def test_a_column_cannot_hold_more_values_than_its_component_has_observations(name, rng):
    """Every column is told by itself, because values may be missing; fewer are fine, more are not."""
    model = ZOO[name][0]
    data = simulated(name, ZOO[name][1], rng)
    posterior = quick(model).fit(data, rng=rng).posterior
    for factor, part in posterior.contribution.items():
        if factor not in {part.name for part in model.emissions.parts}:
            continue
        fewer, more = (changed(posterior, factor, times(size)) for size in (0.9, 1.1))
        assert model.tally(fewer).contradiction(*told(model, data)) is None
        assert factor in model.tally(more).contradiction(*told(model, data)), part.shape


def test_sequences_begin_and_end_as_often_as_there_are_sequences(rng):
    model, size = ZOO["states"]
    data = simulated("states", size, rng)
    posterior = quick(model).fit(data, rng=rng).posterior
    steps, sequences = told(model, data)
    assert "observations" in model.tally(posterior).contradiction(steps, sequences + 1)

    # As many visits as before, and more departures from the first state than visits.
    parts = {name: np.array(dense(part)) for name, part in posterior.contribution.items()}
    parts["transitions"] = np.array([[60.0, 60.0], [0.0, 0.0]]) * (steps - sequences) / 120.0
    parts["start"] = np.array([[0.0], [float(sequences)]])
    told_twice = Posterior(
        model.structure, {**parts, "real": 0 * parts["real"], "categorical": 0 * parts["categorical"]}
    )
    assert "transitions" in model.tally(told_twice).contradiction(steps, sequences)


def test_the_intercept_is_no_surer_than_the_rows_allow(rng):
    model, size = ZOO["linear regression"]
    data = simulated("linear regression", size, rng)
    posterior = model.fit(data, rng=rng).posterior

    def surer(part):
        """The first of the numbers that are 0 or 1 is the intercept, which is 1 in every row."""
        part[0, 2 + len(model.table.design.labels)] *= 1.5
        return part

    assert "intercept" in model.tally(changed(posterior, "coefficients", surer)).contradiction(size)


def test_a_count_weighs_no_more_than_the_charters_value(rng):
    model, size = ZOO["Poisson regression"]
    data = simulated("Poisson regression", size, rng)
    posterior, most = model.fit(data, rng=rng).posterior, model.largest_contribution(largest(data))["coefficients"]
    held, places = dense(posterior.contribution["coefficients"])[0], len(model.table.design.labels)
    assert abs(held[places]) > 1e-4 * size * most[0, places], "the intercept's weight comes near its bound"


@pytest.mark.parametrize("name", ["mean", "known variance", "spherical", "diagonal", "full"])
def test_what_one_observation_can_add_is_bounded_and_reached(name, rng):
    """No data within ±v adds more than the bound times its observations, and data at the corners adds all of it."""
    model, value = ZOO[name][0], 3.0
    bounds = model.largest_contribution(value)
    assert bounds
    for points in (rng.uniform(-value, value, size=(50, 2)), np.full((50, 2), value)):
        posterior = model.fit(points, rng=rng).posterior
        for factor, most in bounds.items():
            seen = np.abs(dense(posterior.contribution[factor])).sum(axis=0)
            assert (seen <= 50 * most * (1 + 1e-9) + 1e-9).all()
    np.testing.assert_allclose(seen, 50 * np.ravel(most), rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["linear regression", "logistic regression", "Poisson regression", "classes", "states"]
)
def test_what_one_row_can_add_is_bounded(name, rng):
    model, size = ZOO[name]
    data = simulated(name, size, rng)
    posterior, (units, _) = model.fit(data, rng=rng).posterior, told(model, data)
    bounds = model.largest_contribution(largest(data))
    assert bounds
    for factor, most in bounds.items():
        seen = np.abs(dense(posterior.contribution[factor])).sum(axis=0)
        assert (seen <= units * np.ravel(most) * (1 + 1e-6)).all()
        assert (seen > 1e-4 * units * np.ravel(most)).any(), "a bound that nothing comes near is none"


def test_states_cannot_be_left_more_often_than_they_are_entered(rng):
    """Nor have more values than steps, nor moves that take others back."""
    model = db.HiddenMarkov(
        2, stickiness=100.0, columns={"a": "yes/no", "n": "count", "c": db.columns.Categorical(3), "x": "real"}
    )
    data = db.simulate(model, 3, rng=rng, length=20).data
    data[0][4] = np.nan
    posterior = model.fit(data, rng=rng).posterior
    assert model.tally(posterior).contradiction(60, 3) is None
    for name, change in {
        "transitions": np.array([[0.0, 5.0], [0.0, -5.0]]),
        "yes_no": np.full((2, 2), 40.0),
        "counts": np.array([[0.0, -100.0], [0.0, 0.0]]),
        "categorical": np.full((2, 3), 30.0),
    }.items():
        parts = {**posterior.contribution, name: posterior.contribution[name] + change}
        assert f"'{name}'" in model.tally(Posterior(model.structure, parts)).contradiction(60, 3)
    back = np.max(np.diag(posterior.contribution["transitions"])) + 10.0
    parts = {
        **posterior.contribution,
        "transitions": posterior.contribution["transitions"] + back * (1 - 2 * np.eye(2)),
    }
    assert "'moves'" in model.tally(Posterior(model.structure, parts)).contradiction(60, 3)
