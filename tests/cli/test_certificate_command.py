"""Certificates from the command line: made, signed, shown, and enough for agents to agree over mutual TLS."""

import contextlib
import re
import time

import pytest
from certificates import Authority
from parties import Means

from decbayes.cli import main
from decbayes.errors import TransportFailed
from decbayes.network.runtime.links import Links, Tls
from decbayes.network.runtime.links.ask import Inquiry

SECONDS = 20.0
HERE = ("--host", "127.0.0.1")


@pytest.fixture
def command(capsys, tmp_path):
    """Run `decbayes certificate …` in a folder of its own: exit status, and what it said."""

    def run(*words):
        with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as end:
            main(["certificate", *words])
        said, status = capsys.readouterr(), end.value.code
        return (1, str(status)) if isinstance(status, str) else (status, said.out)

    return run


def tls_words(tls):
    return ("--tls-authority", str(tls.authority), "--tls-certificate", str(tls.certificate), "--tls-key", str(tls.key))


@pytest.mark.xdist_group("processes")
def test_agents_with_certificates_of_one_authority_agree_and_others_do_not_get_in(command, tmp_path):
    for words in (
        ("authority", "ours.pem"),
        ("issue", "a.pem", "--authority", "ours.pem", *HERE),
        ("request", "b.pem", *HERE, "--host", "site-b.example.org"),
        ("sign", "b.pem.request", "--authority", "ours.pem", "-o", "b.pem"),
        ("authority", "theirs.pem"),
        ("issue", "c.pem", "--authority", "theirs.pem", *HERE),
    ):
        assert command(*words)[0] == 0
    one, two, foreign = (
        Tls(tmp_path / authority, tmp_path / f"{name}.pem", tmp_path / f"{name}.pem.key")
        for authority, name in (("ours.pem", "a"), ("ours.pem", "b"), ("theirs.pem", "c"))
    )
    with Means(tmp_path, 4) as party:
        first = party.join("agent 0", *tls_words(one))
        party.join("agent 1", *tls_words(two), neighbours=("agent 0",))
        stranger = party.join("agent 2", *tls_words(foreign), neighbours=("agent 0",))
        plain = party.join("agent 3", neighbours=("agent 0",))
        assert first.events("listening")[0]["certificate_until"].endswith("UTC")
        with Inquiry(party.charter, Links(listen=(), connect=(first.endpoint(),), tls=two)) as ask:
            deadline = time.monotonic() + SECONDS
            while len(ask.status()["heard"]) < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            while not (stranger.events("unreachable") and plain.events("unreachable")) and time.monotonic() < deadline:
                time.sleep(0.1)
            party.check_batch(ask.posterior(), {"agent 0", "agent 1"})
        assert "UnknownIssuer" in stranger.events("unreachable")[0]["why"]
        assert plain.events("unreachable")
        for tls in (foreign, None):
            outside = Links(listen=(), connect=(first.endpoint(),), tls=tls)
            with pytest.raises(TransportFailed, match="No agent"), Inquiry(party.charter, outside) as ask:
                ask.status(timeout=1)


def test_what_is_shown_is_what_was_asked_for_and_requests_keep_their_keys(command, tmp_path):
    command("authority", "authority.pem", "--name", "our group")
    status, said = command("request", "b.pem", "--host", "site-b.example.org", "--host", "::1")
    assert (status, "b.pem.key stays here" in said) == (0, True)
    assert not (tmp_path / "b.pem").exists()
    signed = command("sign", "b.pem.request", "--authority", "authority.pem", "--output", "b.pem", "--days", "30")
    shown = command("show", "b.pem")
    assert shown == signed
    for part in (
        r"name +CN=site-b\.example\.org\n",
        r"hosts +site-b\.example\.org, ::1\n",
        r"signed by +CN=our group\n",
        "valid until",
    ):
        assert re.search(part, shown[1])
    modes = {file.name: file.stat().st_mode & 0o077 for file in tmp_path.glob("*.key")}
    assert modes == {"authority.pem.key": 0, "b.pem.key": 0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("authority", "authority.pem"), "exists"),
        (("issue", "a.pem", "--authority", "authority.pem", *HERE), "exists"),
        (("request", "a.pem", *HERE), "exists"),
        (("sign", "a.pem", "--authority", "authority.pem", "-o", "x.pem"), "not a certificate request"),
        (("issue", "x.pem", "--authority", "a.pem", *HERE), "signs nothing"),
        (("issue", "x.pem", "--authority", "late.pem", *HERE), "has expired"),
        (("issue", "x.pem", "--authority", "none.pem", *HERE), "none.pem"),
        (("issue", "x.pem", "--authority", "authority.pem", "--host", "a:7447"), "without a port"),
        (("issue", "x.pem", "--authority", "authority.pem", *HERE, "--days", "99999999999"), "too many"),
        (("issue", "x.pem", "--authority", "authority.pem", *HERE, "--name", "x" * 65), "certificate's name"),
        (("show", "a.pem.key"), "not a certificate"),
    ],
)
def test_mistakes_are_told_in_one_line_and_leave_nothing_behind(command, tmp_path, words, said):
    authority = Authority(tmp_path, "authority")
    authority.issue("a")
    authority.signer.generate("late", days=-0.02).save(tmp_path / "late.pem")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    status, told = command(*words)
    assert (status, told.startswith("decbayes: "), told.count("\n")) == (1, True, 0)
    assert said in told
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_sites_that_use_one_file_name_have_certificates_of_different_names(command, tmp_path, capsys):
    """All agents' certificates were called after their file, agent.pem: revoking one by name revoked all."""
    command("authority", "authority.pem")
    for site in ("a", "b"):
        (tmp_path / site).mkdir()
        shown = command("issue", f"{site}/agent.pem", "--authority", "authority.pem", "--host", f"{site}.example.org")
        assert f"CN={site}.example.org" in shown[1]
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit):
        main(
            ["certificate", "issue", "c.pem", "--authority", "authority.pem", "--host", "c", "--name", "a.example.org"]
        )
    assert "another key with the name a.example.org" in capsys.readouterr().err


def test_an_expired_certificate_is_shown_and_fails(command, tmp_path):
    Authority(tmp_path, "authority").issue("a", days=-0.02)
    status, told = command("show", "a.pem")
    assert (status, "has expired on" in told) == (1, True)


def test_an_agent_does_not_start_with_an_expired_certificate(tmp_path):
    authority = Authority(tmp_path, "authority")
    certificate, key = authority.issue("a", days=-0.02)
    with Means(tmp_path, 1) as party:
        words = ("--tls-authority", authority.file, "--tls-certificate", certificate, "--tls-key", key)
        agent = party.join("agent 0", *map(str, words))
        assert agent.process.wait(SECONDS) == 1
    assert re.fullmatch(
        r"decbayes: .*a\.pem has expired on .* have a new one made and signed\.\n", agent.log.read_text()
    )
