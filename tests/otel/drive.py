"""Starts the embedded process, lets agents send their spans to it, and asks it for the commands. They must be those of the same calls sent
as events: the same kinds, detectors and levels, at the same calls.

    drive.py PROGRAM SCRATCH COMMAND…     the command gets the address behind it, and prints the session of each agent and one of its calls

The first line that is no address, no session or no command ends it with an error.
"""

import json
import pathlib
import subprocess
import sys
import time
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
from embedded import running  # noqa: E402

PATIENCE_S = 60


def ask(address, path, **query):
    url = f"{address}{path}?{urllib.parse.urlencode(query)}" if query else f"{address}{path}"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def said(address, session):
    """What was said about a session, with the number of the call that caused it, once all of its calls are judged."""
    events = [json.loads(line) for line in ask(address, "/v1/events", session_id=session).splitlines() if line.strip()]
    calls = [event["id"] for event in events if event["kind"] == "tool"]
    deadline = time.monotonic() + PATIENCE_S
    while sum(len(agent["steps"]) for agent in json.loads(ask(address, f"/sessions/{session}"))["agents"]) < len(calls):
        if time.monotonic() > deadline:
            sys.exit(f"{session}: not all of its {len(calls)} calls were judged")
        time.sleep(0.1)
    # This answer waits for the sync of all that is written: what is not durable is not in the feed.
    ask(address, f"/v1/state/{session}")
    commands = json.loads(ask(address, "/v1/commands", after=0, wait="0s", session_id=session))["commands"]
    return len(calls), [(calls.index(one["trigger"]["event_id"]), one["action"], one["level"], one["reason"]["code"],
                         one["reason"].get("evidence", {}).get("count"), one["scope"]["tool"], one["scope"]["fingerprint"])
                        for one in commands if one["action"] != "unblock"]


def send(address, session, call, calls):
    """The same calls as events."""
    lines = [json.dumps({"id": f"{session}-{number}", "kind": "tool", "session_id": session, **call}) for number in range(calls)]
    request = urllib.request.Request(f"{address}/v1/events", "\n".join(lines).encode(), {"content-type": "application/x-ndjson"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        if json.load(answer) != {"accepted": calls, "rejected": []}:
            sys.exit(f"{session}: its events were not taken")


def main(program, scratch, *agents):
    with running(program, scratch) as listening:
        sent = subprocess.run([*agents, listening], capture_output=True, text=True, timeout=PATIENCE_S)
        # An exporter that was refused says so, and goes on.
        if sent.returncode != 0 or "Failed" in sent.stderr or "Error" in sent.stderr:
            sys.exit(f"{agents}: {sent.stdout}{sent.stderr}")
        for session, call in (line.split("\t") for line in sent.stdout.splitlines()):
            calls, by_spans = said(listening, session)
            if not by_spans:
                sys.exit(f"{session}: no loop was found")
            send(listening, f"{session}-natively", json.loads(call), calls)
            natively = said(listening, f"{session}-natively")[1]
            if by_spans != natively:
                sys.exit(f"{session}: as spans {by_spans}, as events {natively}")
            print(f"{session}: " + ", ".join(f"{action} by {code} at call {at + 1} of {calls}" for at, action, _, code, *_ in by_spans))
    log = pathlib.Path(scratch, "log")
    # All report arguments and results.
    if "arguments or results" in log.read_text():
        sys.exit(log.read_text())


main(*sys.argv[1:])
