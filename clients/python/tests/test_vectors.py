"""The vectors that the guard is held to as well: `cargo test --test it vectors` writes them, CLIENT_VECTORS names the file."""

import json
import os
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from values import is_exact

from loopwarden_client import Commands, Decision
from loopwarden_client.canonical import canonical, fingerprint
from loopwarden_client.verdicts import Who, time_ms

FILE = os.environ.get("CLIENT_VECTORS")
pytestmark = pytest.mark.skipif(not FILE, reason="CLIENT_VECTORS names no vectors: `cargo test --test it vectors` writes them")
VECTORS = [json.loads(line) for line in Path(FILE).read_text(encoding="utf-8").split("\n") if line] if FILE else []


def of(what: str) -> list[dict[str, Any]]:
    return [vector for vector in VECTORS if vector["is"] == what]


def forms(source: str) -> list[Any]:
    """Arguments as a worker may have them: a text that holds JSON, and values where these lose nothing."""
    value = json.loads(source)
    if isinstance(value, str):
        return [value]
    return [source, value] if is_exact(value) else [source]


def test_canonical_texts() -> None:
    for vector in of("text"):
        for source in [vector["args"], *vector["spellings"]]:
            assert [canonical(form) for form in forms(source)] == [vector["text"]] * len(forms(source)), vector


def test_halves_of_surrogate_pairs() -> None:
    for vector in of("units"):
        text = "".join(chr(unit) for unit in vector["units"])
        assert (canonical(text), canonical([text])) == (vector["text"], vector["list"]), vector


def test_fingerprints() -> None:
    for vector in of("print"):
        for form in forms(vector["args"]):
            assert fingerprint(vector["tool"], form, vector["identity"]) == vector["fingerprint"], vector


def test_times() -> None:
    for vector in of("time"):
        assert time_ms(vector["text"]) == vector["ms"], vector


class Clock:
    ms = 0

    def __call__(self) -> datetime:
        return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=self.ms)


def told(decision: Decision) -> dict[str, Any]:
    assert not decision.failure
    answer: dict[str, Any] = {
        "decision": "deny" if decision.denied else "allow", "action": decision.action, "stop": decision.stop,
        "message": decision.message, "placement": decision.placement, "command_id": decision.command_id, "level": decision.level,
    }
    return {field: value for field, value in answer.items() if value not in ("", 0) or field == "stop"}


def who_of(step: dict[str, Any]) -> Who:
    return Who(**{**step["who"], "labels": tuple(step["who"].get("labels", {}).items())})


def test_bindings() -> None:
    assert len(of("binding")) == 28, "seven kinds, four acts"
    for row in of("binding"):
        clock = Clock()
        commands = Commands(clock)
        for step in row["steps"]:
            clock.ms = step["now"]
            if "command" in step:
                assert commands.read(step["command"]) == "applied", step
                continue
            decision = commands.decide(who_of(step), step["tool"], step["args"], can=step["can"], phase=step["phase"])
            assert told(decision) == step["answer"], (row["act"], row["kind"], step)


def test_stories() -> None:
    said: Counter[str] = Counter()
    for number, story in enumerate(of("story")):
        clock = Clock()
        commands = Commands(clock)
        for at, step in enumerate(story["steps"]):
            clock.ms = step["now"]
            if "command" in step:
                said[commands.read(step["command"])] += 1
                continue
            who = who_of(step)
            if step["phase"] == "anew":
                commands.begin_anew(who)
                continue
            decision = commands.decide(who, step.get("tool"), step.get("args"), can=step["can"], phase=step["phase"])
            assert told(decision) == step["answer"], (number, at, step)
    # None of the ways in which a command can end is missing.
    assert all(said[word] >= 20 for word in ("applied", "duplicate", "stale", "expired", "not_live", "malformed", "unknown")), said


def test_there_are_ten_thousand() -> None:
    questions = sum(len(vector.get("steps", "1")) for vector in VECTORS)
    assert questions >= 10_000, questions
