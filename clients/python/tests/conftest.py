"""What all tests share: a guard of their own, a client of it, and scripts for fake models."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from fake_guard import FakeGuard  # noqa: E402

from loopwarden_client import Guard  # noqa: E402


@pytest.fixture
def fake() -> Iterator[FakeGuard]:
    with FakeGuard() as running:
        yield running
    # Whatever a test looks at, no adapter may send what a guard would refuse.
    assert running.rule.refused == []


@pytest.fixture
def guard(fake: FakeGuard) -> Iterator[Guard]:
    # Timing is not what these tests look at, and the machine may be busy.
    guard = Guard(fake.address, deadline_ms=10_000)
    yield guard
    guard.close()


@pytest.fixture
def real() -> Iterator[Guard]:
    """A client of the program itself, where there is one that answers checks."""
    program = os.environ.get("LOOPWARDEN") or shutil.which("loopwarden")
    if not program:
        pytest.skip("there is no program: LOOPWARDEN names none, and none is on the path")
    # It keeps its state out of directories for temporary files.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loopwarden"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="client-") as folder:
        command = [program, "run", "--data-dir", f"{folder}/data", "--set", "http.listen=127.0.0.1:0", "--set", "mode=live"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                assert process.stdout
                addresses = (re.search(r"http://127\.0\.0\.1:\d+", line) for line in process.stdout)
                address = next((found[0] for found in addresses if found), None)
                assert address, "the program ended, or said no address"
                guard = Guard(address, deadline_ms=10_000)
                if guard.check({"id": "x"}).failure == "status_404":
                    pytest.skip(f"{program} has no /v1/check")
                yield guard
            finally:
                process.terminate()
                process.stdout.read()
