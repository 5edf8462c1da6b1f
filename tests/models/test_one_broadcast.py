"""First broadcasts: what the anchor and recentring do, beside direct computations over rows."""

from contextlib import nullcontext

import numpy as np
import pytest

import decbayes as db
from decbayes.cli.shared.unfinished import Unfinished, fit_or_resume
from decbayes.merging.robust.robust import counted_of
from decbayes.models.core.ascent import FitInterrupted
from decbayes.models.regressions.messages.doubts import of_values
from decbayes.models.regressions.messages.first_broadcasts import FirstBroadcasts
from decbayes.models.regressions.messages.one_broadcast import Quadratic, anchor_of, marked

COEFFICIENTS = "coefficients"


def counts(rng, size=80, shift=0.0, extra=0.0):
    x, z = rng.normal(shift, 1.0, size), rng.normal(size=size)
    return {"x": x, "z": z, "y": rng.poisson(np.exp(0.3 + 0.5 * x - 0.4 * z + extra * rng.normal(size=size)))}


def model_of_counts(**settings):
    return db.PoissonRegression("y", columns={"y": "count", "x": "real", "z": "real"}, **settings)


def together(frames):
    return {name: np.concatenate([frame[name] for frame in frames]) for name in frames[0]}


def distance(model, posterior, reference):
    mean, deviation, _, _ = model.outcome.interval(reference.natural[COEFFICIENTS], 0.9)
    return np.abs((model.outcome.interval(posterior.natural[COEFFICIENTS], 0.9)[0] - mean) / deviation).max()


def test_a_first_broadcast_is_the_likelihood_at_a_fit_with_the_anchor_which_is_taken_out(rng):
    frame, model = counts(rng), model_of_counts()
    sent = model.fit_site(frame).posterior
    anchored = model_of_counts(prior_variance=0.3)
    believed = anchored.fit(frame).posterior
    added = np.asarray(sent.contribution[COEFFICIENTS])
    np.testing.assert_allclose(
        added, believed.natural[COEFFICIENTS] - anchored.structure.prior[COEFFICIENTS], atol=1e-3, rtol=1e-4
    )
    np.testing.assert_allclose(
        model.site_beliefs(sent)[0].natural[COEFFICIENTS], believed.natural[COEFFICIENTS], rtol=1e-3
    )


@pytest.mark.parametrize("extra", [0.0, 1.0])
def test_recentred_counts_are_closer_to_one_fit(rng, extra):
    frames = [counts(rng, shift=shift, extra=extra) for shift in (-1.5, -0.5, 0.5, 1.5)]
    model = model_of_counts()
    reference = model.fit(together(frames)).posterior
    sent = [model.fit_site(frame).posterior for frame in frames]
    with pytest.warns(db.errors.MergeWarning) if extra else nullcontext():
        moved = db.merge(sent)
    plain = db.merging.product(sent)
    assert distance(model, moved, reference) < 0.6 * distance(model, plain, reference)
    assert distance(model, moved, reference) < 1.0


def sorted_outcomes(rng, kind):
    """Sites of rows sorted by their outcome, most of them with a single one, and a regression of it."""
    x = rng.normal(size=(600, 2))
    f = x @ [1.0, -0.6] - 0.3
    columns = {"a": db.columns.Gaussian(0, 1), "b": db.columns.Gaussian(0, 1)}
    if kind == "logistic":
        y, model = rng.random(600) < 1 / (1 + np.exp(-f)), db.LogisticRegression("y", columns=columns | {"y": "yes/no"})
    elif kind in ("continuation", "cumulative"):
        y = np.digitize(f + rng.logistic(size=600), [-1.5, 0.0, 1.5])
        model = db.OrderedRegression("y", columns=columns | {"y": db.columns.Categorical(4)}, link=kind)
    elif kind == "multinomial":
        y = (np.column_stack([0 * f, f, 0.5 - f]) + rng.gumbel(size=(600, 3))).argmax(axis=1)
        model = db.MultinomialRegression("y", columns=columns | {"y": db.columns.Categorical(*"stu")})
    else:
        y = rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, size=600))
        model = db.NegativeBinomialRegression("y", columns=columns | {"y": "count"}, dispersion=2.0)
    points = np.column_stack([x, y])
    return model, np.array_split(points[np.argsort(y, kind="stable")], 6)


@pytest.mark.filterwarnings("ignore::decbayes.errors.MergeWarning")
@pytest.mark.parametrize(
    ("kind", "closer"),
    [
        ("logistic", 0.2),
        ("continuation", 0.2),
        ("cumulative", 0.4),
        ("negative binomial", 0.5),
        ("multinomial", 0.2),
    ],
)
def test_sites_sorted_by_their_outcome_come_close_to_one_fit_where_their_sum_does_not(kind, closer):
    """Rows are normal, as whoever merges takes them to be. The share is of the distance of the sum; five seeds."""
    moved, plain = [], []
    for seed in range(5):
        model, sites = sorted_outcomes(np.random.default_rng(seed), kind)
        reference = model.fit(np.concatenate(sites)).posterior
        sent = [model.fit_site(site).posterior for site in sites]
        moved.append(distance(model, db.merge(sent), reference))
        plain.append(distance(model, db.merging.product(sent), reference))
    assert np.median(plain) > 1.0
    assert np.median(moved) < closer * np.median(plain)


def test_a_faulty_site_does_not_move_the_others_in_a_robust_merge(rng):
    """It would move them by nine deviations, to where all of them together are."""
    frames = [counts(rng, size=100) for _ in range(7)]
    model = model_of_counts()
    reference = model.fit(together(frames)).posterior
    sent = [model.fit_site(frame).posterior for frame in frames]
    odd = np.array(model.fit_site(counts(rng, size=100)).posterior.contribution[COEFFICIENTS])
    odd[0, :3] += [300.0, -300.0, 300.0]
    faulty = db.Posterior(model.structure, {COEFFICIENTS: odd})
    assert distance(model, db.merging.robust_merge([*sent, faulty]).posterior, reference) < 1.0


def test_recentred_contributions_add_up_and_do_not_depend_on_the_order_or_on_the_basis(rng):
    frames = [counts(rng, shift=shift) for shift in (-1.0, 1.0)]
    model = model_of_counts()
    sent = [model.fit_site(frame).posterior for frame in frames]
    moved, reversed_order = model.recentred(sent), model.recentred(sent[::-1])[::-1]
    for one, other in zip(moved, reversed_order, strict=True):
        np.testing.assert_allclose(one.contribution[COEFFICIENTS], other.contribution[COEFFICIENTS], rtol=1e-6)
    assert db.merge(sent) == db.merge(sent[::-1])
    again = db.merge(moved)
    assert db.merge(model.recentred(moved)) == again  # no longer first broadcasts: left as they are


def test_refined_posteriors_stay_as_they_are(rng):
    frames = [counts(rng) for _ in range(3)]
    model = model_of_counts()
    refined = db.refine(model, frames, [model.fit_site(frame).posterior for frame in frames], rounds=2).posteriors
    assert [*model.recentred(refined)] == [*refined]
    assert model.forecast(refined) is None
    assert model.forecast([model.fit(frame).posterior for frame in frames]) is None


@pytest.mark.parametrize("model", [
    db.NegativeBinomialRegression("y", columns={"y": "count", "x": "real", "t": "real"}, terms=("x",), offset="t"),
    db.LogisticRegression("y", columns={"y": "yes/no", "x": "real"}, intercept=False),
    db.OrderedRegression(
        "y", columns={"y": db.columns.Categorical(3), "x": "real"}, terms=("x", "x:threshold"), link="cumulative"
    ),
    db.MultinomialRegression("y", columns={"y": db.columns.Categorical(*"stu"), "x": "real"}, intercept=False),
])  # fmt: skip
def test_messages_that_do_not_tell_where_rows_are_are_added_as_they_are(model):
    shards = np.array_split(db.simulate(model, 60, rng=2).data, 2)
    sent = [model.fit_site(shard).posterior for shard in shards]
    assert [*model.recentred(sent)] == sent
    assert model.forecast(sent) is None


def test_baselines_of_survival_take_the_place_of_the_intercept(rng):
    def trial(size):
        old = rng.random(size) < 0.5
        died, lost = rng.exponential(4.0 * np.exp(-0.7 * old)), rng.uniform(1, 6, size)
        return {"years": np.minimum(died, lost), "dead": died < lost, "old": old}

    frames = [trial(60) for _ in range(5)]
    model = db.SurvivalRegression.from_frame(frames[0], "Surv(years, dead) ~ old", cuts=(1.0, 2.0, 3.0), rate=0.3)
    reference = model.fit(together(frames)).posterior
    sent = [model.fit_site(frame).posterior for frame in frames]
    moved = model.recentred(sent)
    assert moved != sent
    assert distance(model, db.merge(moved), reference) < 0.3


def yes_or_no(rng, size, centre):
    x = rng.normal(size=size)
    return {"x": x, "y": rng.random(size) < 1 / (1 + np.exp(-(centre + x)))}


def test_sites_with_one_outcome_hurt_less_and_say_so(rng):
    frames = [yes_or_no(rng, 60, 0.0) for _ in range(5)] + [yes_or_no(rng, 60, 20.0) for _ in range(2)]
    model = db.LogisticRegression("y", columns={"y": "yes/no", "x": "real"})
    reference = model.fit(together(frames)).posterior
    sent = [model.fit_site(frame).posterior for frame in frames]
    assert [remark.kind for remark in sent[-1].remarks] == ["single outcome"]
    assert not sent[0].remarks
    with pytest.warns(db.errors.MergeWarning, match="one round first"):
        closer, before = db.merge(sent), db.merge([model.fit(frame).posterior for frame in frames])
    assert distance(model, closer, reference) < 0.7 * distance(model, before, reference)


@pytest.mark.parametrize(
    ("frame", "kinds"),
    [
        ({"x": np.r_[np.zeros(9), np.ones(9)], "y": np.r_[np.zeros(9), np.ones(9)] > 0}, ["separated outcomes"]),
        ({"x": np.r_[np.zeros(9), np.ones(9)], "y": np.arange(18) > 12}, ["separated outcomes"]),
        ({"x": np.tile([0.0, 1.0], 9), "y": np.arange(18) < 5}, ["few events"]),
        ({"x": np.tile([0.0, 1.0], 30), "y": np.arange(60) % 3 < 1}, []),
    ],
)
def test_fits_to_broadcast_say_where_a_round_is_needed(frame, kinds):
    """In the second case no row with a zero has the outcome, but some with a one do not have it either."""
    model = db.LogisticRegression("y", columns={"y": "yes/no", "x": "real"})
    assert [remark.kind for remark in model.fit_site(frame).posterior.remarks] == kinds


def test_a_category_that_a_site_lacks_is_noted():
    columns = {"y": "yes/no", "g": db.columns.Categorical("a", "b", "c")}
    frame = {"g": ["a", "b"] * 30, "y": np.arange(60) % 3 < 1}
    (remark,) = db.LogisticRegression("y", columns=columns).fit_site(frame).posterior.remarks
    assert "g=c" in remark.what
    assert remark.severity == "note"


def test_overdispersed_counts_are_said_and_poisson_counts_are_not():
    """The test has a size of 1 in 1,000; twelve seeds of each."""
    model, said = model_of_counts(), {0.0: 0, 0.8: 0}
    for seed in range(12):
        for extra in said:
            frame = counts(np.random.default_rng(seed), 200, extra=extra)
            said[extra] += any(remark.kind == "overdispersion" for remark in model.fit(frame).posterior.remarks)
    assert said == {0.0: 0, 0.8: 12}


def test_rare_counts_are_said_to_vary_more_than_chance_if_they_do():
    """Counts of mean 0.3, at 800 rows: Poisson ones, and ones with twice their variance."""
    model, said = db.PoissonRegression("y", columns={"y": "count", "x": "real"}), {1.0: 0, 2.0: 0}
    for seed in range(12):
        for dispersion in said:
            draws = np.random.default_rng(seed)
            x = draws.normal(size=800)
            mean = 0.3 * np.exp(0.3 * x)
            rates = mean if dispersion == 1.0 else draws.gamma(mean / (dispersion - 1.0), dispersion - 1.0)
            fitted = model.fit({"x": x, "y": draws.poisson(rates)}).posterior
            said[dispersion] += any(remark.kind == "overdispersion" for remark in fitted.remarks)
    assert said == {1.0: 0, 2.0: 12}


def test_the_forecast_has_the_size_of_the_error(rng):
    frames = [counts(rng, 60, shift=shift) for shift in (-2.0, 0.0, 2.0)]
    model = model_of_counts()
    sent = [model.fit_site(frame).posterior for frame in frames]
    error = distance(model, db.merging.product(sent), model.fit(together(frames)).posterior)
    assert 0.2 * error < model.forecast(sent).max() < 5.0 * error


def test_exact_models_and_models_of_sites_that_differ_have_no_anchor(rng):
    frame = counts(rng)
    linear = db.LinearRegression("z", columns={"z": "real", "x": "real"})
    assert linear.fit_site(frame).posterior == linear.fit(frame).posterior
    assert linear.forecast([linear.fit(frame).posterior] * 2) is None
    varying = model_of_counts(varying=("intercept",))
    assert varying.fit_site(frame).posterior == varying.fit(frame).posterior


@pytest.mark.parametrize("strength", [0.5, 5.0])
def test_sites_expand_weak_and_strong_effects_where_these_are(strength):
    """A prior of variance 1 around 0 would move a merge of strong effects by deviations."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(600, 2))
    ill = rng.random(600) < 1 / (1 + np.exp(-strength * (x[:, 0] - 0.5 * x[:, 1])))
    model = db.LogisticRegression("ill", columns={"ill": "yes/no", "a": "real", "b": "real"})
    sites = [{"ill": ill[part], "a": x[part, 0], "b": x[part, 1]} for part in np.array_split(np.arange(600), 6)]
    one = model.fit({"ill": ill, "a": x[:, 0], "b": x[:, 1]}).posterior
    merged = db.merge([model.fit_site(site).posterior for site in sites])
    apart = (merged.mean(COEFFICIENTS) - one.mean(COEFFICIENTS)) / one.deviation(COEFFICIENTS)
    assert np.abs(apart).max() < 0.5


def test_rare_outcomes_keep_their_level():
    rng = np.random.default_rng(6)
    x = rng.normal(size=3000)
    ill = rng.random(3000) < 1 / (1 + np.exp(3.0 - 0.8 * x))
    model = db.LogisticRegression("ill", columns={"ill": "yes/no", "a": "real"})
    one = model.fit({"ill": ill, "a": x}).posterior
    parts = np.array_split(np.arange(3000), 10)
    merged = db.merge([model.fit_site({"ill": ill[part], "a": x[part]}).posterior for part in parts])
    apart = (merged.mean(COEFFICIENTS) - one.mean(COEFFICIENTS)) / one.deviation(COEFFICIENTS)
    assert np.abs(apart).max() < 0.5


@pytest.mark.filterwarnings("ignore::decbayes.errors.MergeWarning")
@pytest.mark.parametrize("slopes", [(3.0, -2.0), (0.8, 0.3)])
def test_sites_with_one_outcome_move_neither_weak_nor_strong_effects_far(slopes):
    """A prior of variance 0.3 around 0 would move strong ones by 2.5 deviations."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    ill = rng.random(400) < 1 / (1 + np.exp(-x @ np.array(slopes)))
    model = db.LogisticRegression("ill", columns={"ill": "yes/no", "a": "real", "b": "real"})
    parts = np.array_split(np.argsort(ill, kind="stable"), 10)
    one = model.fit({"ill": ill, "a": x[:, 0], "b": x[:, 1]}).posterior
    merged = db.merge([model.fit_site({"ill": ill[p], "a": x[p, 0], "b": x[p, 1]}).posterior for p in parts])
    apart = (merged.mean(COEFFICIENTS) - one.mean(COEFFICIENTS)) / one.deviation(COEFFICIENTS)
    assert np.abs(apart).max() < 2.0


def some_outcomes():
    """Few rows of all outcomes, for which several anchors are tried."""
    frame = {"ill": ["no", "some", "very", "no"], "a": np.array([-1.0, 0.5, 0.2, 1.0])}
    columns = {"ill": db.columns.Categorical("no", "some", "very"), "a": "real"}
    return frame, db.MultinomialRegression("ill", columns=columns, reference="no")


def test_a_site_reports_one_start_per_anchor_and_numbers_its_passes():
    frame, model = some_outcomes()
    passes = []
    model.fit_site(frame, progress=passes.append)
    anchors = FirstBroadcasts(model).anchors[1:]
    assert len(anchors) > 1
    assert list(dict.fromkeys(reached.restart for reached in passes)) == list(range(len(anchors)))
    firsts = [place for place, reached in enumerate(passes) if reached.number == 1]
    assert [passes[place].restart for place in firsts] == list(range(len(anchors)))


def test_an_interrupted_first_fit_contributes_its_rows_alone():
    """Two rows have a precision of rank two: an anchor that was left in would give it three."""

    def impatient(reached):
        if reached.number == 2:
            raise KeyboardInterrupt

    frame = {"ill": [True, False], "a": [-1.0, 0.5], "b": [0.3, 0.4]}
    model = db.LogisticRegression("ill", columns={"ill": "yes/no", "a": "real", "b": "real"})
    with pytest.raises(FitInterrupted) as interrupted:
        model.fit_site(frame, progress=impatient)
    message = Quadratic.of(np.asarray(interrupted.value.fit.posterior.contribution[COEFFICIENTS]))
    assert np.linalg.matrix_rank(message.precision, tol=1e-9) == 2


def test_a_fit_that_was_interrupted_ends_with_the_same_broadcast(rng):
    model = db.LogisticRegression("y", columns={"y": "yes/no", "x": "real"})
    frame = {"x": rng.normal(size=40), "y": rng.random(40) < 0.3}
    left = Unfinished(model.fit(frame).posterior, 3, 0)
    resumed = fit_or_resume(model, frame, left, 0, left.recorder(lambda _: None))
    assert resumed.posterior == model.fit_site(frame).posterior != model.fit(frame).posterior


@pytest.mark.parametrize("link", ["continuation", "cumulative"])
def test_sites_with_few_levels_expand_around_the_agreed_centre_and_say_so(link):
    rng = np.random.default_rng(2)
    x = rng.normal(size=300)
    level = np.digitize(x + rng.logistic(size=300), [-1.5, -0.5, 0.5, 1.5])
    order = np.argsort(level, kind="stable")
    columns = {"y": db.columns.Categorical(*"abcde"), "x": "real"}
    model = db.OrderedRegression("y", columns=columns, link=link, levels=[*"abcde"])
    rows = model.points({"y": np.array([*"abcde"])[level[order]], "x": x[order]})
    shards = np.split(rows, 10)[:4]
    sent = [model.fit_site(shard).posterior for shard in shards]
    present = [len(np.unique(shard[:, 0])) for shard in shards]
    kinds = [{remark.kind for remark in posterior.remarks} for posterior in sent]
    assert {1, 2} <= set(present)
    for count, said in zip(present, kinds, strict=True):
        assert ("single outcome" in said, "few levels" in said) == (count == 1, 1 < count <= 3)
    for posterior, shard in zip(sent, shards, strict=True):
        again = model.contributed(model.site_beliefs(posterior)[0], shard)  # with the first anchor, the narrow one
        np.testing.assert_allclose(again.natural[COEFFICIENTS], posterior.natural[COEFFICIENTS], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda age: age, ""),
        (lambda age: age / 7.5, "other values"),  # mmHg and kPa
        (lambda age: np.where(np.arange(len(age)) < 9, 999.0, age), "missing-value codes"),
        (lambda age: age * 0.2 - 50.0, ""),  # children: narrow, and two agreed deviations away
        (lambda age: age[:4] / 7.5, ""),
    ],
)
def test_values_unlike_the_agreed_ones_are_said_at_the_site(change, said):
    rng = np.random.default_rng(2)
    age = change(rng.normal(130.0, 15.0, 100))
    for kind, target in ((db.LinearRegression, rng.normal(size=len(age))), (db.PoissonRegression, np.arange(len(age)))):
        held = {db.LinearRegression: "real", db.PoissonRegression: "count"}[kind]
        model = kind("y", columns={"y": held, "age": db.columns.Gaussian(130.0, 15.0 if said else 60.0)})
        remarks = model.fit_site({"age": age, "y": target}).posterior.remarks
        kinds = {remark.kind for remark in remarks}
        assert kinds & {"other values", "missing-value codes"} == {said} - {""}


@pytest.mark.parametrize("code", [999.0, -9.0, -1.0])
def test_codes_for_missing_values_are_said_in_the_file_of_the_first_site_too(code, rng):
    """Its own values, codes among them, are the agreed centre and scale."""
    age = np.where(np.arange(100) < 6, code, rng.normal(130.0, 15.0, 100).round())
    frame = {"age": age, "y": rng.normal(size=100)}
    with pytest.warns(UserWarning, match="code"):
        models = db.LinearRegression.from_frame(frame, "y ~ age"), db.LatentClasses.from_frame(frame, components=2)
    for model in models:
        remarks = model.fit_site(frame, rng=0).posterior.remarks
        (said,) = [remark.what for remark in remarks if remark.kind == "missing-value codes"]
        assert said.startswith("Some values of age look like codes")


def test_codes_among_the_counts_of_an_outcome_are_said_in_the_file(rng):
    x, visits = rng.normal(size=100), np.where(np.arange(100) < 6, 99, rng.poisson(2.0, 100))
    model = db.PoissonRegression("visits", columns={"x": "real", "visits": "count"})
    for target, said in ((visits, True), (rng.poisson(2.0, 100), False)):
        remarks = model.fit_site({"x": x, "visits": target}).posterior.remarks
        assert ("missing-value codes" in {remark.kind for remark in remarks}) == said


@pytest.mark.parametrize(
    ("agreed", "centre", "scale", "said"),
    [
        (10, 100, 10, True), (10, 1, 0.1, True), (-10, -100, 10, True), (-10, 100, 10, False), (0, 100, 10, False),
        (10, 100, 5.9, False), (10, 100, 6.1, True), (10, 1.5, 0.17, False), (10, 1.5, 0.16, True),
        (10, 6.5, 0.1, False), (10, 124, 6.1, False), (10, 120, 6.1, True), (10, 31, 6.1, True), (10, 28.2, 6.1, False),
        (10, 35.5, 7.2, False),
    ],
)  # fmt: skip
def test_another_unit_is_a_factor_of_centre_and_scale(agreed, centre, scale, said):
    """Honest sites with other patients have other centres, but seldom by the factor by which their scale is another."""
    values = centre + scale * np.tile([-1.0, 1.0], 10)[:, None]
    assert bool([*of_values({"x": db.columns.Gaussian(agreed, 1.0)}, values)]) is said


def test_counts_without_an_event_are_said_to_have_a_single_outcome():
    model = db.PoissonRegression("y", columns={"y": "count", "x": "real"})
    remarks = model.fit_site({"x": [0.0, 1.0, 2.0], "y": [0, 0, 0]}).posterior.remarks
    assert [remark.kind for remark in remarks] == ["single outcome"]


@pytest.mark.parametrize("approximation", ["variational", "laplace"])
def test_messages_are_read_by_the_approximation_that_made_them(approximation):
    """A merge knows only the structure, which does not say it: messages do."""
    far = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(6, 25, 2))
        y = rng.random((6, 25)) < 1 / (1 + np.exp(0.5 - x @ [0.8, 1.0]))
        model = db.LogisticRegression(
            "y", columns={"a": "real", "b": "real", "y": "yes/no"}, approximation=approximation
        )
        sites = [np.column_stack(site) for site in zip(*x.transpose(2, 0, 1), y, strict=True)]
        sent = [model.fit_site(site).posterior for site in sites]
        mean, deviation, _, _ = model.outcome.interval(
            model.fit(np.concatenate(sites)).posterior.natural[COEFFICIENTS], 0.9
        )
        both = [db.merging.product(sent), db.merge(sent)]
        far.append([np.abs((each.mean(COEFFICIENTS).ravel() - mean) / deviation).max() for each in both])
    plain, merged = np.median(far, axis=0)
    assert merged < 0.35 * plain


@pytest.mark.parametrize(
    "formula", ["Surv(t, ill) ~ arm + u", "ill ~ arm + u + arm:u", "count ~ u + arm", "arm ~ w + u"]
)
def test_sites_say_which_categories_they_lack_also_if_others_are_compared_with_it(formula, rng):
    kind = {"Surv": db.SurvivalRegression, "ill ": db.LogisticRegression, "coun": db.PoissonRegression}
    size, which = 120, ("w" if formula.startswith("arm") else "arm")
    frame = {"u": rng.normal(size=size), "ill": rng.random(size) < 0.4, "t": rng.uniform(1, 2, size)}
    frame |= {"count": rng.poisson(2.0, size), **{name: rng.choice([*"abc"], size) for name in ("arm", "w")}}
    model = kind.get(formula[:4], db.MultinomialRegression).from_frame(frame, formula)

    def said(rows):
        remarks = model.fit_site({name: values[rows] for name, values in frame.items()}).posterior.remarks
        return [remark.what for remark in remarks if remark.kind == "missing category"]

    assert said(frame[which] != "d") == []
    assert said(frame[which] != "a") == [f"No row is in the reference category of {which}."]
    (without,) = said(frame[which] != "b")
    assert f"{which}=b" in without


def test_first_broadcasts_are_marked_as_in_files_that_have_been_sent(rng):
    """Multiples of 2⁻¹⁴ and (401 + anchor) / 1024 of one: later versions read the same mark."""
    shift = (np.array([7, -3, 100]) + (401 + 5) / 1024) * 2.0**-14
    assert anchor_of(Quadratic(shift, np.eye(3))) == 5
    given = np.append(rng.normal(size=3), 0.0)
    sent = marked(Quadratic(given, np.eye(4)), 5).shift
    np.testing.assert_allclose(sent * 2.0**14 % 1.0, [406 / 1024] * 3 + [0.0])
    np.testing.assert_allclose(sent, given, atol=2.0**-14)


def test_a_refit_still_says_that_counts_vary(rng):
    """Doubts about the data and the model outlive rounds; those about one broadcast do not."""
    model = model_of_counts()
    frames = [counts(rng, 200, extra=0.8) for _ in range(3)]
    sent = [model.fit_site(frame).posterior for frame in frames]
    with pytest.warns(db.errors.MergeWarning):
        refined = db.refine(model, frames, sent, rounds=1, rng=rng)
    kinds = [{remark.kind for remark in posterior.remarks} for posterior in refined.posteriors]
    assert all("overdispersion" in site for site in kinds)
    assert "overdispersion" in {remark.kind for remark in refined.merged.remarks}


def test_after_a_round_a_single_outcome_is_a_note_without_advice_to_take_one(rng):
    frames = [yes_or_no(rng, 60, 0.0) for _ in range(3)] + [yes_or_no(rng, 60, 20.0)]
    model = db.LogisticRegression("y", columns={"y": "yes/no", "x": "real"})
    refined = db.refine(model, frames, [model.fit_site(frame).posterior for frame in frames], rounds=1, rng=rng)
    (remark,) = refined.posteriors[-1].remarks
    assert (remark.kind, remark.severity, remark.advice) == ("single outcome", "note", "")


def test_a_merge_that_knows_its_distance_repeats_no_guess_about_it(rng):
    frames = [yes_or_no(rng, 200, 0.0) for _ in range(4)] + [yes_or_no(rng, 20, 20.0)]
    model = db.LogisticRegression("y", columns={"y": "yes/no", "x": "real"})
    sent = [model.fit_site(frame).posterior for frame in frames]
    said = {remark.kind: str(remark) for remark in db.merging.remarks(db.align(sent))}
    assert "probably within" in said["one broadcast"]
    assert "One broadcast is rough" not in said["single outcome"]
    assert "One broadcast is rough" in str(sent[-1].remarks[0])


@pytest.mark.parametrize(("weak", "said"), [(False, "one fit of the rows that count"), (True, "")])
def test_a_robust_merge_speaks_of_the_rows_that_count_and_advises_no_round(rng, weak, said, monkeypatch):
    frames = [counts(rng, 150) for _ in range(6)]
    model = model_of_counts()
    odd = {**frames[5], "y": rng.poisson(np.exp(0.3 - 1.5 * frames[5]["x"]))}
    sent = [model.fit_site(frame).posterior for frame in [*frames[:5], odd]]
    if weak:
        monkeypatch.setattr("decbayes.merging.robust.robust.counted_of", lambda counts, given: "in part")
    merge = db.merging.robust_merge(sent)
    assert merge.sites[5].flagged
    (distance_said,) = [str(one) for one in merge.remarks() if one.kind == "one broadcast"] or [""]
    assert said in distance_said
    assert bool(distance_said) is not weak
    assert "round" not in distance_said
    (site,) = [remark for remark in merge.remarks() if remark.kind == "site hardly counts"]
    assert "restarts" not in site.advice
    assert "Rounds (refine) count it again" in site.advice


@pytest.mark.parametrize(
    ("counts_of_sites", "given", "expected"), [([1.0, 1.0], 2, "all"), ([1.0], 2, "some"), ([1.0, 0.65], 3, "in part")]
)
def test_what_counts_is_all_some_or_a_part(counts_of_sites, given, expected):
    assert counted_of(counts_of_sites, given) == expected
