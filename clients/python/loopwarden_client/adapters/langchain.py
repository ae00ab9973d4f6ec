"""LangChain and LangGraph: `create_agent(..., middleware=[LoopwardenMiddleware(guard)])`.

The session is the `thread_id` of the run's configuration. Without LangChain's agents:
`ToolNode(tools, wrap_tool_call=m.wrap_tool_call, awrap_tool_call=m.awrap_tool_call)`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from langchain.agents.middleware import AgentMiddleware
from langchain.tools.tool_node import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from ..aio import AsyncGuard, AsyncStep
from ..events import Call
from ..guard import Asking, Step, add_to_error
from .shared import Owner

Answer: TypeAlias = ToolMessage | Command[Any]


class LoopwardenMiddleware(AgentMiddleware[Any, Any, Any]):
    """Asks the guard before and after each tool call. Place it first, before limiters and retries."""

    def __init__(self, guard: Asking | AsyncGuard, *, session_id: str | None = None, agent_id: str | None = None) -> None:
        super().__init__()
        self._owner = Owner(guard, session_id, agent_id)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Around a call of a synchronous run."""
        step = Step(self._owner.guard, self._call(request))
        refusal = step.refusal()
        if refusal is not None:
            return _refused(request, refusal)
        try:
            answer = handler(request)
        except GraphBubbleUp:
            raise  # the run pauses; the call is asked about again, under the same id, when it goes on
        except Exception as error:
            add_to_error(error, step.note(error=error))
            raise
        return _noted(answer, step.note(**_outcome(answer)))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]) -> Answer:
        """Around a call of an asynchronous run."""
        step = AsyncStep(self._owner.aio, self._call(request))
        refusal = await step.refusal()
        if refusal is not None:
            return _refused(request, refusal)
        try:
            answer = await handler(request)
        except GraphBubbleUp:
            raise
        except Exception as error:
            add_to_error(error, await step.note(error=error))
            raise
        return _noted(answer, await step.note(**_outcome(answer)))

    def _call(self, request: ToolCallRequest) -> Call:
        call, config = request.tool_call, getattr(request.runtime, "config", None) or {}
        return Call(
            call["name"],
            call["args"],
            self._owner.session((config.get("configurable") or {}).get("thread_id")),
            self._owner.agent((config.get("metadata") or {}).get("lc_agent_name")),
            call.get("id") or "",
            framework="langchain",
        )


def _refused(request: ToolCallRequest, text: str) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(content=text, tool_call_id=call["id"] or "", name=call["name"], status="error")


def _outcome(answer: Answer) -> dict[str, Any]:
    """What the tool said. Of a `Command`, which changes the state, only that it was given is known."""
    if not isinstance(answer, ToolMessage):
        return {"result": getattr(answer, "update", None)}
    return {"error": answer.text} if answer.status == "error" else {"result": answer.content}


def _noted(answer: Answer, text: str) -> Answer:
    if not text or not isinstance(answer, ToolMessage):
        return answer
    if isinstance(answer.content, list):
        return answer.model_copy(update={"content": [*answer.content, {"type": "text", "text": text}]})
    return answer.model_copy(update={"content": f"{answer.content}\n\n{text}"})
