"""Serves the page's files, the newest values as server-sent events, and monitoring requests."""

import asyncio
import json
import re
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from decbayes.base.arguments import is_loopback
from decbayes.page._saving import STATIC, saved_page

LOOK_SECONDS = 0.2  # between two checks for news
BEAT_SECONDS = 2.0  # the most between two messages, so that a lost connection is noticed
# Values sent in the stream; for others it only announces changes, and the browser fetches them.
STREAMED = ("network", "history", "ended")
ASKED_FOR = ("posterior",)
HEADERS = {
    # Nothing is loaded from elsewhere, no inline code runs, and no other page may frame this one.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address may hold the token
    "X-Content-Type-Options": "nosniff",
}
PORT = re.compile(r":\d+$")
NOT_HERE = "There is nothing here. The address of the page is in the agent's log.\n"
MOST_EVENTS = 200
MOST_POINTS = 400  # of history; once it is full, every second one is dropped
# Values that change from merge to merge, drawn over time.
CURVES = ("observations", "objective", "components", "sites", "score")


class Board:
    """The newest value of each name, the last events and the history. One thread writes, any thread may read.

    `numbers` has a number per name that increases whenever the value changes.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.numbers: dict[str, int] = {}
        self.events: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self.counted = 0
        self.path = "/"
        self._ticket, self._seconds = count(1), 0.0
        self._points: list[dict[str, Any]] = []

    def take(self, message: dict[str, Any]) -> None:
        """Store a message from the pipe."""
        self._seconds = message["seconds"]
        for name, value in message["values"].items():
            if name == "path":
                self.path = value
                continue
            self._put(name, value)
            if name == "posterior" and "error" not in value:
                self._remember(value)
        if message["missed"]:
            self._tell({"event": "more", "text": f"{message['missed']:,} further events came too fast to be listed"})
        for event in message["events"]:
            self._tell(event)

    def since(self, seen: int, most: int = 100) -> list[dict[str, Any]]:
        """The newest events after number `seen`, at most `most`."""
        return [event for event in list(self.events)[-most:] if event["number"] > seen]

    def _put(self, name: str, value: Any) -> None:
        self.values[name] = value
        self.numbers[name] = next(self._ticket)

    def _tell(self, event: dict[str, Any]) -> None:
        self.counted += 1
        self.events.append({"seconds": self._seconds, **event, "number": self.counted})

    def _remember(self, posterior: dict[str, Any]) -> None:
        point = {"seconds": self._seconds, **{name: posterior.get(name) for name in CURVES}}
        point["components"] = len(posterior.get("components", ()))
        point["sites"] = len(posterior.get("sites", ()))
        if len(self._points) >= MOST_POINTS:
            self._points = self._points[::2]
        self._points = [*self._points, point]
        self._put("history", self._points)


def application(board: Board, host: str) -> Starlette:
    """The page under the board's path; on loopback, only for requests to a loopback name."""

    async def stream(_: Request) -> Response:
        return StreamingResponse(messages(board), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def value(request: Request) -> Response:
        return JSONResponse(board.values.get(request.path_params["name"]))

    async def component(request: Request) -> Response:
        details = board.values.get("details") or {}
        return JSONResponse(details.get(str(request.path_params["slot"])))

    async def save(_: Request) -> Response:
        name = {"Content-Disposition": 'attachment; filename="decbayes.html"'}
        return Response(saved_page(board), media_type="text/html", headers=name)

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(board.values.get("metrics", ""), media_type="text/plain; version=0.0.4")

    async def health(_: Request) -> Response:
        wrong = board.values.get("health", ["starting"])
        return PlainTextResponse((", ".join(wrong) or "well") + "\n", status_code=503 if wrong else 200)

    routes = [
        Route("/stream", stream),
        Route("/{name:str}.json", value),
        Route("/components/{slot:int}", component),
        Route("/saved.html", save),
        Route("/metrics", metrics),
        Route("/health", health),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard, board=board, loopback=is_loopback(host))])


class Guard:
    """Checks the host name and token, and sets the headers of every answer."""

    def __init__(self, app: Any, board: Board, loopback: bool) -> None:
        self._app, self._board, self._loopback = app, board, loopback

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        base = self._board.path
        given = scope["path"][: len(base)]
        if scope["method"] not in ("GET", "HEAD"):
            await PlainTextResponse("The page is for reading only.\n", 405)(scope, receive, send)
        elif self._loopback and not called_loopback(scope):
            await PlainTextResponse("Open this page as 127.0.0.1 or localhost.\n", 421)(scope, receive, send)
        elif not secrets.compare_digest(given.encode(), base.encode()):
            await PlainTextResponse(NOT_HERE, 404)(scope, receive, send)
        else:
            inner = {**scope, "path": "/" + scope["path"][len(base) :], "root_path": ""}
            await self._app(inner, receive, with_headers(send))


def called_loopback(scope: Any) -> bool:
    """Whether the browser used a loopback name; otherwise another website could read the page by DNS rebinding."""
    names = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    return len(names) == 1 and is_loopback(PORT.sub("", names[0]).strip("[]"))


def with_headers(send: Any) -> Any:
    added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            kept = [pair for pair in message["headers"] if pair[0].title().decode() not in HEADERS]
            message = {**message, "headers": [*kept, *added]}
        await send(message)

    return sending


async def messages(board: Board) -> AsyncIterator[str]:
    """The stream of one browser. A slow browser gets only the newest values, so nothing piles up."""
    seen: dict[str, int] = {}
    events_seen, spoken = 0, 0.0
    yield "retry: 1000\n\n"
    while True:
        parts = [message(name, board.values[name]) for name in STREAMED if news(board, name, seen)]
        parts += [message(name, {"number": seen[name]}) for name in ASKED_FOR if news(board, name, seen)]
        if board.counted > events_seen:
            events = board.since(events_seen)
            parts.append(message("events", {"events": events, "missed": board.counted - events_seen - len(events)}))
            events_seen = board.counted
        if time.monotonic() > spoken + BEAT_SECONDS and not parts:
            parts.append(message("beat", {}))
        if parts:
            spoken = time.monotonic()
            yield "".join(parts)
        await asyncio.sleep(LOOK_SECONDS)


def news(board: Board, name: str, seen: dict[str, int]) -> bool:
    """Whether a value is newer than the one last seen, which is updated."""
    number = board.numbers.get(name, 0)
    changed = number > seen.get(name, 0)
    seen[name] = number
    return changed


def message(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n"
