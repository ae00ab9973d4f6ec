#!/usr/bin/env python3
"""The reports, looked at by a browser: report.py BINARY CHROMIUM DIRECTORY

Makes the three pages of a replay of the sample fleet (report, two policies, thresholds), with names that would be markup or script if
they were read as such, and opens them as files in headless Chromium: nothing runs, nothing is fetched, nothing overflows at 400 and
1600 pixels, in light and dark, and the console stays silent. Screenshots stay in DIRECTORY/browser. Only the standard library is used.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from chromium import PATIENCE, Browser

# A policy under which the thresholds mean something.
RULES = pathlib.Path(__file__).resolve().parents[1] / "golden/rules.toml"

FLEET = pathlib.Path(__file__).parents[2] / "config/demo/fleet.ndjson"
NAME = "<img src=x onerror=alert(1)>"
TOOL = "</code><script>window.evil=1</script>"


def events():
    lines = FLEET.read_text().splitlines()
    for number in range(12):
        event = {"id": f"markup-{number}", "kind": "tool", "session_id": NAME, "agent": {"id": '"><b onclick=evil()>'}, "tool": TOOL,
                 "args": {"command": "secret-argument"}, "result": "secret-result", "outcome": "error",
                 "time": f"2026-01-05T09:30:{number:02}Z", "usage": {"input_tokens": 1000, "output_tokens": 10, "cost_usd": 0.01}}
        lines.append(json.dumps(event))
    # A long name without a place to break it, and a line that is no event.
    for number in range(5):
        lines.append(json.dumps({"id": f"long-{number}", "kind": "tool", "session_id": "x" * 250, "tool": "y" * 250, "args": {},
                                 "result": "same", "outcome": "ok", "time": f"2026-01-05T09:31:{number:02}Z"}))
    lines.append("no event <script>")
    return "\n".join(lines) + "\n"


def make(binary, directory, name, *arguments):
    page = directory / f"{name}.html"
    done = subprocess.run([binary, *map(str, arguments), "--output", "html"], capture_output=True, timeout=5 * PATIENCE)
    if done.returncode != 0:
        raise SystemExit(f"browser: {name}: exit code {done.returncode}\n{done.stderr.decode()}")
    page.write_bytes(done.stdout)
    return page


def pages(binary, directory):
    fleet, labels = directory / "fleet.ndjson", directory / "labels.jsonl"
    fleet.write_text(events())
    rows = [("coding-01", "loop"), ("coding-09", "loop"), ("coding-08", "ok"), ("research-01", "ok")]
    labels.write_text("".join(json.dumps({"session": session, "label": label, "first_event_index": 0, "last_event_index": 999,
                                          "kind": "sample"}) + "\n" for session, label in rows))
    judged = ("--labels", labels)
    return [
        make(binary, directory, "report", "replay", fleet, *judged),
        make(binary, directory, "policies", "replay", fleet, *judged, "--against", "attocode"),
        make(binary, directory, "thresholds", "replay", fleet, *judged, "--policy", RULES, "--sweep", "detectors.exact_repeat.threshold=2,3,4",
             "--sweep", "detectors.dead_end.threshold=2,3,5"),
    ]


def look(browser, page, pictures):
    browser.go(page.as_uri())
    browser.wait(f"{page.name} is there", "document.querySelectorAll('section').length > 0")
    for what, expression in (
        ("a script", "document.scripts.length"),
        ("an image", "document.images.length"),
        ("a handler", "[...document.querySelectorAll('*')].filter(e => [...e.attributes].some(a => a.name.startsWith('on'))).length"),
        ("a name that ran", "window.evil ? 1 : 0"),
        ("something fetched", "performance.getEntriesByType('resource').length"),
    ):
        if browser.value(expression) != 0:
            raise SystemExit(f"browser: {page.name} holds {what}")
    if "secret-" in page.read_text():
        raise SystemExit(f"browser: {page.name} holds content of an agent")
    for width, scheme in ((400, "light"), (400, "dark"), (1600, "light"), (1600, "dark")):
        browser.size(width, scheme)
        wide = browser.value("document.documentElement.scrollWidth")
        browser.picture(pictures / f"{page.stem}-{width}-{scheme}.png")
        if wide > width:
            raise SystemExit(f"browser: {page.name} is {wide} pixels wide where there are {width}")
    browser.call("Page.printToPDF")


def contents(browser, page):
    browser.go(page.as_uri())
    browser.wait("the report names the hostile session as text",
                 f"[...document.querySelectorAll('article h3 code')].some(e => e.textContent === {json.dumps(NAME)})")
    browser.wait("equal calls have one letter and one colour", """[...document.querySelectorAll('article')].some(article => {
        const cells = [...article.querySelectorAll('.strip .c:not(.one)')];
        return cells.length === 12 && new Set(cells.map(cell => cell.textContent + getComputedStyle(cell).backgroundColor)).size === 1; })""")
    browser.wait("the timeline is drawn", "document.querySelectorAll('.lanes svg rect').length > 10")
    browser.wait("loops have a cost", "document.querySelector('.numbers').textContent.includes('$')")


def main():
    binary, chromium, target = sys.argv[1:4]
    pictures = pathlib.Path(target) / "browser"
    pictures.mkdir(parents=True, exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="report-", dir=pictures))
    made = pages(binary, directory)
    browser = Browser(chromium, directory / "profile")
    try:
        browser.open()
        for page in made:
            look(browser, page, pictures)
        contents(browser, made[0])
        browser.must_be_silent()
        print(f"browser: three reports, nothing runs, nothing is fetched, nothing overflows; screenshots are in {pictures}")
    finally:
        browser.child.kill()
        browser.child.wait()
        shutil.rmtree(directory, ignore_errors=True)


main()
