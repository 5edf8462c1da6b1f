"""Shows a recorded page again, at any speed, or writes its last state as one file."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decbayes.errors import InvalidFile
from decbayes.page._feed import Page, PageAddress
from decbayes.page._saving import saved_page
from decbayes.page.server import Board

LAST = "End of the recording."
FIELDS = {"seconds", "values", "events", "missed"}


def messages(recording: Path) -> Iterator[dict[str, Any]]:
    """The recorded messages of a page, with the seconds since its start."""
    with recording.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines):
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            whole = isinstance(message, dict) and message.keys() >= FIELDS
            if not whole and not number:
                raise InvalidFile(f"{recording} is not a recording of a page; `--page --record FILE` writes one.")
            if not whole:
                return  # the recording was cut off here
            yield message


class Replay:
    """Shows a recording on a new page, `speed` times as fast."""

    def __init__(self, recording: Path, address: PageAddress, speed: float = 1.0) -> None:
        self._messages, self._speed, self._now = messages(recording), speed, 0.0
        self._first = next(self._messages, None)
        if self._first is None:
            raise InvalidFile(f"{recording} is empty.")
        self.page = Page(address, clock=lambda: self._now)

    def run(self) -> None:
        """Show each message at its recorded time."""
        began, message = time.monotonic(), self._first
        while message is not None:
            time.sleep(max(0.0, began + message["seconds"] / self._speed - time.monotonic()))
            self._now = message["seconds"]
            for event in message["events"]:
                self.page.tell({"seconds": self._now, **event})
            for name, value in message["values"].items():
                self.page.show(name, value)
            message = next(self._messages, None)


def last_state(recording: Path) -> str:
    """The last state of a recording as one HTML file."""
    board = Board()
    for message in messages(recording):
        board.take(message)
    board.values.setdefault("ended", LAST)
    return saved_page(board)
