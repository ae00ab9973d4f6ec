#!/usr/bin/env python3
"""Answers to a tenth of the commands, `loopwarden learn`, and its policy on the sessions that nobody answered.

    python3 tests/learn/measure.py PROGRAM [SEEDS]

Labels and outcomes of three recorded sets stand for what people know. They lie in ../shared/data, or where
LOOPWARDEN_SETS says; without them nothing is measured. A command in a labelled loop is answered right, one in
a look-alike or in a session that ended well is a false alarm, and no other is answered. Each answer is that of
one of four actors. What is drawn is drawn by hashes of names: two runs give the same table.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SETS = ["", "2", "3"]
SHARE = 0.1
WRONG = {"none wrong": 0.0, "1 in 10 wrong": 0.1, "none wrong, one hostile": 0.0}


def drawn(*name):
    """A number from 0 to 1 that depends on its name alone."""
    return int.from_bytes(hashlib.sha256(repr(name).encode()).digest()[:8], "big") / 2**64


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class Fleet:
    """The recorded sessions, and what is known of them."""

    def __init__(self, program, data, scratch):
        self.program, self.scratch = program, scratch
        self.events = [str(data / f"events{n}.ndjson.zst") for n in SETS]
        self.labels = [row for n in SETS for row in rows(data / f"labels{n}.jsonl") if not row.get("ambiguous")]
        self.outcomes = [row for n in SETS for row in rows(data / f"outcomes{n}.jsonl")]
        self.by_session = {}
        for row in self.labels:
            self.by_session.setdefault(row["session"], []).append(row)
        self.successes = {row["session"] for row in self.outcomes if row["success"]}
        text = self.run(["replay", *self.events, "-o", "ndjson"])
        commands = [json.loads(line) for line in text.splitlines()]
        self.commands = [command for command in commands if command.get("session_id") and command["action"] != "unblock"]

    def run(self, arguments, codes=(0,)):
        done = subprocess.run([self.program, "-q", *arguments], capture_output=True, text=True, check=False)
        if done.returncode not in codes:
            sys.exit(f"{arguments[0]}: {done.returncode}: {done.stderr}")
        self.code = done.returncode
        return done.stdout

    def truth(self, command):
        """Whether the loop of a command is one; None where nobody knows."""
        session = command["session_id"]
        at = int(command["trigger"]["event_id"].rsplit("#", 1)[1])
        inside = lambda row, after: row["first_event_index"] <= at <= row["last_event_index"] + after
        known = self.by_session.get(session, [])
        if any(row["label"] == "loop" and inside(row, 1) for row in known):
            return True
        if session in self.successes or any(row["label"] == "ok" and inside(row, 0) for row in known):
            return False
        return None

    def answers(self, seed, case):
        """The answers of a fleet as events."""
        given = []
        for command in self.commands:
            truth, name = self.truth(command), command["id"]
            if truth is not None and drawn(seed, "asked", name) < SHARE:
                is_right = truth != (drawn(seed, "wrong", name) < WRONG[case])
                given.append((command, f"actor-{int(drawn(seed, 'who', name) * 4)}", is_right))
            if "hostile" in case and drawn(seed, "hostile", name) < SHARE:
                given.append((command, "mallory", False))
        for at, (command, actor, is_right) in enumerate(given):
            yield {
                "id": f"answer-{seed}-{at}", "kind": "answer", "time": command["issued_at"], "session_id": command["session_id"],
                "agent": {"id": command["scope"].get("agent_id", "main")}, "episode": command["episode"],
                "answer": "right" if is_right else "false_alarm", "labels": {"actor": actor},
            }

    def judged(self, policy, without):
        """Loops found and false alarms of the sessions that nobody answered."""
        files = {}
        for name, all_rows in {"labels": self.labels, "outcomes": self.outcomes}.items():
            files[name] = self.scratch / f"{name}.jsonl"
            left = [json.dumps(row) for row in all_rows if row["session"] not in without]
            files[name].write_text("\n".join(left) + "\n", encoding="utf-8")
        text = self.run(["replay", *self.events, "--policy", policy, "--labels", str(files["labels"]),
                         "--outcomes", str(files["outcomes"]), "-o", "json"])
        found = json.loads(text)["judgement"]
        alarms = found["look_alikes"]["nudged"] + found["successful_outside_loops"]["nudged"]
        return found["loops"]["found"], found["loops"]["labelled"], alarms


def main():
    program, seeds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    here = pathlib.Path(__file__).resolve().parents[2]
    data = pathlib.Path(os.environ.get("LOOPWARDEN_SETS", here.parent / "shared" / "data"))
    if not (data / "events3.ndjson.zst").exists():
        print(f"skipped: {data} has no labelled sets; LOOPWARDEN_SETS names their folder")
        return
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        fleet = Fleet(program, data, scratch)
        print("case                     seed  answers  better  loops before  after  of   false alarms before  after  left out")
        for case in WRONG:
            for seed in range(seeds):
                events = list(fleet.answers(seed, case))
                file, policy = scratch / "answers.ndjson", scratch / "learned.toml"
                policy.unlink(missing_ok=True)
                file.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
                learned = json.loads(fleet.run(["learn", *fleet.events, str(file), "--write", str(policy), "-o", "json"], (0, 3)))
                assert learned["answers"]["unknown"] == 0, learned["answers"]
                assert learned["is_better"] == policy.exists() == (fleet.code == 0)
                asked = {event["session_id"] for event in events}
                before = fleet.judged("default", asked)
                after = fleet.judged(str(policy), asked) if policy.exists() else before
                out = ",".join(actor["actor"] for actor in learned["actors"] if actor["left_out"])
                print(f"{case:24} {seed:4} {len(events):8} {'yes' if policy.exists() else 'no':>7} {before[0]:13} {after[0]:6}"
                      f" {before[1]:3} {before[2]:21} {after[2]:6}  {out}", flush=True)


if __name__ == "__main__":
    main()
