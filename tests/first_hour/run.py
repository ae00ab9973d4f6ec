"""The first hour of four users: a laptop, a team with Kafka, somebody who replays, an integrator. Each types what README and pages show, as it
stands there. A command of a page that none of them types needs a reason here, so that no page shows what nobody has tried.

`make first-hour` builds the programs first. Where the kernel allows it, all runs in a network of its own, so that the ports of the pages are free.
"""

import contextlib
import fcntl
import http.server
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from pages import ROOT, Typed, blocks, inline
from shell import Shell, kafka

PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache/loopwarden/target")).resolve() / "release"
AGENTS, REPLAY, LEARNING, SKILL, INGEST = "src/docs/agents.md", "src/docs/replay.md", "src/docs/learning.md", "skills/loopwarden/SKILL.md", "src/docs/ingest.md"
CALLS = 12
typed = Typed()


def ready(shell, command):
    """`run`, until it is ready."""
    process, _ = shell.start(command, "/v1/commands?" if "bootstrap" not in command and "fleet" not in command else "/metrics")
    return process


def hook(shell, settings, event, session, call):
    """What an agent does at a hook of its settings: it starts the command, and hands it the event."""
    command = settings["hooks"][event][0]["hooks"][0]["command"]
    body = {"cwd": str(shell.work), "hook_event_name": event, "session_id": session, "tool_name": "Bash",
            "tool_input": {"command": "make test"}, "tool_use_id": "call-%d" % call}
    if event == "PostToolUseFailure":
        body["error"] = "Exit code 2\nmake: *** No rule to make target 'test'.  Stop."
    done = subprocess.run(["sh", "-c", command], cwd=shell.work, env={**shell.environment, "LOOPWARDEN_HOOK_WAIT_MS": "20000"},
                          input=json.dumps(body), capture_output=True, text=True, timeout=60)
    if done.returncode not in (0, 2) or (done.returncode == 0 and done.stderr):
        raise SystemExit("first hour: the hook failed: %s%s" % (done.stdout, done.stderr))
    return done.stdout + done.stderr


def loop(shell, session):
    """An agent that makes one failing call for ever, and what it reads."""
    settings = json.loads((shell.home / ".claude/settings.json").read_text())
    answers = ""
    for call in range(CALLS):
        answers += hook(shell, settings, "PreToolUse", session, call)
        answers += hook(shell, settings, "PostToolUseFailure", session, call)
    return answers


def act(shell):
    """What whoever is woken at night types, and what a person answers to a command."""
    page = "src/docs/operate.md"
    # A check is answered when its event is judged.
    event = '{"id":"a1","kind":"tool","session_id":"of-acme","tenant":"acme","tool":"Read","args":{},"outcome":"ok"}'
    shell.type("curl -s http://127.0.0.1:9464/v1/check -H 'content-type: application/json' -d '{\"event\":%s,\"deadline_ms\":10000}'" % event, parts=['"recorded":true'])
    looping, calls, tail = typed.the(page, "loopwarden sessions --looping", "loopwarden sessions --sort calls", "loopwarden tail --since 1h")
    shell.type(looping, parts=["in-live", "blocked"])
    shell.type(calls, parts=["1 agent of 1 looked at", "of-acme", "running"])
    shell.type(tail, parts=["in-live", "block"])
    stop = "loopwarden stop --tenant acme "
    dry, stop, stopped = typed.the(page, stop + "--dry-run", stop + "--reason", "loopwarden sessions --stopped")
    shell.type(dry, parts=["would be stopped: 1 agent that"])
    shell.type(stop, parts=["in force"])
    shell.type(stopped, parts=["of-acme", "stopped", "tenant acme"])
    release, acts = typed.the(page, "loopwarden release --tenant acme", "loopwarden tail --since 1d")
    shell.type(release, parts=["done"])
    shell.type(acts, parts=["runaway fan-out", "fixed in 4.2", "[stop]", "[release]"])
    shell.type(stopped, parts=["0 agents of"])
    page = "src/docs/operations.md"
    commands_so_far = shell.type("curl -s 'http://127.0.0.1:9464/v1/commands?after=0&wait=0s&session_id=in-live'")
    episode = commands_so_far.split('"episode":"')[1].split('"')[0]
    answer = "loopwarden answer EPISODE --session s-42 "
    # What is let be for a while is open no more: the last one changes nothing, and says so.
    for command, expect, part in zip(typed.the(page, answer + "--right", answer + "--allow", answer + "--false-alarm"), (0, 0, 3), ("in force", "in force", "no_open_loop")):
        shell.type(command.replace("EPISODE", episode).replace("s-42", "in-live"), expect=expect, parts=[part])


def laptop(shell):
    """Somebody with a coding agent."""
    typed.skip("README.md", "make demo", "it builds; the built program follows")
    typed.skip("README.md", "make install && loopwarden init", "it builds and asks; init with its answers follows")
    typed.skip(SKILL, "make install", "it builds")
    shell.type(*typed.the(SKILL, "loopwarden demo"), parts=["similar_repeat"])
    process = ready(shell, *typed.the("README.md", "loopwarden run --data-dir ./lw"))
    shell.type(*typed.the("README.md", "for i in 1 2 3"), parts=['"action":"nudge"', '"mode":"shadow"', "sess-42"])
    shell.type(*typed.the("src/docs/operations.md", "loopwarden doctor"), parts=["mode shadow: commands are published, and bind nobody", "nothing to do"])
    shell.type("loopwarden tail --since earliest --once", parts=["sess-42"])
    shell.type("loopwarden sessions --looping", parts=["would be nudged", "sess-42"])
    # Every agent of the table, while the process is in shadow: each says that nothing will be said.
    installs = inline(AGENTS, "loopwarden hook install ")
    assert len(installs) == 11, installs
    for command in installs:
        shell.type(command, parts=["in shadow mode: agents are heard, and nothing is told to them"])
        shell.type(command.replace(" install ", " status "), parts=["in shadow mode"])
    if loop(shell, "in-shadow"):
        raise SystemExit("first hour: an agent was spoken to in shadow")
    Shell.stop(process)
    process = ready(shell, typed.the("README.md", "loopwarden run --data-dir ./lw")[0] + " " + inline("README.md", "--set mode=live")[0])
    shell.type("loopwarden hook status claude-code", parts=["in live mode"])
    answers = loop(shell, "in-live")
    if "make" in answers or "Bash" not in answers or "deny" not in answers:
        raise SystemExit("first hour: an agent that goes round was not stopped: %s" % answers)
    act(shell)
    Shell.stop(process)
    for command in installs[1:]:
        shell.type(command.replace(" install ", " uninstall "))
    shell.type(*typed.the(SKILL, "loopwarden hook uninstall claude-code"))
    assert shell.left() == [], shell.left()


def laptop_by_init(shell):
    """The same by `init`, until everything is undone by the commands that it has shown."""
    shell.type(*typed.the(SKILL, "loopwarden init --on laptop"), parts=["would write"])
    assert shell.left() == [], shell.left()
    shown = shell.type(*typed.the(AGENTS, "loopwarden init --on laptop"), parts=["in a terminal the same is", "what undoes it"])
    run = re.search(r"the same is\n\s+(loopwarden run.*)", shown).group(1)
    process = ready(shell, run)
    shell.type("loopwarden hook status", parts=["in shadow mode"])
    Shell.stop(process)
    for undo in re.findall(r"^\s+undo: (.*)$", shown, re.M):
        shell.type(undo)
    assert shell.left() == [], shell.left()
    shell.type(*typed.the(AGENTS, "loopwarden hook install claude-code --local"), parts=["in live mode: it nudges and blocks"])
    for command in ("systemctl --user daemon-reload", "systemctl --user enable --now loopwarden"):
        typed.skip(AGENTS, command, "no service manager of a user is here")
    both = [command for command in blocks(SKILL, "sh")[-1].splitlines() if command.endswith("--local")]
    typed.open.discard((SKILL, both[0]))
    shell.type(both[0], parts=["removed"])
    assert shell.left() == [], shell.left()


def team(shell, folder):
    """A team with Kafka."""
    broker, jars = kafka(folder)
    if broker is None:
        for page, start in (("README.md", "loopwarden topics create"), ("README.md", "loopwarden run --data-dir ./lw-kafka"),
                            (AGENTS, "loopwarden init --on kafka"), (REPLAY, "loopwarden replay --topic")):
            typed.skip(page, start, jars)
        return
    with contextlib.closing(broker.stdin):
        client = "java -Xmx256m -XX:TieredStopAtLevel=1 -cp '%s/*' org.apache.kafka.tools." % jars
        shell.type(*typed.the("README.md", "loopwarden topics create"), parts=["agents.loop-commands.v1"])
        run = typed.the("README.md", "loopwarden run --data-dir ./lw-kafka")[0]
        process = ready(shell, run)
        event = {"kind": "tool", "session_id": "sess-42", "tool": "Bash", "args": {"command": "cargo test"}, "result": "error: no", "outcome": "error"}
        records = ["sess-42\t" + json.dumps({**event, "id": "k%d" % number}) for number in range(3)]
        (shell.work / "records").write_text("\n".join(records) + "\n")
        shell.type(client + "ConsoleProducer --bootstrap-server localhost:9092 --topic agents.tool-events.v1 --property parse.key=true < records")
        read = client + ("consumer.ConsoleConsumer --bootstrap-server localhost:9092 --topic agents.loop-commands.v1 --from-beginning --max-messages 1"
                         " --isolation-level read_committed --timeout-ms 60000")
        shell.type(read, parts=['"action":"nudge"'])
        Shell.stop(process, signal.SIGKILL)
        process = ready(shell, run)
        shell.type("loopwarden sessions --looping", parts=["1 agent of 1 looked at", "sess-42"])
        shell.type("loopwarden doctor", parts=["nothing to do"])
        Shell.stop(process)
        shown = shell.type(*typed.the(AGENTS, "loopwarden init --on kafka"), parts=["next:"])
        following = re.findall(r"^\s+(loopwarden (?:topics create|check --connect|run).*)$", shown, re.M)
        assert len(following) == 3, shown
        shell.type(following[0], parts=["unchanged"])
        shell.type(following[1], parts=["topics         ok", "permissions    ok"])
        shutil.copy(shell.home / ".config/loopwarden/loopwarden.toml", shell.work)
        shell.type(*typed.the(REPLAY, "loopwarden replay --topic"), parts=["3 events of 1 session", "1"])
        Shell.stop(ready(shell, following[2] + "  # fleet"))
    broker.wait(60)


def replayer(shell):
    """Somebody with logs of the past."""
    folder = shell.home / ".claude/projects/-home-dev-w"
    folder.mkdir(parents=True)
    log = (ROOT / "tests/golden/transcript/claude-code/log.jsonl").read_text()
    (folder / "log.jsonl").write_text(log)
    session = json.loads(next(line for line in log.splitlines() if "sessionId" in line))["sessionId"]
    shutil.copy(ROOT / "config/demo/fleet.ndjson", shell.work / "events.ndjson")
    looped = ["coding-01", "coding-02", "coding-05"]
    rows = [{"session": one, "label": "loop", "first_event_index": 0, "last_event_index": 999} for one in looped]
    (shell.work / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (shell.work / "outcomes.jsonl").write_text("".join(json.dumps({"session": one, "success": False}) + "\n" for one in looped))
    (shell.work / "mine.toml").write_text(blocks("src/docs/policies.md", "toml")[0])
    replay = typed.the(REPLAY, "loopwarden replay ~/.claude/projects", "loopwarden replay events.ndjson --labels")
    shell.type(replay[0], parts=["1 session"])
    shell.type(*typed.the(SKILL, "loopwarden replay ~/.claude/projects"), parts=["1 session"])
    shell.type(typed.the(SKILL, "loopwarden inspect session ID")[0].replace(" ID ", " %s " % session))
    shell.type(replay[1])
    assert "<html" in (shell.work / "report.html").read_text()
    packed = typed.the(REPLAY, "loopwarden replay events.ndjson.zst", "loopwarden replay events.ndjson.zst --labels")
    if shutil.which("zstd"):
        shell.type("zstd -q events.ndjson")
    else:
        # The form is known by its content, not by the name.
        shutil.copy(shell.work / "events.ndjson", shell.work / "events.ndjson.zst")
    shell.type(packed[0])
    shell.type(packed[1], parts=["score.nudge_at", "recall"])
    shell.type(*typed.the(LEARNING, "loopwarden learn events.ndjson"), parts=["0 labels"])
    typed.skip(LEARNING, "loopwarden learn --since", "it needs answers of a week")
    process, _ = shell.start(inline("README.md", "loopwarden replay --follow")[0], "following ")
    Shell.stop(process)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes what webhooks send."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def integrator(shell):
    """Somebody who connects other programs."""
    process = ready(shell, "loopwarden run --data-dir ./lw")
    exports = typed.the(INGEST, "export OTEL_EXPORTER_OTLP_ENDPOINT", "export OTEL_EXPORTER_OTLP_PROTOCOL")
    attribute = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.conversation.id": "otel-1"}
    span = {"traceId": "0a" * 16, "name": "execute_tool search", "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attribute.items()]}
    spans = [{**span, "spanId": "%016x" % (number + 1), "endTimeUnixNano": str(1795613167000000000 + number)} for number in range(12)]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    (shell.work / "spans.json").write_text(body)
    post = "curl -s $OTEL_EXPORTER_OTLP_ENDPOINT/v1/traces -H 'content-type: application/json' -d @spans.json"
    shell.type("\n".join([*exports, post]), parts=["only names can be compared", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"])
    # Without contents nothing is a loop, and the way to have them is shown.
    shell.type("loopwarden doctor", expect=3, parts=["[W0301]", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"])
    assert not shell.type("loopwarden tail --since earliest --once").strip()
    Shell.stop(process)
    recorded = (ROOT / "src/sources/tests/recordings/codex.otlp.ndjson").read_text().splitlines()
    (shell.work / "exports.ndjson").write_text("".join(json.dumps(json.loads(line)["body"]) + "\n" for line in recorded))
    shell.type(*typed.the("src/docs/operations.md", "loopwarden doctor --try"), parts=["nothing to do"])
    typed.skip("src/docs/operations.md", "loopwarden doctor --address watch-0", "that host is nobody's")
    typed.skip(AGENTS, "loopwarden mcp-proxy", "make agents does so, with a server")
    typed.skip("clients/python/README.md", "pip install", "make clients-python does so, with a network")
    (shell.work / "map.toml").write_text(blocks(INGEST, "toml")[1])
    record = {"type": "tool.finished", "run": {"id": "r1"}, "call": {"name": "search", "input": {"q": "x"}, "output": "none", "failed": False}}
    (shell.work / "records.ndjson").write_text(json.dumps(record) + "\n")
    shell.type(inline(INGEST, "loopwarden map --try records.ndjson")[0], parts=["search"])
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    tables = blocks("src/docs/webhooks.md", "toml")
    for table in tables:
        (shell.work / "token").write_text("0123456789abcdef0123456789abcdef")
        # What links need stands beside a webhook.
        table = table if "[[webhook]]" in table else table + "\n" + tables[0]
        here = re.sub(r'(?m)^url( *)= "https://[^"]*', r'url\1= "http://127.0.0.1:%d/hook' % receiver.server_port, table)
        here = re.sub(r'(\w+)_file = "[^"]*"', r'\1_file = "token"', here).replace('url_file = "token"', 'url = "http://127.0.0.1:%d/"' % receiver.server_port)
        (shell.work / "loopwarden.toml").write_text(here)
        shell.type("loopwarden webhook test --config loopwarden.toml", parts=["block taken"])
    receiver.shutdown()


def alone():
    """Begins anew in a network of its own, where the ports of the pages are free. Elsewhere they must be."""
    if os.environ.get("FIRST_HOUR_ALONE"):
        with socket.socket() as one:
            # SIOCSIFFLAGS: the loopback is up.
            fcntl.ioctl(one, 0x8914, struct.pack("16sH14x", b"lo", 1))
        return
    unshare = [shutil.which("unshare") or "unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode == 0:
        os.environ["FIRST_HOUR_ALONE"] = "1"
        os.execv(unshare[0], [*unshare, sys.executable, __file__])
    for port in (9464, 9092, 9093):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                print("first hour: skipped, port %d of the pages is taken, and no network of its own can be had" % port)
                sys.exit(0)


def main():
    alone()
    (PROGRAMS.parent / "tmp").mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="first-hour-", dir=PROGRAMS.parent / "tmp"))
    users = [("laptop", laptop), ("laptop, by init", laptop_by_init), ("team with Kafka", lambda shell: team(shell, folder / "broker")),
             ("replay", replayer), ("integrator", integrator)]
    try:
        for number, (name, user) in enumerate(users):
            shell = Shell(folder / str(number), PROGRAMS)
            with contextlib.closing(shell):
                user(shell)
            print("first hour: %s: done" % name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    typed.finish()
    print("first hour: every command of README and pages was typed, or left out with its reason")


if __name__ == "__main__":
    main()
