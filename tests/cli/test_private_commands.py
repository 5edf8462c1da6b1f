"""Private releases by files: from a plan to a result, and what is refused on the way."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import decbayes as db

AGREED = '[["age", "real", 50.0, 20.0, 0.1], ["sex", "categorical", "f", "m"], ["ill", "yes/no"]]'
FIT = "fit logistic-regression {site}.csv --formula ill~age+sex --agreed-columns agreed.columns --private --epsilon 3"
SHARED = "--site {site} --ledger {site}.ledger"


@pytest.fixture
def sites(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    (tmp_path / "agreed.columns").write_text(AGREED)
    (tmp_path / "narrow.columns").write_text(AGREED.replace('"m"', '"x"'))
    for site in ("north", "south"):
        age, sex = rng.normal(50, 20, 1317).round(1), rng.choice(["f", "m"], 1317)
        ill = rng.random(1317) < 1 / (1 + np.exp(-(age - 50) / 20))
        rows = [f"{a},{b},{'yes' if c else 'no'}" for a, b, c in zip(age, sex, ill, strict=True)]
        (tmp_path / f"{site}.csv").write_text("\n".join(["age,sex,ill", *rows]))
    (tmp_path / "all").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begun(run, *names):
    for site in names:
        status, _, text = run(f"{FIT} {SHARED} -o all/{site}.0.release".format(site=site))
        assert status == 0, text
        assert "release 1 of 5, ε = 3, δ = 1e-06 per person of 1 row" in text


def test_rounds_by_files_end_in_a_posterior_that_states_its_promise(run, sites):
    begun(run, "north", "south")
    for number in range(1, 5):
        for site in ("north", "south"):
            status, _, text = run(f"refine {site}.csv --private --folder all {SHARED}".format(site=site))
            assert status == 0, text
            assert f"release {number + 1} of 5" in text
    status, _, text = run("merge all -o merged.posterior")
    assert status == 0, text
    assert "2 sites, 5 of 5 releases each" in text
    shown = run("show merged.posterior")[1]
    assert "ε = 3, δ = 1e-06 per person of 1 row, added or removed" in " ".join(shown.split())
    assert "noise of private releases" in shown
    run("report merged.posterior -o report.html")
    assert "ε = 3, δ = 1e-06 per person" in (sites / "report.html").read_text()
    posterior = db.load("merged.posterior")
    age = db.model_for(posterior.structure).coefficients(posterior)[1]
    assert abs(age["mean"] - 0.05) < 5 * age["deviation"]
    spent = run("ledger north.ledger")[1]
    assert "spent ε = 3 of 3 at δ = 1e-06, in 5 releases; nothing left" in " ".join(spent.split())
    status, _, text = run("refine north.csv --private --folder all --site north --ledger north.ledger")
    assert status != 0
    assert "All 5 rounds are done, and the budget is spent" in text
    said = b"".join(path.read_bytes() for path in [*sites.glob("all/*"), sites / "merged.posterior"])
    exact = re.search(rb"(?<![0-9a-f.])(1317|2634)(?![0-9a-f])", said)  # digests may hold these digits
    assert exact is None, "no exact number of rows has left"


def test_what_is_spent_is_recorded_beside_the_data_and_a_refusal_records_nothing(run, sites):
    """Not in the folder of all releases, where sites would share one budget."""
    status, _, text = run(f"{FIT} --site north -o all/north.0.release".format(site="north"))
    assert (status, [path.name for path in (sites / "all").iterdir()]) == (0, ["north.0.release"]), text
    assert "1 release" in run("ledger")[1]
    run(f"{FIT} {SHARED} -o all/south.0.release".format(site="south"))
    status, _, text = run("refine north.csv --private --folder all --site north --ledger other/empty.ledger")
    assert (status, "does not know" in text or "ledger" in text) == (1, True)
    assert not (sites / "other").exists()


def test_a_site_waits_for_the_others(run, sites):
    begun(run, "north", "south")
    run("refine north.csv --private --folder all --site north --ledger north.ledger")
    status, _, text = run("refine north.csv --private --folder all --site north --ledger north.ledger")
    assert status == 0
    assert "Waiting for south" in text
    assert len(db.disclosure.Ledger("north.ledger").entries()) == 2


def test_a_second_release_of_the_same_round_exceeds_no_budget_unseen(run, sites):
    begun(run, "north")
    run("ledger north.ledger --budget 0.5 --approve Kim")
    status, _, text = run(f"{FIT} {SHARED} -o all/again.release".format(site="north"))
    assert status != 0
    assert "has spent ε = 0.467 of 0.5" in text
    assert "Nothing was released" in text
    assert not (sites / "all/again.release").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (FIT.replace("--agreed-columns agreed.columns ", ""), "found in data are not private"),
        (FIT.replace(" --epsilon 3", ""), "--private needs --epsilon"),
        (FIT.replace(" --private", ""), "go with --private"),
        (FIT + " --passes 3", "--passes does not go with --private"),
        ("fit mixture north.csv --columns age --components 2 --private --epsilon 1", "State where means are"),
        (FIT.replace("agreed.columns", "narrow.columns"), "none of the 2 agreed categories"),
        ("refine north.csv --private --folder all --site north", "There is no release in all"),
        ("refine north.csv --private", "Give --folder and --site"),
        ("refine north.csv --own a --others b --person age", "go with --private"),
    ],
)
def test_bad_input_gets_one_line_and_nothing_is_recorded(run, sites, words, reason):
    status, _, text = run(f"{words} -o all/x.release".format(site="north"))
    assert status != 0
    assert reason in text
    assert not list(sites.glob("**/*.ledger"))


def test_another_ledger_is_refused(run, sites):
    begun(run, "north", "south")
    status, _, text = run("refine north.csv --private --folder all --site north --ledger empty.ledger")
    assert status != 0
    assert "it is another site's ledger, or an old copy. Nothing was released" in text
    assert not list(sites.glob("all/north.1*"))
    assert not [*sites.glob("empty*")], "what was refused leaves no ledger"


def test_releases_and_posteriors_do_not_mix(run, sites):
    begun(run, "north")
    run("fit logistic-regression south.csv --like all/north.0.release -o south.posterior")
    status, _, text = run("merge all/north.0.release south.posterior -o m.posterior")
    assert status != 0
    assert "south.posterior is not a private release" in text
    # Units of a posterior may come from data.
    status, _, text = run("fit logistic-regression south.csv --like south.posterior --private --epsilon 1 -o s.release")
    assert (status != 0, "not a private release" in text, Path("s.release").exists()) == (True, True, False)


def test_a_plan_without_data_says_what_privacy_costs_or_that_it_is_useless(run, sites):
    plan = "plan logistic-regression --sites 4 --formula ill~age+sex --agreed-columns agreed.columns --private"
    status, printed, _ = run(f"{plan} --observations 2000 --epsilon 1")
    assert status == 0
    assert "about 1.2 times as wide as without noise (Q = 37.4), after 5 rounds" in " ".join(printed.split())
    status, _, text = run(f"{plan} --observations 200 --epsilon 1")
    assert status != 0
    assert "Useless here: Q = 3.7" in text
    assert "536 rows per site would do" in text
    numbers = json.loads(run(f"{plan} --observations 200 --epsilon 1 --shared-noise --json")[1])
    assert numbers["quality"] == pytest.approx(3 * 3.7, rel=0.02)
    status, _, text = run("plan mixture --components 2 --sites 3 --observations 200 --epsilon 1 --private")
    assert "this prior is so wide that clusters would be lost in its cells" in text


def test_nothing_prints_an_interval_where_none_would_hold(run, sites):
    """Clusters of one agreed column, by the commands: one round, and then nothing but means."""
    (sites / "age.columns").write_text('[["age", "real", 50.0, 20.0, 0.1]]')
    fit = "fit classes north.csv --columns age --components 2 --agreed-columns age.columns --private --epsilon 3"
    status, _, text = run(f"{fit} --site north --ledger north.ledger -o all/north.0.release")
    assert status == 0, text
    assert "release 1 of 1" in text
    assert run("merge all -o merged.posterior")[0] == 0
    shown = run("show merged.posterior")[1]
    assert "uncertainty: not known: use the means only" in shown
    assert "No interval is stated" in " ".join(shown.split())
    assert run("export merged.posterior -o merged.csv")[0] == 0
    assert all(line.endswith(",,,") for line in (sites / "merged.csv").read_text().splitlines()[1:])
    status, _, text = run("report merged.posterior -o merged.html")
    assert status != 0
    assert "private releases of classes and clusters have none that hold" in " ".join(text.split())
    assert not (sites / "merged.html").exists()
