"""Measures POST /v1/check: answers per call at 10,000 rows in force, and what a guard holds in memory.

    python3 tests/bench/check.py target/release/loopwarden [rows] [checks]

Needs nothing but the program and Python. It starts a process with a log of its own and a guard beside it, lets each of so many
sessions run into a block, then asks both on one connection, call after call. Numbers are printed, nothing is held against a bound.
"""

import http.client
import json
import subprocess
import sys
import tempfile
import time


def start(arguments, marker):
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if marker in line:
            return process, line.split("http://")[1].split("/")[0].split(",")[0].strip()
    raise SystemExit(f"{arguments[1]} ended")


def event(session, number, kind="tool"):
    return {
        "id": f"{session}-{number}-{kind}", "kind": kind, "session_id": session, "tool": "Bash", "call_id": f"c{number}",
        "args": {"command": "make test"}, **({} if kind == "tool_call" else {"outcome": "error", "result": "failed"}),
    }


def memory_mb(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def get(address, path):
    connection = http.client.HTTPConnection(address)
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def fill(address, rows):
    connection = http.client.HTTPConnection(address)
    for number in range(1, 11):
        for first in range(0, rows, 2000):
            # Ten seconds from one call to the next: an agent gets time to heed a nudge before it is blocked.
            when = {"time": int(time.time() * 1000) - (11 - number) * 10_000}
            lines = "\n".join(json.dumps(event(f"s{at}", number) | when) for at in range(first, min(first + 2000, rows)))
            connection.request("POST", "/v1/events", lines, {"content-type": "application/x-ndjson"})
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 202:
                raise SystemExit(f"{answer.status}: {body[:200]}")


def ask(address, rows, checks, kind, record, fresh):
    """Microseconds of each answer, sorted, and how many were refused."""
    connection = http.client.HTTPConnection(address)
    times, denied = [], 0
    for number in range(checks):
        session = f"f{number % 500}" if fresh else f"s{number * 7919 % rows}"
        asked = event(session, 1_000_000 + number, kind)
        if fresh:
            asked["args"] = {"command": f"part {number}"}
        client = {"name": "bench", "can": ["deny", "context_after"]}
        body = json.dumps({"event": asked, "record": record, "client": client, "deadline_ms": 2000})
        began = time.perf_counter()
        connection.request("POST", "/v1/check", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        times.append((time.perf_counter() - began) * 1e6)
        denied += answer.status == 200 and json.loads(text)["decision"] == "deny"
    return sorted(times), denied


def show(what, measured):
    times, denied = measured
    at = lambda part: times[min(len(times) - 1, int(len(times) * part))]
    print(f"{what:58} p50 {at(.5):7.0f} us  p99 {at(.99):7.0f} us  refused {denied} of {len(times)}", flush=True)


def main():
    program = sys.argv[1]
    rows, checks = (int(sys.argv[at]) if len(sys.argv) > at else 10_000 for at in (2, 3))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        sets = ["--set", "http.listen=127.0.0.1:0", "--set", "mode=live"]
        engine, address = start([program, "run", "--data-dir", f"{folder}/data", *sets], "http://")
        upstream = ["--upstream", f"http://{address}", "--listen", "127.0.0.1:0", "--data-dir", folder, "--keep", f"{folder}/kept"]
        guard, beside = start([program, "guard", *upstream], "guard: ")
        try:
            empty = memory_mb(guard)
            fill(address, rows)
            while json.loads(get(address, "/overview"))["events"] < 10 * rows:
                time.sleep(0.5)
            subjects = 0
            while subjects < rows:
                subjects = int(float(get(beside, "/metrics").split("\nloopwarden_guard_subjects{} ")[1].split("\n")[0]))
                time.sleep(0.5)
            show("guard, before a call, only asked", ask(beside, rows, checks, "tool_call", False, False))
            show("guard, before a call, recorded", ask(beside, rows, checks, "tool_call", True, True))
            show("embedded, before a call, only asked", ask(address, rows, checks, "tool_call", False, False))
            show("embedded, before a call, recorded", ask(address, rows, checks, "tool_call", True, True))
            show("embedded, after a call, with its own verdict", ask(address, rows, min(checks, 2000), "tool_result", True, True))
            print(f"guard: {memory_mb(guard):.0f} MB with {subjects} rows of as many sessions, {empty:.0f} MB without")
        finally:
            guard.terminate()
            engine.terminate()
            guard.wait()
            engine.wait()


if __name__ == "__main__":
    main()
