"""Starts the embedded process, lets agents send their spans to it, and asks it for the commands.

    drive.py PROGRAM SCRATCH COMMAND…     the command gets the address behind it, and prints the session of each agent

The first line that is no address, no session or no command ends it with an error.
"""

import json
import pathlib
import subprocess
import sys
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
from embedded import running  # noqa: E402

PATIENCE_S = 60


def first_command(address, session):
    query = urllib.parse.urlencode({"after": 0, "wait": "30s", "session_id": session})
    with urllib.request.urlopen(f"{address}/v1/commands?{query}", timeout=PATIENCE_S) as answer:
        commands = json.load(answer)["commands"]
    if not commands:
        sys.exit(f"{session}: no loop was found")
    return commands[0]


def main(program, scratch, *agents):
    with running(program, scratch) as listening:
        sent = subprocess.run([*agents, listening], capture_output=True, text=True, timeout=PATIENCE_S)
        # An exporter that was refused says so, and goes on.
        if sent.returncode != 0 or "Failed" in sent.stderr or "Error" in sent.stderr:
            sys.exit(f"{agents}: {sent.stdout}{sent.stderr}")
        for session in sent.stdout.split():
            command = first_command(listening, session)
            print(f"{session}: {command['action']} by {command['reason']['code']}: {command['reason']['summary']}")
    log = pathlib.Path(scratch, "log")
    # All report arguments and results.
    if "arguments or results" in log.read_text():
        sys.exit(log.read_text())


main(*sys.argv[1:])
