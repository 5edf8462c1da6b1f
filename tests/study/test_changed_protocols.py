"""Anyone who can write to a study's folder can edit its protocol: a site does not follow silently."""

import pytest
from tables_of_patients import patients, write_table

from decbayes.disclosure import Rules
from decbayes.study import Protocol

NEW = ("study", "new", "stay", "--model", "linear-regression", "--formula", "days ~ age + ward", "--rules", "usual")


@pytest.fixture
def begun(run, tmp_path, rng):
    """A study whose site has listed its columns."""
    assert run(*NEW, "--sites", "north", "--approve", "north=Dr Kim")[0] == 0
    write_table(tmp_path / "north.csv", patients(rng, 60))
    assert run("study", "check", "north.csv", "--site", "north")[0] == 0
    return tmp_path / "stay" / "protocol.toml"


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("least_cell = 5\nleast_outcome = 2", "least_cell = 1\nleast_outcome = 1"), "least_cell is 1, not 5"),
        (("Dr Kim", "Dr Lee"), "Dr Lee approves, not Dr Kim"),
        (("Dr Kim", ""), "anybody approves, not Dr Kim"),
        (("# The", 'rules = "none"\n# The'), "no disclosure rules any more"),
    ],
)
def test_a_site_stops_at_a_protocol_that_allows_more_until_it_agrees(run, tmp_path, begun, edit, said):
    agreed = begun.read_text(encoding="utf-8")
    edited = agreed.replace(*edit)
    if "none" in edit[1]:
        edited = edited[: edited.index("[rules]")]
    begun.write_text(edited, encoding="utf-8")
    listed = (tmp_path / "stay/sites/north/north.columns").read_text(encoding="utf-8")
    for words in (["check", "north.csv"], ["fit"], ["next", "--approve", "Dr Lee"]):
        status, _, told = run("study", *words, "--site", "north")
        assert (status, said in told) == (1, True), told
    assert (tmp_path / "stay/sites/north/north.columns").read_text(encoding="utf-8") == listed
    kept = tmp_path / "stay.private/north/protocol.toml"
    assert f"If north agrees, remove {kept}" in told
    kept.unlink()
    assert run("study", "check", "north.csv", "--site", "north")[0] == 0


def test_a_stricter_protocol_is_followed_at_once(run, begun):
    begun.write_text(begun.read_text(encoding="utf-8").replace("least_cell = 5", "least_cell = 9"), encoding="utf-8")
    assert run("study", "check", "north.csv", "--site", "north")[0] == 0
    assert run("study", "fit", "--site", "north")[0] == 0


def test_a_protocol_without_rules_has_the_usual_ones(tmp_path):
    path = tmp_path / "p.toml"
    text = '[study]\nname = "a"\n[model]\nname = "mean"\n[sites]\nx = ""\n'
    path.write_text(text, encoding="utf-8")
    assert Protocol.load(path).rules == Rules()
    path.write_text('rules = "none"\n' + text, encoding="utf-8")
    assert Protocol.load(path).rules is None


def test_a_site_may_be_stricter_by_its_environment(run, tmp_path, begun, monkeypatch):
    (tmp_path / "strict.toml").write_text("least_observations = 80\n", encoding="utf-8")
    monkeypatch.setenv("DECBAYES_RULES", "strict.toml")
    status, _, told = run("study", "fit", "--site", "north")
    assert (status, "at least 80" in told) == (1, True)
    monkeypatch.setenv("DECBAYES_RULES", "none")
    assert run("study", "fit", "--site", "north")[0] == 0


def test_a_site_may_have_rules_in_a_study_without(run, tmp_path, rng, monkeypatch):
    assert run(*NEW[:-1], "none", "--sites", "north")[0] == 0
    write_table(tmp_path / "north.csv", patients(rng, 60))
    (tmp_path / "strict.toml").write_text("least_observations = 80\n", encoding="utf-8")
    status, out, _ = run("study", "check", "north.csv", "--site", "north", "--rules", "strict.toml")
    assert (status, "at least 80" in out) == (3, True)
    assert run("study", "check", "north.csv", "--site", "north")[0] == 0
    monkeypatch.setenv("DECBAYES_RULES", "strict.toml")
    assert "at least 80" in run("study", "fit", "--site", "north")[2]
    monkeypatch.delenv("DECBAYES_RULES")
    assert run("study", "fit", "--site", "north")[0] == 0
    assert "for public or made-up data only" in run("study", "preview", "--site", "north")[1]


def test_a_preview_names_rules_that_are_looser_than_usual(run, begun):
    loose = begun.read_text(encoding="utf-8").replace("least_observations = 20", "least_observations = 8")
    begun.write_text(loose, encoding="utf-8")
    run("study", "check", "north.csv", "--site", "north")
    (begun.parent.parent / "stay.private/north/protocol.toml").unlink()
    assert run("study", "fit", "--site", "north")[0] == 0
    out = run("study", "preview", "--site", "north")[1]
    assert "looser than the usual ones: least_observations 8 (usually 20)" in out
