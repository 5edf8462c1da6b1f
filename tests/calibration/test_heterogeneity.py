"""Whether sites differ by more than chance: against the textbook's formulas, and where there is nothing to find."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import cauchy, chi2, gamma
from scipy.stats import f as f_distribution

import decbayes as db
from decbayes.calibration import differences
from decbayes.calibration.worlds import remembered
from decbayes.merging.reading import Chance, Coefficients, Heterogeneity, of_components
from decbayes.models.regressions.messages.redrawn import RowsLike

MODEL = db.GaussianMixture(2, 1, variance=0.25, prior_variance=1e4, ascent=db.Ascent(restarts=0))


def sites(rng, between, count=10, size=40):
    offsets = between * rng.standard_normal((count, 2))
    labels = [rng.integers(2, size=size) for _ in range(count)]
    # So far apart that every point's cluster is known.
    centres = np.array([-20.0, 20.0])
    points = [(centres + offsets[site])[labels[site]] + 0.5 * rng.standard_normal(size) for site in range(count)]
    return points, labels


def found_of(points, rng):
    """Compared with chance as it is where every point's cluster is known: χ² of (sites − 1) degrees."""
    alignment = db.align([MODEL.fit(part[:, None], rng=rng).posterior for part in points])
    (coupled,) = alignment.structure.symmetry
    known = Chance(np.ones(2), np.full(2, 0.5 * (len(points) - 1)), np.full(2, 1e12))
    return of_components(alignment, coupled, known)


@pytest.mark.parametrize("between", [0.0, 0.6])
def test_the_estimates_are_those_of_dersimonian_and_laird(between, rng):
    points, _ = sites(rng, between)
    found = found_of(points, rng)
    for slot, side in enumerate(
        np.sign(db.merge([MODEL.fit(p[:, None], rng=rng).posterior for p in points]).mean("components")[:, 0])
    ):
        own = [part[np.sign(part) == side] for part in points]
        counts, means = np.array([len(part) for part in own]), np.array([part.mean() for part in own])
        weights = counts / 0.25
        pooled = np.average(means, weights=weights)
        q = float((weights * (means - pooled) ** 2).sum())
        tau = np.sqrt(max(0.0, (q - 9) / (weights.sum() - (weights**2).sum() / weights.sum())))
        assert found.ratio[slot] == pytest.approx(np.sqrt(q / 9), rel=1e-3)
        assert found.probability[slot] == pytest.approx(chi2(9).sf(q), rel=1e-2, abs=1e-12)
        assert found.between["components"]["value"][slot, 0] == pytest.approx(tau, rel=1e-3, abs=1e-4)


def test_chance_alone_is_found_as_often_as_it_says(rng):
    rejected = [found_of(sites(rng, 0.0, count=5, size=30)[0], rng).probability < 0.1 for _ in range(40)]
    # 80 tests at 10 %: 8 ± 2.7.
    assert 1 <= np.sum(rejected) <= 17


def test_a_slot_of_one_site_says_nothing(rng):
    left, right = (
        MODEL.fit(np.full((20, 1), place) + rng.normal(size=(20, 1)), rng=rng).posterior for place in (-90, 90)
    )
    (found,) = db.checking.heterogeneity(db.align([left, right], components=4)).values()
    assert np.isnan(found.ratio).all()
    assert np.isnan(found.probability).all()


def topics_of(rng, themes):
    model = db.LatentDirichletAllocation(2, tuple("abcdefgh"), 0.1, 0.5)
    drawn = [rng.multinomial(30, rng.dirichlet([0.1, 0.1], size=40) @ theme) for theme in themes]
    return db.align([model.fit(counts, rng=rng).posterior for counts in drawn])


def test_topics_have_no_p_value(rng):
    """Simulated documents do not mix topics as real ones do: like sites had p < 0.05 in 16 to 33 % of all topics."""
    (found,) = db.checking.heterogeneity(topics_of(rng, [np.kron(np.eye(2), np.full(4, 0.25))] * 2)).values()
    assert np.isnan(found.probability).all()
    assert "no test for topics" in found.reason
    assert not found.differ(0)


def clusters(rng, covariance, apart, count, size, between=0.0):
    """Like sites: three round clusters of deviation 1, their centres so far apart; or centres that differ."""
    corners = apart * np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.87]])
    shape = {"covariance": covariance} if covariance else {"variance": 1.0, "prior_variance": 20.0}
    model = db.GaussianMixture(3, 2, **shape, ascent=db.Ascent(restarts=2))
    posteriors = []
    for _ in range(count):
        centres = corners + between * rng.normal(size=(3, 2))
        points = centres[rng.integers(3, size=size)] + rng.normal(size=(size, 2))
        posteriors.append(model.fit(points, rng=rng).posterior)
    return db.align(posteriors)


@pytest.mark.parametrize(
    ("covariance", "apart", "size"), [(None, 2.0, 50), pytest.param("diagonal", 6.0, 30, marks=pytest.mark.slow)]
)
def test_like_sites_are_not_said_to_differ(covariance, apart, size):
    """By χ² most of these slots differ at 5 %, since clusters overlap and estimated variances are skewed."""
    alignment = clusters(np.random.default_rng(1), covariance, apart, 6, size)
    (found,) = db.checking.heterogeneity(alignment, worlds=8).values()
    assert (found.probability > 0.01).all()
    assert not any(found.differ(slot) for slot in range(3))
    # Against χ² it is 2.0 where they overlap.
    assert found.ratio.mean() == pytest.approx(1.0, abs=0.2)


def test_sites_whose_components_overlap_are_tested_but_not_said_how_far_they_differ():
    """Fits of equal sites differ over five times as much as those of separate clusters: each divides them otherwise."""
    (found,) = db.checking.heterogeneity(clusters(np.random.default_rng(1), "diagonal", 1.5, 2, 300), worlds=2).values()
    assert found.reason == ""
    assert np.isfinite(found.probability).any()
    assert not any(found.differ(slot) for slot in range(3))
    assert np.isnan(found.between["components"]["mean"]).all()


@pytest.mark.slow
def test_unlike_sites_whose_components_overlap_are_found():
    """By how far what they send differs, they are not: fits of equal sites differ as much."""
    (found,) = db.checking.heterogeneity(clusters(np.random.default_rng(3), "diagonal", 2.5, 8, 200, 1.0)).values()
    assert any(found.differ(slot) for slot in range(3))


def test_unlike_sites_are_found(rng):
    (found,) = db.checking.heterogeneity(clusters(rng, "diagonal", 6.0, 8, 90, between=0.5)).values()
    assert (found.probability < 0.05).all()
    assert found.between["components"]["mean"].mean() == pytest.approx(0.5, abs=0.2)


def test_states_are_compared(rng):
    model = db.HiddenMarkov(2, columns={"x": "real"}, ascent=db.Ascent(restarts=1))

    def site(shift):
        paths = [np.cumsum(rng.random(20) < 0.2) % 2 for _ in range(3)]
        return model.fit([(6.0 * path + shift + rng.normal(size=20))[:, None] for path in paths], rng=rng).posterior

    (alike,) = db.checking.heterogeneity(db.align([site(0.0) for _ in range(3)]), worlds=8).values()
    (unlike,) = db.checking.heterogeneity(db.align([site(shift) for shift in (0.0, 0.0, 1.5, 1.5)])).values()
    assert (alike.probability > 0.01).all()
    assert (unlike.probability < 1e-3).all()


def test_the_p_value_depends_on_the_set_of_posteriors_alone(rng):
    alignment = clusters(rng, None, 3.0, 4, 40)
    again = db.align(alignment.posteriors[::-1])
    (first,) = db.checking.heterogeneity(alignment, worlds=2).values()
    remembered.cache_clear()
    (second,) = db.checking.heterogeneity(again, worlds=2).values()
    np.testing.assert_allclose(first.probability, second.probability, rtol=1e-10)


def test_a_model_that_cannot_be_simulated_has_no_p_value_and_says_so(rng):
    x = rng.normal(size=(4, 60, 1))
    model = db.RegressionMixture(2, "y", columns={"x": "real", "y": "real"})
    posteriors = [model.fit(np.column_stack([part, part]), rng=rng).posterior for part in x]
    (found,) = db.checking.heterogeneity(db.align(posteriors)).values()
    assert np.isnan(found.probability).all()
    assert "predictors are not known" in found.reason


def regressions(rng, between, *, slopes=0.0, count=8, size=30):
    """A linear regression with noise that is known to all practical purposes, and each site's rows."""
    columns = {"x": "real", "z": "real", "y": "real"}
    model = db.LinearRegression("y", columns=columns, prior_variance=1e6, prior_degrees=1e7, prior_noise=1.0)
    rows = []
    for _ in range(count):
        x, z = rng.normal(size=(2, size)) + 0.5
        y = between * rng.standard_normal() + slopes * rng.standard_normal() * x + z + rng.standard_normal(size)
        rows.append(np.column_stack([x, z, y]))
    return model, rows


def of_either(joint, each):
    """The p-value of several coefficients together or any by itself."""
    return cauchy.sf(0.5 * cauchy.isf(joint) + 0.5 * np.mean(cauchy.isf(each)))


def each_alone(scores, information):
    """For each coefficient, Σ score² / information over sites, at the estimate of all rows; and its mean by chance."""
    inverse = np.linalg.inv(sum(information))
    return [
        (
            sum(score[j] ** 2 / part[j, j] for score, part in zip(scores, information, strict=True)),
            sum(1.0 - (part @ inverse @ part)[j, j] / part[j, j] for part in information),
        )
        for j in range(len(inverse))
    ]


def test_coefficients_are_compared_as_a_meta_analysis_of_several_does(rng):
    model, rows = regressions(rng, 0.5)
    (found,) = db.checking.heterogeneity(db.align([model.fit(part).posterior for part in rows])).values()
    designs = [np.column_stack([np.ones(len(part)), part[:, :2]]) for part in rows]
    own = [np.linalg.lstsq(design, part[:, 2], rcond=None)[0] for design, part in zip(designs, rows, strict=True)]
    weights = [design.T @ design for design in designs]
    pooled = np.linalg.solve(sum(weights), sum(weight @ beta for weight, beta in zip(weights, own, strict=True)))
    q = sum((beta - pooled) @ weight @ (beta - pooled) for weight, beta in zip(weights, own, strict=True))
    assert found.ratio[0] == pytest.approx(np.sqrt(q / 21), rel=1e-3)
    scores = [design.T @ (part[:, 2] - design @ pooled) for design, part in zip(designs, rows, strict=True)]
    each = [chi2(freedom).sf(alone) for alone, freedom in each_alone(scores, weights)]
    assert found.probability[0] == pytest.approx(of_either(chi2(21).sf(q), each), rel=2e-2)


def test_with_noise_of_unknown_size_coefficients_are_compared_by_an_exact_f_test(rng):
    """Chow's test: one regression of all rows against one of each site's; all have the same residual variance."""
    _, rows = regressions(rng, 0.3, count=6, size=7)
    model = db.LinearRegression(
        "y", columns={"x": "real", "z": "real", "y": "real"}, prior_variance=1e9, prior_degrees=1e-9, prior_noise=1.0
    )

    def residuals(part):
        design = np.column_stack([np.ones(len(part)), part[:, :2]])
        return part[:, 2] - design @ np.linalg.lstsq(design, part[:, 2], rcond=None)[0]

    for part in rows:
        own = residuals(part)
        part[:, 2] += own / np.linalg.norm(own) - own
    (found,) = db.checking.heterogeneity(db.align([model.fit(part).posterior for part in rows])).values()
    within, left = sum(float((residuals(part) ** 2).sum()) for part in rows), residuals(np.concatenate(rows))
    statistic = (float((left**2).sum()) - within) / 15 / (within / 24)
    designs = [np.column_stack([np.ones(len(part)), part[:, :2]]) for part in rows]
    scores = [design.T @ part for design, part in zip(designs, np.split(left, 6), strict=True)]
    alone = each_alone(scores, [design.T @ design for design in designs])
    each = [f_distribution(freedom, 24).sf(q / freedom / (within / 24)) for q, freedom in alone]
    joint = f_distribution(15, 24).sf(statistic)
    assert found.probability[0] == pytest.approx(of_either(joint, each), rel=1e-4)
    assert found.ratio[0] == pytest.approx(np.sqrt(statistic), rel=1e-4)


def linear_sites(rng, sizes, deviations, moved=0.0):
    """Sites of one linear regression with noise of their own; the first may have another slope, in its deviations."""
    model, sent = db.LinearRegression("y", columns={"x": "real", "z": "real", "y": "real"}), []
    for site, (size, deviation) in enumerate(zip(sizes, deviations, strict=True)):
        x, z = rng.normal(size=(2, size))
        slope = 0.3 + (moved * deviation / np.sqrt(size) if site == 0 else 0.0)
        sent.append(
            model.fit(np.column_stack([x, z, slope * x - 0.2 * z + deviation * rng.normal(size=size)])).posterior
        )
    return db.align(sent)


def compared(alignment):
    (found,) = db.checking.heterogeneity(alignment).values()
    return found


@pytest.mark.parametrize("sizes", [(100, 400, 400, 400), (400, 100, 100, 100)])
def test_a_site_with_other_noise_makes_no_difference_and_hides_none(sizes, rng):
    """One noise for all would make chance differences of a small noisy site clear, and hide all beside a large one."""
    deviations = (2.0, 1.0, 1.0, 1.0)
    false = [compared(linear_sites(rng, sizes, deviations)).differ(0) for _ in range(60)]
    true = [compared(linear_sites(rng, sizes, deviations, moved=6.0)).differ(0) for _ in range(20)]
    assert np.mean(false) < 0.2
    assert np.mean(true) > 0.8


def test_one_site_that_makes_the_whole_difference_is_named_and_sites_that_all_differ_are_not(rng):
    named = [compared(linear_sites(rng, [200] * 5, [1.0] * 5, moved=10.0)).site for _ in range(20)]
    assert named.count(0) > 14
    assert {*named} <= {0, None}
    found = [compared(linear_sites(rng, [200] * 5, [1.0] * 5)) for _ in range(20)]
    assert [one.site for one in found] == [None] * 20
    for between in (0.1, 0.2, 0.4):
        worlds = [regressions(rng, between, slopes=between, count=5) for _ in range(20)]
        alignments = [db.align([model.fit(part).posterior for part in rows]) for model, rows in worlds]
        assert sum(compared(alignment).site is not None for alignment in alignments) < 4


@pytest.mark.parametrize("kind", [db.LogisticRegression, db.PoissonRegression, db.NegativeBinomialRegression])
def test_a_site_is_simulated_with_as_many_rows_as_it_has(kind, rng):
    """Sums over rows tell their number, although each row weighs less than one, or as its count and mean count do."""
    (posterior,) = outcomes(kind, 200, 0.0, rng, count=1)
    model = kind("y", columns={"x": "real", "y": "yes/no" if kind is db.LogisticRegression else "count"})
    like = RowsLike.behind(model, posterior, posterior, 1000.0, rng)
    assert like.count == pytest.approx(200, rel=0.05)
    weighted = like.probabilities @ like.rows
    assert weighted[0] == pytest.approx(1.0)
    assert abs(weighted[1]) < 0.25


@pytest.mark.parametrize(("between", "slopes", "terms"), [(0.0, 0.0, ()), (1.0, 0.0, (0,)), (1.5, 0.8, (0, 1))])
def test_only_the_terms_that_differ_are_named(between, slopes, terms, rng):
    model, rows = regressions(rng, between, slopes=slopes, size=60)
    (found,) = db.checking.heterogeneity(db.align([model.fit(part).posterior for part in rows])).values()
    assert sorted(found.terms) == list(terms)
    if terms == (0,):
        assert found.between["coefficients"]["mean"][0, 0] == pytest.approx(1.0, rel=0.6)


def test_coefficients_that_vary_differ_by_chance(rng):
    """What sites say with their own parts integrated out is as far apart as it should be."""
    model, rows = regressions(rng, 1.0, size=60)
    varying = db.LinearRegression("y", columns=model.columns, varying=("intercept",))
    posteriors = [varying.fit(part).posterior for part in rows]
    refined = db.refine(varying, rows, posteriors, rounds=5, rng=rng)
    (found,) = db.checking.heterogeneity(db.align(refined.posteriors)).values()
    assert found.terms == ()
    assert found.ratio[0] < 1.5


def outcomes(kind, rows, between, rng, count=8):
    """Posteriors of sites that differ in their intercept, if at all."""
    outcome = "yes/no" if kind is db.LogisticRegression else "count"
    model, posteriors = kind("y", columns={"x": "real", "y": outcome}), []
    for _ in range(count):
        x = rng.normal(size=rows)
        f = 0.3 + 0.5 * x + between * rng.standard_normal()
        y = rng.random(rows) < expit(f) if kind is db.LogisticRegression else rng.poisson(np.exp(f))
        posteriors.append(model.fit(np.column_stack([x, y]), rng=rng).posterior)
    return posteriors


def rates(rng, slopes):
    """A model of rates, and each site's rows: x, the exposure, a count. Exposures are longer where x is large."""
    columns = {"x": "real", "years": db.columns.Gaussian(3.0, 2.0), "y": "count"}
    model = db.PoissonRegression("y", columns=columns, terms=("x",), offset="log(years)")
    sites = []
    for slope in slopes:
        x = rng.normal(size=60)
        years = rng.gamma(2.0, 1.5, size=60) * np.exp(0.3 * x)
        sites.append(np.column_stack([x, years, rng.poisson(years * np.exp(0.5 * slope * x - 0.2))]))
    return model, sites


@pytest.mark.parametrize("slopes", [(1, 1, 1, 1, 1), (1, 1, 1, 0, 2)])
def test_rates_are_compared_as_raos_test_of_all_rows_does_although_messages_do_not_say_who_was_exposed(slopes, rng):
    model, sites = rates(rng, slopes)
    alignment = db.align([model.fit_site(rows).posterior for rows in sites])
    (found,) = db.checking.heterogeneity(alignment, worlds=8).values()
    designs, estimate = [np.column_stack([np.ones(len(rows)), rows[:, 0]]) for rows in sites], np.zeros(2)
    for _ in range(20):  # Newton's steps to the estimate of all rows
        means = [rows[:, 1] * np.exp(design @ estimate) for rows, design in zip(sites, designs, strict=True)]
        parts = zip(sites, designs, means, strict=True)
        scores = [design.T @ (rows[:, 2] - mean) for rows, design, mean in parts]
        information = [(design.T * mean) @ design for design, mean in zip(designs, means, strict=True)]
        estimate = estimate + np.linalg.solve(sum(information), sum(scores))
    q = sum(score @ np.linalg.solve(part, score) for score, part in zip(scores, information, strict=True))
    each = [chi2(freedom).sf(alone) for alone, freedom in each_alone(scores, information)]
    expected = of_either(chi2(8).sf(q), each)
    # Eight simulated worlds give a mean that is known to a tenth.
    assert found.ratio[0] == pytest.approx(np.sqrt(q / 8), rel=0.15)
    assert found.probability[0] == pytest.approx(expected, abs=0.15)
    assert (found.probability[0] < 0.001) == (expected < 0.001)


def test_a_merge_says_so_if_sites_were_not_compared(rng):
    """Offsets of yes or no are not in the messages: nothing is known about rows that could be simulated."""
    columns = {"x": "real", "dose": db.columns.Gaussian(0.0, 1.0), "y": "yes/no"}
    model = db.LogisticRegression("y", columns=columns, terms=("x",), offset="dose")
    sites = [np.column_stack([rng.normal(size=(60, 2)), rng.random(60) < 0.5]) for _ in range(3)]
    sent = [model.fit_site(rows).posterior for rows in sites]
    (remark,) = [remark for remark in db.merge(sent).remarks if remark.kind == "not compared"]
    assert "Not tested: whether sites differ" in remark.what
    assert ("offset" in remark.what, remark.is_warning) == (True, False)
    refined = db.refine(model, sites, sent, rounds=1, rng=rng)
    (found,) = db.checking.heterogeneity(refined.alignment).values()
    assert np.isfinite(found.probability), "as it advises"


@pytest.mark.slow
@pytest.mark.parametrize("rows", [4])
@pytest.mark.parametrize("kind", [db.LogisticRegression, db.PoissonRegression])
def test_tiny_sites_of_yes_and_no_or_counts_are_not_said_to_differ(kind, rows, rng):
    """A site that has seen one outcome only is far off, and says with how little weight, but not as a Gaussian."""
    found = [next(iter(db.checking.heterogeneity(db.align(outcomes(kind, rows, 0.0, rng))).values())) for _ in range(2)]
    assert np.mean([each.probability[0] < 0.05 for each in found]) <= 0.5
    assert not any(each.terms for each in found)


@pytest.mark.parametrize("kind", [db.LogisticRegression, db.PoissonRegression])
def test_intercepts_of_yes_and_no_or_counts_that_differ_are_named(kind, rng):
    (found,) = db.checking.heterogeneity(db.align(outcomes(kind, 60, 1.0, rng)), worlds=3).values()
    assert found.terms == (0,)


def rao(kind, shards, intercept):
    """Rao's score test for different coefficients at each site, from all rows in one place."""
    mean, weight = {
        db.LogisticRegression: (expit, lambda mu: mu * (1.0 - mu)),
        db.PoissonRegression: (np.exp, lambda mu: mu),
    }[kind]
    designs = [np.insert(rows[:, :-1], 0, 1.0, axis=1)[:, not intercept :] for rows in shards]
    beta = np.zeros(designs[0].shape[1])
    for _ in range(50):
        expected = [mean(x @ beta) for x in designs]
        scores = [x.T @ (rows[:, -1] - mu) for x, rows, mu in zip(designs, shards, expected, strict=True)]
        information = [(x * weight(mu)[:, None]).T @ x for x, mu in zip(designs, expected, strict=True)]
        beta = beta + np.linalg.solve(sum(information), sum(scores))
    statistic = sum(score @ np.linalg.solve(part, score) for score, part in zip(scores, information, strict=True))
    each = [chi2.sf(alone, freedom) for alone, freedom in each_alone(scores, information)]
    return of_either(chi2.sf(statistic, (len(shards) - 1) * len(beta)), each)


@pytest.mark.parametrize(("intercept", "error"), [(True, 0.15), (False, 0.03)])
@pytest.mark.parametrize("between", [0.0, 1.2])
@pytest.mark.parametrize("kind", [db.LogisticRegression, db.PoissonRegression])
def test_after_rounds_coefficients_are_compared_by_a_score_test(kind, between, intercept, error, rng):
    """A chi-square where sites cannot be simulated, and with many rows close to one where they are.

    The mean of 40 simulated worlds with 21 degrees of freedom each is known to 5 %, and the p-value to about 0.07.
    """
    outcome = "yes/no" if kind is db.LogisticRegression else "count"
    model, shards = kind("y", columns={"x": "real", "z": "real", "y": outcome}, intercept=intercept), []
    for slope in 0.5 + between * rng.standard_normal(8):
        x = rng.normal(size=(60, 2))
        f = -0.2 * intercept + x @ [slope, 0.3]
        shards.append(
            np.column_stack([x, rng.random(60) < expit(f) if outcome == "yes/no" else rng.poisson(np.exp(f))])
        )
    first = [model.fit_site(rows).posterior for rows in shards]
    refined = db.refine(model, shards, first, rounds=3)
    (found,) = db.checking.heterogeneity(refined.alignment, worlds=40).values()
    expected = rao(kind, shards, intercept)
    assert found.probability[0] == pytest.approx(expected, abs=error)
    assert (expected < 0.001) == (between > 0.0)
    assert [remark.kind for remark in refined.merged.remarks] == ["sites differ"] * (between > 0.0)


def test_after_rounds_simulated_sites_contribute_to_one_fit_of_all_their_rows(rng, monkeypatch):
    """As refined sites do; sites that were fitted alone differ in another way."""
    monkeypatch.delattr(differences.Redrawing, "alone")
    model = db.NegativeBinomialRegression("y", columns={"x": "real", "y": "count"}, dispersion=1.5)
    x = rng.normal(size=(4, 20))
    shards = [
        np.column_stack(part) for part in zip(x, rng.poisson(2.0 * rng.gamma(1.5, 1 / 1.5, x.shape)), strict=True)
    ]
    alignment = db.refine(model, shards, [model.fit_site(rows).posterior for rows in shards], rounds=2).alignment
    simulated = differences.Redrawing(alignment, "coefficients")
    simulated_rows = [np.insert(rows, 1, 0.0, axis=1) for rows in shards]  # with an offset
    together, known = simulated.after_rounds(simulated_rows), Coefficients.of(alignment, "coefficients")
    everything = model.fit(np.concatenate(shards)).posterior.contribution["coefficients"]
    np.testing.assert_allclose(sum(part.contribution["coefficients"] for part in together), everything, rtol=1e-3)
    (found,) = db.checking.heterogeneity(alignment, worlds=10).values()
    by_chance = simulated.chances(known, 10).joint.mean[0]
    assert found.ratio[0] ** 2 == pytest.approx(known.compared(np.ones(1))[0].relative[0] / by_chance)
    assert by_chance != 1.0


@pytest.mark.parametrize("first", [False, True])
def test_sites_are_simulated_as_what_they_sent(first, rng, monkeypatch):
    """First broadcasts of logistic regressions differ more than plain fits do, which were said never to differ."""
    model, asked = db.LogisticRegression("y", columns={"x": "real", "y": "yes/no"}), []
    rows = [np.column_stack([x, rng.random(20) < expit(x)]) for x in rng.normal(size=(3, 20))]
    alignment = db.align([(model.fit_site if first else model.fit)(part).posterior for part in rows])
    refitted = RowsLike.refitted

    def recorded(*given, **how):
        asked.append(refitted(*given, **how))
        return asked[-1]

    monkeypatch.setattr(RowsLike, "refitted", recorded)
    db.checking.heterogeneity(alignment, worlds=2)
    assert len(asked) == 6
    assert alignment.moved == db.align(asked).moved == first


@pytest.mark.parametrize(("grey", "expected"), [((0.0, 1.1), 5 * 8), ((1.1, 2.0), 8)])
def test_more_sites_of_a_regression_are_simulated_only_if_its_p_value_is_in_doubt(grey, expected, rng, monkeypatch):
    asked = set()
    real = differences.redrawn_spreads
    monkeypatch.setattr(differences, "GREY", grey)
    monkeypatch.setattr(differences, "WORLDS", 8)
    monkeypatch.setattr(
        differences, "redrawn_spreads", lambda redrawing, world: asked.add(world) or real(redrawing, world)
    )
    alignment = db.align(outcomes(db.PoissonRegression, 10, 0.0, rng, count=3))
    db.checking.heterogeneity(alignment)
    assert len(asked) == expected
    asked.clear()
    db.checking.heterogeneity(alignment, worlds=3)
    assert len(asked) == 3, "as many as were asked for"
    monkeypatch.setattr(differences, "QUICK_CELLS", 10)
    asked.clear()
    db.checking.heterogeneity(alignment)
    assert len(asked) == 8, "more would take long"


def test_topics_with_a_learned_prior_are_compared():
    """Their prior's factor follows the topics, and is no part of what is compared."""
    model = db.LatentDirichletAllocation(2, tuple("abcdef"), "learn")
    counts = [np.random.default_rng(seed).multinomial(40, np.full(6, 1 / 6), size=30) for seed in range(3)]
    found = db.checking.heterogeneity(db.align([model.fit(shard, rng=0).posterior for shard in counts]), worlds=2)
    (differences,) = found.values()
    assert differences.ratio.shape == (2,)


def test_directions_with_hardly_any_information_do_not_count():
    from decbayes.merging.reading._coefficients import ranks

    precisions = np.array([np.diag([1.0, 1e-8]), np.diag([1.0, 1e-10]), np.zeros((2, 2)), 1e6 * np.eye(2)])
    np.testing.assert_array_equal(ranks(precisions), [2, 1, 0, 2])


def test_a_difference_is_stated_if_more_simulations_would_not_take_it_back():
    """Eight worlds of two degrees of freedom each: their mean is known to a relative error of √(1 / 8)."""
    shape, worlds, relative = np.ones(1), 8, np.array([5.0])
    error = 1.0 / np.sqrt(shape * worlds)
    few = Chance(np.ones(1), shape, 2.0 * shape * worlds, error)
    many = Chance(np.ones(1), shape, 2.0 * shape * 1e6, error / 1e3)
    assert few.at_most(relative) == pytest.approx(gamma.sf(5.0, 1.0, scale=1.0 + 2.0 / np.sqrt(8.0)))
    assert few.probability(relative) == pytest.approx(f_distribution.sf(5.0, 2.0, 16.0))
    for far in (0.1, 3.0, 300.0):
        assert few.at_most(np.array([far])) >= few.probability(np.array([far]))
    exact = Chance(np.ones(1), shape, np.full(1, 1e9))
    assert exact.at_most(relative) == exact.probability(relative)
    blank = {"x": {"value": np.ones((1, 1))}}

    def found(chance):
        return Heterogeneity(np.ones(1), chance.probability(relative), blank, blank, at_most=chance.at_most(relative))

    assert few.probability(relative)[0] < 0.05, "so it would be stated without the error of the simulation"
    assert (found(few).differ(0), found(many).differ(0)) == (False, True)


def test_a_simulated_variance_is_no_better_known_than_from_the_worlds_that_showed_it(rng):
    """Spreads whose variance is estimated exceed a bound as often as is said: 5.7 and 1.4 % if it is taken as known."""
    count, worlds, shape = 20_000, 15.0, 20.0
    estimates = rng.chisquare(worlds, size=count) / worlds
    spreads = gamma.rvs(shape, scale=1.0 / shape, size=count, random_state=rng)
    found = Chance(np.ones(count), shape / estimates, np.full(count, 1e9), 0.1, worlds).probability(spreads)
    # Standard errors: 0.15 % at 5 %, and 0.07 % at 1 %.
    assert np.mean(found < 0.05) == pytest.approx(0.05, abs=0.004)
    assert np.mean(found < 0.01) == pytest.approx(0.01, abs=0.002)


def test_p_values_of_simulations_have_one_digit():
    blank = {"x": {"value": np.ones((2, 1))}}
    values = np.array([0.0884, 6e-18])
    exact = Heterogeneity(np.ones(2), values, blank, blank)
    assert [exact.p_text(slot) for slot in (0, 1)] == ["= 0.088", "= 6e-18"]
    simulated = replace(exact, at_most=values)
    assert [simulated.p_text(slot) for slot in (0, 1)] == ["about 0.09", "below 0.001"]


def test_more_worlds_are_simulated_only_where_a_p_value_is_in_doubt(monkeypatch, rng):
    counts = []
    real = differences.in_worlds
    monkeypatch.setattr(differences, "WORLDS", 2)
    monkeypatch.setattr(differences, "TIMES_MORE", 2)
    monkeypatch.setattr(
        differences, "in_worlds", lambda aligned, told, worlds: counts.append(worlds) or real(aligned, told, worlds)
    )
    model = db.GaussianMixture(1, 1, variance=1.0, prior_variance=100.0)
    sites = [model.fit(rng.normal(mean, size=(50, 1)), rng=rng).posterior for mean in (0.0, 0.0, 3.0)]
    aligned = db.align(sites, components=1)
    for grey, expected in (((0.0, 1.1), [2, 4]), ((1.1, 2.0), [2])):
        monkeypatch.setattr(differences, "GREY", grey)
        counts.clear()
        db.checking.heterogeneity(aligned)
        assert counts == expected
    monkeypatch.setattr(differences, "GREY", (0.0, 1.1))
    counts.clear()
    db.checking.heterogeneity(aligned, worlds=3)
    assert counts == [3], "as many as were asked for"


def test_worlds_are_compared_once_if_more_are_simulated(monkeypatch, rng):
    asked, real = [], differences.redivide
    monkeypatch.setattr(differences, "GREY", (0.0, 1.1))
    monkeypatch.setattr(differences, "redivide", lambda setting: asked.append(setting) or real(setting))
    model = db.GaussianMixture(1, 1, variance=1.0, prior_variance=100.0)
    db.checking.heterogeneity(db.align([model.fit(rng.normal(size=(9, 1)), rng=rng).posterior for _ in range(3)]))
    assert len(asked) == 5 * 8
