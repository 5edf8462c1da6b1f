"""What a report tells people first, how far sites differ, what each gains, and tables for papers."""

import csv
import io
import re
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import halfcauchy, norm

import decbayes as db
from decbayes.reporting.drawing import Line, Scale, intervals
from decbayes.reporting.paper_tables import paper_table
from decbayes.reporting.reports import page
from decbayes.views import Findings
from decbayes.views.answers import answer
from decbayes.views.participants import About, Participant, gains
from decbayes.views.site_spread import pool_sites
from decbayes.views.values import Interval, interval_text, told_apart

COLUMNS = {"age": db.columns.Gaussian(60.0, 10.0), "ward": db.columns.Categorical("bone", "heart")}
WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def stays(rng, size, slope=0.5):
    """Days by age and ward, as a linear regression reads them."""
    age, ward = rng.normal(60.0, 10.0, size), rng.integers(2, size=size)
    return np.column_stack([age, ward, 5.0 + slope * (age - 60.0) + rng.normal(0.0, 1.0, size)])


def findings_of(slopes, rng, sizes=None):
    model = db.LinearRegression("days", columns={**COLUMNS, "days": db.columns.Gaussian(5.0, 5.0)})
    shards = [stays(rng, size, slope) for size, slope in zip(sizes or [80] * len(slopes), slopes, strict=True)]
    posteriors = [model.fit(shard).posterior for shard in shards]
    return Findings.by_name(db.align(posteriors), [f"site {number}" for number in range(len(slopes))])


def test_the_first_sentence_has_the_effect_with_its_unit_and_interval(rng):
    findings = findings_of([0.5, 0.5, 0.5], rng)
    first, sure, agree = answer(findings, About(units={"age": "years", "days": "d"}))
    estimate = next(e for e in findings.view.estimates(findings.merged) if e.name == "age")
    said = re.match(r"The mean of days is ([\d.]+) d higher \(([\d.]+) to ([\d.]+)\) with each year of age", first)
    np.testing.assert_allclose(
        [float(x) for x in said.groups()], [estimate.mean, estimate.low, estimate.high], rtol=0.01
    )
    assert "No effect is clear for ward=heart." in first
    assert "240 observations at 3 sites" in sure
    assert "exact" in sure
    assert agree == "No site stands out, and no difference between sites is clear."


def test_effects_are_per_unit_or_compared_with_the_level_that_has_no_term(rng):
    columns = {"weight": db.columns.Gaussian(70.0, 10.0), "ward": db.columns.Categorical("bone", "heart", "skin")}
    model = db.LinearRegression("days", columns={**columns, "days": db.columns.Gaussian(5.0, 5.0)})
    weight, ward = rng.normal(70.0, 10.0, 200), rng.integers(3, size=200)
    rows = np.column_stack([weight, ward, 0.5 * weight + 9.0 * (ward == 1) + rng.normal(size=200)])
    findings = Findings.by_name(db.align([model.fit(half).posterior for half in (rows[:100], rows[100:])]), ["a", "b"])
    first, _, _ = answer(findings, About(units={"weight": "kg"}))
    assert re.search(r"higher \([\d. to]+\) with each kg of weight", first)
    assert re.search(r"9\.\d+ higher \([\d. to]+\) with ward = heart than with bone", first)
    assert "with each unit of weight" in answer(findings)[0]


def test_effects_on_an_outcome_of_several_levels_say_which(rng):
    columns = {"income": db.columns.Gaussian(0.0, 1.0), "by": db.columns.Categorical("bus", "car", "train")}
    model = db.MultinomialRegression("by", columns=columns)
    income = rng.normal(size=(2, 200))
    utility = np.stack([0.0 * income, 1.5 * income, 0.0 * income], axis=-1) + rng.gumbel(size=(2, 200, 3))
    shards = [np.column_stack([row, chosen]) for row, chosen in zip(income, utility.argmax(axis=-1), strict=True)]
    findings = Findings.by_name(db.align([model.fit(shard).posterior for shard in shards]), ["a", "b"])
    first, _, _ = answer(findings, About(units={"income": "years"}))
    assert re.match(r"The odds of by = car against bus are [\d.]+ times as high \(.*\) with each year of income", first)


def test_persons_with_several_rows_are_counted_once(rng):
    findings = findings_of([0.5, 0.5], rng)
    rows = {"site 0": Participant(rows=80, persons=30), "site 1": Participant(rows=80, persons=80)}
    assert "This rests on 110 persons (160 observations) at 2 sites;" in answer(findings, About(participants=rows))[1]
    unknown = {**rows, "site 1": Participant(rows=80)}
    assert "This rests on 160 observations at 2 sites;" in answer(findings, About(participants=unknown))[1]


def test_a_falling_effect_is_said_to_fall(rng):
    first, _, _ = answer(findings_of([-0.5, -0.5], rng))
    low, high = map(float, re.search(r"lower \(([\d.]+) to ([\d.]+)\) with each unit of age", first).groups())
    assert 0.4 < low < 0.5 < high < 0.6


def test_sites_that_differ_are_said_to(rng):
    _, _, agree = answer(findings_of([0.5, 0.5, 0.5, 0.5, 2.5], rng))
    assert "site 4" in agree
    assert "age" in agree
    assert "site 0" not in agree
    assert answer(findings_of([0.5, 2.5], rng))[2].startswith("site 0, site 1 disagree with each other;")


def test_forests_are_of_effects_and_the_table_has_all_terms(rng):
    findings = findings_of([0.5, 0.5], rng)
    drawn = page(findings.alignment, names=findings.names, reliability=False)
    assert re.findall(r'broad"><h3>(.*?)</h3>', drawn) == ["age", "ward=heart"]
    assert re.findall(r'<th scope="row">(age|ward=heart|intercept)</th>', drawn.split("<figure>")[0])[-1] == "intercept"


@pytest.mark.filterwarnings("ignore:Column 'weight'")
def test_a_site_in_another_unit_is_named_and_no_other(rng):
    columns = {"weight": db.columns.Gaussian(70.0, 10.0), "age": db.columns.Gaussian(60.0, 10.0)}
    model = db.LinearRegression("days", columns={**columns, "days": db.columns.Gaussian(5.0, 5.0)})
    posteriors = []
    for grams, size in ((1, 90), (1, 300), (1, 60), (1000, 90)):
        weight, age = rng.normal(70.0, 10.0, size), rng.normal(60.0, 10.0, size)
        days = 5.0 + 0.03 * (weight - 70.0) + 0.3 * (age - 60.0) + rng.normal(size=size)
        posteriors.append(model.fit(np.column_stack([grams * weight, age, days])).posterior)
    names = ["north", "south", "lake", "hill"]
    findings = Findings.by_name(db.align(posteriors), names)
    assert "hill seems to have weight in another unit than the others" in answer(findings)[2]
    text = page(findings.alignment, names=findings.names)
    assert "hill seems to have weight in another unit (values about 1,0" in text
    assert not re.search("(north|south|lake) (seems|disagrees|has)", answer(findings)[2] + text)
    honest = Findings.by_name(db.align(posteriors[:3]), names[:3])
    assert "unit" not in answer(honest)[2]


def test_a_site_that_shares_nothing_is_named_first_and_no_other(rng, monkeypatch):
    monkeypatch.setattr(Findings, "heterogeneity", {})
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=1e4)
    shards = [np.concatenate([rng.normal(0, 1, (40, 1)), rng.normal(20, 1, (40, 1))]) for _ in range(4)]
    shards[3] *= 10.0
    shards[3] += 50.0
    posteriors = [model.fit(shard, rng=rng).posterior for shard in shards]
    found = Findings.by_name(db.align(posteriors), ["a", "b", "c", "hill"])
    assert answer(found)[2].startswith("hill has no cluster in common with the others")
    assert "<b>1</b><span>site that stands out</span>" in page(found.alignment, names=found.names, reliability=False)


def test_components_are_named_with_their_shares(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    shards = [np.concatenate([rng.normal(0, 1, (75, 1)), rng.normal(20, 1, (25, 1))]) for _ in range(3)]
    found = Findings.by_name(db.align([model.fit(shard, rng=rng).posterior for shard in shards]), ["a", "b", "c"])
    first, _, _ = answer(found)
    assert "2 clusters were found" in first
    assert "75% of observations" in first


def test_spread_between_sites_is_that_of_a_meta_analysis():
    """Against statsmodels, on made-up effects."""
    combine = pytest.importorskip("statsmodels.stats.meta_analysis").combine_effects
    means, deviations = [0.61, -0.2, 0.35, 1.1, 0.02], [0.2, 0.15, 0.3, 0.25, 0.1]
    theirs, ours = combine(np.array(means), np.array(deviations) ** 2, method_re="chi2"), pool_sites(means, deviations)
    assert ours.i_squared == pytest.approx(theirs.i2)
    assert ours.tau_squared == pytest.approx(theirs.tau2)
    alike = pool_sites([0.5, 0.5, 0.5], [0.1, 0.2, 0.3])
    assert (alike.i_squared, alike.tau_squared) == (0.0, 0.0)
    assert pool_sites([0.5, 0.6], [0.1, 0.1]).prediction is None


def test_a_further_site_is_expected_where_numerical_integration_says():
    means, deviations = np.array([0.61, -0.2, 0.35, 1.1, 0.02]), np.array([0.2, 0.15, 0.3, 0.25, 0.1])
    mu, tau = np.linspace(-8.0, 8.0, 801)[:, None, None], np.geomspace(1e-3, 200.0, 200)[:, None]
    density = norm.pdf(means, mu, np.hypot(deviations, tau)).prod(axis=-1)  # mu × tau
    mu, tau = mu[:, 0], tau[:, 0]
    density *= halfcauchy.pdf(tau, scale=4.0 / np.sqrt(np.mean(deviations**-2)))
    found = pool_sites(means, deviations).prediction
    for end, share in ((found.low, 0.05), (found.high, 0.95)):
        below = trapezoid(trapezoid(density * norm.cdf(end, mu, tau), mu, axis=0), tau)
        assert below / trapezoid(trapezoid(density, mu, axis=0), tau) == pytest.approx(share, abs=0.0006)


@pytest.mark.parametrize(("sites", "spread"), [(4, 0.5), (8, 0.5), (8, 0.2), (20, 0.3)])
def test_a_further_site_falls_into_its_interval_as_often_as_stated(sites, spread):
    rng, hits, size = np.random.default_rng(0), 0, 250
    for _ in range(size):
        truths, errors = rng.normal(1.0, spread, sites + 1), rng.uniform(0.1, 0.4, sites)
        prediction = pool_sites(truths[:-1] + errors * rng.normal(size=sites), errors, level=0.9).prediction
        hits += prediction.low < truths[-1] < prediction.high
    assert 0.86 < hits / size < 0.985


def test_small_sites_gain_more_and_as_much_as_rows_say(rng):
    findings = findings_of([0.5, 0.5], rng, sizes=[50, 450])
    small, large = gains(findings)
    assert small == pytest.approx(np.sqrt(500 / 50), rel=0.15)
    assert large == pytest.approx(np.sqrt(500 / 450), rel=0.05)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.1, 2.2), (0.97, 1.04), (-1e-7, 2e-7), (12.0, 90_000.0)])
def test_axes_have_at_least_three_numbers(low, high):
    scale = Scale(low, high, 0.0, 100.0)
    assert len(scale.ticks()) >= 3
    assert all(low <= tick <= high + 1e-12 for tick in scale.ticks())
    logs = Scale(np.log(max(low, 0.01)), np.log(max(high, 0.02)), 0.0, 100.0)
    assert len(logs.factors()) >= 3
    assert all(logs.low - 1e-9 <= tick <= logs.high + 1e-9 for tick in logs.factors())


def test_rows_flow_from_the_data_to_the_result(rng):
    findings = findings_of([0.5, 0.5], rng)
    said = Participant(rows=80, persons=80, left_out={"missing values": 7}, approver="Dr Kim", date="2026-01-31")
    about = About("Who stays?", ("Lee",), "2026-02-01", {"age": "years"}, {"site 0": said, "site 1": said})
    text = page(findings.alignment, names=findings.names, about=about)
    assert "<h1>Who stays?</h1>" in text
    assert "Lee · 2026-02-01" in text
    row = re.sub("<[^>]+>", "|", re.search(r'<th scope="row">site 0</th>(<td>87.*?)</tr>', text)[1])
    assert "|87|" in row
    assert "7 missing values" in row
    assert "Dr Kim, 2026-01-31" in row


def test_jargon_is_folded_away(rng):
    findings = findings_of([0.5, 0.5], rng)
    seen = page(findings.alignment, names=findings.names, title="Stay").split("<details")[0]
    text = re.sub("<style>.*?</style>|<[^>]+>", " ", seen, flags=re.S)
    assert not re.search("log BF|nats|optimality|posterior", text)


def test_tables_for_papers_say_the_same_in_all_formats(rng):
    findings = findings_of([0.5, 0.5, 0.5], rng)
    table = paper_table(findings, About("Who & why_?", units={"age": "years"}))
    rows = [*csv.reader(io.StringIO(table.csv().decode()))]
    assert rows == [[*table.head], *map(list, table.rows)]
    with zipfile.ZipFile(io.BytesIO(table.docx())) as archive:
        assert archive.testzip() is None
        document = ElementTree.fromstring(archive.read("word/document.xml"))
    cells = [["".join(cell.itertext()) for cell in row.iter(f"{WORD}tc")] for row in document.iter(f"{WORD}tr")]
    assert cells == rows
    latex = table.latex().decode()
    assert r"Who \& why\_?" in latex
    assert latex.count(r"\\") == len(rows)
    assert table.docx() == table.docx()


def test_profiles_of_classes_are_a_table_of_columns_by_classes(rng):
    model = db.LatentClasses(2, columns=COLUMNS)
    kind = rng.integers(2, size=(2, 100))
    shards = [np.column_stack([rng.normal(40 + 40 * k, 5), k]) for k in kind]
    findings = Findings.by_name(db.align([model.fit(s, rng=rng).posterior for s in shards]), ["a", "b"])
    table = paper_table(findings, About(units={"age": "years"}))
    assert [row[0] for row in table.rows] == ["share", "age (years)", "ward: bone", "ward: heart"]
    ages = sorted(float(cell.split()[0]) for cell in table.rows[1][1:])
    np.testing.assert_allclose(ages, [40, 80], atol=2)


def test_states_have_durations_and_moves_as_a_diagram():
    from decbayes.reporting.diagrams import duration, moves_at_end, transition_diagram

    matrix = np.array([[0.9, 0.075, 0.025], [0.2, 0.8, 0.0], [0.5, 0.0, 0.5]])
    np.testing.assert_allclose(moves_at_end(matrix), [[0, 0.75, 0.25], [1, 0, 0], [1, 0, 0]])
    assert duration(0.9) == pytest.approx(10.0)
    drawn = transition_diagram(matrix, ["a", "b", "c"])
    assert drawn.count('class="move"') == 4
    assert "10.0 steps" in drawn
    assert transition_diagram(np.eye(9), ["x"] * 9) is None


def test_the_clusters_of_all_sites_are_on_one_map(rng):
    model = db.GaussianMixture(2, 2, variance=1.0, prior_variance=100.0)
    shards = [rng.normal(size=(60, 2)) + 9.0 * rng.integers(2, size=(60, 1)) for _ in range(3)]
    found = db.align([model.fit(shard, rng=rng).posterior for shard in shards])
    assert page(found).count('class="outline alone') == 6


def test_ratios_that_are_not_about_one_unit_say_so(rng):
    """A column that varies by hundredths has a ratio per hundredth."""
    columns = {"share": db.columns.Gaussian(0.5, 0.014), "died": "yes/no"}
    model = db.LogisticRegression("died", columns=columns)
    share = rng.normal(0.5, 0.014, (2, 150))
    shards = [np.column_stack([row, rng.random(150) < 1 / (1 + np.exp(-100 * (row - 0.5)))]) for row in share]
    findings = Findings.by_name(db.align([model.fit(shard).posterior for shard in shards]), ["a", "b"])
    assert re.search(r"times as high \(.*\) with each 0.01 of share", answer(findings)[0])
    ((name, text, _),) = paper_table(findings, About()).rows
    assert name == "share, per 0.01"
    assert 1.5 < float(text.split()[0]) < 5.0
    assert "per 0.01" in page(findings.alignment)


def test_an_effect_beside_a_product_says_where(rng):
    """As coefficients have it: the slope of age is that of ward bone, and the difference of wards that at age 0."""
    columns = {"age": db.columns.Gaussian(50.0, 10.0), "ward": db.columns.Categorical("bone", "heart"), "stay": "real"}
    model = db.LinearRegression("stay", columns=columns, terms=("age", "ward", "age:ward"))
    age, ward = rng.normal(50.0, 10.0, (2, 150)), rng.integers(2, size=(2, 150))
    stay = age * (1.0 + ward) + 200.0 * ward + rng.normal(size=(2, 150))
    shards = [np.column_stack(each) for each in zip(age, ward, stay, strict=True)]
    findings = Findings.by_name(db.align([model.fit(shard).posterior for shard in shards]), ["a", "b"])
    said = answer(findings)[0]
    few = Findings.by_name(db.align([model.fit(shard[:3]).posterior for shard in shards]), ["a", "b"])
    assert "age (where ward is bone)" in answer(few)[0]
    assert re.search(r"1\.?\d* higher \(.*?\) with each unit of age where ward is bone", said)
    assert re.search(r"(199|20\d)\.?\d* higher \(.*?\) with ward = heart than with bone where age is 0", said)


@pytest.mark.parametrize(
    ("columns", "terms", "expected"),
    [
        ({"w": db.columns.Categorical("a", "b")}, ("w", "w:age"), r"with each unit of the product w=a:age"),
        ({"dose=high": "real"}, ("age", "dose=high", "age:dose=high"), r"each unit of age where dose=high is 0"),
        ({"s": "yes/no"}, ("s", "s:age"), r"with s = yes where age is 0"),
    ],
)
def test_products_are_not_taken_for_comparisons(columns, terms, expected, rng):
    names = {"age": "real", **columns, "stay": "real"}
    model = db.LinearRegression("stay", columns=names, terms=terms)
    rows = [np.column_stack([rng.normal(size=80), rng.integers(2, size=80).astype(float)]) for _ in range(2)]
    shards = [
        np.column_stack([x, 9.0 * x[:, 0] + 7.0 * x[:, 1] + 5.0 * x[:, 0] * x[:, 1] + rng.normal(size=80)])
        for x in rows
    ]
    findings = Findings.by_name(db.align([model.fit(shard).posterior for shard in shards]), ["a", "b"])
    assert re.search(expected, answer(findings)[0]), answer(findings)[0]


def test_one_site_without_which_sites_would_not_differ_is_named_and_terms_are_not_to_vary_for_it():
    """Its slope is less than five deviations off, so that it does not clearly disagree."""
    findings = findings_of([0.548, 0.5, 0.5, 0.5, 0.5], np.random.default_rng(11))
    assert not findings.influence.disagreeing.any()
    assert answer(findings)[2] == "Sites differ by more than chance in age; without site 0 they would not."
    assert "because sites differ by more than chance or the model does not hold" in answer(findings)[1]
    (said,) = [remark for remark in db.merging.remarks(findings.alignment) if remark.kind == "sites differ"]
    assert ", but not without site 0:" in said.what
    assert said.advice == "First check units, columns and coding at site 0."
    findings = findings_of([0.45, 0.47, 0.5, 0.53, 0.55], np.random.default_rng(11))
    assert answer(findings)[2] == "Sites differ by more than chance in age; no single site stands out."
    (said,) = [remark for remark in db.merging.remarks(findings.alignment) if remark.kind == "sites differ"]
    assert said.advice.startswith("Let them differ")


@pytest.mark.parametrize("seed", range(3))
def test_where_the_model_lets_sites_differ_nobody_is_said_to_disagree_and_nothing_overlaps(seed):
    rng, columns = np.random.default_rng(seed), {"age": db.columns.Gaussian(60.0, 10.0), "days": "real"}
    model = db.LinearRegression("days", columns=columns, varying=("intercept",))
    posteriors = []
    for _ in range(6):
        age = rng.normal(60.0, 10.0, 60)
        days = rng.normal(0.0, 3.0) + 0.1 * (age - 60.0) + rng.normal(size=60)
        posteriors.append(model.fit(np.column_stack([age, days])).posterior)
    findings = Findings.by_name(db.align(posteriors), [f"site {number}" for number in range(6)])
    _, sure, agree = answer(findings)
    assert "overlap" not in sure
    assert "sites differ" not in sure
    assert agree == "No site stands out, and no difference between sites is clear; intercept may differ."
    assert "clearly" not in " ".join(remark.what for remark in db.merging.remarks(findings.alignment))


def test_no_table_says_that_sites_agree_in_an_intercept_where_the_test_says_that_they_differ(rng):
    """At age 0 all sites are uncertain, so I² would be 0; at the age of their persons it is far from it."""
    model = db.LogisticRegression("ill", columns={"age": db.columns.Gaussian(60.0, 12.0), "ill": "yes/no"})
    posteriors = []
    for level in (-1.5, -1.5, 0.0, 0.0):
        age = rng.normal(60.0, 12.0, 200)
        ill = rng.random(200) < 1.0 / (1.0 + np.exp(-level - 0.03 * (age - 60.0)))
        posteriors.append(model.fit(np.column_stack([age, ill])).posterior)
    findings = Findings.by_name(db.align(posteriors), ["a", "b", "c", "d"])
    assert "sites differ by more than chance in intercept" in answer(findings)[2].lower()
    drawn = page(findings.alignment, names=findings.names, reliability=False)
    table = re.search(r"<table>(?:(?!</table>).)*τ²</th>.*?</table>", drawn, flags=re.S).group()
    shown = dict(re.findall(r'<th scope="row">(age|intercept)</th>(.*?)</tr>', table, flags=re.S))
    assert re.findall(r">([^<>]+)</td>", shown["intercept"])[-2:] == ["–", "–"]
    assert re.findall(r">([^<>]+)</td>", shown["age"])[-2].endswith("%")


def test_a_table_of_clusters_names_columns_and_has_intervals(rng):
    """Of a share, too; a column that hardly varies keeps the digits of its interval."""
    model = db.GaussianMixture(2, 2, covariance="diagonal", prior_mean=(37.0, 0.0), columns=("temperature", "weight"))
    shards = [rng.normal([37.0, 0.0], [0.02, 1.0], (60, 2)) + [0.0, 9.0] * rng.integers(2, size=(60, 1)) for _ in "ab"]
    findings = Findings.by_name(db.align([model.fit(shard, rng=rng).posterior for shard in shards]), ["a", "b"])
    table = paper_table(findings, About(units={"weight": "kg"}))
    assert [row[0] for row in table.rows] == ["share", "temperature", "weight (kg)"]
    for row in table.rows:
        mean, low, high = (float(x) for x in re.findall(r"-?[\d.]+", row[1].replace("−", "-")))
        assert low < mean < high, row
    assert "mean-field, not calibrated" in table.meaning


def test_a_table_for_a_paper_does_not_call_intervals_exact_where_sites_differ(rng):
    columns = {"age": db.columns.Gaussian(50.0, 10.0), "stay": "real"}
    model = db.LinearRegression("stay", columns=columns)
    shards = [np.column_stack([age := rng.normal(50, 10, 80), age + 20 * k + rng.normal(size=80)]) for k in range(5)]
    findings = Findings.by_name(db.align([model.fit(shard).posterior for shard in shards]), [*"abcde"])
    table = paper_table(findings, About())
    assert "exact if the model held; they are too narrow, because sites differ" in table.meaning
    assert "probably too narrow" in table.head[1]
    assert "are exact" not in page(findings.alignment)
    robust = replace(findings, calibrated=db.calibrate(model, shards, findings.merged, method="robust"))
    said = paper_table(robust, About())
    assert "too narrow" not in said.meaning + said.head[1] + " ".join(answer(robust)), "they are for the mean of sites"


def test_a_ratio_is_never_rounded_to_zero():
    assert interval_text(Interval(26.0, 0.25, 2685.0), "times as high") == "26 times as high (0.25 to 2,700)"
    assert interval_text(Interval(1.1, 0.53, 2.2)) == "1.1 (0.5 to 2.2)"
    assert interval_text(Interval(0.0, -0.94, 0.9)) == "0.0 (−0.9 to 0.9)"


def test_numbers_below_an_axis_have_room():
    """Long ones are written at every second line."""
    rows = [Line("a", Interval(25_000.0, 24_000.0, 26_000.0)), Line("b", Interval(70_000.0, 69_000.0, 71_000.0))]
    drawn = intervals(rows, name="income")
    places = [float(x) for x in re.findall(r'class="tick" x="([\d.]+)"', drawn)]
    assert len(places) > 1
    assert min(np.diff(places)) >= 7 * len("30,000")
    assert drawn.count('class="grid"') > len(places)


def test_commands_in_sentences_are_shown_as_code(rng):
    assert "`" not in re.sub("<style>.*?</style>", "", page(findings_of([0.5, 0.5], rng).alignment), flags=re.S)


def test_a_forest_of_many_sites_with_long_names_shows_each_and_how_far_they_differ(rng):
    """Thirty sites are no rare meta-analysis, and their names begin alike."""
    model = db.LinearRegression("y", columns={"x": db.columns.Gaussian(0, 1), "y": db.columns.Gaussian(0, 1)})
    names = [f"University Hospital of Town {letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
    columns = [(x := rng.normal(size=40), x * rng.normal(1, 0.4) + rng.normal(size=40)) for _ in names]
    fits = [model.fit(np.column_stack(site)).posterior for site in columns]
    text = page(db.align(fits), names=names)
    assert all(f">…{name[-1]}</text>" in text for name in names)
    assert re.search(r"I² [1-9]\d%, τ²", text)
    assert told_apart(["north", "south"], 18) == {"north": "north", "south": "south"}
    long = "a name without any mark in it"
    assert told_apart([long], 18) == {long: "a name without an…"}
