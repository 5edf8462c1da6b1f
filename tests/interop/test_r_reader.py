"""The reader for R: every number of a summary is Python's. Skipped where R or jsonlite is not installed."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db

READER = Path(__file__).parents[2] / "r"
SUMMARY = """
for (file in list.files(file.path(commandArgs(TRUE)[1], "R"), full.names = TRUE)) source(file)
files <- Sys.glob("*.posterior")
rows <- lapply(files, function(file) summary(read_posterior(file), top = 5))
cat(jsonlite::toJSON(setNames(rows, sub(".posterior", "", files, fixed = TRUE)), digits = NA, na = "string"))
"""


def run_r(script, folder):
    (folder / "script.R").write_text(script, encoding="utf-8")
    command = ["Rscript", "--vanilla", "script.R", str(READER)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def r():
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    if subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("jsonlite is not installed for R")


def posteriors():
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal(centre, 1.0, (40, 2)) for centre in (-4.0, 0.0, 4.0)])
    for covariance in ("spherical", "diagonal", "full"):
        yield covariance, db.GaussianMixture(3, covariance=covariance).fit(points, rng=0).posterior
    yield "variance", db.GaussianMixture(3, variance=1.0).fit(points, rng=0).posterior
    texts = csr_array(rng.poisson(0.4, (60, 30)))
    yield "topics", db.LatentDirichletAllocation(3, [f"w{word:02}" for word in range(30)]).fit(texts, rng=0).posterior
    frame = {"x": rng.normal(size=200), "g": rng.choice(["a", "b", "c"], 200), "case": rng.choice(["no", "yes"], 200)}
    frame["y"] = frame["x"] + rng.normal(size=200)
    frame["count"] = rng.poisson(2.0, 200)
    import pandas as pd

    table = pd.DataFrame(frame)
    yield "linear", db.LinearRegression.from_frame(table, "y ~ x + g").fit(table).posterior
    yield "logistic", db.LogisticRegression.from_frame(table, "case ~ x + g").fit(table).posterior
    yield "poisson", db.PoissonRegression.from_frame(table, "count ~ x + g").fit(table).posterior
    table["site"] = rng.choice(["north", "south"], 200)
    own = db.LinearRegression.from_frame(table, "y ~ x + (1 + x | site)")
    yield "correlated", own.fit(table).posterior
    classes = db.LatentClasses.from_frame(table[["g", "case", "count"]], components=2)
    yield "classes", classes.fit(table[["g", "case", "count"]], rng=0).posterior
    runs = pd.DataFrame({"run": np.repeat(np.arange(6), 30), "x": rng.normal(size=180)})
    yield "states", db.HiddenMarkov.from_frame(runs, states=2, sequences="run").fit(runs, rng=0).posterior


def key(row):
    return row["factor"], row["component"], row["quantity"], str(row["entry"])


def test_summaries_read_in_r_have_pythons_numbers(r, tmp_path):
    written = dict(posteriors())
    for name, posterior in written.items():
        db.save(posterior, tmp_path / f"{name}.posterior", rules=None)
    answer = run_r(SUMMARY, tmp_path)
    assert answer.returncode == 0, answer.stderr
    read = json.loads(answer.stdout)
    assert read.keys() == written.keys()
    for name, posterior in written.items():
        expected = {key(row): row for row in posterior.summary(top=5)}
        assert len(read[name]) > 0
        for row in read[name]:
            ours = expected[key(row)]
            for quantity in ("mean", "deviation", "lower", "upper"):
                value = math.inf if row[quantity] == "Inf" else row[quantity]
                assert value == pytest.approx(ours[quantity], rel=2e-6, abs=1e-9), (name, row, ours)


def test_files_that_are_no_posteriors_are_refused_in_one_line(r, tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n" * 20, encoding="utf-8")
    model = db.models.GaussianMean(variance=1.0)
    db.save(model.fit(np.zeros((9, 1))).posterior, tmp_path / "whole.posterior", rules=None)
    content = (tmp_path / "whole.posterior").read_bytes()
    (tmp_path / "half.posterior").write_bytes(content[:-8])
    script = """
    for (file in list.files(file.path(commandArgs(TRUE)[1], "R"), full.names = TRUE)) source(file)
    for (file in c("table.csv", "half.posterior")) cat(tryCatch(read_posterior(file), error = conditionMessage), "\\n")
    """
    answer = run_r(script, tmp_path)
    assert answer.stdout.count("is not a posterior file of decbayes, or is damaged.") == 2, answer.stderr


def test_regressions_have_ratios_a_covariance_and_a_plot(r, tmp_path):
    posterior = dict(posteriors())["logistic"]
    db.save(posterior, tmp_path / "logistic.posterior", rules=None)
    script = """
    for (file in list.files(file.path(commandArgs(TRUE)[1], "R"), full.names = TRUE)) source(file)
    p <- read_posterior("logistic.posterior")
    pdf("plot.pdf"); plot(p); invisible(dev.off())
    cat(jsonlite::toJSON(list(ratios = ratios(p)$mean, deviations = sqrt(diag(vcov(p)))), digits = NA))
    """
    answer = run_r(script, tmp_path)
    assert answer.returncode == 0, answer.stderr
    values = json.loads(answer.stdout)
    rows = posterior.summary()
    np.testing.assert_allclose(values["ratios"], np.exp([row["mean"] for row in rows]), rtol=1e-9)
    np.testing.assert_allclose(values["deviations"], [row["deviation"] for row in rows], rtol=1e-9)
    assert (tmp_path / "plot.pdf").stat().st_size > 1000
