#!/usr/bin/env python3
"""The live page, looked at by a browser: page.py BINARY CHROMIUM DIRECTORY

Runs the program on a directory of its own, sends it the sample fleet, and drives headless Chromium over its debugging pipe: loops,
commands and numbers appear, a session's calls can be reached with the keyboard alone, nothing overflows at 400 and 1600 pixels, in
light and dark, and the console stays silent. Screenshots stay in DIRECTORY/browser. Only the standard library is used.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request

PATIENCE = 60  # seconds; what takes longer has failed
FLEET = pathlib.Path(__file__).parents[2] / "config/demo/fleet.ndjson"


class Browser:
    """Chromium behind its pipe: one JSON message after the other, each ended by a null byte."""

    def __init__(self, program, directory):
        to_child, self.write = os.pipe()
        self.read, from_child = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
                 "--disable-component-update", "--disable-sync", f"--user-data-dir={directory}", "--remote-debugging-pipe", "about:blank"]
        shell = f'exec "$0" "$@" 3<&{to_child} 4>&{from_child}'
        self.child = subprocess.Popen(["sh", "-c", shell, program, *flags], pass_fds=(to_child, from_child),
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_child)
        os.close(from_child)
        self.rest, self.number, self.session, self.complaints = b"", 0, None, []

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
        if message.get("method") == "Runtime.exceptionThrown":
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


def start(binary, directory):
    """The program in embedded mode, and the address it names."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOOPWARDEN_")}
    command = [binary, "run", "--data-dir", str(directory / "data"), "--set", "http.listen=127.0.0.1:0", "--set", "mode=live"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=clean, text=True)
    for line in child.stdout:
        if "http://" in line:
            threading.Thread(target=child.stdout.read, daemon=True).start()
            return child, line.split("http://")[1].split("/")[0]
    raise SystemExit("browser: the program ended before it was ready")


def post(address, lines):
    request = urllib.request.Request(f"http://{address}/v1/events", "\n".join(lines).encode(), {"content-type": "application/x-ndjson"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 202, answer.status


def fleet():
    """The sample fleet, as if it ran now: old times are for replays."""
    events = [json.loads(line) for line in FLEET.read_text().splitlines()]
    for event in events:
        event.pop("time", None)
    # A name that would be markup, if it were read as such.
    for number in range(5):
        events.append({"id": f"markup-{number}", "kind": "tool", "session_id": "<img src=x onerror=alert(1)>", "tool": "<b>Bash</b>",
                       "args": {"command": "make"}, "outcome": "error"})
    return [json.dumps(event) for event in events]


def look(browser, address, pictures):
    browser.call("Page.navigate", url=f"http://{address}/")
    browser.wait("the connection is shown", "document.querySelector('#link')?.textContent === 'connected'")
    post(address, fleet())
    browser.wait("loops appear", "document.querySelectorAll('#loops .row').length >= 3")
    browser.wait("commands appear", "document.querySelectorAll('#feed .row .word.nudge').length >= 10")
    browser.wait("numbers appear", "[...document.querySelectorAll('#numbers dt')].some(name => name.textContent === 'events'"
                 " && Number(name.nextSibling.textContent) >= 670)")
    browser.wait("detectors are counted", "document.querySelectorAll('#detectors i').length >= 3")
    browser.wait("tasks are listed", "document.querySelectorAll('#tasks tr').length > 4")

    browser.value("[...document.querySelectorAll('#feed .row')].find(row => row.textContent.includes('<img')).focus()")
    browser.key("Enter")
    browser.wait("a session with markup for a name is text", "document.querySelector('#facts')?.textContent.includes('<b>Bash</b>')")
    if browser.value("document.querySelectorAll('main img').length") != 0:
        raise SystemExit("browser: a name was read as markup")
    browser.wait("equal calls have one colour", "(() => { const cells = [...document.querySelectorAll('#strips .cell')];"
                 " return cells.length === 5 && new Set(cells.map(cell => cell.style.background)).size === 1; })()")

    browser.value("document.querySelector('#session').focus()")
    for _ in range(2):
        browser.key("Tab")
    browser.wait("Tab reaches the newest call", "document.activeElement === document.querySelector('#strips .cell:last-child')")
    browser.key("ArrowLeft")
    browser.wait("an arrow moves to the call before, whose facts are shown",
                 "document.querySelector('#facts').textContent.includes('#3') && document.activeElement.nextSibling.tabIndex === -1")
    browser.value("choose('coding-09', '')")
    browser.wait("another session", "document.querySelectorAll('#strips .cell').length > 10")

    for width, scheme in ((400, "light"), (400, "dark"), (1600, "light"), (1600, "dark")):
        browser.size(width, scheme)
        wide = browser.value("document.documentElement.scrollWidth")
        browser.picture(pictures / f"{width}-{scheme}.png")
        if wide > width:
            raise SystemExit(f"browser: the page is {wide} pixels wide where there are {width}")
    print("browser: nothing overflows at 400 and 1600 pixels")


def main():
    binary, chromium, target = sys.argv[1:4]
    pictures = pathlib.Path(target) / "browser"
    pictures.mkdir(parents=True, exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=pictures))
    child, address = start(binary, directory)
    browser = Browser(chromium, directory / "profile")
    # A browser that hangs must not hang the tests.
    guard = threading.Timer(5 * PATIENCE, lambda: os._exit(1))
    guard.daemon = True
    guard.start()
    try:
        browser.open()
        look(browser, address, pictures)
        if browser.complaints:
            raise SystemExit("browser: the console is not silent:\n" + "\n".join(browser.complaints))
        print(f"browser: the console is silent; screenshots are in {pictures}")
    finally:
        browser.child.kill()
        child.terminate()
        child.wait()
        browser.child.wait()
        shutil.rmtree(directory, ignore_errors=True)


main()
