"""Canonical arguments and fingerprints: the vectors of the wire, and what the program itself says. test_vectors.py has more."""

import json
import os
import shutil
from typing import Any

import engine
import pytest
from values import is_exact

from loopwarden_client.canonical import call_sha256, canonical, fingerprint


def test_the_program_says_so_today() -> None:
    program = os.environ.get("LOOPWARDEN") or shutil.which("loopwarden")
    if not program:
        pytest.skip("there is no program: LOOPWARDEN names none, and none is on the path")
    said = engine.identities(program)
    kinds = {vector["scope"].get("identity", {}).get("kind") for vector in said}
    assert len(said) > 200 and kinds >= {"call", "coarse"}
    for vector in said:
        scope, source = vector["scope"], vector["args"]
        # A worker has arguments as text that holds JSON, or as values; a text in JSON is the former.
        value = json.loads(source)
        as_text = value if isinstance(value, str) else source
        assert fingerprint(vector["tool"], as_text, scope.get("identity")) == scope["fingerprint"], vector
        if is_exact(value):
            assert fingerprint(vector["tool"], value, scope.get("identity")) == scope["fingerprint"], vector


def test_the_vectors_of_the_wire() -> None:
    assert fingerprint("Bash", {"command": "cargo test -p core"}) == "a4404e81f177a67db9d08a78ed566b35"
    assert fingerprint("search", '{"q":"loop","opts":{"b":[2,1],"a":1}}') == "0ac5c057b0fb4b88ebf2cd985bdaf4d7"
    coarse = {"kind": "coarse", "args": ["path"]}
    assert fingerprint("read_file", {"path": "src/größe.rs", "encoding": "utf-8"}, coarse) == "87f5fb79309ab8db4235f1eb037474d5"
    assert fingerprint("any tool", {"definition": "x"}, {"kind": "args"}) == "2748e54004c7867d13bdcb63b3a608d3"
    assert call_sha256("Bash", {"command": "cargo test -p core"})[:32] == "a4404e81f177a67db9d08a78ed566b35"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (None, "{}"), ({}, "{}"), ("{ }", "{}"), ("ls -la", "ls -la"), ("", ""), ("12", "12"), ("1.0", "1"), ('"a"', '"a"'),
        ("[1,", "[1,"), ("NaN", "NaN"), ('["\\ud800"]', '["\\ud800"]'), ([1.0, True, None, "a"], '[1,true,null,"a"]'),
        ({"timeout": 5, "command": "ls"}, '{"command":"ls","timeout":5}'), ({"id": 9007199254740993}, '{"id":9007199254740993}'),
        ({"\uff61": 1, "\U0001f600": 2, "a": 3}, '{"a":3,"\U0001f600":2,"\uff61":1}'),
        (1e21, "1e+21"), (1e20, "100000000000000000000"), (1e-7, "1e-7"), (0.000001, "0.000001"), (-0.0, "0"), (5e-324, "5e-324"),
        (123456789.123e15, "1.23456789123e+23"), (-12.25, "-12.25"), ("-0", "0"), ("1e400", "1e400"),
        ("sha256:" + "0a" * 32, "sha256:" + "0a" * 32), ("[" * 65 + "]" * 65, "[" * 65 + "]" * 65), ("[" * 100_000, "[" * 100_000),
        ('{"a":1,"b":2,"\\u0061":{"x":[]}}', '{"a":{"x":[]},"b":2}'), ({"a": (1, 2)}, '{"a":[1,2]}'),
    ],
)
def test_canonical_texts(args: object, text: str) -> None:
    assert canonical(args) == text


def test_recipes_choose_and_drop_top_level_arguments() -> None:
    full, bare = {"command": "ls", "description": "look", "timeout": 5}, {"command": "ls"}
    assert fingerprint("t", full, {"kind": "call", "args": ["command"]}) == fingerprint("t", bare)
    assert fingerprint("t", full, {"kind": "call", "args_ignored": ["description", "timeout"]}) == fingerprint("t", bare)
    assert fingerprint("t", full) != fingerprint("t", bare)
    coarse = {"kind": "coarse", "args": ["path", "limit"]}
    assert fingerprint("t", {"path": "p", "z": 1}, coarse) == fingerprint("t", {"path": "p"}, coarse)
    assert fingerprint("t", {"z": 1}, coarse) != fingerprint("t", {"z": 2}, coarse), "all, where none is present"
    assert fingerprint("t", "[1]", {"kind": "call", "args": ["a"]}) == fingerprint("t", "[1]")


@pytest.mark.parametrize("identity", [{"kind": "opaque"}, {"kind": "new"}, {"kind": ""}])
def test_what_cannot_be_made_is_not(identity: dict[str, Any]) -> None:
    assert fingerprint("t", {}, identity) is None
