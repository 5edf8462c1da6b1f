"""Two halves of a group across network namespaces, cut apart for a while: they agree within ten seconds of healing."""

import os
import shutil
import subprocess
import time

import pytest
from parties import Means

pytestmark = [pytest.mark.xdist_group("sockets"), pytest.mark.timeout(180)]

# By then links have been given up on both sides; retries that have slowed down need longer, and are tried with 25 s.
PARTITION_SECONDS = (5.0, pytest.param(25.0, marks=pytest.mark.slow))
AGREEMENT_SECONDS = 10.0
LEFT, RIGHT = "10.213.7.1", "10.213.7.2"


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True)


@pytest.fixture
def namespaces():
    """Two namespaces with a cable between them; gone at the end."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    left, right = (f"decbayes-{side}-{os.getpid()}" for side in ("left", "right"))
    try:
        for name in (left, right):
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "cable", "netns", left, "type", "veth", "peer", "name", "cable", "netns", right)
        for name, address in ((left, LEFT), (right, RIGHT)):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "cable")
            run("ip", "-n", name, "link", "set", "cable", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
    except subprocess.CalledProcessError as error:
        remove(left, right)
        pytest.skip(f"this machine allows no network namespaces: {error.stderr.strip()}")
    yield left, right
    remove(left, right)


def remove(*names):
    for name in names:
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def cable(name, state):
    run("ip", "-n", name, "link", "set", "cable", state)


def agreement(party, live, everybody, timeout):
    """Wait until all stores hold the same set of everybody's records; the seconds it took."""
    for name in live:
        party.agents[name].endpoint()
    start = time.monotonic()
    while time.monotonic() < start + timeout:
        known = [party.stored(name).description for name in live]
        if len({one["set"] for one in known}) == 1 and known[0]["counted"].keys() == everybody:
            for name in live:
                party.check_batch(party.stored(name), everybody)
            return time.monotonic() - start
        time.sleep(0.2)
    raise AssertionError(f"no agreement after {timeout} s: {[sorted(one['counted']) for one in known]}")


@pytest.mark.parametrize("seconds", PARTITION_SECONDS)
def test_a_partition_heals(tmp_path, namespaces, seconds):
    left, right = namespaces
    inside = {left: ("ip", "netns", "exec", left), right: ("ip", "netns", "exec", right)}
    with Means(tmp_path, 6) as party:
        # Each side has a hub that its side reaches over loopback; a cut cable takes its address away.
        party.join("agent 0", "--listen", "127.0.0.1:7447", "--listen", f"{LEFT}:7447", "--plain", prefix=inside[left])
        links = ("--listen", "127.0.0.1:7447", "--connect", f"{LEFT}:7447", "--plain")
        party.join("agent 1", *links, prefix=inside[right])
        near = ("--connect", "127.0.0.1:7447")
        party.join("agent 2", *near, prefix=inside[left])
        party.join("agent 3", *near, prefix=inside[right])
        before = {f"agent {number}" for number in range(4)}
        agreement(party, sorted(before), before, AGREEMENT_SECONDS)

        cable(left, "down")
        cut = time.monotonic()
        party.join("agent 4", *near, prefix=inside[left])
        party.join("agent 5", *near, prefix=inside[right])
        agreement(party, ["agent 0", "agent 2", "agent 4"], before | {"agent 4"}, AGREEMENT_SECONDS)
        agreement(party, ["agent 1", "agent 3", "agent 5"], before | {"agent 5"}, AGREEMENT_SECONDS)
        time.sleep(max(0.0, cut + seconds - time.monotonic()))
        assert "agent 5" not in party.stored("agent 0").description["counted"], "the halves are apart"

        cable(left, "up")
        everybody = before | {"agent 4", "agent 5"}
        assert agreement(party, sorted(everybody), everybody, AGREEMENT_SECONDS) < AGREEMENT_SECONDS
