"""Keeps a guard that is down from costing every call its deadline, and from filling the log."""

import logging
import threading
import time
from collections.abc import Callable

FAILURES_MAX = 3
OPEN_S = 5.0
WARNING_PAUSE_S = 60.0

log = logging.getLogger("loopwarden_client")


class Breaker:
    """Open for 5 seconds after three failures in a row. Then one request goes through and decides."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._open_until = 0.0
        self._warned_at: float | None = None

    def lets_through(self) -> bool:
        """Whether a request may be made now."""
        with self._lock:
            if self._failures < FAILURES_MAX:
                return True
            now = self._clock()
            if now < self._open_until:
                return False
            # One tries; the others wait for what comes of it.
            self._open_until = now + OPEN_S
            return True

    def succeeded(self) -> None:
        """The guard has answered."""
        with self._lock:
            self._failures = 0

    def failed(self, why: str) -> None:
        """It has not. Says so in the log, at most once a minute."""
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES_MAX:
                self._open_until = self._clock() + OPEN_S
        self.warn(f"the guard gave no answer ({why}); calls are allowed without it")

    def warn(self, text: str) -> None:
        """Writes a warning, unless there was one within the last minute."""
        with self._lock:
            now = self._clock()
            if self._warned_at is not None and now - self._warned_at < WARNING_PAUSE_S:
                return
            self._warned_at = now
        log.warning("loopwarden: %s", text)
