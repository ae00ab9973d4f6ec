#!/usr/bin/env python3
"""One tenant posts all it can to an embedded process; how late are verdicts of another one, and what happens to its blocks?

    tests/bench/flood.py PROGRAM [--seconds 60] [--posters 4] [--batch 500] [--tenants 1]

Posters of the tenant "evil", or of so many with made-up names, send events of ever new sessions, swarms, tools and fingerprints, and send at once again when they are sent
away. Meanwhile agents of the tenant "good" report a call ten times a second each with a check: its answer comes when the call is judged,
so that its time is how late verdicts are. A blocked session of "good" asks five times a second whether it may call: it must not. One JSON
line at the end; exit code 1 where an event was lost or sent away (`recorded: false`), a block lifted or a call refused that should not be.
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time

AGENTS = 4


def start(program, folder):
    arguments = [program, "run", "--log-level", "warn", "--set", f"data_dir={folder}", "--set", "mode=live"]
    arguments += ["--set", "http.listen=127.0.0.1:0"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "http://" in line:
            return process, line.split("http://")[1].split("/")[0]
    raise SystemExit("it did not start")


def ask(connection, path, body, media="application/json"):
    connection.request("POST", path, body, {"content-type": media})
    answer = connection.getresponse()
    return answer.status, answer.read()


def check(connection, event, record):
    client = {"name": "bench", "can": ["deny"]}
    status, body = ask(
        connection, "/v1/check", json.dumps({"event": event, "record": record, "client": client, "deadline_ms": 10_000})
    )
    assert status == 200, body
    return json.loads(body)


def call(session, name, kind="tool", command="make test", outcome="ok"):
    event = {"id": name, "kind": kind, "session_id": session, "tenant": "good", "tool": "Bash", "args": {"command": command}}
    return event | ({"outcome": outcome, "result": name} if kind == "tool" else {})


class Run:
    def __init__(self, address, seconds, batch, tenants):
        self.address, self.until, self.batch, self.tenants = address, time.monotonic() + seconds, batch, tenants
        self.times, self.recorded, self.lifted, self.wrong, self.sent_away = [], set(), 0, 0, 0
        self.lags = []
        self.taken = self.refused = 0
        self.lock = threading.Lock()

    def connection(self):
        return http.client.HTTPConnection(self.address, timeout=60)

    def is_over(self):
        return time.monotonic() > self.until

    def flood(self, poster):
        connection, number = self.connection(), 0
        while not self.is_over():
            lines = []
            for _ in range(self.batch):
                number += 1
                name = f"{poster}-{number}"
                event = {"id": name, "kind": "tool", "session_id": f"e{name}", "tenant": f"evil{number // self.batch % self.tenants}", "swarm_id": f"w{name}"}
                lines.append(json.dumps(event | {"tool": f"t{name}", "args": {"x": name}, "outcome": "error"}))
            status, _ = ask(connection, "/v1/events", "\n".join(lines), "application/x-ndjson")
            with self.lock:
                if status == 202:
                    self.taken += self.batch
                else:
                    assert status == 429, status
                    self.refused += self.batch

    def agent(self, which):
        connection, number = self.connection(), 0
        while not self.is_over():
            number += 1
            name = f"good-{which}-{number}"
            began = time.monotonic()
            answer = check(connection, call(f"agent-{which}", name, command=f"part {name}"), True)
            took = time.monotonic() - began
            with self.lock:
                self.times.append(took)
                self.lags.append(answer["state"].get("lag_ms", 10_000))
                self.wrong += answer["decision"] != "allow"
                # It was told that there is no room; what it was told to be recorded must be there.
                self.sent_away += not answer["recorded"]
                if answer["recorded"]:
                    self.recorded.add(name)
            time.sleep(max(0.0, 0.1 - took))

    def blocked(self, session):
        connection = self.connection()
        while not self.is_over():
            answer = check(connection, call(session, "again", "tool_call"), False)
            with self.lock:
                self.lifted += answer["decision"] != "deny"
            time.sleep(0.2)


def block(run, session):
    connection = run.connection()
    for number in range(100):
        check(connection, call(session, f"{session}-{number}", outcome="error"), True)
        if check(connection, call(session, "again", "tool_call"), False)["action"] == "block":
            return
    raise SystemExit("it is never blocked")


def kept(run):
    """How often each of the good events is in the log."""
    connection = run.connection()
    connection.request("GET", "/v1/events")
    counts = {}
    for line in connection.getresponse():
        if b'"tenant":"good"' in line.replace(b" ", b""):
            name = json.loads(line)["id"]
            counts[name] = counts.get(name, 0) + 1
    return counts


def metric(run, name):
    connection = run.connection()
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("loopwarden_" + name))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--posters", type=int, default=4)
    options.add_argument("--batch", type=int, default=500)
    options.add_argument("--tenants", type=int, default=1)
    options = options.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        process, address = start(options.program, folder)
        try:
            run = Run(address, options.seconds, options.batch, options.tenants)
            block(run, "blocked")
            threads = [threading.Thread(target=run.blocked, args=["blocked"])]
            threads += [threading.Thread(target=run.agent, args=[which]) for which in range(AGENTS)]
            threads += [threading.Thread(target=run.flood, args=[poster]) for poster in range(options.posters)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            counts = kept(run)
            missing = sum(name not in counts for name in run.recorded)
            twice = sum(count > 1 for count in counts.values())
            times = sorted(run.times)
            at = lambda part: round(times[min(int(len(times) * part), len(times) - 1)] * 1_000, 1)
            print(
                json.dumps(
                    {
                        "seconds": options.seconds,
                        "evil_taken": run.taken,
                        "evil_refused": run.refused,
                        "good": len(times),
                        "late_ms": {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)},
                        "lag_ms_max": max(run.lags),
                        "sent_away": run.sent_away,
                        "lost": missing,
                        "twice": twice,
                        "lifted": run.lifted,
                        "wrong": run.wrong,
                        "refused_by": {"share": metric(run, 'intake_refused_total{why="share"'), "behind": metric(run, 'intake_refused_total{why="behind"')},
                    }
                )
            )
            sys.exit(bool(run.sent_away + missing + twice + run.lifted + run.wrong))
        finally:
            process.terminate()
            process.wait()


main()
