"""What adapters share: whose call it is."""

import logging
import uuid

from ..aio import AsyncGuard
from ..guard import Asking

log = logging.getLogger("loopwarden_client")


class Owner:
    """A guard with the session and the agent that stand in where the framework names none."""

    def __init__(self, guard: Asking | AsyncGuard, session_id: str | None = None, agent_id: str | None = None) -> None:
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
