"""What all tests share: a guard of their own, a client of it, and scripts for fake models."""

import sys
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
