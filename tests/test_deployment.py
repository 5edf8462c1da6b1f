"""The systemd unit and the container file in the documentation are in order, and their command lines run."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from certificates import Authority
from groups import gaussian_charter, identities
from parties import until

PAGE = (Path(__file__).parents[1] / "docs" / "deployment.md").read_text(encoding="utf-8")
DECBAYES = "/opt/decbayes/bin/decbayes"


def block(kind):
    (text,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return text


def commands():
    """The agent's arguments in the unit and in the container."""
    unit = re.search(r"^ExecStart=((?:.*\\\n)*.*)", block("ini"), re.MULTILINE)[1].replace("\\\n", " ").split()
    container = re.search(r"^CMD \[(.*(?:\\\n.*)*?)\]$", block("dockerfile"), re.MULTILINE)[1].replace("\\\n", " ")
    return {"unit": unit[1:], "container": re.findall(r'"([^"]*)"', container)}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    file = tmp_path / "decbayes-agent.service"
    # The program is not installed here.
    file.write_text(block("ini").replace(DECBAYES, sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("kind", ["unit", "container"])
def test_the_command_line_starts_an_agent_that_ends_in_order(kind, tmp_path):
    words = commands()[kind]
    (key,) = identities(1)
    key.save(tmp_path / "agent.key")
    gaussian_charter([key]).save(tmp_path / "group.toml")
    authority = Authority(tmp_path, "authority")
    authority.certify("agent")
    here = [re.sub(r"^/(etc/decbayes|var/lib/decbayes|config|state)/", f"{tmp_path}/", word) for word in words]
    # Ports that nobody else has, and a neighbour that is nobody.
    here = [
        {"0.0.0.0:7447": "127.0.0.1:0", "9400": "0", "site-b.example.org:7447": "127.0.0.1:9"}.get(w, w) for w in here
    ]
    assert not [word for word in here if word.startswith(("/etc", "/var", "/config", "/state"))]
    log = tmp_path / "log"
    with log.open("w") as stream:
        agent = forked.start(here, output=stream)
    until(lambda: '"listening"' in log.read_text() or agent.poll() is not None)
    agent.send_signal(signal.SIGTERM)
    assert (agent.wait(timeout=60), '"stopped"' in log.read_text()) == (0, True), log.read_text()
    assert (tmp_path / "agent.store").exists()
