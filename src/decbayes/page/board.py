"""What the page shows just now: the newest value of each name, the last events, and how things were."""

import time
from collections import deque
from itertools import count
from typing import Any

MOST_EVENTS = 200
# History keeps so many points; when it has them, every second one is dropped.
MOST_POINTS = 400
# What changes from merge to merge, and is drawn over time.
CURVES = ("observations", "objective", "components", "sites", "score")


class Board:
    """Values by name, each with a number that grows when it changes. One thread writes, any may read."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.numbers: dict[str, int] = {}
        self.events: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self.told = 0
        self.path = "/"
        self._ticket, self._started = count(1), time.monotonic()
        self._points: list[dict[str, Any]] = []

    def take(self, message: dict[str, Any]) -> None:
        """Take over what has come through the pipe."""
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

    def since(self, told: int, most: int = 100) -> list[dict[str, Any]]:
        """The newest events after a number, so many at most; each says its number."""
        return [event for event in list(self.events)[-most:] if event["number"] > told]

    def _put(self, name: str, value: Any) -> None:
        self.values[name] = value
        self.numbers[name] = next(self._ticket)

    def _tell(self, event: dict[str, Any]) -> None:
        self.told += 1
        self.events.append({"seconds": self._seconds(), **event, "number": self.told})

    def _remember(self, posterior: dict[str, Any]) -> None:
        point = {"seconds": self._seconds(), **{name: posterior.get(name) for name in CURVES}}
        point["components"] = len(posterior.get("components", ()))
        point["sites"] = len(posterior.get("sites", ()))
        if len(self._points) >= MOST_POINTS:
            self._points = self._points[::2]
        self._points = [*self._points, point]
        self._put("history", self._points)

    def _seconds(self) -> float:
        return round(time.monotonic() - self._started, 2)
