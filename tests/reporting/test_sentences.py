"""Every model's report begins with what people would say: names of columns, units, intervals, and no jargon."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes import models
from decbayes.base.display import digits
from decbayes.models.core.registry import SHIPPED
from decbayes.posterior import MEAN_FIELD
from decbayes.reporting.paper_tables import paper_table
from decbayes.reporting.reports import page
from decbayes.views import Findings
from decbayes.views._effect_sentences import Effects
from decbayes.views.answers import answer
from decbayes.views.participants import About, Participant
from decbayes.views.values import Estimate, Interval, interval_text, number

SITES = ("north", "south")
JARGON = re.compile(
    r"\b(mean.field|variational|calibrated|nats|slots?|posteriors?|margin|entry|factor|" + "|".join(SHIPPED) + r")\b",
    re.I,
)
RANGE = r"\(−?[\d.,]+%? to −?[\d.,]+%?\)"
UNITS = {"age": "years", "days": "d", "length": "mm", "load": "percent"}


def patients(rng, size):
    age, ward = rng.normal(60.0, 10.0, size).round(1), rng.choice(["bone", "heart"], size)
    effect = 0.08 * (age - 60.0) + 1.0 * (ward == "heart")
    days, late = rng.exponential(np.exp(3.0 - effect)), rng.logistic(effect)
    return {
        "age": age, "ward": ward, "stay": 5.0 + effect + rng.normal(size=size),
        "visits": rng.poisson(np.exp(0.5 + effect)), "died": rng.random(size) < 1 / (1 + np.exp(-effect)),
        "days": np.minimum(days, 40.0) + 0.1, "dead": days < 40.0,
        "pain": np.array(["none", "mild", "strong"])[np.digitize(late, [-0.5, 1.0])],
    }  # fmt: skip


def regression(kind, formula, **settings):
    rng = np.random.default_rng(1)
    shards = [patients(rng, 150) for _ in SITES]
    model = kind.from_frame(
        {name: np.concatenate([each[name] for each in shards]) for name in shards[0]}, formula, **settings
    )
    return [model.fit(shard).posterior for shard in shards]


def fitted(model, shards):
    return [model.fit(shard, rng=np.random.default_rng(0)).posterior for shard in shards]


def mixture(model, draw):
    """Two kinds of rows, of which the first is twice as frequent."""
    rng = np.random.default_rng(2)
    return fitted(model, [draw(rng, (np.arange(150) % 3 == 0).astype(int)) for _ in SITES])


def classes():
    def draw(rng, kind):
        return {"age": rng.normal(30.0 + 40.0 * kind, 4.0), "smoker": rng.random(len(kind)) < 0.1 + 0.8 * kind}

    rng = np.random.default_rng(0)
    return mixture(db.LatentClasses.from_frame(draw(rng, np.arange(90) % 2), components=2), draw)


def membership():
    rng = np.random.default_rng(6)
    shards = []
    for _ in SITES:
        age = rng.normal(60.0, 10.0, 150)
        ill = rng.random(150) < 1 / (1 + np.exp(-0.15 * (age - 60.0)))
        shards.append({"age": age} | {name: rng.random(150) < np.where(ill, 0.9, 0.1) for name in "abcd"})
    found = db.LatentClasses.from_frame(shards[0], names="abcd", components=2).fit(shards[0], rng=0).posterior
    model = models.ClassMembership.from_frame(shards[0], "~ age", classes=found)
    return [model.fit(shard).posterior for shard in shards]


def states():
    rng = np.random.default_rng(3)
    shards = [[{"load": rng.normal(20.0 + 60.0 * (np.arange(40) % 20 < 10), 3.0)} for _ in range(5)] for _ in SITES]
    return fitted(db.HiddenMarkov.from_frame(shards[0][0], states=2), shards)


def topics():
    rng, words = np.random.default_rng(4), ("nurse", "ward", "tide", "mast")
    share = np.array([[0.5, 0.48, 0.01, 0.01], [0.01, 0.01, 0.5, 0.48]])
    shards = [csr_array(np.array([rng.multinomial(20, share[k % 2]) for k in range(30)])) for _ in SITES]
    return fitted(db.LatentDirichletAllocation(2, vocabulary=words), shards)


def lines():
    def draw(rng, kind):
        x = rng.normal(10.0, 3.0, len(kind))
        return {"age": x, "y": np.where(kind, 40.0 - x, 2.0 * x) + rng.normal(size=len(kind))}

    rng = np.random.default_rng(0)
    return mixture(db.RegressionMixture.from_frame(draw(rng, np.arange(90) % 2), "y ~ age", components=2), draw)


def features():
    rng = np.random.default_rng(5)
    parts = 3.0 * (np.arange(16) // 8 == np.arange(2)[:, None])
    return fitted(
        db.LatentFeatures(2, 16), [(rng.random((80, 2)) < 0.5) @ parts + rng.normal(size=(80, 16)) for _ in SITES]
    )


def means():
    return fitted(models.GaussianMean(1.0), [np.random.default_rng(seed).normal(3.0, 1.0, (90, 1)) for seed in (0, 1)])


def gaussian(rng, kind):
    return rng.normal(np.array([[20.0], [45.0]])[kind], 2.0)


LEVELS = {"levels": ("none", "mild", "strong")}
CASES = {
    "LinearRegression": (lambda: regression(db.LinearRegression, "stay ~ age + ward"),
        rf"The mean of stay is 0\.\d+ higher {RANGE} with each year of age and [\d.]+ higher {RANGE} with ward = "),
    "LogisticRegression": (lambda: regression(db.LogisticRegression, "died ~ age + ward"),
        rf"The odds of died = yes are 1\.\d+ times as high {RANGE} with each year of age and [\d.]+ .* as with bone"),
    "PoissonRegression": (lambda: regression(db.PoissonRegression, "visits ~ age + ward"),
        rf"The mean of visits is 1\.\d+ times as high {RANGE} with each year of age"),
    "NegativeBinomialRegression": (lambda: regression(db.NegativeBinomialRegression, "visits ~ age + ward"),
        rf"The mean of visits is 1\.\d+ times as high {RANGE} with each year of age"),
    "SurvivalRegression": (lambda: regression(db.SurvivalRegression, "Surv(days, dead) ~ age + ward"),
        rf"The hazard of dead = yes is 1\.\d+ times as high {RANGE} with each year of age"),
    "OrderedRegression": (
        lambda: regression(db.OrderedRegression, "pain ~ age + ward", **LEVELS, link="cumulative"),
        rf"The odds of a higher level of pain \(none < mild < strong\) are 1\.\d+ times as high {RANGE} with each"),
    "MultinomialRegression": (lambda: regression(db.MultinomialRegression, "pain ~ age"),
        rf"[Tt]he odds of pain = strong against mild are 1\.\d+ times as high {RANGE} with each year of age"),
    "ClassMembership": (membership,
        rf"The odds of class \d against class \d are [01]\.\d+ times as high {RANGE} with each year of age .*\)\. "
        r"Class 0: ([abcd] \d+%, ){2}[abcd] \d+%; class 1: ([abcd] \d+%, ){2}[abcd] \d+%\."),
    "GaussianMean": (means,
        rf"The estimates are x0 [23]\.\d+ {RANGE} \(90% intervals\)\."),
    "GaussianMixture": (
        lambda: mixture(db.GaussianMixture(2, 1, variance=4.0, prior_variance=1e3, columns=("length",)), gaussian),
        rf"Cluster \d makes up 6\d% of observations {RANGE}, with length (19|20)\.\d+ mm {RANGE};"),
    "PoissonMixture": (lambda: mixture(db.PoissonMixture(2, 1), lambda rng, kind: rng.poisson(2 + 20 * kind)[:, None]),
        rf"Cluster \d makes up 6\d% of observations {RANGE}, with x0 \d\.\d+ {RANGE};"),
    "BernoulliMixture": (
        lambda: mixture(db.BernoulliMixture(2, 4), lambda rng, kind: rng.random((150, 4)) < 0.1 + 0.8 * kind[:, None]),
        rf"with x\d = yes in \d+% {RANGE}"),
    "CategoricalMixture": (
        lambda: mixture(db.CategoricalMixture(2, categories=(3,) * 4),
            lambda rng, kind: np.where(rng.random((150, 4)) < 0.9, 2 * kind[:, None], 1)),
        rf"with x\d = [02] in \d+% {RANGE}"),
    "RegressionMixture": (lines, rf"Group \d makes up \d+% .* and change of y per unit of age −?[\d.]+ {RANGE}"),
    "LatentClasses": (classes,
        rf"Class \d makes up 6\d% of observations {RANGE}, with age (29|30)\.?\d* years {RANGE} and smoker"),
    "HiddenMarkov": (states,
        rf"State \d makes up \d+% of steps, with load [\d.]+ percent {RANGE} and steps per visit [\d.]+ {RANGE}"),
    "LatentDirichletAllocation": (topics,
        r"The topic “.*” makes up \d+% of words; the topic “.*” makes up \d+% of words\.$"),
    "LatentFeatures": (features, rf"Feature \d is present in \d+% of observations {RANGE}"),
}  # fmt: skip


WITHOUT_INTERVALS_OF_SHARES = {"LatentDirichletAllocation", "HiddenMarkov"}


def test_every_model_has_a_sentence_here():
    assert CASES.keys() == SHIPPED.keys()


@pytest.mark.parametrize("name", CASES)
def test_what_was_found_has_columns_units_and_intervals_and_no_jargon(name, monkeypatch):
    monkeypatch.setattr(Findings, "heterogeneity", {})  # simulates sites, which takes seconds
    make, expected = CASES[name]
    posteriors = make()
    findings = Findings.by_name(db.align(posteriors), SITES)
    sentences = answer(findings, About(units=UNITS))
    assert re.search(expected, sentences[0]), sentences[0]
    assert not (found := re.search("component", " ".join(sentences)) or JARGON.search(" ".join(sentences))), found
    assert not re.search(r"\ba [aeiou]|\(.*\(not|  ", sentences[0])
    text = page(findings.alignment, names=SITES, about=About(units=UNITS), reliability=False, title="T")
    seen = re.sub("<style>.*?</style>", "", text.split('<details class="fold"')[0], flags=re.S)
    # Tooltips are for a closer look; what people read first has no word of ours.
    read = re.sub(r"<title>.*?</title>|<[^>]+>", " ", seen, flags=re.S)
    assert not (found := JARGON.search(read)), read[found.start() - 80 : found.end() + 80]
    assert ("have no interval" in sentences[1]) == (name in WITHOUT_INTERVALS_OF_SHARES)
    advised = re.search("<code>decbayes study calibrate</code> at each site", text)
    assert bool(advised) == (MEAN_FIELD in findings.merged.uncertainty and name != "LatentDirichletAllocation")
    assert ("until sites calibrate them" in sentences[1]) == (name == "HiddenMarkov")
    paper = paper_table(findings, About())
    assert not re.search("|".join(SHIPPED), f"{paper.title} {paper.meaning}")
    assert "threshold +" not in text, "a formula is as people would write it"


def test_numbers_in_sentences_are_those_of_the_posterior(monkeypatch):
    monkeypatch.setattr(Findings, "heterogeneity", {})
    posteriors = CASES["GaussianMixture"][0]()
    findings = Findings.by_name(db.align(posteriors), SITES)
    rows = [row for row in findings.merged.summary() if row["factor"] == "components"]
    for row in rows:
        assert (
            interval_text(Interval(row["mean"], row["lower"], row["upper"]), "mm")
            in answer(findings, About(units=UNITS))[0]
        )


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1.894, 1.331, 2.696), "1.9 kg (1.3 to 2.7)"),
        ((0.3148, 0.2411, 0.3886), "0.31 kg (0.24 to 0.39)"),
        ((1.01503, 1.01159, 1.01844), "1.015 kg (1.012 to 1.018)"),
        ((-0.04, -0.31, 0.002), "−0.04 kg (−0.31 to 0.00)"),
        ((12345.6, 11000.0, 13500.0), "12,346 kg (11,000 to 13,500)"),
    ],
)
def test_numbers_have_the_digits_that_their_interval_leaves(values, text):
    assert interval_text(Interval(*values), "kg") == text


def test_sequences_of_persons_are_counted_as_persons(monkeypatch):
    monkeypatch.setattr(Findings, "heterogeneity", {})
    findings = Findings.by_name(db.align(states()), SITES)
    sites = {site: Participant(rows=5, persons=5, has_person_column=True) for site in SITES}
    about = About(participants=sites)
    assert "This rests on 10 persons (10 sequences) at 2 sites;" in answer(findings, about)[1]
    shown = re.findall(r"<div><b>(\d+)</b><span>(\w+)</span>", page(findings.alignment, names=SITES, about=about))
    assert ("10", "persons") in shown
    sites[SITES[0]] = Participant(rows=5, persons=5)
    assert "This rests on at most 10 persons (10 sequences)" in answer(findings, About(participants=sites))[1]


def test_a_column_may_be_called_like_one_of_our_words(monkeypatch, rng):
    monkeypatch.setattr(Findings, "heterogeneity", {})
    table = {"weight": rng.normal(np.repeat([50.0, 90.0], 40), 3.0)}
    model = db.LatentClasses.from_frame(table, components=2)
    text = page(db.align(fitted(model, [table, table])), names=SITES, about=About(units={"weight": "kg"}))
    assert re.search(r"<dt>weight</dt><dd>(49|50)\.\d+ kg \(", text)


def test_effects_on_one_subject_are_told_together_where_its_clearest_is():
    against = SimpleNamespace(compared=("none", "mild", "strong"), against=lambda target, level: f"odds of {level}")
    model = SimpleNamespace(columns={}, outcome=against, target="pain", subject="odds")
    strengths = {"mild: age": 9.0, "strong: age": 6.0, "mild: ward": 3.0}
    estimates = [Estimate(1 + size, size, 2 + size, name, 1.0, null=0.0) for name, size in strengths.items()]
    told = Effects(model, estimates, About()).text()
    subjects = re.findall(r"odds of (mild|strong)", told)
    assert subjects == ["mild", "strong"], told
    assert told.index("ward") < told.index("odds of strong")


def test_the_pool_of_rare_categories_is_not_stated_as_an_effect():
    columns = {"sex": db.columns.Categorical("f", "m", "other")}
    model = SimpleNamespace(columns=columns, outcome=SimpleNamespace(compared=()), target="ill", subject="odds of ill")
    estimates = [
        Estimate(0.37, 0.3, 0.5, "sex=other", 1.0, null=1.0), Estimate(1.4, 1.1, 1.8, "sex=m", 1.0, null=1.0),
        Estimate(1.1, 0.9, 1.3, "sex=other:age", 1.0, null=1.0),
    ]  # fmt: skip
    told = Effects(model, estimates, About()).text()
    assert told.startswith("The odds of ill are 1.40 times as high")
    assert "with sex = m as with f" in told
    assert "other" not in told


@pytest.mark.parametrize(
    ("value", "count", "text"),
    [(999.6, 3, "1,000"), (99.7, 2, "100"), (12_345.6, 4, "12,346"), (0.01234, 2, "0.012"), (-1_234.0, 3, "-1,234")],
)
def test_large_numbers_are_not_written_as_powers_of_ten(value, count, text):
    assert digits(value, count) == text
    assert number(999.6) == "1,000"
