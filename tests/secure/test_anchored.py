"""Contributions in an anchor's slots: sums of them are merges, and rounds of them are refinement."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.errors import StructureMismatch
from decbayes.merging import pad, product
from decbayes.secure import Share, contribution, in_slots
from decbayes.updates import Update

STEP = 2.0**-20


def mixture(rng, rows=90):
    centres = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0]])
    return centres[rng.integers(3, size=rows)] + rng.normal(size=(rows, 2))


def texts(rng, rows=60):
    themes = np.kron(np.eye(3), np.full(4, 0.25))
    return csr_array(np.array([rng.multinomial(30, themes[k]) for k in rng.integers(3, size=rows)]))


def chains(rng, rows=25):
    centres = np.array([-6.0, 0.0, 6.0])
    moves = [np.cumsum(rng.random(15) < 0.3) % 3 for _ in range(rows)]
    return [{"x": centres[states] + rng.normal(size=15)} for states in moves]


def rows_with_outcome(rng, rows=80):
    pandas = pytest.importorskip("pandas")
    x = rng.normal(size=rows)
    return pandas.DataFrame({"x": x, "y": 2.0 * x + rng.normal(size=rows)})


WORDS = tuple(f"w{number}" for number in range(12))
CASES = {
    "mixture": (db.GaussianMixture(3, 2, variance=1.0, prior_variance=100.0), mixture),
    "unknown variance": (db.GaussianMixture(3, 2, covariance="full"), mixture),
    "yes-no": (db.BernoulliMixture(3, 2), lambda rng, rows=90: (mixture(rng, rows) > 3.0).astype(float)),
    "states": (db.HiddenMarkov(3, columns={"x": db.columns.Gaussian(0.0, 5.0)}), chains),
    "topics": (db.LatentDirichletAllocation(3, WORDS, topic_prior=0.1), texts),
}


@pytest.mark.parametrize("name", CASES)
def test_components_are_in_the_slots_of_the_anchor_whatever_their_labels(name, rng):
    model, draw = CASES[name]
    anchor, data = model.fit(draw(rng), rng=1).posterior, draw(rng)
    fitted = model.fit(data, rng=2).posterior
    moved = in_slots(fitted, anchor)
    (coupled,) = fitted.structure.symmetry
    order = np.array([2, 0, 1])
    families = fitted.structure.families
    parts = {each: families[each].relabelled(fitted.contribution[each], order) for each in coupled.factors}
    relabelled = db.Posterior(fitted.structure, {**fitted.contribution, **parts})
    for factor in fitted.structure.families:
        first, second = (np.asarray(p.natural[factor]) for p in (moved, in_slots(relabelled, anchor)))
        np.testing.assert_allclose(first, second)
        # Nothing is lost on the way: sums over components are the same.
        sums = [np.sort(np.asarray(p.contribution[factor].sum(axis=0)).ravel()) for p in (moved, fitted)]
        assert np.abs(sums[0] - sums[1]).max() < 1e-8 * (1 + np.abs(fitted.natural[factor]).max())
    main = next(each for each in coupled.factors if not families[each].over_components)
    quantity = fitted.quantities(main)[0]
    apart = np.abs(moved.mean(main, quantity)[:, None] - anchor.mean(main, quantity)[None]).sum(axis=-1)
    assert apart.argmin(axis=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["mixture", "unknown variance", "yes-no", "topics"])
def test_a_component_goes_where_its_data_are_most_probable(name, rng):
    """By the marginal likelihood of the component's sums given each slot, where slots have the same evidence."""
    model, draw = CASES[name]
    anchor = model.fit(draw(rng), rng=1).posterior
    fitted = model.fit(draw(rng), rng=2).posterior
    (coupled,) = fitted.structure.symmetry
    factors = [each for each in coupled.factors if not fitted.structure.families[each].over_components]
    gains = np.zeros((3, 3))
    counts = np.asarray(anchor.contribution["topics" if name == "topics" else "weights"].sum(axis=1)).ravel()
    for each in factors:
        family, prior = fitted.structure.families[each], fitted.structure.prior[each]
        even = prior + (counts.mean() / counts)[:, None] * (np.asarray(anchor.natural[each]) - prior)
        for k in range(3):
            for j in range(3):
                with_it, alone = even.copy(), even.copy()
                with_it[j] += np.asarray(fitted.natural[each] - fitted.structure.prior[each])[k]
                gains[k, j] += family.log_partition(with_it) - family.log_partition(alone)
    moved = in_slots(fitted, anchor)
    assert sorted(gains.argmax(axis=1).tolist()) == [0, 1, 2]
    for k, j in enumerate(gains.argmax(axis=1)):
        for each in factors:
            part = np.asarray(moved.natural[each] - fitted.structure.prior[each])[j]
            np.testing.assert_allclose(part, np.asarray(fitted.natural[each] - fitted.structure.prior[each])[k])


def test_what_the_anchor_lacks_goes_into_a_spare_slot(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=400.0)
    anchor = pad(model.fit(np.array([[-9.0]] * 30 + [[9.0]] * 30), rng=0).posterior, 4)
    known = set(np.flatnonzero(~anchor.untouched(anchor.structure.symmetry[0])))
    wide = db.GaussianMixture(3, 1, variance=1.0, prior_variance=400.0)
    sites = [wide.fit(np.repeat([[-9.0], [9.0], [30.0]], 20, axis=0) + rng.normal(size=(60, 1)), rng=s).posterior
             for s in range(3)]  # fmt: skip
    moved = product([in_slots(site, anchor) for site in sites])
    filled = ~moved.untouched(moved.structure.symmetry[0])
    (spare,) = set(np.flatnonzero(filled)) - known
    assert moved.mean("components")[spare, 0] == pytest.approx(30.0, abs=0.5)
    assert sorted(moved.mean("components")[sorted(known), 0].round().tolist()) == [-9.0, 9.0]


def test_two_unlike_novelties_of_a_site_do_not_share_a_spare():
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=400.0)
    anchor = pad(db.GaussianMixture(1, 1, variance=1.0, prior_variance=400.0).fit(np.zeros((9, 1)), rng=0).posterior, 3)
    site = model.fit(np.repeat([[0.0], [25.0], [-25.0]], 10, axis=0), rng=1).posterior
    means = np.sort(in_slots(site, anchor).mean("components")[:, 0])
    np.testing.assert_allclose(means, [-25.0, 0.0, 25.0], atol=0.1)


def test_features_go_into_one_slot_each(rng):
    images = np.eye(3).repeat(3, axis=1) * 5.0
    data = (rng.random((80, 3)) < 0.5) @ images + 0.1 * rng.normal(size=(80, 9))
    model = db.LatentFeatures(3, 9, variance=0.01, prior_variance=25.0)
    anchor = model.fit(data[:40], rng=0).posterior
    moved = in_slots(model.fit(data[40:], rng=5).posterior, anchor)
    np.testing.assert_allclose(moved.mean("features"), anchor.mean("features"), atol=0.3)
    fewer = db.LatentFeatures(2, 9, variance=0.01, prior_variance=25.0).fit(data[:40], rng=0).posterior
    with pytest.raises(StructureMismatch, match="3 features, the anchor 2 slots: pad the anchor"):
        in_slots(moved, fewer)


def test_a_posterior_of_another_model_is_refused():
    anchor = db.models.GaussianMean(variance=1.0).fit(np.ones((3, 1))).posterior
    other = db.models.GaussianMean(variance=2.0).fit(np.ones((3, 1))).posterior
    with pytest.raises(
        StructureMismatch, match=r"does not fit the anchor: the model.s variance is 1\.0 in one and 2\.0 in the other"
    ):
        in_slots(other, anchor)


@pytest.mark.parametrize("name", CASES)
def test_numbers_go_to_steps_and_back_within_half_a_step(name, rng):
    model, draw = CASES[name]
    data = draw(rng)
    posterior = model.fit(data, rng=2).posterior
    share = Share(posterior, 90, 80, 70)
    back = Share.of_steps(posterior.structure, share.steps(STEP), STEP)
    assert (back.rows, back.persons, back.units) == (90, 80, 70)
    for factor in posterior.structure.families:
        np.testing.assert_allclose(back.posterior.natural[factor], posterior.natural[factor], rtol=0, atol=STEP / 2)
    assert Share.of_steps(posterior.structure, back.steps(STEP), STEP) == back


def rounds_of_sums(model, shards, anchor, rounds):
    """What sites would do: each sees the sum and its own part of it, nothing else."""
    merged, own = anchor, [None] * len(shards)
    for _ in range(rounds):
        shares = [contribution(data, merged, part, rng=3, model=model, rules=None)[0]
                  for data, part in zip(shards, own, strict=True)]  # fmt: skip
        steps = [share.steps(STEP) for share in shares]
        own = [Share.of_steps(anchor.structure, each, STEP).posterior for each in steps]
        merged = Share.of_steps(anchor.structure, sum(steps), STEP).posterior
    return merged


@pytest.mark.parametrize("name", CASES)
def test_rounds_of_sums_are_rounds_of_refinement(name, rng):
    model, draw = CASES[name]
    anchor, shards = model.fit(draw(rng, 30), rng=1).posterior, [draw(rng) for _ in range(3)]
    own = [in_slots(model.fit(shard, rng=3).posterior, anchor) for shard in shards]
    for _ in range(2):
        own = Update(model).relearn_all(shards, own, product(own), rng=np.random.default_rng(3))
    expected, sums = product(own), rounds_of_sums(model, shards, anchor, 3)
    for factor in expected.structure.families:
        np.testing.assert_allclose(sums.natural[factor], expected.natural[factor], rtol=1e-3, atol=1e-2)


def test_sums_of_regressions_are_their_merge(rng):
    columns = {"x": db.columns.Gaussian(), "y": db.columns.Gaussian()}
    model = db.LinearRegression("y", columns=columns)
    shards = [rows_with_outcome(rng) for _ in range(3)]
    posteriors = [model.fit(shard).posterior for shard in shards]
    merged = rounds_of_sums(model, shards, db.Posterior.of_prior(posteriors[0].structure), 1)
    expected = db.merge(posteriors)
    for factor in expected.structure.families:
        np.testing.assert_allclose(merged.natural[factor], expected.natural[factor], atol=3 * STEP)
