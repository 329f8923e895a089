"""A real browser, driven over its debugging pipe: Chromium's own protocol, JSON messages with a zero byte after each."""

import base64
import json
import os
import queue
import shutil
import subprocess
import threading
import time

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-extensions --enable-unsafe-swiftshader "
    "--window-size=1200,1000 --remote-debugging-pipe"
)


class Page:
    """A page in a browser of its own; `requests` and `complaints` are what it loaded and what it printed or threw.

    `open` shows another one in the same browser, which costs a tenth of a new browser.
    """

    def __init__(self, url, profile, patience=90.0):
        self.patience, self.requests, self.complaints = patience, [], []
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def wire():
            # the browser reads from 3 and writes to 4; copies above these keep one from overwriting the other
            a, b = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [PATH, *FLAGS.split(), f"--user-data-dir={profile}", "about:blank"], preexec_fn=wire, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.out, self.number, self.inbox = ours_out, 0, queue.Queue()
        threading.Thread(target=self._read, args=(ours_in,), daemon=True).start()
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        if url:
            self.open(url)

    def open(self, url, ready="document.readyState === 'complete' && typeof dalembert === 'object'"):
        """Go to another page, with nothing loaded and nothing complained about yet."""
        self.send("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.requests, self.complaints = [], []
        self.send("Page.navigate", url=url)
        self.until(ready)
        return self

    def picture(self, path, width=1200, most=6000):
        """A picture of the whole page at a width; returns how wide its content is."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        self.value("new Promise(done => setTimeout(() => requestAnimationFrame(done), 300))")
        wide, high = self.value("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(high, most), "scale": 1}
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))
        return wide

    def _read(self, descriptor):
        with os.fdopen(descriptor, "rb") as stream:
            rest = b""
            while part := stream.read1(1 << 16):
                *whole, rest = (rest + part).split(b"\0")
                for message in whole:
                    self.inbox.put(json.loads(message))

    def send(self, method, **parameters):
        """Call a method and wait for its answer; events on the way are noted."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + self.patience
        while True:
            got = self.inbox.get(timeout=max(0.0, end - time.monotonic()))
            self._note(got)
            if got.get("id") == self.number:
                assert "error" not in got, got
                return got["result"]

    def _note(self, event):
        what, data = event.get("method"), event.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(data["request"]["url"])
        elif what == "Runtime.exceptionThrown":
            self.complaints.append(data["exceptionDetails"]["text"])
        elif what == "Runtime.consoleAPICalled" and data["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([a.get("value") for a in data["args"]]))
        elif what == "Log.entryAdded" and data["entry"]["level"] in ("error", "warning"):
            self.complaints.append(data["entry"]["text"])

    def value(self, expression):
        """What an expression is in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression):
        """Wait for an expression to become true."""
        end = time.monotonic() + self.patience
        while not self.value(expression):
            assert time.monotonic() < end, f"waited in vain for {expression}"
            time.sleep(0.05)

    def click(self, selector):
        """Press the left button in the middle of an element, as a hand would."""
        self.value(f"document.querySelector({selector!r}).scrollIntoView()")
        box = self.value(
            f"(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def press(self, key, code=""):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=code or key, text=" " if key == " " else "")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        os.close(self.out)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
