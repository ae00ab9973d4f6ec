#!/usr/bin/env python3
"""Follows loopwarden's commands and stops workers that are blocked.

Each worker writes its process id into PIDS/<session_id>.pid when it starts. A block of at least LEVEL (3: these calls, 4: everything) ends
the worker with SIGTERM. Narrower orders, nudges and swarm commands are left to the workers themselves.

    pip install confluent-kafka   # Python 3.11 or newer
    python3 orchestrator.py --bootstrap localhost:9092 --pids ./workers
"""

import argparse
import json
import os
import re
import signal
from collections import OrderedDict
from datetime import datetime, timezone
from pathlib import Path

from confluent_kafka import Consumer

SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")  # a session id comes from outside and must not become a path


def stop(pids: Path, session: str) -> str:
    if not SAFE.fullmatch(session):
        return "no worker (unsafe id)"
    try:
        pid = int((pids / f"{session}.pid").read_text())
        if pid <= 1:  # 0 and negative numbers name whole groups of processes
            return "no worker (bad pid)"
        os.kill(pid, signal.SIGTERM)
        return f"stopped {pid}"
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return "no worker"


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--bootstrap", default="localhost:9092")
    arguments.add_argument("--topic", default="agents.loop-commands.v1")
    arguments.add_argument("--group", default="orchestrator")
    arguments.add_argument("--pids", type=Path, required=True)
    arguments.add_argument("--level", type=int, default=3)
    options = arguments.parse_args()
    consumer = Consumer({
        "bootstrap.servers": options.bootstrap, "group.id": options.group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",  # a command is visible once, and never one that was taken back
    })
    consumer.subscribe([options.topic])
    applied: OrderedDict[tuple, tuple] = OrderedDict()  # subject -> (epoch, seq) of the last command; bounded
    try:
        while True:
            record = consumer.poll(1.0)
            if record is None or record.error():
                if record is not None:
                    print("broker:", record.error())
                continue
            command = json.loads(record.value())
            scope = command.get("scope", {})
            if command.get("v") != 1 or command.get("mode") != "live" or scope.get("kind") != "session":
                continue
            subject = (command.get("tenant"), command["session_id"], scope.get("by"), scope.get("agent_id"))
            order = (command["epoch"], command["seq"])
            if datetime.fromisoformat(command["expires_at"]) <= datetime.now(timezone.utc) or order <= applied.get(subject, (0, 0)):
                continue
            if command["action"] == "block" and command["level"] >= options.level:
                print(command["session_id"], command["reason"]["code"], stop(options.pids, command["session_id"]), flush=True)
            applied[subject] = order
            applied.move_to_end(subject)
            if len(applied) > 100_000:
                applied.popitem(last=False)
            consumer.commit(record, asynchronous=False)  # after the act: a crash repeats a SIGTERM, it never forgets one
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
