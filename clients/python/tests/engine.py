"""Lets the engine itself say what the identity of a call is.

Each call is made several times, with the same failing answer, in a session of its own. The nudge names its fingerprint and recipe.
"""

import json
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any

TOOLS = ["Bash", "search", "read_file", "mcp__fs__write", "größe"]
KEYS = [
    "path", "query", "command", "limit", "offset", "a", "b", "é", "\U0001f600", "\uff61", "", "k\"\\\n", "description", "timeout",
    "10", "9",
]
TEXTS = [
    "", "x", "a b", "é\u2028\x7f", "\x00\x1f\b\f", "\\\"/", "\U0001f600\uffff", "ls -la", "src/größe.rs", "{\"a\":1}",
    "1", "null",
]
NUMBERS = [
    "0", "-0",
    "-0.0", "1.0", "1e2", "1E+2", "1.50", "-12.25", "0.000001", "0.0000001", "1e21", "1e20", "123456789.123e15", "5e-324",
    "1.7976931348623157e308", "333333333.33333329", "1e-400", "908998193700661.25", "9007199254740993", "1e400", "-1.5E400",
    "123456789012345678901234567890", "4.35", "0.1", "2.5e-7", "12345678.9e-3", "1e-6", "1e-7", "99999999999999999999.5", "0e5",
]
# Arguments that are texts: JSON in them is read.
BARE = [
    "ls", "",
    "{\"z\":1, \"path\":\"p\"}", " [2,\n1.0] ", "\"inner\"", "12", "1.0", "null", "true", "{\"a\":", "[\"\\ud800\"]", "NaN",
    "-0", "[" * 65 + "]" * 65, "[" * 64 + "]" * 64, "{\"a\":1,\"a\":2}", "\ufeff{}", "[1,]", "01", "'a'",
]


def source(random: random.Random, depth: int = 0) -> str:
    """JSON text of some value, with spaces and escapes that a writer would not make."""
    kind = random.choice(["text", "number", "word", "number"] + ["list", "object"] * (depth < 3))
    if kind == "text":
        return text(random, random.choice(TEXTS))
    if kind == "number":
        double = repr(random.uniform(-1, 1) * 10 ** random.randint(-30, 30))
        return random.choice([random.choice(NUMBERS), double, str(random.randint(-(2**70), 2**70))])
    if kind == "word":
        return random.choice(["null", "true", "false"])
    space = random.choice(["", " ", "\n\t"])
    if kind == "list":
        return f"[{space}" + f"{space},".join(source(random, depth + 1) for _ in range(random.randint(0, 3))) + "]"
    return members(random, random.choices(KEYS, k=random.randint(0, 5)), depth, space)


def members(random: random.Random, keys: list[str], depth: int, space: str = "") -> str:
    return "{" + f",{space}".join(f"{text(random, key)}{space}:{source(random, depth + 1)}" for key in keys) + space + "}"


def text(random: random.Random, value: str) -> str:
    return json.dumps(value, ensure_ascii=random.random() < 0.5).replace("/", random.choice(["/", "\\/"]))


def calls(count: int) -> list[tuple[str, str]]:
    """Tools with the JSON text of their arguments."""
    chance = random.Random(20260105)
    made = [(chance.choice(TOOLS), json.dumps(bare)) for bare in BARE]
    made += [("search", '{"n":' + number + "}") for number in NUMBERS]
    while len(made) < count:
        made.append((chance.choice(TOOLS), members(chance, chance.choices(KEYS, k=chance.randint(0, 6)), 0)))
    return made


def ask(program: str, asked: list[tuple[str, str]], turns: int, vary: bool, *options: str) -> list[dict[str, Any]]:
    """What the engine says of each call: `tool`, `args` (JSON text), `scope`. With `vary` an argument changes from turn to turn."""
    varied = {}
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.ndjson"
        with events.open("w", encoding="utf-8") as file:
            for number, (tool, args) in enumerate(asked):
                for turn in range(turns):
                    more = f'"zz":{turn}' + ("," if args[1:].strip("\n\t }") else "")
                    now = "{" + more + args[1:] if vary and args.startswith("{") else args
                    varied[number, turn] = now
                    file.write(
                        f'{{"id":"{turn}","kind":"tool","session_id":"{number}","tool":{json.dumps(tool)},"args":{now},'
                        f'"result":"e","outcome":"error","time":"2026-01-05T09:00:0{turn}Z"}}\n'
                    )
        command = [program, "replay", str(events), "--lanes", "1", "--output", "ndjson", *options]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found: dict[int, tuple[int, Any]] = {}
    for line in lines:
        said = json.loads(line)
        if "fingerprint" in said["scope"] and said["scope"].get("identity", {}).get("kind") != "opaque":
            found.setdefault(int(said["session_id"]), (int(said["trigger"]["event_id"]), said["scope"]))
    return [{"tool": asked[at][0], "args": varied[at, turn], "scope": scope} for at, (turn, scope) in sorted(found.items())]


def identities(program: str) -> list[dict[str, Any]]:
    """Whole calls, and calls of which only some arguments count."""
    return ask(program, calls(250), 3, False) + ask(program, calls(250), 6, True, "--policy", "attocode")
