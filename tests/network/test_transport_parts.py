"""The parts of the transport that need no network: queues, endpoints, and the log."""

import io
import json
import threading
import time
from collections import Counter

import pytest

from decbayes.errors import Refused, TransportFailed
from decbayes.network.protocol.talk.messages import Digest, encode
from decbayes.network.runtime.links import Links
from decbayes.network.runtime.links.endpoints import settings, with_port
from decbayes.network.runtime.links.questions import Seal
from decbayes.network.runtime.links.transport import explain
from decbayes.network.runtime.queues import CALL_BYTES, Inbox, Outbox
from decbayes.network.runtime.reports.description import problems
from decbayes.network.runtime.reports.log import Log, understand


def digest(number):
    return encode(Digest(bytes([number]) * 32, bytes(32)))


def test_a_neighbour_that_takes_nothing_blocks_nobody_and_gets_only_the_newest_digest():
    sent, released = [], threading.Event()

    def transmit(message):
        released.wait(5)
        sent.append(message)

    outbox = Outbox(transmit, most_bytes=100)
    start = time.monotonic()
    outbox.put(b"first body")
    time.sleep(0.05)
    for number in range(200):
        outbox.put(digest(number))
        outbox.put(b"body %3d" % number)
    assert time.monotonic() - start < 1
    released.set()
    deadline = time.monotonic() + 5
    while digest(199) not in sent and time.monotonic() < deadline:
        time.sleep(0.01)
    outbox.close()
    bodies = [message for message in sent if b"body" in message]
    assert [message for message in sent if b"body" not in message] == [digest(199)]
    assert bodies[:2] == [b"first body", b"body   0"]
    assert sum(map(len, bodies[1:])) <= 100
    assert outbox.dropped == 200 - (len(bodies) - 1)


def test_a_body_that_is_larger_than_the_outbox_is_sent_all_the_same():
    sent, done = [], threading.Event()
    outbox = Outbox(lambda message: (sent.append(message), done.set()), most_bytes=10)
    outbox.put(b"x" * 50)
    assert done.wait(5)
    outbox.close()
    assert sent == [b"x" * 50]


def test_a_flood_from_one_neighbour_leaves_the_others_their_room():
    inbox = Inbox(4 * 10 * CALL_BYTES)
    for _ in range(10_000):
        inbox.post(lambda: "flood", source="loud")
    inbox.post(lambda: "heard", source="quiet", size=5 * CALL_BYTES)
    inbox.post(lambda: "our own")
    said = Counter(call() for call in iter(lambda: inbox.take(0), None))
    assert said == {"flood": 10, "heard": 1, "our own": 1}
    assert inbox.dropped == 9_990
    inbox.post(lambda: "again", source="loud", size=20 * CALL_BYTES)
    assert inbox.take(0)() == "again", "one large message of a neighbour that has nothing else waiting"


def test_the_inbox_holds_so_many_bytes_of_all_and_no_more():
    inbox = Inbox(100 * CALL_BYTES)
    for number in range(50):
        inbox.post(lambda: None, source=f"neighbour {number}", size=9 * CALL_BYTES)
    assert inbox.dropped == 40


def test_what_is_sealed_is_opened_with_the_same_secret_for_the_same_purpose_only():
    seal, other = Seal(bytes(32)), Seal(bytes(31) + b"1")
    sealed = seal.close(b"a record", "to/one/two")
    assert seal.open(sealed, "to/one/two") == b"a record"
    assert b"record" not in sealed
    assert seal.close(b"a record", "to/one/two") != sealed
    damaged = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for who, content, about in [
        (other, sealed, "to/one/two"),
        (seal, sealed, "to/one/three"),
        (seal, damaged, "to/one/two"),
        (seal, b"", "to/one/two"),
        (seal, sealed[:12], "to/one/two"),
    ]:
        with pytest.raises(Refused, match="secret"):
            who.open(content, about)


@pytest.mark.parametrize("endpoint", ["", "host", "1.2.3.4:", ":80", "127.0.0.1:65536", "tcp/127.0.0.1:80", "a b:1"])
def test_what_is_no_endpoint_is_refused(endpoint):
    with pytest.raises(TransportFailed, match="HOST:PORT"):
        Links(listen=(endpoint,))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "[::]", "example.org"])
def test_nothing_goes_beyond_loopback_in_the_clear_unless_told_to(host):
    for side in ("listen", "connect"):
        with pytest.raises(TransportFailed, match="beyond this machine"):
            Links(**{side: (f"{host}:7447",)})
    assert Links(listen=(f"{host}:7447",), plain=True).protocol == "tcp"


def test_by_default_an_agent_listens_on_loopback_and_looks_for_nobody():
    told = settings(Links(), [with_port(endpoint) for endpoint in Links().listen], most_bytes=1 << 20)
    (endpoint,) = told["listen/endpoints"]
    assert endpoint.startswith("tcp/127.0.0.1:")
    assert not endpoint.endswith(":0")
    assert not told["scouting/multicast/enabled"]
    assert not told["scouting/gossip/enabled"]
    assert not told["transport/shared_memory/enabled"]
    assert told["transport/link/rx/max_message_size"] == 1 << 20


def test_a_taken_port_is_named():
    error = "Can not create a new TCP listener bound to tcp/127.0.0.1:7447: [Address already in use (os error 98)]"
    assert "127.0.0.1:7447 is taken" in explain(error, ["127.0.0.1:7448", "127.0.0.1:7447"])


def test_the_log_is_json_lines_and_a_flood_of_refusals_is_counted():
    stream = io.StringIO()
    log = Log(stream, {b"\1": "site-a"})
    log("accepted", origin="01", version=3)
    for _ in range(1000):
        log("refused", reason="signature", text="…")
    log.end_tick()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["accepted", "refused", "refused_again"]
    assert lines[0]["member"] == "site-a"
    assert lines[2]["reasons"] == {"signature": 999}


def test_a_log_that_cannot_be_written_costs_lines_and_nothing_else():
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    Log(Full(), {})("accepted", version=1)


ZENOH = "2026-01-02T03:04:05.678Z"
CALLS = f"{ZENOH} DEBUG net-0 ThreadId(03) zenoh::net::runtime::orchestrator:"


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("Expired", "it has expired, or this machine's clock is wrong"),
        ("certificate expired: verification time 99, but certificate is not valid after 98", "it has expired, or"),
        ("NotValidYet", "it is not valid yet, or this machine's clock is wrong"),
        ("certificate not valid yet: verification time 97", "it is not valid yet, or"),
        ("NotValidForName", "it is for other hosts"),
        ("certificate not valid for name b.example", "it is for other hosts"),
        ("BadSignature", ""),
    ],
)
def test_status_says_why_a_neighbour_cannot_be_reached_and_what_that_means(said, meaning):
    log = Log(io.StringIO(), {})
    understand(f"{CALLS} Unable to connect to configured peer tls/b:1! invalid peer certificate: {said}", log)
    (problem,) = problems({"charter": "c", "neighbours": [{"member": "x"}], "unreachable": log.unreachable}, "c")
    assert problem.startswith(f"b:1 cannot be reached: invalid peer certificate: {said}")
    assert problem.endswith(")") == bool(meaning)
    assert meaning in problem


def test_what_zenoh_says_of_links_is_understood():
    log = Log(io.StringIO(), {})
    for line in (
        f"{ZENOH}  WARN acc-0 ThreadId(06) zenoh_link_tls::unicast: peer sent no certificates.",
        f"{ZENOH}  WARN ThreadId(01) zenoh::net::runtime::orchestrator: Scouting delay elapsed before start.",
        f"{ZENOH}  INFO zenoh::net: all is well",
        f"{CALLS} Unable to connect to configured peer tls/10.0.0.7:7447! Connection refused at /root/x.rs:12..",
        f"{CALLS} Unable to connect to configured peer tls/site-b:7447! invalid peer certificate: UnknownIssuer",
    ):
        understand(line, log)
    assert list(log.warnings) == ["peer sent no certificates."]
    assert log.unreachable == {
        "10.0.0.7:7447": "Connection refused",
        "site-b:7447": "invalid peer certificate: UnknownIssuer (another authority has signed it)",
    }
    for port in (41000, 42000):
        understand(
            f"{CALLS} Unable to connect to configured peer tls/c:1! early eof on :{port} => c:1. Retry in 2s.", log
        )
    assert log.unreachable.pop("c:1") == "early eof on :41000 => c:1.", "our own port is no news"
    understand(f"{CALLS} Successfully connected to configured peer tls/site-b:7447", log)
    assert log.unreachable.keys() == {"10.0.0.7:7447"}
