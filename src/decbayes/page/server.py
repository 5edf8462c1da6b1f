"""What browsers are told: the page's files, the newest values as server-sent events, and what monitoring asks for."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from decbayes.page.board import Board
from decbayes.page.feed import is_loopback

STATIC = Path(__file__).parent / "static"
# News is looked for so often, whoever watches; each watcher gets what is newest by then.
LOOK_SECONDS = 0.2
# So often something is said even without news, so that a link that is gone is noticed.
BEAT_SECONDS = 2.0
# These travel in the stream; of the others it tells that they have changed, and the browser asks for them.
STREAMED = ("network", "history")
ASKED_FOR = ("posterior",)
HEADERS = {
    # Nothing is loaded from elsewhere, nothing is written into the page as code, nobody else may frame it.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address may hold the token
    "X-Content-Type-Options": "nosniff",
}
PORT = re.compile(r":\d+$")
NOT_HERE = "There is nothing here. The address of the page is in the agent's log.\n"


def application(board: Board, host: str) -> Starlette:
    """The page, under the path that the board names; on loopback for those who call it by a loopback name only."""

    async def stream(_: Request) -> Response:
        return StreamingResponse(messages(board), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def value(request: Request) -> Response:
        return JSONResponse(board.values.get(request.path_params["name"]))

    async def component(request: Request) -> Response:
        details = board.values.get("details") or {}
        return JSONResponse(details.get(str(request.path_params["slot"])))

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(board.values.get("metrics", ""), media_type="text/plain; version=0.0.4")

    async def health(_: Request) -> Response:
        wrong = board.values.get("health", ["starting"])
        return PlainTextResponse((", ".join(wrong) or "well") + "\n", status_code=503 if wrong else 200)

    routes = [
        Route("/stream", stream),
        Route("/{name:str}.json", value),
        Route("/components/{slot:int}", component),
        Route("/metrics", metrics),
        Route("/health", health),
        Mount("/", StaticFiles(directory=STATIC, html=True)),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guarded, board=board, loopback=is_loopback(host))])


class Guarded:
    """Asks for the token where there is one, and sets the headers of every answer."""

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
            await PlainTextResponse("Call this page by 127.0.0.1 or localhost.\n", 421)(scope, receive, send)
        elif not secrets.compare_digest(given.encode(), base.encode()):
            await PlainTextResponse(NOT_HERE, 404)(scope, receive, send)
        else:
            inner = {**scope, "path": "/" + scope["path"][len(base) :], "root_path": ""}
            await self._app(inner, receive, with_headers(send))


def called_loopback(scope: Any) -> bool:
    """Whether the browser takes this for a page of its own machine.

    A page of another site could call loopback by a name of its own, and read what the browser then takes for its own.
    """
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
    """What one browser is told. If it is slow, this waits for it, and it gets what is newest then: nothing piles up."""
    seen: dict[str, int] = {}
    told, spoken = 0, 0.0
    yield "retry: 1000\n\n"
    while True:
        parts = [message(name, board.values[name]) for name in STREAMED if news(board, name, seen)]
        parts += [message(name, {"number": seen[name]}) for name in ASKED_FOR if news(board, name, seen)]
        if board.told > told:
            events = board.since(told)
            parts.append(message("events", {"events": events, "missed": board.told - told - len(events)}))
            told = board.told
        if time.monotonic() > spoken + BEAT_SECONDS and not parts:
            parts.append(message("beat", {}))
        if parts:
            spoken = time.monotonic()
            yield "".join(parts)
        await asyncio.sleep(LOOK_SECONDS)


def news(board: Board, name: str, seen: dict[str, int]) -> bool:
    """Whether there is a newer value than the one that was seen; from now on it is seen."""
    number = board.numbers.get(name, 0)
    changed = number > seen.get(name, 0)
    seen[name] = number
    return changed


def message(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n"
