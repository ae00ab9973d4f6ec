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

PATIENCE_S = 60


def address(process):
    """The address in the greeting, whose last line comes when the process is ready."""
    greeting = ""
    for line in process.stdout:
        greeting += line
        if "/v1/commands?" in line:
            return "http://" + greeting.split("http://")[1].split("/")[0]
    sys.exit(f"the process ended before it was ready: {greeting}")


def first_command(address, session):
    query = urllib.parse.urlencode({"after": 0, "wait": "30s", "session_id": session})
    with urllib.request.urlopen(f"{address}/v1/commands?{query}", timeout=PATIENCE_S) as answer:
        commands = json.load(answer)["commands"]
    if not commands:
        sys.exit(f"{session}: no loop was found")
    return commands[0]


def main(program, scratch, *agents):
    arguments = [program, "run", "--data-dir", f"{scratch}/data", "--log-level", "warn"]
    for setting in ["http.listen=127.0.0.1:0", "mode=live"]:
        arguments += ["--set", setting]
    log = pathlib.Path(scratch, "log")
    with log.open("w") as errors, subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        try:
            listening = address(process)
            sent = subprocess.run([*agents, listening], capture_output=True, text=True, timeout=PATIENCE_S)
            # An exporter that was refused says so, and goes on.
            if sent.returncode != 0 or "Failed" in sent.stderr or "Error" in sent.stderr:
                sys.exit(f"{agents}: {sent.stdout}{sent.stderr}")
            for session in sent.stdout.split():
                command = first_command(listening, session)
                print(f"{session}: {command['action']} by {command['reason']['code']}: {command['reason']['summary']}")
        finally:
            process.terminate()
    if process.returncode != 0:
        sys.exit(f"the process ended with {process.returncode}: {log.read_text()}")
    # All report arguments and results.
    if "arguments or results" in log.read_text():
        sys.exit(log.read_text())


main(*sys.argv[1:])
