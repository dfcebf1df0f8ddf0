"""A headless Chromium, driven by its DevTools protocol over a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

#: Width and height of a document, in pixels.
_SIZE = """{
  const root = document.documentElement, isPicture = root.localName === "svg";
  const size = isPicture ? [root.width.baseVal.value, root.height.baseVal.value] : [innerWidth, root.scrollHeight];
  [Math.min(size[0], innerWidth), Math.min(size[1], innerHeight)]
}"""


class Browser:
    """A page of a browser: `open` an address, `run` JavaScript in it. `errors` are what its console told."""

    def __init__(self, folder: Path, *, dark: bool = False) -> None:
        child_in, self._out = os.pipe()
        self._in, child_out = os.pipe()

        # Chromium reads from 3 and writes to 4.
        command = (
            "exec chromium --headless --no-sandbox --disable-gpu --remote-debugging-pipe --window-size=1200,900 "
            f'"--user-data-dir=$1" about:blank 3<&{child_in} 4>&{child_out}'
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command, "bash", f"{folder}/profile"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(child_in, child_out),
        )
        os.close(child_in)
        os.close(child_out)
        self._number, self._data = 0, b""
        self._answers: dict[int, Any] = {}
        self.errors: list[Any] = []
        self._session: str | None = None
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._call("Emulation.setEmulatedMedia", features=scheme)
        self._call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def _call(self, method: str, **parameters: object) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        answer = self._read(self._number)
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self, number: int) -> Any:
        deadline = time.monotonic() + 60
        while number not in self._answers:
            assert select.select([self._in], [], [], max(deadline - time.monotonic(), 0))[0], "no answer of Chromium"
            self._data += os.read(self._in, 1 << 20)
            *messages, self._data = self._data.split(b"\0")
            for each in map(json.loads, messages):
                self._take(each)
        return self._answers.pop(number)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self._answers[message["id"]] = message
        elif message["method"] == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"])
        elif message["method"] == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(message["params"]["entry"])
        elif message["method"] == "Runtime.consoleAPICalled" and message["params"]["type"] == "error":
            self.errors.append(message["params"])

    def open(self, address: str) -> None:
        """Go to an address, and wait until the page is there."""
        self._call("Page.navigate", url=address)
        self.until(f"location.href === {json.dumps(address)} && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """The value of an expression."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str, timeout: float = 30) -> Any:
        """The value of an expression, once it is true."""
        deadline = time.monotonic() + timeout
        while not (value := self.run(script)):
            assert time.monotonic() < deadline, script
            time.sleep(0.05)
        return value

    def press(self, key: str) -> None:
        """Press a key, and let it go."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def picture(self, path: Path) -> None:
        """Write a screenshot (PNG) of as much of the window as the document takes."""
        width, height = self.run(_SIZE)
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png", clip=clip)["data"]))
