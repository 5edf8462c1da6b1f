"""Ways around the rules that somebody might find: each is shut, and ordinary data still pass."""

import json

import numpy as np
import pytest
from patients import write_csv

import decbayes as db
from decbayes.disclosure import Rules, guarded, prepared
from decbayes.disclosure.manifest import manifest_in
from decbayes.errors import NotDisclosed
from decbayes.files import load, load_note
from decbayes.models.core.evaluation import rows_of

RULES = Rules()


def contents(path):
    """All that a file says: its structure, its note and its numbers."""
    posterior = load(path)
    told = json.dumps(posterior.structure.description()) + json.dumps(load_note(path))
    return told, posterior


def test_a_level_that_only_held_back_rows_have_is_not_named(run, tmp_path, table):
    held = rows_of(200, 0.25)[1]
    table["disease"][17] = "flu"
    table["disease"][held[0]] = "porphyria"
    write_csv(tmp_path / "a.csv", table)
    assert run("fit classes a.csv --hold-back 0.25 -o a")[0] == 0
    told, _ = contents("a")
    assert "porphyria" not in told
    assert manifest_in(load_note("a")).left_out == {"held back": 50}
    assert manifest_in(load_note("a")).rows == 150


def test_rows_left_out_are_counted_by_reason(run, tmp_path, table):
    table["bmi"] = np.where(np.arange(200) < 8, "", table["bmi"].astype(str))
    write_csv(tmp_path / "a.csv", table)
    line = ["fit", "linear-regression", "a.csv", "--formula", "cost ~ age + bmi + (1 | site)", "-o", "a"]
    assert run([*line, "--site", "north"])[0] == 0
    manifest = manifest_in(load_note("a"))
    assert (manifest.rows, manifest.left_out, manifest.site) == (192, {"missing values": 8}, "north")
    assert manifest.model == "LinearRegression: cost ~ age + bmi + (1 | site)"
    assert manifest.date


@pytest.mark.parametrize(
    "formula", ["y ~ a + b:c", "y ~ 0 + a", "y ~ a + (1 + a | clinic)", "y ~ a + b + (0 + b | site)", "y ~ 1"]
)
def test_the_formula_in_a_manifest_is_the_one_that_was_fitted(formula, rng):
    from decbayes.disclosure.drafting import in_words

    frame = {name: rng.normal(size=40) for name in ("y", "a", "b", "c")} | {"clinic": np.repeat(["p", "q"], 20)}
    model = (
        db.LinearRegression(target="y", columns={"y": db.columns.Gaussian()})
        if formula == "y ~ 1"
        else db.LinearRegression.from_frame(frame, formula)
    )
    assert in_words(model) == f"LinearRegression: {formula}"


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("kind", ["real", "text", "yes"])
def test_a_column_that_few_have_a_value_of_says_nothing(run, tmp_path, table, rows, kind):
    value = {"real": "1234.5", "text": "porphyria", "yes": "yes"}[kind]
    table["lab"] = np.where(np.arange(200) < rows, value, "")
    write_csv(tmp_path / "a.csv", table)
    status, _, errors = run("fit classes a.csv -o a")
    assert status == 1
    assert "fewer than 5 persons have a value. Leave the column out" in errors
    assert kind == "yes" or value not in errors
    assert run("columns a.csv -o a.columns")[0] == 0
    text = (tmp_path / "a.columns").read_text()
    assert '["lab", "missing"]' in text
    assert "1234" not in text
    # Another site has the column, and this one has hardly any value.
    agreed = {"age": db.columns.Gaussian(50, 20), "lab": db.columns.Gaussian(0, 1000)}
    frame = {"age": table["age"], "lab": np.where(np.arange(200) < rows, 1234.5, np.nan)}
    safe = prepared(db.LatentClasses(2, columns=agreed), frame, RULES, agreed=True)
    assert np.isnan(safe.data[:, 1]).all()


def test_units_of_a_column_do_not_tell_the_one_value_that_differs(run, tmp_path, table):
    table["gene"] = np.where(np.arange(200) == 17, 3.7, 0.0)
    write_csv(tmp_path / "a.csv", table)
    assert run(["fit", "linear-regression", "a.csv", "--formula", "cost ~ gene + age", "-o", "a"])[0] == 0
    gene = db.model_for(load("a").structure).columns["gene"]
    assert (gene.centre, gene.scale) == (0.0, 1.0)
    assert run("columns a.csv -o a.columns")[0] == 0
    assert '["gene", "real", 0.0, 1.0' in (tmp_path / "a.columns").read_text()


@pytest.mark.parametrize("model", ["linear-regression", "classes"])
def test_counts_of_three_numbers_do_not_follow_from_their_sums(run, tmp_path, table, model):
    children = np.repeat([0, 1, 2], [100, 97, 3])
    table["children"] = children
    write_csv(tmp_path / "a.csv", table)
    line = ["--formula", "cost ~ children + age"] if model != "classes" else ["--kinds", "children=real"]
    assert run(["fit", model, "a.csv", *line, "-o", "a"])[0] == 0
    assert "rare values count as the nearest other" in str(load_note("a")["manifest"]["changed"])


def test_a_level_with_one_cost_above_zero_is_hidden_in_linear_regressions_too(run, tmp_path, table, rng):
    table["ward"] = np.where(np.arange(200) < 12, "burns", rng.choice(["heart", "bone"], 200))
    table["cost"] = np.where((np.arange(200) >= 12) | (np.arange(200) == 3), table["cost"], 0.0)
    table["cost"][100:] = 0.0
    write_csv(tmp_path / "a.csv", table)
    assert run(["fit", "linear-regression", "a.csv", "--formula", "cost ~ ward + age", "-o", "a"])[0] == 0
    assert "burns" not in contents("a")[0]


def test_an_answer_with_one_event_is_hidden_not_refused(run, tmp_path, table):
    table["smoker"] = np.where(np.arange(200) < 30, "yes", "no")
    table["died"] = np.where((np.arange(200) == 3) | (np.arange(200) > 120), "yes", "no")
    write_csv(tmp_path / "a.csv", table)
    assert run(["fit", "logistic-regression", "a.csv", "--formula", "died ~ smoker + age", "-o", "a"])[0] == 0
    contribution = np.asarray(load("a").contribution["coefficients"])[0]
    assert contribution[load("a").structure.labels["coefficients"].index("smoker")] == 0.0


def test_products_of_numbers_and_levels_that_one_row_has_are_refused_without_naming_levels(run, tmp_path, table):
    table["drinks"] = np.where(np.arange(200) % 3 == 0, np.arange(200) % 7, 0) * (table["sex"] == "m")
    table["drinks"][np.flatnonzero(table["sex"] == "f")[0]] = 4
    write_csv(tmp_path / "a.csv", table)
    formula = "cost ~ age + died:sex:smoker:disease"
    status, _, errors = run(["fit", "linear-regression", "a.csv", "--formula", formula, "-o", "a"])
    assert status == 1
    assert "combinations in 'died:sex:smoker:disease'" in errors
    assert not any(level in errors for level in ("gout", "copd", "asthma"))


def test_few_rows_of_one_clinic_are_no_clinic_of_their_own(rng):
    frame = {"y": rng.normal(size=100), "x": rng.normal(size=100), "clinic": np.repeat(["a", "b", "c"], [57, 40, 3])}
    model = db.LinearRegression.from_frame(frame, "y ~ x + (1 | clinic)")
    safe = prepared(model, frame, RULES)
    _, times = np.unique(safe.data[:, -1], return_counts=True)
    assert sorted(times) == [43, 57]


def test_the_difference_from_an_earlier_file_is_no_single_record(run, rng, tmp_path):
    old = np.append(rng.normal(size=(100, 1)), 50.0 + rng.normal(size=(100, 1)), axis=0)
    new = np.append(rng.normal(size=(99, 1)), [[53.125]], axis=0)
    np.save("old.npy", old)
    np.save("new.npy", new)
    assert run("fit mixture old.npy --components 2 --variance 1 --prior-variance 1000 -o old")[0] == 0
    assert run("fit mixture new.npy --prior old -o new")[0] == 0
    difference = np.asarray(load("new").contribution["components"]) - np.asarray(load("old").contribution["components"])
    added = np.asarray(load("new").contribution["weights"] - load("old").contribution["weights"])[:, 0]
    assert sorted(added.round(6)) == [0.0, 100.0]
    assert np.abs(difference[added.argmin()]).max() < 1e-6


def test_several_small_components_that_are_alike_make_one_that_is_not_small(rng):
    points = np.concatenate([rng.normal(size=(60, 1)), [[40.0], [41.0], [40.5]], [[47.0], [48.0], [47.5]]])
    model = db.GaussianMixture(3, 1, variance=1.0, prior_variance=1000.0)
    posterior = model.fit(points, rng=3).posterior
    sizes = np.asarray(guarded(model, posterior, points, RULES).posterior.contribution["weights"])[:, 0]
    assert sorted(sizes.round(6)) == [0.0, 6.0, 60.0]


def test_saving_in_python_notices_what_was_not_pooled(table):
    model = db.LatentClasses.from_frame(table, components=2)
    with pytest.raises(NotDisclosed, match=r"db\.disclosure\.prepared"):
        db.save(model.fit(table, rng=1).posterior, "a", data=table)
    safe = prepared(model, table, RULES)
    db.save(safe.model.fit(safe.data, rng=1).posterior, "a", data=safe.data)
    assert "porphyria" not in contents("a")[0]


@pytest.mark.parametrize(
    "model", [db.models.GaussianMean(dimension=2), db.LatentFeatures(2, 2), db.GaussianMixture(1, 2, variance=1.0)]
)
def test_the_one_value_of_a_column_that_differs_is_hidden(model):
    points = np.zeros((40, 2))
    points[:, 0] = np.arange(40) % 9
    points[7, 1] = 3.7
    assert (prepared(model, points, RULES).data[:, 1] == 0).all()
    with pytest.raises(NotDisclosed):
        db.save(model.fit(points, rng=0).posterior, "a", data=points)


def test_rare_values_in_large_files_are_refused(tmp_path):
    points = np.zeros((5000, 2))
    points[:, 0] = np.arange(5000) % 9
    np.save(tmp_path / "clean.npy", points)
    points[4999, 1] = 3.7
    np.save(tmp_path / "rare.npy", points)
    model = db.GaussianMixture(1, 2, variance=1.0)
    mapped = np.load(tmp_path / "clean.npy", mmap_mode="r")
    assert prepared(model, mapped, RULES).data is mapped
    with pytest.raises(NotDisclosed, match="the first is number 1"):
        prepared(model, np.load(tmp_path / "rare.npy", mmap_mode="r"), RULES)


def german(table):
    """The table as a spreadsheet writes it where commas are decimal."""
    rows = zip(*table.values(), strict=True)
    return "\n".join([";".join(table), *(";".join(str(cell).replace(".", ",") for cell in row) for row in rows)])


def test_semicolons_and_decimal_commas_are_read(run, tmp_path, table):
    write_csv(tmp_path / "a.csv", table)
    (tmp_path / "b.csv").write_text(german(table), encoding="utf-8")
    formula = ["--formula", "cost ~ age + bmi + sex"]
    assert run(["fit", "linear-regression", "a.csv", *formula, "-o", "a"])[0] == 0
    assert run(["fit", "linear-regression", "b.csv", *formula, "-o", "b"])[0] == 0
    assert load("a") == load("b")


EXPORTS = {
    "Unicode text": lambda text: text.replace(";", "\t").replace(",", ".").replace("\n", "\r\n").encode("utf-16"),
    "with its separator": lambda text: ("sep=;\r\n" + text.replace("\n", "\r\n")).encode("utf-8-sig"),
    "comma in a name": lambda text: text.replace("bmi;", '"bmi; weight, height";', 1).replace("sex;", "sex, gender;", 1)
    .encode(),
}  # fmt: skip


@pytest.mark.parametrize("kind", EXPORTS)
def test_exports_of_spreadsheets_are_read(run, tmp_path, table, kind):
    write_csv(tmp_path / "a.csv", table)
    (tmp_path / "b.csv").write_bytes(EXPORTS[kind](german(table)))
    for name in "ab":
        line = ["fit", "linear-regression", f"{name}.csv", "--formula", "cost ~ age + smoker", "-o", name]
        status, _, errors = run(line)
        assert status == 0, errors
    assert load("a") == load("b")


def test_other_encodings_are_refused_with_what_to_do(run, tmp_path):
    (tmp_path / "a.csv").write_bytes("Größe;Alter\n1,80;40\n".encode("latin-1"))
    status, _, errors = run("columns a.csv -o a.columns")
    assert status == 1
    assert "CSV UTF-8" in errors
    assert not (tmp_path / "a.columns").exists()


def test_a_table_with_bars_between_columns_is_refused(run, tmp_path):
    (tmp_path / "a.csv").write_text("name|age\n" + "\n".join(f"Person {n}|{n + 20}" for n in range(60)))
    status, _, errors = run("columns a.csv -o a.columns")
    assert status == 1
    assert "'|'" in errors
    assert "Person" not in errors
    assert not (tmp_path / "a.columns").exists()


@pytest.mark.parametrize("first", ["flu,26.1,71,m", "flu,26,71,m"])
def test_a_first_line_of_data_does_not_name_columns(run, tmp_path, rng, first):
    rows = [f"{rng.choice(['flu', 'gout'])},{20 + n % 9},{60 + n % 20},{rng.choice(['f', 'm'])}" for n in range(60)]
    (tmp_path / "a.csv").write_text("\n".join([first, *rows]))
    status, _, errors = run("columns a.csv -o a.columns")
    assert status == 1
    assert "begins with the names of its columns" in errors
    assert "71" not in errors


def test_years_may_be_names_of_columns(run, tmp_path, rng):
    rows = [f"{rng.choice(['north', 'south'])},{rng.normal():.2f},{rng.normal():.2f}" for _ in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["region,2019,2020", *rows]))
    assert run("columns a.csv -o a.columns")[0] == 0


def test_an_interrupted_fit_leaves_a_draft_under_the_rules(run, tmp_path, rng, monkeypatch):
    from decbayes.models.core.ascent import FitInterrupted

    points = np.append(rng.normal(size=(60, 1)), [[50.0]], axis=0)
    np.save("a.npy", points)
    original = db.GaussianMixture.fit

    def interrupted(self, data, **options):
        raise FitInterrupted(original(self, data, **options | {"progress": None}))

    line = "fit mixture a.npy --components 2 --variance 1 --prior-variance 1000 -o a"
    with monkeypatch.context() as patch:
        patch.setattr(db.GaussianMixture, "fit", interrupted)
        assert run(line)[0] == 130
    assert sorted(np.asarray(load("a").contribution["weights"])[:, 0].round(6)) == [0.0, 61.0]
    assert manifest_in(load_note("a")).rules == RULES
    status, _, errors = run(line)
    assert (status, "Continuing" in errors) == (0, True)
