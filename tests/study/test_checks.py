"""What the owner of data is told before a fit, on data that were made to show it."""

import json

import numpy as np
import pytest
from tables_of_patients import write_table

import decbayes as db
from decbayes.columns import YesNo
from decbayes.study import check
from decbayes.study.agreed_list import column_differences

RULES = db.disclosure.Rules()


def said(model, table, topic):
    statements = check(model, model.points(table), frame=table, rules=RULES)
    return [(statement.severity, statement.text) for statement in statements if statement.topic == topic]


def logistic(died, **columns):
    table = {**columns, "died": died}
    return db.LogisticRegression.from_frame(table, f"died ~ {' + '.join(columns)}", kinds={"died": "yes/no"}), table


def test_an_outcome_in_one_class_is_noticed():
    model, table = logistic([False] * 60, age=np.arange(60.0))
    ((severity, text),) = said(model, table, "outcome")
    assert severity == "look"
    assert "all 60 rows are no" in text


@pytest.mark.parametrize(("yes", "most"), [("", "dead"), ("alive", "dead"), ("dead", "alive"), ("", "alive")])
def test_rare_outcomes_are_named_in_the_columns_own_words(yes, most):
    died = [most] * 50 + ["alive" if most == "dead" else "dead"] * 10
    table = {"age": np.arange(60.0), "died": died}
    model = db.LogisticRegression.from_frame(table, "died ~ age", yes=yes)
    assert said(model, table, "outcome") == [
        ("look", f"10 of 60 rows are {died[-1]}: 5 per coefficient. Below 10, estimates lean on the prior")
    ]
    one_class = model.points({"age": table["age"], "died": [most] * 60})
    (statement,) = (statement for statement in check(model, one_class) if statement.topic == "outcome")
    assert f"all 60 rows are {most}:" in statement.text


def test_events_per_coefficient_are_not_rounded_up_to_enough():
    model, table = logistic(
        [True] * 39 + [False] * 100, age=np.arange(139.0), bmi=np.arange(139.0) % 7, dose=np.ones(139)
    )
    assert "9 per coefficient. Below 10" in said(model, table, "outcome")[0][1]


def test_sites_that_count_different_answers_as_yes_are_named_before_any_fit():
    sites = {"north": YesNo("dead", "alive"), "south": YesNo()}
    (difference,) = column_differences("died", sites)
    assert "'dead' at north, 'yes' at south" in difference
    with pytest.raises(db.errors.InvalidStructure, match=r"Column 'died': .*: dead, yes\..*--yes"):
        db.columns.agree(*({"died": column} for column in sites.values()))
    assert not column_differences("died", {"north": YesNo("dead", "alive"), "south": YesNo("dead", "unknown")})


def test_separation_by_a_number_is_noticed_and_nothing_else_is():
    age = np.arange(60.0) + 0.5
    model, table = logistic(list(age > 30), age=age)
    assert any("separates" in text for _, text in said(model, table, "column 'age'"))
    table["died"][3] = True
    assert not any("separates" in text for _, text in said(model, table, "column 'age'"))


def test_separation_by_a_level_is_noticed():
    ward = ["a"] * 30 + ["b"] * 30
    model, table = logistic([True, False] * 15 + [True] * 30, ward=ward)
    assert any("within b all outcomes are the same" in text for _, text in said(model, table, "column 'ward'"))


@pytest.mark.parametrize(("dispersion", "notable"), [(1e6, False), (1.0, True)])
def test_counts_that_vary_more_than_a_poisson_are_noticed(dispersion, notable):
    rng = np.random.default_rng(2)
    age = rng.normal(size=400)
    visits = rng.poisson(np.exp(1.0 + 0.3 * age) * rng.gamma(dispersion, 1.0 / dispersion, 400))
    table = {"age": age, "visits": visits}
    ((severity, text),) = said(db.PoissonRegression.from_frame(table, "visits ~ age"), table, "outcome")
    assert (severity == "look", "negative-binomial" in text) == (notable, notable)


def test_missing_values_and_levels_are_counted():
    table = {"x": [1.5, None, 2.5, 4.0] * 10, "g": ["a", "b", "b", None] * 10, "y": [1.0, 2.0, 4.0, 3.5] * 10}
    model = db.LinearRegression.from_frame({name: table[name][:3:2] * 20 for name in table}, "y ~ x + g", report=str)
    statements = check(model, np.empty((20, 3)), frame=table)
    assert "20 of 40 are left out" in statements[0].text
    assert any("10 of 40 values are missing" in statement.text for statement in statements)


def test_an_identifier_stops_the_check_and_nothing_is_listed(tmp_path, monkeypatch, capsys):
    from decbayes.cli import main

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    mail = [f"p{number}@example.org" for number in range(40)]
    write_table(
        tmp_path / "a.csv", {"email": mail, "y": rng.normal(size=40).round(3), "x": rng.normal(size=40).round(3)}
    )
    for line, status in (
        ("study new s --model classes --components 2 --sites a --rules usual", 0),
        ("study check a.csv --site a", 3),
    ):
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        assert (ended.value.code or 0) == status
    captured = capsys.readouterr()
    assert "identifies persons" in captured.out
    assert "example.org" not in captured.out
    assert not (tmp_path / "s" / "sites" / "a" / "a.columns").exists()


def test_archives_agree_on_words_that_enough_documents_have(tmp_path, monkeypatch, capsys):
    from decbayes.cli import main

    monkeypatch.chdir(tmp_path)
    rng, themes = np.random.default_rng(0), (["anchor", "mast", "tide"], ["pawn", "rook", "bishop"])
    for site, extra in (("a", "galleon"), ("b", "castling")):
        texts = [" ".join(rng.choice(themes[rng.integers(2)], 8)) for _ in range(40)]
        texts[0] += " secretname"
        texts[:6] = [f"{text} {extra}" for text in texts[:6]]
        lines = [json.dumps({"text": text}) for text in texts]
        (tmp_path / f"{site}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    commands = ["new s --model topics --topics 2 --most-share 1 --sites a,b --rules usual"]
    commands += ["check a.jsonl --site a", "check b.jsonl --site b"]
    commands += [f"{step} --site {site}" for site in "ab" for step in ("fit", "release --approve Kim")]
    for command in [*commands, "report"]:
        with pytest.raises(SystemExit) as ended:
            main(["study", *command.split()])
        assert not ended.value.code, command
    words = (tmp_path / "s" / "agreed.words").read_text(encoding="utf-8")
    assert "galleon" in words
    assert "castling" in words
    assert "secretname" not in words
    assert "secretname" not in capsys.readouterr().out
    assert (tmp_path / "s" / "results" / "report.html").exists()


def test_times_that_end_with_the_follow_up_are_no_categories_but_codes_for_missing_times_are_noticed():
    days = np.minimum(np.arange(1.0, 61.0) * 10.3, 365.0)
    table = {"old": [False, True] * 30, "days": days, "died": list(days < 365.0)}
    told = []
    db.SurvivalRegression.from_frame(table, "Surv(days, died) ~ old", report=told.append)
    assert not told
    table["days"] = np.where(days < 365.0, days, 99_999.0)
    db.SurvivalRegression.from_frame(table, "Surv(days, died) ~ old", report=told.append)
    assert "Column 'days'" in told[0]
    assert "a code for missing values" in told[0]
    db.LinearRegression.from_frame({"days": days, "y": days + 1.0}, "y ~ days", report=told.append)
    assert "Should it be a count or categorical?" in told[-1]
