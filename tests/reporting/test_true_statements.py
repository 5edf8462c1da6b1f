"""Every statement that results print: true, with its unit, and only about what there is."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest

import decbayes as db
from decbayes.calibrated import Calibration
from decbayes.calibration import why_unknown
from decbayes.cli.commands.everyday._explanation import close_calls, margin_cell, match_margins, proven_matches
from decbayes.cli.shared.posterior_files import supporters
from decbayes.merging.reading import Curve
from decbayes.reporting._alignments import close_calls as close_call_table
from decbayes.reporting._remarks import match_remarks, remarks
from decbayes.reporting.reports import intervals_text, page
from decbayes.views import Findings, view_of
from decbayes.views.answers import answer, certainty
from decbayes.views.values import plural

UNSURE = db.merging.Reliability(Curve(0.0, (0.0,) * 3), Curve(0.0, (0.0,) * 4), 100, 0.5, 0.0)
COLUMNS = {"age": db.columns.Gaussian(60.0, 10.0), "sex": db.columns.Categorical("f", "m")}


def survival(rng, size=120):
    model = db.SurvivalRegression(
        "died", time="days", cuts=(50.0, 150.0), rate=0.01, columns={**COLUMNS, "days": "real", "died": "yes/no"}
    )
    age, sex = rng.normal(60.0, 10.0, size), rng.integers(2, size=size)
    days = rng.exponential(100.0, size) * np.exp(-0.05 * (age - 60.0))
    return model, np.column_stack([age, sex, np.minimum(days, 300.0), days < 300.0])


def ordered(rng, size=120):
    columns = {**COLUMNS, "pain": db.columns.Categorical("none", "mild", "severe")}
    model = db.OrderedRegression("pain", columns=columns)
    age, sex = rng.normal(60.0, 10.0, size), rng.integers(2, size=size)
    level = (0.1 * (age - 60.0) + rng.logistic(size=size))[:, None] > [-1.0, 2.0]
    return model, np.column_stack([age, sex, level.sum(axis=1)])


def logistic(rng, size=120):
    model = db.LogisticRegression("died", columns={**COLUMNS, "died": "yes/no"})
    age, sex = rng.normal(60.0, 10.0, size), rng.integers(2, size=size)
    return model, np.column_stack([age, sex, rng.random(size) < 1.0 / (1.0 + np.exp(-0.1 * (age - 60.0)))])


def linear(rng, size=120):
    columns = {**COLUMNS, "pressure": db.columns.Gaussian(120.0, 15.0)}
    model = db.LinearRegression("pressure", columns=columns)
    age, sex = rng.normal(60.0, 10.0, size), rng.integers(2, size=size)
    return model, np.column_stack([age, sex, 120.0 + 0.5 * (age - 60.0) + rng.normal(0.0, 3.0, size)])


def alignment_of(world, rng, sites=3):
    drawn = [world(rng) for _ in range(sites)]
    return drawn[0][0], db.align([model.fit(data.astype(float), rng=rng).posterior for model, data in drawn])


def text_of(alignment):
    """A report without its markup."""
    return re.sub(r"<style>.*?</style>|<[^>]+>", " ", page(alignment), flags=re.S)


@pytest.mark.parametrize("world", [survival, ordered, logistic])
def test_the_headline_of_a_regression_names_effects_and_no_levels_of_the_outcome(world, rng):
    """Intercepts, hazards of intervals and thresholds differ from zero by choice of units: that is no finding."""
    model, alignment = alignment_of(world, rng)
    headline, _, _ = answer(Findings.by_name(alignment, ["a", "b", "c"]))
    assert headline in html.unescape(text_of(alignment))
    assert "age" in headline
    assert not re.search("intercept|interval=|threshold=", headline)
    levels = [estimate.name for estimate in view_of(model).estimates(alignment.merged()) if estimate.null is None]
    assert levels
    assert all(re.match("intercept|interval=|threshold=", name) for name in levels)


def test_means_of_all_groups_are_levels_and_slopes_are_effects(rng):
    model = db.LinearRegression("y", terms=("sex", "age"), intercept=False, columns={**COLUMNS, "y": "real"})
    nulls = {e.name: e.null for e in view_of(model).estimates(db.Posterior.of_prior(model.structure))}
    assert nulls == {"sex=f": None, "sex=m": None, "age": 0.0}


@pytest.mark.parametrize("world", [logistic, survival])
def test_a_report_claims_no_check_that_does_not_apply(world, rng):
    _, alignment = alignment_of(world, rng)
    text = text_of(alignment)
    assert "Nothing stands out. Checked: sites without data, the same data at two sites (whole copies only)" in text
    for about_components in ("close calls", "duplicates", "relabelling", "margin", "slots that hold", "a component"):
        assert about_components not in text
    assert ("terms in which sites differ by more than chance" in text) == (world is logistic)
    assert ("Not checked: whether sites differ" in text) == (world is survival)


def test_a_report_on_topics_does_not_claim_to_have_compared_them(rng):
    model = db.LatentDirichletAllocation(2, tuple("abcdef"), 0.1, 0.5)
    words = np.kron(np.eye(2), np.full(3, 1 / 3))
    fits = [model.fit(rng.multinomial(30, words[rng.integers(2, size=40)]), rng=rng).posterior for _ in range(3)]
    text = text_of(db.align(fits))
    assert "components in which sites differ by more than chance" not in text
    assert "Nothing stands out" not in text or "Not checked: whether sites differ by more than chance" in text


@pytest.mark.parametrize("world", [survival, ordered, logistic, linear])
def test_printing_a_regression_shows_each_coefficient_with_its_interval(world, rng):
    model, alignment = alignment_of(world, rng)
    merged = alignment.merged()
    head, titles, *lines = str(merged).splitlines()
    assert head.startswith(f"Posterior of {type(model).__name__}, uncertainty: ")
    assert "90% interval" in titles
    assert [line.split("  ")[0] for line in lines] == [row["term"] for row in model.coefficients(merged)]
    html = merged._repr_html_()
    assert all(row["term"] in html for row in model.coefficients(merged))
    assert "90% interval" in html
    assert repr(merged).startswith("Posterior(coefficients: ")


def test_printing_states_calls_no_starting_probability_a_share(rng):
    model = db.HiddenMarkov(2, columns={"x": "real"})
    chains = [np.repeat([[0.0], [9.0]], 6, axis=0) + rng.normal(size=(12, 1)) for _ in range(6)]
    posterior = model.fit(chains, rng=rng).posterior
    assert "share" not in str(posterior)
    assert "share" not in posterior._repr_html_()


def widened(posterior, times):
    parts = {
        factor: {name: times * posterior.deviation(factor, name) for name in posterior.quantities(factor)}
        for factor in posterior.structure.families
    }
    return replace(posterior, calibration=Calibration("a test", parts))


@pytest.mark.parametrize("times", [1.0, 2.0])
def test_tables_of_parameters_have_the_units_of_the_data_and_the_calibrated_intervals(times, rng):
    model = db.LatentClasses(2, columns={"age": db.columns.Gaussian(60.0, 10.0), "sick": "yes/no"})
    kind = rng.integers(2, size=80)
    rows = np.column_stack([rng.normal(40.0 + 40.0 * kind, 3.0), rng.random(80) < 0.2 + 0.6 * kind]).astype(float)
    posterior = widened(model.fit(rows, rng=rng).posterior, times)
    exported = {
        (row["component"], row["entry"]): row
        for row in view_of(model).parameters(posterior)
        if row["quantity"] != "precision" and row["factor"] != "weights"
    }
    profiles = model.profiles(posterior)
    assert len(profiles) == len(exported) == 4
    for row in profiles:
        same = exported[row["component"], row["column"]]
        np.testing.assert_allclose([same["mean"], same["lower"], same["upper"]], [row["mean"], row["low"], row["high"]])
        assert "calibrated by a test" in same["uncertainty"]
    spread = [row for row in view_of(model).parameters(posterior) if row["quantity"] == "precision"]
    assert all(1.0 < row["mean"] ** -0.5 < 9.0 for row in spread)  # years: the true deviation is 3


@pytest.mark.parametrize("world", [linear, logistic])
def test_exported_coefficients_are_those_of_the_model(world, rng):
    model, alignment = alignment_of(world, rng)
    wide = widened(alignment.merged(), 1.7)
    rows = view_of(model).parameters(wide, level=0.8)
    expected = model.coefficients(wide, level=0.8)
    assert [row["entry"] for row in rows] == [row["term"] for row in expected]
    for row, own in zip(rows, expected, strict=True):
        assert (row["mean"], row["deviation"]) == (own["mean"], own["deviation"])
        assert (row["lower"], row["upper"]) == (own["low"], own["high"])


def test_probabilities_of_matches_are_nowhere_said_to_be_more_than_simulations_show(as_shipped, rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=400.0)
    sites = [model.fit(rng.normal(np.resize([-20.0, 20.0], 60))[:, None], rng=rng).posterior for _ in range(4)]
    text = page(db.align(sites))
    assert re.search("9[89]%", text)
    assert "99%" not in text, "simulations cannot show it, even if all of their matches are right"
    assert "0.99" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.S)
    assert "1 of 4 matches are" not in text


def test_matches_are_said_to_be_proven_where_a_one_to_one_solver_has_proofs(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    sites = [model.fit(rng.normal([[-9.0], [9.0]], 0.5, size=(2, 1)), rng=rng).posterior for _ in range(3)]
    (coupled,) = model.structure.symmetry
    line, _ = proven_matches(db.align(sites, solver="matching"), coupled)
    assert line.startswith("Proven optimal: 6 of 6 matches")
    assert [*proven_matches(db.align(sites[:1], solver="matching"), coupled)] == []


def test_components_that_share_a_slot_are_counted_one_by_one(rng):
    """Two clusters at one site and three at the other, merged into two: five were found, in four cells."""
    points = [rng.normal([[centre]], 0.3, size=(40, 1)) for centre in (-9.0, 8.0, 10.0)]
    fits = [
        db.GaussianMixture(number, 1, variance=0.1).fit(np.vstack(points[:number]), rng=rng).posterior
        for number in (2, 3)
    ]
    findings = Findings.by_name(db.align(fits, components=2), ["a", "b"])
    (sureness,) = findings.sureness.values()
    assert np.isfinite(sureness.values).sum() == 4
    assert sureness.matches == 5
    assert int(sureness.close.sum()) <= sureness.close_calls <= 5


def test_a_state_alone_in_its_slot_is_no_match_and_all_lines_count_the_same_matches(rng):
    model = db.HiddenMarkov(states=3, columns={"x": db.columns.Gaussian(0, 10)})

    def sequences(levels):
        return [rng.normal(np.repeat(rng.choice(levels, size=6), 5))[:, None] for _ in range(20)]

    sites = [model.fit(sequences(levels), rng=rng).posterior for levels in ([-20.0, 0.0, 20.0], [-20.0, 0.0])]
    alignment = db.align(sites)
    (coupled,) = alignment.structure.symmetry
    line, *_ = proven_matches(alignment, coupled)
    assert close_calls(alignment, coupled) == "0 of 4 matches"
    assert line.endswith(" of 4 matches")
    margins, _ = match_margins(alignment, coupled)
    texts = [str(margin_cell((component,), margins)) for component in range(3)]
    assert sum("(alone)" in text for text in texts) == 1
    assert not any("(0.0)" in text for text in texts)
    findings = Findings.by_name(alignment, ["a", "b"])
    (sureness,) = findings.sureness.values()
    (remark,) = match_remarks(findings, coupled)
    assert "--confidence" not in remark.advice, "which refuses states"
    assert why_unknown(alignment).startswith("Matches of states cannot be calibrated")
    assert (sureness.matches, sureness.close_calls, np.isfinite(sureness.values).sum()) == (4, 0, 4)


def test_a_report_counts_matches_as_an_explanation_does_and_lists_each_close_call(rng):
    """Two of a site's clusters are one at the other site, which has one that nobody else has: five matches of six."""
    near, far = np.array([-9.0, 8.0, 9.0]), np.array([-9.0, 8.5, 40.0])
    fits = [
        db.GaussianMixture(3, 1, variance=0.1).fit(rng.normal(np.repeat(centres, 40)[:, None], 0.3), rng=rng).posterior
        for centres in (near, far)
    ]
    alignment = db.align(fits, components=3)
    findings = Findings.by_name(alignment, ["a", "b"], reliability=UNSURE)
    (coupled,) = findings.sets
    sure = findings.sureness[coupled]
    wrong, count = db.merging.confidence(alignment, UNSURE).expected_wrong(coupled)
    assert (count, sure.matches, sure.expected_wrong) == (5, 5, wrong)
    assert np.isfinite(sure.values).sum() == 4, "two matches are in one cell"
    (what,) = [remark for remark in match_remarks(findings, coupled) if remark.kind == "wrong matches"]
    assert what.what == f"About {wrong:.2g} of {count} matches of clusters are expected to be wrong."
    assert what.rests_on.startswith(f"{count} are close calls")
    assert str(close_call_table(findings, coupled)).count("<tr>") == 1 + count


def test_a_site_without_an_observation_in_a_slot_does_not_support_it():
    found = supporters(np.array([200.0, 0.2, 0.6]), ["a", "b", "c"])
    assert (found["sites"], found["most"]) == (2, [["a", 200], ["c", 1]])


def test_intervals_are_said_to_be_too_narrow_where_components_overlap(as_shipped, rng):
    columns = {"x": db.columns.Gaussian(0, 5), "y": db.columns.Gaussian(0, 5)}
    model = db.LatentClasses(2, columns=columns)
    shards = [rng.normal(np.resize([[-3.0], [3.0]], (60, 1)), size=(60, 2)) for _ in range(3)]
    findings = Findings(db.align([model.fit(shard, rng=rng).posterior for shard in shards]), ("a", "b", "c"))
    assert "where classes overlap: half of them may miss the truth there" in str(answer(findings))
    assert "where classes overlap: half of the 90% intervals may miss the truth there" in intervals_text(findings)


def test_an_empty_component_is_described_as_one_without_data(rng):
    columns = {"x": db.columns.Gaussian(0, 5)}
    for model in (db.LatentClasses(2, columns=columns), db.HiddenMarkov(2, columns=columns)):
        data = rng.normal(size=(40, 1)) if isinstance(model, db.LatentClasses) else [rng.normal(size=(40, 1))]
        full = [row["stands out by"] for row in model.describe(model.fit(data, rng=rng).posterior)]
        assert any(text != ("no data",) for text in full)
        empty = [row["stands out by"] for row in model.describe(db.Posterior.of_prior(model.structure))]
        assert empty == [("no data",)] * 2


def coded(data):
    """A site with codes for missing values."""
    data[:6, 0] = 999.0
    return data


def empty(data):
    return data[:0]


@pytest.mark.parametrize("world", [linear, logistic])
@pytest.mark.parametrize(("fault", "why"), [(coded, "missing-value codes"), (empty, "has no data")])
def test_the_headline_names_each_site_that_a_warning_names(world, fault, why, rng):
    """What the three first sentences say about sites agrees with the remarks below them."""
    model, _ = world(rng)
    shards = [world(rng)[1].astype(float) for _ in range(5)]
    shards[4] = fault(shards[4])
    posteriors = [model.fit_site(shard).posterior for shard in shards]
    findings = Findings.by_name(db.align(posteriors), ["north", "south", "lake", "hill", "zoo"])
    warned = [remark.what for remark in remarks(findings) if remark.is_warning and "zoo" in remark.what]
    assert warned
    first, _, said = answer(findings)
    assert ("First check the values of zoo, which may" in first) == (fault is coded)
    assert re.search(f"zoo [^;]*{why}", said)
    assert "stands out" not in said
    assert not re.search("north|south|lake|hill", said)


def test_intervals_are_not_exact_in_the_headline_and_too_narrow_below_it(rng):
    model, _ = linear(rng)
    shards = [linear(rng)[1].astype(float) for _ in range(4)]
    alike = Findings.by_name(db.align([model.fit(shard).posterior for shard in shards]), list("abcd"))
    assert "the intervals are exact for this model" in answer(alike)[1]
    shards[3][:, 0] = 60.0 + 2.2 * (shards[3][:, 0] - 60.0)
    apart = Findings.by_name(db.align([model.fit(shard).posterior for shard in shards]), list("abcd"))
    assert any("too narrow" in remark.what for remark in remarks(apart))
    assert (
        "the intervals would be exact if the model held; they are too narrow, because sites differ" in answer(apart)[1]
    )


def test_intervals_of_clusters_are_called_too_narrow_once(rng):
    """The reason that regressions have is not that of clusters."""
    model = db.GaussianMixture(2, 1, covariance="diagonal", ascent=db.Ascent(restarts=1))
    sites = [model.fit(rng.normal(np.repeat([-3.0, 3.0], 20), 1.0)[:, None], rng=rng).posterior for _ in range(3)]
    said = certainty(Findings(db.align(sites), ("a", "b", "c")))
    assert said.count("too narrow") == 1
    assert plural("match", 4.8) == "matches"


def test_deviations_between_groups_of_a_column_are_not_said_to_be_between_sites(rng):
    """Two sites with four classes each."""
    (model, first), (_, second) = linear(rng), linear(rng)
    grouped = replace(model, varying=("intercept",), by="class")
    fits = [grouped.fit(np.column_stack([rows, np.arange(len(rows)) % 4])).posterior for rows in (first, second)]
    (deviation,) = view_of(grouped).between(db.merge(fits))
    assert deviation.name == "intercept, between groups of class"
    assert grouped.describe(db.merge(fits))[-1]["term"] == "intercept, from class to class"
