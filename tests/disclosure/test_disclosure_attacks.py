"""Whoever reads a file learns nothing about one person. Each attack is a closed form that works without rules."""

import json

import numpy as np
import pytest
from patients import write_csv
from scipy.sparse import csr_array

import decbayes as db
from decbayes.files import load, load_note

REGRESSION = "disease + age + sex + bmi + smoker"


def fit(run, line):
    status, _, errors = run(line)
    assert status == 0, errors
    return errors


def design(posterior, name="coefficients"):
    """XᵀWX and the labels of a regression's file."""
    (factor,) = [key for key in posterior.structure.families if key in posterior.structure.labels]
    labels = posterior.structure.labels[factor]
    side = len(labels)
    products = -2.0 * np.asarray(posterior.contribution[factor])[0, -(side**2) :].reshape(side, side)
    return products, labels


def rarest_flag(products, labels):
    """The fewest rows that any 0/1 column has, by the file."""
    flags = [place for place, label in enumerate(labels) if "=" in label]
    return min(products[place, place] for place in flags if products[place, place] > 1e-9)


@pytest.mark.parametrize(("rules", "seen"), [("--rules none", True), ("", False)])
def test_a_patient_cannot_be_read_from_a_linear_regression(run, csv, table, rules, seen):
    fit(
        run,
        ["fit", "linear-regression", "patients.csv", "--formula", f"cost ~ {REGRESSION}", "-o", "a", *rules.split()],
    )
    products, labels = design(load("a"))
    assert ("disease=porphyria" in labels) == seen
    if seen:
        # Her row of XᵀX is her record: divide by how often she is there.
        row = products[labels.index("disease=porphyria")]
        centre, scale = db.model_for(load("a").structure).columns["age"].zero_and_unit
        assert row[labels.index("age")] * scale + centre == pytest.approx(table["age"][17])
    else:
        assert rarest_flag(products, labels) >= 5 - 1e-6


def test_nor_from_a_logistic_one(run, csv):
    fit(run, ["fit", "logistic-regression", "patients.csv", "--formula", f"died ~ {REGRESSION}", "-o", "a"])
    products, labels = design(load("a"))
    assert not any("porphyria" in label for label in labels)
    weights = products.diagonal() / products[0, 0]
    flags = [place for place, label in enumerate(labels) if "=" in label]
    assert min(weights[flags]) > 4 / 200


def test_nor_from_latent_classes(run, csv):
    fit(run, "fit classes patients.csv -o a")
    posterior = load("a")
    counts = np.asarray(posterior.contribution["categorical"]).sum(axis=0)
    assert counts[counts > 0.5].min() >= 5 - 1e-6
    assert "porphyria" not in json.dumps(posterior.structure.description())


def test_nor_from_the_list_of_columns(run, csv):
    status, _, _ = run("columns patients.csv -o a.columns")
    assert status == 0
    text = (csv.parent / "a.columns").read_text()
    assert "porphyria" not in text
    assert '"other"' in text


def test_a_level_with_one_event_is_hidden(run, csv, table, rng):
    ward = rng.choice(["heart", "bone"], 200)
    ward[:12] = "burns"
    table["ward"], table["died"] = (
        ward,
        np.where(np.arange(200) == 3, "yes", np.where(np.arange(200) > 90, "yes", "no")),
    )
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    csv.write_text("\n".join(lines))
    fit(run, ["fit", "logistic-regression", "patients.csv", "--formula", "died ~ ward + age", "-o", "a"])
    assert not any("burns" in label for label in design(load("a"))[1])


def test_products_of_levels_are_cells_too(run, csv):
    status, _, errors = run(
        ["fit", "linear-regression", "patients.csv", "--formula", "cost ~ disease:sex:smoker + age", "-o", "a"]
    )
    assert (status, "combinations in 'disease:sex:smoker'" in errors) in ((1, True), (0, False))
    if status == 0:
        assert rarest_flag(*design(load("a"))) >= 5 - 1e-6


@pytest.mark.parametrize("term", ["I(1 / (age - 97.999999))", "I((age - 50) ** 21)", "I(exp(age / 2 - 49))"])
def test_a_computed_number_that_belongs_to_one_row_is_an_indicator(run, csv, table, term):
    """Its products with the outcome are nearly those of one patient; a smooth curve of age tells nobody."""
    table["age"] = np.array(table["age"], dtype=float).round()
    table["age"][7] = 98.0
    write_csv(csv, table)
    for formula, rules, refused in (
        (f"cost ~ sex + {term}", "", True),
        ("cost ~ sex + poly(age, 2) + log(age)", "", False),
        (f"cost ~ sex + {term}", "--rules none", False),
    ):
        line = ["fit", "linear-regression", "patients.csv", "--formula", formula, "-o", "a.posterior", *rules.split()]
        status, _, errors = run(line)
        assert (status != 0, "single them out" in errors) == (refused, refused), errors
    products, labels = design(read := load("a.posterior"))
    place, column = len(labels) - 1, db.model_for(read.structure).columns["cost"]
    outcomes = np.asarray(read.contribution["coefficients"])[0, -(len(labels) ** 2) - len(labels) :][: len(labels)]
    attacked = column.centre + column.scale * outcomes[place] / np.sqrt(products[place, place])
    np.testing.assert_allclose(attacked, table["cost"][7], atol=0.1 * column.scale)


def test_a_number_that_one_row_has_is_no_indicator(run, csv, table):
    table["gene"] = np.where(np.arange(200) == 17, 3.7, 0.0)
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    csv.write_text("\n".join(lines))
    fit(run, ["fit", "linear-regression", "patients.csv", "--formula", "cost ~ gene + age", "-o", "a"])
    products, labels = design(load("a"))
    gene = labels.index("gene")
    unit = db.model_for(load("a").structure).columns["gene"].zero_and_unit
    centred = products[gene, gene] / 200 - (products[gene, 0] / 200) ** 2
    assert centred == pytest.approx(0.0, abs=1e-9), unit


def corpus(rng, documents=60, words=40):
    counts = rng.poisson(1.0, size=(documents, words)) * (rng.random((documents, words)) < 0.5)
    counts[:, 30:] = 0
    counts[3, 33], counts[7, 34] = 9, 1  # two words of one document each
    return csr_array(counts)


def test_words_of_few_documents_cannot_be_told_from_absent_ones(rng):
    counts = corpus(rng)
    model = db.LatentDirichletAllocation(3, [f"w{number}" for number in range(40)])
    posterior = model.fit(counts, rng=1).posterior
    read = np.asarray(posterior.contribution["topics"].sum(axis=0)).ravel()
    assert read[33] == pytest.approx(9, abs=0.1)
    db.save(posterior, "a", data=counts)
    told = load("a").contribution["topics"].toarray()
    assert np.ptp(told[:, 30:], axis=1).max() == 0.0
    assert told.sum() == pytest.approx(counts.sum(), rel=1e-6)
    frequent = np.asarray((counts > 0).sum(axis=0)).ravel() >= 5
    np.testing.assert_allclose(told[:, frequent], posterior.contribution["topics"].toarray()[:, frequent])


def planted(rng):
    """Models with data in which few observations are far from all others."""
    far = np.append(rng.normal(size=(100, 2)), [[60.0, 60.0], [61.0, 61.0]], axis=0)
    yield db.GaussianMixture(2, 2, variance=1.0, prior_variance=1000.0), far, "weights"
    yield db.GaussianMixture(2, 2, covariance="diagonal"), far, "weights"
    counts = np.append(rng.poisson(2.0, size=(100, 2)), [[500, 500]], axis=0)
    yield db.PoissonMixture(2, 2), counts, "weights"
    answers = np.append(rng.random((100, 30)) < 0.1, np.ones((2, 30)), axis=0).astype(float)
    yield db.BernoulliMixture(2, 30), answers, "weights"


@pytest.mark.parametrize("case", range(4))
def test_no_component_rests_on_a_few(case, rng):
    model, data, weights = list(planted(rng))[case]
    posterior = model.fit(data, rng=2).posterior
    before = np.sort(np.asarray(posterior.contribution[weights])[:, 0])
    assert before[0] < 4
    db.save(posterior, "a", data=data)
    after = np.sort(np.asarray(load("a").contribution[weights])[:, 0])
    assert after[0] == pytest.approx(0.0, abs=1e-9)
    assert after.sum() == pytest.approx(before.sum())
    assert "joins another" in " ".join(load_note("a")["manifest"]["changed"])


def test_states_that_few_sequences_visit_are_joined(rng):
    columns = {"x": db.columns.Gaussian(0, 10)}
    sequences = [rng.normal(size=(30, 1)) for _ in range(25)]
    sequences[3][10:20] += 90.0
    model = db.HiddenMarkov(2, columns=columns)
    posterior = model.fit(sequences, rng=1).posterior
    assert model.presence(posterior, sequences).min() < 2
    db.save(posterior, "a", data=sequences)
    kept = load("a")
    moves = np.asarray(kept.contribution["transitions"])
    assert (np.abs(moves).sum(axis=1) < 1e-9).sum() == 1
    assert moves.sum() == pytest.approx(np.asarray(posterior.contribution["transitions"]).sum())


def test_a_feature_that_few_images_have_is_left_out(rng):
    shapes = np.array([[1.0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 9.0]])
    has = np.zeros((80, 2))
    has[:, 0], has[:2, 1] = rng.random(80) < 0.5, 1.0
    images = has @ shapes + 0.1 * rng.normal(size=(80, 6))
    model = db.LatentFeatures(2, 6, variance=0.01)
    posterior = model.fit(images, rng=1).posterior
    assert model.presence(posterior, images).min() < 5
    db.save(posterior, "a", data=images)
    kept = np.abs(np.asarray(load("a").contribution["features"])).sum(axis=1)
    assert sorted(kept > 1e-9) == [False, True]


@pytest.mark.parametrize("rows", [1, 5, 19])
def test_small_files_do_not_leave(run, tmp_path, rows):
    np.save(tmp_path / "a.npy", np.arange(2.0 * rows).reshape(rows, 2))
    status, _, errors = run("fit mean a.npy --variance 1 -o a")
    assert status == 1
    there = "is 1 observation" if rows == 1 else f"are {rows} observations"
    assert f"There {there}; a file needs at least 20" in errors
    assert not (tmp_path / "a").exists()


def test_a_regression_with_nearly_as_many_coefficients_as_rows_does_not_leave(run, tmp_path, rng):
    table = {f"x{place}": rng.normal(size=40) for place in range(20)} | {"y": rng.normal(size=40)}
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    status, _, errors = run("fit linear-regression a.csv --target y -o a")
    assert status == 1
    assert "21 coefficients of 40 persons" in errors
