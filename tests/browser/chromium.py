"""Headless Chromium behind its debugging pipe. Only the standard library is used."""

import base64
import json
import os
import subprocess
import threading

PATIENCE = 60  # seconds; what takes longer has failed


class Browser:
    """Chromium behind its pipe: one JSON message after the other, each ended by a null byte."""

    def __init__(self, program, directory):
        to_child, self.write = os.pipe()
        self.read, from_child = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
                 "--disable-component-update", "--disable-sync", f"--user-data-dir={directory}", "--remote-debugging-pipe", "about:blank"]
        shell = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        self.child = subprocess.Popen(["sh", "-c", shell, program, *flags], pass_fds=(to_child, from_child),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.rest, self.number, self.session, self.complaints, self.is_loaded = b"", 0, None, [], False
        # A browser that hangs must not hang the tests.
        guard = threading.Timer(5 * PATIENCE, lambda: os._exit(1))
        guard.daemon = True
        guard.start()

    def message(self):
        while b"\0" not in self.rest:
            more = os.read(self.read, 1 << 16)
            if not more:
                raise SystemExit("browser: chromium has ended")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        self.number += 1
        question = {"id": self.number, "method": method, "params": params}
        if self.session:
            question["sessionId"] = self.session
        os.write(self.write, json.dumps(question).encode() + b"\0")
        while True:
            message = self.message()
            self.listen(message)
            if message.get("id") == self.number:
                if "error" in message:
                    raise SystemExit(f"browser: {method}: {message['error']}")
                return message["result"]

    def listen(self, message):
        params = message.get("params", {})
        if message.get("method") == "Page.loadEventFired":
            self.is_loaded = True
        elif message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("exception", {}).get("description", "an exception"))
        elif message.get("method") == "Runtime.consoleAPICalled":
            self.complaints.append(" ".join(str(part.get("value", part.get("description"))) for part in params["args"]))
        elif message.get("method") == "Log.entryAdded":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")

    def open(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def go(self, url):
        """Opens a page, and waits until it is loaded."""
        self.is_loaded = False
        self.call("Page.navigate", url=url)
        self.loaded()

    def leave(self, statements):
        """Does what opens another page, and waits until that is loaded: it begins after the answer, since a page that goes gives none."""
        self.is_loaded = False
        self.value(f"void setTimeout(() => {{ {statements} }})")
        self.loaded()

    def loaded(self):
        while not self.is_loaded:
            self.listen(self.message())

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"browser: {expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, what, condition):
        """Until the page makes it true: it is looked at whenever the page changes."""
        promise = """new Promise((done) => {
            const look = () => { if (%s) { watcher.disconnect(); clearTimeout(end); done(true); } };
            const watcher = new MutationObserver(look);
            const end = setTimeout(() => { watcher.disconnect(); done(false); }, %d);
            watcher.observe(document, {childList: true, subtree: true, attributes: true, characterData: true});
            look();
        })""" % (condition, PATIENCE * 1000)
        if not self.value(promise):
            raise SystemExit(f"browser: not seen in {PATIENCE} s: {what}\n{self.value('document.body.innerText')}")
        print(f"browser: {what}")

    def must_be_silent(self):
        """Ends the test where the console said anything."""
        if self.complaints:
            raise SystemExit("browser: the console is not silent:\n" + "\n".join(self.complaints))

    def key(self, name):
        code = {"Tab": 9, "ArrowLeft": 37, "Enter": 13}[name]
        text = {"text": "\r"} if name == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", key=name, code=name, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=code)

    def size(self, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1200, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))
