"""A real browser without a driver: Debian's chromium, told what to do through a pipe (the DevTools protocol)."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from collections import deque
from pathlib import Path
from threading import Condition, Thread

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HOW_TO = "no browser: `apt-get install chromium` has these tests run"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --disable-dev-shm-usage --remote-debugging-pipe "
    "--hide-scrollbars --force-color-profile=srgb"
)
PATIENCE = 60.0


class Browser:
    """One browser, as a context; `page` opens a tab of it."""

    def __init__(self, folder: Path) -> None:
        assert CHROMIUM is not None, HOW_TO
        (reading, commands), (replies, writing) = os.pipe(), os.pipe()
        # The browser reads from 3 and writes to 4, whatever these are here.
        ours = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (reading, writing)]
        redirected = f'exec "$0" "$@" 3<&{ours[0]} 4>&{ours[1]}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirected, CHROMIUM, *FLAGS.split(), f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=ours,
        )
        for end in (reading, writing, *ours):
            os.close(end)
        self._commands, self._replies = os.fdopen(commands, "wb"), os.fdopen(replies, "rb")
        self._answers, self._changed, self._number = {}, Condition(), 0
        self.events = deque(maxlen=100_000)
        Thread(target=self._read, daemon=True).start()

    def call(self, method, session=None, **parameters):
        with self._changed:
            self._number += 1
            number = self._number
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        with self._changed:
            assert self._changed.wait_for(lambda: number in self._answers, PATIENCE), f"no answer to {method}"
            answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def page(self, url, **how):
        return Tab(self, url, **how)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._commands.close()

    def _read(self):
        held = b""
        while chunk := self._replies.read1(1 << 16):
            *whole, held = (held + chunk).split(b"\0")
            with self._changed:
                for message in map(json.loads, whole):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self._changed.notify_all()


class Tab:
    """One page in the browser."""

    def __init__(self, browser, url, *, width=1280, height=900, dark=False):
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.look(width=width, height=height, dark=dark)
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def look(self, *, width, height, dark=False, scale=1):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script):
        """The value of an expression, waited for where it is a promise."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, condition, timeout=PATIENCE):
        deadline = time.monotonic() + timeout
        while not (value := self.run(condition)):
            assert time.monotonic() < deadline, f"never true: {condition}; the page says: {self.text()[:2000]}"
            time.sleep(0.05)
        return value

    def text(self):
        return self.run("document.body?.innerText ?? ''")

    def press(self, key):
        code = {"Enter": 13, "Tab": 9, "Escape": 27}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    def told(self, method):
        """What the browser has reported under a name about this page."""
        with self._browser._changed:
            mine = [each for each in self._browser.events if each.get("sessionId") == self._session]
        return [each["params"] for each in mine if each["method"] == method]

    @property
    def errors(self):
        logged = [each["entry"]["text"] for each in self.told("Log.entryAdded") if each["entry"]["level"] == "error"]
        said = [str(each["args"]) for each in self.told("Runtime.consoleAPICalled") if each["type"] == "error"]
        return logged + said + [str(each["exceptionDetails"]) for each in self.told("Runtime.exceptionThrown")]

    @property
    def requests(self):
        return [each["request"]["url"] for each in self.told("Network.requestWillBeSent")]

    def screenshot(self, path, *, whole=False):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, whole):
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
