"""Effects of covariates on topics: slopes, curvature, rounds that end where one fit of all documents does."""

import json
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln
from scipy.stats import dirichlet_multinomial

import decbayes as db
from decbayes.errors import DecbayesError
from decbayes.models.covariates import Documents, document_likelihood

WORDS = tuple("abcdefgh")


def known_topics(probabilities, weight=1e7):
    """A merge that is all but certain of these topics."""
    model = db.LatentDirichletAllocation(len(probabilities), WORDS[: probabilities.shape[1]], document_prior=0.5)
    prior = db.Posterior.of_prior(model.structure)
    natural = {"topics": prior.natural["topics"] + weight * probabilities}
    return db.Posterior.from_natural(model.structure, natural)


def drawn(rng, probabilities, design, coefficients, length=40):
    """Word counts of documents whose log priors are linear in the design."""
    shares = np.array([rng.dirichlet(alpha) for alpha in np.exp(design @ coefficients)])
    return np.array([rng.multinomial(rng.poisson(length) + 1, share @ probabilities) for share in shares])


def exact_height(counts, probabilities, alpha):
    """One document's log-likelihood: the sum over all ways to give each word a topic."""
    words = np.repeat(np.arange(len(counts)), counts)
    total = 0.0
    for topics in product(range(len(alpha)), repeat=len(words)):
        times = np.bincount(topics, minlength=len(alpha))
        rising = (
            gammaln(alpha + times).sum()
            - gammaln(alpha).sum()
            + gammaln(alpha.sum())
            - gammaln(alpha.sum() + len(words))
        )
        total += np.exp(rising) * probabilities[list(topics), words].prod()
    return np.log(total)


def test_slopes_and_curvature_are_those_of_the_likelihood(rng, monkeypatch):
    monkeypatch.setattr(document_likelihood, "POINTS", 400_000)
    probabilities = rng.dirichlet(np.ones(4), 3)
    counts, alpha = np.array([[2, 1, 0, 2], [0, 3, 1, 1]]), rng.gamma(2.0, 0.5, (2, 3))
    bend = Documents(counts, np.ascontiguousarray(probabilities.T)).at(alpha)
    for d in range(2):

        def height(log_alpha, d=d):
            return exact_height(counts[d], probabilities, np.exp(log_alpha))

        here, moves = np.log(alpha[d]), 0.01 * np.eye(3)
        assert bend.height[d] == pytest.approx(height(here), abs=0.02)
        assert bend.noise[d] < 1e-4
        slopes = [(height(here + move) - height(here - move)) / 0.02 for move in moves]
        np.testing.assert_allclose(bend.slopes[d], slopes, atol=0.01)
        curves = [
            [height(here + a + b) - height(here + a - b) - height(here - a + b) + height(here - a - b) for b in moves]
            for a in moves
        ]
        np.testing.assert_allclose(-bend.weights[d], np.array(curves) / 0.02**2, atol=0.02)


def test_words_of_topics_left_out_change_nothing_that_is_said_of_the_others(rng):
    """Of topics that share no words: how a document divides its other words does not depend on them."""
    probabilities = np.kron(np.eye(3), [0.5, 0.5])
    counts, alpha = rng.poisson(3.0, (5, 6)) + 1, rng.gamma(2.0, 0.5, (5, 3))
    bend = Documents(counts, np.ascontiguousarray(probabilities.T)).at(alpha, np.array([True, False, True]))
    other = Documents(np.delete(counts, [2, 3], axis=1), np.ascontiguousarray(probabilities[::2][:, [0, 1, 4, 5]].T))
    alone = other.at(alpha[:, [0, 2]])
    np.testing.assert_allclose(bend.slopes[:, [0, 2]], alone.slopes, atol=1e-4)
    np.testing.assert_allclose(bend.weights[:, [[0], [2]], [0, 2]], alone.weights, atol=1e-4)
    for part in (bend.slopes[:, 1], bend.weights[:, 1], bend.weights[:, :, 1]):
        assert not part.any()


@pytest.fixture(scope="module")
def three_sites():
    """Topics that share no words, so that documents tell exactly how often each occurs."""
    rng = np.random.default_rng(3)
    probabilities = np.kron(np.eye(3), [0.5, 0.5])
    year = np.sort(rng.uniform(2018.0, 2024.0, 150))  # sites hold different years
    paper = rng.choice(["left", "right"], 150)
    design = np.column_stack([np.ones(150), (year - 2021.0) / 2.0, paper == "right"])
    truth = np.array([[-0.5, -0.2, 0.0], [0.6, 0.0, -0.6], [0.0, 0.8, -0.4]])
    counts = drawn(rng, probabilities, design, truth)
    columns = {"year": db.columns.Gaussian(2021.0, 2.0), "paper": db.columns.Categorical("left", "right")}
    sites = {name: slice(50 * place, 50 * place + 50) for place, name in enumerate(("north", "south", "west"))}
    return known_topics(probabilities), columns, design, counts, {"year": year, "paper": paper}, sites


def rounds(three_sites, count):
    posterior, columns, _, counts, frame, sites = three_sites

    def of(name, given):
        rows = {column: values[sites[name]] for column, values in frame.items()}
        formula = {"formula": "year + paper", "columns": columns} if given is None else {"given": given}
        return db.texts.effects(posterior, counts[sites[name]], rows, site=name, **formula)

    first = of("north", None)
    joint = first + of("south", first) + of("west", first)
    for _ in range(count):
        joint = of("north", joint) + of("south", joint) + of("west", joint)
    return joint


def test_rounds_end_where_one_fit_of_all_documents_does(three_sites):
    """The oracle: SciPy's Dirichlet-multinomial, maximised with the prior over all documents at once."""
    posterior, _, design, counts, _, _ = three_sites
    times = counts.reshape(len(counts), 3, 2).sum(axis=2)
    centre = np.zeros((3, 3))
    centre[0] = np.log(0.5)

    def minus(flat):
        away = flat.reshape(3, 3)
        logs = dirichlet_multinomial.logpmf(times, np.exp(design @ away), times.sum(axis=1))
        return -logs.sum() + 0.05 * ((away - centre) ** 2).sum()

    best = minimize(minus, centre.ravel(), tol=1e-8)
    steps = 1e-3 * np.eye(9)
    bends = np.array([[minus(best.x + a + b) - minus(best.x + a - b) - minus(best.x - a + b) + minus(best.x - a - b)
                       for b in steps] for a in steps]) / 4e-6  # fmt: skip
    pooled = best.x.reshape(3, 3).T.ravel()
    order = np.arange(9).reshape(3, 3).T.ravel()
    deviation = np.sqrt(np.diag(np.linalg.inv(bends)))[order]
    away = []
    for number in (0, 1, 2):
        joint = rounds(three_sites, number)
        mean, covariance = joint.estimate(posterior)
        away.append(np.abs((mean - pooled) / deviation).max())
    assert (np.array(away) < [1.0, 0.1, 0.01]).all(), away
    precision = np.sum([message.likelihood.precision for message in joint.messages.values()], axis=0) + 0.1 * np.eye(9)
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(precision))), deviation, rtol=0.01)

    def slopes(row):
        """Of one document at the best coefficients, by differences."""

        def height(flat):
            return dirichlet_multinomial.logpmf(times[row], np.exp(design[row] @ flat.reshape(3, 3)), times[row].sum())

        return [(height(best.x + move) - height(best.x - move)) / 2e-3 for move in steps]

    scores = np.array([slopes(row) for row in range(len(times))])[:, order]
    inside = scores.T @ scores * 50 / 47 + 0.1 * np.eye(9)  # 50 documents at each of three sites
    outside = np.linalg.inv(bends)[np.ix_(order, order)]
    np.testing.assert_allclose(covariance, outside @ inside @ outside, atol=0.02 * np.abs(covariance).max())


def test_ratios_of_shares_and_their_intervals(three_sites):
    """By draws from the Gaussian of the coefficients."""
    posterior, *_ = three_sites
    joint = rounds(three_sites, 1)
    mean, covariance = joint.estimate(posterior)
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, 20_000).reshape(-1, 3, 3)

    def shares(row):
        weights = np.exp(draws @ row)
        return weights / weights.sum(axis=1, keepdims=True)

    rows = joint.rows(posterior, level=0.8)
    assert [row["term"] for row in rows] == ["year"] * 3 + ["paper=right"] * 3
    for row in rows:
        further = [1.0, 0.5, 0.0] if row["term"] == "year" else [1.0, 0.0, 1.0]
        ratio = (shares(np.array(further)) / shares(np.array([1.0, 0.0, 0.0])))[:, row["topic"]]
        expected = np.quantile(ratio, [0.1, 0.5, 0.9])
        np.testing.assert_allclose([row["low"], row["ratio"], row["high"]], expected, rtol=0.05)
        assert row["then"] == pytest.approx(row["share"] * row["ratio"])
        assert row["per"] == 1.0


def test_files_hold_the_same_and_nothing_else_passes_for_one(three_sites):
    posterior, *_ = three_sites
    joint = rounds(three_sites, 0)
    stored = json.loads(json.dumps(joint.plain()))
    back = db.texts.Effects.of_plain(stored)
    for before, after in zip(joint.estimate(posterior), back.estimate(posterior), strict=True):
        np.testing.assert_allclose(before, after, atol=1e-6)
    assert (back.sites, back.documents) == (["north", "south", "west"], 150)
    north = stored["sites"]["north"]
    spoiled = [
        {"format": "other"},
        {"terms": ["year", "wind"]},
        {"terms": []},
        {"sites": {}},
        {"sites": {"north": north | {"documents": 0}}},
        {"sites": {"north": north | {"round": -1}}},
        {"sites": {"north": north | {"shift": north["shift"][:-1]}}},
        {"sites": {"north": north | {"shift": [float("nan"), *north["shift"][1:]]}}},
        {"sites": {"north": north | {"precision": [-value for value in north["precision"]]}}},
        {"sites": {"north": north | {"spread": [-value for value in north["spread"]]}}},
    ]
    each = len(north["shift"]) // 3
    unit = np.eye(each)[np.triu_indices(each)].tolist()
    fewer = stored["sites"] | {"north": north | {"shift": [0.0] * each, "precision": unit, "spread": unit}}
    with pytest.raises(DecbayesError, match="north has another number of topics"):
        db.texts.Effects.of_plain(stored | {"sites": fewer}).estimate(posterior)
    for change in spoiled:
        with pytest.raises(DecbayesError, match="does not hold effects"):
            db.texts.Effects.of_plain(stored | change)


def test_what_cannot_be_added_or_found_is_refused(three_sites):
    posterior, columns, _, counts, frame, _ = three_sites
    joint = rounds(three_sites, 0)
    whole = {"site": "all", "columns": columns}
    other = db.texts.effects(posterior, counts, frame, "year", **whole)
    other_topics = known_topics(np.kron(np.eye(3), [0.4, 0.6]))
    refused = {
        "given twice": lambda: joint + joint,
        "other topics, covariates": lambda: joint + other,
        "on other topics": lambda: joint.rows(other_topics),
        "Name covariates": lambda: db.texts.effects(posterior, counts, frame),
        "no offset": lambda: db.texts.effects(posterior, counts, frame, "year - 1"),
        "Leave the formula out": lambda: db.texts.effects(posterior, counts, frame, "year", given=joint),
        "rows of covariates": lambda: db.texts.effects(posterior, counts[:9], frame, "year"),
        "not in the calendar": lambda: db.texts.effects(posterior, counts[:1], {"d": ["2024-02-30"]}, "d"),
        "at least 60 per coefficient": lambda: db.texts.effects(
            posterior, counts, frame, "year + paper", least=60, **whole
        ),
        "rest on fewer than 40": lambda: db.texts.effects(posterior, counts, frame, "year + paper", least=40, **whole),
    }
    for reason, call in refused.items():
        with pytest.raises(DecbayesError, match=reason):
            call()


def test_nothing_is_said_of_topics_and_categories_that_few_documents_have(rng, monkeypatch):
    probabilities = np.kron(np.eye(3), [0.5, 0.5])
    posterior = known_topics(probabilities)
    counts = np.kron(rng.multinomial(30, [0.5, 0.5, 0.0], 60), [1, 0])
    counts[:4, 4] = 40  # the third topic is in four documents
    frame = {"paper": ["left"] * 30 + ["right"] * 28 + ["rare"] * 2}
    columns = {"paper": db.columns.Categorical("left", "rare", "right")}
    steps, bend = [], Documents.at
    monkeypatch.setattr(Documents, "at", lambda *given: steps.append(given) or bend(*given))
    safe = db.texts.effects(posterior, counts, frame, "paper", site="a", columns=columns, least=5)
    assert len(steps) < 10
    ((_, _, likelihood, spread),) = safe.messages.values()
    blocks = likelihood.precision.reshape(3, 3, 3, 3)
    # Nothing about the third topic, nor about the category that two documents have.
    squares = spread.reshape(3, 3, 3, 3)
    for part in (
        likelihood.shift.reshape(3, 3)[2],
        blocks[2],
        blocks[:, :, 2],
        blocks[:, 1],
        squares[2],
        squares[:, 1],
    ):
        assert not part.any()
    assert blocks[0, 2, 0, 2] > 0
    open_ = db.texts.effects(posterior, counts, frame, "paper", site="a", columns=columns)
    assert open_.messages["a"].likelihood.precision.reshape(3, 3, 3, 3)[2, 1, 2, 1] > 0
    one_author = db.disclosure.Persons.of(["x"] * 60)
    with pytest.raises(DecbayesError, match="1 persons or documents"):
        db.texts.effects(posterior, counts, frame, "paper", columns=columns, least=5, persons=one_author)


def test_dates_are_years_and_documents_without_covariates_are_left_out(three_sites):
    posterior, _, _, counts, _, _ = three_sites
    days = ["2023-01-01", "2024-07-01", None, "2023-12-31"] * 30
    found = db.texts.effects(posterior, counts[:120], {"day": days}, "day")
    assert found.documents == 90
    column = found.plan.columns["day"]
    assert 2023.0 < column.zero_and_unit[0] < 2025.0
    expected = {"day": [2023.0, 2024.0 + 182 / 366, np.nan, 2023.0 + 364 / 365] * 30}
    again = db.texts.effects(posterior, counts[:120], expected, "day", columns=found.plan.columns)
    np.testing.assert_allclose(again.estimate(posterior)[0], found.estimate(posterior)[0])


def test_copies_of_documents_by_the_same_authors_narrow_nothing(three_sites):
    posterior, columns, _, counts, frame, _ = three_sites
    once = db.texts.effects(posterior, counts, frame, "year + paper", columns=columns)
    twice = {name: np.concatenate([values, values]) for name, values in frame.items()}
    authors = db.disclosure.Persons.of([*range(150), *range(150)])
    copied = db.texts.effects(
        posterior, np.vstack([counts, counts]), twice, "year + paper", columns=columns, persons=authors
    )
    widths = [np.sqrt(np.diag(found.estimate(posterior)[1])) for found in (once, copied)]
    np.testing.assert_allclose(widths[1], widths[0], rtol=0.1)
