"""The gate in front of zenoh: strangers cost little and stop nobody."""

import socket
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from threading import Event, Thread

import pytest
from certificates import Authority
from parties import Means, inquiry, until

from decbayes.errors import TransportFailed
from decbayes.network.runtime.links import gatekeeper
from decbayes.network.runtime.links.endpoints import Links
from decbayes.network.runtime.links.gate import (
    KEPT_FOR_KNOWN,
    MOST_PENDING,
    MOST_PER_ADDRESS,
    Caller,
    Gate,
    is_whole,
    place_of,
)
from decbayes.network.runtime.links.gatekeeper import Gatekeeper, is_guarded, unguarded
from decbayes.network.runtime.reports.description import problems

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(120)]


def options(tls):
    return ("--tls-authority", str(tls.authority), "--tls-certificate", str(tls.certificate), "--tls-key", str(tls.key))


@contextmanager
def idle_connections(endpoint, count):
    """So many connections that say nothing, opened again as soon as they are closed."""
    host, port = endpoint.split(":")
    stop = Event()

    def idle():
        while not stop.is_set():
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.settimeout(5)
                connection.recv(1)
            stop.wait(0.5)

    for _ in range(count):
        Thread(target=idle, daemon=True).start()
    try:
        yield
    finally:
        stop.set()


def test_idle_connections_keep_no_member_from_linking(tmp_path):
    """150 of them once kept all members out for as long as they lasted: zenoh lets in ten callers a second by then."""
    authority = Authority(tmp_path, "authority")
    tls = {name: authority.certify(name) for name in ("first", "second", "asker")}
    with Means(tmp_path, 2) as party:
        first = party.join("agent 0", *options(tls["first"]))
        with idle_connections(first.endpoint(), 150):
            assert until(lambda: first.events("crowded")), "who crowds the gate is logged"
            start = time.monotonic()
            party.join("agent 1", *options(tls["second"]), neighbours=("agent 0",))
            with inquiry(party, "agent 0", tls=tls["asker"]) as ask:
                assert until(lambda: ask.status()["heard"].keys() == {"agent 0", "agent 1"}, timeout=15)
                status = ask.status()
            assert time.monotonic() - start < 15
        assert set(status["crowded"]) == {"127.0.0.1"}
        (neighbour,) = status["neighbours"]
        assert neighbour["member"] == "agent 1"
        assert neighbour["address"].startswith("127.0.0.1:")
        assert neighbour["address"].endswith(" (second)")


def gate(known=()):
    settings = {"tls": None, "revoked": [], "known": list(known), "most_open": 3, "patience": 1.0}
    return Gate(settings)


class Quiet:
    """A socket on which nothing has arrived."""

    def recv(self, size, flags):
        raise BlockingIOError


def arrive(opened, address, count=1, *, silent=True):
    callers = [Caller(Quiet(), address, 1, place_of(address), silent=silent) for _ in range(count)]
    for caller in callers:
        opened.make_room(caller.place)
        opened.pending[caller] = None
    return callers


def pending(opened):
    return Counter(caller.address for caller in opened.pending)


def test_one_address_has_a_bounded_number_of_pending_connections_and_the_newest_stay():
    opened = gate()
    callers = arrive(opened, "10.0.0.1", 100)
    assert list(opened.pending) == callers[-MOST_PER_ADDRESS:]
    assert opened.crowded == {"10.0.0.1": 100 - MOST_PER_ADDRESS}


def test_whoever_speaks_stays_before_those_who_are_silent():
    opened = gate()
    (speaking,) = arrive(opened, "10.0.0.1", silent=False)
    arrive(opened, "10.0.0.1", 1000)
    assert speaking in opened.pending


def test_room_is_kept_for_addresses_that_have_shown_a_certificate():
    opened = gate(known=["10.9.9.9"])
    for number in range(1000):
        arrive(opened, f"10.{number // 250}.1.{number % 250}")
    assert len(opened.pending) == MOST_PENDING - KEPT_FOR_KNOWN
    members = arrive(opened, "10.9.9.9", MOST_PER_ADDRESS)
    for number in range(1000):
        arrive(opened, f"10.{number // 250}.2.{number % 250}")
    assert all(member in opened.pending for member in members)
    assert len(opened.pending) <= MOST_PENDING


def test_the_address_with_the_most_connections_loses_first():
    opened = gate()
    (alone,) = arrive(opened, "10.0.0.1")
    for number in range(20):
        arrive(opened, f"10.0.1.{number}", 20)
    assert alone in opened.pending
    assert pending(opened).total() == MOST_PENDING - KEPT_FOR_KNOWN


def test_half_a_handshake_is_as_good_as_silence():
    hello = b"\x16\x03\x01" + (512).to_bytes(2) + bytes(512)
    assert is_whole(hello)
    assert not any(map(is_whole, (b"", hello[:1], hello[:4], hello[:-1])))
    assert is_whole(b"GET / HTTP/1.1"), "which is refused at once"


def test_all_addresses_of_one_site_count_as_one_in_the_sixth_version():
    assert place_of("2001:db8:1:2::3") == place_of("2001:db8:1:2:ffff::9") != place_of("2001:db8:1:3::3")
    assert place_of("::ffff:10.0.0.1") == place_of("10.0.0.1") == "10.0.0.1"


def echo_everything(listening):
    """Stands in for zenoh: says everything back."""
    with suppress(OSError):
        while True:
            connection, _ = listening.accept()
            Thread(target=echo, args=(connection,), daemon=True).start()


def echo(connection):
    with suppress(OSError), connection:
        while content := connection.recv(1 << 16):
            connection.sendall(content)


@contextmanager
def kept(monkeypatch, patience=0.5):
    monkeypatch.setattr(gatekeeper, "PATIENCE_SECONDS", patience)
    monkeypatch.setattr(gatekeeper, "FURTHER_LINKS", 3)
    with socket.create_server(("127.0.0.1", 0)) as behind, socket.create_server(("127.0.0.1", 0)) as free:
        Thread(target=echo_everything, args=(behind,), daemon=True).start()
        port = free.getsockname()[1]
        free.close()
        inner = f"127.0.0.1:{behind.getsockname()[1]}"
        with closing(Gatekeeper(Links(), (f"127.0.0.1:{port}",), inner, members=0)) as keeper:
            yield keeper, lambda: socket.create_connection(("127.0.0.1", port), timeout=10)


def test_what_callers_say_is_passed_on_and_the_agent_knows_who_they_are(monkeypatch):
    with kept(monkeypatch) as (keeper, call), call() as connection:
        said = bytes(range(256)) * 4096
        Thread(target=connection.sendall, args=(said,), daemon=True).start()
        heard = b""
        while len(heard) < len(said):
            heard += connection.recv(1 << 16)
        assert heard == said
        (passed,) = keeper._passed.values()
        assert passed.address == f"127.0.0.1:{connection.getsockname()[1]}"
        time.sleep(0.7)
        connection.sendall(b"still here")
        assert connection.recv(100) == b"still here", "patience is for those who have not been answered"


def test_the_silent_are_cut_off_in_time_and_one_address_cannot_keep_everything_open(monkeypatch):
    with kept(monkeypatch) as (keeper, call):
        with call() as silent:
            assert silent.recv(1) == b""
        assert until(lambda: any("too little" in text for text in keeper.refusals))
        connections = [call() for _ in range(4)]
        for connection in connections[:3]:
            connection.sendall(b"x")
            assert connection.recv(1) == b"x"
        connections[3].sendall(b"x")
        with suppress(ConnectionResetError):
            assert connections[3].recv(1) == b""
        assert until(lambda: keeper.crowds() != [])
        for connection in connections:
            connection.close()


def test_a_gate_that_ends_is_started_again(monkeypatch):
    with kept(monkeypatch) as (keeper, call):
        keeper._process.kill()

        def works():
            with suppress(OSError), call() as connection:
                connection.sendall(b"x")
                return connection.recv(1) == b"x"

        assert until(works)
        assert "restarted" in "".join(keeper.refusals)


def test_a_taken_port_is_an_error(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TransportFailed, match="in use"):
        Gatekeeper(Links(), (f"127.0.0.1:{taken.getsockname()[1]}",), "127.0.0.1:1", members=0)


def test_the_gate_stands_wherever_strangers_can_call():
    assert not is_guarded(Links())
    assert is_guarded(Links(listen=("0.0.0.0:7447",), plain=True))
    assert not is_guarded(Links(listen=("0.0.0.0:7447",), plain=True, discovery="gossip"))


def test_an_agent_without_a_gate_says_so(tmp_path):
    """With gossip zenoh itself must be reachable; on this machine alone nobody needs to be told."""
    assert not unguarded(Links())
    assert not unguarded(Links(listen=("0.0.0.0:7447",), plain=True))
    assert not unguarded(Links(discovery="gossip"))
    authority = Authority(tmp_path, "authority")
    tls = {name: authority.certify(name) for name in ("first", "asker")}
    with Means(tmp_path, 1) as party:
        agent = party.join("agent 0", *options(tls["first"]), "--discovery", "gossip")
        assert until(lambda: agent.events("unguarded"))
        with inquiry(party, "agent 0", tls=tls["asker"]) as ask:
            status = ask.status()
    assert any("no gate" in text for text in problems(status, party.charter.short_fingerprint))
