"""A page only reads, is only for those who may see it, and never gets in anybody's way."""

import json
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from parties import Means

from decbayes.errors import InvalidFile, TransportFailed
from decbayes.page import Page, PageAddress
from decbayes.page.replaying import Replay, last_state
from decbayes.page.server import MOST_POINTS, Board

pytestmark = pytest.mark.xdist_group("processes")


@pytest.fixture
def serve():
    pages = []

    def served(**address):
        pages.append(Page(PageAddress(**address)))
        return pages[-1]

    yield served
    for page in pages:
        page.close()


def ask(url, *, method="GET", **headers):
    """Status and text of an answer; waits for a page that is about to start."""
    request = urllib.request.Request(url, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def asked_until(url, condition):
    deadline = time.monotonic() + 20
    while not condition(ask(url)):
        assert time.monotonic() < deadline, ask(url)
        time.sleep(0.05)


def test_files_values_metrics_and_health_are_there_for_reading(serve):
    page = serve()
    assert page.url.startswith("http://127.0.0.1:")
    assert "<title>decbayes</title>" in ask(page.url)[1]
    assert ask(f"{page.url}page.css")[0] == ask(f"{page.url}page.js")[0] == 200
    assert ask(f"{page.url}health") == (503, "starting\n")
    page.show("health", [])
    page.show("metrics", "decbayes_neighbours 2\n")
    page.show("posterior", {"components": []})
    asked_until(f"{page.url}health", lambda answer: answer == (200, "well\n"))
    assert ask(f"{page.url}metrics") == (200, "decbayes_neighbours 2\n")
    assert json.loads(ask(f"{page.url}posterior.json")[1]) == {"components": []}
    assert json.loads(ask(f"{page.url}components/7")[1]) is None
    assert ask(page.url, method="POST")[0] == 405
    assert ask(f"{page.url}../../../etc/passwd")[0] == 404
    with urllib.request.urlopen(page.url) as answer:
        assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


def test_a_page_of_another_site_cannot_read_it_under_a_name_of_its_own(serve):
    page = serve()
    assert ask(page.url, Host="evil.example")[0] == 421
    assert ask(page.url, Host="localhost:80")[0] == 200


def test_beyond_loopback_only_those_who_know_the_token_see_anything(serve):
    page = serve(host="0.0.0.0", token="secret-token")
    port = page.url.split(":")[2].split("/")[0]
    assert page.url.endswith("/secret-token/")
    base = f"http://127.0.0.1:{port}"
    for path in ("/", "/health", "/metrics", "/stream", "/posterior.json", "/secret-toke/", "/secret-token"):
        assert ask(base + path)[0] == 404, path
    assert ask(f"{base}/secret-token/")[0] == 200
    assert ask(f"{base}/secret-token/page.js")[0] == 200
    assert PageAddress(host="0.0.0.0").token != PageAddress(host="0.0.0.0").token


@pytest.mark.parametrize("words", [["x"], ["70000"], ["127.0.0.1:"], ["1.2.3.4:80"]])
def test_addresses_that_cannot_be_are_refused_in_a_line(words):
    with pytest.raises(TransportFailed, match=r"--page|ssh -L"):
        PageAddress.parse(words)


def test_plain_pages_are_suggested_only_by_commands_that_have_the_option():
    with pytest.raises(TransportFailed, match="--plain"):
        PageAddress.parse(["1.2.3.4:80"], plain=False)
    with pytest.raises(TransportFailed, match=r"ssh -L`\.$"):
        PageAddress.parse(["1.2.3.4:80"])
    assert PageAddress.parse(["1.2.3.4:80"], plain=True).host == "1.2.3.4"


def test_addresses_are_a_port_or_a_host_and_a_port():
    assert (PageAddress.parse([]).host, PageAddress.parse([]).port) == ("127.0.0.1", 0)
    assert PageAddress.parse(["8700"]).port == 8700
    assert PageAddress.parse(["[::1]:80"]).host == "::1"
    assert PageAddress.parse(["0.0.0.0:80"], plain=True).path != "/"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(TransportFailed, match="in use"):
        Page(PageAddress(port=taken.getsockname()[1]))


def test_whoever_is_shown_never_waits(serve):
    """A stopped page, a browser that reads nothing, a dead page: `show` and `tell` return at once."""
    page = serve()
    ask(page.url)
    host, port = page.url.split("/")[2].split(":")
    with socket.create_connection((host, int(port))) as hung:
        hung.sendall(f"GET /stream HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        for state in (None, signal.SIGSTOP, signal.SIGKILL):
            if state is not None:
                os.kill(page.pid, state)
            begin = time.thread_time()
            for number in range(300):
                page.show("posterior", {"number": number, "much": "x" * 100_000})
                for _ in range(10):
                    page.tell({"event": "accepted", "text": str(number)})
            # In processor time: on a busy machine other threads may come first.
            assert time.thread_time() - begin < 0.5
            assert len(page._values) <= 1
            assert len(page._events) <= 1000
    deadline = time.monotonic() + 20
    while page.alive and time.monotonic() < deadline:
        page.show("posterior", {})
        time.sleep(0.05)
    assert not page.alive


def test_history_keeps_both_ends_and_a_bounded_number_of_points():
    board = Board()
    for number in range(3 * MOST_POINTS):
        board.take({"seconds": 0.0, "values": {"posterior": {"observations": number}}, "events": [], "missed": 0})
    points = board.values["history"]
    assert len(points) <= MOST_POINTS
    assert (points[0]["observations"], points[-1]["observations"]) == (0, 3 * MOST_POINTS - 1)


def test_of_too_many_events_the_newest_are_sent_and_the_others_counted():
    board = Board()
    board.take(
        {
            "seconds": 0.0,
            "values": {},
            "events": [{"event": "accepted", "text": str(n)} for n in range(500)],
            "missed": 7,
        }
    )
    newest = board.since(0)
    assert newest[-1]["text"] == "499"
    assert board.counted == 501
    assert len(newest) == 100
    assert board.since(board.counted) == []


@pytest.mark.timeout(180)
def test_an_agent_goes_on_whatever_becomes_of_its_page(tmp_path):
    with Means(tmp_path, 2) as party:
        agent = party.join("agent 0", "--page", "--held", str(held_back(tmp_path)))
        agent.endpoint()
        url = agent.events("listening")[-1]["page"]
        assert ask(f"{url}health")[0] == 503  # alone
        children = Path(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children").read_text().split()
        (served,) = map(int, children)
        os.kill(served, signal.SIGSTOP)
        party.join("agent 1", neighbours=("agent 0",))
        party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"}, timeout=60)
        os.kill(served, signal.SIGCONT)
        asked_until(f"{url}posterior.json", lambda answer: len((json.loads(answer[1]) or {"sites": []})["sites"]) == 2)
        linked = {"agent 0": "self", "agent 1": "up"}
        asked_until(f"{url}network.json", lambda answer: links_in(json.loads(answer[1])) == linked)
        shown = json.loads(ask(f"{url}posterior.json")[1])
        # The score is the model's own, of data that no agent has seen.
        batch = party.charter.model.fit(party.points_of({"agent 0", "agent 1"})).posterior
        assert shown["score"] == pytest.approx(party.charter.model.score(batch, np.ones((6, 3))), abs=1e-6)
        counted = 'decbayes_member_observations{member="agent 1"} 20\n'
        asked_until(f"{url}metrics", lambda answer: counted in answer[1])
        os.kill(served, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while not agent.events("page_lost") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(agent.events("page_lost")) == 1
        party.agreement(["agent 0", "agent 1"], {"agent 0", "agent 1"}, timeout=20)
        assert agent.stop() == 0


def links_in(network):
    return {member["name"]: member["link"] for member in network["members"]}


def held_back(folder):
    np.save(folder / "held.npy", np.ones((6, 3)))
    return folder / "held.npy"


def test_a_recording_shows_the_same_again_at_the_same_times(serve, tmp_path):
    now = [0.0]
    page = Page(PageAddress(), tmp_path / "group.page", clock=lambda: now[0])
    for seconds, count in ((1.0, 10), (900.0, 30)):
        now[0] = seconds
        page.show("posterior", {"observations": count})
        page.tell({"event": "accepted", "text": f"{count} observations"})
        asked_until(f"{page.url}posterior.json", lambda answer, n=count: json.loads(answer[1]) == {"observations": n})
    page.close()
    replay = Replay(tmp_path / "group.page", PageAddress(), speed=2e3)  # faster, and a busy machine leaves points out
    replay.run()
    asked_until(f"{replay.page.url}posterior.json", lambda answer: json.loads(answer[1]) == {"observations": 30})
    points = json.loads(ask(f"{replay.page.url}history.json")[1])
    assert [(point["seconds"], point["observations"]) for point in points] == [(1.0, 10), (900.0, 30)]
    assert '"observations":30' in ask(f"{replay.page.url}saved.html")[1]
    replay.page.close()
    assert '"seconds":900.0,"event":"accepted","text":"30 observations"' in last_state(tmp_path / "group.page")


def test_a_recording_that_was_cut_off_is_shown_up_to_there_and_other_files_are_refused(tmp_path):
    page = Page(PageAddress(), tmp_path / "group.page")
    page.show("posterior", {"observations": 7})
    page.close()
    with (tmp_path / "group.page").open("a", encoding="utf-8") as file:
        file.write('{"seconds": 3.0, "val')
    assert '"observations":7' in last_state(tmp_path / "group.page")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InvalidFile, match="not a recording"):
        last_state(tmp_path / "other.csv")
