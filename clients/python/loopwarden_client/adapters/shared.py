"""What adapters share: whose call it is, and the calls under way where a framework has one hook before and another one after."""

import logging
import threading
import uuid
from collections import OrderedDict
from typing import Generic, TypeVar

from ..aio import AsyncGuard
from ..guard import Guard

log = logging.getLogger("loopwarden_client")


class Owner:
    """A guard with the session and the agent that stand in where the framework names none."""

    def __init__(self, guard: Guard | AsyncGuard, session_id: str | None = None, agent_id: str | None = None) -> None:
        self.guard = guard.guard if isinstance(guard, AsyncGuard) else guard
        self.aio = guard if isinstance(guard, AsyncGuard) else AsyncGuard(guard)
        self._session_id = session_id
        self._agent_id = agent_id

    def session(self, found: object = None) -> str:
        """The session that was asked for, else the one of the framework, else a random one for as long as the adapter lives."""
        if self._session_id is None and found:
            return str(found)
        if self._session_id is None:
            self._session_id = uuid.uuid4().hex
            # Runs that share a session look like one run that loops.
            log.warning("loopwarden: no session id is known; all runs of this adapter are session %s", self._session_id)
        return self._session_id

    def agent(self, found: object = None) -> str:
        """The agent that was asked for, else the one of the framework, else `main`."""
        return str(self._agent_id or found or "main")


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
