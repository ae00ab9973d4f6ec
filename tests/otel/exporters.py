"""Real coding agents from npm, headless, against a model on loopback, with their own exporters of OpenTelemetry and no hook of ours.

Each repeats one failing command; loopwarden must find the loop in what the agent exports, and refuse nothing of it. Agents, model and
process are those of tests/agents; skips with the reason where the agents cannot be had.

    python3 tests/otel/exporters.py [AGENT...]
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "agents"))
import model  # noqa: E402
import run as agents  # noqa: E402
from warden import OwnLog, new_folder  # noqa: E402

# Enough for a loop, and few enough that no agent ends the run itself.
model.CALLS_MAX = 10
# Exporters send every few seconds, and once more at the end.
PATIENCE_S = 30


def claude(base, home, project, address):
    environment, command = agents.claude(base, home, project)
    # Without the switch for what is no telemetry of the user's own.
    environment.pop("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC")
    environment.pop("DISABLE_TELEMETRY")
    exporter = {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1", "OTEL_LOGS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_LOG_TOOL_DETAILS": "1", "OTEL_LOGS_EXPORT_INTERVAL": "500",
    }
    return {**environment, **exporter}, command


def codex(base, home, project, address):
    environment, command = agents.codex(base, home, project)
    with open(home / ".codex/config.toml", "a") as settings:
        settings.write('[otel]\nexporter = { otlp-http = { endpoint = "%s/v1/logs", protocol = "binary" } }\n' % address)
    return environment, command


def gemini(base, home, project, address):
    environment, command = agents.gemini(base, home, project)
    path = home / ".gemini/settings.json"
    telemetry = {"enabled": True, "target": "local", "otlpEndpoint": address, "otlpProtocol": "http"}
    path.write_text(json.dumps({**json.loads(path.read_text()), "telemetry": telemetry}))
    return environment, command


def qwen(base, home, project, address):
    environment, command = agents.qwen(base, home, project)
    (home / ".qwen").mkdir(exist_ok=True)
    telemetry = {"enabled": True, "target": "local", "otlpEndpoint": address, "otlpProtocol": "http"}
    (home / ".qwen/settings.json").write_text(json.dumps({"telemetry": telemetry}))
    return environment, command


AGENTS = {"claude-code": claude, "codex": codex, "gemini": gemini, "qwen": qwen}


def events(warden):
    text = urllib.request.urlopen("http://%s/v1/events" % warden.address, timeout=10).read().decode()
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def run(agent, programs, folder, between=lambda warden: "http://" + warden.address):
    """Calls of the model, events that came, commands that were sent. `between`: where the agent exports to."""
    home, project = folder / "home", folder / "project"
    for path in (home, project):
        path.mkdir(parents=True)
    warden = OwnLog(folder)
    script, base, stop = model.start("loop")
    try:
        environment, command = AGENTS[agent](base, home, project, between(warden))
        keep = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR") if name in os.environ}
        environment = {**keep, **environment, "HOME": str(home), "PATH": "%s:%s" % (programs, os.environ["PATH"]), "CI": "1", "LC_ALL": "C"}
        with open(folder / "agent.log", "w") as log:
            subprocess.run(command, env=environment, cwd=project, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                           timeout=agents.RUN_WAIT_S)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            calls = [event for event in events(warden) if event["kind"] == "tool"]
            commands = [one for one in warden.commands() if one["mode"] == "live"]
            if (commands and len(calls) >= script.calls) or time.monotonic() > deadline:
                return script.calls, calls, commands
            time.sleep(0.2)
    finally:
        stop()
        warden.stop()


def problems(made, calls, commands):
    if len(calls) != made:
        yield "%d calls were made, %d came" % (made, len(calls))
    if not any(one["action"] == "nudge" for one in commands):
        yield "no loop was found"
    if len({call["session_id"] for call in calls}) > 1:
        yield "its calls are of several sessions"


def main():
    chosen = sys.argv[1:] or list(AGENTS)
    programs = agents.installed()
    if programs is None:
        return 0
    failed = 0
    for agent in chosen:
        folder = new_folder("exporters-")
        made, calls, commands = run(agent, programs, folder)
        found = list(problems(made, calls, commands))
        told = ["%s by %s" % (one["action"], one["reason"]["code"]) for one in commands]
        print("%s: %s; %d calls, %d came, %s" % (agent, "FAILED" if found else "ok", made, len(calls), told), flush=True)
        if found:
            failed += 1
            print("\n".join("  " + problem for problem in found))
            print("  kept in %s" % folder, flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
