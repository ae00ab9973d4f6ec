#!/usr/bin/env python3
"""Events a second of a process with a log of its own that is sent ever new sessions, tools and swarms: before its bounds are reached, and after.

    tests/bench/bounds.py PROGRAM [--events 900000] [--posters 2] [--keys-max 65536]

Each event is the first of a session, of a swarm, of a tool and of a call. Nobody is held to a share. The rate is that of the counter
`events_total`, each second; `limit_hits_total{limit="swarm_keys"}` says when counters began to leave for others. One JSON line: medians of
the seconds before that and after it, and how many times slower the second is.
"""

import argparse
import http.client
import json
import statistics
import subprocess
import tempfile
import threading
import time


def start(program, folder, keys_max):
    policy = f"{folder}/policy.toml"
    with open(policy, "w") as file:
        file.write(f'profile = "bounds"\nbase = "default"\n[detectors.swarm_repeat]\nkeys_max = {keys_max}\n')
    arguments = [program, "run", "--log-level", "warn", "--set", f"data_dir={folder}/data", "--set", f"policy={policy}"]
    for setting in ["http.listen=127.0.0.1:0", "http.intake_share_ms_max=0", "http.intake_lag_ms_max=0"]:
        arguments += ["--set", setting]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if "http://" in line:
            return process, line.split("http://")[1].split("/")[0]
    raise SystemExit("it did not start")


def post(address, poster, posters, events, batch=500):
    connection = http.client.HTTPConnection(address, timeout=120)
    for first in range(poster * batch, events, posters * batch):
        lines = []
        for number in range(first, min(first + batch, events)):
            event = {"id": f"e{number}", "kind": "tool", "session_id": f"s{number}", "swarm_id": f"w{number}"}
            lines.append(json.dumps(event | {"tool": f"t{number}", "args": {"x": number}, "outcome": "error"}))
        connection.request("POST", "/v1/events", "\n".join(lines), {"content-type": "application/x-ndjson"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 202, body


def metrics(address):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    total = lambda name: sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("loopwarden_" + name))
    return total("events_total"), total('limit_hits_total{limit="swarm_keys"')


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("--events", type=int, default=900_000)
    options.add_argument("--posters", type=int, default=2)
    options.add_argument("--keys-max", type=int, default=65_536)
    options = options.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        process, address = start(options.program, folder, options.keys_max)
        try:
            began = time.monotonic()
            senders = [
                threading.Thread(target=post, args=[address, poster, options.posters, options.events])
                for poster in range(options.posters)
            ]
            for sender in senders:
                sender.start()
            before, after, last, seen = [], [], began, 0.0
            while seen < options.events:
                time.sleep(1)
                now = time.monotonic()
                judged, dropped = metrics(address)
                # The seconds in which it begins or ends are neither.
                if judged - seen > 0:
                    (after if dropped > 0 else before).append((judged - seen) / (now - last))
                last, seen = now, judged
            rates = {name: round(statistics.median(found[1:-1])) for name, found in [("before", before), ("after", after)]}
            print(
                json.dumps(
                    {
                        "events": options.events,
                        "seconds": round(time.monotonic() - began, 1),
                        "per_s": rates,
                        "seconds_of": {"before": len(before), "after": len(after)},
                        "slowest_after": round(min(after[1:-1])),
                        "times_slower": round(rates["before"] / rates["after"], 2),
                        "counters_dropped": metrics(address)[1],
                    }
                )
            )
        finally:
            process.terminate()
            process.wait()


main()
