"""schemathesis against the process with a log of its own: what the page of the interface says is what it does.

    python3 tests/openapi/run.py [SEED...]

Requests are made of src/docs/openapi.yaml, good ones and bad ones. Each answer must be one that the page names, good requests must be taken
and bad ones refused. Needs PyPI for the first run; skips with the reason where it cannot be reached.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/common"))
from embedded import running  # noqa: E402

PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", Path.home() / ".cache/loopwarden/target")) / "release/loopwarden"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "loopwarden"
# Hypothesis makes the requests: of another version, others.
PACKAGES = ["schemathesis==4.32.5", "hypothesis==6.170.17"]
SEEDS = ["1"]
EXAMPLES = "60"
RUN_WAIT_S = 500
SCHEMA = "config/schemas/tool-event.v1.schema.json"
# What people do and agents do not. Requests cannot be made of a schema with more conditions than the rest of it has.
ACTS = ["stop", "release", "answer"]


def without_acts(scratch):
    """A copy of the page whose events are those of agents. What a person sends has tests of its own (tests/it/http/stops.rs, answers.rs)."""
    event = json.loads((ROOT / SCHEMA).read_text())
    kinds = event["properties"]["kind"]["enum"]
    assert all(act in kinds for act in ACTS), kinds
    event["properties"]["kind"]["enum"] = [kind for kind in kinds if kind not in ACTS]
    marks = ["#/$defs/act"] + ['"const": "%s"' % act for act in ACTS]
    event["allOf"] = [part for part in event["allOf"] if not any(mark in json.dumps(part) for mark in marks)]
    event["required"].append("session_id")
    event["properties"]["scope"]["enum"] = ["agent", "session", "swarm", None]
    copy = Path(scratch) / "tool-event.json"
    copy.write_text(json.dumps(event))
    page = Path(scratch) / "openapi.yaml"
    page.write_text((ROOT / "src/docs/openapi.yaml").read_text().replace("../../" + SCHEMA, str(copy)))
    return page


def installed():
    """The program of schemathesis; None, with the reason printed, where it cannot be had."""
    home = CACHE / "tools" / "-".join(["schemathesis", *(package.split("==")[1] for package in PACKAGES)])
    if not (home / "complete").exists():
        pip = [home / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "20", *PACKAGES]
        for command in [[sys.executable, "-m", "venv", "--clear", home], pip]:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode != 0:
                lines = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
                return print("openapi: skipped, schemathesis cannot be installed: %s" % lines[-1])
        (home / "complete").touch()
    return home / "bin/st"


def main(seeds):
    schemathesis = installed()
    if schemathesis is None:
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    # It keeps its state out of directories for temporary files.
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="openapi-") as scratch:
        with running(PROGRAM, scratch) as listening:
            page = without_acts(scratch)
            for seed in seeds:
                asked = [schemathesis, "--config-file", ROOT / "tests/openapi/schemathesis.toml", "run", page]
                asked += ["--url", listening, "--seed", seed, "-n", EXAMPLES, "--no-color", "--continue-on-failure"]
                # It keeps failures where it runs.
                done = subprocess.run(asked, cwd=scratch, capture_output=True, text=True, timeout=RUN_WAIT_S)
                if done.returncode != 0:
                    sys.exit(done.stdout + done.stderr)
                counts = done.stdout.split("Test cases:")[1].split("\n")[1].strip()
                print(f"openapi: seed {seed}: {counts}, nothing was found")


main(sys.argv[1:] or SEEDS)
