"""Charters of groups that open only sums, from the command line."""

import pytest
from groups import identities

import decbayes as db
from decbayes.cli import main
from decbayes.network import Charter, PrivacyRules, SumRules

KEYS = {name: key.public.hex() for name, key in zip("abc", identities(3), strict=True)}
MEMBERS = [word for name, key in KEYS.items() for word in ("--member", f"{name}={key}")]
MEAN = ("--group", "g", "--model", "GaussianMean", "--set", "dimension=1")
ILL = ("--group", "g", "--model", "LogisticRegression", "--set", "target=ill")
COLUMNS = ("--set", 'columns=[["age", "real", 50, 20], ["ill", "yes/no"]]')


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DECBAYES_RULES", raising=False)

    def run(*words):
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        said = capsys.readouterr()
        code = end.value.code
        return (1, said.out, code) if isinstance(code, str) else (code or 0, said.out, said.err)

    return run


def test_a_group_that_opens_only_sums_is_founded(command):
    status, out, error = command("charter", "new", "g.toml", *MEAN, *MEMBERS, "--secure", "--sum", "rounds=2")
    assert (status, "robust" in error) == (0, False), "there is nothing to advise"
    assert "rounds=2, colluders=1" in out
    assert Charter.load("g.toml").sums == SumRules(rounds=2)
    extra = identities(4)[3].public.hex()
    assert command("charter", "add", "g.toml", "--member", f"d={extra}")[0] == 0
    assert Charter.load("g.toml").sums == SumRules(rounds=2)
    assert command("charter", "remove", "g.toml", "d")[0] == 0
    status, _, error = command("charter", "remove", "g.toml", "c")
    assert (status, "at least 3 members" in error) == (1, True)


def test_private_sums_have_the_rounds_that_the_model_divides_its_budget_among(command):
    promise = ("--privacy", "epsilon=1", "--privacy", "delta=1e-6")
    status, out, error = command("charter", "new", "g.toml", *ILL, *COLUMNS, *MEMBERS, "--secure", *promise)
    assert status == 0, error
    charter = Charter.load("g.toml")
    assert charter.privacy == PrivacyRules(epsilon=1.0, delta=1e-6)
    assert charter.sums.rounds == charter.model.mechanism().rounds
    assert "epsilon=1.0, delta=1e-06" in out
    status, _, error = command(
        "charter", "new", "h.toml", *ILL, *COLUMNS, *MEMBERS, "--secure", *promise, "--sum", "rounds=1"
    )
    assert (status, "divides its budget" in error) == (1, True)


def test_an_anchor_with_fewer_components_gets_spare_slots(command, tmp_path):
    anchor = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0).fit([[-5.0], [5.0]], rng=0).posterior
    db.save(anchor, "public.posterior")
    settings = [f"--set={name}" for name in ("components=3", "dimension=1", "variance=1.0", "prior_variance=100.0")]
    words = (
        "--group",
        "g",
        "--model",
        "GaussianMixture",
        *settings,
        *MEMBERS,
        "--secure",
        "--anchor",
        "public.posterior",
    )
    status, _, error = command("charter", "new", "g.toml", *words)
    assert status == 0, error
    charter = Charter.load("g.toml")
    (coupled,) = charter.begins_at.structure.symmetry
    assert charter.begins_at.untouched(coupled).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--sum", "rounds=2"), "add --secure"),
        (("--privacy", "epsilon=1", "--privacy", "delta=1e-6", "--privacy", "noise=all"), "noise"),
        (("--secure", "--sum", "laps=2"), "There are rounds, colluders, most_rows"),
        (("--secure", "--sum", "rounds=0"), "--sum"),
        (("--secure", "--privacy", "epsilon=1"), "delta"),
        (("--secure", "--sum", "colluders=2"), "At least 4 members"),
        (("--secure", "--rule", "robust=true"), "robust"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(command, words, why, tmp_path):
    model = (*ILL, *COLUMNS) if "--privacy" in words else MEAN
    status, _, error = command("charter", "new", "g.toml", *model, *MEMBERS, *words)
    assert (status, why in error, error.strip().count("\n")) == (1, True, 0), error
    assert not (tmp_path / "g.toml").exists()


@pytest.mark.parametrize(("option", "why"), [(("--refine", "2"), "rounds"), (("--ledger", "a.ledger"), "privacy")])
def test_options_that_would_do_nothing_are_refused(command, option, why):
    identities(1)[0].save("a.key")
    assert command("charter", "new", "g.toml", *MEAN, *MEMBERS, "--secure")[0] == 0
    status, _, error = command("agent", "g.toml", "--key", "a.key", "--store", "a.store", *option)
    assert (status != 0, why in error) == (True, True), error
