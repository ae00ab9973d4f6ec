#!/usr/bin/env python3
"""The live page, looked at by a browser: page.py BINARY CHROMIUM DIRECTORY

Runs the program on a directory of its own, sends it the sample fleet, and drives headless Chromium over its debugging pipe: loops,
commands and numbers appear, a session's calls can be reached with the keyboard alone, nothing overflows at 400 and 1600 pixels, in
light and dark, and the console stays silent. In shadow mode nothing is said before it is known, and what has expired leaves. An operator's
token stops a session and releases it by buttons, a reader's has none. Screenshots stay in DIRECTORY/browser. Only the standard library is used.
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

import answers
from chromium import PATIENCE, Browser

FLEET = pathlib.Path(__file__).parents[2] / "config/demo/fleet.ndjson"

SHORT_MS = 15_000  # so long a nudge of the policy in shadow mode stands


def start(binary, directory, *settings, config=None):
    """The program in embedded mode, and the address it names."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LOOPWARDEN_")}
    command = [binary, "run", "--data-dir", str(directory / "data"), "--set", "http.listen=127.0.0.1:0"]
    command += [part for setting in settings for part in ("--set", setting)] + (["--config", str(config)] if config else [])
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=clean, text=True)
    for line in child.stdout:
        if "http://" in line:
            threading.Thread(target=child.stdout.read, daemon=True).start()
            return child, line.split("http://")[1].split("/")[0]
    raise SystemExit("browser: the program ended before it was ready")


def post(address, lines, **headers):
    headers |= {"content-type": "application/x-ndjson"}
    request = urllib.request.Request(f"http://{address}/v1/events", "\n".join(lines).encode(), headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 202, answer.status


def ask(address, calls):
    """An agent that asks before each call, and makes the same one for ever."""
    for number in range(calls):
        for kind in ("tool_call", "tool_result"):
            event = {"id": f"{number}-{kind}", "kind": kind, "session_id": "asks", "tool": "Bash", "call_id": str(number),
                     "args": {"command": "make"}}
            event |= {"outcome": "error", "result": "failed"} if kind == "tool_result" else {}
            check = {"event": event, "client": {"can": ["deny", "context_after"]}, "deadline_ms": 10_000}
            request = urllib.request.Request(f"http://{address}/v1/check", json.dumps(check).encode(), {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                if json.load(answer)["decision"] == "deny":
                    break


def export(address, service, session):
    """A call as a span that says no more than its name."""
    attribute = lambda key, text: {"key": key, "value": {"stringValue": text}}
    span = {"traceId": session.encode().hex()[:8].rjust(32, "0"), "spanId": "1".rjust(16, "0"), "name": "execute_tool search",
            "endTimeUnixNano": "1795613167000000000", "attributes": [attribute("gen_ai.conversation.id", session)]}
    body = {"resourceSpans": [{"resource": {"attributes": [attribute("service.name", service)]}, "scopeSpans": [{"spans": [span]}]}]}
    request = urllib.request.Request(f"http://{address}/v1/traces", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert answer.status == 200, answer.status


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
    browser.wait("commands appear", "document.querySelectorAll('#feed .row .word').length >= 10")
    browser.wait("numbers appear", "[...document.querySelectorAll('#numbers dt')].some(name => name.textContent === 'events'"
                 " && Number(name.nextSibling.textContent) >= 673)")
    browser.wait("detectors are counted", "document.querySelectorAll('#detectors i').length >= 3")
    if browser.value("document.querySelector('#guard-card').hidden") is not True:
        raise SystemExit("browser: nobody has asked, and a guard is shown")
    ask(address, 20)
    browser.wait("what the agent that asks did is shown", "(() => { const shown = name => Number([...document.querySelectorAll('#guard dt')]"
                 ".find(dt => dt.textContent === name)?.nextSibling.textContent); return !document.querySelector('#guard-card').hidden"
                 " && shown('agents') === 1 && shown('blocks obeyed') > 0 && shown('nudges delivered') > 0; })()")
    if browser.value("document.querySelector('#senders-card').hidden") is not True:
        raise SystemExit("browser: all came as events, and senders are shown")
    export(address, "markup <b>service</b>", "fleet-by-spans")
    export(address, "markup <b>service</b>", "asks")
    browser.wait("who sends names only is shown, with what to switch on", "(() => { const row = document.querySelectorAll('#senders tr')[1];"
                 " return row?.textContent.startsWith('markup <b>service</b>') && row.children[6].className === 'bad'"
                 " && row.children[6].textContent === 'names only' && row.textContent.includes('CAPTURE_MESSAGE_CONTENT'); })()")
    browser.wait("a session of two sources is told", "document.querySelector('#two-sources').textContent"
                 " === '1 session is reported by two sources, so that calls count twice: asks (checks, GenAI semantic conventions)'")
    browser.wait("tasks are listed", "document.querySelectorAll('#tasks tr').length > 4")

    markup = "[...document.querySelectorAll('#feed .row')].find(row => row.textContent.includes('<img'))"
    browser.wait("a session with markup for a name has a command", markup)
    browser.value(f"{markup}.focus()")
    browser.key("Enter")
    browser.wait("a session with markup for a name is text", "document.querySelector('#facts')?.textContent.includes('<b>Bash</b>')")
    if browser.value("document.querySelectorAll('main img').length") != 0:
        raise SystemExit("browser: a name was read as markup")
    browser.wait("equal calls have one letter and one colour", "(() => { const cells = [...document.querySelectorAll('#strips .cell')];"
                 " return cells.length === 5 && cells.every(cell => cell.textContent === 'A' && cell.classList.contains('k0')); })()")
    browser.wait("the tool behind a letter is named", "document.querySelector('#strips .names')?.textContent.startsWith('A × 5 <b>Bash</b>')")
    browser.wait("what the agent was told can be read", "document.querySelector('#strips .told q')?.textContent.includes('call has returned much the same')")

    browser.value("document.querySelector('#session').focus()")
    for _ in range(2):
        browser.key("Tab")
    browser.wait("Tab reaches the newest call", "document.activeElement === document.querySelector('#strips .cell:last-child')")
    browser.key("ArrowLeft")
    browser.wait("an arrow moves to the call before, whose facts are shown",
                 "document.querySelector('#facts').textContent.includes('#3') && document.activeElement.nextSibling.tabIndex === -1")
    browser.value("choose('sessions', 'coding-09', '')")
    browser.wait("another session", "document.querySelectorAll('#strips .cell').length > 10")
    browser.wait("letters come in the order of the calls that repeat, and other calls are a dot", "(() => {"
                 " const cells = [...document.querySelectorAll('#strips .cell')], signs = [...new Set(cells.map(cell => cell.textContent))];"
                 " const letters = signs.filter(sign => sign !== '·');"
                 " return signs.length > letters.length && letters.length > 1 && letters.join('') === 'ABCDEFGHIJ'.slice(0, letters.length)"
                 " && new Set(cells.map(cell => getComputedStyle(cell).backgroundColor)).size === signs.length; })()")
    swarm = "[...document.querySelectorAll('#loops .row')].find(row => row.textContent.includes('price-crawl'))"
    browser.wait("a swarm that loops is listed", swarm)
    browser.value(f"{swarm}.click()")
    browser.wait("and opens what is counted for it, and what was told", "document.querySelector('#strips .swarm')?.textContent.includes('http_get')"
                 " && document.querySelector('#strips .told q')?.textContent.includes('http_get')")
    order = "['loops', 'feed', 'strips', 'numbers', 'tasks'].map(id => document.getElementById(id).getBoundingClientRect().top)"
    browser.size(400, "light")
    browser.wait("loops come first, then what was told, a session, numbers, tasks last",
                 f"(() => {{ const tops = {order}; return tops.every((top, at) => at === 0 || tops[at - 1] < top); }})()")
    browser.value("scrollTo(0, 0), document.querySelector('#feed .row').click()")
    browser.wait("at 400 pixels a click goes to the session", "scrollY > 0 && document.querySelector('#session-card').getBoundingClientRect().top < 20"
                 " && document.querySelectorAll('#strips .cell').length > 0")

    for width, scheme in ((400, "light"), (400, "dark"), (1600, "light"), (1600, "dark")):
        browser.size(width, scheme)
        wide = browser.value("document.documentElement.scrollWidth")
        browser.picture(pictures / f"{width}-{scheme}.png")
        if wide > width:
            raise SystemExit(f"browser: the page is {wide} pixels wide where there are {width}")
    print("browser: nothing overflows at 400 and 1600 pixels")


# What the page has said in the place of rows, from its first moment on.
RECORDED = """
window.said = { loops: [], feed: [] };
document.addEventListener("DOMContentLoaded", () => {
    for (const id of ["loops", "feed"]) {
        const note = () => window.said[id].push(document.getElementById(id).textContent);
        new MutationObserver(note).observe(document.getElementById(id), { childList: true, subtree: true });
        note();
    }
});
"""


def look_in_shadow(browser, binary, directory):
    policy = directory / "short.toml"
    policy.write_text(f'profile = "short"\nbase = "default"\n[episodes]\nnudge_ms = {SHORT_MS}\n')
    child, address = start(binary, directory / "shadow", "mode=shadow", f"policy={policy}")
    try:
        script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=RECORDED)["identifier"]
        browser.go(f"http://{address}/?nothing")
        browser.wait("where nothing loops, that is said in the end", "document.querySelector('#loops').textContent === 'No agent loops just now.'"
                     " && document.querySelector('#feed').textContent === 'None so far.'")
        post(address, [json.dumps({"id": f"s-{number}", "kind": "tool", "session_id": "in-shadow", "tool": "Bash", "args": {"command": "make"},
                                   "outcome": "error"}) for number in range(5)])
        browser.wait("in shadow mode a loop appears, one row for its agent", "document.querySelectorAll('#loops .row').length === 1"
                     " && document.querySelector('#loops').textContent.startsWith('would be nudged')")
        browser.wait("beside it each thing that would have been told, with its text", "document.querySelectorAll('#feed .row').length >= 1"
                     " && [...document.querySelectorAll('#feed .row')].every(row => row.querySelector('q').textContent.includes('Bash'))")
        browser.go(f"http://{address}/?again")
        browser.wait("on load the loop stands there again", "document.querySelectorAll('#loops .row').length === 1")
        said = browser.value("window.said")
        untrue = [text for text in said["loops"] + said["feed"] if text.startswith("No")]
        if untrue:
            raise SystemExit(f"browser: before it had data, the page said {untrue}")
        browser.go(f"http://{address}/#in-shadow")
        browser.wait("an address opens its session, where what binds nobody says so", "[...document.querySelectorAll('#strips .word')]"
                     ".some(word => word.textContent.startsWith('in shadow: nudge (similar_repeat)')) && document.querySelector('#strips .told').textContent.includes('shadow: not delivered')")
        browser.wait("what has expired leaves, and what was told stays", "document.querySelectorAll('#loops .row').length === 0"
                     " && document.querySelector('#loops').textContent === 'No agent loops just now.'"
                     " && document.querySelectorAll('#feed .row').length >= 1")
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    finally:
        browser.go("about:blank")
        child.terminate()
        child.wait()


TOKENS = {"operator": "operator,reader", "hands": "operator", "reader": "reader", "agents": "source"}


def look_as_operator(browser, binary, directory, pictures):
    directory.mkdir()
    config = directory / "tokens.toml"
    for name in TOKENS:
        (directory / name).write_text(f"{name}-secret\n")
    tables = [f'[[token]]\nname = "{name}"\nfile = "{name}"\nroles = "{roles}"\n' for name, roles in TOKENS.items()]
    config.write_text('[http]\nlocal = "token"\n' + "".join(tables))
    child, address = start(binary, directory, "mode=live", config=config)
    browser.call("Network.enable")

    def as_whom(name, place=""):
        # As a browser sends what a person has typed as the password.
        shown = base64.b64encode(f":{name}-secret".encode()).decode()
        browser.call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Basic {shown}"})
        browser.go("about:blank")
        browser.go(f"http://{address}/{place}")
        browser.wait(f"{name} sees the sessions", "document.querySelectorAll('#sessions tr').length === 4")

    button = lambda session, text: (f"[...document.querySelectorAll('#sessions tr')].find(row => row.textContent.includes('{session}'))"
                                    f"?.querySelector('button.act')?.textContent === '{text}'")
    state = lambda session, text: (f"[...document.querySelectorAll('#sessions tr')].find(row => row.textContent.includes('{session}'))"
                                   f"?.children[5].textContent === '{text}'")
    click = lambda session: (f"[...document.querySelectorAll('#sessions tr')].find(row => row.textContent.includes('{session}'))"
                             ".querySelector('button.act').click()")
    choose = lambda name, value: f"(() => {{ const field = document.querySelector('#which [name={name}]'); field.value = '{value}';" \
                                 " field.dispatchEvent(new Event('change', { bubbles: true })); })()"
    try:
        events = [{"id": f"{session}-{number}", "kind": "tool", "session_id": session, "tenant": tenant, "tool": "Bash",
                   "args": {"command": "make"}, "outcome": "error"}
                  for session, tenant, calls in (("runaway", "acme", 12), ("quiet", "acme", 1), ("<b>theirs</b>", "globex", 2)) for number in range(calls)]
        post(address, [json.dumps(event) for event in events], authorization="Bearer agents-secret")
        as_whom("operator")
        browser.wait("each session has a button", button("runaway", "Stop") + " && " + button("theirs", "Stop"))
        browser.wait("and its state, calls and tenant", state("runaway", "blocked") + " && document.querySelector('#sessions').textContent.includes('<b>theirs</b>')")
        browser.value(choose("state", "looping"))
        browser.wait("those that loop", "document.querySelectorAll('#sessions tr').length === 2 && " + state("runaway", "blocked"))
        browser.value(choose("state", "all") + "," + choose("sort", "calls"))
        browser.wait("most calls first", "document.querySelectorAll('#sessions tr').length === 4 && document.querySelector('#sessions tr:nth-child(2)').textContent.includes('runaway')")
        browser.value(click("quiet"))
        browser.wait("the button opens the session and asks why", "document.activeElement === document.querySelector('#reason')"
                     " && document.querySelector('#session').value === 'quiet' && document.querySelector('#stop').getClientRects().length === 1")
        browser.value("document.querySelector('#stop button').click()")
        if browser.value("document.querySelector('#stop').checkValidity()"):
            raise SystemExit("browser: a stop without a reason would be sent")
        browser.value("document.querySelector('#reason').value = 'deletes files', document.querySelector('#stop button').click()")
        browser.wait("the row says that it is stopped", state("quiet", "stopped") + " && " + button("quiet", "Release"))
        browser.wait("and so does the list of stops, with who and why", "!document.querySelector('#stops-card').hidden"
                     " && document.querySelector('#stops').textContent.includes('by operator') && document.querySelector('#stops q').textContent === 'deletes files'")
        browser.wait("others go on", state("runaway", "blocked") + " && " + state("theirs", "running"))
        browser.size(1600, "light")
        browser.picture(pictures / "operator.png")
        browser.size(400, "dark")
        wide = browser.value("document.documentElement.scrollWidth")
        if wide > 400:
            raise SystemExit(f"browser: with buttons the page is {wide} pixels wide where there are 400")
        browser.value("document.querySelector('#acts').click()")
        browser.wait("of what was told only what people did is left, with who", "document.querySelectorAll('#feed .row').length === 1"
                     " && document.querySelector('#feed').textContent.includes('stop by operator')")

        as_whom("reader")
        browser.wait("a reader sees who is stopped", state("quiet", "stopped"))
        if browser.value("document.querySelectorAll('button.act, #stops button').length") or browser.value("document.querySelector('#stop').getClientRects().length"):
            raise SystemExit("browser: a reader has a button to act")
        browser.must_be_silent()
        browser.value("act('DELETE', 'v1/stops?scope=session&session_id=quiet&tenant=acme')")
        browser.wait("and is refused with what is missing", "!document.querySelector('#stops-problem').hidden"
                     " && document.querySelector('#stops-problem').textContent.includes('role operator')")
        browser.wait("the session is stopped as before", state("quiet", "stopped"))
        if not browser.complaints or any("403" not in complaint for complaint in browser.complaints):
            raise SystemExit(f"browser: a refusal that is none: {browser.complaints}")
        browser.complaints.clear()

        as_whom("hands")
        browser.wait("who may not read commands is told so", "document.querySelector('#feed').textContent.includes('role reader')")
        browser.value(click("quiet"))
        browser.wait("a release restores what was before", state("quiet", "running") + " && " + button("quiet", "Stop")
                     + " && document.querySelector('#stops-card').hidden")
        # One that is stopped with its tenant is released with it.
        body = json.dumps({"scope": "tenant", "tenant": "acme", "reason": "r", "for": "5m"}).encode()
        request = urllib.request.Request(f"http://{address}/v1/stops", body, {"authorization": "Bearer hands-secret", "content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status == 202, answer.status
        browser.value(choose("tenant", "acme"))
        browser.wait("a stop of the tenant is named", button("runaway", "Release tenant acme") + " && " + button("quiet", "Release tenant acme")
                     + " && document.querySelectorAll('#sessions tr').length === 3")
        browser.value(click("runaway"))
        browser.wait("beneath is what a detector had placed", state("runaway", "blocked") + " && " + state("quiet", "running"))
    finally:
        browser.go("about:blank")
        browser.call("Network.setExtraHTTPHeaders", headers={})
        child.terminate()
        child.wait()


# A process with Kafka: no feed of its own, the last commands by number with each answer.
WITH_KAFKA = """
const real = window.fetch;
window.asked = [];
window.fetch = async (path, options) => {
    const answer = await real(path, options);
    if (!String(path).startsWith("overview")) return answer;
    const after = Number(new URL(path, location).searchParams.get("after"));
    const command = number => ({ action: "nudge", mode: "live", session_id: "kafka-" + number, episode: "episode-" + number,
        scope: { kind: "session", agent_id: "main" },
        issued_at: "2026-01-01T00:00:00Z", expires_at: "9999-01-01T00:00:00Z", reason: { code: "exact_repeat", summary: "again" } });
    const looping = id => ({ session_id: id, agent_id: "main", state: "nudged", code: "exact_repeat", loops_since: "2026-01-01T00:00:00Z" });
    const agents = { sessions: (location.search === "?restarted" ? ["from-store"] : ["kafka-1", "kafka-2"]).map(looping) };
    window.asked.push(after);
    if (location.search === "?restarted") {
        return new Response(JSON.stringify({ ...await answer.json(), is_embedded: false, agents, active: [], recent: [], recent_last: 0 }));
    }
    const recent = [1, 2].filter(number => number > after).map(command);
    return new Response(JSON.stringify({ ...await answer.json(), is_embedded: false, agents, active: null, recent, recent_last: 2 }));
};
"""


def look_with_kafka(browser, address):
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=WITH_KAFKA)
    browser.call("Page.navigate", url=f"http://{address}/?kafka")
    browser.wait("with Kafka the last commands appear", "document.querySelector('#feed')?.textContent.includes('kafka-2')")
    browser.wait("and what stands of them", "document.querySelectorAll('#loops .row').length === 2")
    browser.wait("each is asked for once", "window.asked.length >= 3 && window.asked.at(-1) === 2"
                 " && document.querySelectorAll('#feed .row').length === 2")
    browser.go(f"http://{address}/?restarted")
    browser.wait("after a restart what is in force stands there, though nothing was told since", "document.querySelectorAll('#loops .row').length === 1"
                 " && document.querySelector('#loops').textContent.includes('from-store')"
                 " && document.querySelector('#feed').textContent === 'None since then.'")
    browser.wait("and since when that is", "!document.querySelector('#feed-since').hidden"
                 " && / since its start at \\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d UTC/.test(document.querySelector('#feed-since').textContent)")


def main():
    binary, chromium, target = sys.argv[1:4]
    # The program is on this machine: no proxy knows it.
    os.environ["no_proxy"] = "*"
    pictures = pathlib.Path(target) / "browser"
    pictures.mkdir(parents=True, exist_ok=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=pictures))
    child, address = start(binary, directory, "mode=live", config=answers.settings(directory))
    browser = Browser(chromium, directory / "profile")
    try:
        browser.open()
        look(browser, address, pictures)
        answers.answer_on_the_page(browser)
        answers.answer_by_a_link(browser, address)
        look_in_shadow(browser, binary, directory)
        look_as_operator(browser, binary, directory / "operator", pictures)
        look_with_kafka(browser, address)
        browser.must_be_silent()
        print(f"browser: the console is silent; screenshots are in {pictures}")
    finally:
        browser.child.kill()
        child.terminate()
        child.wait()
        browser.child.wait()
        shutil.rmtree(directory, ignore_errors=True)


main()
