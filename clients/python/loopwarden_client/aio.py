"""The guard for asyncio. Questions run on threads, and not on asyncio streams, for three reasons:

- Streams belong to one event loop. Frameworks make loops of their own, one per run or per call, and a kept connection would be lost
  or used from the wrong one.
- A loop that is busy cannot count a deadline; a socket's own time-out can.
- There is one reader of HTTP, that of the standard library, and one place where hostile answers are met.

The price is a change of thread: measured 0.2 ms per question, on two busy cores, where a question takes 0.4 ms.
"""

import asyncio
import functools
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .decision import Decision
from .events import Call
from .guard import CAN, Asking, Function, Guard, Step, add, add_to_error, arguments

THREADS_MAX = 16
# What a thread that has met its deadline may take to come back. Seconds.
GRACE_S = 0.05


class _Threads:
    """One pool for the process. A child of a fork has none of its parent's threads and needs its own."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.pool = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="loopwarden")


_threads = _Threads()


class AsyncGuard:
    """As Guard, for coroutines: `AsyncGuard("unix:/path/to/socket")`, or `AsyncGuard(guard)` over the same connections."""

    def __init__(self, address: "str | Asking", **options: Any) -> None:
        self.guard: Asking = Guard(address, **options) if isinstance(address, str) else address

    async def check(self, event: Mapping[str, Any], *, can: Sequence[str] = CAN, record: bool = True) -> Decision:
        """Asks before a call."""
        return await self._ask(event, can, record)

    async def observe(self, event: Mapping[str, Any], *, can: Sequence[str] = CAN) -> Decision:
        """Tells what came of a call."""
        return await self._ask(event, can, True)

    def wrap(
        self, function: Function, *, session_id: str, agent_id: str = "main", tool: str | None = None
    ) -> Function:
        """The coroutine function, asking before and telling after each call. A refused call returns the guard's text."""

        @functools.wraps(function)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            call = Call(tool or function.__name__, arguments(function, args, kwargs), session_id, agent_id)
            step = AsyncStep(self, call)
            refusal = await step.refusal()
            if refusal is not None:
                return refusal
            try:
                result = await function(*args, **kwargs)
            except Exception as error:
                add_to_error(error, await step.note(error=error))
                raise
            return add(result, await step.note(result))

        return wrapped  # type: ignore[return-value]

    async def _ask(self, event: Mapping[str, Any], can: Sequence[str], record: bool) -> Decision:
        limit_s = self.guard.deadline_ms / 1_000
        deadline = time.monotonic() + limit_s
        try:
            # Waiting for a thread counts, too.
            asking = asyncio.get_running_loop().run_in_executor(
                _threads.pool, self.guard.ask, event, can, record, deadline
            )
            return await asyncio.wait_for(asking, limit_s + GRACE_S)
        except (asyncio.TimeoutError, TimeoutError):
            return Decision(failure="timeout")
        except Exception:  # noqa: BLE001 - no thread could be had; the promise is the same
            return Decision(failure="client_error")


class AsyncStep:
    """As Step, for coroutines."""

    def __init__(self, guard: "AsyncGuard | Asking", call: Call, can: Sequence[str] = CAN) -> None:
        self.guard = guard if isinstance(guard, AsyncGuard) else AsyncGuard(guard)
        self.step = Step(self.guard.guard, call, can)

    @property
    def decision(self) -> Decision:
        """The answer to the first question."""
        return self.step.decision

    async def refusal(self) -> str | None:
        """Asks before the call: the text to give in its place, or None where it may run."""
        return self.step.take(await self.guard.check(self.step.call.before(), can=self.step.can))

    async def note(self, result: object = None, *, error: object = None, outcome: str | None = None) -> str:
        """Tells what came of it: the text to add to the result, mostly empty."""
        event = self.step.call.after(result, error=error, outcome=outcome)
        return self.step.add(await self.guard.observe(event, can=self.step.can))
