"""Strands Agents: `Agent(..., hooks=[LoopwardenHooks(guard)])`.

The session is that of the agent's session manager, else one for each agent object, which is a conversation. An invocation may name
another: `agent("…", session_id="…")`.
"""

import threading
import uuid
from typing import Any
from weakref import WeakKeyDictionary

from strands.hooks import AfterToolCallEvent, BeforeToolCallEvent, HookProvider, HookRegistry

from ..aio import AsyncGuard, AsyncStep
from ..events import Call
from ..guard import Asking
from ..open import Open
from .shared import Owner


class LoopwardenHooks(HookProvider):
    """Asks the guard before and after each tool call. One object may serve several agents."""

    def __init__(self, guard: Asking | AsyncGuard, *, session_id: str | None = None, agent_id: str | None = None) -> None:
        self._owner = Owner(guard, session_id, agent_id)
        self._open: Open[AsyncStep] = Open()
        self._lock = threading.Lock()
        self._conversations: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def register_hooks(self, registry: HookRegistry, **_: Any) -> None:
        """Called by the agent."""
        registry.add_callback(BeforeToolCallEvent, self.before)
        registry.add_callback(AfterToolCallEvent, self.after)

    async def before(self, event: BeforeToolCallEvent) -> None:
        """A text in `cancel_tool` takes the place of the result."""
        use = event.tool_use
        call = Call(
            use["name"],
            use["input"],
            self._owner.session(self._session(event)),
            self._owner.agent(getattr(event.agent, "name", None)),
            use["toolUseId"],
            framework="strands",
        )
        step = AsyncStep(self._owner.aio, call)
        refusal = await step.refusal()
        if refusal is not None:
            event.cancel_tool = refusal
        else:
            self._open.put((id(event.agent), use["toolUseId"]), step)

    async def after(self, event: AfterToolCallEvent) -> None:
        """The text of a nudge becomes a part of the result. This runs for cancelled calls, too: they have no step."""
        step = self._open.take((id(event.agent), event.tool_use["toolUseId"]))
        if step is None or event.cancel_message:
            return
        result = event.result
        content = list(result.get("content") or [])
        if result.get("status") == "error":
            said = "\n".join(part["text"] for part in content if "text" in part)
            text = await step.note(error=event.exception or said)
        else:
            text = await step.note([part.get("text", part.get("json", sorted(part))) for part in content])
        if text:
            event.result = {**result, "content": [*content, {"text": text}]}

    def _session(self, event: BeforeToolCallEvent) -> str:
        manager = getattr(event.agent, "_session_manager", None)
        named = (event.invocation_state or {}).get("session_id") or getattr(manager, "session_id", None)
        if named:
            return str(named)
        with self._lock:
            return self._conversations.setdefault(event.agent, uuid.uuid4().hex)
