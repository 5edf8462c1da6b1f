"""The page's own process: reads values from standard input, serves them, and ends when there is no more input."""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from threading import Thread

import uvicorn

from decbayes.page.server import LOOK_SECONDS, Board, application

MOST_CONNECTIONS = 100  # at a time; further ones are refused


def main(descriptor: int, host: str) -> None:
    # Ctrl-C is for the agent. This process ends with its input, which the agent closes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(5)  # the agent comes first
    board = Board()
    board.take(json.loads(sys.stdin.buffer.readline()))
    Thread(target=read, args=(board,), daemon=True).start()
    settings = uvicorn.Config(
        application(board, host), log_level="critical", access_log=False, lifespan="off",
        limit_concurrency=MOST_CONNECTIONS, server_header=False,
    )  # fmt: skip
    uvicorn.Server(settings).run(sockets=[socket.socket(fileno=descriptor)])


def read(board: Board) -> None:
    """Store messages, and end the process with its input, so that browsers see that the agent is gone."""
    for line in sys.stdin.buffer:
        board.take(json.loads(line))
    time.sleep(3 * LOOK_SECONDS)  # browsers still get the last news
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
