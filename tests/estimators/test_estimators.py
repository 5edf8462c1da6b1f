"""scikit-learn's own checks, and what sites add: rows by site, a merge, further rows."""

from copy import deepcopy

import numpy as np
import pandas
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import PoissonRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.fixes import parse_version

import decbayes as db
from decbayes import sklearn as estimators

EXPECTED = {}
if parse_version(sklearn.__version__) < parse_version("1.7.2"):
    subtracts = "this check subtracts a mean from integers in place, before 1.7.2"
    EXPECTED["LatentDirichletAllocation"] = {"check_positive_only_tag_during_fit": subtracts}
# Short fits: the checks are about how estimators behave, not about what they find.
BRIEF = [
    estimators.GaussianMixture(n_init=1, max_iter=5, random_state=0),
    estimators.LatentClasses(n_init=1, max_iter=5, random_state=0),
    estimators.LatentDirichletAllocation(3, max_iter=5, random_state=0),
    estimators.LinearRegression(),
    estimators.LogisticRegression(),
    estimators.MultinomialRegression(max_iter=5),
    estimators.PoissonRegression(),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", BRIEF, ids=lambda estimator: type(estimator).__name__)
def test_scikit_learns_own_checks(estimator):
    expected = EXPECTED.get(type(estimator).__name__, {})
    from sklearn.utils.estimator_checks import check_estimator  # which no other test should wait for

    results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    wrong = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not wrong
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == expected.keys()
    assert len(results) > 40


@pytest.fixture
def clouds(rng):
    """Two clusters; a site has seen one of them only."""
    centres = np.array([[-4.0, 0.0], [4.0, 1.0]])
    which = np.repeat([0, 1, 0, 1, 0], 40)
    sites = np.repeat(["a", "a", "b", "b", "c"], 40)
    return centres[which] + rng.normal(size=(200, 2)), which, sites


def test_fit_with_sites_is_a_merge_of_fits_of_their_rows(clouds):
    points, _, sites = clouds
    found = estimators.GaussianMixture(2, random_state=0).fit(points, sites=sites)
    assert list(found.posteriors_) == ["a", "b", "c"]
    assert found.posterior_ == db.merge(found.posteriors_.values())
    assert found.posterior_.contribution["weights"].sum() == pytest.approx(200)
    (own,) = estimators.GaussianMixture(2, random_state=0).fit(points).posteriors_.values()
    assert own.contribution["weights"].sum() == pytest.approx(200)
    alone = found.posteriors_["c"].contribution["weights"].sum()
    assert alone == pytest.approx(40)


def test_clusters_of_several_sites_are_the_true_ones(clouds):
    points, which, sites = clouds
    for covariance in ("full", "diagonal", "spherical"):
        found = estimators.GaussianMixture(2, covariance=covariance, random_state=0).fit(points, sites=sites)
        assert db.checking.adjusted_rand(found.predict(points), which) > 0.98
        np.testing.assert_allclose(found.predict_proba(points).sum(axis=1), 1.0)
        assert sorted(found.means_[:, 0].round()) == [-4, 4]
        assert found.weights_.sum() == pytest.approx(1.0)
    assert found.score(points) == pytest.approx(found.score_samples(points).mean())


def test_rows_may_come_in_any_order_and_sites_be_numbers(clouds, rng):
    points, _, sites = clouds
    order = rng.permutation(len(points))
    labels = np.unique(sites, return_inverse=True)[1]
    model = estimators.LinearRegression()
    first = model.fit(points[:, :1], points[:, 1], sites=sites).posterior_
    second = clone(model).fit(points[order, :1], points[order, 1], sites=labels[order]).posterior_
    np.testing.assert_allclose(first.natural["coefficients"], second.natural["coefficients"], rtol=1e-12)


def test_partial_fit_adds_sites_and_days(clouds):
    points, _, _ = clouds
    model = estimators.GaussianMixture(2, prior_mean=0.0, prior_scale=1.0, random_state=0)
    model.partial_fit(points[:80], sites="a")
    numbered = model.predict(points[:80])
    model.partial_fit(points[80:160], sites="b")
    assert list(model.posteriors_) == ["a", "b"]
    np.testing.assert_array_equal(model.predict(points[:80]), numbered)
    before = model.posteriors_["b"]
    model.partial_fit(points[160:], sites="a")
    assert model.posteriors_["b"] == before
    assert model.posterior_.contribution["weights"].sum() == pytest.approx(200)
    assert list(model.posteriors_) == ["a", "b"]


def test_further_rows_of_a_site_continue_from_its_posterior(clouds):
    """So components keep their numbers, and no random start is needed: the result is that of one climb."""
    points, _, _ = clouds
    earlier = estimators.GaussianMixture(2, random_state=0).fit(points[:80], sites="a")
    (known,) = earlier.posteriors_.values()
    continued = earlier.model_.fit(points[80:], prior=known, start=known).posterior
    for state in (0, 1):
        later = deepcopy(earlier).set_params(random_state=state).partial_fit(points[80:], sites="a")
        assert later.posteriors_["a"] == continued


def test_components_keep_their_numbers_when_a_larger_site_comes(clouds):
    points, _, _ = clouds
    model = estimators.GaussianMixture(2, prior_mean=0.0, prior_scale=1.0, n_init=1, random_state=0).fit(points[20:60])
    numbered = model.predict(points[:80])
    for state in range(4):  # whose labels come in either order
        later = deepcopy(model).set_params(random_state=state).partial_fit(points, sites="larger")
        np.testing.assert_array_equal(later.predict(points[:80]), numbered)


def test_linear_regression_of_sites_is_that_of_all_rows_and_has_its_coefficients(rng):
    rows = rng.normal(3.0, 2.0, size=(200, 2))
    target = 5.0 + rows @ [2.0, -1.0] + rng.normal(size=200)
    whole = estimators.LinearRegression(prior_variance=1e6).fit(rows, target)
    parted = estimators.LinearRegression(prior_variance=1e6).fit(rows, target, sites=np.arange(200) % 4)
    np.testing.assert_allclose(whole.predict(rows), parted.predict(rows), rtol=1e-9)
    exact, *_ = np.linalg.lstsq(np.column_stack([np.ones(200), rows]), target, rcond=None)
    np.testing.assert_allclose([parted.intercept_, *parted.coef_], exact, atol=1e-3)
    np.testing.assert_allclose(parted.intercept_ + rows @ parted.coef_, parted.predict(rows), rtol=1e-9)
    low, high = parted.interval(rows, level=0.9).T
    assert 0.85 < ((low < target) & (target < high)).mean() < 0.95
    assert parted.score(rows, target) > 0.9


def test_classes_may_have_any_names_and_come_one_at_a_time(rng):
    rows = rng.normal(size=(200, 2))
    names = np.where(rows[:, 0] + 0.3 * rng.normal(size=200) > 0, "yes", "never")
    model = estimators.LogisticRegression(rounds=3).fit(rows, names, sites=np.arange(200) % 3)
    assert model.score(rows, names) > 0.85
    whole = estimators.LogisticRegression(columns=model.model_.columns).fit(rows, names)
    np.testing.assert_allclose(model.predict_proba(rows), whole.predict_proba(rows), atol=1e-3)
    order = np.argsort(names)
    stream = estimators.LogisticRegression(columns=model.model_.columns)
    for part in np.array_split(order, 4):
        stream.partial_fit(rows[part], names[part], sites="one", classes=["never", "yes"])
    assert stream.score(rows, names) > 0.85
    with pytest.raises(ValueError, match="names both"):
        estimators.LogisticRegression().partial_fit(rows[order[:5]], names[order[:5]])


def test_counts_have_the_coefficients_that_scikit_learn_finds(rng):
    rows = rng.normal(size=(400, 2))
    counts = rng.poisson(np.exp(1.0 + rows @ [0.5, -0.3]))
    found = estimators.PoissonRegression(prior_variance=1e4, rounds=4).fit(rows, counts, sites=np.arange(400) % 4)
    peer = PoissonRegressor(alpha=0.0).fit(rows, counts)
    np.testing.assert_allclose([found.intercept_, *found.coef_], [peer.intercept_, *peer.coef_], atol=0.01)


def test_sites_that_hold_different_counts_are_merged_as_first_broadcasts(rng):
    rows = rng.normal(size=(400, 2))
    counts = np.sort(rng.poisson(np.exp(1.0 + rows @ [0.5, -0.3])))
    rows = rows + 0.2 * counts[:, None]
    sites, pooled = np.arange(400) // 100, estimators.PoissonRegression().fit(rows, counts)
    found = estimators.PoissonRegression(columns=pooled.model_.columns).fit(rows, counts, sites=sites)
    data = np.column_stack([rows, counts])
    plain = db.merge([found.model_.fit(data[sites == site]).posterior for site in range(4)])
    exact = pooled.model_.coefficients(pooled.posterior_)

    def apart(posterior):
        rows = found.model_.coefficients(posterior)
        return max(abs(row["mean"] - best["mean"]) / best["deviation"] for row, best in zip(rows, exact, strict=True))

    assert [*pooled.model_.columns][-1] == pooled.model_.target
    assert apart(found.posterior_) < 0.5 * apart(plain)
    assert apart(found.posterior_) < 0.5 * apart(db.merging.product([*found.posteriors_.values()]))


def test_targets_that_are_no_counts_have_the_same_mean_and_robust_errors(rng):
    rows = rng.normal(size=(400, 2))
    amounts = np.exp(1.0 + rows @ [0.5, -0.3]) * rng.gamma(0.5, 2.0, 400)
    found = estimators.PoissonRegression(prior_variance=1e4).fit(rows, amounts)
    peer = PoissonRegressor(alpha=0.0, tol=1e-8).fit(rows, amounts)
    np.testing.assert_allclose([found.intercept_, *found.coef_], [peer.intercept_, *peer.coef_], atol=0.01)
    assert found.posterior_.uncertainty == "calibrated by robust errors"
    design = np.column_stack([np.ones(400), rows])
    rate = peer.predict(rows)
    bread = np.linalg.inv(design.T @ (rate[:, None] * design))
    leverage = rate * np.einsum("ni,ij,nj->n", design, bread, design)
    scores = ((amounts - rate) / (1.0 - leverage))[:, None] * design
    errors = np.sqrt(np.diag(bread @ (scores.T @ scores) @ bread))  # HC3
    np.testing.assert_allclose([row["deviation"] for row in found.coefficients()][1:], errors[1:], rtol=0.02)


def texts(rng, kinds):
    words = {"fruit": ["apple", "pear", "plum"], "tools": ["hammer", "saw", "drill"]}
    return [" ".join(rng.choice(words[kind], 12)) for kind in kinds]


def test_topics_work_in_a_pipeline_with_sites_and_names(rng):
    documents = texts(rng, ["fruit", "tools"] * 30)
    pipe = make_pipeline(CountVectorizer(), estimators.LatentDirichletAllocation(2, random_state=0))
    pipe.fit(documents, latentdirichletallocation__sites=np.arange(60) % 3)
    assert len(pipe[-1].posteriors_) == 3
    shares = pipe.transform(["pear plum pear apple", "saw hammer"])
    assert shares[0].argmax() != shares[1].argmax()
    assert shares.max(axis=1).min() > 0.8
    assert list(pipe.get_feature_names_out()) == ["latentdirichletallocation0", "latentdirichletallocation1"]
    pytest.importorskip("pandas")
    pipe[-1].set_output(transform="pandas")
    assert list(pipe.transform(documents[:4]).columns) == list(pipe.get_feature_names_out())


def test_a_grid_chooses_the_number_of_topics_with_sites(rng):
    counts = CountVectorizer().fit_transform(texts(rng, ["fruit", "tools"] * 30))
    search = GridSearchCV(
        estimators.LatentDirichletAllocation(max_iter=30, random_state=0), {"n_components": [1, 2]}, cv=3
    )
    search.fit(csr_array(counts), sites=np.arange(60) % 2)
    assert search.best_params_ == {"n_components": 2}
    assert len(search.best_estimator_.posteriors_) == 2


def test_vocabularies_are_compared_on_the_same_words(rng):
    """Six words tell the themes apart, a hundred are everywhere: per known word a single one scores best."""
    usual = [f"word{n}" for n in range(100)]
    documents = [f"{text} {' '.join(rng.choice(usual, 4))}" for text in texts(rng, ["fruit", "tools"] * 40)]
    topics = estimators.LatentDirichletAllocation(2, max_iter=30, random_state=0)
    pipe = make_pipeline(CountVectorizer(), topics)
    grid, scorer = {"countvectorizer__max_features": [1, None]}, estimators.WordScorer(documents)
    chosen = [
        GridSearchCV(pipe, grid, cv=2, scoring=how).fit(documents).best_params_["countvectorizer__max_features"]
        for how in (None, scorer)
    ]
    assert chosen == [1, None]
    # By hand: frequencies of all words, those of topics for known ones.
    small = make_pipeline(CountVectorizer(max_features=5), topics).fit(documents)
    tokens = [word for text in documents for word in text.split()]
    known = set(small[0].get_feature_names_out())
    share = {word: tokens.count(word) / len(tokens) for word in set(tokens)}
    rest = sum(share[word] for word in share if word not in known)
    asked = documents[:30]
    words = [word for text in asked for word in text.split()]
    inside = [word for word in words if word in known]
    expected = small.score(asked) * len(inside) + len(inside) * np.log(1 - rest)
    expected += sum(np.log(share[word]) for word in words if word not in known)
    assert scorer(small, asked) == pytest.approx(expected / len(words))
    with pytest.raises(ValueError, match="other words than the scorer"):
        scorer(make_pipeline(CountVectorizer(ngram_range=(1, 2)), topics).fit(documents), documents)


def test_the_same_state_gives_the_same_bits_and_clones_do_not_know_data(clouds):
    points, _, sites = clouds
    model = make_pipeline(StandardScaler(), estimators.GaussianMixture("auto", n_init=2, random_state=3))
    fitted = clone(model).fit(points, gaussianmixture__sites=sites)
    again = clone(fitted).fit(points, gaussianmixture__sites=sites)
    assert fitted[-1].posterior_ == again[-1].posterior_
    assert not hasattr(clone(fitted)[-1], "posterior_")
    assert len(fitted[-1].weights_) == 2


def test_tables_of_any_columns_with_missing_values(rng):
    pandas = pytest.importorskip("pandas")
    which = rng.integers(2, size=120)
    frame = pandas.DataFrame(
        {
            "colour": np.where(rng.random(120) < 0.9, np.array(["red", "blue"])[which], "green"),
            "visits": rng.poisson(np.array([1.0, 9.0])[which]),
            "age": rng.normal(np.array([30.0, 60.0])[which], 5.0),
        }
    )
    frame.loc[::5, "age"] = np.nan
    found = estimators.LatentClasses(2, random_state=0).fit(frame, sites=np.arange(120) % 2)
    assert db.checking.adjusted_rand(found.predict(frame), which) > 0.9
    assert {row["column"] for row in found.profiles()} >= {"colour", "visits", "age"}


def test_a_merge_from_elsewhere_is_held_by_an_estimator(clouds):
    points, _, _ = clouds
    agreed = {"prior_mean": 0.0, "prior_scale": 1.0, "random_state": 0}
    here = estimators.GaussianMixture(2, **agreed).fit(points[:80])
    there = estimators.GaussianMixture(3, **agreed).fit(points[80:])
    merged = db.merge([here.posterior_, there.posterior_], components=2)
    assert here.holding(merged).score(points) > here.score(points)
    assert here.posterior_ != merged
    with pytest.raises(db.errors.DecbayesError, match="belongs to"):
        here.holding(there.posterior_)


def test_rows_without_a_site_are_refused(clouds):
    points, _, _ = clouds
    model = estimators.GaussianMixture(2)
    with pytest.raises(ValueError, match="200 rows and 3 sites"):
        model.fit(points, sites=["a", "b", "c"])
    for missing in (np.r_[np.nan, np.zeros(199)], np.array([None, *"ab" * 99, "a"]), [pandas.NA, *"ab" * 99, "a"]):
        with pytest.raises(db.errors.DecbayesError, match="missing"):
            model.fit(points, sites=missing)
    with pytest.raises(db.errors.DecbayesError, match="all strings or all numbers"):
        model.fit(points, sites=np.array([1, *"ab" * 99, "a"], dtype=object))


def test_a_topic_prior_that_sites_learn_is_one_number(rng):
    words = csr_array(rng.multinomial(40, rng.dirichlet(np.full(12, 0.3), size=3)[np.arange(60) % 3]))
    topics = estimators.LatentDirichletAllocation(3, topic_prior="learn", rounds=1, random_state=0)
    topics.fit(words, sites=np.arange(60) // 3 % 2)
    learned = topics.model_.topic_prior
    assert 0.0 < learned < 2.0
    topics.partial_fit(words[:6], sites="new")
    assert {posterior.structure for posterior in topics.posteriors_.values()} == {topics.posterior_.structure}
    assert topics.model_.topic_prior == learned


def test_a_day_of_a_regression_forgets_that_share_of_what_was_known(rng):
    """Linear regression is conjugate: λ0 + (1 − 0.3) c1 + c2, with c2 of the second day's rows alone."""
    rows, noise = rng.normal(size=(60, 2)), rng.normal(size=60)
    target = rows @ [2.0, -1.0] + noise
    fitted = estimators.LinearRegression(forgetting=0.3).fit(rows[:30], target[:30])
    first, model = fitted.posterior_, fitted.model_
    fitted.partial_fit(rows[30:], target[30:], sites=np.repeat(["a", "b"], 15))
    second = model.fit(np.column_stack([rows, target])[30:], rng=rng).posterior
    for name, prior in model.structure.prior.items():
        expected = prior + 0.7 * first.contribution[name] + second.contribution[name]
        np.testing.assert_allclose(fitted.posterior_.natural[name], expected, rtol=1e-9)


@pytest.mark.parametrize("forgetting", [0.5, "learn"])
def test_a_changed_world_is_learned_sooner_by_forgetting(clouds, forgetting):
    points, _, sites = clouds
    days = [points + shift for shift in (0.0, 3.0)]
    settings = {"n_components": 2, "prior_mean": 0.0, "prior_scale": 4.0, "random_state": 0}
    scores = {}
    for share in (None, forgetting):
        mixture = estimators.GaussianMixture(**settings, forgetting=share).fit(days[0], sites=sites)
        scores[share] = mixture.partial_fit(days[1], sites=sites).score(days[1])
    assert scores[forgetting] > scores[None] + 0.05


def test_topics_forget_as_learned_whether_counts_are_sparse_or_dense(rng):
    topics = rng.dirichlet(np.full(12, 0.2), size=4)
    days = [rng.multinomial(30, pair[np.arange(40) % 2]) for pair in (topics[:2], topics[2:])]
    found = []
    for kind in (np.asarray, csr_array):
        model = estimators.LatentDirichletAllocation(2, forgetting="learn", random_state=0)
        found.append(model.fit(kind(days[0])).partial_fit(kind(days[1])))
    assert found[0].posterior_ == found[1].posterior_
    keeping = estimators.LatentDirichletAllocation(2, random_state=0).fit(days[0]).partial_fit(days[1])
    assert found[0].score(days[1]) > keeping.score(days[1]) + 0.1


def test_classes_without_an_order_are_predicted_and_agreed(rng):
    x = rng.normal(size=(300, 2))
    which = np.array(["a", "b", "c"])[
        np.argmax(np.column_stack([0 * x[:, 0], 2 * x]) + rng.gumbel(size=(300, 3)), axis=1)
    ]
    found = estimators.MultinomialRegression(rounds=2).fit(x, which, sites=np.arange(300) % 3)
    assert found.score(x, which) > 0.6
    np.testing.assert_allclose(found.predict_proba(x).sum(axis=1), 1.0)
    linear = found.intercept_ + x @ found.coef_.T
    share = np.exp(linear) / (1 + np.exp(linear).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found.predict_proba(x)[:, 1:], share, atol=0.03)
    assert found.interval(x).shape == (300, 3, 2)
    later = estimators.MultinomialRegression().partial_fit(
        x[which != "c"], which[which != "c"], classes=["a", "b", "c"]
    )
    assert later.partial_fit(x, which).predict(x).tolist().count("c") > 30
    columns = {"x0": "real", "x1": "real", "target": db.columns.Categorical("c", "b", "a")}
    with pytest.raises(ValueError, match="in this order: a, b, c"):
        estimators.MultinomialRegression(columns=columns).fit(x, which)
