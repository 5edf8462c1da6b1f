"""One rule for `rng`: a generator or a seed, which may be left out where the result does not depend on it."""

import inspect
import sys
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import decbayes as db
from decbayes.models.regressions.regression import Regression

sys.path.insert(0, str(Path(__file__).parent / "models"))
from zoo import ZOO

POINTS = np.random.default_rng(0).normal(size=(40, 2)) + 4 * np.arange(2).repeat(20)[:, None]
MIXTURE = db.GaussianMixture(2, 2, variance=1.0, ascent=db.Ascent(passes=3))
SHARDS = [POINTS[::2], POINTS[1::2]]
FITTED = [MIXTURE.fit(shard, rng=number).posterior for number, shard in enumerate(SHARDS)]
AUTO = db.GaussianMixture("auto", 2, variance=1.0, ascent=db.Ascent(passes=3))

CALLS = {
    "db.Posterior.sample": lambda rng: FITTED[0].sample(2, rng),
    "db.refine": lambda rng: db.refine(MIXTURE, SHARDS, FITTED, rounds=1, rng=rng, restarts=1).merged,
    "db.simulate": lambda rng: db.simulate(MIXTURE, 5, rng=rng).data,
    "db.checking.gibbs": lambda rng: db.checking.gibbs(MIXTURE, POINTS, rng=rng, draws=2, burn_in=1),
    "db.checking.hold_out": lambda rng: db.checking.hold_out(POINTS, rng=rng),
    "db.disclosure.exposure": lambda rng: asdict(db.disclosure.exposure(MIXTURE, FITTED[0], SHARDS[0], rng=rng)),
    "db.interop.to_arviz": lambda rng: db.interop.to_arviz(FITTED[0], draws=3, rng=rng).posterior.to_dict(),
    "db.merging.Symmetrized.sample": lambda rng: db.merging.symmetrize(FITTED[0]).sample(2, rng),
    "db.secure.contribution": lambda rng: (
        db.secure.contribution(SHARDS[0], FITTED[1], rng=rng, rules=None)[0].posterior
    ),
    "db.streams.epochs": lambda rng: list(db.streams.epochs(MIXTURE, [SHARDS], rng=rng)),
    "db.streams.merge_batches": lambda rng: db.streams.merge_batches(MIXTURE, [SHARDS], rng=rng),
    "db.streams.sda_bayes": lambda rng: db.streams.sda_bayes(MIXTURE, [SHARDS], rng=rng),
    "db.streams.sequential": lambda rng: list(db.streams.sequential(AUTO, SHARDS, rng=rng)),
}
# Written by whoever extends the library, and called with a generator by those above.
PARTS = {"draw", "with_gaps", "made_up", "example"}
NOT_NEEDED = {"mean"} | {name for name, (model, _) in ZOO.items() if isinstance(model, Regression)}


@cache
def taking_rng():
    """Every public function, and every public method of a class, with an `rng`; functions once, by their first name."""
    unlisted = ("extending", "families", "interop", "models", "privacy", "sklearn", "study")
    rooms = [(f"db.{name}", getattr(db, name)) for name in (*db.__all__, *unlisted)]
    named = [(at, room, name) for at, room in rooms for name in getattr(room, "__all__", ())]
    rooms += [(f"{at}.{name}", getattr(room, name)) for at, room, name in named]
    methods = [
        (f"{at}.{name}", method)
        for at, kind in rooms
        if inspect.isclass(kind) and not issubclass(kind, db.families.Family)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in PARTS
    ]
    functions = {value: at for at, value in reversed(rooms) if inspect.isfunction(value)}
    drawing = [*((at, value) for value, at in functions.items()), *methods]
    return {at: value for at, value in drawing if "rng" in inspect.signature(value).parameters}


def same(first, second):
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return np.array_equal(first, second, equal_nan=True) if isinstance(first, np.ndarray) else first == second


def test_the_list_is_complete():
    fits = {at for at in taking_rng() if at.endswith((".fit", ".fit_site", ".fit_many"))}
    assert taking_rng().keys() - fits == CALLS.keys()
    assert len(fits) > 20


def test_every_signature_says_the_same():
    for name, function in taking_rng().items():
        rng = inspect.signature(function).parameters["rng"]
        assert rng.default in (inspect.Parameter.empty, None), name
        assert rng.annotation == (db.extending.Seed | None if rng.default is None else db.extending.Seed), name


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_seed_is_a_generator_that_was_made_of_it(name):
    call = CALLS[name]
    assert same(call(3), call(np.random.default_rng(3)))
    assert same(call(np.int64(3)), call(3))
    for wrong in (True, 1.5, -1, "3", np.random.RandomState(3)):
        with pytest.raises((TypeError, ValueError), match="rng"):
            call(wrong)
    with pytest.raises(TypeError, match="rng is needed"):
        call(None)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_a_fit_asks_for_it_where_it_depends_on_it(name):
    model, size = ZOO[name]
    data = db.simulate(model, size, rng=1).data
    model = replace(model, ascent=replace(model.ascent, passes=5))
    fit = model.fit(data, rng=3).posterior
    assert model.fit(data, rng=np.random.default_rng(3)).posterior == fit
    (many,), (again,) = (model.fit_many([data], rng=rng) for rng in (3, np.random.default_rng(3)))
    assert many.posterior == again.posterior
    if name in NOT_NEEDED:
        assert model.fit(data).posterior == model.fit(data, rng=4).posterior == fit
    else:
        with pytest.raises(TypeError, match="rng is needed"):
            model.fit(data)
    assert model.fit(data, start=fit).posterior == model.fit(data, start=fit, rng=4).posterior
    with pytest.raises(TypeError, match="rng"):
        model.fit(data, start=fit, rng="3")


def test_a_refinement_needs_none_unless_it_restarts():
    without = db.refine(MIXTURE, SHARDS, FITTED, rounds=2).merged
    assert without == db.refine(MIXTURE, SHARDS, FITTED, rounds=2, rng=5).merged
    assert db.refine(MIXTURE, SHARDS, FITTED, rounds=2, schedule="parallel").converged in (True, False)


def test_a_seed_may_be_larger_than_any_integer_of_numpy():
    first, second = (MIXTURE.fit(POINTS, rng=2**70).posterior for _ in range(2))
    assert first == second


def test_rounds_and_formulas_that_cannot_be_are_refused_by_name():
    with pytest.raises(ValueError, match="rounds must be an integer of at least 0, not -1"):
        db.refine(MIXTURE, SHARDS, FITTED, rounds=-1, rng=0)
    with pytest.raises(db.errors.InvalidStructure, match=r"A formula is a string, .* not int"):
        db.LinearRegression.from_frame({"y": [1.0, 2.0, 3.0], "x": [1.0, 2.0, 4.0]}, 3)
