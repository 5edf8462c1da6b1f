"""An agent's state for monitoring: Prometheus text at /metrics and health at /health, on this machine only."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from decbayes.errors import TransportFailed

Status = dict[str, Any]
Values = list[tuple[dict[str, str], float]]
LOOPBACK = "127.0.0.1"


class Metrics:
    """Serves the latest status."""

    def __init__(self, port: int) -> None:
        self.status: Status = {}
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), handler(lambda: self.status))
        except OSError as error:
            raise TransportFailed(
                f"Metrics cannot be served at {LOOPBACK}:{port}: {error.strerror or error}."
            ) from None
        self.port = int(self._server.server_address[1])
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def handler(status: Callable[[], Status]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            description = status()
            if not is_local(self.headers.get("Host", "")):
                # Protects against DNS rebinding by web pages.
                self._answer(403, "Ask for 127.0.0.1 or localhost.\n")
            elif self.path == "/metrics":
                self._answer(200, metrics_text(description))
            elif self.path == "/health":
                wrong = troubles(description)
                self._answer(503 if wrong else 200, (", ".join(wrong) or "well") + "\n")
            else:
                self._answer(404, "There are /metrics and /health.\n")

        def _answer(self, code: int, text: str) -> None:
            content = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not logged."""

    return Handler


def is_local(host: str) -> bool:
    """Whether a request addresses this machine by its usual names."""
    name, _, port = host.rpartition(":") if ":" in host else (host, "", "")
    return name in (LOOPBACK, "localhost") and (port.isdigit() or not port)


def troubles(status: Status) -> list[str]:
    """The reasons why an agent is not working."""
    reasons = {
        "starting": not status,
        "the store fails": status.get("trouble"),
        "another agent runs with this key": status.get("twin"),
        "this agent's key has no seat": status.get("revoked"),
        "something is counted wrongly": status.get("accounts", {}).get("wrong"),
        "no neighbour is linked": status and not status.get("neighbours"),
    }
    return [text for text, holds in reasons.items() if holds]


def metrics_text(status: Status) -> str:
    """The status as gauges and counters. Names of members are labels; nothing about data is."""
    return "".join(f"{line}\n" for line in lines(status))


def lines(status: Status) -> Iterator[str]:
    neighbours, members = status.get("neighbours", ()), status.get("members", {})
    decisions, counted = status.get("decisions", {}), status.get("accounts", {})
    numbers = {
        "neighbours": ("Neighbours that are linked.", len(neighbours)),
        "neighbours_behind": (
            "Neighbours with another set of records.",
            sum(bool(n.get("behind")) for n in neighbours),
        ),
        "waiting": ("Own contribution is not published.", bool(status.get("waiting"))),
        "twin": ("Another agent has this key.", bool(status.get("twin"))),
        "awaiting_approval": ("Own contribution awaits approval.", bool(status.get("awaiting_approval"))),
        "store_failing": ("The store fails.", bool(status.get("trouble"))),
        "seats": ("Seats that vote and count.", decisions.get("seats", 0)),
        "revoked": ("This agent's key has no seat.", bool(status.get("revoked"))),
        "counted_wrongly": ("Shards counted twice, or without a seat.", len(counted.get("wrong", ()))),
    }
    for name, (about, number) in numbers.items():
        yield from gauge(name, about, [({}, int(number))])
    for key in ("observations", "shards"):
        values = [({"member": name}, member[key]) for name, member in members.items() if key in member]
        yield from gauge(f"member_{key}", f"{key.capitalize()} that a member has published.", values)
    motions = {state: len(decisions.get(state, ())) for state in ("settled", "pending")}
    motions["overruled"] = sum(motion.get("state") == "overruled" for motion in decisions.get("settled", ()))
    yield from gauge("motions", "Motions by state.", [({"state": state}, count) for state, count in motions.items()])
    places = ("sums",) if "in_sums" in counted else ("prior", "records")
    sums: Values = [({"place": place}, counted.get(f"in_{place}", 0)) for place in places]
    yield from gauge("observations", "What the posterior counts.", sums)
    flags: Values = [({"member": name}, len(member.get("flags", ()))) for name, member in members.items()]
    yield from gauge("member_flags", "What stands out about a member.", flags)
    refused: Values = [({"reason": reason}, count) for reason, count in status.get("refused", {}).items()]
    yield from gauge("refused_total", "Messages and records that were refused.", refused, kind="counter")


def gauge(name: str, about: str, values: Values, *, kind: str = "gauge") -> Iterator[str]:
    yield f"# HELP decbayes_{name} {about}"
    yield f"# TYPE decbayes_{name} {kind}"
    for labels, value in values:
        text = ",".join(f'{key}="{escaped(label)}"' for key, label in labels.items())
        yield f"decbayes_{name}{{{text}}} {value}" if text else f"decbayes_{name} {value}"


def escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
