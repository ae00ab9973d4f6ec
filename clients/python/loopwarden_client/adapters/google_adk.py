"""Google ADK: `App(..., plugins=[LoopwardenPlugin(guard)])`: all agents of the app.

The session is ADK's own. What a person writes is reported too, without its text: loops are then counted anew.
"""

from typing import Any

from google.adk.agents.invocation_context import InvocationContext
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from ..aio import AsyncGuard, AsyncStep
from ..events import Call, user_message
from ..guard import Asking, add_to_error
from ..open import Open
from .shared import Owner


class LoopwardenPlugin(BasePlugin):
    """Asks the guard before and after each tool call. Place it first in the list."""

    def __init__(self, guard: Asking | AsyncGuard, *, session_id: str | None = None, report_messages: bool = True) -> None:
        super().__init__(name="loopwarden")
        self._owner = Owner(guard, session_id)
        self._open: Open[AsyncStep] = Open()
        self._report_messages = report_messages

    async def on_user_message_callback(self, *, invocation_context: InvocationContext, user_message: Any) -> None:
        """Tells that a person has said something."""
        if self._report_messages:
            await self._owner.aio.observe(_said(self._owner.session(invocation_context.session.id), user_message))

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """A dictionary takes the place of the call."""
        call_id = tool_context.function_call_id
        call = Call(
            tool.name,
            dict(tool_args),
            self._owner.session(tool_context.session.id),
            self._owner.agent(tool_context.agent_name),
            call_id or "",
            framework="google-adk",
        )
        step = AsyncStep(self._owner.aio, call)
        refusal = await step.refusal()
        if refusal is None:
            self._open.put(_key(tool_context), step)
            return None
        return {"status": "blocked", "message": refusal}

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> dict[str, Any] | None:
        """A dictionary takes the place of the result. This runs for blocked calls, too: they have no step."""
        step = self._open.take(_key(tool_context))
        if step is None:
            return None
        is_error = isinstance(result, dict) and bool(result.get("error"))
        text = await (step.note(error=result["error"]) if is_error else step.note(result))
        if not text:
            return None
        return {**(result if isinstance(result, dict) else {"result": result}), "note": text}

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: Exception
    ) -> dict[str, Any] | None:
        """Tells of an error, which then goes on its way. A cancelled call has no outcome."""
        step = self._open.take(_key(tool_context))
        if step is not None and isinstance(error, Exception):
            add_to_error(error, await step.note(error=error))
        return None


def _key(context: ToolContext) -> object:
    return context.session.id, context.function_call_id or id(context)


def _said(session_id: str, message: Any) -> dict[str, Any]:
    parts = getattr(message, "parts", None) or []
    return user_message(session_id, "\n".join(part.text for part in parts if getattr(part, "text", None)))
