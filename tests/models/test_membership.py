"""Membership in latent classes: the likelihood of rows, not of assigned classes, whatever classes are called."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

import decbayes as db
from decbayes.errors import InvalidData, InvalidStructure, NotDisclosed

EFFECTS = np.array([[0.0, 0.0, 0.0], [0.2, 0.8, -0.5], [-0.2, -0.6, 0.6]])
YES = np.array([[0.8, 0.8, 0.2, 0.2, 0.8], [0.2, 0.2, 0.8, 0.8, 0.8], [0.2, 0.2, 0.2, 0.2, 0.2]])
ITEMS = ("a", "b", "c", "d", "e")
COLUMNS = {"x": db.columns.Gaussian(0, 1), "g": db.columns.Categorical("f", "m")}
FOUND = db.LatentClasses(components=3, columns=dict.fromkeys(ITEMS, db.columns.YesNo()))


def patients(rng, count):
    x, male = rng.normal(size=count), rng.random(count) < 0.5
    shares = softmax(np.column_stack([np.ones(count), x, male]) @ EFFECTS.T, axis=1)
    kind = (rng.random((count, 1)) > shares.cumsum(axis=1)).sum(axis=1)
    items = (rng.random((count, 5)) < YES[kind]).astype(object)
    items[rng.random(items.shape) < 0.1] = None
    return {"x": x, "g": np.where(male, "m", "f"), **dict(zip(ITEMS, items.T, strict=True))}


def classes(yes=YES, weights=(0.5, 0.3, 0.2), known=1e9):
    """Classes whose items are known exactly."""
    families = FOUND.structure.families
    natural = {
        "weights": families["weights"].natural(alpha=known * np.array(weights)),
        "yes_no": families["yes_no"].natural(alpha=known * yes, beta=known * (1 - yes)),
    }
    return db.Posterior.from_natural(FOUND.structure, natural)


def log_likelihoods(frame, yes=YES):
    """(N, classes), by hand."""
    items = np.array([[np.nan if value is None else float(value) for value in frame[name]] for name in ITEMS]).T
    seen = np.where(np.isnan(items), 0.0, items)
    return seen @ np.log(yes).T + np.where(np.isnan(items), 0.0, 1 - seen) @ np.log(1 - yes).T


def height(beta, frame, variance=10.0, yes=YES):
    """log p(rows | β) + log p(β), classes as they are numbered."""
    design = np.column_stack([np.ones(len(frame["x"])), frame["x"], frame["g"] == "m"]).astype(float)
    f = np.column_stack([np.zeros(len(design)), design @ beta.reshape(2, 3).T])
    rows = logsumexp(f + log_likelihoods(frame, yes), axis=1) - logsumexp(f, axis=1)
    return rows.sum() - 0.5 * beta @ beta / variance


def membership(**settings):
    return db.models.ClassMembership(columns=COLUMNS, **{"classes": classes(), **settings})


def test_laplaces_approximation_is_the_maximum_and_its_curvature(rng):
    frame = patients(rng, 400)
    model = membership(approximation="laplace")
    posterior = model.fit(frame).posterior
    best = minimize(lambda beta: -height(beta, frame), np.zeros(6), options={"gtol": 1e-7})
    mean, covariance = model.outcome.moments(posterior.natural["coefficients"])
    np.testing.assert_allclose(mean, best.x, atol=1e-4)
    step, side = 1e-4, np.eye(6)
    curvature = [
        [
            (height(mean + step * (a + b), frame) - height(mean + step * (a - b), frame)
             - height(mean - step * (a - b), frame) + height(mean - step * (a + b), frame)) / (4 * step**2)
            for a in side
        ]
        for b in side
    ]  # fmt: skip
    np.testing.assert_allclose(np.linalg.inv(covariance), -np.array(curvature), rtol=1e-3, atol=1e-2)


def test_the_gaussian_is_close_to_the_posterior(rng):
    """Mean and deviations by importance weights of draws, which need no formula of ours."""
    frame = patients(rng, 200)
    model = membership()
    posterior = model.fit(frame).posterior
    mean, covariance = model.outcome.moments(posterior.natural["coefficients"])
    root = np.linalg.cholesky(1.3 * covariance)
    noise = rng.standard_t(8, size=(800, 6))
    draws = mean + noise @ root.T
    logs = np.array([height(beta, frame) for beta in draws]) + 4.5 * np.log1p(noise**2 / 8).sum(axis=1)
    weights = softmax(logs)
    exact = weights @ draws
    deviation = np.sqrt(weights @ (draws - exact) ** 2)
    assert np.abs((mean - exact) / deviation).max() < 0.25
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), deviation, rtol=0.15)


@pytest.mark.slow
def test_two_steps_of_stepmix_find_the_same(rng):
    pd, stepmix = pytest.importorskip("pandas"), pytest.importorskip("stepmix")
    frame = patients(rng, 300)
    items = pd.DataFrame({name: pd.array(frame[name]).astype(float) for name in ITEMS})
    design = pd.DataFrame({"x": frame["x"], "g": (frame["g"] == "m").astype(float)})
    theirs = stepmix.StepMix(
        3, n_steps=2, measurement="binary_nan", structural="covariate", random_state=0, n_init=1, verbose=0,
        progress_bar=0, structural_params={"method": "newton-raphson", "max_iter": 50, "intercept": True},
    )  # fmt: skip
    theirs.fit(items, design)
    beta = theirs.get_parameters()["structural"]["beta"]
    yes = np.asarray(theirs.get_parameters()["measurement"]["pis"])
    yes = yes if yes.shape == (3, 5) else yes.T
    model = membership(classes=classes(yes), approximation="laplace", prior_variance=1e6, reference="class 0")
    mean, _ = model.outcome.moments(model.fit(frame).posterior.natural["coefficients"])
    np.testing.assert_allclose(mean.reshape(2, 3), (beta - beta[0])[1:], atol=0.02)


def test_coefficients_follow_their_classes_whatever_these_are_called(rng):
    frame, order = patients(rng, 300), [2, 0, 1]
    first = membership(reference="class 0")
    other = membership(classes=classes(YES[order], np.array([0.5, 0.3, 0.2])[order]))
    assert (membership().reference, other.reference) == ("class 0", "class 1"), "the largest class"
    one, two = (
        {row["term"]: row["mean"] for row in model.coefficients(model.fit(frame).posterior)} for model in (first, other)
    )
    for term, mean in one.items():
        was, rest = term.split(":", 1)
        now = f"class {order.index(int(was[-1]))}:{rest}"
        assert two[now] == pytest.approx(mean, abs=1e-4)


def test_sites_reach_one_fit_of_all_rows(rng):
    sites = [patients(rng, 40) for _ in range(2)]
    whole = {name: np.concatenate([site[name] for site in sites]) for name in sites[0]}
    model = membership()
    one = model.fit(whole).posterior
    fits = [model.fit_site(site).posterior for site in sites]
    refined = db.refine(model, sites, fits, rounds=5, rng=rng).merged
    (mean, covariance), (target, _), (first, _) = (
        model.outcome.moments(each.natural["coefficients"]) for each in (one, refined, db.merge(fits))
    )
    deviation = np.sqrt(np.diag(covariance))
    assert np.abs((target - mean) / deviation).max() < 0.02
    assert np.abs((first - mean) / deviation).max() < 0.6


def test_rows_without_items_say_nothing_and_doubtful_ones_less(rng):
    frame = patients(rng, 200)
    empty = {**patients(rng, 50), **{name: np.full(50, None) for name in ITEMS}}
    both = {name: np.concatenate([frame[name], empty[name]]) for name in frame}
    model = membership()
    alone, more = (model.fit(each).posterior for each in (frame, both))
    for name, part in alone.natural.items():
        np.testing.assert_allclose(more.natural[name], part, rtol=1e-6, atol=1e-6)
    blurred = membership(classes=classes(0.5 + 0.5 * (YES - 0.5)))
    wide = blurred.outcome.moments(blurred.fit(frame).posterior.natural["coefficients"])[1]
    narrow = model.outcome.moments(alone.natural["coefficients"])[1]
    assert (np.diag(wide) > 1.5 * np.diag(narrow)).all()


def test_everything_comes_back_from_a_file(rng, tmp_path):
    frame = patients(rng, 150)
    named = db.merging.name(classes(), {1: "frail"})
    model = membership(classes=named, reference="frail")
    posterior = model.fit_site(frame).posterior
    db.save(posterior, tmp_path / "a.posterior", rules=None)
    again = db.load(tmp_path / "a.posterior")
    back = db.model_for(again.structure)
    assert back.structure == model.structure
    assert (back.formula, back.reference) == ("class ~ x + g", "frail")
    np.testing.assert_array_equal(back.log_predictive(again, frame), model.log_predictive(posterior, frame))
    shares = back.probabilities(again, {"x": [0.0, 2.0], "g": ["f", "m"]})
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert back.predicted_levels == ("class 0", "frail", "class 2")
    assert [row["term"].split(":")[0] for row in back.ratios(again)] == ["class 0", "class 0", "class 2", "class 2"]


def test_formulas_need_no_left_side_and_rows_are_made_up(rng):
    frame = patients(rng, 300)
    first = db.models.ClassMembership.from_frame(frame, "~ x", classes=classes())
    second = db.models.ClassMembership.from_frame(frame, "class ~ x", classes=classes())
    assert first.structure == second.structure
    assert first.terms == ("x",)
    everything = db.models.ClassMembership.from_frame(frame, classes=classes())
    assert everything.terms == ("x", "g")
    made = db.simulate(first, 400, rng=rng)
    fitted = first.fit(made.data).posterior
    mean, covariance = first.outcome.moments(fitted.natural["coefficients"])
    truth = made.parameters["coefficients"][0]
    assert np.abs((mean - truth) / np.sqrt(np.diag(covariance))).max() < 4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": {**COLUMNS, "a": "yes/no"}}, "cannot explain them"),
        ({"reference": "class 7"}, "no class 'class 7'"),
        ({"classes": None}, "Give the merged posterior"),
        ({"classes": {"names": 3}}, "no classes"),
        ({"varying": ("intercept",)}, "the same at all sites"),
        ({"terms": ("age",)}, "age"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, said):
    with pytest.raises(InvalidStructure, match=said):
        db.models.ClassMembership(**{"columns": COLUMNS, "classes": classes(), **settings})


def test_other_posteriors_and_left_sides_are_refused(rng):
    frame = patients(rng, 30)
    line = db.GaussianMixture(2, 1, variance=1.0)
    with pytest.raises(InvalidStructure, match="posterior of LatentClasses is needed"):
        membership(classes=db.Posterior.of_prior(line.structure))
    with pytest.raises(InvalidStructure, match="'a ~ …'"):
        db.models.ClassMembership.from_frame(frame, "a ~ x", classes=classes())
    with pytest.raises(InvalidStructure, match="Classes were found by 'a'"):
        db.models.ClassMembership.from_frame(frame, "~ x + a", classes=classes())
    with pytest.raises(InvalidStructure, match="The target is the class"):
        db.models.ClassMembership.from_frame(frame, "~ x", target="a", classes=classes())
    with pytest.raises(InvalidData, match="missing values"):
        membership().fit({**frame, "x": [None] * 30})


def test_classes_that_few_persons_have_do_not_leave_a_site(rng):
    frame = patients(rng, 60)
    rules = db.disclosure.Rules()
    prepared = db.disclosure.prepared(membership(), frame, rules)
    assert prepared.model.fit_site(prepared.data).posterior.structure == membership().structure
    clear = classes(np.array([[0.999] * 5, [0.001] * 5, [0.5] * 5]), (0.4, 0.4, 0.2))
    few = {**frame, **{name: np.array([True] * 57 + [False] * 3, dtype=object) for name in ITEMS}}
    with pytest.raises(NotDisclosed, match="All but fewer than 5 persons here belong to the same class"):
        db.disclosure.prepared(membership(classes=clear), few, rules)
