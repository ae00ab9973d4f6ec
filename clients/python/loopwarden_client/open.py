"""Calls under way, where there is one question before and another one after."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

# Calls under way that are remembered; a call that is cancelled never ends.
OPEN_MAX = 1_000
Kept = TypeVar("Kept")


class Open(Generic[Kept]):
    """Steps of calls under way, by the framework's id of the call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: OrderedDict[object, Kept] = OrderedDict()

    def put(self, key: object, step: Kept) -> None:
        """Keeps a step until the call ends."""
        with self._lock:
            self._steps[key] = step
            if len(self._steps) > OPEN_MAX:
                self._steps.popitem(last=False)

    def take(self, key: object) -> Kept | None:
        """The step of a call that has ended; none where it was refused or never seen."""
        with self._lock:
            return self._steps.pop(key, None)
