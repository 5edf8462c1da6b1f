"""Keys, charters, agents and posteriors from the command line, as a stranger would try them."""

import io
import json
import signal
import subprocess
import sys
import time

import pytest
from pages import free_port
from parties import Means

import decbayes as db
from decbayes.cli import main
from decbayes.files import load
from decbayes.inputs.word_lists import read_vocabulary
from decbayes.merging import merge
from decbayes.network import Charter, Identity, SqliteStore

SECONDS = 20.0


@pytest.fixture
def command(capsys):
    """Run a command in this process: exit status, standard output, standard error."""

    def run(*words):
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        said = capsys.readouterr()
        status = end.value.code
        return (status, said.out, said.err) if isinstance(status, int) else (1, said.out, str(status))

    return run


def key(command, path):
    status, public, _ = command("keygen", path)
    assert status == 0
    return public.strip()


def test_a_group_is_founded_grows_and_shows_one_fingerprint(command, tmp_path):
    file, members = tmp_path / "group.toml", [key(command, tmp_path / f"{name}.key") for name in "abc"]
    found = ("charter", "new", file, "--group", "points", "--model", "GaussianMixture", "--set", "components=3")
    status, out, _ = command(
        *found, "--set", "variance=0.5", "--set", "dimension=1", "--limit", "members=9", "--member", f"a={members[0]}"
    )
    assert status == 0
    charter = Charter.load(file)
    assert charter.short_fingerprint in out
    assert (charter.settings["components"], charter.settings["variance"], charter.limits.members) == (3, 0.5, 9)
    status, out, _ = command("charter", "add", file, "--member", f"b={members[1]}", "--member", f"c={members[2]}")
    grown = Charter.load(file)
    assert (list(grown.members), grown.id) == (["a", "b", "c"], charter.id), "earlier records stay valid"
    assert command("charter", "show", file)[1] == out
    assert (tmp_path / "a.key").stat().st_mode & 0o077 == 0, "nobody else may read a key"
    with SqliteStore(tmp_path / "a.store", grown):
        pass
    status, _, told = command("posterior", file, "--store", tmp_path / "a.store", "-o", tmp_path / "early.posterior")
    assert (status, "this is the prior" in told) == (3, True), "an agent that has heard of nobody"


def test_a_new_charter_has_the_usual_rules_unless_told_otherwise(command, tmp_path, monkeypatch):
    monkeypatch.delenv("DECBAYES_RULES", raising=False)
    monkeypatch.chdir(tmp_path)
    member = f"a={key(command, 'a.key')}"

    def new(name, *words):
        status, out, error = command(
            "charter",
            "new",
            name,
            "--group",
            "g",
            "--model",
            "GaussianMean",
            "--set",
            "dimension=1",
            "--member",
            member,
            *words,
        )
        assert status == 0, error
        return Charter.load(name), out

    usual, out = new("usual.toml")
    assert usual.disclosure == db.disclosure.Rules()
    assert "least_cell 5" in out
    none, out = new("none.toml", "--rules", "none", "--rule", "least_observations=3")
    assert (none.disclosure, none.least_observations) == (None, 3)
    assert "for public or made-up data" in out
    (tmp_path / "strict.rules").write_text("least_cell = 10\n")
    strict, out = new("strict.toml", "--rules", "strict.rules", "--rule", "approval=true", "--rule", "share=0.5")
    assert strict.disclosure == db.disclosure.Rules(least_cell=10, approval=True)
    assert strict.rules.share == 0.5
    assert "approval" in out
    words = ("charter", "new", "x.toml", "--group", "g", "--model", "GaussianMean", "--member", member)
    for wrong in ("least_cell=0", "nothing=1", "least_cell=30"):
        status, _, error = command(*words, "--rule", wrong)
        assert (status, "rules: " in error) == (1, True)


def test_a_charter_reads_the_same_vocabulary_as_a_fit(command, tmp_path):
    """A byte-order mark, blank lines and blanks at the ends of lines are no words."""
    words = tmp_path / "words.txt"
    words.write_bytes('\ufeffapple\r\n\npear \n# decbayes recipe {"ngrams": 2}\n'.encode())
    member = f"a={key(command, tmp_path / 'a.key')}"
    new = ("charter", "new", tmp_path / "group.toml", "--group", "g", "--model", "LatentDirichletAllocation")
    assert command(*new, "--set", "topics=2", "--vocabulary", words, "--member", member)[0] == 0
    charter = Charter.load(tmp_path / "group.toml")
    assert charter.vocabulary == ("apple", "pear") == read_vocabulary(words).words
    assert charter.model.recipe == read_vocabulary(words).recipe == db.texts.Recipe(ngrams=2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("keygen", "a.key"), "never overwritten"),
        (("posterior", "group.toml", "--store", "none.store", "-o", "nowhere/a.posterior"), "nowhere is not a folder"),
        (("charter", "new", "group.toml", "--group", "g", "--model", "GaussianMean", "--member", "a=1"), "exists"),
        (("charter", "new", "x.toml", "--group", "g", "--model", "GaussianMean", "--member", "a=12"), "64 hexadecimal"),
        (("charter", "new", "x.toml", "--group", "g", "--model", "GaussianMean", "--member", "a"), "NAME=VALUE"),
        (("charter", "add", "group.toml", "--member", "agent 0=" + "00" * 32), "agent 0"),
        (("charter", "show", "nothing.toml"), "nothing.toml"),
        (("agent", "group.toml", "--key", "agent 0.key", "--store", "s", "--data", "none.npy"), "none.npy"),
        (("agent", "group.toml", "--key", "agent 0.key", "--store", "s", "--data", "group.toml"), "group.toml"),
        (("agent", "group.toml", "--key", "agent 0.key", "--store", "s", "--listen", "here"), "HOST:PORT"),
        (("agent", "group.toml", "--key", "agent 0.key", "--store", "other.store"), "begun with another key"),
        (("agent", "group.toml", "--key", "agent 0.key", "--store", "s", "--listen", "0.0.0.0:1"), "--plain"),
        (("agent", "group.toml", "--key", "agent 0.key", "--store", "s", "--tls-key", "a.key"), "--tls-authority"),
        (("charter", "export", "group.toml", "--store", "none.store", "-o", "x"), "none.store"),
        (("charter", "remove", "group.toml", "nobody"), "no member 'nobody'"),
        (("charter", "propose", "rules", "empty.store"), "Give a rule"),
        (("posterior", "group.toml"), "--agent"),
        (("posterior", "group.toml", "--store", "none.store"), "none.store"),
        (("posterior", "group.toml", "--store", "a.key"), "a.key"),
    ],
)
def test_mistakes_are_told_in_one_line(command, tmp_path, monkeypatch, words, said):
    party = Means(tmp_path, 2)
    SqliteStore(tmp_path / "empty.store", party.charter).close()
    with SqliteStore(tmp_path / "other.store", party.charter) as other:
        other.own(Identity.load(tmp_path / "agent 1.key"))
    monkeypatch.chdir(tmp_path)
    key(command, "a.key")
    status, out, error = command(*words)
    assert (status, out) == (1, "")
    assert said in error
    assert error.startswith("decbayes: ")
    assert error.strip().count("\n") == 0


@pytest.mark.parametrize("closed", ["stdout", "stdin"])
def test_an_agent_does_not_start_without_the_streams_it_uses(command, tmp_path, monkeypatch, closed):
    Means(tmp_path, 1)
    monkeypatch.setattr(f"sys.{closed}", None)
    files = ("--key", tmp_path / "agent 0.key", "--store", tmp_path / "s")
    status, _, error = command("agent", tmp_path / "group.toml", *files, "--stop-with-stdin")
    assert (status, "is closed" in error) == (1, True)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("option", ["--seed", "--refine"])
def test_negative_numbers_are_wrong_arguments(command, tmp_path, option):
    assert command("agent", "group.toml", "--key", "a.key", "--store", tmp_path / "s", option, "-1")[0] == 2


@pytest.mark.xdist_group("processes")
def test_agents_leave_cleanly_and_their_posterior_is_to_be_had_from_them_and_from_their_stores(command, tmp_path):
    with Means(tmp_path, 2) as party:
        one = party.join("agent 0", "--refine", "1")
        two = party.join("agent 1", "--refine", "1", neighbours=("agent 0",))
        deadline = time.monotonic() + SECONDS
        while min(len(agent.events("published")) for agent in (one, two)) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [len(agent.events("published")) for agent in (one, two)] == [2, 2], "each has refined once"
        party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"}, timeout=SECONDS)

        asked = command("posterior", party.charter_file, "--agent", one.endpoint(), "-o", tmp_path / "asked")
        files = ["--key", str(tmp_path / "agent 1.key"), "--store", str(tmp_path / "other.store")]
        words = [sys.executable, "-m", "decbayes", "agent", str(party.charter_file), *files, "--listen", one.endpoint()]
        taken = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
        assert taken.returncode == 1
        assert f"{one.endpoint()} is taken" in taken.stderr
        in_use = command("agent", party.charter_file, "--key", tmp_path / "agent 0.key", "--store", one_store(tmp_path))
        assert "in use by another agent" in in_use[2]

        one.process.send_signal(signal.SIGINT)
        two.process.send_signal(signal.SIGTERM)
        assert [agent.process.wait(SECONDS) for agent in (one, two)] == [0, 0]
        assert all(json.loads(agent.log.read_text().splitlines()[-1])["event"] == "stopped" for agent in (one, two))
    stored = command("posterior", party.charter_file, "--store", one_store(tmp_path), "-o", tmp_path / "stored")
    assert asked == stored
    assert "observations  40" in asked[1]
    assert load(tmp_path / "asked").digest == load(tmp_path / "stored").digest
    folder = tmp_path / "parts"
    assert command("posterior", party.charter_file, "--store", one_store(tmp_path), "--parts", folder)[0] == 0
    parts = [load(folder / f"agent {number}.posterior") for number in range(2)]
    assert merge(parts) == load(tmp_path / "stored")
    status, _, error = command("posterior", party.charter_file, "--agent", free_endpoint(), "--parts", folder)
    assert (status, "--store FILE" in error) == (1, True)
    status, _, error = command("posterior", party.charter_file, "--agent", free_endpoint())
    assert status == 1
    assert "No agent of 'means' answers" in error

    status, out, _ = command("charter", "show", party.charter_file, "--store", one_store(tmp_path))
    assert status == 0
    assert "agent 1" in out


def one_store(folder):
    return folder / "agent 0.store"


def free_endpoint():
    return f"127.0.0.1:{free_port()}"


@pytest.mark.parametrize(("answer", "robust"), [("", True), ("y", True), ("n", False)])
def test_a_new_charter_asks_on_a_terminal_whether_merges_are_robust(command, tmp_path, monkeypatch, answer, robust):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    member = key(command, tmp_path / "a.key")
    new = ("charter", "new", tmp_path / "group.toml", "--group", "g", "--model", "GaussianMean", "--set", "dimension=1")
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    monkeypatch.setattr("sys.stderr", Terminal())
    assert command(*new, "--member", f"a={member}")[0] == 0
    assert Charter.load(tmp_path / "group.toml").rules.robust is robust
